#!/usr/bin/env python3
"""Checks that no call of std::filesystem throws: check_paths.py ROOT. Prints a line per violation and exits 1 if there is one.

A path without permission, a loop of links or a name too long makes the overloads without std::error_code throw
filesystem_error, which ends the program with "a bug". So each call that looks at a disk passes an error_code last, and no
range-for goes over a directory_iterator (its ++ throws). A file that catches filesystem_error is left out.
"""

import re
import sys
from pathlib import Path

CALL = re.compile(r"\b(?:std::filesystem|fs)::(exists|is_\w+|file_size|remove|remove_all|rename|create_\w+|copy\w*|status|symlink_status|"
                  r"canonical|weakly_canonical|absolute|relative|proximate|equivalent|last_write_time|space|resize_file|"
                  r"current_path|temp_directory_path|read_symlink|hard_link_count|permissions|"
                  r"(?:recursive_)?directory_iterator)\b\s*(?:\w+\s*)?(\()")
ERROR_CODE = re.compile(r"std::error_code\s+([^;]+);")
MEMBER = re.compile(r"\.(is_directory|is_regular_file|is_symlink|file_size|exists|last_write_time)\(\)")


def arguments(text, opening):
    """The arguments of the call whose parenthesis opens there."""
    depth, start, found = 0, opening + 1, []
    for at in range(opening, len(text)):
        if text[at] in "([{":
            depth += 1
        elif text[at] in ")]}":
            depth -= 1
        if depth == 0 or (depth == 1 and text[at] == ","):
            found.append(text[start:at].strip())
            start = at + 1
        if depth == 0:
            return found
    return found


def check_text(name, text):
    codes = {code.strip() for names in ERROR_CODE.findall(text) for code in names.split(",")}
    if re.search(r"catch \(const (std::filesystem|fs)::filesystem_error&", text):
        return []
    problems = []
    for call in CALL.finditer(text):
        given = arguments(text, call.start(2))
        if given == [""] and "iterator" in call[1]:
            continue  # the end of a range
        if given[-1] not in codes:
            problems.append((call.start(), f"std::filesystem::{call[1]} without a std::error_code throws: pass one"))
    if "std::filesystem" in text:
        problems += [(call.start(), f".{call[1]}() throws: pass a std::error_code") for call in MEMBER.finditer(text)]
    return [f"{name}:{text.count(chr(10), 0, place) + 1}: {what}" for place, what in sorted(problems)]


def check_tree(root):
    """All violations under root/include and root/src, and how many files were read."""
    problems, files = [], 0
    for folder in (root / "include", root / "src"):
        for path in sorted(folder.rglob("*")):
            if path.suffix in {".hpp", ".cpp", ".cu", ".cuh"}:
                files += 1
                problems += check_text(path.relative_to(root), path.read_text(encoding="utf-8"))
    return problems, files


def main():
    problems, files = check_tree(Path(sys.argv[1]))
    for problem in problems:
        print(problem)
    if files == 0:
        print(f"{sys.argv[1]} holds no sources: name the root of the repository")
    print(f"{files} files, {len(problems)} calls on paths that may throw")
    return 1 if problems or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
