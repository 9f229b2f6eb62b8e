"""The modules as CMake declares them: the one list that checks and pictures read."""

import re

DECLARATION = re.compile(r"^\s*tessera_module\(\s*(\w+)([^)]*)\)", re.MULTILINE)
CUDA_MODULES = re.compile(r"set\(TESSERA_CUDA_MODULES([^)]*)\)")
CUDA = "cuda"  # src/cuda/M is the part of module M that needs CUDA


def declared_modules(root):
    """{module: modules that it may use}, from ROOT/CMakeLists.txt, lower layers first."""
    modules = {}
    for name, arguments in DECLARATION.findall((root / "CMakeLists.txt").read_text(encoding="utf-8")):
        uses = re.search(r"\bUSES\b([^A-Z]*)", arguments)
        modules[name] = uses.group(1).split() if uses else []
    return modules


def cuda_modules(root):
    """The modules that code in src/cuda may use, from ROOT/cmake/Cuda.cmake."""
    path = root / "cmake" / "Cuda.cmake"
    found = CUDA_MODULES.search(path.read_text(encoding="utf-8")) if path.exists() else None
    return [name.removeprefix("tessera_") for name in found.group(1).split()] if found else []
