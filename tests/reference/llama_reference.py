"""Qwen2, Llama and Qwen3 in plain PyTorch, any dtype: the formulas written out, no fused operation, no Transformers.

Parameters are a dict from Hugging Face names to tensors; weights are [out, in], so a linear is x @ weight.T (+ bias).
"""

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class RopeScaling:
    """How Llama 3.1 stretches positions ("llama3")."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_context: int


@dataclass(frozen=True)
class LlamaShape:
    """Sizes of a Qwen2 (family "qwen2": biases on query, key and value), a Llama or a Qwen3 (norms of each head's query and
    key)."""

    family: str
    vocab: int
    context: int
    width: int
    heads: int
    kv_heads: int
    layers: int
    ffn_width: int
    tied: bool
    theta: float = 10000.0
    scaling: RopeScaling | None = None
    norm_epsilon: float = 1e-6
    head_dim: int = 0       # 0: width / heads

    @property
    def head_width(self):
        return self.head_dim or self.width // self.heads

    def tensor_shapes(self):
        """Hugging Face name -> shape, in forward order."""
        w, f = self.width, self.ffn_width
        q, kv = self.heads * self.head_width, self.kv_heads * self.head_width
        shapes = {"model.embed_tokens.weight": (self.vocab, w)}
        for layer in range(self.layers):
            h = f"model.layers.{layer}."
            shapes[h + "input_layernorm.weight"] = (w,)
            for name, out in (("q_proj", q), ("k_proj", kv), ("v_proj", kv)):
                shapes[h + f"self_attn.{name}.weight"] = (out, w)
                if self.family == "qwen2":
                    shapes[h + f"self_attn.{name}.bias"] = (out,)
            if self.family == "qwen3":
                shapes |= {h + f"self_attn.{name}.weight": (self.head_width,) for name in ("q_norm", "k_norm")}
            shapes |= {
                h + "self_attn.o_proj.weight": (w, q), h + "post_attention_layernorm.weight": (w,),
                h + "mlp.gate_proj.weight": (f, w), h + "mlp.up_proj.weight": (f, w), h + "mlp.down_proj.weight": (w, f),
            }
        shapes["model.norm.weight"] = (w,)
        if not self.tied:
            shapes["lm_head.weight"] = (self.vocab, w)
        return shapes

    def frequencies(self):
        """One per pair of a head's elements, float64."""
        exponents = torch.arange(0, self.head_width, 2, dtype=torch.float64) / self.head_width
        plain = self.theta ** -exponents
        if self.scaling is None:
            return plain
        s = self.scaling
        wavelength = 2 * math.pi / plain
        smooth = (s.original_context / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor)
        scaled = torch.where(wavelength > s.original_context / s.low_freq_factor, plain / s.factor,
                             (1 - smooth) * plain / s.factor + smooth * plain)
        return torch.where(wavelength < s.original_context / s.high_freq_factor, plain, scaled)

    def logits(self, p, inputs):
        """[batch, tokens, vocab] of token ids [batch, tokens]."""
        x = p["model.embed_tokens.weight"][inputs]
        for layer in range(self.layers):
            h = f"model.layers.{layer}."
            x = x + attention(rms_norm(x, p[h + "input_layernorm.weight"], self.norm_epsilon), p, h, self)
            x = x + mlp(rms_norm(x, p[h + "post_attention_layernorm.weight"], self.norm_epsilon), p, h)
        x = rms_norm(x, p["model.norm.weight"], self.norm_epsilon)
        return x @ p["model.embed_tokens.weight" if self.tied else "lm_head.weight"].T


def rms_norm(x, weight, epsilon):
    return x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + epsilon) * weight


def linear(x, p, name):
    y = x @ p[name + ".weight"].T
    return y + p[name + ".bias"] if name + ".bias" in p else y


def apply_rotary(x, shape):
    """Pairs (x[i], x[i + half]) of each head rotated by position * frequency; x is [batch, heads, tokens, head_width]."""
    angles = torch.outer(torch.arange(x.shape[2], dtype=torch.float64), shape.frequencies())
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


def attention(x, p, h, shape):
    batch, tokens, _ = x.shape
    query, key, value = (
        linear(x, p, h + f"self_attn.{name}").view(batch, tokens, -1, shape.head_width).transpose(1, 2)
        for name in ("q_proj", "k_proj", "v_proj")
    )
    if shape.family == "qwen3":
        query = rms_norm(query, p[h + "self_attn.q_norm.weight"], shape.norm_epsilon)
        key = rms_norm(key, p[h + "self_attn.k_norm.weight"], shape.norm_epsilon)
    query, key = apply_rotary(query, shape), apply_rotary(key, shape)
    group = shape.heads // shape.kv_heads
    key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
    scores = query @ key.transpose(-1, -2) / math.sqrt(shape.head_width)
    future = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    mixed = torch.softmax(scores.masked_fill(future, -math.inf), dim=-1) @ value
    return linear(mixed.transpose(1, 2).reshape(batch, tokens, -1), p, h + "self_attn.o_proj")


def mlp(x, p, h):
    gate, up = linear(x, p, h + "mlp.gate_proj"), linear(x, p, h + "mlp.up_proj")
    return linear(gate / (1 + torch.exp(-gate)) * up, p, h + "mlp.down_proj")
