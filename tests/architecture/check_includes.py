#!/usr/bin/env python3
"""Checks that a file includes what it names: check_includes.py ROOT. Prints a line per violation and exits 1 if there is one.

Most presets compile the sources of a module as one (TESSERA_UNITY), where a source finds what another one includes; `dev`
and `cuda` compile each alone, and no test has the minutes for that. So names are read instead: a type, a constant or a
free function that exactly one header of the tree declares needs that header among a file's includes, its own or a header's.
What a file declares inside of a class, a function or a template hides a header's name.
"""

import re
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

SUFFIXES = {".hpp", ".cpp", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
NO_CODE = re.compile(r"""^[ \t]*#[ \t]*include[^\n]*|//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)'(?:\\.|[^'\\\n])+'""",
                     re.DOTALL | re.MULTILINE)
DECLARED = [re.compile(pattern, re.MULTILINE) for pattern in (
    r"^(?:class|struct|enum class|union) (\w+)(?: final)?\s*(?:: [^;]*)?\{", r"^using (\w+) =",
    r"^(?:inline )?constexpr [^\n=({]*?\b(k[A-Z]\w*)",
    r"^(?!using|namespace|static_assert|return|friend|template)[A-Za-z_\[][^\n;={}()]*[ &*](\w+)\(")]
HIDING = [re.compile(pattern, re.MULTILINE) for pattern in (
    r"^ +(?!return|throw|else)[\w:\[][^\n;={}()]*[ &*](\w+)[({]",  # members, and variables with arguments
    r"[\w>&*] ?[&*]*(?<!return)(?<!throw) [&*]*(\w+)(?= = |[;,)\]:]| \{|\[)", r", (k\w+) = ",  # parameters, variables
    r"\b(?:enum class|class|struct|union|enum|using|typename|auto)(?:\.\.\.)? (\w+)", r"[<,] ?[\w:]+ (\w+)>",
    r"\b[A-Z_]{4,}\((\w+),")]  # macros that declare
WORD = re.compile(r"(?<![\w.])(?<!->)(?<!::)([A-Za-z_]\w*)(\s*\()?")


@cache
def text_of(path):
    return path.read_text(encoding="utf-8", errors="replace")


@cache
def code_of(path):
    return NO_CODE.sub(" ", text_of(path))


def found_in(path, patterns):
    return {name for pattern in patterns for name in pattern.findall(code_of(path))}


class Tree:
    def __init__(self, root):
        self.root = root
        self.files = [path for folder in ("include", "src", "tests", "gpu_emulator")
                      for path in sorted((root / folder).rglob("*")) if path.suffix in SUFFIXES]
        self.places = [root / folder for folder in ("include", "src", "tests", "gpu_emulator/include", "")]
        headers = defaultdict(set)
        for path in self.files:
            if path.suffix == ".hpp":
                for name in found_in(path, DECLARED):
                    headers[name].add(path)
        self.header_of = {name: next(iter(paths)) for name, paths in headers.items() if len(paths) == 1}

    @cache
    def includes(self, path):
        found = (next((place / name for place in [path.parent, *self.places] if (place / name).is_file()), None)
                 for name in INCLUDE.findall(text_of(path)))
        return [file.resolve() for file in found if file]

    def reached(self, path):
        """PATH and all files of the tree that it includes, through others too."""
        seen, left = {path}, [path]
        while left:
            new = set(self.includes(left.pop())) - seen
            seen |= new
            left += new
        return seen

    def may_include(self, path, header):
        """A header outside of include/ is for the files of its module, in src, src/cuda and tests."""
        if header.is_relative_to(self.root / "include"):
            return True
        path, header = ([part for part in file.relative_to(self.root).parts[:-1] if part not in ("src", "tests", "cuda", "emulated")]
                        for file in (path, header))
        return path[:1] == header[:1] or not header

    @cache
    def own(self, path):
        return found_in(path, DECLARED + HIDING)

    def missing(self, path):
        """{header: a name of it that PATH uses without including it}"""
        reached, found = self.reached(path), {}
        own = set().union(*(self.own(file) for file in reached))
        for name, call in WORD.findall(code_of(path)):
            header = self.header_of.get(name)
            named = call or name[0].isupper() or re.match("k[A-Z]", name)
            if header and named and header not in reached and name not in own and self.may_include(path, header):
                found.setdefault(header, name)
        return found


def check_tree(root):
    """All violations, and how many files were read."""
    tree = Tree(root.resolve())
    return [f"{path.relative_to(tree.root)}: {name} needs #include of {header.relative_to(tree.root)}"
            for path in tree.files for header, name in tree.missing(path).items()], len(tree.files)


def main():
    problems, files = check_tree(Path(sys.argv[1]))
    for problem in problems:
        print(problem)
    if files == 0:
        print(f"{sys.argv[1]} holds no sources: name the root of the repository")
    print(f"{files} files, {len(problems)} includes missing")
    return 1 if problems or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
