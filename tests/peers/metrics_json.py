"""metrics.json of a training in PyTorch: what tessera-report reads of a row that is not Tessera's (postprocess/README.md)."""

import json
import os
import socket
import time
from pathlib import Path

import torch
import torch.distributed as dist

STRATEGIES = {"single": "PyTorch", "ddp": "PyTorch DDP", "fsdp2": "PyTorch FSDP2"}
SIZES = ("layers", "heads", "kv_heads", "width", "ffn_width", "vocab", "context")


class Account:
    """A rank's notes in addition to its steps. Made before the rank has a model."""

    def __init__(self, options, began):
        """`began`: seconds since 1970 at the start of the first process."""
        self.options, self.began = options, began
        self.load = os.getloadavg()[0]
        self.resident = _status_bytes("VmRSS")
        self.first_step = None  # seconds from `began` to the end of the first step

    def after_step(self):
        if self.first_step is None:
            self.first_step = time.time() - self.began

    def memory_peaks(self):
        """Bytes of each rank; collective. On cores how far resident memory grew at most, on a GPU what PyTorch took of it."""
        on_gpu = self.options.device == "cuda"
        peak = torch.cuda.max_memory_reserved() if on_gpu else _status_bytes("VmHWM") - self.resident
        if self.options.ranks == 1:
            return [peak]
        peaks = torch.zeros(self.options.ranks, dtype=torch.int64, device=self.options.device)
        peaks[dist.get_rank()] = peak
        dist.all_reduce(peaks)
        return peaks.tolist()

    def write(self, path, rows, model, token_count, peaks):
        """Dataset path -> list, attribute path -> value. The file appears whole."""
        options = self.options
        samples = options.ranks * options.accumulation * options.micro_batch
        epoch = (token_count - 1) // options.seq_len
        values = {f"/steps/{name}": [row[name] for row in rows] for name in rows[0]}
        values |= {
            "/model/parameters": sum(parameter.numel() for parameter in model.parameters()),
            "/model/tokens_per_step": samples * options.seq_len,
            "/model/samples_per_epoch": epoch,
            "/model/steps_per_epoch": epoch / samples,
            "/memory/process/measured": peaks,
        }
        values |= {f"/config/{name}": str(value) for name, value in _config(options, model.config).items()}
        values |= {f"/provenance/{name}": value for name, value in self._provenance().items()}
        unfinished = Path(f"{path}.tmp")
        unfinished.write_text(json.dumps(values, indent=1) + "\n")
        unfinished.replace(path)

    def _provenance(self):
        ranks = self.options.ranks
        facts = {
            "version": f"PyTorch {torch.__version__}",
            "hosts": socket.gethostname() + (f" x{ranks}" if ranks > 1 else ""),
            "cpu": _cpu_model(),
            "load_average_start": self.load,
            "load_average_end": os.getloadavg()[0],
            "seconds_to_first_step": self.first_step,
        }
        if self.options.device == "cuda":
            facts["gpu_name"] = torch.cuda.get_device_name()
        return facts


def _config(options, shape):
    """Options under Tessera's names, as far as there are such. As there, model.from stands for the sizes."""
    sizes = () if options.from_folder else SIZES
    compiled = f", compiled {options.compile}" if options.compile else ""
    return {
        "shard.strategy": STRATEGIES[options.strategy] + compiled,
        "run.seed": options.seed,
        "run.device": options.device,
        "run.threads": options.threads,
        "data.order": "sequential",
        "train.steps": options.steps,
        "train.micro_batch": options.micro_batch,
        "train.accumulation": options.accumulation,
        "train.seq_len": options.seq_len,
        "optim.lr": options.lr,
        "precision.compute": options.precision,
        "model.from": options.from_folder or "",
        **{f"model.{name}": getattr(shape, name) for name in sizes if hasattr(shape, name)},
    }


def _status_bytes(name):
    """A line of /proc/self/status, which is in kB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {name}")


def _cpu_model():
    """As /provenance of metrics.h5 has it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown"
