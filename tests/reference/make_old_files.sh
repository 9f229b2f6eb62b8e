#!/usr/bin/env bash
# Makes files_REVISION.tar.xz: what a build of that revision leaves, which later ones must still read
# (tests/cli/test_old_files.py).
#
#   make_old_files.sh TESSERA
#
# text/       prompts and completions; tokenizer/: puts a token before each text
# whole/      12 steps, never stopped; run/: the same on two ranks, stopped by a signal, with checkpoints
# tokens.bin  prepared, with .idx and .mask
# study/      a sweep of two rows, one of them done, with its file study.ini
# h100.ini    prices of a machine, with plan.json, what is predicted from them
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tessera=$(readlink -f "$1")
source "$here/../../jobs/mpi_env.sh"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir old old/text old/tokenizer
cd old
cp "$here/tokenizers/llama3/tokenizer.json" tokenizer/
awk 'BEGIN { srand(3); for (i = 0; i < 400; ++i) { a = int(rand() * 90); b = int(rand() * 90)
  printf "{\"prompt\": \"What is %d plus %d?\", \"completion\": \" %d plus %d is %d.\"}\n", a, b, a, b, a + b } }' >text/sums.jsonl

model=(--model.family=llama --model.layers=2 --model.width=16 --model.heads=2 --model.kv_heads=1 --model.ffn_width=24
  --model.vocab=719 --model.context=32)
options=("${model[@]}" --data.source=text/sums.jsonl --data.tokenizer=tokenizer --data.cache=cache --train.seq_len=32
  --train.micro_batch=2 --train.steps=12 --train.eval_every=4 --train.eval_batches=4 --optim.lr=1e-2
  --checkpoint.every=4 --run.threads=1)
mpiexec -n 2 "$tessera" train "${options[@]}" --run.dir=whole --checkpoint.every=0
mpiexec -n 2 "$tessera" train "${options[@]}" --run.dir=run --comm.emulate=30ms,0 --metrics.every=1 >run.log &
launcher=$!
until grep -q '"step":4' run/log.jsonl 2>/dev/null; do sleep 0.1; done
kill -USR1 "$launcher"
wait "$launcher" || [[ $? -eq 75 ]]

"$tessera" data prepare --data.source=text/sums.jsonl --data.tokenizer=tokenizer --data.output=tokens.bin

cat >study.ini <<'INI'
[sweep]
baseline = 1-ddp
[sweep.vary]
ranks = 1
shard.strategy = ddp, zero3
[model]
layers = 1
width = 16
heads = 2
context = 32
[data]
synthetic_tokens = 5000
[train]
micro_batch = 2
steps = 3
[run]
threads = 1
INI
"$tessera" sweep study.ini --sweep.dir=study --sweep.action=run --sweep.only=1-ddp

cp "$here/../../inputs/clusters/h100.ini" .
"$tessera" plan --model.preset=gpt2-124m --plan.ranks=2 --plan.cluster=h100.ini \
  --precision.compute=bf16 --precision.reduce=bf16 --plan.format=json >plan.json

"$tessera" version | sed -n 's/^git_revision *//p' >revision.txt
revision=$(cut -c1-8 revision.txt)
sed -i "s:$folder/old:/FOLDER:" study/sweep.json
rm -rf study/1-ddp/run/flight cache whole/{checkpoints,flight} run/flight run.log
tar --sort=name --owner=0 --group=0 -C .. -cJf "$here/files_$revision.tar.xz" old
ls -l "$here/files_$revision.tar.xz"
