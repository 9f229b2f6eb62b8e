#!/usr/bin/env python3
"""Compares the losses and gradient norms of run folders (log.jsonl): compare_runs.py [--relative 1e-5] FIRST OTHER...

Without --relative every digit must be the same. Prints the largest relative difference per folder; exits 1 when one is too far,
or when folders have different steps.
"""

import argparse
import json
import pathlib
import sys


def steps(folder):
    rows = [json.loads(line) for line in (pathlib.Path(folder) / "log.jsonl").read_text().splitlines()]
    return {row["step"]: (row["loss"], row["grad_norm"]) for row in rows if "loss" in row}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--relative", type=float, default=0.0)
    parser.add_argument("folders", nargs="+")
    args = parser.parse_args()
    first = steps(args.folders[0])
    status = 0 if first else 1
    for folder in args.folders[1:]:
        other = steps(folder)
        if other.keys() != first.keys():
            print(f"{folder}: steps {sorted(other)} instead of {sorted(first)}")
            status = 1
            continue
        # A NaN is never close: the comparison is false for it.
        apart = [abs(a - b) / max(abs(a), 1e-30) for step in first for a, b in zip(first[step], other[step])]
        close = all(value <= args.relative for value in apart)
        print(f"{folder}: {len(first)} steps, at most {max(apart):.3g} apart{'' if close else ': TOO FAR'}")
        status |= not close
    return status


if __name__ == "__main__":
    sys.exit(main())
