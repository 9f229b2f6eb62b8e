#!/usr/bin/env python3
"""Folders of tokenizers whose files say more than tokenizer.json, and the ids of texts, by Transformers' AutoTokenizer.

make_folders.py                                   writes tokenizers/folders.json
make_folders.py --compare TOOL --folders 1000     compares tessera_tokenize with AutoTokenizer on other folders

Needs transformers==5.24.0 and tokenizers==0.23.3. A folder is a family of tokenizers/ with parts of its tokenizer.json
replaced, and the files next to it. Texts are drawn from pieces that added tokens and rules of words cut.
"""

import argparse
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
FOLDER = Path(__file__).resolve().parent / "tokenizers"
NAMES = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token", "image_token"]
TOKENS = ["<m>", "<x>", "the", "<|e|>", "word", "\u00e9!", "<s>", "<pad>", "<|endoftext|>", "a b", "\u2581q"]
PIECES = TOKENS + ["a", "b", " ", "  ", " the", " text", "12", "3.4", "\n", "\u00e9", "\u65e5\u672c", "\U0001F600", "x", "<", "m>", "_",
                   "words", " tokens", "\t", "e\u0301", "reads", "'s"]
BEHAVIORS = ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
LLAMA3 = json.loads((FOLDER / "llama3/tokenizer.json").read_text())["pre_tokenizer"]["pretokenizers"][0]


class Drawer:
    def __init__(self, seed: int):
        self.random = random.Random(seed)

    def one_in(self, count: int) -> bool:
        return self.random.randrange(count) == 0

    def flags(self) -> dict:
        drawn = {name: self.one_in(4) for name in ("single_word", "lstrip", "rstrip", "normalized")}
        return drawn | {"special": not self.one_in(3)}

    def token(self):
        content = self.random.choice(TOKENS)
        return {"__type": "AddedToken", "content": content} | self.flags() if self.one_in(5) else content

    def byte_words(self) -> dict:
        level = {"type": "ByteLevel", "add_prefix_space": self.one_in(4), "trim_offsets": True, "use_regex": not self.one_in(3)}
        split = {"type": "Split", "pattern": self.random.choice([{"String": self.random.choice([" ", "a", "the"])},
                                                                 {"Regex": r"\p{L}+|[.!?]"}, {"Regex": r"\p{N}{1,3}"}]),
                 "behavior": self.random.choice(BEHAVIORS), "invert": self.one_in(3)}
        digits = {"type": "Digits", "individual_digits": self.one_in(2)}
        before = self.random.choice([[], [split], [digits], [split, digits], [digits, LLAMA3]])
        return {"type": "Sequence", "pretokenizers": before + [level]}

    def marks(self) -> dict:
        replace = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
        space = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": self.random.choice(["always", "first", "never"]),
                 "split": self.one_in(2)}
        digits = {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, space]}
        prepend = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, replace]}
        nfc = {"type": "Sequence", "normalizers": [{"type": "NFC"}, replace]}
        normalizer, words = self.random.choice([(prepend, None), (None, space), (replace, None), (nfc, None), (None, digits)])
        return {"normalizer": normalizer, "pre_tokenizer": words}

    def parts(self, family: dict) -> dict:
        vocab = family["model"]["vocab"]
        has_bytes = "\u0120the" in vocab
        parts = {"truncation": None, "padding": None, "post_processor": None, "model": {}} | ({} if has_bytes else self.marks())
        if has_bytes and self.one_in(2):
            parts["pre_tokenizer"] = self.byte_words()
        for flag in ("ignore_merges", "fuse_unk") + (() if has_bytes else ("byte_fallback",)):
            if self.one_in(4):
                parts["model"][flag] = self.one_in(2)
        if not has_bytes:
            parts["model"]["unk_token"] = self.random.choice(["<unk>", None])
        listed, following = [], len(vocab)
        for content in dict.fromkeys(self.random.sample(TOKENS, self.random.randrange(4)) + ["<|endoftext|>"]):
            listed.append({"id": vocab.get(content, following), "content": content} | self.flags())
            following += content not in vocab
        return parts | {"added_tokens": listed}

    def files(self, parts: dict) -> dict:
        listed, last = parts["added_tokens"], 2000
        config = {name: self.token() for name in NAMES if self.one_in(7)} | {name: None for name in NAMES[:-1] if self.one_in(20)}
        classes = ["TokenizersBackend", "LlamaTokenizer", "GPT2TokenizerFast", "Qwen2Tokenizer", "GemmaTokenizer", "OtherTokenizer"]
        config["tokenizer_class"] = self.random.choice(classes) if self.one_in(2) else "PreTrainedTokenizerFast"
        if self.one_in(3):
            config["added_tokens_decoder"] = {
                str(token["id"]): {key: value for key, value in token.items() if key != "id"} | (self.flags() if self.one_in(3) else {})
                for token in listed if not self.one_in(5)} | {
                str(last + i): {"content": content} | self.flags() for i, content in enumerate(self.random.sample(TOKENS, 2))}
        for key in ("additional_special_tokens", "extra_special_tokens"):
            if self.one_in(6):
                config[key] = [self.token() for _ in range(2)]
        for key in ("add_prefix_space", "legacy", "split_special_tokens"):
            if self.one_in(6):
                config[key] = self.one_in(2)
        files = {"tokenizer_config.json": config}
        if self.one_in(2):
            files["config.json"] = {"model_type": self.random.choice(["llama", "gpt2", "qwen2", "qwen3", "mistral", "gemma"])}
        if self.one_in(5):
            files["special_tokens_map.json"] = {
                "pad_token": {"content": self.random.choice(TOKENS), "lstrip": self.one_in(2), "normalized": False},
                "eos_token": self.random.choice(TOKENS), "additional_special_tokens": [self.random.choice(TOKENS)]}
        if self.one_in(5):
            files["added_tokens.json"] = {content: last + i for i, content in enumerate(self.random.sample(TOKENS, 2))}
        return files

    def folder(self) -> dict:
        name = self.random.choice(["gpt2", "qwen2", "smol", "llama2", "gemma"])
        parts = self.parts(json.loads((FOLDER / name / "tokenizer.json").read_text()))
        texts = ["".join(self.random.choice(PIECES) for _ in range(self.random.randrange(1, 14))) for _ in range(10)]
        return {"family": name, "parts": parts, "files": self.files(parts), "texts": texts}


def write(case: dict, folder: Path) -> None:
    contents = json.loads((FOLDER / case["family"] / "tokenizer.json").read_text())
    model = contents["model"] | case["parts"]["model"]
    (folder / "tokenizer.json").write_text(json.dumps(contents | case["parts"] | {"model": model}))
    for name, file in case["files"].items():
        (folder / name).write_text(json.dumps(file))


def ids_by_transformers(folder: Path, texts: list[str]):
    """None where Transformers cannot read the folder."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        return [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    except Exception:  # of the library's own kinds, also those of its Rust side
        return None


def ids_by_tessera(tool: str, folder: Path, texts: list[str]) -> list[list[int]]:
    (folder / "texts").write_bytes(b"".join(struct.pack("<Q", len(text.encode())) + text.encode() for text in texts))
    subprocess.run([tool, folder, folder / "texts", "1", "1", folder / "ids"], check=True, capture_output=True)
    data, at, ids = (folder / "ids").read_bytes(), 0, []
    while at < len(data):
        (count,) = struct.unpack_from("<Q", data, at)
        ids.append(list(struct.unpack_from(f"<{count}i", data, at + 8)))
        at += 8 + 4 * count
    return ids


def compare(tool: str, count: int, seed: int) -> int:
    drawer, wrong, unread = Drawer(seed), 0, 0
    for _ in range(count):
        case = drawer.folder()
        with tempfile.TemporaryDirectory() as name:
            write(case, Path(name))
            theirs = ids_by_transformers(Path(name), case["texts"])
            unread += theirs is None
            if theirs is not None and ids_by_tessera(tool, Path(name), case["texts"]) != theirs:
                wrong += 1
                print(json.dumps(case))
    print(f"{count} folders, of which Transformers does not read {unread}: {wrong} differ")
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", metavar="TOOL", help="tessera_tokenize of a build")
    parser.add_argument("--folders", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.compare:
        return compare(options.compare, options.folders, options.seed)
    drawer, cases = Drawer(0), []
    while len(cases) < 40:
        case = drawer.folder()
        with tempfile.TemporaryDirectory() as name:
            write(case, Path(name))
            case["ids"] = ids_by_transformers(Path(name), case["texts"])
        if case["ids"] is not None:
            cases.append(case)
    text = ",\n".join(json.dumps(case, ensure_ascii=True, separators=(",", ":")) for case in cases)
    (FOLDER / "folders.json").write_text(f"[\n{text}\n]\n", encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
