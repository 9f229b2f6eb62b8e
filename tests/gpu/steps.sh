#!/usr/bin/env bash
# What the attempts of stages.cmake do: steps.sh STEP WORD... exits with 77 where this machine cannot do it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tessera=$binaries/tessera

run() { "$@"; }
kernel_case() { "$@"; }
skip() { echo "$*"; exit 77; }

compare() { python3 -B "$here/compare_runs.py" "$@"; }

# on_both_devices NAME OPTION...: the same training on the CPU and on the GPU; their losses and norms are close.
on_both_devices() {
  local device folder=$work/$1
  for device in cpu cuda; do
    rm -rf "$folder.$device"
    "$tessera" train --run.deterministic=true --metrics.every=1 --data.order=sequential --data.val_fraction=0 \
      --run.device=$device --run.dir="$folder.$device" "${@:2}"
  done
  compare --relative "${relative:-1e-5}" "$folder".{cpu,cuda}
}

# golden MODEL OPTION...
golden() {
  local source=$here/../reference/$1
  on_both_devices "golden.$1" --model.from="$source" --data.source="$source/tokens.bin" --optim.schedule=constant "${@:2}"
}

# packed OPTION...: training on documents of 1 to 40 bytes that cuDNN keeps apart. In bf16 rounding alone tells the devices apart.
packed() {
  local n
  for ((n = 0; n < 3000; n++)); do
    printf '{"text": "%s"}\n' "$(printf '%*s' $((1 + n * 7 % 40)) "" | tr ' ' "$((n % 10))")"
  done >"$work/packed.jsonl"
  relative=2e-2 on_both_devices packed --data.packing=documents --data.source="$work/packed.jsonl" \
    --data.cache="$work/cache" --precision.compute=bf16 "$@" | tee "$work/packed.said"
  grep -q "attention by cuDNN" <<<"$(tr -s ' \n' ' ' <"$work/packed.said")" || skip "cuDNN does not compute attention here"
}

# golden_fp8 MODEL OPTION...: numbers that are rounded elsewhere part (docs/numerics.md, section 8), norms more than losses.
golden_fp8() { relative=5e-2 golden "$@" --precision.linear=fp8 --precision.fp8_smallest=0; }

# masks OPTION...: training on pairs of prompt and completion. What follows in the stage needs its model and the questions.
masks() {
  local n
  for ((n = 0; n < 2000; n++)); do
    echo "{\"prompt\": \"$n and $((n * 7 % 11)) make\", \"completion\": \" $((n + n * 7 % 11)).\"}"
  done >"$work/pairs.jsonl"
  for ((n = 0; n < 20; n++)); do
    echo "{\"context\": \"$n a\", \"endings\": [\"nd\", \"t\", \"n\"], \"label\": $((n % 3))}"
  done >"$work/questions.jsonl"
  on_both_devices text --data.document_mask=true --data.source="$work/pairs.jsonl" --data.cache="$work/cache" \
    --checkpoint.every=1000000 "$@"
}

# same_output PATTERN COMMAND...: on both devices a command of tessera prints the same of what fits the pattern.
same_output() {
  local device
  for device in cpu cuda; do
    "$tessera" "${@:2}" --run.device=$device | LC_ALL=C grep -aoE "$1" | tee "$work/output.$device"
  done
  cmp "$work"/output.{cpu,cuda}
}

# same_bits STRATEGIES COMMAND...: trains the same thing under every strategy, which must have the same losses.
same_bits() {
  local name folders=()
  for name in $1; do
    folders+=("$work/same_bits.$name")
    rm -rf "${folders[-1]}"
    "${@:2}" --shard.strategy="$name" --run.dir="${folders[-1]}"
  done
  compare "${folders[@]}"
}

# nccl_rank COMMAND...: a rank over NCCL, whose words go into the logs. On one GPU in the way that $work/way names.
nccl_rank() {
  export NCCL_DEBUG=INFO NCCL_DEBUG_FILE=$work/nccl.%h.%p.log TESSERA_TEST_BACKEND=$nccl
  if ((gpus == 1)); then
    export NCCL_NVLS_ENABLE=0
    case $(<"$work/way") in
      NCCL_HOSTID) export NCCL_HOSTID=rank$OMPI_COMM_WORLD_RANK NCCL_SOCKET_IFNAME=lo NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 ;;
      *) export NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_MAX_CTAS=2 ;;
    esac
  fi
  exec "$@"
}

# nccl_way COMMAND...: with one GPU in two ways of having NCCL take it twice, both unofficial or new, until one passes.
nccl_way() {
  local way ways=(NCCL_HOSTID NCCL_MULTI_RANK_GPU_ENABLE)
  ((gpus == 1)) || ways=("a GPU for each rank")
  for way in "${ways[@]}"; do
    rm -f "$work"/nccl.*.log
    echo "$way" >"$work/way"
    if timeout --kill-after=5 100 "$@"; then
      echo "over NCCL: $way"
      return
    fi
  done
  return 1
}

# bench PRESET SEQUENCE BATCH WHAT OPTION...
bench() {
  words=("$tessera" bench "$4" --run.device=cuda --model.preset="$1" --train.seq_len="$2" --train.micro_batch="$3"
    --precision.compute=bf16 --precision.reduce=bf16 --shard.strategy=ddp "${@:5}")
  "${profiler[@]}" "${words[@]}"
}

# on_documents PRESET...: a bench on drawn documents of some 240 bytes, each a token.
on_documents() {
  python3 -c 'import json, random
draw = random.Random(1)
for _ in range(20_000):
    print(json.dumps({"text": "".join(draw.choices("abcdefghijklmnopqrstuvwxyz ", k=draw.randint(20, 460)))}))' >"$work/drawn.jsonl"
  bench "$@" --data.source="$work/drawn.jsonl" --data.cache="$work/cache"
}

# profile PRESET...: the hardware's counters of every kernel of a bench, also of those within one call (head, sums of columns).
profile() {
  local ncu=$work/ncu code=0
  command -v ncu >/dev/null || skip "ncu is not on this machine"
  profiler=(ncu --clock-control none --target-processes all --csv --page raw --print-units base
    --metrics gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum)
  bench "$@" >"$ncu.csv" 2>"$ncu.err" || code=$?
  # Counters that this user or this virtual machine may not read are no failure of the test.
  ! grep -hm 1 -E 'ERR_NVGPUCTRPERM|LibraryNotLoaded|Profiling is not supported' "$ncu".{csv,err} || exit 77
  ((code == 0)) || { tail -qn 5 "$ncu".{csv,err}; exit 1; }
  python3 -B "$here/kernel_profile.py" "$ncu.csv"
}

# speed PEER_DEVICE STEPS TOKENS SETTINGS PRESET SEQUENCE BATCH: on a file of random tokens below TOKENS, which every model has.
speed() {
  local tokens=$work/tokens.$3.bin settings=$4
  [[ -e $tokens ]] || python3 -c 'import array, random, sys
draw = random.Random(1)
array.array("H", (draw.randrange(int(sys.argv[1])) for _ in range(4_000_000))).tofile(open(sys.argv[2], "wb"))' "$3" "$tokens"
  python3 -c "import torch; assert '$1' == 'cpu' or torch.cuda.is_available()" 2>/dev/null ||
    { settings='' && echo "skipped: PyTorch with CUDA is not on this machine"; }
  python3 -B "$here/../peers/compare.py" --device cuda --peer-device "$1" --tessera "$tessera" --source "$tokens" --preset "$5" \
    --seq-len "$6" --micro-batch "$7" --steps "$2" --settings "$settings" --setting-seconds 150 \
    --seconds $((end - $(date +%s) - 15))
}

# sweep MARK: ends processes that have the mark, which would compute during the next attempt, and hold its output open.
# A program that mpiexec did not start has a daemon of MPI, which ends a moment later by itself: it is ended silently.
sweep() {
  local file pid name
  { grep -lzxs "TESSERA_GPU_ATTEMPT=$1" /proc/[0-9]*/environ || true; } | while read -r file; do
    pid=${file//[^0-9]/}
    name=$(cat "/proc/$pid/comm" && kill -KILL "$pid") 2>/dev/null || continue
    [[ $name == orted ]] || echo "run.sh: process $pid ($name) was left behind"
  done
}

case $1 in
  sweep | nccl_rank) "$@"; exit ;;  # no attempt, or a part of one
  kernel_case) ;;
  *) sweep "$call-.*" ;;  # an attempt that had no time left may have left some
esac
trap 'code=$?; ((code == 0)) || echo "exit code $code"; sweep "$call-$$"' EXIT
TESSERA_GPU_ATTEMPT=$call-$$ "$@"
