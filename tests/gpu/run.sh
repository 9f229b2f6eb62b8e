#!/usr/bin/env bash
# Tests and benchmarks on a real GPU, in stages of under 9 minutes each, which CTest runs (stages.cmake says what they are):
#
#   tests/gpu/run.sh [STAGE...]        without a stage: all of them, the most valuable first
#
# Needs a bundle of test binaries with CTest in it (CMake target bundle-tests), NVIDIA's driver, bash and Python 3.8; peers
# need PyTorch. Nothing else. README.md says how to carry it to a machine and run it there in few calls; rehearse.sh plays it
# without a GPU.
#   TESSERA_BUNDLE        the archive, or the folder it was unpacked into (default: the newest build/*/tessera-bundle-tests.tar.xz)
#   TESSERA_GPU_RESULTS   where results are added, one JSON object a line (default: $OUT or build, gpu_results.jsonl); logs
#                         lie beside it as gpu_logs.tar.gz
#   TESSERA_GPU_SECONDS   no stage goes on when this many seconds have passed since the start (default: no such limit)
#   TESSERA_GPU_STAGE_SECONDS  nor any stage longer than this (520)
#   TESSERA_GPU_CASES     only kernel cases whose names this pattern fits (Catch2's: 'attention*')
#   TESSERA_GPU_JOBS      kernel cases at a time (default: a quarter of the cores, at most 6)
# Results are written when each attempt ends. Exits 77 without a GPU, 1 when something failed, else 0.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
here=$PWD/tests/gpu
all=(smoke kernels golden text speed_124m bench_kernels bench_documents tuning strategies comm memcheck speed_qwen speed_1558m nccl profile racecheck)

# Other folders in which images of rented machines keep the driver's programs and libraries, and the toolkit's tools.
tools=$(printf ':%s\n' /usr/local/cuda-*/bin /opt/nvidia/nsight-compute/* | sort -rV)
PATH+=:/usr/local/nvidia/bin:/usr/local/cuda/bin${tools//$'\n'/}
for folder in /usr/local/nvidia/lib64 /usr/local/nvidia/lib; do
  [[ ! -d $folder ]] || export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
done

# CUDA tells later how many GPUs this process may use.
has_gpu() {
  if command -v nvidia-smi >/dev/null; then nvidia-smi -L | grep -q ^GPU; else compgen -G '/dev/nvidia[0-9]*' >/dev/null; fi
}
if [[ -z ${CUDA_VISIBLE_DEVICES-all} ]] || ! has_gpu; then
  echo "run.sh: no GPU on this machine: nothing was tested"
  exit 77
fi
stages=("${@:-${all[@]}}")
for stage in "${stages[@]}"; do
  [[ " ${all[*]} " == *" $stage "* ]] || { echo "run.sh: no stage is called $stage: ${all[*]}" >&2; exit 2; }
done

export results work=${TMPDIR:-/tmp}/tessera_gpu.$UID binaries gpus call=$$ nccl=${TESSERA_GPU_REHEARSAL_NCCL:-nccl} stage end
results=$(realpath -m "${TESSERA_GPU_RESULTS:-${OUT:-build}/gpu_results.jsonl}")
mkdir -p "$work" "${results%/*}"
archive=${TESSERA_BUNDLE:-$(ls -t build/*/tessera-bundle-tests.tar.xz 2>/dev/null | head -n 1)}
[[ -e $archive ]] || { echo "run.sh: no bundle $archive: build the target bundle-tests, or set TESSERA_BUNDLE" >&2; exit 2; }
binaries=$work/tessera-bundle-tests
if [[ -d $archive ]]; then
  binaries=$(realpath "$archive")
elif [[ ! $binaries/.unpacked -nt $archive ]]; then
  rm -rf "$binaries"
  # Where there is no xz, Python has one.
  tar -C "$work" -xf "$archive" || python3 -m tarfile -e "$archive" "$work" ||
    { echo "run.sh: $archive cannot be unpacked" >&2; exit 2; }
  touch "$binaries/.unpacked"
fi

# Folders of Python's packages: the first place where cuBLASLt, cuDNN and NCCL are looked for.
packages=$(python3 -c 'import site, sysconfig
print(*dict.fromkeys([sysconfig.get_paths()["purelib"], *site.getsitepackages(), site.getusersitepackages()]), sep=":")')
export packages TESSERA_LIBRARY_PATH=${TESSERA_LIBRARY_PATH:-$packages}

# A fact a line, for the log.
facts() {
  nvidia-smi
  nvidia-smi -q | head -n 150
  uname -a; cat /etc/os-release /proc/net/dev; hostname; ulimit -a; free -m; df -h /tmp /dev/shm
  env | grep -E '^(PATH|LD_|CUDA|NVIDIA|NCCL|OMPI|TORCH|TESSERA)'
  ldconfig -p | grep -E 'libcuda|nvidia-ml|cublasLt|cudnn|nccl|nvrtc'
  ls -l /usr/local/cuda*/lib64/lib{cublasLt,cudnn,nccl,nvrtc}.so.*
  for site in ${packages//:/ }; do
    ls -d "$site"/{nvidia_,torch-,triton-}*.dist-info
    ls -l "$site"/nvidia/*/lib/lib{cublasLt,cudnn,nccl,nvrtc}.so.*
  done
  compute-sanitizer --version; ncu --version; gcc --version | head -n 1; nvcc --version | tail -n 1
  dmesg | tail -n 40
}
export -f facts

result() { python3 -B "$here/results.py" "$@"; }
keep_logs() { (cd "$work" && tar -czf "${results%/*}/gpu_logs.tar.gz" ./*.log ./*.csv) 2>/dev/null; }
# unusable WHAT WHY: nothing would pass, and the reason is told once instead of by every stage.
unusable() {
  result note machine "$1" failed 0 "$2"
  exit 1
}

# Whatever ends this call ends what it has started, group by group.
set -m
trap 'exit 143' HUP INT TERM
trap '{ kill -- $(jobs -p | sed s/^/-/); "$here/steps.sh" sweep "$call-.*"; keep_logs; } 2>/dev/null' EXIT
# Whether a figure was measured on a GPU that was slowed down. It also keeps the GPU open, which the driver would start anew
# for every process where nothing else does.
nvidia-smi --query-gpu=timestamp,clocks.sm,clocks.mem,power.draw,temperature.gpu,utilization.gpu,memory.used --format=csv -l 5 \
  >"$work/clocks.csv" 2>&1 </dev/null &
# MPI's launcher and NCCL talk over the loopback, which may be down on a machine without a network.
python3 -c 'import fcntl, socket, struct
lo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
flags = struct.unpack("16sh", fcntl.ioctl(lo, 0x8913, struct.pack("16sh", b"lo", 0)))[1]  # SIOCGIFFLAGS
flags & 1 or fcntl.ioctl(lo, 0x8914, struct.pack("16sh", b"lo", flags | 1))  # SIOCSIFFLAGS, IFF_UP
' 2>/dev/null || echo "run.sh: whether the loopback is up is not known"
timeout 60 bash -c facts >"$work/machine.log" 2>&1 </dev/null

version=$(timeout 60 "$binaries/tessera" version 2>&1) || unusable "the bundle" "$version"
result machine "$version"
gpus=$(sed -n 's/^gpus  *\([0-9]*\).*/\1/p' <<<"$version")
((gpus > 0)) || unusable "the GPU" "$(grep ^gpus <<<"$version")"
cases=$(timeout 60 "$binaries/bin/test_gpu_kernels" --list-test-names-only ${TESSERA_GPU_CASES:+"$TESSERA_GPU_CASES"} 2>&1)
[[ $cases != skipped:* ]] || unusable "the GPU" "${cases#skipped: }"
[[ -n $cases && ! $cases =~ error\ while\ loading|not\ found\ \(required\ by ]] ||
  unusable "the bundle" "test_gpu_kernels says no cases: $cases"
echo "$cases" >"$work/cases"

# A quarter of the cores, at most 6: most of a kernel case's time is the host's.
jobs=${TESSERA_GPU_JOBS:-$(($(nproc) < 8 ? 1 : $(nproc) < 24 ? $(nproc) / 4 : 6))}
status=0
for stage in "${stages[@]}"; do
  left=$((${TESSERA_GPU_SECONDS:-1000000} - SECONDS))
  ((left < ${TESSERA_GPU_STAGE_SECONDS:=520})) || left=$TESSERA_GPU_STAGE_SECONDS
  if ((left < 5)); then
    result note "$stage" stage "no time" 0 "the time is over"
    status=1
    continue
  fi
  rm -rf "$work"/{ctest,smoke.*,*.algorithms}  # an earlier call may have left them, of another bundle
  mkdir "$work/ctest" && touch "$work/ctest/names"
  echo "include(\"$here/stages.cmake\")" >"$work/ctest/CTestTestfile.cmake"
  end=$(($(date +%s) + left))
  # The stop time is one of a day, and CTest knows no time zones of half an hour.
  TZ=UTC0 "$binaries/ctest" --test-dir "$work/ctest" -V -L "^$stage\$" -j "$jobs" --stop-time "$(date -u -d "@$end" +%T)" \
    2>&1 </dev/null | tee "$work/$stage.log" | result stage "$stage" &
  wait $! || status=1
  "$here/steps.sh" sweep "$call-.*"
  keep_logs
done
echo "results: $results"
exit $status
