#!/usr/bin/env bash
# The full counts of property tests, fuzzing, faults and comparisons: the tests labelled `long`, with TESSERA_LONG=1 in
# their environment. Leaves a dated table and the full output under build/long/.
#
#   tests/long.sh [CTEST OPTIONS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

jobs/setup.sh --packages busybox-static buildah mmdebstrap munge slurmctld slurmd slurm-client iproute2 ||
  echo "long: no busybox, Buildah or Slurm can be installed: tests of the bundle are skipped" >&2
jobs/setup.sh ci
# shellcheck source=jobs/mpi_env.sh
source jobs/mpi_env.sh

stamp=$(date -u +%Y%m%d-%H%M%S)
mkdir -p build/long
results=$PWD/build/long/$stamp
status=0
TESSERA_LONG=1 ctest --test-dir build/ci -L '^long$' --no-tests=error --output-on-failure \
  --output-junit "$results.xml" --output-log "$results.log" "$@" || status=$?
if [[ -f $results.xml ]]; then
  /usr/bin/python3 tests/long_table.py "$results.xml" >"$results.md"
  cat "$results.md"
  echo "table: build/long/$stamp.md, output: build/long/$stamp.log"
fi
exit "$status"
