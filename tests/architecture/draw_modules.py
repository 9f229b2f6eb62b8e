#!/usr/bin/env python3
"""Draws the modules and their wings as CMake declares them into ROOT/src/README.md: draw_modules.py ROOT [--update].

Without --update, exits 1 where the picture there is not that of CMakeLists.txt. An arrow that follows from others is left out.
"""

import re
import sys
from pathlib import Path

from modules import declared_modules, declared_wings

BLOCK = re.compile(r"```mermaid\nflowchart BT\n.*?```\n", re.DOTALL)


def reachable(uses, name):
    """All modules below `name`."""
    below = set()
    for used in uses[name]:
        below |= {used} | reachable(uses, used)
    return below


def direct(uses, name):
    """The modules that `name` uses and that none of the others it uses does."""
    return [used for used in uses[name] if not any(used in reachable(uses, other) for other in uses[name] if other != used)]


def picture(uses, wings):
    """A box for each wing with its modules, arrows between wings, and between the modules of one wing."""
    lines = []
    for wing, (used_wings, modules) in wings.items():
        own = {name: [used for used in uses[name] if used in modules] for name in modules}
        arrows = [f"    {name} --> {' & '.join(direct(own, name))}" for name in modules if own[name]]
        alone = [f"    {name}" for name in modules if not own[name] and not any(name in used for used in own.values())]
        lines += [f"  subgraph w_{wing}[{wing}]", *alone, *arrows, "  end"]
    below = {wing: used for wing, (used, _) in wings.items()}
    lines += [f"  w_{wing} --> {' & '.join(f'w_{used}' for used in direct(below, wing))}" for wing in wings if below[wing]]
    return "```mermaid\nflowchart BT\n" + "\n".join(lines) + "\n```\n"


def main():
    root = Path(sys.argv[1])
    page = root / "src" / "README.md"
    text = page.read_text(encoding="utf-8")
    drawn = picture(declared_modules(root), declared_wings(root))
    if len(BLOCK.findall(text)) != 1:
        print(f"{page}: wants one block of mermaid that begins with `flowchart BT`")
        return 1
    if "--update" in sys.argv:
        page.write_text(BLOCK.sub(lambda _: drawn, text), encoding="utf-8")
    elif drawn not in text:
        print(f"{page}: the picture of the modules is not that of CMakeLists.txt: draw_modules.py . --update")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
