#!/usr/bin/env python3
"""Makes the golden data in this folder: odd-shaped models, their tokens, and 20 or 25 AdamW steps in float64.

    python make_golden.py           checks the reference against Transformers, then writes one folder per model
    python make_golden.py --check   makes everything again and compares it with the files that are here

README.md next to this file says what a folder holds. Versions: requirements.txt.
"""

import argparse
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

from gpt2_reference import Gpt2Shape
from llama_reference import LinearScaling, LlamaShape, RopeScaling

HERE = Path(__file__).resolve().parent
LOGIT_TOLERANCE = 1e-5
LOSS_STEPS = 4


@dataclass(frozen=True)
class Case:
    """One model and one training run. clip 0 = off. `stored` is the dtype in model.safetensors."""

    name: str
    shape: Gpt2Shape | LlamaShape
    batch: int
    sequence: int
    lr: float
    beta2: float
    weight_decay: float
    clip: float
    prefix: bool = True     # names begin with "transformer." or "model."
    stored: torch.dtype = torch.float32
    buffers: bool = False   # also store attn.bias and attn.masked_bias or rotary_emb.inv_freq, as older files do
    lm_head: bool = False   # also store the tied lm_head.weight
    old_rope: bool = False  # config.json with rope_theta, rope_scaling and a pattern of layers, as Transformers 4.50 writes
    steps: int = 25
    seed: int = 0
    beta1: float = 0.9
    eps: float = 1e-8
    muon: bool = False      # the matrices of blocks by Muon


CASES = [
    # Every size odd to something; the clip bites in every step; the whole context is used.
    Case("clipped", Gpt2Shape(61, 17, 24, 3, 2), batch=8, sequence=17, lr=3e-3, beta2=0.95, weight_decay=0.1, clip=0.25,
         prefix=True, seed=1),
    # Deeper, an odd ffn width, sequences shorter than the context, names without prefix and with the old buffers.
    Case("deep", Gpt2Shape(130, 33, 40, 5, 3, n_inner=75), batch=6, sequence=29, lr=5e-3, beta2=0.999, weight_decay=0.0,
         clip=1.0, prefix=False, buffers=True, seed=2),
    # One block, few wide heads, no clip, weights stored as bf16 (exact in fp32), a stored tied head, another epsilon.
    Case("shallow", Gpt2Shape(257, 9, 48, 2, 1, norm_epsilon=1e-6), batch=8, sequence=9, lr=5e-3, beta2=0.99,
         weight_decay=0.3, clip=0.0, prefix=True, stored=torch.bfloat16, lm_head=True, seed=3),
    # Grouped queries (4 on 2), biases on q, k, v, a tied head; the clip bites in every step; rope_parameters.
    Case("qwen2-tied", LlamaShape("qwen2", 61, 40, 24, 4, 2, 2, 37, tied=True, theta=100.0), batch=8, sequence=19,
         lr=3e-3, beta2=0.95, weight_decay=0.1, clip=0.25, seed=4, steps=20),
    # One key/value head for three, three blocks, an untied head, no clip, rope_theta, names without prefix.
    Case("qwen2-untied", LlamaShape("qwen2", 130, 33, 30, 3, 1, 3, 45, tied=False, theta=50.0, norm_epsilon=1e-5),
         batch=6, sequence=11, lr=3e-3, beta2=0.999, weight_decay=0.0, clip=0.0, prefix=False, old_rope=True, seed=5,
         steps=20),
    # Llama 3's scaled positions with kept, mixed and divided frequencies, an untied head, stored as bf16 with the old
    # inv_freq buffers, rope_scaling.
    Case("llama3", LlamaShape("llama", 97, 64, 32, 4, 2, 2, 50, tied=False, theta=100.0, norm_epsilon=1e-5,
                              scaling=RopeScaling(8.0, 1.0, 4.0, 32)),
         batch=6, sequence=29, lr=3e-3, beta2=0.99, weight_decay=0.1, clip=1.0, stored=torch.bfloat16, buffers=True,
         old_rope=True, seed=6, steps=20),
    # Heads wider than width / heads, with norms of query and key, grouped queries (4 on 2), a tied head; the clip bites.
    Case("qwen3", LlamaShape("qwen3", 83, 40, 24, 4, 2, 2, 37, tied=True, theta=100.0, head_dim=10),
         batch=8, sequence=19, lr=3e-3, beta2=0.95, weight_decay=0.1, clip=0.25, seed=7, steps=20),
    # Muon on a GPT-2, whose fused queries, keys and values are three matrices, and on a Qwen3 with tall and wide ones.
    Case("muon-gpt2", Gpt2Shape(61, 17, 24, 3, 2, n_inner=50), batch=8, sequence=17, lr=3e-3, beta2=0.95, weight_decay=0.1,
         clip=1.0, seed=8, steps=20, muon=True),
    Case("muon-qwen3", LlamaShape("qwen3", 83, 40, 24, 4, 2, 2, 37, tied=False, theta=100.0, head_dim=10),
         batch=8, sequence=19, lr=3e-3, beta2=0.95, weight_decay=0.1, clip=1.0, seed=9, steps=20, muon=True),
    # A window of 5 in every layer, three queries on a key, heads wider than width / heads, an untied head.
    Case("mistral", LlamaShape("mistral", 89, 40, 24, 6, 2, 2, 37, tied=False, theta=100.0, norm_epsilon=1e-5, head_dim=6,
                               windows=(5, 5)),
         batch=8, sequence=19, lr=3e-3, beta2=0.95, weight_decay=0.1, clip=1.0, seed=10, steps=20),
    # Layers with a window of 4 and full ones at odd places, with a base of positions each; the clip bites in every step.
    Case("gemma3", LlamaShape("gemma3_text", 71, 40, 24, 4, 2, 5, 29, tied=True, theta=500.0, head_dim=10,
                              windows=(4, 0, 4, 4, 0), local_theta=20.0),
         batch=8, sequence=19, lr=3e-3, beta2=0.95, weight_decay=0.1, clip=0.25, seed=11, steps=20),
    # Every third layer is full, with positions divided by 8; scores scaled otherwise than by the width of a head; one
    # key/value head for three; stored as bf16.
    Case("gemma3-scaled", LlamaShape("gemma3_text", 97, 48, 30, 3, 1, 4, 45, tied=True, theta=200.0, head_dim=8,
                                     windows=(7, 7, 0, 7), local_theta=50.0, query_scalar=20, scaling=LinearScaling(8.0)),
         batch=6, sequence=29, lr=3e-3, beta2=0.99, weight_decay=0.0, clip=1.0, stored=torch.bfloat16, old_rope=True, seed=32,
         steps=20),
    # Biases on every matrix of a block, heads wider than width / heads.
    Case("llama-biases", LlamaShape("llama", 67, 40, 24, 4, 2, 2, 37, tied=False, theta=100.0, norm_epsilon=1e-5, head_dim=10,
                                    attention_bias=True, mlp_bias=True),
         batch=8, sequence=19, lr=3e-3, beta2=0.95, weight_decay=0.1, clip=0.25, seed=33, steps=20),
    # A full layer, then two with a window of 6.
    Case("qwen2-windows", LlamaShape("qwen2", 79, 40, 24, 4, 2, 3, 29, tied=False, theta=100.0, windows=(0, 6, 6)),
         batch=8, sequence=19, lr=3e-3, beta2=0.95, weight_decay=0.1, clip=1.0, seed=74, steps=20),
]


def is_gpt2(case):
    return isinstance(case.shape, Gpt2Shape)


def is_gemma(case):
    return not is_gpt2(case) and case.shape.is_gemma


def loss(p, shape, inputs, targets):
    """Mean over all tokens of -log softmax(logits)[target]."""
    scores = shape.logits(p, inputs)
    chosen = scores.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return (torch.logsumexp(scores, dim=-1) - chosen).mean()


def initial_weights(case):
    """fp32 tensors by name; biases and gains are random too, so that an error in any of them shows."""
    generator = torch.Generator().manual_seed(case.seed)
    weights = {}
    for name, size in case.shape.tensor_shapes().items():
        noise = torch.randn(size, generator=generator, dtype=torch.float32)
        if len(size) == 2:
            weights[name] = 0.1 * noise
        elif name.endswith("weight"):
            weights[name] = 0.1 * noise if is_gemma(case) else 1.0 + 0.1 * noise
        else:
            weights[name] = 0.05 * noise
        weights[name] = weights[name].to(case.stored).to(torch.float32)
    return weights


def make_tokens(case):
    """Tokens that can be learned in so few steps: at most 40 ids, first and last of the vocabulary among them; mostly a fixed
    successor of the last token, else uniform. steps * batch samples."""
    random = np.random.default_rng(case.seed)
    ids = np.linspace(0, case.shape.vocab - 1, min(case.shape.vocab, 40)).astype(np.int64)
    successor = random.permutation(len(ids))
    places = np.empty(case.steps * case.batch * case.sequence + 1, dtype=np.int64)
    places[0] = random.integers(len(ids))
    for i in range(1, len(places)):
        places[i] = successor[places[i - 1]] if random.random() < 0.7 else random.integers(len(ids))
    return ids[places].astype("<u2")


def batch_of_step(tokens, case, step):
    """docs/numerics.md, contract 6, `sequential`: step s has samples s*G .. s*G+G-1; sample i is tokens [iT, iT+T]."""
    t = case.sequence
    samples = [tokens[i * t : i * t + t + 1] for i in range(step * case.batch, (step + 1) * case.batch)]
    ids = torch.from_numpy(np.stack(samples).astype(np.int64))
    return ids[:, :-1], ids[:, 1:]


def is_in_block(name):
    return ".h." in name or ".layers." in name


def orthogonalized(update):
    """The iterations of torch.optim.Muon (_zeropower_via_newtonschulz), which are in bfloat16 there, in the update's type."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = update.T if update.size(0) > update.size(1) else update
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if update.size(0) > update.size(1) else x


def update_by_muon(parameter, momentum, pieces, case):
    """A step of torch.optim.Muon with adjust_lr_fn = match_rms_adamw; `pieces`: matrices side by side in rows."""
    momentum.lerp_(parameter.grad, 1 - 0.95)
    update = parameter.grad.lerp(momentum, 0.95)
    parameter.mul_(1 - case.lr * case.weight_decay)
    for rows, direction in zip(parameter.chunk(pieces, dim=1), update.chunk(pieces, dim=1)):
        rows.sub_(case.lr * 0.2 * math.sqrt(max(direction.shape)) * orthogonalized(direction))


def train(case, weights, tokens, dtype):
    """The case's AdamW steps; returns loss[steps], grad_norm[steps] (before clipping), gradients of step 1, final weights."""
    p = {name: tensor.to(dtype).clone().requires_grad_(True) for name, tensor in weights.items()}
    groups = [
        {"params": [t for t in p.values() if t.dim() >= 2], "weight_decay": case.weight_decay},
        {"params": [t for t in p.values() if t.dim() < 2], "weight_decay": 0.0},
    ]
    matrices = {name: t for name, t in p.items() if case.muon and t.dim() == 2 and is_in_block(name)}
    for group in groups:
        group["params"] = [t for t in group["params"] if not any(t is m for m in matrices.values())]
    optimizer = torch.optim.AdamW(groups, lr=case.lr, betas=(case.beta1, case.beta2), eps=case.eps, foreach=False)
    momenta = {name: torch.zeros_like(t) for name, t in matrices.items()}
    losses, norms, gradients = [], [], {}
    for step in range(case.steps):
        for t in p.values():
            t.grad = None
        value = loss(p, case.shape, *batch_of_step(tokens, case, step))
        value.backward()
        if step == 0:
            gradients = {name: t.grad.detach().clone() for name, t in p.items()}
        norm = torch.sqrt(sum(t.grad.square().sum() for t in p.values()))
        if case.clip > 0:
            scale = torch.clamp(case.clip / (norm + 1e-6), max=1.0)  # the rule of torch.nn.utils.clip_grad_norm_
            for t in p.values():
                t.grad.mul_(scale)
        optimizer.step()
        with torch.no_grad():
            for name, t in matrices.items():
                update_by_muon(t, momenta[name], 3 if name.endswith("c_attn.weight") else 1, case)
        losses.append(value.item())
        norms.append(norm.item())
    return np.array(losses), np.array(norms), gradients, {name: t.detach() for name, t in p.items()}


def without_key_bias(name, tensor):
    """Key biases move every score of a query alike: their gradient is zero but for rounding."""
    if not name.endswith("attn.c_attn.bias"):
        return tensor
    width = tensor.numel() // 3
    return torch.cat([tensor[:width], tensor[2 * width :]])


def distance(a, b):
    """|a - b| / |b| in the Euclidean norm, in float64."""
    a, b = a.double(), b.double()
    return (torch.linalg.vector_norm(a - b) / torch.linalg.vector_norm(b)).item()


def fp32_distances(case, weights, tokens, exact):
    """How far PyTorch's own fp32 is from float64: the neighbour of the tests' tolerances."""
    losses, norms, gradients, final = train(case, weights, tokens, torch.float32)
    return {
        "fp32_loss": float(np.max(np.abs(losses - exact[0]) / exact[0])),
        "fp32_grad_norm": float(np.max(np.abs(norms - exact[1]) / exact[1])),
        "fp32_gradients": max(distance(gradients[n], exact[2][n]) for n in exact[2]),
        "fp32_weights": max(distance(without_key_bias(n, final[n]), without_key_bias(n, exact[3][n])) for n in exact[3]),
    }


def scaling_json(scaling):
    """What is said of scaling next to a base, in either form of config.json."""
    if scaling is None:
        return {}
    if isinstance(scaling, LinearScaling):
        return {"rope_type": "linear", "factor": scaling.factor}
    return {
        "rope_type": "llama3", "factor": scaling.factor, "low_freq_factor": scaling.low_freq_factor,
        "high_freq_factor": scaling.high_freq_factor, "original_max_position_embeddings": scaling.original_context,
    }


def rope_json(case):
    s = case.shape
    scaling = scaling_json(s.scaling)
    if case.old_rope:
        local = {"rope_local_base_freq": s.local_theta} if s.local_theta else {}
        return {"rope_theta": s.theta, **local, "rope_scaling": scaling or None}
    plain = {"rope_type": "default", **scaling, "rope_theta": s.theta}
    if not s.local_theta:
        return {"rope_parameters": plain}
    local = {"rope_type": "default", "rope_theta": s.local_theta}
    return {"rope_parameters": {"full_attention": plain, "sliding_attention": local}}


def window_json(case):
    """Which layers have a window, and of how many keys."""
    s = case.shape
    if s.family in ("qwen2", "qwen3"):  # unused numbers where no layer has one
        first = s.windows.count(0) if s.windows else 1
        return {"use_sliding_window": bool(s.windows), "sliding_window": max(s.windows, default=16), "max_window_layers": first}
    if s.family == "mistral":
        return {"sliding_window": s.windows[0]}
    if not s.is_gemma:
        return {}
    full = [layer for layer, window in enumerate(s.windows) if window == 0]
    if case.old_rope:
        return {"sliding_window": max(s.windows), "sliding_window_pattern": full[0] + 1}
    types = ["full_attention" if layer in full else "sliding_attention" for layer in range(s.layers)]
    return {"sliding_window": max(s.windows), "layer_types": types}


def family_json(shape):
    """The keys that only some families have."""
    return {
        "llama": {"attention_bias": shape.attention_bias, "mlp_bias": shape.mlp_bias, "head_dim": shape.head_width,
                  "pretraining_tp": 1},
        "mistral": {"head_dim": shape.head_width},
        "qwen2": {},
        "qwen3": {"attention_bias": shape.attention_bias, "head_dim": shape.head_width},
        "gemma3_text": {"attention_bias": shape.attention_bias, "head_dim": shape.head_width,
                        "query_pre_attn_scalar": shape.query_scalar or shape.head_width, "attn_logit_softcapping": None,
                        "final_logit_softcapping": None,
                        "pad_token_id": None},  # Transformers gives the embedding of the default, 0, no gradient
    }[shape.family]


def config_json(case):
    s = case.shape
    dtype = {torch.float32: "float32", torch.bfloat16: "bfloat16"}[case.stored]
    if not is_gpt2(case):
        activation = {"hidden_activation": "gelu_pytorch_tanh"} if s.is_gemma else {"hidden_act": "silu"}
        return {
            "architectures": [f"{s.family.removesuffix('_text').capitalize()}ForCausalLM"], "model_type": s.family,
            **activation, "vocab_size": s.vocab, "max_position_embeddings": s.context, "hidden_size": s.width,
            "num_attention_heads": s.heads, "num_key_value_heads": s.kv_heads, "num_hidden_layers": s.layers,
            "intermediate_size": s.ffn_width, "rms_norm_eps": s.norm_epsilon, "attention_dropout": 0.0,
            "tie_word_embeddings": s.tied, "bos_token_id": 0, "eos_token_id": 0, **rope_json(case), **window_json(case),
            **family_json(s), "torch_dtype": dtype,
        }
    return {
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "gelu_new",
        "vocab_size": s.vocab, "n_positions": s.context, "n_ctx": s.context, "n_embd": s.width, "n_head": s.heads,
        "n_layer": s.layers, "n_inner": s.n_inner, "layer_norm_epsilon": s.norm_epsilon, "attn_pdrop": 0.0,
        "embd_pdrop": 0.0, "resid_pdrop": 0.0, "tie_word_embeddings": True, "bos_token_id": 0, "eos_token_id": 0,
        "scale_attn_weights": True, "torch_dtype": dtype,
    }


def stored_tensors(case, weights):
    """The content of model.safetensors, with the variations of Hugging Face files that the case asks for."""
    tensors = {n if case.prefix else n.removeprefix("transformer.").removeprefix("model."): t.to(case.stored)
               for n, t in weights.items()}
    if case.buffers and not is_gpt2(case):
        for layer in range(case.shape.layers):
            tensors[f"model.layers.{layer}.self_attn.rotary_emb.inv_freq"] = case.shape.frequencies(layer).float()
    if case.buffers and is_gpt2(case):
        c = case.shape.context
        for layer in range(case.shape.layers):
            tensors[f"h.{layer}.attn.bias"] = torch.ones(c, c, dtype=torch.uint8).tril().view(1, 1, c, c)
            tensors[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    if case.lm_head:
        tensors["lm_head.weight"] = weights["transformer.wte.weight"].to(case.stored).clone()
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def write_model(case, folder, weights, tokens):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config_json(case), indent=2) + "\n")
    save_file(stored_tensors(case, weights), folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)  # safetensors writes files that only the owner reads
    (folder / "tokens.bin").write_bytes(tokens.tobytes())


def sample_losses(scores, targets):
    """Mean over each sample's tokens of -log softmax(scores)[target]."""
    return torch.nn.functional.cross_entropy(scores.transpose(1, 2), targets, reduction="none").mean(dim=1)


def check_against_transformers(case, folder, weights, tokens):
    """Largest |logit difference| to Transformers' model, which reads the folder itself, in float64 and float32; and the losses
    that its float64 logits give, of each sample of the first LOSS_STEPS steps."""
    inputs, _ = batch_of_step(tokens, case, 0)
    deviations, losses = {}, []
    for dtype in (torch.float64, torch.float32):
        model, info = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, attn_implementation="eager", output_loading_info=True
        )
        tied = getattr(case.shape, "tied", True)
        missing = set(info["missing_keys"]) - ({"lm_head.weight"} if tied else set())
        if missing or info["mismatched_keys"]:
            sys.exit(f"{case.name}: Transformers misses {missing} or mismatches {info['mismatched_keys']}")
        model.eval()
        with torch.no_grad():
            theirs = model(inputs).logits
            ours = case.shape.logits({n: t.to(dtype) for n, t in weights.items()}, inputs)
        deviation = (ours - theirs).abs().max().item()
        if not deviation <= LOGIT_TOLERANCE:
            sys.exit(f"{case.name}: logits are {deviation:.1e} from Transformers' in {dtype}: at most {LOGIT_TOLERANCE}")
        deviations["logits_vs_transformers_" + str(dtype).removeprefix("torch.")] = deviation
        if dtype == torch.float64:
            with torch.no_grad():
                for step in range(LOSS_STEPS):
                    inputs_there, targets = batch_of_step(tokens, case, step)
                    losses += sample_losses(model(inputs_there).logits, targets).tolist()
    return deviations, losses


def check_run(case, exact):
    """The run must exercise what the case is for."""
    losses, norms = exact[0], exact[1]
    if not losses[-5:].mean() < 0.9 * losses[:5].mean():
        sys.exit(f"{case.name}: the loss does not fall ({losses[0]:.3f} to {losses[-1]:.3f}): change the learning rate")
    if case.clip == 0.25 and not (norms > 1.2 * case.clip).all():
        sys.exit(f"{case.name}: the clip of {case.clip} does not bite in every step (norms {norms.min():.2f} and up)")


def write_golden(case, folder, exact, measured):
    losses, norms, gradients, final = exact
    with h5py.File(folder / "golden.h5", "w") as file:
        attributes = {
            "batch": case.batch, "sequence": case.sequence, "steps": case.steps, "lr": case.lr, "beta1": case.beta1,
            "beta2": case.beta2, "eps": case.eps, "weight_decay": case.weight_decay, "clip": case.clip,
            "schedule": "constant", "order": "sequential",
            "order_rule": "step s (from 0): samples s*batch .. s*batch+batch-1; sample i: tokens [i*sequence, i*sequence+sequence]",
            "decay_rule": "tensors of two or more dimensions", "optimizer": "muon" if case.muon else "adamw",
            "clip_rule": "gradients * min(1, clip / (norm + 1e-6)); 0 = off",
            "torch": str(torch.__version__), "transformers": transformers.__version__, **measured,
        }
        for name, value in attributes.items():
            file.attrs[name] = value
        file["loss"] = losses
        file["grad_norm"] = norms
        for group, tensors in (("gradients", gradients), ("weights", final)):
            for name, tensor in tensors.items():
                # Rounded once to fp32: 6e-8, far below every tolerance, at half the size.
                file[f"{group}/{name}"] = tensor.to(torch.float32).numpy()


def write_losses(folder, losses):
    text = json.dumps({"transformers": transformers.__version__, "loss": losses}, indent=1)
    (folder / "transformers.json").write_text(text + "\n")


def compare(case, folder, weights, tokens, exact, losses):
    """--check: the files here against a fresh run. Float64 sums may differ in their last bits between machines."""
    failures = []
    there = json.loads((folder / "transformers.json").read_text())["loss"]
    if len(there) != len(losses) or np.max(np.abs(np.array(there) / losses - 1)) > 1e-10:
        failures.append("transformers.json differs")
    if (folder / "tokens.bin").read_bytes() != tokens.tobytes():
        failures.append("tokens.bin differs")
    stored = load_file(folder / "model.safetensors")
    for name, tensor in stored_tensors(case, weights).items():
        if name not in stored or not torch.equal(stored[name], tensor):
            failures.append(f"model.safetensors: {name} differs")
    with h5py.File(folder / "golden.h5") as file:
        for name, fresh in (("loss", exact[0]), ("grad_norm", exact[1])):
            if np.max(np.abs(file[name][:] - fresh) / fresh) > 1e-10:
                failures.append(f"golden.h5: {name} differs")
        for group, tensors in (("gradients", exact[2]), ("weights", exact[3])):
            for name, tensor in tensors.items():
                there = torch.from_numpy(file[f"{group}/{name}"][:])
                if distance(without_key_bias(name, there), without_key_bias(name, tensor)) > 1e-6:
                    failures.append(f"golden.h5: {group}/{name} differs")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the files that are here, write nothing")
    parser.add_argument("cases", nargs="*", help="names of folders; without any: all")
    arguments = parser.parse_args()
    check_only = arguments.check
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    failures = []
    for case in CASES:
        if arguments.cases and case.name not in arguments.cases:
            continue
        folder = HERE / case.name
        weights, tokens = initial_weights(case), make_tokens(case)
        if not check_only:
            write_model(case, folder, weights, tokens)
        measured, losses = check_against_transformers(case, folder, weights, tokens)
        exact = train(case, weights, tokens, torch.float64)
        check_run(case, exact)
        measured |= fp32_distances(case, weights, tokens, exact)
        if check_only:
            failures += [f"{case.name}: {failure}" for failure in compare(case, folder, weights, tokens, exact, losses)]
        else:
            write_golden(case, folder, exact, measured)
            write_losses(folder, losses)
        parameters = sum(t.numel() for t in weights.values())
        print(f"{case.name}: {parameters:,} parameters, loss {exact[0][0]:.4f} to {exact[0][-1]:.4f}, "
              f"gradient norm {exact[1].min():.3f} to {exact[1].max():.3f} (clip {case.clip or 'off'})")
        print("  " + ", ".join(f"{name} {value:.1e}" for name, value in measured.items()))
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
