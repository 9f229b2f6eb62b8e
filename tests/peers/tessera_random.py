"""Tessera's counter-based random numbers in numpy: its first weights and its order of samples.

Philox4x32-10 (Salmon et al., SC11) over (seed, use, stream, counter), as src/base/counter_rng.cpp has it.
"""
from __future__ import annotations

import numpy as np

INITIALIZATION, SAMPLE_ORDER = 1, 3  # RandomUse in include/tessera/base/counter_rng.hpp
MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
KEY_STEPS = 0x9E3779B9, 0xBB67AE85
LOW, SHIFT = np.uint64(0xFFFFFFFF), np.uint64(32)
BLOCKS = 1 << 18  # numbers at a time, so that arrays stay in the cache


def philox(seed: int, use: int, stream: int, counters: np.ndarray) -> list[np.ndarray]:
    """Four arrays of 32-bit numbers (as uint64), one element for each of `counters` (uint64)."""
    a, b = counters & LOW, counters >> SHIFT
    c, d = np.full_like(a, stream), np.full_like(a, use)
    keys = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    for _ in range(10):
        first, second = MULTIPLIERS[0] * a, MULTIPLIERS[1] * c
        a, b = (second >> SHIFT) ^ b ^ np.uint64(keys[0]), second & LOW
        c, d = (first >> SHIFT) ^ d ^ np.uint64(keys[1]), first & LOW
        keys = [(key + step) & 0xFFFFFFFF for key, step in zip(keys, KEY_STEPS)]
    return [a, b, c, d]


def normals(seed: int, tensor: int, elements: int, deviation: float) -> np.ndarray:
    """The first weights of tensor number `tensor`, flat, fp32: deviation x normal_at(seed, tensor, element)."""
    out = np.empty((-(-elements // 4), 4), np.float32)
    for first in range(0, len(out), BLOCKS):
        end = min(first + BLOCKS, len(out))
        bits = philox(seed, INITIALIZATION, tensor, np.arange(first, end, dtype=np.uint64))
        for pair in (0, 2):
            radius = np.sqrt(-2.0 * np.log((bits[pair] + 1.0) * 2.0**-32))
            angle = 2.0 * np.pi * (bits[pair + 1] * 2.0**-32)
            out[first:end, pair], out[first:end, pair + 1] = radius * np.cos(angle), radius * np.sin(angle)
    return np.float32(deviation) * out.reshape(-1)[:elements]


def permutation(places: int, seed: int, epoch: int, indices: np.ndarray) -> np.ndarray:
    """The images of indices (0 .. places-1) in an epoch: the Feistel network of src/data/sampler.cpp."""
    half = np.uint64(max(1, ((places - 1).bit_length() + 1) // 2))
    mask = (np.uint64(1) << half) - np.uint64(1)

    def once(values: np.ndarray) -> np.ndarray:
        left, right = values >> half, values & mask
        for number in range(8):
            noise = philox(seed, SAMPLE_ORDER, epoch, np.uint64(number << 32) | right)[0]
            left, right = right, left ^ (noise & mask)
        return (left << half) | right

    values = once(indices.astype(np.uint64))
    while (outside := values >= places).any():
        values[outside] = once(values[outside])
    return values.astype(np.int64)
