#!/usr/bin/env python3
"""Trains the same GPT-2, Qwen2 or Llama on the same tokens in the same order as `tessera train`, with PyTorch.

Options are Tessera's names (train.micro_batch is --micro-batch, ...). With --ranks above 1 the processes are started
here and talk over gloo, on GPUs over NCCL. Prints step, loss, grad_norm, lr, seconds and tokens per second, and writes them as JSON.
Without PyTorch it says so and ends with 77.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import statistics
import sys
import time
from pathlib import Path

BEGAN = time.time()  # before the imports, which take seconds

if "--device=cuda" not in sys.argv and "--device cuda" not in " ".join(sys.argv):
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # before torch looks for a GPU: this compares CPU with CPU

try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as multiprocessing

    import numpy as np
except ModuleNotFoundError as missing:
    print(f"no PyTorch ({sys.executable}: {missing}): pip install -r {Path(__file__).parent / 'requirements.txt'}")
    sys.exit(77)  # what a sweep takes as skipped

import decoder_torch
import gpt2_torch
from metrics_json import Account

LLM_C_DTYPES = {20240520: "<u2", 20240801: "<u4"}  # magic of llm.c's 1,024-byte header


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True, help="token file: raw little-endian uint16, or llm.c's")
    parser.add_argument("--preset", choices=sorted(gpt2_torch.PRESETS | decoder_torch.PRESETS), default="gpt2-124m")
    parser.add_argument("--from", dest="from_folder", help="Hugging Face folder: its shape and weights instead of a preset's")
    parser.add_argument("--seed", type=int, default=0, help="of the initial weights (not Tessera's generator)")
    parser.add_argument("--strategy", choices=["single", "ddp", "fsdp2"], default="single")
    parser.add_argument("--ranks", type=int, default=1, help="processes, all on this machine")
    parser.add_argument("--threads", type=int, default=1, help="threads of each rank; 0: allowed cores / ranks")
    parser.add_argument("--compile", nargs="?", const="whole", choices=["whole", "blocks"],
                        help="torch.compile; blocks (and always with fsdp2): each block alone, which compiles once for all of them, and the loss")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="cuda: a GPU for each rank")
    parser.add_argument("--attention", choices=["auto", "flash", "cudnn"], default="auto", help="cuda: SDPA's kernels; auto: PyTorch's choice")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32",
                        help="bf16: autocast (fsdp2: its mixed precision, reduced in fp32); weights and moments stay fp32")
    parser.add_argument("--pad-vocab", type=int, default=1, help="round the vocabulary up to a multiple, for speed")
    parser.add_argument("--micro-batch", type=int, default=4)
    parser.add_argument("--accumulation", type=int, help="micro-batches per rank and step (default: 1)")
    parser.add_argument("--global-batch", type=int, help="samples per step over all ranks, instead of --accumulation")
    parser.add_argument("--seq-len", type=int, default=64)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warm-up", type=int, default=3, help="first steps left out of the median")
    parser.add_argument("--lr", type=float, default=6e-4)
    parser.add_argument("--beta1", type=float, default=0.9)
    parser.add_argument("--beta2", type=float, default=0.95)
    parser.add_argument("--eps", type=float, default=1e-8)
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--clip", type=float, default=1.0, help="0 = off")
    parser.add_argument("--prefetch-forward", type=int, default=0, help="fsdp2: units ahead; 0 = PyTorch's own")
    parser.add_argument("--output", help="JSON file")
    parser.add_argument("--metrics", help="JSON file for tessera-report: a list for each dataset of metrics.h5")
    options = parser.parse_args()
    settle(options, parser)
    if options.strategy == "single" and options.ranks != 1:
        parser.error("--strategy single has one rank (each would train alone): --ranks 1, or ddp or fsdp2")
    if options.attention != "auto" and options.device != "cuda":
        parser.error(f"--attention {options.attention} is a choice among a GPU's kernels: --device cuda")
    if options.warm_up >= options.steps:
        parser.error(f"--warm-up {options.warm_up} leaves nothing of --steps {options.steps} to measure")
    return options


def settle(options, parser):
    """Accumulation and threads where they follow from other options."""
    if options.global_batch is not None:
        if options.accumulation is not None:
            parser.error("--global-batch and --accumulation: one of them")
        together = options.ranks * options.micro_batch
        if options.global_batch < 1 or options.global_batch % together:
            parser.error(f"--global-batch {options.global_batch} is no multiple of {together} (--ranks x --micro-batch)")
        options.accumulation = options.global_batch // together
    options.accumulation = 1 if options.accumulation is None else options.accumulation
    options.threads = options.threads or max(1, len(os.sched_getaffinity(0)) // options.ranks)


def open_tokens(path):
    """The tokens of a .bin, memory-mapped."""
    header = np.fromfile(path, dtype="<i4", count=256)
    if len(header) and int(header[0]) in LLM_C_DTYPES:
        return np.memmap(path, dtype=LLM_C_DTYPES[int(header[0])], mode="r", offset=1024)
    return np.memmap(path, dtype="<u2", mode="r")


def micro_batch(tokens, options, step, number):
    """Micro-batch `number` of a step, data.order = sequential: samples s*G + number*B and on (docs/numerics.md, 6)."""
    size, length = options.micro_batch, options.seq_len
    first = (step * options.ranks * options.accumulation + number) * size
    samples = [tokens[i * length : i * length + length + 1] for i in range(first, first + size)]
    if len(samples[-1]) < length + 1:
        raise SystemExit(f"{options.source} ends at step {step}: it has {len(tokens)} tokens")
    ids = torch.from_numpy(np.stack(samples).astype(np.int64))
    if options.device == "cuda":
        ids = ids.pin_memory().to("cuda", non_blocking=True)
    return ids[:, :-1], ids[:, 1:]


def make_model(options):
    """Of a preset with random weights, made on the device; or a folder's."""
    if options.from_folder:
        keys = json.loads((Path(options.from_folder) / "config.json").read_text())
        module = gpt2_torch if keys["model_type"] == "gpt2" else decoder_torch
        return module.from_hugging_face(options.from_folder, options.seq_len).to(options.device)
    module, kind = (gpt2_torch, gpt2_torch.Gpt2) if options.preset in gpt2_torch.PRESETS else (decoder_torch, decoder_torch.Decoder)
    preset = module.PRESETS[options.preset]
    padded = -(-preset.vocab // options.pad_vocab) * options.pad_vocab
    with torch.device(options.device):
        return kind(dataclasses.replace(preset, vocab=padded), options.seed, options.seq_len)


def build_model(options):
    """The module to call, and the module whose parameters are trained."""
    model = make_model(options)
    if options.seq_len > model.config.context:
        raise SystemExit(f"--seq-len {options.seq_len} is longer than the model's context {model.config.context}")
    if options.strategy == "fsdp2":
        shard_fully(model, options)
        return model, model
    if options.compile == "blocks":
        compile_blocks(model)
    called = model
    if options.strategy == "ddp":
        called = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    return (torch.compile(called) if options.compile == "whole" else called), model


def compile_blocks(model):
    """Each block alone, and what follows them: a large vocabulary's loss is several passes over memory where it is eager."""
    for block in model.h:
        block.compile()
    model.loss = torch.compile(model.loss)


def shard_fully(model, options):
    """FSDP2: a unit per block, the rest (tables, last norm) with the root."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh(options.device, (options.ranks,))
    half = options.precision == "bf16"
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if half else MixedPrecisionPolicy()
    if options.compile:
        compile_blocks(model)
    for block in model.h:
        fully_shard(block, mesh=mesh, reshard_after_forward=True, mp_policy=policy)
    fully_shard(model, mesh=mesh, reshard_after_forward=True, mp_policy=policy)
    depth = options.prefetch_forward
    for i, block in enumerate(model.h):
        if depth and i + 1 < len(model.h):
            block.set_modules_to_forward_prefetch(list(model.h[i + 1 : i + 1 + depth]))


def build_optimizer(model, options):
    """AdamW, decay on tensors of two or more dimensions only; fused where PyTorch can."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": options.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=options.lr, betas=(options.beta1, options.beta2), eps=options.eps, fused=True)


def forward_backward(called, tokens, options, step, rank):
    """All micro-batches of this rank; the summed mean loss (a tensor). Gradients are reduced on the last one only."""
    total = torch.zeros((), device=options.device)
    half = options.precision == "bf16" and options.strategy != "fsdp2"
    for k in range(options.accumulation):
        last = k == options.accumulation - 1
        quiet = contextlib.nullcontext()
        if options.strategy == "ddp" and not last:
            quiet = called.no_sync()
        elif options.strategy == "fsdp2":
            called.set_requires_gradient_sync(last)
        with quiet:
            inputs, targets = micro_batch(tokens, options, step, k * options.ranks + rank)
            with torch.autocast(options.device, torch.bfloat16, enabled=half):
                loss = called(inputs, targets) / options.accumulation
            loss.backward()
        total += loss.detach().float()
    return total


def gradient_norm(model, options):
    """Norm before clipping (a tensor); clips when asked to."""
    limit = options.clip if options.clip > 0 else float("inf")
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
    return norm.full_tensor() if hasattr(norm, "full_tensor") else norm


def choose_attention(kind):
    """Leaves only the wanted kernels of F.scaled_dot_product_attention; it fails where they cannot be had."""
    if kind == "auto":
        return
    torch.backends.cuda.enable_math_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_flash_sdp(kind == "flash")
    torch.backends.cuda.enable_cudnn_sdp(kind == "cudnn")


def mean_over_ranks(value, options):
    if options.ranks == 1:
        return value
    tensor = torch.tensor(value, dtype=torch.float64, device=options.device)
    dist.all_reduce(tensor)
    return tensor.item() / options.ranks


def train(rank, options, began=BEGAN):
    torch.set_num_threads(options.threads)
    if options.device == "cuda":
        torch.cuda.set_device(rank)
        choose_attention(options.attention)
    account = Account(options, began)
    tokens = open_tokens(options.source)
    called, model = build_model(options)
    optimizer = build_optimizer(model, options)
    tokens_per_step = options.ranks * options.accumulation * options.micro_batch * options.seq_len
    rows = []
    for step in range(options.steps):
        begin = time.perf_counter()
        loss = forward_backward(called, tokens, options, step, rank)
        norm = gradient_norm(model, options)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        # The host waits for a GPU here only: the step's work was enqueued before.
        loss, norm = mean_over_ranks(loss.item(), options), norm.item()
        if options.device == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - begin
        account.after_step()
        row = {"step": step + 1, "loss": loss, "grad_norm": norm, "lr": options.lr, "seconds": seconds,
               "tokens_per_second": tokens_per_step / seconds}
        rows.append(row)
        if rank == 0:
            print(f"step {row['step']:5d}  loss {loss:.7f}  grad_norm {norm:.6f}  lr {options.lr:.2e}  "
                  f"{seconds:8.4f} s  {row['tokens_per_second']:9.1f} tokens/s", flush=True)
    peaks = account.memory_peaks()
    if rank == 0:
        report(rows, options)
        if options.metrics:
            account.write(options.metrics, rows, model, len(tokens), peaks)


def report(rows, options):
    median = statistics.median(row["tokens_per_second"] for row in rows[options.warm_up :])
    print(f"median after {options.warm_up} steps: {median:.1f} tokens/s")
    if options.output:
        result = {"options": vars(options), "torch": str(torch.__version__), "device": device_name(options), "median_tokens_per_second": median, "steps": rows}
        Path(options.output).write_text(json.dumps(result, indent=1) + "\n")


def device_name(options):
    return torch.cuda.get_device_name() if options.device == "cuda" else "cpu"


def run_rank(rank, options, store, began):
    dist.init_process_group("nccl" if options.device == "cuda" else "gloo", init_method=f"file://{store}", rank=rank, world_size=options.ranks)
    try:
        train(rank, options, began)
    finally:
        dist.destroy_process_group()


def main():
    options = read_options()
    if options.strategy == "single":
        train(0, options)
        return
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        os.environ["OMP_NUM_THREADS"] = str(options.threads)
        multiprocessing.spawn(run_rank, args=(options, os.path.join(folder, "store"), BEGAN), nprocs=options.ranks)


if __name__ == "__main__":
    main()
