#!/usr/bin/env python3
"""Makes fp8.json of two golden folders: the losses of their steps in float64 whose blocks' linears multiply in fp8, and two
numbers for the gradient of each tensor in step 1: its norm, and the sum of element i times cos(i).

    python make_fp8.py           writes the files
    python make_fp8.py --check   makes them again and compares

PyTorch's own float8 types round the operands. Everything else is in float64, by the formulas of *_reference.py.
"""

import json
import math
import sys

import torch
from torch.overrides import TorchFunctionMode

from make_golden import CASES, HERE, initial_weights, is_in_block, make_tokens, train

FOLDERS = ("clipped", "qwen3")  # a stacked linear of queries, keys and values, and three of them
GRADIENTS = {"e5m2": torch.float8_e5m2, "e4m3": torch.float8_e4m3fn}
TOLERANCE = 1e-9


def to_fp8(x, dtype):
    """What an operand is in fp8, scaled back: one scale, which takes its largest magnitude to the largest number."""
    largest = x.abs().max()
    scale = torch.finfo(dtype).max / largest if largest > 0 else torch.ones_like(largest)
    return (x * scale).to(torch.float32).to(dtype).to(x.dtype) / scale


class Fp8Linear(torch.autograd.Function):
    """x @ weight of all tokens at once."""

    @staticmethod
    def forward(ctx, x, weight, gradients):
        ctx.gradients = gradients
        rounded = to_fp8(x, torch.float8_e4m3fn), to_fp8(weight, torch.float8_e4m3fn)
        ctx.save_for_backward(*rounded)
        return rounded[0] @ rounded[1]

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        gradient = to_fp8(gradient, ctx.gradients)
        return gradient @ weight.T, x.flatten(0, -2).T @ gradient.flatten(0, -2), None


class Fp8Linears(TorchFunctionMode):
    """Lets the products of activations with two-dimensional matrices be Fp8Linear, but for the last one, the head's."""

    def __init__(self, gradients, linears):
        super().__init__()
        self.gradients, self.linears, self.seen = gradients, linears, 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func not in (torch.Tensor.matmul, torch.Tensor.__matmul__) or args[0].dim() != 3 or args[1].dim() != 2:
            return func(*args, **(kwargs or {}))
        self.seen = (self.seen + 1) % (self.linears + 1)
        if self.seen == 0:
            return func(*args)
        return Fp8Linear.apply(*args, self.gradients)


def made_of(name, gradients):
    case = next(case for case in CASES if case.name == name)
    weights = initial_weights(case)
    linears = sum(is_in_block(name) and tensor.dim() == 2 for name, tensor in weights.items())
    with Fp8Linears(gradients, linears):
        losses, _, first, _ = train(case, weights, make_tokens(case), torch.float64)
    return {"loss": losses.tolist(), "gradients": {name: numbers_of(g.flatten()) for name, g in first.items()}}


def numbers_of(gradient):
    return [gradient.norm().item(), (gradient * torch.arange(len(gradient), dtype=torch.float64).cos()).sum().item()]


def numbers_in(made):
    """All numbers, in order."""
    if isinstance(made, dict):
        return [number for key in sorted(made) for number in numbers_in(made[key])]
    return made


def main():
    torch.set_num_threads(1)
    differ = 0
    for folder in FOLDERS:
        made = {name: made_of(folder, dtype) for name, dtype in GRADIENTS.items()}
        path = HERE / folder / "fp8.json"
        if "--check" not in sys.argv:
            path.write_text(json.dumps(made) + "\n")
            continue
        known = json.loads(path.read_text())
        if any(not math.isclose(a, b, rel_tol=TOLERANCE) for a, b in zip(numbers_in(made), numbers_in(known), strict=True)):
            print(f"{folder}: fp8.json differs", file=sys.stderr)
            differ = 1
    return differ


if __name__ == "__main__":
    sys.exit(main())
