#!/usr/bin/env bash
# Tests and benchmarks on a real GPU, in stages of under 9 minutes each, the most valuable first:
#
#   tests/gpu/run.sh [STAGE...]        without a stage: all of them
#
#   kernels     every kernel against the reference in double precision
#   golden      the golden models on one rank: the GPU's losses and norms against the CPU's
#   comm        collectives of several ranks on one GPU, staged
#   strategies  training over several ranks on one GPU, staged: every strategy has the same bits
#   nccl        collectives and training over NCCL: a GPU for each rank, or several on one where NCCL can be brought to it
#   memcheck    the kernels under compute-sanitizer's memcheck
#   racecheck   the same under racecheck
#   bench       tessera bench kernels and step
#   peers       PyTorch on the smallest of them
#   peers_large PyTorch on the others
#
# Needs a bundle of test binaries (CMake target bundle-tests), NVIDIA's driver, Python 3; peers needs PyTorch. Nothing else.
#   TESSERA_BUNDLE        the archive, or the folder it was unpacked into (default: the newest build/*/tessera-bundle-tests.tar.xz)
#   TESSERA_GPU_RESULTS   where results are added, one JSON object a line (default: $OUT or build, gpu_results.jsonl)
# Exits 77 without a GPU, 1 when something failed, else 0.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
here=$PWD/tests/gpu

if [[ -n ${CUDA_VISIBLE_DEVICES+set} && -z $CUDA_VISIBLE_DEVICES ]] || ! nvidia-smi -L 2>/dev/null | grep -q GPU; then
  echo "run.sh: no GPU on this machine: nothing was tested"
  exit 77
fi

all_stages=(kernels golden comm strategies nccl memcheck racecheck bench peers peers_large)
stages=("$@")
[[ $# -gt 0 ]] || stages=("${all_stages[@]}")
for stage in "${stages[@]}"; do
  [[ " ${all_stages[*]} " == *" $stage "* ]] || { echo "run.sh: no stage is called $stage: ${all_stages[*]}" >&2; exit 2; }
done

work=${TMPDIR:-/tmp}/tessera_gpu.$UID
mkdir -p "$work"
results=${TESSERA_GPU_RESULTS:-${OUT:-build}/gpu_results.jsonl}
mkdir -p "$(dirname "$results")"
limit=${TESSERA_GPU_STAGE_SECONDS:-520}
gpus=$(nvidia-smi -L | grep -c GPU)
failures=0

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
    tar -C "$work" -xf "$archive" && touch "$bundle/.unpacked" || exit 2
  fi
}

# note STAGE NAME RESULT SECONDS DETAIL: a line of results; DETAIL is made one line without quotes or backslashes.
note() {
  local detail
  detail=$(printf '%s' "$5" | tr '\n\t' '  ' | tr -d '\000-\037\042\134' | cut -c1-1500)
  printf '{"stage":"%s","name":"%s","result":"%s","seconds":%s,"detail":"%s"}\n' "$1" "$2" "$3" "$4" "$detail" >>"$results"
  printf '%-10s %-36s %-8s %6s s\n' "$1" "$2" "$3" "$4"
}

# attempt STAGE NAME COMMAND...: runs it within what the stage has left and notes the result with the last lines.
attempt() {
  local stage=$1 name=$2 start=$SECONDS left code result log
  shift 2
  log=$work/$stage.$(tr -c 'a-zA-Z0-9\n' _ <<<"$name").log
  left=$((limit - (SECONDS - stage_start)))
  if ((left < 5)); then
    note "$stage" "$name" "no time" 0 "the stage's $limit s are over"
    failures=$((failures + 1))
    return 1
  fi
  timeout "$left" "$@" >"$log" 2>&1
  code=$?
  case $code in
    0) result=passed ;;
    77) result=skipped ;;
    124) result="too long" ;;
    *) result=failed ;;
  esac
  note "$stage" "$name" "$result" $((SECONDS - start)) "$(tail -n "${lines:-4}" "$log")"
  [[ $result == passed || $result == skipped ]] || { failures=$((failures + 1)); tail -n 15 "$log" | sed 's/^/    /'; }
  return $code
}

# has BINARY STAGE: notes it as skipped where the bundle has not got it.
has() {
  [[ -x $bundle/$1 ]] && return 0
  note "$2" "$1" skipped 0 "not in this bundle"
  return 1
}

header() {
  local hardware driver
  hardware=$(nvidia-smi --query-gpu=name,memory.total,clocks.max.sm,power.limit --format=csv,noheader | sort | uniq -c | tr '\n' ';')
  driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1)
  printf '{"stage":"machine","date":"%s","gpus":"%s","driver":"%s","cores":%s,"kernel":"%s","tessera":"%s","pytorch":"%s"}\n' \
    "$(date -u +%FT%TZ)" "$hardware" "$driver" "$(nproc)" "$(uname -r)" \
    "$("$bundle/tessera" version 2>&1 | tr -s ' \n' ' ' | tr -d '\042\134')" \
    "$(python3 -c 'import torch; print(torch.__version__, torch.version.cuda, torch.backends.cudnn.version())' 2>/dev/null)" >>"$results"
}

train() { "$bundle/tessera" train --metrics.every=1 --data.order=sequential --data.val_fraction=0 "$@"; }

stage_kernels() { has test_gpu_kernels kernels && lines=3 attempt kernels test_gpu_kernels "$bundle/test_gpu_kernels"; }

stage_memcheck() { sanitize memcheck; }
stage_racecheck() { sanitize racecheck; }
sanitize() {
  local tool=$1 sanitizer
  has test_gpu_kernels "$tool" || return
  # shellcheck disable=SC2012
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | tail -1)
  if [[ -z $sanitizer ]]; then
    note "$tool" compute-sanitizer skipped 0 "not on this machine"
    return
  fi
  attempt "$tool" test_gpu_kernels "$sanitizer" --tool "$tool" --error-exitcode 1 "$bundle/test_gpu_kernels"
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
  [[ ! -x $bundle/test_gpu_engine ]] || attempt golden test_gpu_engine "$bundle/test_gpu_engine"
  for model in clipped deep shallow llama3 qwen2-tied qwen2-untied; do
    lines=1 attempt golden "$model" bash -c "$(declare -f train golden_options golden_pair); bundle='$bundle' work='$work' here='$here'; golden_pair $model"
  done
}

stage_comm() {
  local ranks
  has test_gpu_comm comm || return
  for ranks in 2 3 4; do
    attempt comm "staged over $ranks ranks" env TESSERA_TEST_BACKEND=staged "$bundle/mpiexec" -n $ranks "$bundle/test_gpu_comm"
  done
}

# strategies BACKEND RANKS [BEFORE...]: trains the same thing under every strategy; all must have the same losses. BEFORE is
# a command that starts each rank.
strategies() {
  local backend=$1 ranks=$2 strategy folders=()
  shift 2
  for strategy in ddp zero1 zero2 zero3; do
    folders+=("$work/strategies.$backend.$strategy")
    rm -rf "${folders[-1]}"
    "$bundle/mpiexec" -n "$ranks" "$@" "$bundle/tessera" train --metrics.every=1 --train.steps=12 --data.val_fraction=0 \
      --train.micro_batch=2 --train.accumulation=2 --run.device=cuda --run.share_gpu=true --comm.backend="$backend" \
      --shard.strategy=$strategy --run.dir="${folders[-1]}" || return 1
  done
  python3 "$here/compare_runs.py" "${folders[@]}"
}

stage_strategies() {
  local ranks
  for ranks in 2 4; do
    lines=3 attempt strategies "staged over $ranks ranks" \
      bash -c "$(declare -f strategies); bundle='$bundle' work='$work' here='$here'; strategies staged $ranks"
  done
}

# One rank a GPU where there are several; otherwise two ways of having NCCL take a GPU twice, both unofficial or new.
stage_nccl() {
  local way names=() ways=()
  has test_gpu_comm nccl || return
  if ((gpus > 1)); then
    names+=("a GPU for each of $gpus ranks")
    ways+=("")
  else
    names+=("2 ranks of one GPU, NCCL_MULTI_RANK_GPU_ENABLE" "2 ranks of one GPU, NCCL_HOSTID over lo")
    # shellcheck disable=SC2016
    ways+=("NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_MAX_CTAS=2 NCCL_NVLS_ENABLE=0"
      'NCCL_HOSTID=rank${OMPI_COMM_WORLD_RANK} NCCL_SOCKET_IFNAME=lo NCCL_NVLS_ENABLE=0 NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1')
  fi
  for way in "${!ways[@]}"; do
    # The shell between mpiexec and the program gives each rank its own settings.
    printf '#!/bin/sh\nexport NCCL_DEBUG=WARN TESSERA_TEST_BACKEND=nccl %s\nexec "$@"\n' "${ways[$way]}" >"$work/nccl_way.sh"
    chmod +x "$work/nccl_way.sh"
    lines=8 attempt nccl "${names[$way]}" timeout 150 "$bundle/mpiexec" -n $((gpus > 1 ? gpus : 2)) "$work/nccl_way.sh" "$bundle/test_gpu_comm" || continue
    lines=3 attempt nccl "strategies: ${names[$way]}" bash -c "$(declare -f strategies)
      bundle='$bundle' work='$work' here='$here'; strategies nccl $((gpus > 1 ? gpus : 2)) '$work/nccl_way.sh'"
    return
  done
}

# The models of the speed targets: preset, sequence, micro-batch.
bench_models=("gpt2-124m 1024 32" "gpt2-1558m 1024 8" "qwen2-1.5b 1024 8")

stage_bench() {
  local preset sequence batch
  lines=60 attempt bench "kernels gpt2-124m" "$bundle/tessera" bench kernels --run.device=cuda --model.preset=gpt2-124m \
    --train.seq_len=1024 --train.micro_batch=16 --precision.compute=bf16 --precision.reduce=bf16
  for model in "${bench_models[@]}"; do
    read -r preset sequence batch <<<"$model"
    lines=16 attempt bench "step $preset" "$bundle/tessera" bench step --run.device=cuda --model.preset="$preset" \
      --train.seq_len="$sequence" --train.micro_batch="$batch" --precision.compute=bf16 --precision.reduce=bf16 \
      --data.source="$(bench_tokens)" --data.order=sequential --data.val_fraction=0 --shard.strategy=ddp --bench.steps=20
  done
}

# bench_tokens: a file of random tokens below 32,768, which every model has.
bench_tokens() {
  local file=$work/tokens.bin
  [[ -e $file ]] || python3 -c 'import array, random, sys
random.seed(1)
array.array("H", (random.randrange(32768) for _ in range(4000000))).tofile(open(sys.argv[1], "wb"))' "$file"
  echo "$file"
}

stage_peers() { peers peers "${bench_models[0]}"; }
stage_peers_large() { peers peers_large "${bench_models[@]:1}"; }

# peers STAGE MODEL...: as fast as PyTorch's users make it: compiled, fused AdamW, flash attention, padded vocabulary; and eager.
peers() {
  local stage=$1 model preset sequence batch
  shift
  if ! python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
    note "$stage" pytorch skipped 0 "PyTorch with CUDA is not on this machine"
    return
  fi
  for model in "$@"; do
    read -r preset sequence batch <<<"$model"
    [[ $preset == gpt2-* ]] || { note "$stage" "$preset" skipped 0 "the PyTorch script knows GPT-2 only"; continue; }
    lines=2 attempt "$stage" "pytorch $preset compiled" python3 tests/peers/pytorch_train.py --device cuda --precision bf16 --compile \
      --pad-vocab 128 --source "$(bench_tokens)" --preset "$preset" --seq-len "$sequence" --micro-batch "$batch" --steps 25 --warm-up 5
    lines=2 attempt "$stage" "pytorch $preset eager" python3 tests/peers/pytorch_train.py --device cuda --precision bf16 \
      --source "$(bench_tokens)" --preset "$preset" --seq-len "$sequence" --micro-batch "$batch" --steps 15 --warm-up 5
  done
}

# Where NCCL and cuBLASLt of this machine's Python may lie; a toolkit's are found anyway.
packages=$(python3 -c 'import site, sysconfig
print(":".join(dict.fromkeys([sysconfig.get_paths()["purelib"], *site.getsitepackages(), site.getusersitepackages()])))' 2>/dev/null)
export TESSERA_LIBRARY_PATH=${TESSERA_LIBRARY_PATH:-$packages}

unpack
header
for stage in "${stages[@]}"; do
  stage_start=$SECONDS
  "stage_$stage" || true
done
echo "results: $results"
((failures == 0))
