#!/usr/bin/env python3
"""Trains the golden models (tests/reference) with pytorch_train.py and compares with their float64 losses and norms.

    VENV/bin/python check_golden.py [FOLDER...]       needs h5py too

Plain, with compiled blocks, and FSDP1 and FSDP2 on one rank. Fails where a loss is more than 1e-6 off, or a norm more than 5e-6.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import h5py

HERE = pathlib.Path(__file__).parent
REFERENCE = HERE.parent / "reference"


def options_of(folder):
    with h5py.File(folder / "golden.h5") as file:
        options = dict(file.attrs)
        rows = list(zip(file["loss"][:], file["grad_norm"][:]))
    words = ["--source", str(folder / "tokens.bin"), "--from", str(folder), "--micro-batch", str(options["batch"]),
             "--seq-len", str(options["sequence"]), "--steps", str(options["steps"]), "--warm-up", "0"]
    for name in ("lr", "beta1", "beta2", "eps", "weight_decay", "clip"):
        words += ["--" + name.replace("_", "-"), repr(float(options[name]))]
    return words, rows


def main():
    status = 0
    for name in sys.argv[1:] or sorted(path.parent.name for path in REFERENCE.glob("*/golden.h5")):
        words, golden = options_of(REFERENCE / name)
        for setting in ([], ["--compile", "blocks"], ["--strategy", "fsdp1"], ["--strategy", "fsdp2"]):
            with tempfile.NamedTemporaryFile(suffix=".json") as out:
                subprocess.run([sys.executable, str(HERE / "pytorch_train.py"), *words, *setting, "--output", out.name],
                               check=True, capture_output=True)
                rows = json.load(open(out.name))["steps"]
            loss = max(abs(row["loss"] / right[0] - 1) for row, right in zip(rows, golden))
            norm = max(abs(row["grad_norm"] / right[1] - 1) for row, right in zip(rows, golden))
            close = loss < 1e-6 and norm < 5e-6  # NaN is not
            print(f"{name:14} {' '.join(setting) or 'plain':18} loss {loss:.1e}  norm {norm:.1e}{'' if close else '  TOO FAR'}", flush=True)
            status |= not close
    return status


if __name__ == "__main__":
    sys.exit(main())
