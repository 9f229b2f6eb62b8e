#!/usr/bin/env python3
"""Makes the files in configs/: config.json of small models as the installed Transformers saves it.

    VENV/bin/python make_configs.py           writes NAME-4.50.json (by 4.50), NAME-4.json (by 4.57) or NAME-5.json
    VENV/bin/python make_configs.py --check   compares with the file that is here instead

Needs PyTorch, whose version does not matter, and Transformers; configs/README.md has the versions.
"""

import argparse
import pathlib
import sys
import tempfile

import torch
import transformers

FOLDER = pathlib.Path(__file__).resolve().parent / "configs"
SIZES = {"vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 7, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 12, "max_position_embeddings": 64}
TEXT = {**SIZES, "sliding_window": 5, "query_pre_attn_scalar": 16}
SCALING = {"rope_type": "linear", "factor": 8.0}
VISION = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 28,
          "patch_size": 14}


def models() -> dict[str, torch.nn.Module]:
    t = transformers
    return {
        "mistral": t.MistralForCausalLM(t.MistralConfig(**SIZES, sliding_window=5)),
        "mistral-full": t.MistralForCausalLM(t.MistralConfig(**SIZES, sliding_window=None)),
        "gemma3_text": t.Gemma3ForCausalLM(t.Gemma3TextConfig(**TEXT)),
        "gemma3": t.Gemma3ForConditionalGeneration(t.Gemma3Config(
            text_config={**TEXT, "rope_scaling": dict(SCALING)}, vision_config=dict(VISION), mm_tokens_per_image=4,
            image_token_index=96)),
    }


def saved_config(model: torch.nn.Module) -> str:
    with tempfile.TemporaryDirectory() as folder:
        model.to(torch.bfloat16).save_pretrained(folder)
        return (pathlib.Path(folder) / "config.json").read_text()


def suffix_of_version() -> str:
    major, minor = transformers.__version__.split(".")[:2]
    return "4.50" if (major, minor) == ("4", "50") else major


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the files that are here, write nothing")
    check_only = parser.parse_args().check
    transformers.logging.set_verbosity_error()
    FOLDER.mkdir(exist_ok=True)
    failures = 0
    for name, model in models().items():
        path, text = FOLDER / f"{name}-{suffix_of_version()}.json", saved_config(model)
        if not check_only:
            path.write_text(text)
        elif path.read_text() != text:
            print(f"{path.name} differs", file=sys.stderr)
            failures += 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
