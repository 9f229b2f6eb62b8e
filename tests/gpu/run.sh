#!/usr/bin/env bash
# Tests and benchmarks on a real GPU, in stages of under 9 minutes each, the most valuable first:
#
#   tests/gpu/run.sh [STAGE...]        without a stage: all of them
#
#   smoke         a kernel, a product, cuDNN's attention, a few steps, two ranks: which layer is broken, in two minutes
#   kernels       every kernel against the reference in double precision, a process for each case
#   golden        the golden models on one rank: the GPU's losses and norms against the CPU's
#   speed_124m    GPT-2 124M: tokens/s, MFU, compared with PyTorch in several settings
#   bench_kernels every kernel of the three models' steps: bytes, FLOPs, time, shares of the measured ceilings
#   strategies    several ranks on one GPU, staged: every strategy has the same bits
#   comm          collectives of several ranks on one GPU, staged
#   memcheck      the kernels' cases under compute-sanitizer's memcheck
#   speed_qwen    Qwen2.5-1.5B, as speed_124m
#   speed_1558m   GPT-2 1558M, likewise
#   nccl          collectives and training over NCCL, eagerly and as graphs: a GPU for each rank, or several on one where
#                 NCCL can be brought to it
#   profile       each kernel by itself under Nsight Compute: time and bytes moved
#   racecheck     the kernels under compute-sanitizer's racecheck
#
# Needs a bundle of test binaries (CMake target bundle-tests), NVIDIA's driver, Python 3; peers need PyTorch. Nothing else.
# tests/gpu/README.md says how to carry it to a machine and run it there in few calls; rehearse.sh plays it without a GPU.
#   TESSERA_BUNDLE        the archive, or the folder it was unpacked into (default: the newest build/*/tessera-bundle-tests.tar.xz)
#   TESSERA_GPU_RESULTS   where results are added, one JSON object a line (default: $OUT or build, gpu_results.jsonl); logs
#                         lie beside it as gpu_logs.tar.gz
#   TESSERA_GPU_SECONDS   no stage goes on when this many seconds have passed since the start (default: no such limit)
#   TESSERA_GPU_STAGE_SECONDS  nor any stage longer than this (520)
#   TESSERA_GPU_CASES     only kernel cases whose names this pattern fits (Catch2's: 'attention*')
#   TESSERA_GPU_JOBS      kernel cases at a time (default: a quarter of the cores, at most 6)
# Results are written when each attempt ends. Exits 77 without a GPU, 1 when something failed, else 0.
# shellcheck disable=SC2317,SC2086 # functions are called by their stages' names
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
here=$PWD/tests/gpu

# Other folders in which images of rented machines keep the driver's programs and libraries.
PATH=$PATH:/usr/local/nvidia/bin:/usr/local/cuda/bin
for folder in /usr/local/nvidia/lib64 /usr/local/nvidia/lib; do
  [[ ! -d $folder ]] || export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
done

# Whether there is any; how many this process may use, CUDA says (count_gpus).
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
# shellcheck disable=SC2012
((gpus > 0)) || command -v nvidia-smi >/dev/null || gpus=$(ls /dev/nvidia[0-9]* 2>/dev/null | wc -l)
if [[ -n ${CUDA_VISIBLE_DEVICES+set} && -z $CUDA_VISIBLE_DEVICES ]] || ((gpus == 0)); then
  echo "run.sh: no GPU on this machine: nothing was tested"
  exit 77
fi

all_stages=(smoke kernels golden speed_124m bench_kernels strategies comm memcheck speed_qwen speed_1558m nccl profile racecheck)
stages=("$@")
[[ $# -gt 0 ]] || stages=("${all_stages[@]}")
for stage in "${stages[@]}"; do
  [[ " ${all_stages[*]} " == *" $stage "* ]] || { echo "run.sh: no stage is called $stage: ${all_stages[*]}" >&2; exit 2; }
done

# The models of the speed targets: preset, sequence, micro-batch; how often; PyTorch's settings, the most promising first.
model_124m="gpt2-124m 1024 64"
model_1558m="gpt2-1558m 1024 16"
model_qwen="qwen2-1.5b 1024 16"
bench_steps=20 setting_seconds=150 kernel_repetitions=(--bench.steps=10 --bench.warmup=3)
settings_small=whole,whole-cudnn,blocks,fsdp2,eager settings_large=blocks,blocks-cudnn,fsdp2,whole,eager
strategy_model=--train.steps=12 comm_bytes=64MiB nccl_bytes=16MiB nccl_backend=nccl
peer_device=cuda token_values=32768
golden_models=(clipped deep shallow llama3 qwen2-tied qwen2-untied)
if [[ -n ${TESSERA_GPU_REHEARSAL:-} ]]; then  # rehearse.sh: the same way through, in little
  model_124m="nano 16 1" model_1558m="nano 16 1" model_qwen="nano 16 1"
  bench_steps=1 kernel_repetitions=(--bench.steps=1 --bench.warmup=0)
  settings_small=eager settings_large=fsdp2-eager
  strategy_model="--train.steps=4 --model.layers=1 --model.heads=2 --model.width=16 --model.context=8"
  comm_bytes=4KiB nccl_bytes=4KiB nccl_backend=${TESSERA_GPU_REHEARSAL_NCCL:-nccl}
  peer_device=cpu token_values=256
  golden_models=(shallow)
fi

work=${TMPDIR:-/tmp}/tessera_gpu.$UID
mkdir -p "$work"
results=${TESSERA_GPU_RESULTS:-${OUT:-build}/gpu_results.jsonl}
mkdir -p "$(dirname "$results")"
failures=0

# Seconds that the running stage has left.
time_left() {
  local left=$((${TESSERA_GPU_STAGE_SECONDS:-520} - (SECONDS - stage_start)))
  [[ -z ${TESSERA_GPU_SECONDS:-} ]] || ((left < TESSERA_GPU_SECONDS - SECONDS)) || left=$((TESSERA_GPU_SECONDS - SECONDS))
  echo "$left"
}

# unpack: sets `bundle` to the folder with the binaries.
unpack() {
  local archive=${TESSERA_BUNDLE:-}
  # shellcheck disable=SC2012
  [[ -n $archive ]] || archive=$(ls -t build/*/tessera-bundle-tests.tar.xz 2>/dev/null | head -1)
  [[ -n $archive ]] || { echo "run.sh: no bundle: build the target bundle-tests, or set TESSERA_BUNDLE" >&2; exit 2; }
  if [[ -d $archive ]]; then
    bundle=$(realpath "$archive")
    return
  fi
  bundle=$work/tessera-bundle-tests
  if [[ ! -e $bundle/.unpacked || $archive -nt $bundle/.unpacked ]]; then
    rm -rf "$bundle"
    # Where there is no xz, Python has one.
    tar -C "$work" -xf "$archive" 2>"$work/unpack.err" ||
      python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$archive" "$work" 2>>"$work/unpack.err" ||
      { echo "run.sh: $archive cannot be unpacked:" >&2; cat "$work/unpack.err" >&2; exit 2; }
    touch "$bundle/.unpacked"
  fi
}

# note STAGE NAME RESULT SECONDS DETAIL: a line of results; of DETAIL only plain text, without quotes and backslashes.
note() {
  local detail
  detail=$(printf '%s\n' "$5" | sed 's/\x1b\[[0-9;]*m//g' | LC_ALL=C tr -cd '\012\040\041\043-\133\135-\176' | head -c 12000 | awk '{printf "%s%s", (NR > 1 ? "\\n" : ""), $0}')
  printf '{"stage":"%s","name":"%s","result":"%s","seconds":%s,"detail":"%s"}\n' "$1" "$2" "$3" "$4" "$detail" >>"$results"
  printf '%-13s %-44s %-8s %6s s\n' "$1" "$2" "$3" "$4"
}

# Open MPI's additions when a rank fails: they tell nothing.
mpiexec_says='^-{40,}$|^mpiexec detected|^the job to be terminated|^  Process name:|^  Exit code:|^Primary job|^a non-zero exit code'

# telling LOG: of what a command said before it failed, where it first speaks of a failure, the end, and what is new in the
# kernel's log about GPU faults and memory that ran out.
telling() {
  local last=14 said
  said=$(grep -vE "$mpiexec_says|^step +[0-9]" "$1")
  if (($(wc -l <<<"$said") > last)); then
    head -n -$last <<<"$said" | grep -m 1 -A 11 -E 'FAILED|TOO FAR|[Ee]rror|ERROR|terminate called|Traceback' && echo ...
  fi
  tail -n $last <<<"$said"
  cat "$work"/nccl.*.log 2>/dev/null | grep 'NCCL WARN' | tail -n 3
  dmesg 2>/dev/null | tail -n "+$((kernel_lines + 1))" | grep -E 'NVRM|Xid|[Oo]ut of memory|segfault' | tail -n 3
}

# sweep: ends processes that an attempt has left behind; they would compute during the next one. (A program that was not
# started by mpiexec has a daemon of MPI, which ends a moment later.)
sweep() {
  local pid name
  # shellcheck disable=SC2013
  for pid in $(grep -lsz "^TESSERA_GPU_ATTEMPT=$$\$" /proc/[0-9]*/environ | cut -d/ -f3); do
    name=$(cat "/proc/$pid/comm" 2>/dev/null)
    kill -KILL "$pid" 2>/dev/null && [[ $name != orted ]] && echo "run.sh: process $pid ($name) was left behind"
  done
}

# attempt STAGE NAME COMMAND...: runs it within what the stage has left, or `most` seconds, and notes the result with the
# last `lines`.
attempt() {
  local stage=$1 name=$2 start=$SECONDS left code result log
  shift 2
  log=$work/$stage.$(tr -c 'a-zA-Z0-9\n' _ <<<"$name").log
  left=$(time_left)
  if ((left < 5)); then
    note "$stage" "$name" "no time" 0 "the stage's time is over"
    failures=$((failures + 1))
    return 1
  fi
  ((left < ${most:-$left})) || left=${most:-$left}
  TESSERA_GPU_ATTEMPT=$$ timeout -k 5 "$left" "$@" >"$log" 2>&1 </dev/null
  code=$?
  sweep >>"$log"
  case $code in
    0) result=passed ;;
    77) result=skipped ;;
    124 | 137) result="too long" ;;
    *) result=failed ;;
  esac
  if [[ $result == passed || $result == skipped ]]; then
    note "$stage" "$name" "$result" $((SECONDS - start)) "$(grep -vE "$mpiexec_says" "$log" | tail -n "${lines:-4}")"
  else
    note "$stage" "$name" "$result" $((SECONDS - start)) "exit code $code after at most $left s"$'\n'"$(telling "$log")"
    failures=$((failures + 1))
    telling "$log" | sed 's/^/    /'
  fi
  return $code
}

# has BINARY STAGE: notes it as skipped where the bundle has not got it.
has() {
  [[ -x $bundle/$1 ]] && return 0
  note "$2" "$1" skipped 0 "not in this bundle"
  return 1
}

# Facts about this machine for the logs.
machine() {
  local site
  nvidia-smi
  nvidia-smi -q | head -n 150
  uname -a; cat /etc/os-release /proc/net/dev; hostname; ulimit -a; free -m; df -h /tmp /dev/shm
  env | grep -E '^(PATH|LD_|CUDA|NVIDIA|NCCL|OMPI|TORCH|TESSERA)'
  ldconfig -p | grep -E 'libcuda|nvidia-ml|cublasLt|cudnn|nccl|nvrtc'
  ls -l /usr/local/cuda*/lib64/lib{cublasLt,cudnn,nccl,nvrtc}.so.*
  while IFS= read -r -d : site; do
    ls -d "$site"/{nvidia_*,torch-*,triton-*}.dist-info
    ls -l "$site"/nvidia/*/lib/lib{cublasLt,cudnn,nccl,nvrtc}.so.*
  done <<<"$packages:"
  compute-sanitizer --version; ncu --version; gcc --version | head -n 1; nvcc --version | tail -n 1
  dmesg | tail -n 40
}

# Versions of NVIDIA's libraries among Python's packages: the first place where cuBLASLt, cuDNN and NCCL are looked for.
library_versions() {
  local site
  while IFS= read -r -d : site; do
    # shellcheck disable=SC2012
    ls "$site" 2>/dev/null | sed -n -E 's/^(nvidia_(cublas|cudnn|nccl|cuda_nvrtc)[a-z0-9_]*-[0-9.]+)\.dist-info$/\1/p'
  done <<<"$packages:" | sort -u | tr '\n' ' '
}

header() {
  local hardware driver
  timeout 60 bash -c machine >"$work/machine.log" 2>&1 </dev/null
  hardware=$(nvidia-smi --query-gpu=name,memory.total,clocks.max.sm,power.limit --format=csv,noheader | sort | uniq -c | tr '\n' ';')
  driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1)
  printf '{"stage":"machine","date":"%s","gpus":"%s","driver":"%s","cores":%s,"kernel":"%s","tessera":"%s","pytorch":"%s","libraries":"%s"}\n' \
    "$(date -u +%FT%TZ)" "$hardware" "$driver" "$(nproc)" "$(uname -r)" \
    "$("$bundle/tessera" version 2>&1 | tr -s ' \n' ' ' | tr -d '\042\134')" \
    "$(timeout 20 python3 -c 'import importlib.metadata; print(importlib.metadata.version("torch"))' 2>/dev/null)" \
    "$(library_versions)" >>"$results"
}

# watch: clocks, power and temperature every five seconds, for the logs: whether a figure was measured on a GPU that was
# slowed down. It also keeps the GPU open, which the driver would start anew for every process where nothing else does.
watch() {
  nvidia-smi --query-gpu=timestamp,clocks.sm,clocks.mem,power.draw,temperature.gpu,utilization.gpu,memory.used --format=csv -l 5 \
    >"$work/clocks.csv" 2>&1 </dev/null &
  watcher=$!
  trap 'kill "$watcher" 2>/dev/null' EXIT
}

# MPI's launcher and NCCL talk over the loopback, which may be down on a machine without a network.
raise_loopback() {
  python3 -c 'import fcntl, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
name, flags = struct.unpack("16sh", fcntl.ioctl(s, 0x8913, struct.pack("16sh", b"lo", 0)))
if not flags & 1:
    fcntl.ioctl(s, 0x8914, struct.pack("16sh", b"lo", flags | 1))
    print("run.sh: the loopback was down; it is up now")' || echo "run.sh: whether the loopback is up is not known"
}

train() { "$bundle/tessera" train --run.deterministic=true --metrics.every=1 --data.order=sequential --data.val_fraction=0 "$@"; }

# A sanitizer's text when it has found nothing.
clean_summary='(ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards)'

# judge OUTPUT CODE BEFORE...: whether a case passed, failed, took too long, or its tool cannot be used here. A case
# counts when its output ends as Catch2's does, and its sanitizer's as a sanitizer's.
judge() {
  local output=$1 code=$2
  shift 2
  if [[ $# -gt 0 ]] && grep -qE 'Device not supported|No attachable process|LibraryNotLoaded' "$output"; then
    echo unusable
  elif ((code == 124 || code == 137)); then
    echo "too long"
  elif ((code == 0)) && grep -q '^All tests passed' "$output" && { [[ $# -eq 0 ]] || grep -qE "$clean_summary" "$output"; }; then
    echo passed
  else
    echo failed
  fi
}

# each_case STAGE MOST BEFORE...: the kernel suite, a process for each case, so that a fault of one does not spoil the next,
# and several at a time: most of a case's time is the host's. None takes longer than MOST seconds. BEFORE starts it.
each_case() {
  local stage=$1 most=$2 binary=$bundle/bin/test_gpu_kernels start=$SECONDS jobs=${TESSERA_GPU_JOBS:-$(($(nproc) / 4))}
  local -A number_of=() begun=()
  local names=() number=0 left pid code result passed=0 failed=0 unrun=0 unusable=0
  shift 2
  has test_gpu_kernels "$stage" || return
  jobs=$((jobs < 1 ? 1 : jobs > 6 ? 6 : jobs))
  # (Listing them exits with their number.)
  mapfile -t names < <(timeout 60 "$binary" --list-test-names-only ${TESSERA_GPU_CASES:+"$TESSERA_GPU_CASES"} 2>"$work/$stage.list.log")
  : >"$work/$stage.log"
  while ((number < ${#names[@]} || ${#number_of[@]} > 0)); do
    left=$(time_left)
    if ((left < 5 || unusable > 0)) && ((number < ${#names[@]})); then
      unrun=$((unrun + ${#names[@]} - number)) number=${#names[@]}
    elif ((number < ${#names[@]} && ${#number_of[@]} < jobs)); then
      start_case "$stage" "$number" $((left < most ? left : most)) "${names[number]}" "$binary" "$@" &
      number_of[$!]=$number begun[$!]=$SECONDS
      number=$((number + 1))
    elif ((${#number_of[@]} > 0)); then
      wait -n -p pid "${!number_of[@]}"
      code=$?
      result=$(judge "$work/$stage.case${number_of[$pid]}" "$code" "$@")
      case $result in
        passed) passed=$((passed + 1)) ;;
        failed) failed=$((failed + 1)) ;;
        unusable) unusable=$((unusable + 1)) ;;
        *) unrun=$((unrun + 1)) ;;
      esac
      [[ $result == passed || $unusable -gt 1 ]] ||
        note "$stage" "${names[number_of[$pid]]}" "${result/unusable/skipped}" $((SECONDS - begun[$pid])) "$(telling "$work/$stage.case${number_of[$pid]}")"
      { printf '\n##### %s: %s\n' "${names[number_of[$pid]]}" "$result"; cat "$work/$stage.case${number_of[$pid]}"; } >>"$work/$stage.log"
      unset "number_of[$pid]" "begun[$pid]"
    fi
  done
  result=passed
  ((unrun == 0)) || result="too long"
  ((passed > 0 && failed == 0)) || result=failed
  ((unusable == 0)) || result=skipped
  [[ $result == passed || $result == skipped ]] || failures=$((failures + 1))
  note "$stage" test_gpu_kernels "$result" $((SECONDS - start)) "cases: $passed passed, $failed failed, $unrun without the time for it, $jobs at a time"
}

# start_case STAGE NUMBER SECONDS NAME BINARY BEFORE...
start_case() {
  local output=$work/$1.case$2 seconds=$3 binary=$5 pattern
  # shellcheck disable=SC2001
  pattern=$(sed 's/[],[\\"~*]/\\&/g' <<<"$4")
  shift 5
  exec timeout -k 5 "$seconds" "$@" "$binary" "$pattern" >"$output" 2>&1 </dev/null
}

# cudnn STAGE SECONDS CASES: attention once more by cuDNN, where one is found that can be used.
cudnn() {
  # shellcheck disable=SC2016
  lines=3 most=$2 attempt "$1" "attention by cuDNN" env TESSERA_TEST_ATTENTION=cudnn bash -c '
    "$1" "$3" >"$2" 2>&1; code=$?
    cat "$2"
    ! grep -qE "cannot be loaded|is too old|cannot be used here" "$2" || exit 77
    exit $code' cudnn "$bundle/bin/test_gpu_kernels" "$work/cudnn.out" "$3"
}

# The layers one upon the other: the first that fails is what to look at.
stage_smoke() {
  local graph ranks=2
  if has test_gpu_kernels smoke; then
    lines=3 most=30 attempt smoke "a kernel" "$bundle/bin/test_gpu_kernels" "cast rounds*"
    lines=3 most=30 attempt smoke "a product" "$bundle/bin/test_gpu_kernels" "linear in pieces*"
    cudnn smoke 30 "attention forward and backward: gradients*"
  fi
  for graph in false true; do  # (as graphs: two steps that are timed, one that is captured, and replays)
    # shellcheck disable=SC2086
    lines=1 most=30 attempt smoke "steps, graph = $graph" "$bundle/tessera" train $strategy_model --train.steps=6 --data.val_fraction=0 \
      --run.device=cuda --run.graph=$graph --run.dir="$work/smoke.$graph"
  done
  if ((gpus < ranks)); then
    note smoke "2 ranks over NCCL" skipped 0 "one GPU: stage nccl"
    return
  fi
  nccl_way ""
  for graph in false true; do
    # shellcheck disable=SC2086
    lines=1 most=40 attempt smoke "2 ranks over NCCL, graph = $graph" "$bundle/mpiexec" -n $ranks "$work/nccl_way.sh" "$bundle/tessera" train \
      $strategy_model --train.steps=6 --data.val_fraction=0 --run.device=cuda --run.graph=$graph --comm.backend="$nccl_backend" \
      --shard.strategy=zero3 --run.dir="$work/smoke.nccl.$graph"
  done
}

stage_kernels() {
  each_case kernels 90
  has test_gpu_kernels kernels && cudnn kernels 150 "attention forward and backward*"
}
stage_memcheck() { sanitize memcheck; }
stage_racecheck() { sanitize racecheck; }
sanitize() {
  local tool=$1 sanitizer ours=()
  sanitizer=$(tool_of_cuda compute-sanitizer)
  if [[ -z $sanitizer ]]; then
    note "$tool" compute-sanitizer skipped 0 "not on this machine"
    return
  fi
  # Kernels of NVIDIA's own libraries are slow to check and not ours.
  ! timeout 20 "$sanitizer" --help 2>&1 | grep -q -e '--kernel-name ' || ours=(--kernel-name kns=tessera)
  # Nor are calls that the driver refuses, and the libraries' own look-ups are such: memory errors are looked for.
  [[ $tool != memcheck ]] || ours+=(--report-api-errors no)
  each_case "$tool" 180 "$sanitizer" --tool "$tool" --error-exitcode 1 "${ours[@]}"
}

# tool_of_cuda NAME: its path, or nothing.
tool_of_cuda() {
  command -v "$1" && return
  # shellcheck disable=SC2012
  ls /usr/local/cuda*/bin/"$1" /opt/nvidia/nsight-compute/*/"$1" 2>/dev/null | tail -n 1
}

# golden_options FOLDER: how its losses were made (tests/reference/README.md).
golden_options() {
  case $1 in
    clipped) echo --train.seq_len=17 --train.micro_batch=8 --train.steps=25 --optim.lr=0.003 --optim.clip=0.25 ;;
    deep) echo --train.seq_len=29 --train.micro_batch=6 --train.steps=25 --optim.lr=0.005 --optim.beta2=0.999 --optim.weight_decay=0 ;;
    shallow) echo --train.seq_len=9 --train.micro_batch=8 --train.steps=25 --optim.lr=0.005 --optim.beta2=0.99 --optim.weight_decay=0.3 --optim.clip=0 ;;
    llama3) echo --train.seq_len=29 --train.micro_batch=6 --train.steps=20 --optim.lr=0.003 --optim.beta2=0.99 ;;
    qwen2-tied) echo --train.seq_len=19 --train.micro_batch=8 --train.steps=20 --optim.lr=0.003 --optim.clip=0.25 ;;
    qwen2-untied) echo --train.seq_len=11 --train.micro_batch=6 --train.steps=20 --optim.lr=0.003 --optim.beta2=0.999 --optim.weight_decay=0 --optim.clip=0 ;;
  esac
}

golden_pair() {
  local folder=$PWD/tests/reference/$1 device
  for device in cpu cuda; do
    rm -rf "$work/golden.$1.$device"
    # shellcheck disable=SC2046
    train --model.from="$folder" --data.source="$folder/tokens.bin" --optim.schedule=constant $(golden_options "$1") \
      --run.device=$device --run.dir="$work/golden.$1.$device" || return 1
  done
  python3 "$here/compare_runs.py" --relative 1e-5 "$work/golden.$1.cpu" "$work/golden.$1.cuda"
}

stage_golden() {
  local model
  for model in "${golden_models[@]}"; do
    lines=1 most=120 attempt golden "$model" bash -c "golden_pair $model"
  done
}

stage_comm() {
  local ranks
  has test_gpu_comm comm || return
  lines=60 most=120 attempt comm "bench comm over 2 ranks" "$bundle/mpiexec" -n 2 "$bundle/tessera" bench comm --run.device=cuda \
    --run.deterministic=true --run.share_gpu=true --comm.backend=staged --bench.steps=5 --bench.max_bytes="$comm_bytes"
  for ranks in 2 3 4; do
    most=120 attempt comm "staged over $ranks ranks" env TESSERA_TEST_BACKEND=staged "$bundle/mpiexec" -n $ranks "$bundle/test_gpu_comm"
  done
}

# strategies BACKEND RANKS PRECISION [BEFORE...]: trains the same thing under every strategy; all must have the same losses.
# BEFORE is a command that starts each rank. $strategy_names and $strategy_options change which, and how.
strategies() {
  local backend=$1 ranks=$2 precision=$3 strategy folders=()
  shift 3
  for strategy in ${strategy_names:-ddp zero1 zero2 zero3}; do
    folders+=("$work/strategies.$backend.$strategy")
    rm -rf "${folders[-1]}"
    # shellcheck disable=SC2086
    "$bundle/mpiexec" -n "$ranks" "$@" "$bundle/tessera" train $strategy_model ${strategy_options:-} --metrics.every=1 \
      --data.val_fraction=0 --train.micro_batch=2 --train.accumulation=2 --run.device=cuda --run.deterministic=true --run.share_gpu=true --comm.backend="$backend" \
      --precision.compute="$precision" --shard.strategy=$strategy --run.dir="${folders[-1]}" || return 1
  done
  python3 "$here/compare_runs.py" "${folders[@]}"
}

stage_strategies() {
  local case
  for case in "2 fp32" "4 fp32" "2 bf16"; do
    lines=3 most=150 attempt strategies "staged over ${case/ / ranks, }" bash -c "strategies staged $case"
  done
}

# nccl_way SETTINGS: writes the command that starts each rank. The shell between mpiexec and the program gives each its own
# settings; what NCCL tells goes into the logs.
nccl_way() {
  printf '#!/bin/sh\nexport NCCL_DEBUG=INFO NCCL_DEBUG_FILE=%s/nccl.%%h.%%p.log TESSERA_TEST_BACKEND=%s %s\nexec "$@"\n' \
    "$work" "$nccl_backend" "$1" >"$work/nccl_way.sh"
  chmod +x "$work/nccl_way.sh"
}

# One rank a GPU where there are several; otherwise two ways of having NCCL take a GPU twice, both unofficial or new: that
# one of them is refused is no failure where the other works.
stage_nccl() {
  local way names=() ways=() ranks=$((gpus > 1 ? gpus : 2)) before=$failures
  has test_gpu_comm nccl || return
  if ((gpus > 1)); then
    names+=("a GPU for each of $gpus ranks")
    ways+=("")
  else
    names+=("2 ranks of one GPU, NCCL_HOSTID over lo" "2 ranks of one GPU, NCCL_MULTI_RANK_GPU_ENABLE")
    # shellcheck disable=SC2016
    ways+=('NCCL_HOSTID=rank${OMPI_COMM_WORLD_RANK} NCCL_SOCKET_IFNAME=lo NCCL_NVLS_ENABLE=0 NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1'
      "NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_MAX_CTAS=2 NCCL_NVLS_ENABLE=0")
  fi
  for way in "${!ways[@]}"; do
    rm -f "$work"/nccl.*.log
    nccl_way "${ways[$way]}"
    lines=8 most=100 attempt nccl "${names[$way]}" "$bundle/mpiexec" -n "$ranks" "$work/nccl_way.sh" "$bundle/test_gpu_comm" || continue
    failures=$before
    # Eagerly first: which half is broken, where the graphs fail.
    strategy_names="ddp zero3" strategy_options=--run.graph=false lines=3 most=100 attempt nccl "eagerly: ${names[$way]}" \
      bash -c "strategies $nccl_backend $ranks fp32 '$work/nccl_way.sh'"
    lines=3 most=150 attempt nccl "strategies: ${names[$way]}" bash -c "strategies $nccl_backend $ranks fp32 '$work/nccl_way.sh'"
    lines=60 most=100 attempt nccl "bench comm: ${names[$way]}" "$bundle/mpiexec" -n "$ranks" "$work/nccl_way.sh" "$bundle/tessera" \
      bench comm --run.device=cuda --run.deterministic=true --run.share_gpu=true --comm.backend="$nccl_backend" --bench.steps=3 --bench.max_bytes="$nccl_bytes"
    return
  done
}

# bench_kernels NAME MODEL OPTION...: as `bench step` trains it.
bench_kernels() {
  local name=$1 preset sequence batch
  read -r preset sequence batch <<<"$2"
  shift 2
  lines=60 most=120 attempt bench_kernels "$name" "$bundle/tessera" bench kernels --run.device=cuda --model.preset="$preset" \
    --train.seq_len="$sequence" --train.micro_batch="$batch" --precision.compute=bf16 --precision.reduce=bf16 \
    --shard.strategy=ddp --run.deterministic=false "${kernel_repetitions[@]}" "$@"
}

stage_bench_kernels() {
  local preset sequence batch
  read -r preset sequence batch <<<"$model_124m"
  bench_kernels "$preset" "$model_124m"
  bench_kernels "$preset, own attention" "$model_124m" --run.attention=own
  bench_kernels "${model_qwen%% *}" "$model_qwen"
  bench_kernels "${model_1558m%% *}" "$model_1558m"
  most=60 attempt bench_kernels "$preset: memory" "$bundle/tessera" bench memory --run.device=cuda --model.preset="$preset" \
    --train.seq_len="$sequence" --train.micro_batch="$batch" --precision.compute=bf16 --precision.reduce=bf16 --shard.strategy=ddp \
    --run.deterministic=true
}

# bench_tokens: a file of random tokens, which every model has.
bench_tokens() {
  local file=$work/tokens.$token_values.bin
  [[ -e $file ]] || python3 -c 'import array, random, sys
random.seed(1)
array.array("H", (random.randrange(int(sys.argv[2])) for _ in range(4000000))).tofile(open(sys.argv[1], "wb"))' "$file" "$token_values"
  echo "$file"
}

stage_speed_124m() { speed speed_124m "$model_124m" "$settings_small"; }
stage_speed_1558m() { speed speed_1558m "$model_1558m" "$settings_large"; }
stage_speed_qwen() { speed speed_qwen "$model_qwen" "$settings_large"; }

# speed STAGE MODEL SETTINGS: Tessera, then PyTorch as fast as its users make it, on the same tokens and batch.
speed() {
  local stage=$1 settings=$3 preset sequence batch
  read -r preset sequence batch <<<"$2"
  if ! python3 -c "import torch; assert '$peer_device' == 'cpu' or torch.cuda.is_available()" 2>/dev/null; then
    note "$stage" pytorch skipped 0 "PyTorch with CUDA is not on this machine"
    settings=
  fi
  lines=80 attempt "$stage" "$preset" python3 tests/peers/compare.py --device cuda --peer-device "$peer_device" --tessera "$bundle/tessera" \
    --source "$(bench_tokens)" --preset "$preset" --seq-len "$sequence" --micro-batch "$batch" --steps "$bench_steps" \
    --settings "$settings" --seconds $(($(time_left) - 15)) --setting-seconds "$setting_seconds"
}

# The hardware's counters of every kernel of a step, also of those within one call (head, sums of columns).
stage_profile() {
  local ncu preset sequence batch
  ncu=$(tool_of_cuda ncu)
  if [[ -z $ncu ]]; then
    note profile ncu skipped 0 "not on this machine"
    return
  fi
  read -r preset sequence batch <<<"$model_124m"
  # shellcheck disable=SC2016
  lines=60 attempt profile "$preset" bash -c '"$1" --clock-control none --target-processes all --csv --page raw --print-units base \
    --metrics gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum "${@:4}" >"$2/ncu.csv" 2>"$2/ncu.err"
    code=$?
    # Counters that this user or this virtual machine may not read are no failure of the test.
    grep -m 1 -hE "ERR_NVGPUCTRPERM|LibraryNotLoaded|Profiling is not supported" "$2/ncu.csv" "$2/ncu.err" && exit 77
    ((code == 0)) || { tail -n 5 "$2/ncu.csv" "$2/ncu.err"; exit 1; }
    python3 "$3/kernel_profile.py" "$2/ncu.csv"' profile "$ncu" "$work" "$here" \
    "$bundle/tessera" bench kernels --run.device=cuda --model.preset="$preset" --train.seq_len="$sequence" --train.micro_batch="$batch" \
    --precision.compute=bf16 --precision.reduce=bf16 --shard.strategy=ddp --run.deterministic=true --bench.steps=1 --bench.warmup=0
}

# Where NCCL and cuBLASLt of this machine's Python may lie; a toolkit's are found anyway.
packages=$(python3 -c 'import site, sysconfig
print(":".join(dict.fromkeys([sysconfig.get_paths()["purelib"], *site.getsitepackages(), site.getusersitepackages()])))' 2>/dev/null)
export TESSERA_LIBRARY_PATH=${TESSERA_LIBRARY_PATH:-$packages}

export bundle work here strategy_model packages  # for what `attempt` starts in shells of their own
export -f train golden_options golden_pair strategies machine
kernel_lines=$(dmesg 2>/dev/null | wc -l)
unpack
watch
raise_loopback
header
# stop_at_once NAME WHY: nothing would pass, and the reason is told once instead of by every stage.
stop_at_once() {
  note machine "$1" failed 0 "$2"
  printf '%s\n' "$2" | sed 's/^/    /'
  tar -C "$work" -czf "$(dirname "$results")/gpu_logs.tar.gz" machine.log
  exit 1
}
# Programs that the loader refuses (an older glibc than theirs) say so by themselves.
said=$(timeout 60 "$bundle/tessera" version 2>&1) || stop_at_once "the bundle" "$said"
# CUDA's count: CUDA_VISIBLE_DEVICES and MIG are no business of nvidia-smi -L.
gpus=$(sed -n 's/^gpus  *\([0-9][0-9]*\).*/\1/p' <<<"$said")
((${gpus:-0} > 0)) || stop_at_once "the GPU" "$(grep '^gpus' <<<"$said")"
if [[ -x $bundle/bin/test_gpu_kernels ]]; then
  # (Catch2 exits with the number of tests that it lists: only what is printed tells.)
  said=$(timeout 60 "$bundle/bin/test_gpu_kernels" --list-test-names-only 2>&1)
  [[ $said != skipped* ]] || stop_at_once "the GPU" "${said#skipped: }"
  if [[ -z $said ]] || grep -qE 'error while loading|not found \(required by' <<<"$said"; then
    stop_at_once "the bundle" "test_gpu_kernels does not start: $said"
  fi
fi
run_stages() {
  local stage
  for stage in "${stages[@]}"; do
    stage_start=$SECONDS
    "stage_$stage" || true
    (cd "$work" && find . -maxdepth 1 \( -name '*.log' -o -name '*.csv' \) -print0) |
      tar -C "$work" --null -T - -czf "$(dirname "$results")/gpu_logs.tar.gz"
  done
  echo "results: $results"
  ((failures == 0))
}
run_stages; exit  # on one line: nothing more is read from this file, which may have changed meanwhile
