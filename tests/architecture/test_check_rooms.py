#!/usr/bin/env python3
"""check_rooms.py must find what it is there to find: each case is a small tree with one violation, or none."""

import tempfile
import unittest
from pathlib import Path

from check_rooms import check_tree


ROOMS = """tessera_room(base LIBRARIES fmt::fmt)
tessera_room(comm ROOMS base LIBRARIES MPI::MPI_CXX)
tessera_room(model ROOMS base)
tessera_room(io ROOMS base
  LIBRARIES hdf5)
tessera_room(shard ROOMS base model)
tessera_room(engine ROOMS base comm model shard)
tessera_room(app ROOMS base comm model shard engine)
"""


class CheckRooms(unittest.TestCase):
    def problems(self, files):
        files = {"CMakeLists.txt": ROOMS} | files
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return check_tree(Path(folder))[0]

    def assert_problem(self, files, text):
        problems = self.problems(files)
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(text, problems[0])

    def test_legal_tree(self):
        self.assertEqual(self.problems({
            "include/tessera/comm/a.hpp": '// why\n\n#pragma once\n#include <vector>\n#include "tessera/base/b.hpp"\n',
            "src/comm/mpi/a.cpp": '#include "comm/mpi/a.hpp"\n#include "tessera/comm/a.hpp"\n#include <mpi.h>\n',
            "src/main.cpp": '#include "tessera/app/main.hpp"\n',
        }), [])

    def test_lower_room_from_header(self):
        self.assert_problem({"include/tessera/base/a.hpp": '#pragma once\n#include "tessera/engine/e.hpp"\n'},
                            "a.hpp:2: includes tessera/engine/e.hpp (engine is not declared for base in CMakeLists.txt): only base")

    def test_lower_room_from_source_in_angle_brackets(self):
        self.assert_problem({"src/model/a.cu": "  # include <tessera/shard/units.hpp>\n"}, "shard is not declared for model")

    def test_room_that_is_declared_before_but_not_for_it(self):
        self.assert_problem({"src/shard/a.cpp": '#include "tessera/comm/grid.hpp"\n'}, "comm is not declared for shard")

    def test_rooms_in_a_circle(self):
        self.assert_problem({"CMakeLists.txt": "tessera_room(a ROOMS b)\ntessera_room(b)\n"}, "a uses b, which is not declared before")

    def test_emulator(self):
        self.assert_problem({"src/comm/a.cpp": '#include "emulator/runtime/enqueue.hpp"\n'}, "the tests' emulator")

    def test_private_header_of_another_room(self):
        self.assert_problem({"src/engine/a.cpp": '#include "base/secret.hpp"\n'}, "private to base")

    def test_private_header_in_public_one(self):
        self.assert_problem({"include/tessera/base/a.hpp": '#pragma once\n#include "base/secret.hpp"\n'}, "private header")

    def test_unknown_room(self):
        self.assert_problem({"src/io/a.cpp": '#include "tessera/files/a.hpp"\n'}, "no room is called files")

    def test_file_outside_rooms(self):
        self.assert_problem({"src/util/a.cpp": "\n"}, "lies in no room")

    def test_missing_pragma(self):
        self.assert_problem({"include/tessera/base/a.hpp": "#include <vector>\n#pragma once\n"}, "#pragma once")


if __name__ == "__main__":
    unittest.main()
