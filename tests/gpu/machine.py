"""The machine that tests/gpu/run.sh runs on: its GPUs, libraries and tools, and facts about it for the logs."""
from __future__ import annotations

import fcntl
import glob
import importlib.metadata
import os
import platform
import re
import shutil
import site
import socket
import struct
import subprocess
import sysconfig
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

from attempts import run_within

# For the log: shell, a fact a line. $site is a folder of Python's packages.
FACTS = """nvidia-smi
nvidia-smi -q | head -n 150
uname -a; cat /etc/os-release /proc/net/dev; hostname; ulimit -a; free -m; df -h /tmp /dev/shm
env | grep -E '^(PATH|LD_|CUDA|NVIDIA|NCCL|OMPI|TORCH|TESSERA)'
ldconfig -p | grep -E 'libcuda|nvidia-ml|cublasLt|cudnn|nccl|nvrtc'
for l in cublasLt cudnn nccl nvrtc; do ls -l /usr/local/cuda*/lib64/lib$l.so.*; done
for site in $packages; do for l in nvidia_ torch- triton-; do ls -d "$site/$l"*.dist-info; done; done
for site in $packages; do for l in cublasLt cudnn nccl nvrtc; do ls -l "$site"/nvidia/*/lib/lib$l.so.*; done; done
compute-sanitizer --version; ncu --version; gcc --version | head -n 1; nvcc --version | tail -n 1
dmesg | tail -n 40"""


def add_driver_folders() -> None:
    """Adds other folders in which images of rented machines keep the driver's programs and libraries."""
    os.environ["PATH"] += ":/usr/local/nvidia/bin:/usr/local/cuda/bin"
    for folder in ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib"):
        if os.path.isdir(folder):
            os.environ["LD_LIBRARY_PATH"] = ":".join(filter(None, [os.environ.get("LD_LIBRARY_PATH"), folder]))


def smi(*arguments: str) -> list[str]:
    """The lines that nvidia-smi prints; none without it."""
    try:
        return subprocess.run(["nvidia-smi", *arguments], capture_output=True, text=True, errors="replace", check=False).stdout.splitlines()
    except OSError:
        return []


def has_gpu() -> bool:
    """Whether there is any GPU; CUDA tells later how many this process may use."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        return False
    if any(line.startswith("GPU") for line in smi("-L")):
        return True
    return shutil.which("nvidia-smi") is None and bool(glob.glob("/dev/nvidia[0-9]*"))


def package_folders() -> list[str]:
    """Folders of Python's packages: the first place where cuBLASLt, cuDNN and NCCL are looked for."""
    return list(dict.fromkeys([sysconfig.get_paths()["purelib"], *site.getsitepackages(), site.getusersitepackages()]))


def library_versions() -> list[str]:
    """NVIDIA's libraries among Python's packages, with their versions."""
    pattern = re.compile(r"^(nvidia_(?:cublas|cudnn|nccl|cuda_nvrtc)[a-z0-9_]*-[0-9.]+)\.dist-info$")
    names = [entry for folder in package_folders() if os.path.isdir(folder) for entry in os.listdir(folder)]
    return sorted({found[1] for found in map(pattern.match, names) if found})


def pytorch_version() -> str:
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return ""


def tool_of_cuda(name: str) -> str:
    """The path of a tool; empty where it is not found."""
    found = shutil.which(name)
    places = sorted(glob.glob(f"/usr/local/cuda*/bin/{name}") + glob.glob(f"/opt/nvidia/nsight-compute/*/{name}"))
    return found or (places[-1] if places else "")


def cores() -> int:
    return len(os.sched_getaffinity(0))


def write_facts(log: Path, seconds: float = 60.0) -> None:
    """Writes the facts into a log, as many as there is time for."""
    end = time.monotonic() + seconds
    with open(log, "wb") as out:
        for line in FACTS.splitlines():
            run_within(["sh", "-c", line], end - time.monotonic(), out, env={"packages": " ".join(package_folders())})


def header(tessera: str) -> dict:
    """The first row of a call's results. `tessera`: what `tessera version` prints."""
    gpus = Counter(smi("--query-gpu=name,memory.total,clocks.max.sm,power.limit", "--format=csv,noheader"))
    driver = smi("--query-gpu=driver_version", "--format=csv,noheader")
    return {"stage": "machine", "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "gpus": "".join(f"{count:7} {gpu};" for gpu, count in sorted(gpus.items())), "driver": driver[0] if driver else "",
            "cores": cores(), "kernel": platform.release(), "tessera": re.sub(r"[ \n]+", " ", tessera),
            "pytorch": pytorch_version(), "libraries": "".join(name + " " for name in library_versions())}


@contextmanager
def watched_clocks(log: Path) -> Iterator[None]:
    """Writes clocks, power and temperature every five seconds: whether a figure was measured on a GPU that was slowed down.

    It also keeps the GPU open, which the driver would start anew for every process where nothing else does.
    """
    words = ["nvidia-smi", "--query-gpu=timestamp,clocks.sm,clocks.mem,power.draw,temperature.gpu,utilization.gpu,memory.used",
             "--format=csv", "-l", "5"]
    with open(log, "wb") as out:
        try:
            watcher = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        except OSError:
            watcher = None
    try:
        yield
    finally:
        if watcher is not None:
            watcher.kill()
            watcher.wait()


def raise_loopback() -> None:
    """Brings the loopback up, over which MPI's launcher and NCCL talk: it may be down on a machine without a network."""
    read_flags, write_flags, up = 0x8913, 0x8914, 1  # SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            _, flags = struct.unpack("16sh", fcntl.ioctl(any_socket, read_flags, struct.pack("16sh", b"lo", 0)))
            if not flags & up:
                fcntl.ioctl(any_socket, write_flags, struct.pack("16sh", b"lo", flags | up))
                print("run.sh: the loopback was down; it is up now", flush=True)
    except OSError:
        print("run.sh: whether the loopback is up is not known", flush=True)
