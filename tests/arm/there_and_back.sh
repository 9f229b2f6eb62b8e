#!/usr/bin/env bash
# Trains on x86-64 and on Arm, goes on there from checkpoints of the other, and compares the losses.
#
#   there_and_back.sh TESSERA ARM_TESSERA      paths in this folder tree; called by tests/arm.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=$1 there=$2
# shellcheck source=../../jobs/mpi_env.sh
source jobs/mpi_env.sh
runs=build/arm/runs
rm -rf "$runs"
mkdir -p "$runs"

# train RUN STEPS [OPTION...]: on $ranks ranks by the program $tessera, started by $on.
train() {
  local run=$1 steps=$2
  shift 2
  echo "arm: $run: $tessera on $ranks ranks to step $steps"
  "${on[@]}" mpiexec -n "$ranks" "$tessera" train --run.dir="$runs/$run" --run.threads=1 --run.device=cpu --model.layers=2 \
    --model.width=64 --train.seq_len=64 --train.global_batch=4 --train.micro_batch=2 --train.steps="$steps" --optim.schedule=constant \
    --train.eval_every=0 --metrics.every=1 --checkpoint.every=3 "$@" >"$runs/$run.log" 2>&1 || { cat "$runs/$run.log"; exit 1; }
}

for name in fp32 bf16; do
  options=(--precision.compute="$name")
  on=(env) tessera=$here ranks=2
  train "x86_$name" 6 "${options[@]}"
  on=(tests/arm.sh --on-arm) tessera=$there ranks=1
  train "arm_$name" 6 "${options[@]}"
  ranks=2
  train "arm2_$name" 6 "${options[@]}"
  "${on[@]}" "$there" verify "$runs/x86_$name/checkpoints/step-00000003"
  train "there_$name" 6 "${options[@]}" --checkpoint.resume="$runs/x86_$name/checkpoints/step-00000003"
  on=(env) tessera=$here ranks=1
  "$here" verify "$runs/there_$name/checkpoints/step-00000006"
  train "back_$name" 9 "${options[@]}" --checkpoint.resume="$runs/there_$name/checkpoints/step-00000006"
  train "never_$name" 9 "${options[@]}"
done
/usr/bin/python3 -B tests/arm/compare.py "$runs"
