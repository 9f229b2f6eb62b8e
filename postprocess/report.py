#!/usr/bin/env python3
"""tessera-report without installing it: python3 postprocess/report.py RUN_OR_SWEEP... (--help lists the options)."""
import sys

from tessera_report.cli import main

if __name__ == "__main__":
    sys.exit(main())
