#!/usr/bin/env bash
# How kernels use memory and instructions, counted while their PTX is played: a step of a small GPT-2 and of a small Qwen2
# with the widths of real ones. Prints a line per kernel; ends with 1 if a kernel is worse than its limits below.
#   tests/emulated/kernels/traffic.sh EXECUTABLE   (tessera_emulated)
# An H200 moves 4.3e9 KB/s and issues some 9e11 warp instructions/s: 170 a KB allow 80% of the first at 65% of the second.
# (PTX is counted; the machine code has fewer.)
set -euo pipefail
tessera=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# step NAME OPTION...: one training step on the emulated GPU.
step() {
  local name=$1
  shift
  (cd "$work" && TESSERA_PTX_REPORT=$work/$name.tsv "$tessera" train --run.dir="$name" --run.device=cuda --run.deterministic=true \
    --run.attention=own --precision.compute=bf16 --data.source=synthetic --data.val_fraction=0 --data.synthetic_tokens=4096 \
    --train.steps=1 --train.micro_batch=1 --model.layers=1 --model.context=1024 --metrics.every=1 "$@" >"$name.log" 2>&1) ||
    { cat "$work/$name.log" >&2; exit 1; }
}
step gpt2 --model.family=gpt2 --model.width=768 --model.heads=12 --model.vocab=512 --train.seq_len=64 \
  --memory.keep_activated=false
step gpt2_wide --model.family=gpt2 --model.width=1600 --model.heads=25 --model.vocab=256 --train.seq_len=16
step qwen2 --model.family=qwen2 --model.width=1536 --model.heads=12 --model.kv_heads=2 --model.ffn_width=1024 \
  --model.vocab=256 --train.seq_len=32
step fp8 --model.family=qwen2 --model.width=1536 --model.heads=12 --model.kv_heads=2 --model.ffn_width=1024 \
  --model.vocab=256 --train.seq_len=32 --precision.linear=fp8 --precision.fp8_smallest=0 --memory.keep_activated=false
step vocabulary --model.family=gpt2 --model.width=64 --model.heads=1 --model.vocab=50257 --train.seq_len=16

# Lines "RUN KERNEL LOAD STORE CONFLICTS INSTRUCTIONS": at least so much of each sector read and written is used; at most
# so many times the waves of shared memory that it takes without conflicts; at most so many instructions per KB.
# (Cross-entropy's 220 in PTX are 120 in machine code: packs are taken apart by one instruction there, not by several,
# and move to and from shared memory by 16 bytes, not by 4.)
# (Norm backward reads gain and bias and writes two or, in GPT-2, three sums once a block. A block has 16 rows here, 128
# in a training of 64 x 1024. With linears in fp8 kernels also find the largest magnitude of what they store. The backward
# that stores nothing has 25 instructions a number in machine code, where memory bounds it up to 55. That which makes fp8
# has 34 and may have 100; of the 128 rows of its tiles 32 are there here, and two loads share each sector.)
cat >"$work/limits" <<'LIMITS'
gpt2 norm_forward_kernel 0.95 0.90 1.05 140
gpt2 norm_backward_kernel 0.95 0.95 1.05 265
gpt2 gelu_kernel 0.95 0.95 1 180
gpt2 adamw_kernel 0.90 0.95 1 170
gpt2 forward_kernel 0.95 0.95 1.05 1000
gpt2 backward_kernel 0.95 0.95 1.05 1000
gpt2 cast_kernel 0.45 0.95 1 170
gpt2 square_sum_kernel 0.45 0 1.05 95
gpt2 embedding_forward_kernel 0.90 0.95 1 170
gpt2_wide norm_forward_kernel 0.95 0.90 1.05 140
gpt2_wide norm_backward_kernel 0.95 0.95 1.05 275
qwen2 norm_forward_kernel 0.95 0.90 1.05 140
qwen2 norm_backward_kernel 0.95 0.95 1.05 265
qwen2 glu_forward_kernel 0.95 0.95 1 170
qwen2 glu_backward_kernel 0.95 0.95 1 170
qwen2 rotary_kernel 0.70 0.95 1 170
qwen2 forward_kernel 0.95 0.95 1.05 1000
qwen2 backward_kernel 0.95 0.95 1.05 1000
fp8 norm_forward_kernel 0.95 0.90 1.05 150
fp8 norm_backward_kernel 0.95 0.95 1.05 320
fp8 glu_forward_kernel 0.95 0.95 1.05 170
fp8 glu_largest_kernel 0.95 0 1.05 285
fp8 glu_backward_to_fp8_kernel 0.45 0.95 1.05 650
vocabulary cross_entropy_kernel 0.95 0.95 2.5 225
LIMITS

status=0
for run in gpt2 gpt2_wide qwen2 fp8 vocabulary; do
  awk -F '\t' -v run="$run" '
    FNR == NR { split($0, f, " "); if (f[1] == run) limit[f[2]] = $0; next }
    FNR == 1 { for (i = 1; i <= NF; ++i) column[$i] = i; next }
    {
      name = ""
      # The mangled name holds "<length><name>".
      for (kernel in limit) if (index($1, length(kernel) kernel)) name = kernel
      if (name == "") next
      seen[name] = 1
      split(limit[name], l, " ")
      bytes = $column["load_bytes"] + $column["store_bytes"]
      load = $column["load_sectors"] ? $column["load_bytes"] / (32 * $column["load_sectors"]) : 1
      store = $column["store_sectors"] ? $column["store_bytes"] / (32 * $column["store_sectors"]) : 1
      conflicts = $column["shared_least"] ? $column["shared_waves"] / $column["shared_least"] : 1
      instructions = 1024 * $column["warp_instructions"] / bytes
      local_ = $column["local"]
      bad = load < l[3] || store < l[4] || conflicts > l[5] || instructions > l[6] || local_ > 0
      printf "%-11s %-26s read %.2f written %.2f of a sector, shared x%.2f, %4.0f instructions/KB%s\n", run, name, load, store, conflicts, instructions, bad ? "  WORSE THAN ITS LIMITS: " limit[name] : ""
      failed = failed || bad
    }
    END {
      for (kernel in limit) if (!seen[kernel]) { print run ": no " kernel " was played"; failed = 1 }
      exit failed
    }' "$work/limits" "$work/$run.tsv" || status=1
done
exit "$status"
