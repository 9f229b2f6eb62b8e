"""Qwen2 and Llama as a PyTorch user would write them for speed: nn.Module, F.rms_norm, F.scaled_dot_product_attention with
grouped queries, rotary positions from a table, SwiGLU as two matmuls."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from gpt2_torch import stored_tensors


@dataclass(frozen=True)
class Config:
    vocab: int
    context: int
    width: int
    heads: int
    kv_heads: int
    layers: int
    ffn_width: int
    norm_epsilon: float
    rope_theta: float
    tied: bool
    qkv_bias: bool
    rope_scaling: tuple = ()  # (factor, low_freq_factor, high_freq_factor, original context)


PRESETS = {
    "qwen2-0.5b": Config(151936, 131072, 896, 14, 2, 24, 4864, 1e-6, 1e6, True, True),
    "qwen2-1.5b": Config(151936, 131072, 1536, 12, 2, 28, 8960, 1e-6, 1e6, True, True),
    "llama-1b": Config(128256, 131072, 2048, 32, 8, 16, 8192, 1e-5, 5e5, True, False, (32, 1, 4, 8192)),
    "llama-8b": Config(128256, 8192, 4096, 32, 8, 32, 14336, 1e-5, 5e5, False, False),
}


def frequencies(config):
    """Angle per position of each pair, float64; Llama 3's scaling stretches long waves and mixes those between."""
    half = config.width // config.heads // 2
    frequency = config.rope_theta ** (-torch.arange(half, dtype=torch.float64, device="cpu") / half)
    if config.rope_scaling:
        factor, low, high, original = config.rope_scaling
        share = ((original * frequency / (2 * math.pi) - low) / (high - low)).clamp(0, 1)
        frequency = frequency * (share + (1 - share) / factor)
    return frequency


def apply_rotary(x, cosine, sine):
    """Rotates the pairs (x[i], x[i + half]) of each head; x: [batch, heads, tokens, head width]."""
    left, right = x.chunk(2, dim=-1)
    return torch.cat((left * cosine - right * sine, right * cosine + left * sine), dim=-1)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads, self.kv_heads = config.heads, config.kv_heads
        self.head_width = config.width // config.heads
        self.q_proj = nn.Linear(config.width, config.heads * self.head_width, bias=config.qkv_bias)
        self.k_proj = nn.Linear(config.width, config.kv_heads * self.head_width, bias=config.qkv_bias)
        self.v_proj = nn.Linear(config.width, config.kv_heads * self.head_width, bias=config.qkv_bias)
        self.o_proj = nn.Linear(config.heads * self.head_width, config.width, bias=False)

    def forward(self, x, cosine, sine):
        batch, tokens, _ = x.shape
        split = lambda y, heads: y.view(batch, tokens, heads, self.head_width).transpose(1, 2)
        query = apply_rotary(split(self.q_proj(x), self.heads), cosine, sine)
        key = apply_rotary(split(self.k_proj(x), self.kv_heads), cosine, sine)
        value = split(self.v_proj(x), self.kv_heads)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, tokens, -1))


class Mlp(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.width, config.ffn_width, bias=False)
        self.up_proj = nn.Linear(config.width, config.ffn_width, bias=False)
        self.down_proj = nn.Linear(config.ffn_width, config.width, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.width, config.norm_epsilon)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = nn.RMSNorm(config.width, config.norm_epsilon)
        self.mlp = Mlp(config)

    def forward(self, x, cosine, sine):
        x = x + self.self_attn(self.input_layernorm(x), cosine, sine)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    """Maps token ids and targets [batch, tokens] to the mean cross-entropy. `sequence`: the longest that it will see.

    Without a seed the caller gives first weights.
    """

    def __init__(self, config, seed=0, sequence=None):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab, config.width)
        self.h = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.width, config.norm_epsilon)
        if not config.tied:
            self.lm_head = nn.Linear(config.width, config.vocab, bias=False)
        places = torch.arange(sequence or config.context, dtype=torch.float64, device="cpu")
        angles = torch.outer(places, frequencies(config))
        device = self.norm.weight.device
        self.register_buffer("cosine", angles.cos().float().to(device), persistent=False)
        self.register_buffer("sine", angles.sin().float().to(device), persistent=False)
        if seed is not None:
            self.initialize(seed)

    def initialize(self, seed):
        """Normal 0.02, biases zero, gains one."""
        generator = torch.Generator(self.norm.weight.device).manual_seed(seed)
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                nn.init.normal_(parameter, std=0.02, generator=generator)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, inputs, targets):
        x = self.embed_tokens(inputs)
        # Angles keep fp32 under autocast; the rotated queries and keys go back to what x has.
        cosine, sine = (t[: inputs.shape[1]].to(self.matmul_type(x)) for t in (self.cosine, self.sine))
        for block in self.h:
            x = block(x, cosine, sine)
        return self.loss(x, targets)

    def loss(self, x, targets):
        table = self.embed_tokens.weight if self.config.tied else self.lm_head.weight
        logits = F.linear(self.norm(x), table)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.reshape(-1))

    @staticmethod
    def matmul_type(x):
        """bf16 matmuls come out of autocast: rotating in fp32 would double the bytes of queries and keys."""
        return torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else x.dtype


def config_of(keys):
    """The shape that a Hugging Face config.json tells."""
    rope = keys.get("rope_parameters") or {}
    scaling = keys.get("rope_scaling") or (rope if rope.get("rope_type") == "llama3" else {})
    scaled = tuple(scaling[name] for name in ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")) \
        if scaling.get("rope_type") == "llama3" else ()
    return Config(keys["vocab_size"], keys["max_position_embeddings"], keys["hidden_size"], keys["num_attention_heads"],
                  keys["num_key_value_heads"], keys["num_hidden_layers"], keys["intermediate_size"], keys["rms_norm_eps"],
                  keys.get("rope_theta") or rope.get("rope_theta"), keys.get("tie_word_embeddings", False),
                  keys["model_type"] == "qwen2", scaled)


def from_hugging_face(folder, sequence=None):
    """The model of a Hugging Face Qwen2 or Llama folder (config.json + model.safetensors)."""
    config = config_of(json.loads((Path(folder) / "config.json").read_text()))
    model = Decoder(config, None, sequence)
    stored = {name.removeprefix("model."): t for name, t in stored_tensors(folder).items()}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(stored["layers" + name[1:] if name.startswith("h.") else name].float())
    return model
