"""Shared by the scripts that make a golden file in each of some folders here, with Transformers."""

import argparse
import json
import pathlib
import sys
from typing import Callable, Sequence

import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
Golden = dict


def write_or_check(about: str, folders: Sequence[str], file: str, make: Callable[[pathlib.Path], Golden],
                   equal: Callable[[Golden, Golden], bool], describe: Callable[[Golden], str]) -> int:
    """Makes FOLDER/file for each folder; with --check compares instead. Returns the exit code.

    `about` is the script's docstring; `equal` compares the contents that were made with those that are there.
    """
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the files that are here, write nothing")
    check_only = parser.parse_args().check
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    failures = 0
    for name in folders:
        made, path = make(HERE / name), HERE / name / file
        if not check_only:
            path.write_text(json.dumps(made) + "\n")
        elif not equal(made, json.loads(path.read_text())):
            print(f"{name}: {file} differs", file=sys.stderr)
            failures += 1
        print(f"{name}: {describe(made)}")
    return 1 if failures else 0
