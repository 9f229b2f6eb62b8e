"""Fine-tunes a small model of each family with one command, exports it, and loads the export in Transformers: its tokenizer
must give the ids of the original one, and its greedy tokens must be those of `tessera generate`.

    VENV/bin/python check_fine_tuning.py BUILD/bin/tessera [HUGGING_FACE_FOLDER...]     (small folders, if none is named)

By hand, because it needs PyTorch and Transformers (requirements.txt, tokenizers). MPIEXEC names mpiexec.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
TEXTS = HERE.parents[1] / "inputs" / "sample_data"
PROMPT = "The river was"
TEXT = "It's 1,234 o'clock: the caf\u00e9 opens\u2026\n\n  \u4f60\u597d <|endoftext|>"
TOKENS = 3  # a prompt and these fit the shortest context of the small models

sys.path.insert(0, str(HERE.parent / "cli"))
from hub_folder import FAMILIES, hugging_face_folder  # noqa: E402


def tessera_tokens(tessera: pathlib.Path, folder: pathlib.Path) -> list[int]:
    """The greedy continuation of PROMPT."""
    done = subprocess.run([tessera, "generate", folder, f"--generate.prompt={PROMPT}", f"--generate.max_tokens={TOKENS}",
                           "--generate.temperature=0", "--generate.format=json"], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)["tokens"]


def their_tokens(folder: pathlib.Path) -> list[int]:
    """The same by Transformers, from the folder alone."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = tokenizer(PROMPT, return_tensors="pt")["input_ids"]
    made = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS, do_sample=False, pad_token_id=0)
    return made[0, ids.shape[1]:].tolist()


def ids_of(folder: pathlib.Path) -> list[int]:
    return transformers.AutoTokenizer.from_pretrained(folder)(TEXT, add_special_tokens=False)["input_ids"]


def check(tessera: pathlib.Path, source: pathlib.Path, work: pathlib.Path) -> bool:
    run, exported = work / "run", work / "exported"
    subprocess.run([os.environ.get("MPIEXEC", "mpiexec"), "-n", "2", tessera, "train", f"--model.from={source}",
                    f"--data.source={TEXTS}", f"--run.dir={run}", f"--data.cache={work / 'cache'}"],
                   check=True, stdout=subprocess.DEVNULL)
    subprocess.run([tessera, "export", run, exported], check=True, stdout=subprocess.DEVNULL)
    same_ids = ids_of(source) == ids_of(exported)
    ours, theirs = tessera_tokens(tessera, run), their_tokens(exported)
    print(f"{source.name}: ids {'equal' if same_ids else 'DIFFER'}, greedy tokens {ours} and {theirs}", flush=True)
    return same_ids and ours == theirs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tessera", type=pathlib.Path)
    parser.add_argument("folders", type=pathlib.Path, nargs="*")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    results = []
    with tempfile.TemporaryDirectory() as place:
        folders = [folder.resolve() for folder in arguments.folders]
        for family in [] if folders else FAMILIES:
            folders.append(hugging_face_folder(pathlib.Path(place) / family, family))
        for number, folder in enumerate(folders):
            work = pathlib.Path(place) / f"work-{number}"
            work.mkdir()
            results.append(check(arguments.tessera.resolve(), folder, work))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
