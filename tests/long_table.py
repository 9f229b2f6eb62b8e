#!/usr/bin/env python3
"""Turns CTest's JUnit file into a Markdown table: long_table.py RESULTS.xml.

A test says what it counted in lines that begin with "long:", which become the last column.
"""

import os
import platform
import subprocess
import sys
import xml.etree.ElementTree as xml


def revision():
    answer = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True)
    return answer.stdout.strip() or "unknown revision"


def row(case):
    """| test | result | seconds | counts |"""
    output = case.findtext("system-out") or ""
    counts = [line.removeprefix("long:").strip() for line in output.splitlines() if line.startswith("long:")]
    results = {"run": "passed", "fail": "FAILED", "notrun": "not run", "disabled": "disabled"}
    result = results.get(case.get("status"), case.get("status"))
    return f"| {case.get('name')} | {result} | {float(case.get('time', 0)):.1f} | {'; '.join(counts)} |"


def main():
    suite = xml.parse(sys.argv[1]).getroot()
    print(f"# Long tests, {suite.get('timestamp')}")
    print(f"\n{revision()}, {platform.platform()}, {os.cpu_count()} cores\n")
    print("| test | result | seconds | counts |")
    print("|---|---|---|---|")
    for case in suite.iter("testcase"):
        print(row(case))


if __name__ == "__main__":
    main()
