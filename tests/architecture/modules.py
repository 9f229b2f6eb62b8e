"""The modules as CMake declares them: the one list that checks and pictures read."""

import re

DECLARATION = re.compile(r"^\s*tessera_(module|wing)\(\s*(\w+)([^)]*)\)", re.MULTILINE)
CUDA_MODULES = re.compile(r"set\(TESSERA_CUDA_MODULES([^)]*)\)")
CUDA = "cuda"  # src/cuda/M is the part of module M that needs CUDA


def _declarations(root):
    """Yields what is declared in ROOT/CMakeLists.txt, in order: whether it is a wing, its name, and what it may use."""
    for kind, name, arguments in DECLARATION.findall((root / "CMakeLists.txt").read_text(encoding="utf-8")):
        uses = re.search(r"\bUSES\b([^A-Z]*)", arguments)
        yield kind == "wing", name, uses.group(1).split() if uses else []


def declared_modules(root):
    """{module: modules that it may use}, lower layers first."""
    return {name: uses for is_wing, name, uses in _declarations(root) if not is_wing}


def declared_wings(root):
    """{wing: (wings that it may use, its modules)}, lower ones first."""
    wings = {}
    for is_wing, name, uses in _declarations(root):
        if is_wing:
            wings[name] = (uses, [])
        elif wings:
            list(wings.values())[-1][1].append(name)
    return wings


def cuda_modules(root):
    """The modules that code in src/cuda may use, from ROOT/cmake/Cuda.cmake."""
    path = root / "cmake" / "Cuda.cmake"
    found = CUDA_MODULES.search(path.read_text(encoding="utf-8")) if path.exists() else None
    return [name.removeprefix("tessera_") for name in found.group(1).split()] if found else []
