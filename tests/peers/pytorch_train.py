#!/usr/bin/env python3
"""Trains the same GPT-2, Qwen2 or Llama on the same tokens in the same order as `tessera train`, with PyTorch.

With --ranks above 1 the processes are started here and talk over gloo, on GPUs over NCCL. Prints step, loss, grad_norm, lr, seconds
and tokens per second. --run-dir leaves metrics.h5 and checkpoints. Without PyTorch, or h5py for --run-dir, it says so and ends with 77.
"""
from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

BEGAN = time.time()  # before the imports, which take seconds

from options import read_options

OPTIONS = read_options() if __name__ == "__main__" else None  # before PyTorch, which takes seconds; ranks are given theirs
if OPTIONS and OPTIONS.device == "cpu":
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # before torch looks for a GPU: this compares CPU with CPU

try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as multiprocessing

    if OPTIONS and OPTIONS.run_dir:
        import h5py  # noqa: F401
except ModuleNotFoundError as missing:
    print(f"{sys.executable} lacks a module ({missing}): pip install -r {Path(__file__).parent / 'requirements.txt'}")
    sys.exit(77)  # a sweep takes this code as skipped

import checkpoints
import models
import strategies
from account import Account, provenance
from samples import Samples

REPORT_EVERY = 10  # steps between rows of every rank, as metrics.every


def learning_rate(options: argparse.Namespace, step: int) -> float:
    """Of a step (from 1), as src/engine/optimizer.cpp has it: min_lr would be reached one step after the last."""
    steps, warm = options.total_steps, options.warmup_steps
    if step <= warm:
        return options.lr * step / warm
    fall = options.lr - options.min_lr
    done = (step - warm - 1) / (steps - warm)
    if options.schedule == "cosine":
        return options.min_lr + fall * 0.5 * (1.0 + math.cos(math.pi * done))
    if options.schedule == "linear":
        return options.lr - fall * done
    decay = math.floor(Fraction(repr(options.decay_fraction)) * steps) if options.schedule == "wsd" else 0
    return options.lr if step <= steps - decay else options.lr - fall * (step - (steps - decay + 1)) / decay


class Stopwatch:
    """Seconds of a step by what they went into. On a GPU the host only enqueues: but for data they are not known."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.is_blind = options.device == "cuda"
        self.start()

    def start(self) -> None:
        self.seconds = {"data": 0.0, "forward": 0.0, "backward": 0.0, "optimizer": 0.0}
        self.last = time.perf_counter()

    def ends(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] += float("nan") if self.is_blind and name != "data" else now - self.last
        self.last = now


def forward_backward(trained: strategies.Trained, samples: Samples, options: argparse.Namespace, step: int, rank: int,
                     watch: Stopwatch) -> torch.Tensor:
    """All micro-batches of this rank in a step (from 0); the sum of their shares of the loss."""
    total = torch.zeros((), device=options.device)
    for k in range(options.accumulation):
        ids = torch.from_numpy(samples.micro_batch(step, k * options.ranks + rank))
        if options.device == "cuda":
            ids = ids.pin_memory().to("cuda", non_blocking=True)
        watch.ends("data")
        with strategies.synchronization(trained, options, last=k == options.accumulation - 1):
            with strategies.autocast(options):
                loss = trained.called(ids[:, :-1], ids[:, 1:]) / options.accumulation
            watch.ends("forward")
            loss.backward()
            watch.ends("backward")
        total += loss.detach().float()
    return total


def mean_over_ranks(value: float, options: argparse.Namespace) -> float:
    if options.ranks == 1:
        return value
    tensor = torch.tensor(value, dtype=torch.float64, device=options.device)
    dist.all_reduce(tensor)
    return tensor.item() / options.ranks


def one_step(trained: strategies.Trained, optimizer: torch.optim.Optimizer, samples: Samples, options: argparse.Namespace, step: int,
             rank: int, watch: Stopwatch) -> dict[str, float]:
    """Step number `step` (from 1): its row."""
    begin = time.perf_counter()
    watch.start()
    rate = learning_rate(options, step)
    for group in optimizer.param_groups:
        group["lr"] = rate
    loss = forward_backward(trained, samples, options, step - 1, rank, watch)
    norm = strategies.gradient_norm(trained, options)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    # Only here does the host wait for a GPU, because the step's work was enqueued before.
    mean, norm_value = mean_over_ranks(loss.item(), options), norm.item()
    if options.device == "cuda":
        torch.cuda.synchronize()
    watch.ends("optimizer")
    seconds = time.perf_counter() - begin
    return {"step": step, "loss": mean, "grad_norm": norm_value, "lr": rate, "seconds": seconds,
            "tokens_per_second": samples.per_step * options.seq_len / seconds}


class Recorder:
    """metrics.h5 and checkpoints of a run; every rank has one, rank 0 writes the metrics. Without --run-dir it does nothing."""

    def __init__(self, options: argparse.Namespace, account: Account, rank: int, began: float) -> None:
        self.options, self.account, self.rank, self.began = options, account, rank, began
        self.file, self.reported = None, None  # the step of the last report

    def start(self, samples: Samples, parameters: int, done: int) -> None:
        """`done`: steps before this attempt."""
        if not self.options.run_dir:
            return
        self.done = self.reported = done
        if self.rank == 0:
            from metrics import MetricsFile, drop_rows_after, model_facts

            drop_rows_after(done, Path(self.options.run_dir))
            facts = model_facts(self.options, samples, parameters, self.account.peak_flops)
            self.file = MetricsFile(self.options, facts, provenance(self.options, self.account.load))

    def after_step(self, row: dict[str, float], times: dict[str, float]) -> None:
        if not self.options.run_dir:
            return
        self.account.after_step()
        step, first = int(row["step"]), self.reported == self.done
        if self.file:
            self.file.add_step(row, times)
            if first:
                self.file.note("seconds_to_first_step", time.time() - self.began)
        if first or step % REPORT_EVERY == 0 or step == self.options.total_steps:
            memory = self.account.memory()
            if self.file:
                self.file.add_memory(step, step - self.reported, memory, first)
            self.reported = step

    def save(self, step: int, trained: strategies.Trained, optimizer: torch.optim.Optimizer) -> None:
        every = self.options.checkpoint_every
        if not every or (step % every and step != self.options.total_steps):
            return
        begin = time.perf_counter()
        if self.file:
            self.file.flush()  # a checkpoint's rows come before it
        path = checkpoints.save(step, trained, optimizer, self.options, self.rank)
        if self.file:
            self.file.add_checkpoint(step, checkpoints.size(path), time.perf_counter() - begin)

    def close(self) -> None:
        if self.file:
            self.file.note("load_average_end", os.getloadavg()[0])
            self.file.close()


def choose_attention(kind: str) -> None:
    """Leaves only the wanted kernels of F.scaled_dot_product_attention; it fails where they cannot be had."""
    if kind == "auto":
        return
    torch.backends.cuda.enable_math_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_flash_sdp(kind == "flash")
    torch.backends.cuda.enable_cudnn_sdp(kind == "cudnn")


def train(rank: int, options: argparse.Namespace, began: float = BEGAN) -> None:
    torch.set_num_threads(options.threads)
    if options.device == "cuda":
        torch.cuda.set_device(rank)
        choose_attention(options.attention)
    account = Account(options)
    samples = Samples(options)
    trained = strategies.wrap(models.make_model(options), options)
    optimizer = strategies.make_optimizer(trained, options)
    if rank == 0:
        print(strategies.describe(trained, options), flush=True)
    if options.checkpoint:
        checkpoints.load(options.checkpoint, trained, optimizer)
    recorder, watch, rows = Recorder(options, account, rank, began), Stopwatch(options), []
    recorder.start(samples, trained.parameters, options.steps_done)
    for step in range(options.steps_done + 1, options.total_steps + 1):
        row = one_step(trained, optimizer, samples, options, step, rank, watch)
        rows.append(row)
        if rank == 0:
            print(f"step {step:5d}  loss {row['loss']:.7f}  grad_norm {row['grad_norm']:.6f}  lr {row['lr']:.2e}  "
                  f"{row['seconds']:8.4f} s  {row['tokens_per_second']:9.1f} tokens/s", flush=True)
        recorder.after_step(row, watch.seconds)
        recorder.save(step, trained, optimizer)
    recorder.close()
    if rank == 0:
        report(rows, options)


def report(rows: list[dict[str, float]], options: argparse.Namespace) -> None:
    warm = min(3, len(rows) - 1) if options.warm_up is None else options.warm_up
    median = statistics.median(row["tokens_per_second"] for row in rows[warm:])
    print(f"median after {warm} steps: {median:.1f} tokens/s")
    if options.output:
        device = torch.cuda.get_device_name() if options.device == "cuda" else "cpu"
        plain = {name: value for name, value in vars(options).items() if name not in ("config", "checkpoint")}
        result = {"options": plain, "torch": str(torch.__version__), "device": device, "median_tokens_per_second": median, "steps": rows}
        Path(options.output).write_text(json.dumps(result, indent=1) + "\n")


def run_rank(rank: int, options: argparse.Namespace, store: str, began: float) -> None:
    dist.init_process_group("nccl" if options.device == "cuda" else "gloo", init_method=f"file://{store}", rank=rank, world_size=options.ranks)
    try:
        train(rank, options, began)
    finally:
        dist.destroy_process_group()


def prepare(options: argparse.Namespace) -> None:
    """Everything that may be refused is, before processes start; adds what they have in common to the options."""
    if options.device == "auto":
        options.device = "cuda" if torch.cuda.is_available() else "cpu"
    if options.device == "cuda" and torch.cuda.device_count() < options.ranks:
        raise SystemExit(f"--ranks {options.ranks} with --device cuda: PyTorch finds {torch.cuda.device_count()} GPUs, and a rank has one of its own")
    options.config = models.shape(options)
    samples = Samples(options)
    samples.require_vocabulary(options.config.vocab)
    options.tokens, options.total_steps = len(samples.tokens), samples.steps()
    if options.run_dir and options.resume == "none":
        from metrics import files

        if files(Path(options.run_dir)) or checkpoints.folder_of(options).exists():
            raise SystemExit(f"--run-dir {options.run_dir} holds a run: --resume auto to go on, or another folder")
    options.checkpoint, options.steps_done = checkpoints.find(options)
    left = options.total_steps - options.steps_done
    if options.warm_up is not None and left and options.warm_up >= left:
        raise SystemExit(f"--warm-up {options.warm_up} leaves nothing of {left} steps to measure")
    if options.warmup_steps > options.total_steps:
        raise SystemExit(f"--warmup-steps {options.warmup_steps} is more than the {options.total_steps} steps")


def main(options: argparse.Namespace) -> None:
    prepare(options)
    if options.steps_done >= options.total_steps:
        print(f"{options.checkpoint} is of step {options.steps_done}: all {options.total_steps} steps are done")
        return
    if options.checkpoint:
        print(f"resume     step {options.steps_done} of {options.checkpoint}")
    if options.strategy == "single":
        train(0, options)
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["OMP_NUM_THREADS"] = str(options.threads)
        try:
            multiprocessing.spawn(run_rank, args=(options, os.path.join(folder, "store"), BEGAN), nprocs=options.ranks)
        except multiprocessing.ProcessExitedException as end:
            raise SystemExit(f"rank {end.error_index} ended with exit code {end.exit_code}; its own words stand above") from None


if __name__ == "__main__":
    main(OPTIONS)
