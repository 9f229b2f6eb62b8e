#!/usr/bin/env python3
"""Checks that a class name stands for one class: check_names.py ROOT. Prints a line per violation and exits 1 if there is one.

Two classes of one name in one namespace break the one-definition rule as soon as a program holds both: the linker keeps
one of their inline functions for both, without a word. An anonymous namespace is a source file's own, and the specialisations of a
template are not a second class.
"""

import re
import sys
from pathlib import Path

SUFFIXES = {".hpp", ".cpp", ".cu", ".cuh", ".h", ".inc"}
# Never in one program with the sources that they stand in for.
STAND_INS = {"cuda_absent"}
# Comments and literals; the quote of a digit separator (1'000) begins no literal.
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:\\\n|[^\n])*',
                      re.S | re.M)
OPENS = re.compile(r"[{};]")
NAMESPACE = re.compile(r"\bnamespace\b\s*([\w:]*)\s*$")
DEFINES = re.compile(r"\b(?:class|struct|union|enum(?:\s+class|\s+struct)?)\s+(?:alignas\s*\([^)]*\)\s*|\[\[[^\]]*\]\]\s*)*"
                     r"(\w+)\s*(?:final\s*)?(?::[^:].*)?$", re.S)


def classes(text):
    """(namespace, name) of every class that is defined at the level of a namespace, but for anonymous ones."""
    code = NOT_CODE.sub(" ", text)
    found, scopes, begin = [], [], 0  # a scope is the name of a namespace, "" of an anonymous one, None of anything else
    for brace in OPENS.finditer(code):
        before, begin = code[begin:brace.start()], brace.end()
        if brace[0] == "}":
            scopes = scopes[:-1]
        elif brace[0] == "{":
            namespace, definition = NAMESPACE.search(before), DEFINES.search(before)
            if definition and all(scopes) and "(" not in before[definition.start(1):]:
                found.append(("::".join(scopes), definition[1]))
            scopes = scopes + [namespace[1] if namespace else None]
    return found


def check_tree(root):
    """All violations under root/include and root/src, and how many files were read."""
    places, files = {}, 0
    for path in sorted([*(root / "include").rglob("*"), *(root / "src").rglob("*")]):
        if path.suffix not in SUFFIXES or STAND_INS & set(path.parts):
            continue
        files += 1
        for name in set(classes(path.read_text(encoding="utf-8"))):  # twice in one file: on two sides of an #ifdef
            places.setdefault(name, []).append(str(path.relative_to(root)))
    return [f"{namespace}::{name} is defined {len(where)} times ({', '.join(where)}): one class a name and namespace"
            for (namespace, name), where in sorted(places.items()) if len(where) > 1], files, len(places)


def main():
    problems, files, names = check_tree(Path(sys.argv[1]))
    for problem in problems:
        print(problem)
    print(f"{files} files, {names} classes, {len(problems)} names that stand for more than one")
    return 1 if problems or names == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
