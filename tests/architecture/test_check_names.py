#!/usr/bin/env python3
"""check_names.py must find what it is there to find: each case is a small tree with one name twice, or none."""

import tempfile
import unittest
from pathlib import Path

from check_names import check_tree, classes


def in_tessera(text):
    return "namespace tessera {\n" + text + "\n}  // namespace tessera\n"


class CheckNames(unittest.TestCase):
    def problems(self, *texts, folder="src/io"):
        with tempfile.TemporaryDirectory() as root:
            for number, text in enumerate(texts):
                path = Path(root) / (folder if number else "include/tessera/data") / f"{number}.hpp"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return check_tree(Path(root))[0]

    def test_every_kind_of_class(self):
        kinds = ("class A {};", "struct A final : B<int> { int b; };", "enum class A : int { one };", "enum A { one };",
                 "template <class T>\nstruct A {\n  T t;\n};", "union A { int i; };", "class alignas(64) A\n    : public B {};",
                 "struct [[nodiscard]] A {};")
        for first in kinds:
            for second in kinds:
                self.assertEqual(self.problems(in_tessera(first), in_tessera(second)),
                                 ["tessera::A is defined 2 times (include/tessera/data/0.hpp, src/io/1.hpp): "
                                  "one class a name and namespace"], (first, second))

    def test_two_classes_of_one_name_that_may_be(self):
        taken = in_tessera("class A { enum class B { one }; };")
        for other in ("class A;", "namespace {\nclass A {};\n}", "namespace inner {\nclass A {};\n}", "class C { class A {}; };",
                      "template <>\nstruct A<int> {};", "// class A {};", "/* class A {}; */", 'auto text = "class A {";',
                      "A make(class A a) { return a; }", "struct B {};", "#define CLASS class A {"):
            self.assertEqual(self.problems(taken, in_tessera(other)), [], other)

    def test_a_stand_in_is_never_linked_beside_the_original(self):
        self.assertEqual(self.problems(in_tessera("class A {};"), in_tessera("class A {};"), folder="src/comm/cuda_absent"), [])

    def test_literals_do_not_hide_what_follows(self):
        text = in_tessera("constexpr int n = 1'000'000;\nconst char c = '{', d = '\"';\nclass A {};")
        self.assertEqual(classes(text), [("tessera", "A")])


if __name__ == "__main__":
    unittest.main()
