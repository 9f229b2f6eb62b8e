"""Checks each kernel's resources (cuobjdump): no local memory, and registers for every thread of a block.

usage: check_resources.py CUOBJDUMP OBJECT...    (exit code 77 where there is no CUOBJDUMP)
"""

import os
import re
import subprocess
import sys

# Kernels that keep arrays in local memory on purpose: partial sums of more than eight ranks, and the exact sum of a step.
LOCAL_MEMORY = ("tree_sum_kernel", "clip_kernel")
REGISTERS, MOST_THREADS, SHARED = 65536, 1024, 48 * 1024

USAGE = re.compile(r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")
INFO = re.compile(r"^\.nv\.info\.(\S+)|Attribute:\s+EIATTR_MAX_THREADS\s+Format:.*\s+Value:\s+((?:0x[0-9a-f]+ ?){3})", re.M)


def block_sizes(elf):
    """Kernel -> the largest block that it is compiled for (__launch_bounds__)."""
    sizes, kernel = {}, None
    for found in INFO.finditer(elf):
        if found[1]:
            kernel = found[1]
        else:
            x, y, z = (int(number, 16) for number in found[2].split())
            sizes[kernel] = x * y * z
    return sizes


def complaints(usage, elf):
    """One line for each thing that is wrong, and how many kernels were looked at."""
    sizes, wrong, kernels = block_sizes(elf), [], USAGE.findall(usage)
    for name, *numbers in kernels:
        registers, stack, shared, local = map(int, numbers)
        threads = -(-sizes.get(name, MOST_THREADS) // 32) * 32
        if stack + local > 0 and not any(known in name for known in LOCAL_MEMORY):
            wrong.append(f"{name}: {stack + local} bytes of local memory")
        if -(-registers // 8) * 8 * threads > REGISTERS:
            wrong.append(f"{name}: {registers} registers for each of {threads} threads (a block has {REGISTERS})")
        if shared > SHARED:
            wrong.append(f"{name}: {shared} bytes of static shared memory")
    return wrong, len(kernels)


def dump(tool, option, path):
    return subprocess.run([tool, option, path], check=True, capture_output=True, text=True).stdout


def main(tool, paths):
    if not os.path.isfile(tool):
        print("no cuobjdump: skipped")
        return 77
    wrong, count = [], 0
    for path in (path for path in paths if ".cu." in os.path.basename(path)):
        more, kernels = complaints(dump(tool, "--dump-resource-usage", path), dump(tool, "--dump-elf", path))
        wrong += more
        count += kernels
    print("\n".join(wrong + [f"{count} kernels, {len(wrong)} complaints"]))
    return 1 if wrong or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
