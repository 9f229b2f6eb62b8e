#!/usr/bin/env python3
"""check_rooms.py must find what it is there to find: each case is a small tree with one violation, or none."""

import tempfile
import unittest
from pathlib import Path

from check_rooms import check_tree


class CheckRooms(unittest.TestCase):
    def problems(self, files):
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
                            "a.hpp:2: includes tessera/engine/e.hpp (engine is below base)")

    def test_lower_room_from_source_in_angle_brackets(self):
        self.assert_problem({"src/model/a.cu": "  # include <tessera/shard/units.hpp>\n"}, "shard is below model")

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
