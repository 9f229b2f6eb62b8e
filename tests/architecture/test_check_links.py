#!/usr/bin/env python3
"""check_links.py must find what it is there to find: each case is a small tree with one thing that leads nowhere, or none."""

import tempfile
import unittest
from pathlib import Path

from check_links import check_tree

PAGE = "# A `page`: of 2 parts\n\n## [Second](../../README.md) part\n\n```\n# no heading\n[none](none.md)\n```\n"


class CheckLinks(unittest.TestCase):
    def problems(self, text, name="README.md"):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for file, content in {"README.md": "", "docs/manual/page.md": PAGE, name: text}.items():
                (root / file).parent.mkdir(parents=True, exist_ok=True)
                (root / file).write_text(content, encoding="utf-8")
            return check_tree(root)[0]

    def test_what_is_there(self):
        for link in ("docs/manual/page.md", "docs", "docs/manual/page.md#a-page-of-2-parts", "docs/manual/page.md#second-part",
                     "https://example.org/none.md"):
            self.assertEqual(self.problems(f"# Top\n[text]({link}) [text](#top)"), [])
        self.assertEqual(self.problems("// docs/manual/page.md, and tests/docs/none.md", "src/a.cpp"), [])

    def test_what_is_not(self):
        for link in ("none.md", "docs/none.md", "docs/manual/page.md#no-heading", "docs#page", "#none"):
            self.assertEqual(len([line for line in self.problems(f"[text]({link})") if f": {link} " in line]), 1, link)
        self.assertEqual(self.problems('"see docs/none.md"', "src/a.cpp"), ["src/a.cpp: docs/none.md is not there"])
        for mark in ("<" * 7, ">" * 7):
            self.assertEqual(self.problems(f"text\n{mark} main\n"), [f"README.md: {mark} main"])


if __name__ == "__main__":
    unittest.main()
