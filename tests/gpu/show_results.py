#!/usr/bin/env python3
"""Prints results of tests/gpu/run.sh for reading: show_results.py gpu_results.jsonl..."""

import json
import sys

for path in sys.argv[1:]:
    for line in open(path):
        row = json.loads(line)
        if "date" in row:
            print(", ".join(f"{key}: {value}" for key, value in row.items() if key != "stage"))
            continue
        print(f"{row['stage']} | {row['name']} | {row['result']} | {row['seconds']} s")
        print("    " + row["detail"].rstrip().replace("\n", "\n    "))
