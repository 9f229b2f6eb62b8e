"""Checkpoints of a training in PyTorch: RUN/checkpoints/step-00000010/, by torch.distributed.checkpoint."""
from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from strategies import Trained

NOTES = "training.json"  # written last: a folder with it is complete
# What a run that goes on must have in common with the checkpoint's: other values mean other samples or another state.
HELD = ("strategy", "ranks", "wrap", "min_params", "reshard_after_forward", "preset", "family", "from_folder", "layers", "heads",
        "kv_heads", "width", "ffn_width", "vocab", "context", "pad_vocab", "seed", "init", "order", "data_seed", "val_fraction",
        "micro_batch", "accumulation", "seq_len", "tokens")


def folder_of(options: argparse.Namespace) -> Path:
    return Path(options.run_dir) / "checkpoints"


def _steps(folder: Path) -> dict[int, Path]:
    """Complete checkpoints by step, oldest first."""
    found = {}
    for path in folder.glob("step-*") if folder.is_dir() else ():
        if re.fullmatch(r"step-\d{8,}", path.name) and (path / NOTES).is_file():
            found[int(path.name[5:])] = path
    return dict(sorted(found.items()))


def find(options: argparse.Namespace) -> tuple[Path | None, int]:
    """The checkpoint to go on from, and its step; None and 0 without. SystemExit where it cannot be used."""
    if options.resume == "none":
        return None, 0
    if options.resume == "auto":
        there = _steps(folder_of(options))
        if not there:
            return None, 0
        path = there[max(there)]
    else:
        path = Path(options.resume)
        if not (path / NOTES).is_file():
            raise SystemExit(f"--resume {path}: no complete checkpoint of this program (it has no {NOTES}): RUN/checkpoints/step-N, or auto")
    notes = json.loads((path / NOTES).read_text())
    for name in HELD:
        if notes["options"].get(name) != getattr(options, name):
            raise SystemExit(f"--resume {path}: it was trained with {_said(name, notes['options'].get(name))}, "
                             f"this run with {_said(name, getattr(options, name))}: the same, or another --run-dir")
    return path, notes["step"]


def _said(name: str, value: object) -> str:
    name = name.replace("from_folder", "from").replace("_", "-")
    return f"no --{name}" if value is None else f"--{name} {value}"


def load(path: Path, trained: Trained, optimizer: torch.optim.Optimizer) -> None:
    """Collective."""
    model, moments = get_state_dict(trained.module, optimizer)
    state = {"model": model, "optimizer": moments}
    dcp.load(state, checkpoint_id=path, no_dist=not dist.is_initialized())
    set_state_dict(trained.module, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])


def save(step: int, trained: Trained, optimizer: torch.optim.Optimizer, options: argparse.Namespace, rank: int) -> Path:
    """Collective. A folder of that name is complete; older ones than --checkpoint-keep are deleted."""
    folder = folder_of(options)
    path = folder / f"step-{step:08d}"
    beside = path.with_name(path.name + ".tmp")
    if rank == 0:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
    _wait()
    model, moments = get_state_dict(trained.module, optimizer)
    dcp.save({"model": model, "optimizer": moments}, checkpoint_id=beside, no_dist=not dist.is_initialized())
    _wait()
    if rank == 0:
        held = {name: getattr(options, name) for name in HELD}
        (beside / NOTES).write_text(json.dumps({"step": step, "options": held, "torch": str(torch.__version__)}, indent=1) + "\n")
        shutil.rmtree(path, ignore_errors=True)
        beside.rename(path)
        for old in list(_steps(folder).values())[: -options.checkpoint_keep or None] if options.checkpoint_keep else ():
            shutil.rmtree(old)
    _wait()
    return path


def size(path: Path) -> int:
    """Bytes of its files."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _wait() -> None:
    if dist.is_initialized():
        dist.barrier()
