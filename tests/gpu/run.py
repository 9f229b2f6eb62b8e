#!/usr/bin/env python3
"""Tests and benchmarks on a real GPU, in stages of under 9 minutes each, the most valuable first:

    tests/gpu/run.sh [STAGE...]        without a stage: all of them (the table below)

Needs a bundle of test binaries (CMake target bundle-tests), NVIDIA's driver, Python 3.8; peers need PyTorch. Nothing else.
tests/gpu/README.md says how to carry it to a machine and run it there in few calls; rehearse.sh plays it without a GPU.
  TESSERA_BUNDLE        the archive, or the folder it was unpacked into (default: the newest build/*/tessera-bundle-tests.tar.xz)
  TESSERA_GPU_RESULTS   where results are added, one JSON object a line (default: $OUT or build, gpu_results.jsonl); logs
                        lie beside it as gpu_logs.tar.gz
  TESSERA_GPU_SECONDS   no stage goes on when this many seconds have passed since the start (default: no such limit)
  TESSERA_GPU_STAGE_SECONDS  nor any stage longer than this (520)
  TESSERA_GPU_CASES     only kernel cases whose names this pattern fits (Catch2's: 'attention*')
  TESSERA_GPU_JOBS      kernel cases at a time (default: a quarter of the cores, at most 6)
Results are written when each attempt ends. Exits 77 without a GPU, 1 when something failed, else 0.
"""
from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import machine
from attempts import SKIPPED, Attempts
from kernel_cases import SUITE
from sizes import real_sizes, rehearsal_sizes
from stages import Stages

STAGES = {  # the most valuable first
    "smoke": (Stages.smoke, "a kernel, a matmul, cuDNN's attention, a few steps, two ranks: which layer is broken"),
    "kernels": (Stages.kernels, "every kernel against the reference in double precision, a process for each case"),
    "golden": (Stages.golden, "the golden models on one rank: the GPU's losses and norms against the CPU's"),
    "text": (Stages.text, "masks of documents and of the loss, generation, evaluation: the GPU's against the CPU's"),
    "speed_124m": (Stages.speed_124m, "GPT-2 124M: tokens/s, MFU, compared with PyTorch in several settings"),
    "bench_kernels": (Stages.bench_kernels, "every kernel of the three models' steps: bytes, FLOPs, time, shares of the ceilings"),
    "strategies": (Stages.strategies, "several ranks on one GPU, staged: every strategy has the same bits"),
    "comm": (Stages.comm, "collectives of several ranks on one GPU, staged"),
    "memcheck": (Stages.memcheck, "the kernels' cases under compute-sanitizer's memcheck"),
    "speed_qwen": (Stages.speed_qwen, "Qwen2.5-1.5B, as speed_124m"),
    "speed_1558m": (Stages.speed_1558m, "GPT-2 1558M, likewise"),
    "nccl": (Stages.nccl, "collectives and training over NCCL, eagerly and as graphs: a GPU for each rank, or several on one "
                          "where NCCL can be brought to it"),
    "profile": (Stages.profile, "each kernel by itself under Nsight Compute: time and bytes moved"),
    "racecheck": (Stages.racecheck, "the kernels under compute-sanitizer's racecheck"),
}


class Unusable(Exception):
    """Nothing would pass, and the reason is told once instead of by every stage: what of the machine, and why."""


def stages_of(words: list[str]) -> list[str]:
    for word in words:
        if word not in STAGES:
            print(f"run.sh: no stage is called {word}:", file=sys.stderr)
            print("\n".join(f"  {name:<13} {what}" for name, (_, what) in STAGES.items()), file=sys.stderr)
            sys.exit(2)
    return words or list(STAGES)


def extract(archive: Path, folder: Path) -> None:
    """Unpacks the bundle's archive; where there is no xz, Python has one."""
    done = subprocess.run(["tar", "-C", folder, "-xf", archive], capture_output=True, text=True, errors="replace", check=False)
    if done.returncode == 0:
        return
    try:
        with tarfile.open(archive) as opened:
            opened.extractall(folder)
    except (OSError, tarfile.TarError, EOFError) as error:
        sys.stderr.write(f"run.sh: {archive} cannot be unpacked:\n{done.stderr}{error}\n")
        sys.exit(2)


def unpack(work: Path) -> Path:
    """Returns the folder with the binaries."""
    built = sorted(Path("build").glob("*/tessera-bundle-tests.tar.xz"), key=lambda path: -path.stat().st_mtime)
    archive = Path(os.environ.get("TESSERA_BUNDLE") or (built[0] if built else ""))
    if archive == Path(""):
        print("run.sh: no bundle: build the target bundle-tests, or set TESSERA_BUNDLE", file=sys.stderr)
        sys.exit(2)
    if archive.is_dir():
        return archive.resolve()
    bundle = work / "tessera-bundle-tests"
    stamp = bundle / ".unpacked"
    if not stamp.exists() or not archive.exists() or archive.stat().st_mtime > stamp.stat().st_mtime:
        shutil.rmtree(bundle, ignore_errors=True)
        extract(archive, work)
        stamp.touch()
    return bundle


def said_by(words: list) -> tuple[int, str]:
    """Exit code and output of a command that takes at most a minute."""
    done = subprocess.run(["timeout", "60", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout.decode(errors="replace").rstrip("\n")


def require_usable(bundle: Path, code: int, version: str) -> int:
    """Returns the number of GPUs, by CUDA's count: CUDA_VISIBLE_DEVICES and MIG are no business of nvidia-smi.

    `version`: what `tessera version` said. Programs that the loader refuses (a library is missing) say so by themselves.
    """
    if code != 0:
        raise Unusable("the bundle", version)
    found = re.search(r"^gpus +([0-9]+)", version, re.MULTILINE)
    if not found or int(found[1]) == 0:
        raise Unusable("the GPU", "\n".join(line for line in version.splitlines() if line.startswith("gpus")))
    suite = bundle / SUITE
    if os.access(suite, os.X_OK):
        _, said = said_by([suite, "--list-test-names-only"])  # Catch2 exits with the number of tests: only the text tells
        if said.startswith("skipped"):
            raise Unusable("the GPU", said.replace("skipped: ", "", 1))
        if not said or re.search(r"error while loading|not found \(required by", said):
            raise Unusable("the bundle", f"test_gpu_kernels does not start: {said}")
    return int(found[1])


def keep_logs(work: Path, results: Path, suffixes: tuple[str, ...]) -> None:
    with tarfile.open(results.parent / "gpu_logs.tar.gz", "w:gz") as archive:
        for path in sorted(work.iterdir()):
            if path.name.endswith(suffixes) and path.is_file():
                archive.add(path, arcname=f"./{path.name}")


def run_stages(stages: list[str], attempts: Attempts, bundle: Path) -> None:
    code, version = said_by([bundle / "tessera", "version"])
    attempts.write(machine.header(version))
    gpus = require_usable(bundle, code, version)
    sizes = rehearsal_sizes() if os.environ.get("TESSERA_GPU_REHEARSAL") else real_sizes()
    played = Stages(attempts, bundle, gpus, sizes)
    for name in stages:
        attempts.begin_stage()
        try:
            STAGES[name][0](played)
        except Exception as error:  # the next stages tell about something else
            attempts.note(name, "stage", "failed", 0, f"{type(error).__name__}: {error}")
        keep_logs(attempts.work, attempts.results, (".log", ".csv"))
    print(f"results: {attempts.results}", flush=True)


def main() -> int:
    os.chdir(Path(__file__).resolve().parents[2])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended
    machine.add_driver_folders()
    if not machine.has_gpu():
        print("run.sh: no GPU on this machine: nothing was tested")
        return SKIPPED
    stages = stages_of(sys.argv[1:])
    work = Path(tempfile.gettempdir()) / f"tessera_gpu.{os.getuid()}"
    results = Path(os.environ.get("TESSERA_GPU_RESULTS") or Path(os.environ.get("OUT") or "build") / "gpu_results.jsonl")
    for folder in (work, results.parent):
        folder.mkdir(parents=True, exist_ok=True)
    os.environ["TESSERA_LIBRARY_PATH"] = os.environ.get("TESSERA_LIBRARY_PATH") or ":".join(machine.package_folders())
    attempts = Attempts(work, results)
    bundle = unpack(work)
    with machine.watched_clocks(work / "clocks.csv"):
        machine.raise_loopback()
        machine.write_facts(work / "machine.log")
        try:
            run_stages(stages, attempts, bundle)
        except Unusable as why:
            attempts.note("machine", why.args[0], "failed", 0, why.args[1])
            print("\n".join("    " + line for line in why.args[1].splitlines()))
            keep_logs(work, results, ("machine.log",))
            return 1
    return 1 if attempts.failures else 0


if __name__ == "__main__":
    sys.exit(main())
