#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests; the last lines are CTest's summary.
#
#   tests/run.sh [--sanitized] [CTEST OPTIONS]      for example: tests/run.sh -R golden
#
# Alone: build/ci with all tests but those labelled `thorough` or `long`, and a third of the drawn cases; a new build/ci gets
# CUDA, and the tests over an emulated GPU, only where an NVIDIA driver runs. With --sanitized: CUDA wherever there is a
# toolkit, all tests but those labelled `long`, and build/asan with the unit tests under AddressSanitizer and UBSan, and the
# memory that MPI programs leave (listed as asan.NAME).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

sanitized=
if [[ ${1:-} == --sanitized ]]; then
  sanitized=1
  shift
fi

# Installs what only thorough tests use. NVIDIA's cuobjdump, and the nvdisasm that it calls, which not every toolkit
# brings, are for `resources` and `loads`. The readers of event files and offline runs, for the tests
# `postprocess.tensorboard` and `postprocess.wandb`, lie apart, because they bring a numpy that Debian's h5py cannot take;
# so does pyarrow, for `cli.rows`, which Debian does not have (in a version for Debian's numpy).
tools=build/tools
install_for_tests() {
  local package
  for package in tensorboard wandb "pyarrow<20"; do
    [[ -e $tools/${package%%<*} ]] ||
      /usr/bin/python3 -m pip install --quiet --root-user-action=ignore --target "$tools/${package%%<*}" "$package" ||
      echo "tests: no $package can be had: its test is skipped" >&2
  done
  jobs/setup.sh --packages chromium chromium-driver python3-selenium ||
    echo "tests: no Chromium can be installed: the test 'postprocess.html_browser' is skipped" >&2
  jobs/setup.sh --packages mpich libmpich-dev ||
    echo "tests: no MPICH can be installed: the test 'mpi.mpich' is skipped" >&2
  jobs/setup.sh --packages munge slurmctld slurmd slurm-client iproute2 ||
    echo "tests: no Slurm can be installed: the test 'slurm' is skipped" >&2
}
if [[ -n $sanitized ]]; then
  jobs/setup.sh --packages python3-pip
  if [[ -n $(command -v nvcc || compgen -G '/usr/local/cuda*/bin/nvcc') && ! -e $tools/nvidia/cu13/bin/nvdisasm ]] && ! command -v nvdisasm >/dev/null; then
    python3 -m pip install --quiet --root-user-action=ignore --upgrade --target "$tools" nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm ||
      echo "tests: no cuobjdump can be had: the tests 'resources' and 'loads' are skipped" >&2
  fi
  install_for_tests &
  installing=$!
fi
if [[ -n $sanitized ]]; then jobs/setup.sh ci; else jobs/setup.sh ci --cuda-if-driver; fi
# shellcheck source=jobs/mpi_env.sh
source jobs/mpi_env.sh
if [[ -z $sanitized ]]; then
  export TESSERA_QUICK=1
  exec ctest --test-dir build/ci -LE '^(thorough|long)$' --parallel "$(nproc)" --no-tests=error --output-on-failure "$@"
fi
jobs/setup.sh asan
wait "$installing"

# One CTest run over both builds, so that one summary tells everything: build/tests lists build/ci as it is, and each unit
# test of build/asan under another name.
suite=build/tests
mkdir -p "$suite"
echo 'subdirs("../ci")' >"$suite/CTestTestfile.cmake"
asan_tests=$(ctest --test-dir build/asan -N -L '^(unit|leaks)$' | sed -n 's/^ *Test *#[0-9]*: *//p')
for name in $asan_tests; do
  cat >>"$suite/CTestTestfile.cmake" <<TEST
add_test("asan.$name" ctest --test-dir "$PWD/build/asan" -R "^$name\$" --no-tests=error --output-on-failure)
set_tests_properties("asan.$name" PROPERTIES LABELS "asan" TIMEOUT 900 COST 100)
TEST
done

# A broken invariant of memory or arithmetic ends the test that met it.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1:strict_string_checks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
exec ctest --test-dir "$suite" -LE '^long$' --parallel "$(nproc)" --no-tests=error --output-on-failure "$@"
