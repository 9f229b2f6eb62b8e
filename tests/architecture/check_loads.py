"""Checks in sm_90 machine code that kernels do not wait for their 16-byte loads one by one (cuobjdump, nvdisasm).

usage: check_loads.py CUOBJDUMP OBJECT...    (exit code 77 without the tools, or without code for sm_90)

A load that is alone under way from its issue to the wait for it costs a trip to memory by itself. Listings carry in each
instruction's encoding which of a warp's six scoreboards a load sets and which ones an instruction waits for.
"""

import os
import re
import shutil
import subprocess
import sys

# A kernel may have one load that is alone: all that it reads, or the gradient that a finished sum is added to.
MOST_ALONE = 1
# Kernel -> the most loads that are alone, and why.
EXCEPTIONS = {
    "token_gradient_kernel": (2, "the gradient that a token's sum is added to, in two places"),
    "group_sums_kernel": (5, "the many warps of a multiprocessor hide it: 88 to 97% of a copy's bandwidth"),
    "tree_sum_kernel": (8, "sums as many members as there are ranks; the network is slower"),
}
# Attention on tensor cores copies tiles asynchronously (cp.async), and its arithmetic bounds plain attention.
SKIPPED = ("attention_mma", "attention_plain")

INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(.*?);\s+/\* 0x[0-9a-f]{16} \*/\n\s+/\* 0x([0-9a-f]{16}) \*/", re.M)
WIDE_LOAD = re.compile(r"LDG\.\S*128")


class Instruction:
    """One line of a listing. `control` is the upper half of its encoding."""

    def __init__(self, address, text, control):
        guard = re.match(r"@(\S+)\s+(.*)", text)
        self.address, self.is_guarded = int(address, 16), guard is not None
        self.name, *self.operands = re.split(r"[\s,]+", (guard[2] if guard else text).strip())
        self.sets, self.waits = control >> 46 & 7, control >> 52 & 63
        self.is_wide_load = WIDE_LOAD.match(self.name) is not None


def successors(code):
    """For each instruction the numbers of those that may follow it."""
    number = {instruction.address: i for i, instruction in enumerate(code)}
    meeting, follow = {}, []  # meeting: barrier -> where its threads go on together
    for i, instruction in enumerate(code):
        after, kind = [i + 1] if i + 1 < len(code) else [], instruction.name.split(".")[0]
        if kind == "BSSY":
            meeting[instruction.operands[0]] = number[int(instruction.operands[1], 16)]
        elif kind == "BSYNC":
            after = [meeting[instruction.operands[0]]] + (after if instruction.is_guarded else [])
        elif kind == "BRA":
            is_conditional = instruction.is_guarded or len(instruction.operands) > 1
            after = [number[int(instruction.operands[-1], 16)]] + (after if is_conditional else [])
        elif kind in ("EXIT", "RET") and not instruction.is_guarded:
            after = []
        follow.append(after)
    return follow


def loads_together(code):
    """For each wide load the most of them that are under way while it is, over all paths."""
    follow, pending = successors(code), [frozenset() for _ in code]
    together, todo = {}, list(range(len(code)))
    while todo:
        i = todo.pop()
        under_way = {load for load in pending[i] if not code[i].waits >> code[load].sets & 1}
        if code[i].is_wide_load:
            under_way.add(i)
            for load in under_way:
                together[load] = max(together.get(load, 0), len(under_way))
        for after in follow[i]:
            if not under_way <= pending[after]:
                pending[after] |= under_way
                todo.append(after)
    return [together[load] for load in sorted(together)]


def kernels_of(listing):
    """(name, instructions) of each kernel."""
    for kernel in re.split(r"^\s+Function : ", listing, flags=re.M)[1:]:
        name, text = kernel.split("\n", 1)
        yield name, [Instruction(address, text, int(control, 16)) for address, text, control in INSTRUCTION.findall(text)]


def complaints(listing):
    """One line for each kernel with too many loads that are alone, and how many kernels were looked at."""
    wrong, count = [], 0
    for name, code in kernels_of(listing):
        known = [limit for kernel, (limit, _) in EXCEPTIONS.items() if kernel in name]
        together = loads_together(code)
        alone = together.count(1)
        count += 1
        if alone > (known[0] if known else MOST_ALONE):
            wrong.append(f"{name}: {alone} of its {len(together)} loads of 16 bytes are waited for one by one ({together})")
    return wrong, count


def main(tool, paths):
    folders = os.pathsep.join([os.path.dirname(tool), os.environ.get("PATH", "")])
    if not os.path.isfile(tool) or not shutil.which("nvdisasm", path=folders):
        print("no cuobjdump, or no nvdisasm, which it calls: skipped")
        return 77
    wrong, count = [], 0
    for path in (path for path in paths if ".cu." in path and not any(name in path for name in SKIPPED)):
        listing = subprocess.run([tool, "-sass", "-arch", "sm_90", path], check=True, capture_output=True, text=True,
                                 env={**os.environ, "PATH": folders}).stdout
        more, kernels = complaints(listing)
        wrong += more
        count += kernels
    if count == 0:
        print("no machine code for sm_90: skipped")
        return 77
    print("\n".join(wrong + [f"{count} kernels, {len(wrong)} complaints"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
