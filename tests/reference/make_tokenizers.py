#!/usr/bin/env python3
"""Makes tests/reference/tokenizers: small vocabularies of each family, and the ids of cases, by the tokenizers library.

make_tokenizers.py writes the files; make_tokenizers.py --check makes the ids again and compares (needs tokenizers==0.23.3)

A family's tokenizer.json is shaped like the published one: GPT-2 (merges as text), Qwen2 (NFC, its pattern), Llama-3 (its
pattern, ignore_merges, tokens that merges do not reach, a template). `added` has added tokens with every flag. `smol` is
SmolLM2's (digits alone, bytes without a token). llama2, mistral and gemma are BPE of SentencePiece: Prepend and Replace,
Metaspace, Replace alone, the last with merges across spaces.
"""

import argparse
import json
import random
import sys
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "tokenizers"
sys.path.insert(0, str(HERE.parent / "peers"))
from mixed_text import drawn_documents  # noqa: E402

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + REST
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + REST
UNREACHED = ["\u0120tokenizer", "\u0120unreached", "ABC", "\u0120\u0120\u0120\u0120\u0120\u0120\u0120"]  # of ignore_merges


def trained(size: int, pre_tokenizer, normalizer=None) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=2, show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator((FOLDER / "training.txt").read_text(encoding="utf-8").splitlines(keepends=True), trainer)
    return tokenizer


def split_by(pattern: str):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def gpt2() -> dict:
    tokenizer = trained(900, pre_tokenizers.ByteLevel(add_prefix_space=False))
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    contents = json.loads(tokenizer.to_str())
    model = contents["model"]
    model["merges"] = [" ".join(pair) for pair in model["merges"]]
    for key in ("type", "byte_fallback", "ignore_merges"):  # younger than GPT-2's file
        del model[key]
    model["continuing_subword_prefix"] = model["end_of_word_suffix"] = ""
    model["vocab"]["<|endoftext|>"] = len(model["vocab"])
    return contents


def qwen2() -> dict:
    tokenizer = trained(1000, split_by(QWEN2), normalizers.NFC())
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken("<tool_call>", normalized=False)])
    return json.loads(tokenizer.to_str())


def llama3() -> dict:
    tokenizer = trained(700, split_by(LLAMA3))
    contents = json.loads(tokenizer.to_str())
    model = contents["model"]
    model["ignore_merges"] = True
    for token in UNREACHED:
        model["vocab"].setdefault(token, len(model["vocab"]))
    tokenizer = Tokenizer.from_str(json.dumps(contents))
    special = ["<|begin_of_text|>", "<|end_of_text|>"] + [f"<|reserved_special_token_{i}|>" for i in range(12)]
    tokenizer.add_special_tokens(special + ["<|eot_id|>"])
    begin = [("<|begin_of_text|>", tokenizer.token_to_id("<|begin_of_text|>"))]
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|> $B:1",
                                      special_tokens=begin)])
    return json.loads(tokenizer.to_str())


def added() -> dict:
    tokenizer = trained(300, pre_tokenizers.ByteLevel(add_prefix_space=True), normalizers.NFC())
    tokenizer.add_tokens([
        AddedToken("<l>", lstrip=True, normalized=False), AddedToken("<r>", rstrip=True, normalized=False),
        AddedToken("<b>", lstrip=True, rstrip=True, normalized=False), AddedToken("word", single_word=True, normalized=False),
        AddedToken("<l><r>", normalized=False), AddedToken("cafe\u0301", normalized=True), AddedToken("Word", normalized=True),
        AddedToken("o\u0308l", single_word=True, lstrip=True, normalized=True), AddedToken("\n\n", rstrip=True, normalized=False)])
    return json.loads(tokenizer.to_str())


def smol() -> dict:
    tokenizer = trained(700, pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                      pre_tokenizers.ByteLevel(add_prefix_space=False)]))
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>"])
    contents = json.loads(tokenizer.to_str())
    vocab = contents["model"]["vocab"]
    symbols = [chr(byte) for byte in (0xC0, 0xC1, 0xF1, 0xF2, 0xF3, *range(0xF5, 0x100))]
    kept = [word for word in sorted(vocab, key=vocab.get) if word not in symbols]
    contents["model"]["vocab"] = {word: i for i, word in enumerate(kept)}
    for token in contents["added_tokens"]:
        token["id"] -= len(vocab) - len(kept)
    return contents


def sentencepiece(across_spaces: bool = False) -> dict:
    """Characters and <0x00> to <0xFF>, with spaces as marks."""
    named = ["<unk>", "<s>", "</s>"]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizers.Split("\u2581", "merged_with_previous" if across_spaces else "merged_with_next")
    trainer = trainers.BpeTrainer(vocab_size=700, show_progress=False, limit_alphabet=70,
                                  special_tokens=named + [f"<0x{byte:02X}>" for byte in range(256)])
    tokenizer.train_from_iterator((FOLDER / "training.txt").read_text(encoding="utf-8").splitlines(keepends=True), trainer)
    contents = json.loads(tokenizer.to_str())
    contents["added_tokens"] = contents["added_tokens"][:3]
    contents["pre_tokenizer"] = None
    replace = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
    contents["decoder"] = {"type": "Sequence", "decoders": [replace, {"type": "ByteFallback"}, {"type": "Fuse"},
                                                            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    start = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    contents["post_processor"] = {"type": "TemplateProcessing", "single": [start, text], "pair": [start, text, text],
                                  "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
    return contents


def llama2() -> dict:
    contents = sentencepiece()
    contents["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, contents["normalizer"]]}
    return contents


def mistral() -> dict:
    contents = sentencepiece()
    contents["normalizer"] = None
    contents["pre_tokenizer"] = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False}
    tokenizer = Tokenizer.from_str(json.dumps(contents))
    tokenizer.add_special_tokens(["[INST]", "<|endoftext|>"])
    return json.loads(tokenizer.to_str())


def gemma() -> dict:
    contents = sentencepiece(across_spaces=True)
    contents["pre_tokenizer"] = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
    return contents


FAMILIES = {"gpt2": gpt2, "qwen2": qwen2, "llama3": llama3, "added": added, "smol": smol, "llama2": llama2, "mistral": mistral,
            "gemma": gemma}


def written_cases() -> list[str]:
    """Cases by hand: texts that are cut or joined, or can be read in two ways."""
    spaces = "".join(map(chr, [9, 10, 11, 12, 13, 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]))
    cases = ["", " ", "a", "\n", "The tokenizer reads text and writes numbers.", " leading", "trailing ", "two  spaces", "three   spaces x",
             "a\nb", "a\n\nb", "a\n \nb", "a \n b", "\r\n\r\n x", "tab\tand\t\ttabs", "   \n   x", "\n\n\n", "x\r\n\r\n", "!\n\n!", "?! \n", "\x00\x01\x1c\x7f",
             spaces, f"a{spaces}b", "a\u3000\n b", "a\u00a0\u00a0b", " \u2009x", "\u200bx\u200b", "\ufeffstart"]
    cases += [f"{before}{what}{after}" for before in ("I", "", "9", "\u00e9") for what in ("'s", "'LL", "'\u017f", "'\u212a", "''re", "'ve'd", "\u2019t")
              for after in ("", "x", " y")]
    cases += ["0", "12", "123", "1234", "1234567", " 42", "3.14159", "1,000,000", "\u00b2\u00b3\u00bd", "\u0663\u0664\u0665\u0666", "x1y22z333", "12\u0663\u0664", "\u2167\u2460"]
    cases += ["e\u0301t\u00e9", "\u00e9", "a\u0323\u0302", "a\u0302\u0323", "\u1100\u1161\u11a8", "\u212b \u2126", "\u0958", "q\u0307\u0323", "\u0301 alone", " \u0301", "1\u0301",
              "\u00fc\u0301", "A\u030a", "\ufb01 \u1e9b\u0323", "\uac00\u11a8"]
    cases += ["\U0001F600\U0001F600", "\U0001F468\u200d\U0001F469\u200d\U0001F467", "\u2764\ufe0f x", "\U0001F1E9\U0001F1EA", "a\U0001F44D\U0001F3FDb", "\u2026\u2014\u201cq\u201d"]
    cases += ["<|endoftext|>", "a<|endoftext|>b", " <|endoftext|> ", "<|endoftext|><|endoftext|>", "<|endoftext|", "<|im_start|>user\nHi<|im_end|>\n", "<tool_call>{}",
              "<|reserved_special_token_1|><|reserved_special_token_11|>", "<|begin_of_text|>Hi<|end_of_text|>", "<<|eot_id|>>", "<|<|eot_id|>"]
    cases += [" tokenizer unreached ABC ABCD", "        x", "       ", "x = 1;\n\n    return x;\n}\n", "\t\tif (a) {\r\n\t}", "<a href=\"b\">&amp;</a>", "snake_case_name camelCaseName"]
    cases += ["a <l> b <r> c <b> d", "\n <l>x", "<r> \u3000 x", "word words Word Words sword word.", "_word word_ \u00e9word", "<l><r> x", "cafe\u0301 caf\u00e9 cafes",
              "\u00f6l o\u0308l  \u00f6l \u00f6lx", "a\n\n\n\n\nb", "a\n\n \n\nb", "word\u0301", "<l>", "  <b>  ", "<b> <b>", "word", " word"]
    return cases


def cases() -> list[str]:
    random.seed(7)
    special = ["<|endoftext|>", "<|im_end|>", "<|reserved_special_token_3|>", "<l>", "<r>", "word"]
    drawn = [text[at:at + 60] for text in drawn_documents(400000, special) for at in range(0, min(len(text), 600), 60)]
    return written_cases() + random.sample(drawn, 60)


def dump(value, path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n", encoding="ascii")


def ids_of(path: Path, texts: list[str]) -> list[list[int]]:
    tokenizer = Tokenizer.from_file(str(path))
    return [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        texts = json.loads((FOLDER / "cases.json").read_text())
        wrong = [name for name in FAMILIES
                 if ids_of(FOLDER / name / "tokenizer.json", texts) != json.loads((FOLDER / name / "ids.json").read_text())]
        print("ids differ: " + ", ".join(wrong) if wrong else f"{len(texts)} cases of {len(FAMILIES)} tokenizers: as they are here")
        return 1 if wrong else 0
    texts = cases()
    dump(texts, FOLDER / "cases.json")
    for name, make in FAMILIES.items():
        dump(make(), FOLDER / name / "tokenizer.json")
        dump(ids_of(FOLDER / name / "tokenizer.json", texts), FOLDER / name / "ids.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
