#!/usr/bin/env python3
"""check_tests.py must find what it is there to find: each case is a small tree of sources and tests."""

import tempfile
import unittest
from pathlib import Path

from check_tests import check_tree


class CheckTests(unittest.TestCase):
    def problems(self, files, parts):
        with tempfile.TemporaryDirectory() as root:
            for name in files:
                path = Path(root) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
            return check_tree(Path(root), parts)[0]

    def test_a_source_has_its_test_in_its_module(self):
        for test in ("tests/io/test_file.cpp", "tests/mpi/test_file.cpp", "tests/emulated/io/test_file.cpp"):
            self.assertEqual(self.problems(["src/io/deep/file.cpp", test], {}), [], test)
        for test in ("tests/other/test_file.cpp", "tests/io/file.cpp", "tests/io/test_file.py"):
            found, = self.problems(["src/io/file.cpp", test], {})
            self.assertIn("src/io/file.cpp has no tests/io/test_file.cpp", found)

    def test_a_part_is_named_with_the_test_of_the_whole(self):
        files = ["src/io/part.cpp", "tests/io/test_whole.cpp"]
        self.assertEqual(self.problems(files, {"io/test_whole.cpp": ["io/pa*.cpp"]}), [])
        self.assertIn("no tests/io/test_gone.cpp", self.problems(files, {"io/test_gone.cpp": ["io/part.cpp"]})[0])

    def test_the_table_holds_nothing_that_is_not_needed(self):
        files = ["src/io/part.cpp", "tests/io/test_part.cpp"]
        for pattern in ("io/part.cpp", "io/gone.cpp"):
            found, = self.problems(files, {"io": [pattern]})
            self.assertIn(f"{pattern} is no source without a test", found)


if __name__ == "__main__":
    unittest.main()
