#!/usr/bin/env python3
"""Checks the order of the rooms: check_rooms.py ROOT. Prints a line per violation and exits 1 if there is one.

A file of room X may include public headers ("tessera/ROOM/...") of X and of rooms above X in ROOMS, and private headers
("ROOM/...", in src/ROOM) of X alone. Public headers include no private ones and start with #pragma once.
"""

import re
import sys
from pathlib import Path

ROOMS = ["base", "config", "backend", "comm", "kernels", "model", "shard", "schedule", "data", "io", "telemetry", "engine",
         "app"]
MAIN = len(ROOMS)  # src/main.cpp is below all rooms
SUFFIXES = {".hpp", ".cpp", ".cu", ".cuh", ".h"}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]')


def first_code_line(text):
    """The first line that is neither blank nor a // comment."""
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("//"):
            return line.strip()
    return ""


def room_of(path, folder):
    """(name, place in ROOMS) of the room that a file under `folder` belongs to; None for a folder that is no room."""
    parts = path.relative_to(folder).parts
    if len(parts) == 1:
        return ("main", MAIN) if parts[0] == "main.cpp" else None
    return (parts[0], ROOMS.index(parts[0])) if parts[0] in ROOMS else None


def check_include(included, room, place, is_public):
    """What is wrong with one include line, or None."""
    parts = included.split("/")
    is_ours = parts[0] == "tessera" and len(parts) > 2
    target = parts[1] if is_ours else parts[0]
    if is_ours and target not in ROOMS:
        return f"includes {included} (no room is called {target}): one of {' '.join(ROOMS)}"
    if target not in ROOMS or len(parts) == 1:
        return None
    if is_ours and ROOMS.index(target) > place:
        return f"includes {included} ({target} is below {room}): only {' '.join(ROOMS[: place + 1])}"
    if not is_ours and is_public:
        return f"includes {included} (a private header in a public one): only tessera/ROOM/..."
    if not is_ours and target != room:
        return f"includes {included} (private to {target}): only public headers of another room"
    return None


def check_file(path, root, folder, is_public):
    room = room_of(path, folder)
    name = path.relative_to(root)
    if room is None:
        return [f"{name}: lies in no room: one of {' '.join(ROOMS)}"]
    text = path.read_text(encoding="utf-8")
    problems = []
    if is_public and first_code_line(text) != "#pragma once":
        problems.append(f"{name}:1: starts without #pragma once")
    for number, line in enumerate(text.splitlines(), start=1):
        match = INCLUDE.match(line)
        problem = check_include(match.group(1), *room, is_public) if match else None
        if problem:
            problems.append(f"{name}:{number}: {problem}")
    return problems


def check_tree(root):
    """All violations under root/include/tessera and root/src, and how many files were read."""
    problems, files = [], 0
    for folder, is_public in ((root / "include" / "tessera", True), (root / "src", False)):
        for path in sorted(folder.rglob("*")):
            if path.suffix in SUFFIXES:
                files += 1
                problems += check_file(path, root, folder, is_public)
    return problems, files


def main():
    problems, files = check_tree(Path(sys.argv[1]))
    for problem in problems:
        print(problem)
    if files == 0:
        print(f"{sys.argv[1]} holds no sources: name the root of the repository")
    print(f"{files} files, {len(problems)} violations of the order of the rooms")
    return 1 if problems or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
