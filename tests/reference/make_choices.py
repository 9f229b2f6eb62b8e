#!/usr/bin/env python3
"""Makes choices.json in two folders here: questions of multiple choice, and the cost of each ending by Transformers.

    python make_choices.py           writes a file per folder
    python make_choices.py --check   makes everything again and compares it with the files that are here

The models compute in float64; a byte is a token. Costs are mean losses per token of the ending, in nats. The lowest must
lead the second by MARGIN, so that fp32 chooses alike. Versions: requirements.txt.
"""

import random
import sys
from pathlib import Path

import torch
import transformers

from golden_files import write_or_check

FOLDERS = ["deep", "qwen2-untied"]  # vocabularies of 130: the bytes of ASCII
QUESTIONS = 12
MARGIN = 1e-3
WORDS = "the a shard rank gather step reduce loss norm tree".split()


def question(draw: random.Random) -> dict:
    """Two to four endings of different lengths; context and ending fit a context of 33 tokens."""
    context = " ".join(draw.choices(WORDS, k=2))
    endings = [" ".join(draw.choices(WORDS, k=draw.randint(1, 2))) for _ in range(draw.randint(2, 4))]
    return {"context": context, "endings": endings, "label": draw.randrange(len(endings))}


def costs(model: torch.nn.Module, asked: dict) -> list[float]:
    """The mean loss per token of each ending after context and a space, which belongs to the ending."""
    means = []
    before = list(asked["context"].encode())
    for ending in asked["endings"]:
        after = list((" " + ending).encode())
        ids = torch.tensor([before + after])
        losses = torch.nn.functional.cross_entropy(model(ids).logits[0, :-1], ids[0, 1:], reduction="none")
        means.append(losses[len(before) - 1:].mean().item())
    return means


def made(folder: Path) -> dict:
    """The content of a folder's choices.json."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
    draw = random.Random(7)
    questions = []
    while len(questions) < QUESTIONS:
        asked = question(draw)
        with torch.no_grad():
            asked["costs"] = costs(model, asked)
        first, second = sorted(asked["costs"])[:2]
        if second - first >= MARGIN:
            questions.append(asked)
    right = sum(one["costs"].index(min(one["costs"])) == one["label"] for one in questions)
    return {"transformers": transformers.__version__, "accuracy": right / len(questions), "questions": questions}


def equal(made_now: dict, there: dict) -> bool:
    """The same questions, and costs equal but for the order of sums in another version."""
    pairs = list(zip(made_now["questions"], there["questions"], strict=True))
    return all(a["endings"] == b["endings"] and all(abs(x - y) < 1e-9 for x, y in zip(a["costs"], b["costs"], strict=True))
               for a, b in pairs)


if __name__ == "__main__":
    sys.exit(write_or_check(__doc__, FOLDERS, "choices.json", made, equal,
                            lambda now: f"{len(now['questions'])} questions, accuracy {now['accuracy']:.4f}"))
