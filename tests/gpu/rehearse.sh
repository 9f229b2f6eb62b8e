#!/usr/bin/env bash
# Plays tests/gpu/run.sh without a GPU: the emulated programs of a build stand in for the bundle's, stand-ins for
# nvidia-smi, compute-sanitizer and ncu for theirs, and models are tiny. It tests the script, not the kernels.
#
#   tests/gpu/rehearse.sh BUILD_DIR [STAGE...]
#
# Python: $PYTHON, or python3; with PyTorch in it the peers are played too, on the CPU. Fails where a stage fails, or
# leaves no line of results. NCCL must fail: the emulated one knows one process only.
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
ln -s "$(command -v mpiexec)" "$work/bundle/mpiexec"

tool() { cat >"$work/tools/$1" && chmod +x "$work/tools/$1"; }
tool nvidia-smi <<'END'
#!/bin/sh
case "$*" in
  -L) echo "GPU 0: emulated (UUID: none)" ;;
  *driver_version*) echo 0.0 ;;
  *) echo "emulated, 4096 MiB, 0 MHz, 0 W" ;;
esac
END
tool compute-sanitizer <<'END'
#!/bin/sh
[ "$1 $3" = "--tool --error-exitcode" ] || exit 9
shift 4
echo "========= COMPUTE-SANITIZER"
"$@" || exit
echo "========= ERROR SUMMARY: 0 errors"
END
tool ncu <<'END'
#!/bin/sh
while [ "${1#--}" != "$1" ]; do
  case $1 in --clock-control | --target-processes | --page | --print-units | --metrics) shift ;; esac
  shift
done
"$@" || exit
echo '==PROF== Disconnected'
echo '"ID","Process ID","Kernel Name","Grid Size","dram__bytes_read.sum","dram__bytes_write.sum","gpu__time_duration.sum"'
echo '"","","","","byte","byte","ns"'
echo '"0","1","void tessera::norm<float>(int)","(1, 1, 1)","50,000,000","50,000,000","40,000"'
echo '"1","1","void tessera::norm<float>(int)","(1, 1, 1)","50,000,000","50,000,000","60,000"'
END
[[ -z ${PYTHON:-} ]] || tool python3 <<<"#!/bin/sh
exec '$PYTHON' \"\$@\""

results=$work/results.jsonl
stages=("$@")
[[ $# -gt 0 ]] || stages=(kernels memcheck golden strategies comm nccl speed_124m bench_kernels speed_qwen speed_1558m profile racecheck)
# shellcheck source=/dev/null
source "$source/jobs/mpi_env.sh"
for stage in "${stages[@]}"; do
  code=0
  PATH=$work/tools:$PATH TMPDIR=$work/tmp TESSERA_BUNDLE=$work/bundle TESSERA_GPU_RESULTS=$results TESSERA_GPU_REHEARSAL=1 \
    TESSERA_GPU_CASES="${TESSERA_GPU_CASES:-cast*}" "$source/tests/gpu/run.sh" "$stage" || code=$?
  [[ $stage != nccl ]] || code=$((1 - code))
  ((code == 0)) || { echo "rehearse.sh: stage $stage ended with $code" >&2; exit 1; }
  grep -q "\"stage\":\"$stage\"" "$results" || { echo "rehearse.sh: stage $stage left no result" >&2; exit 1; }
done
"$source/tests/gpu/show_results.py" "$results"
[[ -s $work/gpu_logs.tar.gz ]] || { echo "rehearse.sh: no logs were kept" >&2; exit 1; }
