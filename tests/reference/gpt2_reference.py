"""GPT-2 in plain PyTorch, any dtype: the formulas written out, no fused operation, no Transformers.

Parameters are a dict from Hugging Face names (with the `transformer.` prefix) to tensors; Hugging Face's Conv1D stores
its weight as [in, out], so a linear is x @ weight + bias.
"""

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Gpt2Shape:
    """Sizes of a GPT-2. n_inner None means 4 * width, as in Hugging Face's config.json."""

    vocab: int
    context: int
    width: int
    heads: int
    layers: int
    n_inner: int | None = None
    norm_epsilon: float = 1e-5

    @property
    def ffn_width(self):
        return self.n_inner if self.n_inner is not None else 4 * self.width

    def tensor_shapes(self):
        """Hugging Face name -> shape, in forward order."""
        w, f = self.width, self.ffn_width
        shapes = {"transformer.wte.weight": (self.vocab, w), "transformer.wpe.weight": (self.context, w)}
        for layer in range(self.layers):
            h = f"transformer.h.{layer}."
            shapes |= {
                h + "ln_1.weight": (w,), h + "ln_1.bias": (w,),
                h + "attn.c_attn.weight": (w, 3 * w), h + "attn.c_attn.bias": (3 * w,),
                h + "attn.c_proj.weight": (w, w), h + "attn.c_proj.bias": (w,),
                h + "ln_2.weight": (w,), h + "ln_2.bias": (w,),
                h + "mlp.c_fc.weight": (w, f), h + "mlp.c_fc.bias": (f,),
                h + "mlp.c_proj.weight": (f, w), h + "mlp.c_proj.bias": (w,),
            }
        shapes |= {"transformer.ln_f.weight": (w,), "transformer.ln_f.bias": (w,)}
        return shapes

    def logits(self, p, inputs):
        """[batch, tokens, vocab] of token ids [batch, tokens]; the head reads the token table."""
        x = p["transformer.wte.weight"][inputs] + p["transformer.wpe.weight"][: inputs.shape[1]]
        for layer in range(self.layers):
            h = f"transformer.h.{layer}."
            x = x + attention(layer_norm(x, p[h + "ln_1.weight"], p[h + "ln_1.bias"], self.norm_epsilon), p, h, self)
            x = x + mlp(layer_norm(x, p[h + "ln_2.weight"], p[h + "ln_2.bias"], self.norm_epsilon), p, h)
        x = layer_norm(x, p["transformer.ln_f.weight"], p["transformer.ln_f.bias"], self.norm_epsilon)
        return x @ p["transformer.wte.weight"].T


def layer_norm(x, weight, bias, epsilon):
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = (centred * centred).mean(dim=-1, keepdim=True)
    return centred / torch.sqrt(variance + epsilon) * weight + bias


def gelu_new(x):
    """The tanh form that GPT-2 was trained with (Hendrycks and Gimpel 2016)."""
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))


def attention(x, p, h, shape):
    batch, tokens, width = x.shape
    qkv = x @ p[h + "attn.c_attn.weight"] + p[h + "attn.c_attn.bias"]
    query, key, value = (
        part.view(batch, tokens, shape.heads, width // shape.heads).transpose(1, 2) for part in qkv.split(width, dim=-1)
    )
    scores = query @ key.transpose(-1, -2) / math.sqrt(width // shape.heads)
    future = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    mixed = torch.softmax(scores.masked_fill(future, -math.inf), dim=-1) @ value
    mixed = mixed.transpose(1, 2).reshape(batch, tokens, width)
    return mixed @ p[h + "attn.c_proj.weight"] + p[h + "attn.c_proj.bias"]


def mlp(x, p, h):
    hidden = gelu_new(x @ p[h + "mlp.c_fc.weight"] + p[h + "mlp.c_fc.bias"])
    return hidden @ p[h + "mlp.c_proj.weight"] + p[h + "mlp.c_proj.bias"]
