#!/usr/bin/env python3
"""Makes generation.json in the folders here: greedy continuations by Transformers, of prompts that are token ids.

    python make_generation.py           writes a file per folder
    python make_generation.py --check   makes everything again and compares it with the files that are here

The models compute in float64. At every step the largest logit must lead the second by MARGIN, so that fp32 chooses alike.
Versions: requirements.txt.
"""

import sys
from pathlib import Path

import torch
import transformers

from golden_files import write_or_check

FOLDERS = ["clipped", "deep", "shallow", "qwen2-tied", "qwen2-untied", "llama3", "qwen3", "mistral", "gemma3", "gemma3-scaled",
           "llama-biases", "qwen2-windows"]
LONGEST = 40    # tokens of a continuation
MARGIN = 1e-3   # in logits; fp32 is off by some 1e-6
PROMPT_LENGTHS = (1, 4, 7)
SEEDS = 20      # sets of prompts that are tried; the one with the most different tokens is kept


def prompts_of(vocab: int, seed: int) -> list[list[int]]:
    """Prompts of different lengths, drawn from the whole vocabulary."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(vocab, (n,), generator=generator).tolist() for n in PROMPT_LENGTHS]


def continuation(model: torch.nn.Module, prompt: list[int]) -> tuple[list[int], float]:
    """The greedy tokens up to LONGEST or the context, and the smallest lead of a chosen logit over the next."""
    count = min(LONGEST, model.config.max_position_embeddings - len(prompt))
    ids = torch.tensor([prompt])
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False, eos_token_id=None,
                         pad_token_id=0, output_logits=True, return_dict_in_generate=True)
    two = [scores[0].topk(2).values for scores in out.logits]
    return out.sequences[0, len(prompt):].tolist(), min((a - b).item() for a, b in two)


def generated(folder: Path) -> dict:
    """The content of a folder's generation.json."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
    best, most = None, 0
    for seed in range(SEEDS):
        prompts = prompts_of(model.config.vocab_size, seed)
        with torch.no_grad():
            made = [continuation(model, prompt) for prompt in prompts]
        different = sum(len(set(tokens)) for tokens, _ in made)
        if min(lead for _, lead in made) >= MARGIN and different > most:
            most = different
            best = {"transformers": transformers.__version__, "smallest_lead": min(lead for _, lead in made),
                    "prompts": prompts, "tokens": [tokens for tokens, _ in made]}
    if best is None:
        sys.exit(f"{folder.name}: none of {SEEDS} sets of prompts has clear continuations")
    return best


if __name__ == "__main__":
    sys.exit(write_or_check(__doc__, FOLDERS, "generation.json", generated,
                            lambda made, there: made["tokens"] == there["tokens"],
                            lambda made: f"{[len(tokens) for tokens in made['tokens']]} tokens, "
                                         f"smallest lead {made['smallest_lead']:.1e}"))
