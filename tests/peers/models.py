"""The model to train: of a preset, a family with sizes, or a Hugging Face folder; its first weights and its FLOPs."""
from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

import torch

import decoder_torch
import gpt2_torch
from options import SIZES
from tessera_random import normals

FAMILIES = {"gpt2": "gpt2-124m", "qwen2": "qwen2-0.5b", "llama": "llama-8b"}  # whose norm, rotary base and tied head a family has
ALL_PRESETS = gpt2_torch.PRESETS | decoder_torch.PRESETS


def make_model(options: argparse.Namespace) -> torch.nn.Module:
    """On the device, in fp32, with its first weights."""
    if options.from_folder:
        module = gpt2_torch if _config_of(options.from_folder)["model_type"] == "gpt2" else decoder_torch
        return module.from_hugging_face(options.from_folder, options.seq_len).to(options.device)
    config = shape(options)
    kind = gpt2_torch.Gpt2 if isinstance(config, gpt2_torch.Config) else decoder_torch.Decoder
    with torch.device(options.device):
        model = kind(config, options.seed if options.init == "torch" else None, options.seq_len)
    if options.init == "tessera":
        initialize_like_tessera(model, options.seed)
    return model


def shape(options: argparse.Namespace):
    """The model's Config. SystemExit where there is no such model, or it cannot take the sequences."""
    if options.from_folder:
        keys = _config_of(options.from_folder)
        config = (gpt2_torch if keys["model_type"] == "gpt2" else decoder_torch).config_of(keys)
    else:
        config = _given_shape(options)
    if options.seq_len > config.context:
        raise SystemExit(f"--seq-len {options.seq_len} is longer than the model's context {config.context}")
    return config


def _config_of(folder: str) -> dict:
    path = Path(folder) / "config.json"
    if not path.is_file():
        raise SystemExit(f"--from {folder}: it has no config.json: a Hugging Face folder (tessera export makes one of a run)")
    keys = json.loads(path.read_text())
    if keys.get("model_type") not in FAMILIES:
        raise SystemExit(f"--from {folder}: model_type {keys.get('model_type')!r} in config.json: {', '.join(FAMILIES)}")
    return keys


def _given_shape(options: argparse.Namespace):
    base = ALL_PRESETS[FAMILIES[options.family] if options.family else options.preset]
    given = {name: getattr(options, name) for name in SIZES if getattr(options, name)}
    is_gpt2 = isinstance(base, gpt2_torch.Config)
    if options.family:
        missing = [f"--{name}" for name in ("layers", "heads", "width", "vocab", "context") if name not in given]
        if missing:
            raise SystemExit(f"--family {options.family} needs {', '.join(missing)}")
    heads, width = given.get("heads", base.heads), given.get("width", base.width)
    if is_gpt2 and given.pop("kv_heads", heads) != heads:
        raise SystemExit(f"--kv-heads {options.kv_heads}: GPT-2 has a key/value head per head: {heads}")
    if options.family or is_gpt2:
        given = {"ffn_width": 4 * width, **({} if is_gpt2 else {"kv_heads": heads}), **given}
    config = dataclasses.replace(base, **given)
    if config.width % config.heads:
        raise SystemExit(f"--width {config.width} is no multiple of --heads {config.heads}")
    if not is_gpt2 and (config.heads % config.kv_heads or config.width // config.heads % 2):
        raise SystemExit(f"--heads {config.heads}, --kv-heads {config.kv_heads}, --width {config.width}: key/value heads divide heads, a head's width is even")
    return dataclasses.replace(config, vocab=-(-config.vocab // options.pad_vocab) * options.pad_vocab)


def initialize_like_tessera(model: torch.nn.Module, seed: int) -> None:
    """Tessera's first weights of that run.seed (src/model/parameters.cpp): parameters come in its order of tensors."""
    is_gpt2 = isinstance(model, gpt2_torch.Gpt2)
    with torch.no_grad():
        for number, (name, parameter) in enumerate(model.named_parameters()):
            if parameter.dim() < 2:
                parameter.zero_() if name.endswith("bias") else parameter.fill_(1)
                continue
            residual = is_gpt2 and name.endswith("c_proj.weight")
            deviation = 0.02 / (2 * model.config.layers) ** 0.5 if residual else 0.02
            is_turned = is_gpt2 and name.startswith("h.")  # Conv1D's weights are [in, out]
            stored = parameter.T.shape if is_turned else parameter.shape
            values = torch.from_numpy(normals(seed, number, parameter.numel(), deviation)).view(stored)
            parameter.copy_(values.T if is_turned else values)


def sizes(config) -> dict[str, int]:
    """The model's sizes under Tessera's names."""
    return {name: getattr(config, name, config.heads) for name in SIZES}


def published_flops(config, parameters: int, sequence: int) -> float:
    """Training FLOPs of a token as publications count them: 6 N + 12 x layers x width x sequence (heads are width / heads)."""
    return 6.0 * parameters + 12.0 * config.layers * config.width * sequence


def matmul_flops(config, sequence: int) -> float:
    """Training FLOPs of a token in the model's matmuls, as src/model/parts.cpp counts them: forward and backward once."""
    key_width = getattr(config, "kv_heads", config.heads) * (config.width // config.heads)
    projections = 2 * config.width * (2 * config.width + 2 * key_width)
    attention = (sequence + 1) * config.width  # half of the square, a matmul
    mlp = 2 * config.width * config.ffn_width * (2 if isinstance(config, gpt2_torch.Config) else 3)
    return config.layers * (3 * (projections + mlp) + 7 * attention) + 6.0 * config.width * config.vocab
