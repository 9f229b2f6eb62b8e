#!/usr/bin/env python3
"""Adds up what Nsight Compute counted (ncu --csv --page raw --print-units base): kernel_profile.py FILE.csv

Per kernel: launches, time, bytes that memory moved, and GB/s beside the fastest of the kernels that move 64 MB or more.
"""

import csv
import re
import sys
from collections import defaultdict

TIME, READ, WRITTEN = "gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"


def number(text):
    return float(text.replace(",", ""))


def launches(lines):
    """(kernel, seconds, bytes) of each; what the profiled program says goes before and between."""
    begin = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if begin is None:
        sys.exit("kernel_profile.py: no table of ncu in this file")
    for row in csv.DictReader(line for line in lines[begin:] if line.startswith('"')):
        if row["ID"]:
            yield row["Kernel Name"], number(row[TIME]) * 1e-9, number(row[READ]) + number(row[WRITTEN])
        elif row[TIME] not in ("ns", "nsecond") or {row[READ], row[WRITTEN]} != {"byte"}:  # the line of units
            sys.exit(f"kernel_profile.py: time in {row[TIME]} and bytes in {row[READ]}: --print-units base")


def short(name):
    """Strips arguments; template arguments stay, as far as there is space."""
    name = re.sub(r"^void |tessera::|\(anonymous namespace\)::|<unnamed>::", "", name)
    return name.split("(")[0][:60]


def main():
    sums = defaultdict(lambda: [0, 0.0, 0.0])
    with open(sys.argv[1], errors="replace") as file:
        for name, seconds, moved in launches(file.read().splitlines()):
            entry = sums[short(name)]
            entry[0] += 1
            entry[1] += seconds
            entry[2] += moved
    if not sums:
        sys.exit("kernel_profile.py: no kernel was profiled")
    total = sum(entry[1] for entry in sums.values())
    best = max((moved / seconds for _, seconds, moved in sums.values() if moved >= 64e6), default=0)
    print(f"{'kernel':<60} {'launches':>8} {'time us':>10} {'share':>6} {'MB':>10} {'GB/s':>8} {'of best':>8}")
    for name, (count, seconds, moved) in sorted(sums.items(), key=lambda item: -item[1][1]):
        share = f"{moved / seconds / best:.0%}" if best else "-"
        print(f"{name:<60} {count:>8} {seconds * 1e6:>10.1f} {seconds / total:>6.1%} {moved * 1e-6:>10.1f} {moved / seconds * 1e-9:>8.0f} {share:>8}")


if __name__ == "__main__":
    main()
