#!/usr/bin/env python3
"""list_messages.py must read refusals as users do."""

import tempfile
import unittest
from pathlib import Path

from list_messages import all_messages, messages_of


class ListMessages(unittest.TestCase):
    def reads(self, text, *messages):
        self.assertEqual([message for message, _ in messages_of(text)], list(messages))

    def test_parts(self):
        self.reads('throw refuse("optim.lr", f(lr, ")")).because("{} is {}",\n a, b(1)).use("0 to {}", 2);',
                   "optim.lr = {} does not work, because {} is {}. Use 0 to {}.")
        self.reads('return refusal("{} is "\n    "empty", path.string())\n      .hint("Give it some text");',
                   "{} is empty. Give it some text.")
        self.reads('throw refuse(name, value);', "{} = {} does not work.")
        self.reads(r'throw refusal("close it with \", or \\");', 'close it with ", or \\.')

    def test_other_functions(self):
        self.reads('refuse("another"); void refusal(int x); other.refuse("a", 1);')

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "src" / "b").mkdir(parents=True)
            (root / "src" / "b" / "a.cpp").write_text('throw refusal("one").use("two.");\n')
            (root / "src" / "b" / "none.cpp").write_text("int x;\n")
            text, bad = all_messages(root)
            self.assertEqual(text, "src/b/a.cpp\n  one. Use two..\n")
            self.assertEqual(len(bad), 1)
            (root / "src" / "b" / "a.cpp").write_text('throw refusal("one").hint("give two");\n')
            self.assertEqual(len(all_messages(root)[1]), 1)


if __name__ == "__main__":
    unittest.main()
