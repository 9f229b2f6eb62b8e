#!/usr/bin/env python3
"""Makes lora.json of some golden folders: losses and gradient norms in float64 of AdamW steps that train adapters alone.

    python make_lora.py           writes the files
    python make_lora.py --check   makes them again and compares

A module's weight W becomes W + scale B A, which is what PEFT computes without dropout; gradients of A and B follow.
"""

import json
import math
import sys

import numpy as np
import torch

from make_golden import CASES, HERE, batch_of_step, initial_weights, is_gpt2, is_in_block, loss, make_tokens

TOLERANCE = 1e-9

# Folder: rank, alpha, rank-stabilized, modules, learning rate, steps as in the folder.
FOLDERS = {
    "clipped": (4, 8.0, False, "c_attn,c_proj,c_fc", 1e-2),
    "qwen2-untied": (3, 5.0, True, "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj", 1e-2),
    "qwen3": (2, 2.0, False, "q_proj,v_proj,down_proj", 1e-2),
    "gemma3": (5, 10.0, False, "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj", 1e-3),
}


def first_values(shape):
    """Element i of a matrix with so many rows: 0.1 sin(i + rows), rounded to fp32."""
    values = 0.1 * np.sin(np.arange(math.prod(shape), dtype=np.float64) + shape[0])
    return torch.from_numpy(values.astype(np.float32).reshape(shape)).double().requires_grad_(True)


def made_of(name):
    rank, alpha, stabilized, targets, lr = FOLDERS[name]
    case = next(case for case in CASES if case.name == name)
    weights = {key: tensor.double() for key, tensor in initial_weights(case).items()}
    tokens = make_tokens(case)
    scale = alpha / (math.sqrt(rank) if stabilized else rank)
    adapters = {}
    for key, tensor in weights.items():
        if is_in_block(key) and tensor.dim() == 2 and key.removesuffix(".weight").split(".")[-1] in targets.split(","):
            fan_in, fan_out = tensor.shape if is_gpt2(case) else tensor.shape[::-1]
            adapters[key] = first_values((rank, fan_in)), first_values((fan_out, rank))
    parameters = [matrix for pair in adapters.values() for matrix in pair]
    optimizer = torch.optim.AdamW(parameters, lr=lr, betas=(case.beta1, case.beta2), eps=case.eps,
                                  weight_decay=case.weight_decay, foreach=False)
    losses, norms = [], []
    for step in range(case.steps):
        optimizer.zero_grad()
        adapted = dict(weights)
        for key, (a, b) in adapters.items():
            added = scale * (b @ a)
            adapted[key] = weights[key] + (added.T if is_gpt2(case) else added)
        value = loss(adapted, case.shape, *batch_of_step(tokens, case, step))
        value.backward()
        norm = torch.sqrt(sum(t.grad.square().sum() for t in parameters))
        if case.clip > 0:
            factor = torch.clamp(case.clip / (norm + 1e-6), max=1.0)
            for t in parameters:
                t.grad.mul_(factor)
        optimizer.step()
        losses.append(value.item())
        norms.append(norm.item())
    return {"rank": rank, "alpha": alpha, "rank_stabilized": stabilized, "targets": targets, "lr": lr, "loss": losses,
            "grad_norm": norms}


def main():
    torch.set_num_threads(1)
    differ = 0
    for folder in FOLDERS:
        made, path = made_of(folder), HERE / folder / "lora.json"
        if "--check" not in sys.argv:
            path.write_text(json.dumps(made) + "\n")
            continue
        known = json.loads(path.read_text())
        if any(not math.isclose(a, b, rel_tol=TOLERANCE) for key in ("loss", "grad_norm")
               for a, b in zip(made[key], known[key], strict=True)):
            print(f"{folder}: lora.json differs", file=sys.stderr)
            differ = 1
    return differ


if __name__ == "__main__":
    sys.exit(main())
