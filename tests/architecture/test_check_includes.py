#!/usr/bin/env python3
"""check_includes.py must find what it is there to find."""

import tempfile
import unittest
from pathlib import Path

from check_includes import check_tree

PUBLIC = "include/tessera/base/units.hpp"


class CheckIncludes(unittest.TestCase):
    def problems(self, **files):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in {PUBLIC: "class Unit {\n};\nconstexpr int kMost = 3;\nint size_of(const Unit& unit);\n",
                               "src/base/inner.hpp": '#include "tessera/base/units.hpp"\nstruct Inner {\n};\n',
                               **{f"src/base/{name}.cpp": text for name, text in files.items()}}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return check_tree(root)[0]

    def test_names_without_their_header(self):
        for text, name in (("Unit unit;", "Unit"), ("int a = kMost;", "kMost"), ("int a = size_of(b);", "size_of"),
                           ("tessera::Tree a; Inner inner;", "Inner")):
            found = self.problems(a=text)
            self.assertEqual(len(found), 1, text)
            self.assertRegex(found[0], f"^src/base/a.cpp: {name} needs")

    def test_names_that_are_included_hidden_or_no_code(self):
        for text in ('#include "tessera/base/units.hpp"\nUnit unit;', '#include "base/inner.hpp"\nint a = kMost;', "// Unit\n",
                     'auto a = "kMost";', "template <class Unit>\nUnit make();", "class Unit;\nUnit& one();",
                     "  static constexpr int kMost = 2;\n  int a = kMost;", "int a = b.size_of(c);", "int size_of = 3;"):
            self.assertEqual(self.problems(a=text), [], text)

    def test_one_source_does_not_serve_another(self):
        self.assertEqual(len(self.problems(a='#include "tessera/base/units.hpp"\n', b="Unit unit;")), 1)


if __name__ == "__main__":
    unittest.main()
