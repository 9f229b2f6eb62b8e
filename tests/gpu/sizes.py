"""How large and how often the stages of tests/gpu/run.sh run things."""
from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Sequence

GOLDEN = {  # a folder of tests/reference: how its losses were made (README.md there)
    "clipped": "--train.seq_len=17 --train.micro_batch=8 --train.steps=25 --optim.lr=0.003 --optim.clip=0.25",
    "deep": "--train.seq_len=29 --train.micro_batch=6 --train.steps=25 --optim.lr=0.005 --optim.beta2=0.999 --optim.weight_decay=0",
    "shallow": "--train.seq_len=9 --train.micro_batch=8 --train.steps=25 --optim.lr=0.005 --optim.beta2=0.99 "
               "--optim.weight_decay=0.3 --optim.clip=0",
    "llama3": "--train.seq_len=29 --train.micro_batch=6 --train.steps=20 --optim.lr=0.003 --optim.beta2=0.99",
    "qwen3": "--train.seq_len=19 --train.micro_batch=8 --train.steps=20 --optim.lr=0.003 --optim.clip=0.25",
    "qwen2-tied": "--train.seq_len=19 --train.micro_batch=8 --train.steps=20 --optim.lr=0.003 --optim.clip=0.25",
    "qwen2-untied": "--train.seq_len=11 --train.micro_batch=6 --train.steps=20 --optim.lr=0.003 --optim.beta2=0.999 "
                    "--optim.weight_decay=0 --optim.clip=0",
}
# Two ways of having NCCL take a GPU twice, both unofficial or new: name, settings of a rank.
SHARED_GPU_WAYS = [
    ("2 ranks of one GPU, NCCL_HOSTID over lo", "NCCL_HOSTID=rank${OMPI_COMM_WORLD_RANK} NCCL_SOCKET_IFNAME=lo "
     "NCCL_NVLS_ENABLE=0 NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1"),
    ("2 ranks of one GPU, NCCL_MULTI_RANK_GPU_ENABLE", "NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_MAX_CTAS=2 NCCL_NVLS_ENABLE=0"),
]


@dataclass
class Model:
    """A model of the speed targets."""
    preset: str
    sequence: int
    batch: int

    @property
    def options(self) -> list[str]:
        return [f"--model.preset={self.preset}", f"--train.seq_len={self.sequence}", f"--train.micro_batch={self.batch}"]


@dataclass
class Sizes:
    """How large and how often. PyTorch's settings: the most promising first."""
    small: Model
    large: Model
    qwen: Model
    steps: int = 20
    repetitions: Sequence[str] = ("--bench.steps=10", "--bench.warmup=3")
    settings_small: str = "fsdp2,blocks,whole-cudnn"
    settings_large: str = "blocks,blocks-cudnn,whole"
    setting_seconds: int = 150
    strategy_model: Sequence[str] = ("--train.steps=12",)
    comm_bytes: str = "64MiB"
    nccl_bytes: str = "16MiB"
    nccl_backend: str = "nccl"
    peer_device: str = "cuda"
    token_values: int = 32768
    golden: Sequence[str] = tuple(GOLDEN)


def real_sizes() -> Sizes:
    return Sizes(Model("gpt2-124m", 1024, 64), Model("gpt2-1558m", 1024, 16), Model("qwen2-1.5b", 1024, 16))


def rehearsal_sizes() -> Sizes:
    """rehearse.sh: the same way through, in little."""
    nano = Model("nano", 16, 1)
    return Sizes(nano, nano, nano, steps=1, repetitions=("--bench.steps=1", "--bench.warmup=0"), settings_small="eager",
                 settings_large="fsdp2-eager", comm_bytes="4KiB", nccl_bytes="4KiB",
                 strategy_model=("--train.steps=4", "--model.layers=1", "--model.heads=2", "--model.width=16", "--model.context=8"),
                 nccl_backend=os.environ.get("TESSERA_GPU_REHEARSAL_NCCL", "nccl"), peer_device="cpu", token_values=256,
                 golden=("shallow",))
