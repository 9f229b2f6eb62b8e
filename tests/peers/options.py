"""The command line of pytorch_train.py: Tessera's names with dashes, without the section (train.micro_batch is --micro-batch)."""
from __future__ import annotations

import argparse
import os
from pathlib import Path

UNITS = {"K": 1000, "M": 1000_000, "G": 1000_000_000}
SIZES = ("layers", "heads", "kv_heads", "width", "ffn_width", "vocab", "context")
PRESETS = ("nano", "gpt2-124m", "gpt2-350m", "gpt2-774m", "gpt2-1558m", "qwen2-0.5b", "qwen2-1.5b", "llama-1b", "llama-8b")
SHARDED = ("fsdp1", "fsdp2")


def count(text: str) -> int:
    """A whole number, 0 or more, as Tessera reads them: 500K, 1M, 1e6."""
    factor = UNITS.get(text[-1:], 1)
    value = float(text[:-1] if factor > 1 else text) * factor
    if value < 0 or value != int(value):
        raise ValueError(text)
    return int(value)


def truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r}: true or false")
    return text == "true"


def read_options(words: list[str] | None = None) -> argparse.Namespace:
    """The options, those that follow from others filled in. Ends the program with 2 where they cannot be."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    _add_model(parser)
    _add_sharding(parser)
    _add_training(parser)
    _add_files(parser)
    options = parser.parse_args(words)
    _complete(options, parser)
    _refuse_sharding(options, parser)
    _refuse_rest(options, parser)
    return options


def _add_model(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("model")
    group.add_argument("--preset", choices=PRESETS, help="shape (default: gpt2-124m); sizes given below replace the preset's")
    group.add_argument("--family", choices=["gpt2", "qwen2", "llama"], help="instead of a preset: a family, its sizes given below")
    for name in SIZES:
        group.add_argument(f"--{name.replace('_', '-')}", type=count, help="0: the preset's" if name != "vocab" else "tokens that the model knows")
    group.add_argument("--from", dest="from_folder", help="Hugging Face folder: its shape and weights instead of a preset's")
    group.add_argument("--seed", type=count, default=1, help="of the first weights (run.seed)")
    group.add_argument("--init", choices=["tessera", "torch"], default="tessera",
                       help="the first weights: Tessera's own of that seed, or PyTorch's generator (quicker for large models)")
    group.add_argument("--pad-vocab", type=count, default=1, help="round the vocabulary up to a multiple, for speed")
    group.add_argument("--precision", choices=["fp32", "bf16"], default="fp32",
                       help="bf16: autocast (fsdp1, fsdp2: their mixed precision); weights and moments stay fp32")
    group.add_argument("--reduce-precision", choices=["fp32", "bf16"], help="fsdp1, fsdp2 in bf16: type of reduced gradients (fp32)")
    group.add_argument("--activation-checkpointing", choices=["none", "block"], default="none", help="memory.checkpoint: recompute blocks in backward")
    group.add_argument("--attention", choices=["auto", "flash", "cudnn"], default="auto", help="cuda: SDPA's kernels; auto: PyTorch's choice")
    group.add_argument("--compile", nargs="?", const="whole", choices=["whole", "blocks"],
                       help="torch.compile; blocks (and always with fsdp2): each block alone, which compiles once for all of them, and the loss")


def _add_sharding(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("sharding")
    group.add_argument("--strategy", choices=["single", "ddp", *SHARDED], default="single")
    group.add_argument("--ranks", type=count, default=1, help="processes, all on this machine")
    group.add_argument("--threads", type=count, default=1, help="threads of each rank; 0: allowed cores / ranks")
    group.add_argument("--device", choices=["auto", "cpu", "cuda"], default="cpu", help="cuda: a GPU for each rank; auto: where there is one")
    group.add_argument("--wrap", choices=["block", "size", "model"], help="fsdp1, fsdp2: what is gathered together (block); size (fsdp1): PyTorch's size_based_auto_wrap_policy")
    group.add_argument("--min-params", type=count, help="--wrap size: its min_num_params (1M)")
    group.add_argument("--reshard-after-forward", type=truth, help="fsdp1, fsdp2: false is fsdp1's SHARD_GRAD_OP (true)")
    group.add_argument("--limit-all-gathers", type=truth, help="fsdp1: its rate limiter (true)")
    group.add_argument("--prefetch-forward", type=count, help="fsdp2: units ahead; fsdp1: 1 is its forward_prefetch (0: PyTorch's own)")
    group.add_argument("--prefetch-backward", type=count, choices=[0, 1], help="fsdp1: 1 is BACKWARD_PRE, 0 none (1)")
    group.add_argument("--reduce", choices=["auto", "micro_step", "step"], default="auto",
                       help="sum gradients over ranks after each micro-batch or once a step; auto: micro_step where they are sharded")


def _add_training(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("training")
    group.add_argument("--steps", type=count, help="optimizer steps (10)")
    group.add_argument("--epochs", help="passes over the tokens, instead of --steps")
    group.add_argument("--micro-batch", type=count, default=4)
    group.add_argument("--accumulation", type=count, help="micro-batches per rank and step (1)")
    group.add_argument("--global-batch", type=count, help="samples per step over all ranks, instead of --accumulation")
    group.add_argument("--seq-len", type=count, default=64)
    group.add_argument("--warm-up", type=count, help="first steps left out of the printed median (3)")
    group.add_argument("--lr", type=float, default=6e-4)
    group.add_argument("--min-lr", type=float, default=0.0)
    group.add_argument("--warmup-steps", type=count, default=0)
    group.add_argument("--schedule", choices=["constant", "cosine", "linear", "wsd"], default="constant")
    group.add_argument("--decay-fraction", type=float, default=0.2)
    group.add_argument("--beta1", type=float, default=0.9)
    group.add_argument("--beta2", type=float, default=0.95)
    group.add_argument("--eps", type=float, default=1e-8)
    group.add_argument("--weight-decay", type=float, default=0.1)
    group.add_argument("--clip", type=float, default=1.0, help="0 = off")


def _add_files(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("files")
    group.add_argument("--source", required=True, help="token file: raw little-endian uint16, or llm.c's")
    group.add_argument("--order", choices=["sequential", "shuffled"], default="sequential", help="data.order, the same permutation as Tessera's")
    group.add_argument("--data-seed", type=count, default=1, help="data.seed: of --order shuffled")
    group.add_argument("--val-fraction", type=float, default=0.0, help="last part of the tokens, which is not trained on; it is not evaluated either")
    group.add_argument("--run-dir", help="folder for metrics.h5, as tessera-report reads it, and for checkpoints")
    group.add_argument("--checkpoint-every", type=count, default=0, help="steps between checkpoints, the last step has one too; 0: none")
    group.add_argument("--checkpoint-keep", type=count, default=3, help="newest checkpoints that are kept; 0: all")
    group.add_argument("--resume", default="none", help="none, auto (the newest checkpoint of --run-dir, if there is one) or a checkpoint's folder")
    group.add_argument("--output", help="JSON file: options, steps and the median tokens/s")


def _complete(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Fills in what follows from other options. Before that, options without effect are refused."""
    for name in ("ranks", "micro_batch", "seq_len", "pad_vocab"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} 0: 1 or more")
    if options.steps == 0 or options.accumulation == 0:
        parser.error("--steps 0 or --accumulation 0: 1 or more")
    if options.global_batch is not None:
        if options.accumulation is not None:
            parser.error("--global-batch and --accumulation: one of them")
        together = options.ranks * options.micro_batch
        if options.global_batch < 1 or options.global_batch % together:
            parser.error(f"--global-batch {options.global_batch} is no multiple of {together} (--ranks x --micro-batch)")
        options.accumulation = options.global_batch // together
    options.accumulation = 1 if options.accumulation is None else options.accumulation
    options.threads = options.threads or max(1, len(os.sched_getaffinity(0)) // options.ranks)


def _refuse_sharding(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Refuses options that the strategy does not use; then fills in its defaults."""
    strategy = options.strategy
    if strategy == "single" and options.ranks != 1:
        parser.error("--strategy single has one rank (each would train alone): --ranks 1, or ddp, fsdp1 or fsdp2")
    used = {"wrap": SHARDED, "reshard_after_forward": SHARDED, "prefetch_forward": SHARDED, "reduce_precision": SHARDED,
            "limit_all_gathers": ("fsdp1",), "prefetch_backward": ("fsdp1",), "min_params": ("fsdp1",)}
    for name, strategies in used.items():
        if getattr(options, name) is not None and strategy not in strategies:
            parser.error(f"--{name.replace('_', '-')} has no effect with --strategy {strategy}: leave it out, or {' or '.join(strategies)}")
    if strategy == "single" and options.reduce != "auto":
        parser.error(f"--reduce {options.reduce} has no effect on one rank: leave it out")
    if strategy == "fsdp2" and options.wrap == "size":
        parser.error("--wrap size is FSDP1's (fully_shard takes modules): --strategy fsdp1, or --wrap block or model")
    if options.min_params is not None and options.wrap != "size":
        parser.error("--min-params has no effect without --wrap size")
    if options.reduce_precision == "bf16" and options.precision != "bf16":
        parser.error("--reduce-precision bf16 needs --precision bf16")
    if strategy == "fsdp1" and (options.prefetch_forward or 0) > 1:
        parser.error(f"--prefetch-forward {options.prefetch_forward}: FSDP1 gathers one unit ahead at most: 0 or 1")
    if strategy == "fsdp1" and options.compile:
        parser.error("--compile with fsdp1 is not supported here: --strategy fsdp2")
    defaults = {"wrap": "block", "min_params": 1_000_000, "reshard_after_forward": True, "limit_all_gathers": True,
                "prefetch_forward": 0, "prefetch_backward": 1, "reduce_precision": "fp32"}
    for name, value in defaults.items():
        if getattr(options, name) is None and strategy in used[name]:
            setattr(options, name, value)
    if options.reduce == "auto":
        options.reduce = "micro_step" if strategy in SHARDED else "step"


def _refuse_rest(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    shapes = [f"--{name}" for name, value in (("preset", options.preset), ("family", options.family), ("from", options.from_folder)) if value]
    if len(shapes) > 1:
        parser.error(f"{' and '.join(shapes)}: one of them")
    if options.from_folder:
        for name in (*SIZES, "pad_vocab"):
            if getattr(options, name) not in (None, 0, 1):
                parser.error(f"--{name.replace('_', '-')} and --from: the folder has the sizes")
    options.preset = options.preset or (None if shapes else "gpt2-124m")
    if options.steps is not None and options.epochs is not None:
        parser.error("--steps and --epochs: one of them")
    if not 0 <= options.val_fraction < 1:
        parser.error(f"--val-fraction {options.val_fraction}: 0 up to, not including, 1")
    if options.attention != "auto" and options.device == "cpu":
        parser.error(f"--attention {options.attention} is a choice among a GPU's kernels: --device cuda")
    if (options.checkpoint_every or options.resume == "auto") and not options.run_dir:
        parser.error("--checkpoint-every and --resume auto need --run-dir")
    if options.compile == "whole" and options.activation_checkpointing != "none":
        parser.error("--compile whole with --activation-checkpointing (the compiler chooses what it recomputes): --compile blocks")
    if not Path(options.source).is_file():
        parser.error(f"--source {options.source}: no such file")
