#!/usr/bin/env python3
"""Checks who includes whom: check_modules.py ROOT. Prints a line per violation and exits 1 if there is one.

ROOT/CMakeLists.txt declares the modules: tessera_module(X USES Y Z ...). A file of module X may include public headers
("tessera/MODULE/...") of X and of the modules that X declares, and private headers ("MODULE/...", in src/MODULE) of X
alone. Some file of X must include each module that X declares. tessera_wing(W USES V ...) stands before the modules of
wing W, which may declare those of W and of the wings that W uses. src/cuda/X is the part of X that needs CUDA; only src/cuda includes
"tessera/cuda/...". Public headers include no private ones and start with #pragma once. Nothing includes gpu_emulator or
asks for it in an #if.
"""

import re
import sys
from pathlib import Path

from modules import CUDA, cuda_modules, declared_modules, declared_wings

MAIN = "main"  # src/main.cpp may use every module
SUFFIXES = {".hpp", ".cpp", ".cu", ".cuh", ".h"}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]')
# gpu_emulator stands in for CUDA by include path: no source asks whether it is there.
EMULATED = re.compile(r"^\s*#\s*(?:if|ifdef|ifndef|elif|define)\b.*EMULAT")


class Tree:
    def __init__(self, root):
        self.root = root
        self.uses = declared_modules(root)
        self.uses_of_cuda = cuda_modules(root)
        self.used = {name: set() for name in self.uses}  # the modules that files of each module include
        self.problems = self.order() + self.wings()
        self.files = 0

    def order(self):
        """A module may use only modules that are declared before it, so there is no circle."""
        names = list(self.uses)
        return [f"CMakeLists.txt: {name} uses {used}, which is not declared before it"
                for place, name in enumerate(names) for used in self.uses[name] if used not in names[:place]]

    def wings(self):
        """A wing uses wings that are declared before it, and its modules use those of their own wing and of these."""
        wings, problems = declared_wings(self.root), []
        names = list(wings)
        wing_of = {module: wing for wing, (_, modules) in wings.items() for module in modules}
        for place, (wing, (uses, modules)) in enumerate(wings.items()):
            problems += [f"CMakeLists.txt: wing {wing} uses {used}, which is not declared before it" for used in uses
                         if used not in names[:place]]
            problems += [f"CMakeLists.txt: {module} of wing {wing} uses {used} of wing {wing_of.get(used)}" for module in modules
                         for used in self.uses[module] if wing_of.get(used) not in (wing, *uses)]
        return problems

    def module_of(self, path, folder):
        """The module of a file and whether it lies in CUDA's folder; None for a file outside of all modules."""
        parts = path.relative_to(folder).parts
        if len(parts) == 1:
            return (MAIN, False) if parts[0] == "main.cpp" else (None, False)
        if parts[0] == CUDA:
            module = parts[1] if len(parts) > 2 else CUDA
            return (module, True) if module == CUDA or module in self.uses else (None, True)
        return (parts[0], False) if parts[0] in self.uses else (None, False)

    def allowed(self, module, is_cuda):
        if module == MAIN:
            return list(self.uses)
        if is_cuda:
            return [CUDA, *self.uses_of_cuda]
        return [module, *self.uses[module]]

    def check_include(self, included, module, is_cuda, is_public):
        """Returns the defect of one include line, or None."""
        parts = included.split("/")
        if parts[0].endswith("emulator"):
            return f"includes {included} (the GPU emulator): nothing of it belongs into production code"
        is_ours = parts[0] == "tessera" and len(parts) > 2
        target = parts[1] if is_ours else parts[0]
        if is_ours and target not in self.uses and target != CUDA:
            return f"includes {included} (no module is called {target}): one of {' '.join(self.uses)}"
        if len(parts) == 1 or target not in [*self.uses, CUDA]:
            return None
        allowed = self.allowed(module, is_cuda)
        if is_ours:
            if module in self.used and not is_cuda:
                self.used[module].add(target)
            if target == CUDA and not is_cuda:
                return f"includes {included} (CUDA): only src/cuda may"
            return None if target in allowed else (
                f"includes {included} ({target} is not declared for {module} in CMakeLists.txt): only {' '.join(allowed)}")
        if is_public:
            return f"includes {included} (a private header in a public one): only tessera/MODULE/..."
        if target not in ([CUDA, module] if is_cuda else [module]):
            return f"includes {included} (private to {target}): only public headers of another module"
        return None

    def check_file(self, path, folder, is_public):
        module, is_cuda = self.module_of(path, folder)
        name = path.relative_to(self.root)
        if module is None:
            return [f"{name}: lies in no module: one of {' '.join(self.uses)}"]
        text = path.read_text(encoding="utf-8")
        problems = []
        if is_public and first_code_line(text) != "#pragma once":
            problems.append(f"{name}:1: starts without #pragma once")
        for number, line in enumerate(text.splitlines(), start=1):
            match = INCLUDE.match(line)
            problem = self.check_include(match.group(1), module, is_cuda, is_public) if match else None
            if EMULATED.match(line):
                problem = "asks for the GPU emulator: what differs lies in gpu_emulator/include"
            if problem:
                problems.append(f"{name}:{number}: {problem}")
        return problems

    def check(self):
        for folder, is_public in ((self.root / "include" / "tessera", True), (self.root / "src", False)):
            for path in sorted(folder.rglob("*")):
                if path.suffix in SUFFIXES:
                    self.files += 1
                    self.problems += self.check_file(path, folder, is_public)
        return self.problems + self.unused()

    def unused(self):
        return [f"CMakeLists.txt: {name} declares {used}, of which none of its files includes anything: leave it out"
                for name, uses in self.uses.items() for used in uses if used not in self.used[name]]


def first_code_line(text):
    """The first line that is neither blank nor a // comment."""
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("//"):
            return line.strip()
    return ""


def main():
    tree = Tree(Path(sys.argv[1]))
    problems = tree.check()
    for problem in problems:
        print(problem)
    if tree.files == 0:
        print(f"{sys.argv[1]} holds no sources: name the root of the repository")
    print(f"{tree.files} files, {len(problems)} violations of the modules' order")
    return 1 if problems or tree.files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
