"""The notes of a rank besides its steps: memory, the machine and its load, the peak of the device."""
from __future__ import annotations

import argparse
import os
import shlex
import socket
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

PROBE = 1024  # rows and columns of the matmuls that are timed
PROBE_SECONDS = 0.05


class Account:
    """A rank's memory. Made before the rank has a model; collective."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.load = os.getloadavg()[0]
        self.peak_flops = peak_flops(options) if options.run_dir else None
        if options.device == "cpu":
            _load_libraries(options)
            Path("/proc/self/clear_refs").write_text("5")  # the highest resident size counts from here
        self.before = _status_bytes("VmRSS")
        self.found: list[int] = []  # bytes after each step since the report before

    def after_step(self) -> None:
        on_gpu = self.options.device == "cuda"
        self.found.append(torch.cuda.memory_reserved() if on_gpu else _status_bytes("VmRSS") - self.before)

    def memory(self) -> dict[str, list[float]]:
        """Bytes of each rank, by name; collective. On cores the growth of resident memory, on a GPU what PyTorch took of it.

        "peak" counts from the start, "average" and "now" from the values after steps since the call before.
        """
        on_gpu = self.options.device == "cuda"
        peak = torch.cuda.max_memory_reserved() if on_gpu else _status_bytes("VmHWM") - self.before
        own = {"peak": float(peak), "average": sum(self.found) / len(self.found), "now": float(self.found[-1])}
        self.found = []
        return dict(zip(own, _of_ranks(list(own.values()), self.options)))


def _load_libraries(options: argparse.Namespace) -> None:
    """Has PyTorch load what it loads late, some 150 MB (dynamo, sharding, kernels): it does not belong to the training's memory."""
    import torch._dynamo  # noqa: F401
    import torch.distributed.fsdp  # noqa: F401

    if options.run_dir:
        import metrics  # noqa: F401
    layers = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.LayerNorm(32), torch.nn.Linear(32, 32))
    optimizer = torch.optim.AdamW(layers.parameters(), fused=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bf16"):
        layers(torch.ones(8, 32)).float().sum().backward()
    optimizer.step()


def peak_flops(options: argparse.Namespace) -> float:
    """FLOP/s of a rank's device in the type that computes: the best of some matmuls on all ranks at once. Collective.

    On cores it counts the time that they spent, as Tessera does, so that other programs' time does not count.
    """
    on_gpu = options.device == "cuda"
    matrix = torch.ones(PROBE, PROBE, dtype=torch.bfloat16 if options.precision == "bf16" else torch.float32, device=options.device)
    best, end = float("inf"), time.perf_counter() + PROBE_SECONDS
    while best == float("inf") or time.perf_counter() < end:
        start, spent = time.perf_counter(), time.process_time()
        matrix @ matrix
        if on_gpu:
            torch.cuda.synchronize()
        took = time.perf_counter() - start if on_gpu else (time.process_time() - spent) / options.threads
        best = min(best, took)
    return max(_of_ranks([2.0 * PROBE**3 / best], options)[0])


def _of_ranks(values: list[float], options: argparse.Namespace) -> list[list[float]]:
    """A list of all ranks' values for each value; collective."""
    if options.ranks == 1:
        return [[value] for value in values]
    table = torch.zeros(len(values), options.ranks, dtype=torch.float64, device=options.device)
    table[:, dist.get_rank()] = torch.tensor(values, dtype=torch.float64, device=options.device)
    dist.all_reduce(table)
    return table.tolist()


def provenance(options: argparse.Namespace, load: float) -> dict[str, object]:
    """Attributes of /provenance; NaN: not known yet."""
    facts: dict[str, object] = {
        "version": f"PyTorch {torch.__version__}",
        "command_line": shlex.join([sys.executable, *sys.argv]),
        "start_time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "hosts": socket.gethostname() + (f" x{options.ranks}" if options.ranks > 1 else ""),
        "cpu": _cpu_model(),
        "isa": torch.backends.cpu.get_cpu_capability(),
        "kernels": f"PyTorch, {_blas()}, over {'NCCL' if options.device == 'cuda' else 'gloo'}",
        "load_average_start": load,
        "load_average_end": float("nan"),
        "seconds_to_first_step": float("nan"),
    }
    if options.device == "cuda":
        facts |= {"gpu_name": torch.cuda.get_device_name(), "cuda_version": str(torch.version.cuda)}
    for variable in ("slurm_job_id", "slurm_array_task_id", "slurm_restart_count"):
        if variable.upper() in os.environ:
            facts[variable] = os.environ[variable.upper()]
    return facts


def _blas() -> str:
    return "MKL" if torch.backends.mkl.is_available() else "no MKL"


def _status_bytes(name: str) -> int:
    """A line of /proc/self/status, which is in kB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {name}")


def _cpu_model() -> str:
    """As /provenance of Tessera's metrics.h5 has it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown"
