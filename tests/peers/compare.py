#!/usr/bin/env python3
"""Tessera beside PyTorch: the same model, tokens and batch on this machine, in turns, in one sitting.

    VENV/bin/python compare.py --tessera ../../build/release/bin/tessera --source TOKENS.bin [--rounds 2]

Prints tokens/s (median over rounds of each run's median step) and ratios. One rank with all threads at sequences of 64 and 256
against eager and compiled PyTorch; two ranks of one thread, ddp and zero3 against DDP and FSDP2 over gloo.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent


def tessera(args, ranks, sequence, strategy, steps):
    command = [args.tessera, "bench", "step", f"--model.preset={args.preset}", f"--data.source={args.source}",
               "--data.order=sequential", "--data.val_fraction=0", f"--train.seq_len={sequence}", "--train.micro_batch=4",
               f"--shard.strategy={strategy}", f"--run.threads={args.threads // ranks}", f"--bench.steps={steps}"]
    if ranks > 1:
        command = ["mpiexec", "-n", str(ranks)] + command
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(re.search(r"([0-9.]+) tokens/s", text.split("step  ")[-1]).group(1))


def pytorch(args, ranks, sequence, strategy, steps, compiled):
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [sys.executable, str(HERE / "pytorch_train.py"), "--source", args.source, "--preset", args.preset,
                   "--micro-batch", "4", "--warm-up", "3", "--output", out.name, "--threads", str(args.threads // ranks),
                   "--seq-len", str(sequence), "--steps", str(steps + 3), "--strategy", strategy]
        command += ["--ranks", str(ranks)] if ranks > 1 else []
        command += ["--compile"] if compiled else []
        subprocess.run(command, check=True, capture_output=True, text=True)
        report = json.load(open(out.name))
    return report["median_tokens_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tessera", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--preset", default="gpt2-124m")
    parser.add_argument("--threads", type=int, default=2, help="cores to use in all")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=8)
    args = parser.parse_args()
    cases = []
    for sequence in (64, 256):
        steps = args.steps if sequence == 64 else max(4, args.steps // 2)
        cases += [(f"tessera, 1 rank, seq {sequence}", lambda q=sequence, n=steps: tessera(args, 1, q, "ddp", n)),
                  (f"pytorch eager, seq {sequence}", lambda q=sequence, n=steps: pytorch(args, 1, q, "single", n, False)),
                  (f"pytorch compile, seq {sequence}", lambda q=sequence, n=steps: pytorch(args, 1, q, "single", n, True))]
    cases += [("tessera ddp, 2 ranks, seq 64", lambda: tessera(args, 2, 64, "ddp", args.steps)),
              ("tessera zero3, 2 ranks, seq 64", lambda: tessera(args, 2, 64, "zero3", args.steps)),
              ("pytorch DDP, 2 ranks, seq 64", lambda: pytorch(args, 2, 64, "ddp", args.steps, False)),
              ("pytorch FSDP2, 2 ranks, seq 64", lambda: pytorch(args, 2, 64, "fsdp2", args.steps, False))]
    results = {name: [] for name, _ in cases}
    for _ in range(args.rounds):
        for name, run in cases:
            results[name].append(run())
            print(f"  {name:<34} {results[name][-1]:>8.0f} tokens/s", flush=True)
    median = {name: statistics.median(values) for name, values in results.items()}
    print("\nmedians over rounds, tokens/s")
    for name, value in median.items():
        print(f"  {name:<34} {value:>8.0f}")
    for sequence in (64, 256):
        best = max(median[f"pytorch eager, seq {sequence}"], median[f"pytorch compile, seq {sequence}"])
        print(f"ratio to the better PyTorch, seq {sequence}: {median[f'tessera, 1 rank, seq {sequence}'] / best:.2f}")
    ours = median["tessera zero3, 2 ranks, seq 64"]
    print(f"zero3 / ddp: {ours / median['tessera ddp, 2 ranks, seq 64']:.2f}; zero3 / PyTorch DDP: "
          f"{ours / median['pytorch DDP, 2 ranks, seq 64']:.2f}; zero3 / PyTorch FSDP2: {ours / median['pytorch FSDP2, 2 ranks, seq 64']:.2f}")


if __name__ == "__main__":
    main()
