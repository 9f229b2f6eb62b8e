"""Hugging Face folders that cannot be trained from: each ends with exit code 2 and one message naming file and tensor."""
import json
import shutil
import struct

from job import REFERENCE, Case, main

TRAIN = ["train", "--run.dir=run", "--model.from=model", "--data.synthetic_tokens=2000", "--train.steps=2",
         "--train.micro_batch=1", "--run.threads=1", "--run.timeout=20"]
LARGEST_HEADER = 100_000_000


def read_safetensors(path):
    """(header, data)"""
    raw = path.read_bytes()
    length, = struct.unpack("<Q", raw[:8])
    return json.loads(raw[8:8 + length]), raw[8 + length:]


def write_safetensors(path, header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def without(header, data, name):
    """The file without a tensor, its bytes cut out."""
    first, last = header.pop(name)["data_offsets"]
    for entry in header.values():
        if "data_offsets" in entry and entry["data_offsets"][0] >= last:
            entry["data_offsets"] = [offset - (last - first) for offset in entry["data_offsets"]]
    return header, data[:first] + data[last:]


def with_another(header, data, name, shape=(3, 5)):
    size = 4 * shape[0] * shape[1]
    header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + size]}
    return header, data + bytes(size)


def with_shape(header, data, name, shape):
    header[name]["shape"] = shape
    return header, data


class Weights(Case):
    """Ways in which a weight file is wrong (tests/formats has all of them), against the folder of a good model."""

    def setUp(self):
        super().setUp()
        self.model = self.folder / "model"
        shutil.copytree(REFERENCE / "clipped", self.model)
        self.weights = self.model / "model.safetensors"
        self.header, self.data = read_safetensors(self.weights)
        self.some = next(name for name in self.header if name.endswith("h.1.mlp.c_fc.weight"))

    def refuse(self, says, *words, ranks=0):
        self.refused(*TRAIN, *words, says=says, ranks=ranks)

    def test_the_good_model_trains(self):
        self.train(*TRAIN[1:])

    def test_changed_files(self):
        fc = r"h\.1\.mlp\.c_fc\.weight"
        changes = {
            "missing": (lambda h, d: without(h, d, self.some), rf"model has no tensor .*{fc}, which this model needs"),
            "orders": (lambda h, d: with_another(h, d, "\x1b]0;x\x07more\n"), r"tensor \?\]0;x\?more\? that this model does not have"),
            "transposed": (lambda h, d: with_shape(h, d, self.some, [96, 24]), rf"tensor .*{fc} .*has shape \[96, 24\], but this model needs \[24, 96\]"),
            "cut": (lambda h, d: (h, d[:-100]), r"model\.safetensors is not a proper safetensors file, .*cut short"),
        }
        for name, (change, says) in changes.items():
            header, data = change(json.loads(json.dumps(self.header)), self.data)
            write_safetensors(self.weights, header, data)
            with self.subTest(name):
                self.refuse(says)
            if name in ("missing", "transposed"):
                with self.subTest(name, ranks=2):
                    self.refuse(says, ranks=2)

    def test_a_corrupt_header(self):
        good = self.weights.read_bytes()
        self.weights.write_bytes(struct.pack("<Q", LARGEST_HEADER + 1) + good[8:])
        self.refuse(r"model/model\.safetensors", ranks=2)

    def test_missing_files(self):
        self.weights.unlink()
        self.refuse(r"model has no model\.safetensors\. Complete the download")
        (self.model / "pytorch_model.bin").write_bytes(b"")
        self.refuse(r"because pytorch_model\.bin holds weights in PyTorch's own format\. Load it")
        (self.model / "config.json").unlink()
        self.refuse(r"model has no config\.json")
        shutil.rmtree(self.model)
        self.refuse(r"model")
        self.refuse(r"model", ranks=2)

    def test_config(self):
        config = json.loads((self.model / "config.json").read_text())
        for changes, says in (
                ({"model_type": "\x1b[31mred\x9b"}, r"config\.json: model_type = \?\[31mred\? is not supported"),
                ({"n_layer": 3}, r"has no tensor .*h\.2\."),
                ({"vocab_size": 62}, r"wte\.weight .*has shape \[61, 24\], but this model needs \[62, 24\]")):
            (self.model / "config.json").write_text(json.dumps(config | changes))
            with self.subTest(changes):
                self.refuse(says)
        (self.model / "config.json").write_text("{")
        self.refuse(r"config\.json")


class Families(Case):
    """Families, and settings in which they leave no choice."""

    def test_llama_and_qwen(self):
        sizes = ["--model.layers=2", "--model.heads=4", "--model.width=32", "--model.vocab=256", "--model.context=32"]
        self.refused("train", "--run.dir=run", "--model.family=llama", *sizes, "--model.dropout=0.1", ranks=2,
                     says=r"model\.dropout = 0\.1 does not work, because llama has no dropout\.")
        self.refused("train", "--run.dir=run", "--model.family=qwen2", *sizes, "--model.kv_heads=3",
                     says=r"model\.kv_heads = 3 .*divisor")
        self.refused("train", "--run.dir=run", "--model.family=qwen2", *sizes, "--model.width=36", says=r"even head width")


if __name__ == "__main__":
    main()
