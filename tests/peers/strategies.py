"""How PyTorch splits the training over ranks: one process, DDP, FSDP1 or FSDP2, each with its wrapping and its sums of gradients."""
from __future__ import annotations

import argparse
import contextlib
import functools
from dataclasses import dataclass, field

import torch
from torch import nn

NAMES = {"single": "PyTorch", "ddp": "PyTorch DDP", "fsdp1": "PyTorch FSDP1", "fsdp2": "PyTorch FSDP2"}


@dataclass
class Trained:
    """A model in its wrapping. `called` maps tokens and targets to the loss; `module` has the parameters and the state."""

    called: nn.Module
    module: nn.Module
    parameters: int  # elements over all ranks
    decayed: list[nn.Parameter] = field(default_factory=list)  # those with two or more dimensions before FSDP1 flattened them
    others: list[nn.Parameter] = field(default_factory=list)


def wrap(model: nn.Module, options: argparse.Namespace) -> Trained:
    count = sum(parameter.numel() for parameter in model.parameters())
    matrices = {name for name, parameter in model.named_parameters() if parameter.dim() >= 2}
    if options.strategy == "fsdp1":
        called = module = _fsdp1(model, options)
    else:
        if options.activation_checkpointing == "block":
            _recompute_blocks(model)
        if options.compile == "blocks" or (options.compile and options.strategy == "fsdp2"):
            _compile_blocks(model)
        called = module = model
        if options.strategy == "fsdp2":
            _shard_fully(model, options)
        elif options.strategy == "ddp":
            called = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
        if options.compile == "whole" and options.strategy != "fsdp2":
            called = torch.compile(called)
    trained = Trained(called, module, count)
    for name, parameter in module.named_parameters():
        (trained.decayed if _plain(name) in matrices else trained.others).append(parameter)
    return trained


def describe(trained: Trained, options: argparse.Namespace) -> str:
    """Describes the result: the strategy, its units, the recomputation."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointWrapper
    from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel

    modules = list(trained.module.modules())
    units = sum(isinstance(module, (FullyShardedDataParallel, FSDPModule)) for module in modules)
    recomputed = sum(isinstance(module, CheckpointWrapper) for module in modules)
    words = [f"{NAMES[options.strategy]}, {options.ranks} rank{'s' if options.ranks > 1 else ''} of {options.threads} threads", f"{trained.parameters} parameters"]
    words += [f"{units} units (wrap {options.wrap})"] if units else []
    return ", ".join([*words, f"{recomputed} blocks recomputed", options.precision])


def _plain(name: str) -> str:
    """A parameter's name without what wrappers add to it."""
    return name.replace("_fsdp_wrapped_module.", "").replace("_checkpoint_wrapped_module.", "").replace("_orig_mod.", "")


def _recompute_blocks(model: nn.Module) -> None:
    """Drops what a block saves but its input; blocks inside FSDP1 units are found too."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing

    kinds = _block_types(model)
    apply_activation_checkpointing(model, check_fn=lambda module: type(module) in kinds)


def _block_types(model: nn.Module) -> set[type]:
    import decoder_torch
    import gpt2_torch

    return {decoder_torch.Block, gpt2_torch.Block}


def _compile_blocks(model: nn.Module) -> None:
    """Compiles each block alone, and the part after them, because an eager loss over a large vocabulary passes several times over memory."""
    for block in model.h:
        block.compile()
    model.loss = torch.compile(model.loss)


def _fsdp1(model: nn.Module, options: argparse.Namespace) -> nn.Module:
    """FullyShardedDataParallel. The embedding stays in the root's unit: the head reads its table outside of its forward."""
    from torch.distributed.fsdp import BackwardPrefetch, FullyShardedDataParallel, MixedPrecision, ShardingStrategy
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy, size_based_auto_wrap_policy

    kept = set(size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES) | {nn.Embedding}
    policies = {"block": ModuleWrapPolicy(_block_types(model)), "model": None,
                "size": functools.partial(size_based_auto_wrap_policy, min_num_params=options.min_params, exclude_wrap_modules=kept)}
    half = MixedPrecision(torch.bfloat16, _dtype(options.reduce_precision)) if options.precision == "bf16" else None
    sharded = FullyShardedDataParallel(
        model, auto_wrap_policy=policies[options.wrap], mixed_precision=half, use_orig_params=True,
        sharding_strategy=ShardingStrategy.FULL_SHARD if options.reshard_after_forward else ShardingStrategy.SHARD_GRAD_OP,
        backward_prefetch=BackwardPrefetch.BACKWARD_PRE if options.prefetch_backward else None,
        forward_prefetch=bool(options.prefetch_forward), limit_all_gathers=options.limit_all_gathers,
        device_id=torch.cuda.current_device() if options.device == "cuda" else torch.device("cpu"))
    if options.activation_checkpointing == "block":
        _recompute_blocks(sharded)
    return sharded


def _dtype(name: str) -> torch.dtype:
    return {"fp32": torch.float32, "bf16": torch.bfloat16}[name]


def _shard_fully(model: nn.Module, options: argparse.Namespace) -> None:
    """FSDP2: a unit per block (wrap = block), the rest (tables, last norm) with the root."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh(options.device, (options.ranks,))
    half = options.precision == "bf16"
    policy = MixedPrecisionPolicy(torch.bfloat16, _dtype(options.reduce_precision)) if half else MixedPrecisionPolicy()
    shard = functools.partial(fully_shard, mesh=mesh, reshard_after_forward=options.reshard_after_forward, mp_policy=policy)
    blocks = list(model.h) if options.wrap == "block" else []
    for block in blocks:
        shard(block)
    shard(model)
    depth = options.prefetch_forward
    for i, block in enumerate(blocks[:-1]):
        if depth:
            block.set_modules_to_forward_prefetch(blocks[i + 1 : i + 1 + depth])


def autocast(options: argparse.Namespace) -> contextlib.AbstractContextManager:
    """Matmuls in bf16 where the strategy does not have its own mixed precision."""
    wanted = options.precision == "bf16" and options.strategy in ("single", "ddp")
    return torch.autocast(options.device, torch.bfloat16, enabled=wanted)


def synchronization(trained: Trained, options: argparse.Namespace, last: bool) -> contextlib.AbstractContextManager:
    """For forward and backward of a micro-batch: gradients are summed over ranks after each, or after the last one."""
    wanted = last or options.reduce == "micro_step"
    if options.strategy == "fsdp2":
        trained.module.set_requires_gradient_sync(wanted)
    elif options.strategy in ("ddp", "fsdp1") and not wanted:
        return _ddp_of(trained.called).no_sync()
    return contextlib.nullcontext()


def _ddp_of(called: nn.Module) -> nn.Module:
    """The wrapper below torch.compile's own."""
    return getattr(called, "_orig_mod", called)


def gradient_norm(trained: Trained, options: argparse.Namespace) -> torch.Tensor:
    """Norm of the full gradient before clipping; clips when asked to."""
    limit = options.clip if options.clip > 0 else float("inf")
    if options.strategy == "fsdp1":
        return trained.module.clip_grad_norm_(limit)
    norm = nn.utils.clip_grad_norm_(trained.module.parameters(), limit)
    return norm.full_tensor() if hasattr(norm, "full_tensor") else norm


def make_optimizer(trained: Trained, options: argparse.Namespace) -> torch.optim.Optimizer:
    """AdamW, decay on tensors of two or more dimensions only; fused."""
    groups = [{"params": trained.decayed, "weight_decay": options.weight_decay}, {"params": trained.others, "weight_decay": 0.0}]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=options.lr, betas=(options.beta1, options.beta2),
                             eps=options.eps, fused=True)
