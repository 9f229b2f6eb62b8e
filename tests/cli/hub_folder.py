"""Small Hugging Face folders with weights and a tokenizer, as from the hub: of the models and tokenizers in tests/reference,
whose vocabularies differ."""
import json
import shutil
import struct
from pathlib import Path

REFERENCE = Path(__file__).resolve().parents[1] / "reference"
VOCAB = 720  # as many ids as the largest of the small tokenizers has, and a few more
FAMILIES = {"gpt2": "clipped", "qwen2": "qwen2-tied", "llama3": "llama3"}  # tokenizer: model
END_OF_TEXT = {"gpt2": 710, "qwen2": 713, "llama3": 705}


def widen(source: Path, target: Path, rows: int) -> None:
    """Copies model.safetensors with tables of `rows` rows: those of the source, again and again."""
    data = source.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    tables, body = {}, b""
    vocab = json.loads((source.parent / "config.json").read_text())["vocab_size"]
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        first, end = entry["data_offsets"]
        values, shape = data[8 + size + first:8 + size + end], entry["shape"]
        if shape[0] == vocab:
            values, shape = (values * (rows // vocab + 1))[:len(values) // vocab * rows], [rows, *shape[1:]]
        tables[name] = entry | {"shape": shape, "data_offsets": [len(body), len(body) + len(values)]}
        body += values
    header = json.dumps(tables).encode()
    target.write_bytes(struct.pack("<Q", len(header)) + header + body)


def hugging_face_folder(folder: Path, family: str, tokenizer: bool = True) -> Path:
    """A small model of a family with a tokenizer of it, as from the hub."""
    source = REFERENCE / FAMILIES[family]
    folder.mkdir()
    config = json.loads((source / "config.json").read_text())
    config |= {"vocab_size": VOCAB, "eos_token_id": END_OF_TEXT[family], "bos_token_id": END_OF_TEXT[family]}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": END_OF_TEXT[family]}))
    widen(source / "model.safetensors", folder / "model.safetensors", VOCAB)
    if tokenizer:
        shutil.copy(REFERENCE / "tokenizers" / family / "tokenizer.json", folder)
        (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 64}))
        (folder / "special_tokens_map.json").write_text("{}")
    return folder
