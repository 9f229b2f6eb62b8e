#!/usr/bin/env bash
# Plays tests/gpu/run.sh without a GPU: the emulated programs of a build stand in for the bundle's, stand-ins for
# nvidia-smi, compute-sanitizer and ncu for theirs, and models are tiny. It tests the stages, not the kernels.
#
#   tests/gpu/rehearse.sh BUILD_DIR [STAGE... | faults]
#
# Python: $PYTHON, or python3; with PyTorch in it the peers are played too, on the CPU. Fails where a stage fails, or
# leaves no line of results. NCCL must fail, for the emulated one knows one process only; then the stage is played once
# more with the staged communicator in NCCL's place, as it goes on where NCCL works. Without stages named, what run.sh
# does when things go wrong is played too: a case that hangs, one that leaves a process, a tool that cannot be used,
# a sanitizer with findings.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(realpath "$1")
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{bundle/bin,tools,tmp}

link() { ln -s "$build/bin/$1" "$work/bundle/bin/$2" && ln -s "$build/bin/$1" "$work/bundle/$2"; }
link tessera_emulated tessera
link test_emulated_kernels test_gpu_kernels
link mpi_emulated_comm test_gpu_comm
ln -s "$(command -v mpiexec)" "$(command -v ctest)" "$work/bundle/"

tool() { cat >"$work/tools/$1" && chmod +x "$work/tools/$1"; }
tool nvidia-smi <<'END'
#!/bin/sh
case "$*" in
  -L) for gpu in $(seq "${REHEARSE_GPUS:-1}"); do echo "GPU $gpu: emulated (UUID: none)"; done ;;
  *driver_version*) echo 0.0 ;;
  *"-l 5") exec sleep 1000 ;;
  *) echo "emulated, 4096 MiB, 0 MHz, 0 W" ;;
esac
END
tool compute-sanitizer <<'END'
#!/bin/sh
[ "$1" != --help ] || { echo "  --kernel-name arg"; exit; }
[ "$1 $2" = "--target-processes all" ] || exit 9
shift 2
[ "$1 $3 $5 $6" = "--tool --error-exitcode --kernel-name kns=tessera" ] || exit 9
tool=$2
shift 6
if [ "$tool" = memcheck ]; then
  [ "$1 $2" = "--report-api-errors no" ] || exit 9
  shift 2
fi
echo "========= COMPUTE-SANITIZER"
[ -z "$REHEARSE_UNUSABLE" ] || { echo "========= Error: Device not supported. Please refer to the documentation"; exit 1; }
if [ -n "$REHEARSE_BREAKS" ]; then
  echo "========= Internal Sanitizer Error: The Sanitizer failed to handle a hardware exception."
  [ "$REHEARSE_BREAKS" = silently ] || echo "========= Error: Race reported between Write access and Read access"
  echo "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)"
  exit 1
fi
"$@" || exit
found=${REHEARSE_FINDINGS:-0}
[ "$tool" = racecheck ] && echo "========= RACECHECK SUMMARY: $found hazards displayed ($found errors, 0 warnings)" ||
  echo "========= ERROR SUMMARY: $found errors"
END
tool ncu <<'END'
#!/bin/sh
while [ "${1#--}" != "$1" ]; do
  case $1 in --clock-control | --target-processes | --page | --print-units | --metrics) shift ;; esac
  shift
done
"$@" || exit
[ -z "$REHEARSE_UNUSABLE" ] || { echo "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission"; exit 1; }
echo '==PROF== Disconnected'
echo '"ID","Process ID","Kernel Name","Grid Size","dram__bytes_read.sum","dram__bytes_write.sum","gpu__time_duration.sum"'
echo '"","","","","byte","byte","ns"'
echo '"0","1","void tessera::norm<float>(int)","(1, 1, 1)","50,000,000","50,000,000","40,000"'
echo '"1","1","void tessera::norm<float>(int)","(1, 1, 1)","50,000,000","50,000,000","60,000"'
END
[[ -z ${PYTHON:-} ]] || tool python3 <<<"#!/bin/sh
exec '$PYTHON' \"\$@\""

results=$work/results.jsonl
# play STAGE...: one call of run.sh, its exit code returned.
play() {
  PATH=$work/tools:$PATH TMPDIR=$work/tmp TESSERA_BUNDLE=$work/bundle TESSERA_GPU_RESULTS=$results TESSERA_GPU_REHEARSAL=1 \
    TESSERA_GPU_JOBS=2 TESSERA_GPU_CASES="${TESSERA_GPU_CASES:-cast*,NaN*}" "$source/tests/gpu/run.sh" "$@"
}
fail() { echo "rehearse.sh: $*" >&2; exit 1; }
# expect CODE STAGE...: plays stages, one after the other in one call; each must leave a line of results.
expect() {
  local wanted=$1 code=0 stage
  shift
  play "$@" || code=$?
  ((code == wanted)) || fail "$* ended with $code instead of $wanted"
  for stage in "$@"; do
    grep -q "\"stage\":\"$stage\"" "$results" || fail "stage $stage left no result"
  done
}
# says TEXT: the last line of results has it.
says() { tail -n 1 "$results" | grep -q "$1" || fail "no '$1' in $(tail -n 1 "$results")"; }

faults() {
  REHEARSE_UNUSABLE=1 expect 0 memcheck profile
  says 'skipped.*ERR_NVGPUCTRPERM'
  grep -q 'memcheck.*skipped.*Device not supported' "$results" || fail "a sanitizer that cannot be used is not skipped"
  REHEARSE_FINDINGS=3 expect 1 racecheck
  says '0 passed, [1-9][0-9]* failed'
  # The sanitizer breaks down: no case was checked, and a finding before that still is one.
  REHEARSE_BREAKS=silently expect 0 racecheck
  says 'skipped.*0 passed, 0 failed.*[1-9][0-9]* not checked (the tool failed)'
  REHEARSE_BREAKS=loudly expect 1 racecheck
  says '0 passed, [1-9][0-9]* failed'
  TESSERA_GPU_STAGE_SECONDS=2 expect 1 golden  # no stage begins anything within its last five seconds
  says 'no time'
  # More GPUs on the machine than the process may use.
  REHEARSE_GPUS=8 TESSERA_GPU_STAGE_SECONDS=8 expect 1 nccl
  grep -q '2 ranks of one GPU' "$results" || fail "ranks for GPUs that cannot be used"
  rm "$work/bundle/bin/test_gpu_kernels"
  cat >"$work/bundle/bin/test_gpu_kernels" <<'END'
#!/bin/sh
[ -z "$REHEARSE_UNUSABLE" ] || { echo "skipped: too old a driver"; exit 77; }
[ "$1" != --list-test-names-only ] || { printf 'hangs\nis fine\nis for cores\n'; exit 3; }
[ "$1" != "is for cores" ] || { printf 'test cases: 1 | 1 passed\nassertions: - none -\n'; exit; }
[ "$1" = hangs ] && [ -z "$REHEARSE_OLD_CUDNN" ] && { sleep 600 & wait; }
[ "$1" != "is fine" ] || setsid sleep 600 &
[ -z "$TESSERA_TEST_ATTENTION" ] || { echo "cuDNN 9.1.0 is too old for attention. Use 9.16 or newer instead of libcudnn.so.9."; exit 1; }
echo 'All tests passed'
END
  chmod +x "$work/bundle/bin/test_gpu_kernels"
  TESSERA_GPU_CASES='' TESSERA_GPU_STAGE_SECONDS=8 expect 1 memcheck
  says 'too long.*1 passed, 0 failed, 1 without.*1 with nothing to assert'
  REHEARSE_UNUSABLE=1 play kernels && fail "a GPU that cannot be used is no failure"
  says 'machine.*failed.*too old a driver'
  TESSERA_GPU_CASES='' REHEARSE_OLD_CUDNN=1 expect 0 kernels
  grep -q 'attention by cuDNN.*skipped.*too old' "$results" || fail "a cuDNN that is too old is not skipped"
  rm "$work/bundle/tessera"
  tool ../bundle/tessera <<<"#!/bin/sh
echo \"tessera: error while loading shared libraries: libfmt.so.9: cannot open shared object file\" >&2
exit 1"
  play kernels && fail "a bundle that does not start is no failure"
  says 'machine.*the bundle.*failed.*libfmt.so.9'
}

# shellcheck source=/dev/null
source "$source/jobs/mpi_env.sh"
if [[ $# -gt 0 ]]; then
  for stage in "$@"; do
    case $stage in
      faults) faults ;;
      nccl) expect 1 nccl ;;
      *) expect 0 "$stage" ;;
    esac
  done
else
  # The calls of README.md.
  expect 0 smoke kernels golden bench_kernels strategies comm memcheck racecheck
  expect 1 speed_124m text nccl profile
  expect 0 bench_documents tuning smoke  # smoke once more: nothing of the first call is in its way
  ! grep '"result":"failed"' "$results" | grep -v '"stage":"nccl"' || fail "not only NCCL failed"
  expect 0 speed_qwen speed_1558m
  TESSERA_GPU_REHEARSAL_NCCL=staged expect 0 nccl
  [[ -s $work/gpu_logs.tar.gz ]] || fail "no logs were kept"
  faults
fi
"$source/tests/gpu/show_results.py" "$results"
[[ -s $work/gpu_logs.tar.gz ]] || fail "no logs were kept"
