"""GPT-2 as a PyTorch user would write it for speed: nn.Module, F.scaled_dot_product_attention, tied head."""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class Config:
    vocab: int
    context: int
    width: int
    heads: int
    layers: int
    ffn_width: int
    norm_epsilon: float = 1e-5


PRESETS = {
    "nano": Config(256, 256, 128, 4, 4, 512),
    "gpt2-124m": Config(50257, 1024, 768, 12, 12, 3072),
    "gpt2-350m": Config(50257, 1024, 1024, 16, 24, 4096),
    "gpt2-774m": Config(50257, 1024, 1280, 20, 36, 5120),
    "gpt2-1558m": Config(50257, 1024, 1600, 25, 48, 6400),
}


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.heads
        self.c_attn = nn.Linear(config.width, 3 * config.width)
        self.c_proj = nn.Linear(config.width, config.width)

    def forward(self, x):
        batch, tokens, width = x.shape
        query, key, value = (
            part.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
            for part in self.c_attn(x).split(width, dim=-1)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.c_proj(mixed.transpose(1, 2).reshape(batch, tokens, width))


class Mlp(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_fc = nn.Linear(config.width, config.ffn_width)
        self.c_proj = nn.Linear(config.ffn_width, config.width)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.width, config.norm_epsilon)
        self.attn = Attention(config)
        self.ln_2 = nn.LayerNorm(config.width, config.norm_epsilon)
        self.mlp = Mlp(config)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    """Maps token ids and targets [batch, tokens] to the mean cross-entropy. Without a seed the caller gives first weights."""

    def __init__(self, config, seed=0, sequence=None):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocab, config.width)
        self.wpe = nn.Embedding(config.context, config.width)
        self.h = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.ln_f = nn.LayerNorm(config.width, config.norm_epsilon)
        if seed is not None:
            self.initialize(seed)

    def initialize(self, seed):
        """GPT-2's: normal 0.02, residual projections divided by sqrt(2 layers), biases zero."""
        generator = torch.Generator(self.wte.weight.device).manual_seed(seed)
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                residual = name.endswith("c_proj.weight")
                deviation = 0.02 / (2 * self.config.layers) ** 0.5 if residual else 0.02
                nn.init.normal_(parameter, std=deviation, generator=generator)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, inputs, targets):
        x = self.wte(inputs) + self.wpe.weight[: inputs.shape[1]]
        for block in self.h:
            x = block(x)
        return self.loss(x, targets)

    def loss(self, x, targets):
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.reshape(-1))


def config_of(keys):
    """The shape that a Hugging Face config.json tells."""
    return Config(keys["vocab_size"], keys["n_positions"], keys["n_embd"], keys["n_head"], keys["n_layer"],
                  keys.get("n_inner") or 4 * keys["n_embd"], keys.get("layer_norm_epsilon", 1e-5))


def stored_tensors(folder):
    """All tensors of a folder's safetensors files. SystemExit where there are none."""
    from safetensors.torch import load_file

    files = sorted(Path(folder).glob("*.safetensors"))
    if not files:
        raise SystemExit(f"--from {folder}: it has no model.safetensors")
    return {name: tensor for file in files for name, tensor in load_file(file).items()}


def from_hugging_face(folder, sequence=None):
    """The model of a Hugging Face GPT-2 folder (config.json + model.safetensors); Conv1D weights are transposed."""
    config = config_of(json.loads((Path(folder) / "config.json").read_text()))
    model = Gpt2(config, None)
    stored = {name.removeprefix("transformer."): t for name, t in stored_tensors(folder).items()}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            tensor = stored[name].float()
            is_linear = parameter.dim() == 2 and not name.startswith(("wte", "wpe"))
            parameter.copy_(tensor.T if is_linear else tensor)
    return model
