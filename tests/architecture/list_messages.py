#!/usr/bin/env python3
"""Lists the messages about bad input (base/refuse.hpp), as users read them: list_messages.py ROOT [--update].

Compares them with ROOT/tests/golden/messages.txt, a message a line below the file that it stands in, and exits 1 where
they differ, a part of one ends with a point, or a sentence begins with a small letter; --update (or TESSERA_UPDATE=1) writes that file. Whoever changes a
message sees it there among its neighbours. {} stands for what is only known at run time.
"""

import os
import re
import sys
from pathlib import Path

CALL = re.compile(r"(?:\bthrow|\breturn|=|\?|:)\s+(refuse|refusal)\(")
PART = re.compile(r"\s*\.\s*(because|use|hint)\(")
LINKS = {"because": ", because ", "use": ". Use ", "hint": ". "}
LOWER = re.compile(r"(?<=[a-z\d}])\. [a-z]")  # a sentence that begins with a small letter
LITERAL = re.compile(r'\s*"((?:[^"\\]|\\.)*)"')


def end_of_call(text, start):
    """The place behind the parenthesis that closes the one before `start`."""
    depth, at = 1, start
    while depth > 0:
        literal = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)+\'').match(text, at)
        at = literal.end() if literal else at + 1
        if not literal:
            depth += {"(": 1, ")": -1}.get(text[at - 1], 0)
    return at


def first_argument(text, start):
    """The literals at the start of a call's arguments as one; {} where the first argument is none. And what follows."""
    words, at = "", start
    while literal := LITERAL.match(text, at):
        words, at = words + literal.group(1), literal.end()
    return (words if at > start else "{}"), at


def messages_of(text):
    """(message, its parts) of every refusal in a source."""
    for call in CALL.finditer(text):
        problem, _ = first_argument(text, call.end())
        parts = [problem if call.group(1) == "refusal" else f"{problem} = {{}} does not work"]
        message, at = parts[0], end_of_call(text, call.end())
        while part := PART.match(text, at):
            parts.append(first_argument(text, part.end())[0])
            message += LINKS[part.group(1)] + parts[-1]
            at = end_of_call(text, part.end())
        yield message.replace('\\"', '"').replace("\\\\", "\\") + ".", parts


def all_messages(root):
    """The text of the golden file, and the messages that are not written as sentences."""
    out, bad = [], []
    for path in sorted([*(root / "src").rglob("*.?pp"), *(root / "include").rglob("*.hpp")]):
        found = list(messages_of(path.read_text(encoding="utf-8")))
        if not found or path.name == "refuse.hpp":
            continue
        out += [f"{path.relative_to(root).as_posix()}", *(f"  {message}" for message, _ in found), ""]
        bad += [f"{path}: {part}" for _, parts in found for part in parts if part.endswith(".")]
        bad += [f"{path}: {message}" for message, _ in found if LOWER.search(message.replace("tessera ", ""))]
    return "\n".join(out), bad


def main():
    root = Path(sys.argv[1])
    golden = root / "tests" / "golden" / "messages.txt"
    text, bad = all_messages(root)
    for part in bad:
        print(f"parts end without a point, which is added to them, and sentences begin with a capital: {part}")
    if "--update" in sys.argv or os.environ.get("TESSERA_UPDATE") == "1":
        golden.write_text(text, encoding="utf-8")
    old = golden.read_text(encoding="utf-8").splitlines() if golden.exists() else []
    changed = sorted(set(text.splitlines()) ^ set(old))
    for line in changed[:10]:
        print(f"{'new' if line in text.splitlines() else 'gone'}: {line.strip()}")
    if changed:
        print("tests/golden/messages.txt lists other messages: read them there after list_messages.py . --update")
    print(f"{text.count(chr(10) + '  ')} messages")
    return 1 if changed or bad or not text else 0


if __name__ == "__main__":
    sys.exit(main())
