#!/usr/bin/env python3
"""Tests that count_house.py finds a name outside its table."""

import tempfile
import unittest
from pathlib import Path

import count_house


class Tables(unittest.TestCase):
    def test_a_name_outside_its_table_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            texts = {"src/model/family.cpp": "Family::gpt2", "include/tessera/model/family.hpp": "Family::gpt2",
                     "src/model/parts.cpp": "if (a.family == Family::gpt2) {}", "src/shard/units.cpp": "// Family::gpt2",
                     "src/tokenizer/pattern.cpp": "PatternFamily::gpt2", "tests/model/test_parts.cpp": "Family::gpt2"}
            for name, text in texts.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, encoding="utf-8")
            found = count_house.outside_tables(root, list(texts))
            self.assertEqual({name: files for name, files in found.items() if files}, {"Family::": ["src/model/parts.cpp"]})


class Positional(unittest.TestCase):
    def test_fields_without_names_are_counted_and_statements_are_not(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            text = """Shape f() { return {1, g(2, 3), {4, 5}, 6, 7}; }
                      void g() { f({1, 2, 3, 4, 5}); h(1, {1, 2, 3, 4, 5}); k({1, 2}); }
                      Shape named{.a = 1, .b = 2, .c = 3, .d = 4, .e = 5};
                      Shape few{1, 2, 3, 4};
                      enum class Kind : int { a, b, c, d, e };
                      struct Body { int a, b; int c, d, e; };"""
            (root / "src").mkdir()
            (root / "src" / "a.cpp").write_text(text, encoding="utf-8")
            self.assertEqual(count_house.positional(root, ["src/a.cpp"]), {"src/a.cpp": 3})


if __name__ == "__main__":
    unittest.main()
