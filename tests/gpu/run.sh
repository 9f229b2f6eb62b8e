#!/bin/sh
exec python3 -B "$(dirname "$0")/run.py" "$@"  # tests and benchmarks on a real GPU: run.py says which, and what they need
