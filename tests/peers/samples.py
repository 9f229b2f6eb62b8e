"""The tokens of a step: the samples that Tessera takes, in its order (docs/numerics.md, contract 6)."""
from __future__ import annotations

import argparse
from fractions import Fraction
from pathlib import Path

import numpy as np

from tessera_random import permutation

LLM_C_DTYPES = {20240520: "<u2", 20240801: "<u4"}  # magic of llm.c's header
HEADER = 1024  # bytes of it
PIECE = 1 << 24  # tokens that are looked at together


def open_tokens(path: str) -> np.ndarray:
    """The tokens of a .bin, memory-mapped. SystemExit where it is damaged."""
    size = Path(path).stat().st_size
    header = np.fromfile(path, dtype="<i4", count=HEADER // 4)
    kind = LLM_C_DTYPES.get(int(header[0])) if len(header) else None
    if kind is None:
        if not size or size % 2:
            raise SystemExit(f"{path}: {size} bytes (no uint16 tokens, and not llm.c's header): a .bin file of tokens")
        return np.memmap(path, dtype="<u2", mode="r")
    width = int(kind[-1])
    if size < HEADER or size != HEADER + int(header[2]) * width:
        raise SystemExit(f"{path}: {size} bytes do not match llm.c's header: copy the file again")
    return np.memmap(path, dtype=kind, mode="r", offset=HEADER)


class Samples:
    """Samples 0, 1, 2, ... without end, epoch after epoch; each has seq_len + 1 tokens and shares one with the next."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.tokens = open_tokens(options.source)
        kept = int(len(self.tokens) * options.val_fraction)
        trained = len(self.tokens) - kept
        if trained < options.seq_len + 1:
            raise SystemExit(f"{options.source}: {trained} tokens for training are less than one sample of --seq-len + 1 = {options.seq_len + 1}")
        self.per_epoch = (trained - 1) // options.seq_len
        self.per_step = options.ranks * options.accumulation * options.micro_batch

    def steps(self) -> int:
        """Optimizer steps of the run: --steps, or those that --epochs need, rounded up."""
        if self.options.epochs is None:
            return self.options.steps or 10
        try:
            epochs = Fraction(self.options.epochs)
        except (ValueError, ZeroDivisionError):
            epochs = Fraction(0)
        if epochs <= 0:
            raise SystemExit(f"--epochs {self.options.epochs}: a number above 0")
        return max(1, -(-epochs * self.per_epoch // self.per_step))

    def first_tokens(self, samples: np.ndarray) -> np.ndarray:
        """Where the samples begin."""
        epochs, places = samples // self.per_epoch, samples % self.per_epoch
        if self.options.order == "shuffled":
            for epoch in np.unique(epochs):
                of_it = epochs == epoch
                places[of_it] = permutation(self.per_epoch, self.options.data_seed, int(epoch), places[of_it])
        return places * self.options.seq_len

    def require_vocabulary(self, vocab: int) -> None:
        """SystemExit where a token is not below `vocab`. Reads all tokens."""
        largest = max(int(self.tokens[first : first + PIECE].max()) for first in range(0, len(self.tokens), PIECE))
        if largest >= vocab:
            raise SystemExit(f"{self.options.source}: it has a token {largest} (the model's vocabulary is {vocab}): a larger --vocab")

    def micro_batch(self, step: int, number: int) -> np.ndarray:
        """Micro-batch `number` of a step (from 0), of all ranks' counted together: [micro_batch, seq_len + 1] int64."""
        size = self.options.micro_batch
        first = step * self.per_step + number * size
        starts = self.first_tokens(np.arange(first, first + size))
        return np.stack([self.tokens[start : start + self.options.seq_len + 1] for start in starts]).astype(np.int64)
