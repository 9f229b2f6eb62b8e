#!/usr/bin/env python3
"""Checks the order of the rooms: check_rooms.py ROOT. Prints a line per violation and exits 1 if there is one.

ROOT/CMakeLists.txt declares the rooms: tessera_room(X ROOMS Y Z ...). A file of room X may include public headers
("tessera/ROOM/...") of X and of the rooms that X declares, and private headers ("ROOM/...", in src/ROOM) of X alone.
Public headers include no private ones and start with #pragma once. Nothing but EMULATED includes the tests' emulator.
"""

import re
import sys
from pathlib import Path

# Where nvcc's keywords come from when the kernels are compiled over the emulator. No other file may know of it.
EMULATED = {"include/tessera/backend/cuda/launch.hpp", "src/backend/cuda/fill_pattern.cu", "src/kernels/cuda/intrinsics.cuh"}
MAIN = "main"  # src/main.cpp may use every room
DECLARATION = re.compile(r"^\s*tessera_room\(\s*(\w+)([^)]*)\)", re.MULTILINE)
SUFFIXES = {".hpp", ".cpp", ".cu", ".cuh", ".h"}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]')


def first_code_line(text):
    """The first line that is neither blank nor a // comment."""
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("//"):
            return line.strip()
    return ""


def declared_rooms(text):
    """{room: rooms that it may use}, from the text of CMakeLists.txt."""
    rooms = {}
    for name, arguments in DECLARATION.findall(text):
        uses = re.search(r"\bROOMS\b([^A-Z]*)", arguments)
        rooms[name] = uses.group(1).split() if uses else []
    return rooms


def room_of(path, folder, rooms):
    """The room that a file under `folder` belongs to; None for a folder that is no room."""
    parts = path.relative_to(folder).parts
    if len(parts) == 1:
        return MAIN if parts[0] == "main.cpp" else None
    return parts[0] if parts[0] in rooms else None


def check_include(included, room, is_public, rooms):
    """What is wrong with one include line, or None."""
    parts = included.split("/")
    if parts[0] == "emulator" or "/emulator/" in included:
        return f"includes {included} (the tests' emulator): nothing of it belongs into the product"
    is_ours = parts[0] == "tessera" and len(parts) > 2
    target = parts[1] if is_ours else parts[0]
    if is_ours and target not in rooms:
        return f"includes {included} (no room is called {target}): one of {' '.join(rooms)}"
    if target not in rooms or len(parts) == 1:
        return None
    allowed = list(rooms) if room == MAIN else [room, *rooms[room]]
    if is_ours and target not in allowed:
        return f"includes {included} ({target} is not declared for {room} in CMakeLists.txt): only {' '.join(allowed)}"
    if not is_ours and is_public:
        return f"includes {included} (a private header in a public one): only tessera/ROOM/..."
    if not is_ours and target != room:
        return f"includes {included} (private to {target}): only public headers of another room"
    return None


def check_file(path, root, folder, is_public, rooms):
    room = room_of(path, folder, rooms)
    name = path.relative_to(root)
    if room is None:
        return [f"{name}: lies in no room: one of {' '.join(rooms)}"]
    text = path.read_text(encoding="utf-8")
    problems = []
    if is_public and first_code_line(text) != "#pragma once":
        problems.append(f"{name}:1: starts without #pragma once")
    for number, line in enumerate(text.splitlines(), start=1):
        match = INCLUDE.match(line)
        if match and match.group(1).startswith("emulator/") and name.as_posix() in EMULATED:
            continue
        problem = check_include(match.group(1), room, is_public, rooms) if match else None
        if problem:
            problems.append(f"{name}:{number}: {problem}")
    return problems


def order_of(rooms):
    """A room may use rooms that are declared before it: so there is no circle."""
    names = list(rooms)
    return [f"CMakeLists.txt: {name} uses {used}, which is not declared before it"
            for place, name in enumerate(names) for used in rooms[name] if used not in names[:place]]


def check_tree(root):
    """All violations under root/include/tessera and root/src, and how many files were read."""
    rooms = declared_rooms((root / "CMakeLists.txt").read_text(encoding="utf-8"))
    problems, files = order_of(rooms), 0
    for folder, is_public in ((root / "include" / "tessera", True), (root / "src", False)):
        for path in sorted(folder.rglob("*")):
            if path.suffix in SUFFIXES:
                files += 1
                problems += check_file(path, root, folder, is_public, rooms)
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
