#!/usr/bin/env python3
"""Compares tessera_tokenize with the tokenizers library: tokenizers_peer.py speed|ids --tool BUILD/bin/tessera_tokenize ...

speed   encodes documents of mixed text with both, in turns, and prints MB/s of each round and the ratio of the best
ids     encodes drawn text over all code points that both sides' Unicode versions assign, and compares the ids

Needs the library (pip install tokenizers==0.23.3). Text is drawn from a seed and from files that --text names.
"""

import argparse
import os
import platform
import random
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
os.environ.setdefault("RAYON_NUM_THREADS", "2")  # read when the library starts its threads

import tokenizers  # noqa: E402
from mixed_text import drawn_documents, every_point_documents, read_documents  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402


def open_library(path: Path) -> Tokenizer:
    """The library's tokenizer of a tokenizer.json, or of a folder with GPT-2's two files."""
    if path.is_dir() and not (path / "tokenizer.json").exists():
        from tokenizers import AddedToken, decoders, models, pre_tokenizers

        tokenizer = Tokenizer(models.BPE.from_file(str(path / "vocab.json"), str(path / "merges.txt")))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.add_special_tokens([AddedToken("<|endoftext|>", special=True, normalized=False)])
        return tokenizer
    return Tokenizer.from_file(str(path / "tokenizer.json" if path.is_dir() else path))


def write_documents(documents: list[str], path: Path) -> int:
    """Writes the tool's format; returns the bytes of text."""
    total = 0
    with path.open("wb") as file:
        for document in documents:
            text = document.encode()
            total += len(text)
            file.write(struct.pack("<Q", len(text)) + text)
    return total


def read_ids(path: Path) -> list[tuple[int, ...]]:
    data, at, documents = path.read_bytes(), 0, []
    while at < len(data):
        (count,) = struct.unpack_from("<Q", data, at)
        documents.append(struct.unpack_from(f"<{count}i", data, at + 8))
        at += 8 + 4 * count
    return documents


def run_tool(options: argparse.Namespace, documents: Path, rounds: int, ids: Path | None = None) -> list[float]:
    """Seconds of each round."""
    command = [options.tool, options.tokenizer, documents, options.threads, rounds] + ([ids] if ids else [])
    done = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True)
    return [float(line) for line in done.stdout.split()]


def first_difference(document: str, ours: tuple[int, ...], theirs: list[int], library: Tokenizer) -> str:
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
    near = library.decode(theirs[max(0, at - 5):at + 5], skip_special_tokens=False)
    return f"at id {at}: {ours[at - 3:at + 6]} and {theirs[max(0, at - 3):at + 6]}, near {near!r} of {len(document)} characters"


def compare_ids(options: argparse.Namespace, documents: list[str], library: Tokenizer, folder: Path) -> int:
    size = write_documents(documents, folder / "documents")
    run_tool(options, folder / "documents", 1, folder / "ids")
    ours, count, wrong = read_ids(folder / "ids"), 0, []
    for number, document in enumerate(documents):
        theirs = library.encode(document, add_special_tokens=False).ids
        count += len(theirs)
        if list(ours[number]) != theirs:
            wrong.append(f"document {number} differs {first_difference(document, ours[number], theirs, library)}")
    print(f"{options.tokenizer}: {len(documents)} documents, {size / 1e6:.1f} MB, {count} ids, {len(wrong)} documents differ")
    print("\n".join(wrong[:10]), end="\n" if wrong else "")
    return 1 if wrong else 0


def compare_speed(options: argparse.Namespace, documents: list[str], library: Tokenizer, folder: Path) -> int:
    megabytes = write_documents(documents, folder / "documents") / 1e6
    os.environ["RAYON_NUM_THREADS"] = str(options.threads)
    rates: dict[str, list[float]] = {"tessera": [], "encode_batch": [], "encode_batch_fast": []}
    for _ in range(options.rounds):
        rates["tessera"].append(megabytes / min(run_tool(options, folder / "documents", 3)))
        for name in ("encode_batch", "encode_batch_fast"):
            begin = time.perf_counter()
            getattr(library, name)(documents, add_special_tokens=False)
            rates[name].append(megabytes / (time.perf_counter() - begin))
    print(f"{options.tokenizer}: {len(documents)} documents, {megabytes:.1f} MB, {options.threads} threads, "
          f"tokenizers {tokenizers.__version__}, {platform.processor() or platform.machine()}")
    for name, found in rates.items():
        print(f"  {name:18} {max(found):7.1f} MB/s  (rounds: {', '.join(f'{rate:.1f}' for rate in found)})")
    for name in ("encode_batch", "encode_batch_fast"):
        print(f"  tessera is {max(rates['tessera']) / max(rates[name]):.1f} times {name}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "ids"])
    parser.add_argument("--tool", required=True, help="the built tessera_tokenize")
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json, or a folder with it or with vocab.json and merges.txt")
    parser.add_argument("--text", type=Path, nargs="*", default=[], help="files and folders of text for `speed`, besides drawn text")
    parser.add_argument("--megabytes", type=float, default=12.0, help="of text (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    library = open_library(options.tokenizer)
    random.seed(options.seed)
    special = [token.content for token in library.get_added_tokens_decoder().values()]
    with tempfile.TemporaryDirectory() as name:
        if options.what == "ids":
            documents = drawn_documents(int(options.megabytes * 1e6), special) + every_point_documents()
            return compare_ids(options, documents, library, Path(name))
        documents = read_documents(options.text, int(options.megabytes * 1e6))
        return compare_speed(options, documents, library, Path(name))


if __name__ == "__main__":
    sys.exit(main())
