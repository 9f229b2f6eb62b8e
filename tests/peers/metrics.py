"""metrics.h5 of a training in PyTorch, in Tessera's layout (docs/manual/metrics.md): tessera-report reads it as a row."""
from __future__ import annotations

import argparse
import json
import math
import re
import time
from pathlib import Path

import h5py
import numpy as np

from models import matmul_flops, published_flops, sizes
from samples import Samples
from strategies import NAMES

CHUNK = 1024
LIBRARY = ("v110", "v110")  # readable by HDF5 1.10, which distributions have, while it is written (SWMR)
STEP_COLUMNS = {"step": "i8", "skipped": "i8", "timed": "i8", "loss": "f8", "grad_norm": "f8", "lr": "f8", "seconds": "f8",
                "unix_time": "f8", "tokens_per_second": "f8"}
TIMES = ("data", "forward", "backward", "optimizer")
CHECKPOINT_COLUMNS = {"step": "i8", "bytes": "i8", "blocked_seconds": "f8", "background_seconds": "f8", "waited_seconds": "f8"}
FLUSH_SECONDS = 1.0


def files(folder: Path) -> dict[int, Path]:
    """metrics.h5, metrics.1.h5, ... by number."""
    found = {}
    for path in folder.glob("metrics*.h5"):
        if match := re.fullmatch(r"metrics(?:\.([1-9]\d*))?\.h5", path.name):
            found[int(match[1] or 0)] = path
    return dict(sorted(found.items()))


def drop_rows_after(step: int, folder: Path) -> None:
    """Takes the rows of later steps out of older attempts' files: these steps are done again. A file without rows goes."""
    for path in files(folder).values():
        with h5py.File(path, "r+", libver=LIBRARY, locking=False) as file:
            left = 0
            for group, number in (("steps", "step"), ("checkpoints", "step"), ("ranks", "report")):
                keep = int(np.searchsorted(file[group][number][:], step, side="right"))
                left += keep if group == "steps" else 0
                file[group].visititems(lambda _, item: item.resize(keep, axis=0) if isinstance(item, h5py.Dataset) else None)
        if left == 0:
            path.unlink()


class MetricsFile:
    """A new attempt's file; rank 0 alone has one."""

    def __init__(self, options: argparse.Namespace, model: dict[str, object], provenance: dict[str, object]) -> None:
        folder = Path(options.run_dir)
        folder.mkdir(parents=True, exist_ok=True)
        number = max(files(folder), default=-1) + 1
        self.path = folder / (f"metrics.{number}.h5" if number else "metrics.h5")
        self.flushed, self.ranks = time.monotonic(), options.ranks
        self.log = open(folder / "log.jsonl", "a", encoding="utf-8", buffering=1)  # whole lines, also after a crash
        beside = self.path.with_name(self.path.name + ".tmp")
        self.file = h5py.File(beside, "w", libver=LIBRARY)
        self.file.attrs["format"], self.file.attrs["format_version"] = "tessera metrics", 1
        for group, values in (("config", config(options, sizes(options.config))), ("model", model), ("provenance", provenance)):
            for name, value in values.items():
                self.file.require_group(group).attrs[name] = value
        self._create(options.ranks)
        self.file.swmr_mode = True
        beside.rename(self.path)

    def _create(self, ranks: int) -> None:
        for group, columns in (("steps", STEP_COLUMNS), ("checkpoints", CHECKPOINT_COLUMNS)):
            for name, kind in columns.items():
                self._series(f"{group}/{name}", kind)
        for name in TIMES:
            self._series(f"steps/time/{name}", "f8")
        self.file.create_dataset("memory/process/measured", (ranks,), "i8", chunks=(ranks,), fillvalue=-1)
        for name in ("report", "steps"):
            self._series(f"ranks/{name}", "i8")
        for name, kind in (("peak", "f8"), ("average", "f8"), ("process/measured", "i8")):
            self._series(f"ranks/memory/{name}", kind, ranks)

    def _series(self, name: str, kind: str, *width: int) -> None:
        self.file.create_dataset(name, (0, *width), kind, maxshape=(None, *width), chunks=(max(1, CHUNK // max(1, *width, 1)), *width))

    def _append(self, group: str, row: dict[str, object]) -> None:
        for name, value in row.items():
            data = self.file[f"{group}/{name}"]
            data.resize(len(data) + 1, axis=0)
            data[-1] = value

    def add_step(self, row: dict[str, float], times: dict[str, float]) -> None:
        row = {"unix_time": time.time(), **row}
        self._append("steps", {"skipped": 0, "timed": 1, **row})
        finite = {name: value if math.isfinite(value) else None for name, value in row.items()}
        self.log.write(json.dumps({**finite, "step": int(row["step"])}) + "\n")
        self._append("steps/time", times)
        if time.monotonic() > self.flushed + FLUSH_SECONDS:
            self.flush()

    def add_memory(self, step: int, steps: int, memory: dict[str, list[float]], first: bool) -> None:
        """`steps`: since the report before; bytes of each rank."""
        measured = np.array(memory["now"], "i8")
        if first:
            self.file["memory/process/measured"][:] = measured
        self._append("ranks", {"report": step, "steps": steps, "memory/peak": memory["peak"], "memory/average": memory["average"],
                               "memory/process/measured": measured})

    def add_checkpoint(self, step: int, size: int, seconds: float) -> None:
        self._append("checkpoints", {"step": step, "bytes": size, "blocked_seconds": seconds, "background_seconds": 0.0, "waited_seconds": 0.0})
        self.flush()

    def note(self, name: str, value: float) -> None:
        """A number of /provenance that was not known at the start."""
        self.file["provenance"].attrs.modify(name, value)

    def flush(self) -> None:
        self.file.flush()
        self.flushed = time.monotonic()

    def close(self) -> None:
        self.log.close()
        self.file.close()


def model_facts(options: argparse.Namespace, samples: Samples, parameters: int, peak_flops: float) -> dict[str, object]:
    """Attributes of /model."""
    return {
        "parameters": parameters,
        "tokens_per_step": samples.per_step * options.seq_len,
        "samples_per_epoch": samples.per_epoch,
        "steps_per_epoch": samples.per_epoch / samples.per_step,
        "flops_per_token_6n": published_flops(options.config, parameters, options.seq_len),
        "flops_per_token": matmul_flops(options.config, options.seq_len),
        "device_peak_flops": peak_flops,
        "device_peak_source": f"measured at the start: {options.precision} matmuls",
    }


def config(options: argparse.Namespace, shape: dict[str, int]) -> dict[str, str]:
    """Options under Tessera's names, as text, as far as there are such. As there, model.from stands for the sizes."""
    compiled = f", compiled {options.compile}" if options.compile else ""
    values = {
        "ranks": options.ranks, "run.seed": options.seed if options.init == "tessera" else f"{options.seed} of PyTorch's generator",
        "run.device": options.device, "run.threads": options.threads, "run.dir": options.run_dir,
        "model.from": options.from_folder or "", "model.family": options.family or "",
        "data.order": options.order, "data.val_fraction": f"{options.val_fraction:g}",
        "train.steps": options.total_steps, "train.epochs": options.epochs or 0, "train.micro_batch": options.micro_batch,
        "train.global_batch": options.global_batch or 0, "train.accumulation": options.accumulation, "train.seq_len": options.seq_len,
        "shard.strategy": NAMES[options.strategy] + compiled, "precision.compute": options.precision,
        "memory.checkpoint": options.activation_checkpointing, "checkpoint.every": options.checkpoint_every,
        **{f"optim.{name}": f"{getattr(options, name):g}" for name in ("lr", "min_lr", "beta1", "beta2", "eps", "weight_decay", "clip")},
        "optim.schedule": options.schedule, "optim.warmup_steps": options.warmup_steps,
    }
    if options.order == "shuffled":
        values["data.seed"] = options.data_seed
    if options.preset:
        values["model.preset"] = options.preset
    if not options.from_folder:
        values |= {f"model.{name}": size for name, size in shape.items()}
    if options.strategy != "single":
        values["shard.reduce"] = options.reduce
    for name in ("wrap", "min_params", "reshard_after_forward", "prefetch_forward", "prefetch_backward"):
        if getattr(options, name) is not None:
            values[f"shard.{name}"] = getattr(options, name)
    if options.limit_all_gathers is not None:  # FSDP1 lets two gathers be under way
        values["shard.limit_all_gathers"] = 2 if options.limit_all_gathers else 0
    if options.reduce_precision is not None:
        values["precision.reduce"] = options.reduce_precision
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in values.items()}
