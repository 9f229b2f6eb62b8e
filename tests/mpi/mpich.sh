#!/usr/bin/env bash
# Builds communicators and what starts them with Debian's MPICH, and runs their tests: mpich.sh SOURCES BUILD
set -euo pipefail
sources=$1 build=$2
if ! command -v mpicxx.mpich mpiexec.mpich >/dev/null; then
  echo "skipped: no mpicxx.mpich or mpiexec.mpich (Debian's packages mpich, libmpich-dev)"
  exit 77
fi
cmake -S "$sources" --preset ci -B "$build" -DTESSERA_CUDA=OFF -DMPI_CXX_COMPILER="$(command -v mpicxx.mpich)" \
  -DMPIEXEC_EXECUTABLE="$(command -v mpiexec.mpich)" --log-level=WARNING
cmake --build "$build" --parallel 2 --target mpi_comm mpi_failing_rank mpi_failing_start
ctest --test-dir "$build" -R '^mpi\.(comm|fails\.(all_reduce|late|timeout|alone)|stops)' \
  -LE thorough --output-on-failure --no-tests=error
