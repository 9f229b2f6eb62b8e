"""Llama, Mistral, Qwen2, Qwen3 and Gemma 3 in plain PyTorch, any dtype: the formulas written out, no fused operation, no
Transformers.

Parameters are a dict from Hugging Face names to tensors; weights are [out, in], so a linear is x @ weight.T (+ bias).
"""

import math
from dataclasses import dataclass

import torch

from gpt2_reference import gelu_new


@dataclass(frozen=True)
class RopeScaling:
    """How Llama 3.1 stretches positions ("llama3")."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_context: int


@dataclass(frozen=True)
class LinearScaling:
    """Every frequency divided by the factor ("linear")."""

    factor: float


@dataclass(frozen=True)
class LlamaShape:
    """Sizes of a Llama, a Mistral, a Qwen2 (family "qwen2": biases on query, key and value), a Qwen3 (norms of each head's
    query and key) or a Gemma 3 ("gemma3_text": these norms, four norms in a layer, gains of 1 + weight, tanh GELU gates, and
    embeddings times sqrt(width))."""

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
    scaling: RopeScaling | LinearScaling | None = None
    norm_epsilon: float = 1e-6
    head_dim: int = 0                # 0: width / heads
    windows: tuple[int, ...] = ()    # of each layer: a query sees so many keys, its own among them; 0: all before it
    local_theta: float = 0.0         # of layers with a window, which `scaling` leaves alone then; 0: `theta` in all layers
    query_scalar: int = 0            # scores are divided by its square root; 0: the width of a head
    attention_bias: bool = False     # biases on query, key, value and output
    mlp_bias: bool = False           # biases on gate, up and down

    @property
    def head_width(self):
        return self.head_dim or self.width // self.heads

    @property
    def is_gemma(self):
        return self.family == "gemma3_text"

    @property
    def norms_heads(self):
        return self.family in ("qwen3", "gemma3_text")

    def window(self, layer):
        return self.windows[layer] if self.windows else 0

    def tensor_shapes(self):
        """Hugging Face name -> shape, in forward order."""
        w, f = self.width, self.ffn_width
        q, kv = self.heads * self.head_width, self.kv_heads * self.head_width
        shapes = {"model.embed_tokens.weight": (self.vocab, w)}

        def add_linear(name, rows, columns, bias):
            shapes[name + ".weight"] = (rows, columns)
            if bias:
                shapes[name + ".bias"] = (rows,)

        for layer in range(self.layers):
            h = f"model.layers.{layer}."
            shapes[h + "input_layernorm.weight"] = (w,)
            for name, rows in (("q_proj", q), ("k_proj", kv), ("v_proj", kv)):
                add_linear(h + f"self_attn.{name}", rows, w, self.family == "qwen2" or self.attention_bias)
            if self.norms_heads:
                shapes |= {h + f"self_attn.{name}.weight": (self.head_width,) for name in ("q_norm", "k_norm")}
            add_linear(h + "self_attn.o_proj", w, q, self.attention_bias)
            shapes[h + "post_attention_layernorm.weight"] = (w,)
            if self.is_gemma:
                shapes[h + "pre_feedforward_layernorm.weight"] = (w,)
            for name, rows, columns in (("gate_proj", f, w), ("up_proj", f, w), ("down_proj", w, f)):
                add_linear(h + f"mlp.{name}", rows, columns, self.mlp_bias)
            if self.is_gemma:
                shapes[h + "post_feedforward_layernorm.weight"] = (w,)
        shapes["model.norm.weight"] = (w,)
        if not self.tied:
            shapes["lm_head.weight"] = (self.vocab, w)
        return shapes

    def frequencies(self, layer):
        """One per pair of a head's elements, float64."""
        exponents = torch.arange(0, self.head_width, 2, dtype=torch.float64) / self.head_width
        if self.local_theta and self.window(layer):
            return self.local_theta ** -exponents
        plain, s = self.theta ** -exponents, self.scaling
        if s is None:
            return plain
        if isinstance(s, LinearScaling):
            return plain / s.factor
        wavelength = 2 * math.pi / plain
        smooth = (s.original_context / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor)
        scaled = torch.where(wavelength > s.original_context / s.low_freq_factor, plain / s.factor,
                             (1 - smooth) * plain / s.factor + smooth * plain)
        return torch.where(wavelength < s.original_context / s.high_freq_factor, plain, scaled)

    def logits(self, p, inputs):
        """[batch, tokens, vocab] of token ids [batch, tokens]."""
        x = p["model.embed_tokens.weight"][inputs]
        if self.is_gemma:  # the factor is rounded to the type of the weights, as in Transformers: 34 for 33.94 in bf16
            x = x * torch.tensor(math.sqrt(self.width), dtype=x.dtype)
        for layer in range(self.layers):
            h = f"model.layers.{layer}."
            mixed = attention(self.norm(x, p, h + "input_layernorm"), p, h, self, layer)
            if self.is_gemma:
                x = x + self.norm(mixed, p, h + "post_attention_layernorm")
                made = mlp(self.norm(x, p, h + "pre_feedforward_layernorm"), p, h, gelu_new)
                x = x + self.norm(made, p, h + "post_feedforward_layernorm")
            else:
                x = x + mixed
                x = x + mlp(self.norm(x, p, h + "post_attention_layernorm"), p, h, silu)
        x = self.norm(x, p, "model.norm")
        return x @ p["model.embed_tokens.weight" if self.tied else "lm_head.weight"].T

    def norm(self, x, p, name):
        gain = p[name + ".weight"]
        return x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + self.norm_epsilon) * (1 + gain if self.is_gemma else gain)


def silu(x):
    return x / (1 + torch.exp(-x))


def linear(x, p, name):
    y = x @ p[name + ".weight"].T
    return y + p[name + ".bias"] if name + ".bias" in p else y


def apply_rotary(x, frequencies):
    """Pairs (x[i], x[i + half]) of each head rotated by position * frequency; x is [batch, heads, tokens, head_width]."""
    angles = torch.outer(torch.arange(x.shape[2], dtype=torch.float64), frequencies)
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


def hidden_keys(tokens, window):
    """[query, key]: true where the key is after the query, or `window` or more before it (0: none is)."""
    hidden = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    return hidden | torch.ones(tokens, tokens, dtype=torch.bool).tril(-window) if window else hidden


def attention(x, p, h, shape, layer):
    batch, tokens, _ = x.shape
    query, key, value = (
        linear(x, p, h + f"self_attn.{name}").view(batch, tokens, -1, shape.head_width).transpose(1, 2)
        for name in ("q_proj", "k_proj", "v_proj")
    )
    if shape.norms_heads:
        query, key = shape.norm(query, p, h + "self_attn.q_norm"), shape.norm(key, p, h + "self_attn.k_norm")
    frequencies = shape.frequencies(layer)
    query, key = apply_rotary(query, frequencies), apply_rotary(key, frequencies)
    group = shape.heads // shape.kv_heads
    key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
    scores = query @ key.transpose(-1, -2) / math.sqrt(shape.query_scalar or shape.head_width)
    scores = scores.masked_fill(hidden_keys(tokens, shape.window(layer)), -math.inf)
    mixed = torch.softmax(scores, dim=-1) @ value
    return linear(mixed.transpose(1, 2).reshape(batch, tokens, -1), p, h + "self_attn.o_proj")


def mlp(x, p, h, activation):
    gate, up = linear(x, p, h + "mlp.gate_proj"), linear(x, p, h + "mlp.up_proj")
    return linear(activation(gate) * up, p, h + "mlp.down_proj")
