"""Import, export, and the logits of both folders in Transformers: they must be equal to the bit, and so must two exports.

    VENV/bin/python check_export.py BUILD/bin/tessera [HUGGING_FACE_FOLDER...]     (the folders here, if none is named)

By hand, because it needs PyTorch and Transformers (requirements.txt); the tests hold our forward pass against the losses that Transformers gave.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent


def logits(folder: pathlib.Path) -> torch.Tensor:
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokens = torch.randint(0, model.config.vocab_size, (2, 7), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        return model(tokens).logits


def check(tessera: pathlib.Path, source: pathlib.Path) -> bool:
    with tempfile.TemporaryDirectory() as work:
        checkpoint, once, again = (pathlib.Path(work) / name for name in ("checkpoint", "once", "again"))
        for command in (["import", source, checkpoint], ["export", checkpoint, once], ["export", checkpoint, again]):
            subprocess.run([tessera, *command], check=True, stdout=subprocess.DEVNULL)
        stable = all((once / file.name).read_bytes() == file.read_bytes() for file in again.iterdir())
        equal = torch.equal(logits(source), logits(once))
    print(f"{source.name}: logits {'equal' if equal else 'DIFFER'}, exports {'equal' if stable else 'DIFFER'}", flush=True)
    return equal and stable


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tessera", type=pathlib.Path)
    parser.add_argument("folders", type=pathlib.Path, nargs="*")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    folders = arguments.folders or sorted(file.parent for file in HERE.glob("*/config.json"))
    results = [check(arguments.tessera.resolve(), folder) for folder in folders]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
