#!/usr/bin/env python3
"""check_modules.py must find what it is there to find: each case is a small tree with one violation, or none."""

import tempfile
import unittest
from pathlib import Path

from check_modules import Tree


MODULES = """tessera_module(base LIBRARIES fmt::fmt)
tessera_module(comm USES base LIBRARIES MPI::MPI_CXX)
tessera_module(model USES base)
tessera_module(shard USES base
  LIBRARIES hdf5)
tessera_module(engine USES comm model)
"""
# Each module uses what it declares.
USERS = {
    "src/comm/use.cpp": '#include "tessera/base/a.hpp"\n',
    "src/model/use.cpp": '#include "tessera/base/a.hpp"\n',
    "src/shard/use.cpp": '#include "tessera/base/a.hpp"\n',
    "src/engine/use.cpp": '#include "tessera/comm/a.hpp"\n#include "tessera/model/a.hpp"\n',
}


WINGS = """tessera_wing(ground)
tessera_module(base LIBRARIES fmt::fmt)
tessera_wing(machine USES ground)
tessera_module(comm USES base LIBRARIES MPI::MPI_CXX)
tessera_wing(model USES ground)
tessera_module(model USES base)
tessera_module(shard USES base LIBRARIES hdf5)
tessera_wing(step USES machine model)
tessera_module(engine USES comm model)
"""


class CheckModules(unittest.TestCase):
    def problems(self, files):
        files = {"CMakeLists.txt": MODULES, "cmake/Cuda.cmake": "set(TESSERA_CUDA_MODULES tessera_comm tessera_base)\n"} | USERS | files
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return Tree(Path(folder)).check()

    def test_modules_use_those_of_their_wing_and_of_the_wings_that_it_uses(self):
        self.assertEqual(self.problems({"CMakeLists.txt": WINGS}), [])
        self.assert_problem({"CMakeLists.txt": WINGS.replace("step USES machine model", "step USES model")},
                            "engine of wing step uses comm of wing machine")
        self.assert_problem({"CMakeLists.txt": WINGS.replace("tessera_wing(ground)", "tessera_wing(ground USES step)")},
                            "wing ground uses step, which is not declared before it")

    def assert_problem(self, files, text):
        problems = self.problems(files)
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(text, problems[0])

    def test_legal_tree(self):
        self.assertEqual(self.problems({
            "include/tessera/comm/a.hpp": '// why\n\n#pragma once\n#include <vector>\n#include "tessera/base/b.hpp"\n',
            "src/comm/mpi/a.cpp": '#include "comm/mpi/a.hpp"\n#include "tessera/comm/a.hpp"\n#include <mpi.h>\n',
            "src/main.cpp": '#include "tessera/engine/main.hpp"\n',
            "src/cuda/comm/a.cpp": '#include "cuda/comm/a.hpp"\n#include "comm/a.hpp"\n#include "tessera/cuda/a.hpp"\n',
            "src/cuda/absent.cpp": '#include "tessera/comm/a.hpp"\n',
        }), [])

    def test_upper_module_from_header(self):
        self.assert_problem({"include/tessera/base/a.hpp": '#pragma once\n#include "tessera/engine/e.hpp"\n'},
                            "a.hpp:2: includes tessera/engine/e.hpp (engine is not declared for base in CMakeLists.txt): only base")

    def test_upper_module_from_source_in_angle_brackets(self):
        self.assert_problem({"src/model/a.cu": "  # include <tessera/shard/units.hpp>\n"}, "shard is not declared for model")

    def test_module_that_is_declared_before_but_not_for_it(self):
        self.assert_problem({"src/shard/a.cpp": '#include "tessera/comm/grid.hpp"\n'}, "comm is not declared for shard")

    def test_modules_in_a_circle(self):
        self.assertIn("a uses b, which is not declared before", self.problems(
            {"CMakeLists.txt": "tessera_module(a USES b)\ntessera_module(b)\n"})[0])

    def test_declared_and_not_used(self):
        self.assert_problem({"src/engine/use.cpp": '#include "tessera/comm/a.hpp"\n'}, "engine declares model, of which none")

    def test_emulator(self):
        self.assert_problem({"src/comm/a.cpp": '#include "gpu_emulator/runtime/enqueue.hpp"\n'}, "(the GPU emulator)")

    def test_source_that_asks_for_the_emulator(self):
        self.assert_problem({"src/comm/a.cpp": "// EMULATED\n# if defined(TESSERA_CUDA_EMULATED)\n#endif\n"},
                            "a.cpp:2: asks for the GPU emulator")

    def test_cuda_outside_its_folder(self):
        self.assert_problem({"src/comm/a.cpp": '#include "tessera/cuda/check.hpp"\n'}, "(CUDA): only src/cuda may")

    def test_cuda_side_of_a_module_that_it_may_not_use(self):
        self.assert_problem({"src/cuda/comm/a.cpp": '#include "tessera/model/a.hpp"\n'}, "model is not declared for comm")

    def test_private_header_of_another_module(self):
        self.assert_problem({"src/engine/a.cpp": '#include "base/secret.hpp"\n'}, "private to base")

    def test_private_header_in_public_one(self):
        self.assert_problem({"include/tessera/base/a.hpp": '#pragma once\n#include "base/secret.hpp"\n'}, "private header")

    def test_unknown_module(self):
        self.assert_problem({"src/model/a.cpp": '#include "tessera/files/a.hpp"\n'}, "no module is called files")

    def test_file_outside_modules(self):
        self.assert_problem({"src/util/a.cpp": "\n"}, "lies in no module")

    def test_missing_pragma(self):
        self.assert_problem({"include/tessera/base/a.hpp": "#include <vector>\n#pragma once\n"}, "#pragma once")


if __name__ == "__main__":
    unittest.main()
