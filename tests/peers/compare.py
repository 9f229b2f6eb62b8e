#!/usr/bin/env python3
"""Tessera next to PyTorch: the same model, tokens and batch on this machine, in turns, in one sitting.

    VENV/bin/python compare.py --tessera ../../build/release/bin/tessera --source TOKENS.bin [--rounds 2] [--precision bf16]
    VENV/bin/python compare.py --device cuda --preset qwen2-1.5b --seq-len 1024 --micro-batch 16 --tessera ... --source ...

Prints tokens/s (median over rounds of each run's median step, least and largest) and ratios. Rounds go A B A B, so that a clock that
falls as the machine warms up falls for all. On cores: one rank with all threads at sequences of 64 and
256 against eager and compiled PyTorch; two ranks of one thread, ddp and zero3 against DDP and FSDP2 over gloo. With --precision bf16
both compute in bf16 (PyTorch: autocast; FSDP2: its mixed precision), next to one rank of Tessera in fp32. On a GPU: one rank in bf16,
sums in whatever order is fast (then in a fixed one, and at twice the batch), against every setting of PyTorch in --settings. A setting
that fails (out of memory, say) is named and not tried again. A round for which no time is left ends, and the others count. --output keeps a GPU's
results for draw_gpu.py.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
UNITS = {"": 1, "K": 1e3, "M": 1e6}
GPU_SETTINGS = {
    "eager": [],
    "blocks": ["--compile", "blocks"],
    "blocks-cudnn": ["--compile", "blocks", "--attention", "cudnn"],
    "whole": ["--compile", "whole"],
    "whole-cudnn": ["--compile", "whole", "--attention", "cudnn"],
    "fsdp2": ["--strategy", "fsdp2", "--compile", "blocks"],
    "fsdp2-eager": ["--strategy", "fsdp2"],
}


def tessera(args, ranks, sequence, micro_batch, strategy, steps, *more):
    command = [args.tessera, "bench", "step", f"--model.preset={args.preset}", f"--data.source={args.source}",
               "--data.order=sequential", "--data.val_fraction=0", f"--train.seq_len={sequence}", f"--train.micro_batch={micro_batch}",
               f"--shard.strategy={strategy}", f"--bench.steps={steps}", *more]
    if ranks > 1:
        command = ["mpiexec", "-n", str(ranks)] + command
    text = output_of(args, command)
    for line in text.splitlines():
        if args.device == "cuda" and line.startswith(("memory", "device", "kernels", "graph", "step", "rate", "MFU", "power")):
            print("    " + line[:300], flush=True)
    number, unit = re.search(r"([0-9.]+)([KM]?) tokens/s", text.split("step  ")[-1]).groups()
    return float(number) * UNITS[unit]


def pytorch(args, sequence, micro_batch, steps, *more):
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [sys.executable, str(HERE / "pytorch_train.py"), "--source", args.source, "--preset", args.preset, "--init", "torch",
                   "--micro-batch", str(micro_batch), "--warm-up", "3", "--output", out.name,
                   "--seq-len", str(sequence), "--steps", str(steps + 3), *more]
        output_of(args, command)
        report = json.load(open(out.name))
    return report["median_tokens_per_second"]


TWICE = "tessera, twice the batch"  # which a GPU's memory need not hold


class CaseFailed(Exception):
    pass


class OutOfTime(CaseFailed):
    pass


def output_of(args, command):
    """Returns a command's output. It has its own process group: after a time-out its children are killed too."""
    left = min(args.deadline - time.monotonic(), args.setting_seconds)
    if left <= 0:
        raise OutOfTime("no time is left")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, err = process.communicate(timeout=left if left < 1e9 else None)
    except subprocess.TimeoutExpired:
        raise OutOfTime(f"no result after {left:.0f} s") from None
    finally:
        end_group(process)
    if process.returncode != 0:
        words = [line for line in (out + err).splitlines() if line.strip()]
        print("\n".join("      " + line[:300] for line in words[-30:]), flush=True)
        telling = [line for line in words if re.search(r"error|Error", line)] or words or ["nothing said"]
        raise CaseFailed(f"exit code {process.returncode}: {telling[-1][:200]}")
    return out


def end_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def cpu_cases(args):
    threads = lambda ranks: f"--run.threads={args.threads // ranks}"
    torch_threads = lambda ranks: ["--threads", str(args.threads // ranks)]
    ours = f"--precision.compute={args.precision}"
    theirs = ["--precision", args.precision]
    cases = []
    for q in (64, 256):
        n = args.steps if q == 64 else max(4, args.steps // 2)
        cases += [(f"tessera, 1 rank, seq {q}", lambda q=q, n=n: tessera(args, 1, q, 4, "ddp", n, threads(1), ours))]
        if args.precision != "fp32":
            cases += [(f"tessera fp32, 1 rank, seq {q}", lambda q=q, n=n: tessera(args, 1, q, 4, "ddp", n, threads(1)))]
        cases += [(f"pytorch eager, seq {q}", lambda q=q, n=n: pytorch(args, q, 4, n, *torch_threads(1), *theirs)),
                  (f"pytorch compile, seq {q}", lambda q=q, n=n: pytorch(args, q, 4, n, *torch_threads(1), *theirs, "--compile"))]
    two = ["--ranks", "2", *torch_threads(2), *theirs]
    cases += [(f"tessera {strategy}, 2 ranks, seq 64", lambda strategy=strategy: tessera(args, 2, 64, 4, strategy, args.steps, threads(2), ours))
              for strategy in ("ddp", "zero3")]
    cases += [("pytorch DDP, 2 ranks, seq 64", lambda: pytorch(args, 64, 4, args.steps, "--strategy", "ddp", *two)),
              ("pytorch FSDP2, 2 ranks, seq 64", lambda: pytorch(args, 64, 4, args.steps, "--strategy", "fsdp2", *two))]
    return cases


def cpu_ratios(median):
    for sequence in (64, 256):
        ours = median[f"tessera, 1 rank, seq {sequence}"]
        best = max(median[f"pytorch eager, seq {sequence}"], median[f"pytorch compile, seq {sequence}"])
        print(f"ratio to the better PyTorch, seq {sequence}: {ours / best:.2f}")
        if fp32 := median.get(f"tessera fp32, 1 rank, seq {sequence}"):
            print(f"ratio to fp32, seq {sequence}: {ours / fp32:.2f}")
    ours = median["tessera zero3, 2 ranks, seq 64"]
    print(f"zero3 / ddp: {ours / median['tessera ddp, 2 ranks, seq 64']:.2f}; zero3 / PyTorch DDP: "
          f"{ours / median['pytorch DDP, 2 ranks, seq 64']:.2f}; zero3 / PyTorch FSDP2: {ours / median['pytorch FSDP2, 2 ranks, seq 64']:.2f}")


def gpu_cases(args):
    run = lambda deterministic, times=1: tessera(
        args, 1, args.seq_len, times * args.micro_batch, "ddp", args.steps, "--run.device=cuda", "--precision.compute=bf16",
        "--precision.reduce=bf16", f"--run.deterministic={deterministic}")
    common = ["--device", args.peer_device, "--precision", "bf16", "--pad-vocab", "128"]
    return [("tessera", lambda: run("false")), ("tessera, deterministic", lambda: run("true")),
            (TWICE, lambda: run("false", 2))] + [
        (f"pytorch {name}", lambda name=name: pytorch(args, args.seq_len, args.micro_batch, args.steps, *common, *GPU_SETTINGS[name]))
        for name in args.settings]


def gpu_ratios(median):
    peers = {name: value for name, value in median.items() if name.startswith("pytorch")}
    for ours in [name for name in ("tessera", "tessera, deterministic") if name in median and peers]:
        best = max(peers, key=peers.get)
        print(f"ratio of {ours} to PyTorch's best ({best}): {median[ours] / peers[best]:.2f}")


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tessera", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--preset", default="gpt2-124m")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32", help="cpu: what both compute in (a GPU: bf16)")
    parser.add_argument("--threads", type=int, default=2, help="cpu: cores to use in all")
    parser.add_argument("--rounds", type=int, default=2, help="turns that each contender gets (2)")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--seconds", type=float, help="stop after so many")
    parser.add_argument("--setting-seconds", type=float, default=float("inf"), help="give a setting up after so many")
    parser.add_argument("--seq-len", type=int, default=1024, help="cuda")
    parser.add_argument("--micro-batch", type=int, default=16, help="cuda")
    parser.add_argument("--settings", type=lambda text: [word for word in text.split(",") if word], default=list(GPU_SETTINGS), help="cuda: of PyTorch, in this order: "
                        + ",".join(GPU_SETTINGS))
    parser.add_argument("--peer-device", default="cuda", help="cuda: where PyTorch computes (cpu: to try this script)")
    parser.add_argument("--output", type=pathlib.Path, help="cuda: a JSON file; results of other models in it stay")
    args = parser.parse_args()
    if unknown := set(args.settings) - set(GPU_SETTINGS):
        parser.error(f"--settings {','.join(sorted(unknown))} (no such setting): {','.join(GPU_SETTINGS)}")
    args.deadline = time.monotonic() + args.seconds if args.seconds else float("inf")
    return args


def gpu_name():
    """Name, memory, power limit and driver of the GPU."""
    asked = ["nvidia-smi", "--query-gpu=name,memory.total,power.limit,driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()[0].strip()
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "a GPU that nvidia-smi does not name"


def kept_results(args):
    """The results that --output holds so far; a file of another GPU is refused."""
    if not args.output or not args.output.exists():
        return {"models": []}
    kept = json.loads(args.output.read_text())
    if kept["gpu"] != gpu_name():
        sys.exit(f"compare.py: {args.output} has results of {kept['gpu']}, and this is {gpu_name()}: name another file")
    return kept


def keep_results(args, results):
    """Adds the results of this model to those of other models on this GPU in the file."""
    models = [model for model in kept_results(args)["models"] if model["preset"] != args.preset]
    models.append({"preset": args.preset, "micro_batch": args.micro_batch, "sequence": args.seq_len,
                   "command": " ".join(["compare.py", *sys.argv[1:]]), "tokens_per_second": results})
    version = subprocess.run([args.tessera, "version"], capture_output=True, text=True, check=False).stdout.splitlines()
    args.output.write_text(json.dumps({"date": datetime.date.today().isoformat(), "gpu": gpu_name(), "precision": "bf16",
                                       "tessera": [line.strip() for line in version], "models": models}, indent=1) + "\n")


def measure(args, cases):
    """Runs the cases round by round. Returns the rates of each by name, and the names of those that failed in their first turn."""
    results, failed = {}, []
    for turn in range(args.rounds):
        for name, run in cases:
            if name in failed:
                continue
            try:
                rate = run()
            except CaseFailed as failure:
                if turn > 0 and isinstance(failure, OutOfTime):
                    print(f"  round {turn + 1} does not count, for {name} finds no time: {failure}", flush=True)
                    return {name: rates[:turn] for name, rates in results.items()}, failed
                failed.append(name)
                print(f"  {name:<34} failed: {failure}", flush=True)
                continue
            results.setdefault(name, []).append(rate)
            print(f"  {name:<34} {rate:>8.0f} tokens/s", flush=True)
    return results, failed


def main():
    args = read_options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))  # through output_of, which cleans up
    kept_results(args)
    results, failed = measure(args, cpu_cases(args) if args.device == "cpu" else gpu_cases(args))
    median = {name: statistics.median(values) for name, values in results.items()}
    print("\nmedians over rounds, tokens/s (least to largest)")
    for name, value in median.items():
        print(f"  {name:<34} {value:>8.0f} ({min(results[name]):.0f} to {max(results[name]):.0f}, {len(results[name])} rounds)")
    if args.device == "cuda":
        gpu_ratios(median)
        if args.output:
            keep_results(args, results)
        return any(name.startswith("tessera") and name != TWICE for name in failed)
    if failed:
        return 1
    cpu_ratios(median)
    return 0


if __name__ == "__main__":
    sys.exit(main())
