"""Hugging Face folders to checkpoints and back, and commands that look at checkpoints."""
import importlib.util
import json
import re
import shutil
import struct
import subprocess
import sys
import unittest
from pathlib import Path

import h5py
import numpy as np

from job import REFERENCE, SHORT, TINY, Case, main
from running import logged

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "postprocess"))
import checkpoint as reader  # noqa: E402

KIND = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16, "U8": np.uint8}


def safetensors(path):
    """Tensors of a file by name, parsed by hand; 16-bit ones widened."""
    data = Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        first, end = entry["data_offsets"]
        values = np.frombuffer(data[8 + size + first:8 + size + end], KIND[entry["dtype"]])
        if entry["dtype"] == "BF16":
            values = (values.astype(np.uint32) << 16).view(np.float32)
        tensors[name] = values.astype(np.float32).reshape(entry["shape"])
    return tensors


def types(path):
    """The types of a file's tensors, apart from buffers that older files carry along."""
    data = Path(path).read_bytes()
    header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
    buffers = ("__metadata__", ".attn.bias", ".masked_bias", ".inv_freq")
    return {entry["dtype"] for name, entry in header.items() if not name.endswith(buffers)}


def bare(name):
    return name.removeprefix("transformer.").removeprefix("model.")


class Convert(Case):
    def same_weights(self, a, b):
        b = {bare(name): value for name, value in b.items()}
        for name, value in a.items():
            np.testing.assert_array_equal(value, b[bare(name)], name)

    def test_every_reference_model_comes_back(self):
        for source in sorted(p.parent for p in REFERENCE.glob("*/model.safetensors")):
            with self.subTest(source.name):
                imported, exported = self.folder / f"{source.name}.ckpt", self.folder / source.name
                self.do("import", source, imported)
                self.do("verify", imported)
                self.do("export", imported, exported)
                weights = safetensors(exported / "model.safetensors")
                self.assertEqual(types(exported / "model.safetensors"), types(source / "model.safetensors"))
                self.same_weights(weights, safetensors(source / "model.safetensors"))
                with h5py.File(imported / "tensors.h5") as tensors:  # h5py sees what was exported
                    self.assertEqual(set(tensors["parameter"]), set(weights))
                    for name, value in weights.items():
                        np.testing.assert_array_equal(tensors["parameter"][name][...], value)
                        self.assertFalse(tensors["second_moment"][name][...].any())
                self.do("import", exported, self.folder / "again.ckpt")
                self.do("export", self.folder / "again.ckpt", self.folder / "again")
                for name in ("model.safetensors", "config.json"):
                    self.assertEqual((exported / name).read_bytes(), (self.folder / "again" / name).read_bytes())
                for path in ("again.ckpt", "again"):
                    shutil.rmtree(self.folder / path)

    def test_what_is_exported_gives_transformers_losses(self):
        for source in sorted(p.parent for p in REFERENCE.glob("*/transformers.json")):
            with self.subTest(source.name):
                self.do("import", source, f"{source.name}.ckpt")
                self.do("export", f"{source.name}.ckpt", source.name)
                theirs = json.loads((source / "transformers.json").read_text())["loss"]
                with h5py.File(source / "golden.h5") as golden:
                    sequence = golden.attrs["sequence"]
                # A step a sample, with weights that stay what they are.
                self.train(f"--model.from={source.name}", f"--data.source={source / 'tokens.bin'}", "--data.val_fraction=0",
                           "--data.order=sequential", f"--train.seq_len={sequence}", "--train.micro_batch=1",
                           f"--train.steps={len(theirs)}", "--optim.lr=0", "--optim.min_lr=0", "--metrics.every=1",
                           "--run.threads=1", f"--run.dir=run-{source.name}")
                ours = logged(self.folder / f"run-{source.name}")
                np.testing.assert_allclose([ours[step + 1] for step in range(len(theirs))], theirs, rtol=2e-6)

    def test_types_and_divided_files(self):
        self.do("import", REFERENCE / "clipped", "ckpt")
        exact = safetensors(REFERENCE / "clipped" / "model.safetensors")
        for dtype, bits in (("bf16", 8), ("fp16", 11)):
            said = self.do("export", "ckpt", dtype, f"--export.dtype={dtype}").out
            self.assertRegex(said, f" exported to {dtype} in {dtype}$")
            for name, value in safetensors(self.folder / dtype / "model.safetensors").items():
                np.testing.assert_allclose(value, next(v for n, v in exact.items() if bare(n) == bare(name)),
                                           rtol=2.0 ** -bits, atol=1e-7)
        # The type is that of the weights, not the one that config.json claims.
        source = shutil.copytree(self.folder / "bf16", self.folder / "claims")
        config = json.loads((source / "config.json").read_text())
        (source / "config.json").write_text(json.dumps(config | {"torch_dtype": "float32"}))
        self.train("--model.from=claims", f"--data.source={REFERENCE / 'clipped' / 'tokens.bin'}", "--data.val_fraction=0",
                   "--train.steps=1", "--train.seq_len=16", "--checkpoint.every=1", "--run.dir=run")
        shutil.rmtree(source)
        self.assertRegex(self.do("export", "run", "same").out, " in bf16, the type of the weights that it began from")
        self.assertEqual(types(self.folder / "same" / "model.safetensors"), {"BF16"})
        self.do("export", "ckpt", "many", "--export.largest_file=20KB", "--export.optimizer=true")
        index = json.loads((self.folder / "many" / "model.safetensors.index.json").read_text())["weight_map"]
        self.assertGreater(len(set(index.values())), 2)
        for file in set(index.values()):
            self.same_weights(safetensors(self.folder / "many" / file), exact)
        self.do("import", "many", "from_many")
        self.assertEqual(reader.compare(self.folder / "ckpt", self.folder / "from_many"), 0)
        self.assertEqual(reader.compare(self.folder / "ckpt", self.folder / "many" / "state.h5"), 0)

    def test_model_files_of_llmc_are_refused(self):
        self.do("import", REFERENCE / "clipped", "ckpt")
        job = self.do("export", "ckpt", "model.bin", code=2)
        self.assertRegex(job.err, r"model\.bin would be a model file of llm\.c, which .*\. Name a folder")
        self.assertFalse((self.folder / "model.bin").exists())
        (self.folder / "model.bin").write_bytes(bytes(2048))
        self.assertRegex(self.do("import", "model.bin", "x", code=2).err, r"model\.bin is a file\. Give the folder with config\.json")

    def export_bytes(self):
        (self.folder / "text.txt").write_text("It's a small world, in 256 bytes. Größe: 3 µm\n" * 100)
        self.train(*TINY, "--data.source=text.txt", "--data.val_fraction=0", "--run.dir=run", "--checkpoint.every=3")
        self.do("export", "run", "hf")

    def test_a_model_of_bytes_is_exported_with_their_tokenizer(self):
        self.export_bytes()
        config = json.loads((self.folder / "hf" / "config.json").read_text())
        self.assertEqual((config["bos_token_id"], config["eos_token_id"]), (None, None))
        job = self.train("--model.from=hf", "--data.source=text.txt", "--train.seq_len=32", "--train.micro_batch=2",
                         "--train.steps=2", "--run.dir=tuned", "--run.threads=1", "--checkpoint.every=2")
        self.assertRegex(job.out, r"data +text.txt \(1 text file\)")  # read as it stands, as bytes
        same = [self.do("generate", model, "--generate.max_tokens=8", "--generate.prompt=Größe", "--generate.temperature=0").out
                for model in ("hf", "run")]
        self.assertEqual(*same)
        self.do("export", "tuned", "again")  # its own files go on
        for name in ("tokenizer.json", "tokenizer_config.json"):
            self.assertEqual((self.folder / "again" / name).read_bytes(), (self.folder / "hf" / name).read_bytes())
        self.assertIsNone(json.loads((self.folder / "again" / "config.json").read_text())["eos_token_id"])

    @unittest.skipUnless(importlib.util.find_spec("tokenizers"), "the tokenizers library is not installed")
    def test_the_tokenizers_library_reads_the_tokenizer_of_bytes(self):
        import tokenizers

        self.export_bytes()
        tokenizer = tokenizers.Tokenizer.from_file(str(self.folder / "hf" / "tokenizer.json"))
        text = "".join(map(chr, range(128))) + "It's  Größe, 東京 🙂\r\n"
        self.assertEqual(tokenizer.encode(text).ids, list(text.encode()))
        self.assertEqual(tokenizer.decode(list(text.encode())), text)
        if importlib.util.find_spec("transformers"):
            from transformers import AutoTokenizer

            ours = AutoTokenizer.from_pretrained(self.folder / "hf")
            self.assertEqual(ours(text)["input_ids"], list(text.encode()))
            self.assertEqual((ours.decode(list(text.encode())), ours.eos_token), (text, None))

    def test_a_trained_run_is_inspected_verified_and_exported(self):
        run = [*TINY, *SHORT, "--data.val_fraction=0"]
        self.train(*run, "--run.dir=run", "--checkpoint.every=1", "--checkpoint.keep=0", "--run.dump=3", ranks=2)
        shown = self.do("inspect", "run").out
        self.assertRegex(shown, r"step +3; 3 updates")
        self.assertRegex(shown, r"option +train.micro_batch = 2")
        self.assertRegex(shown, r"transformer.wte.weight +256 x 32")
        self.assertNotRegex(shown, "option +(bench|export|plan)")  # at their defaults
        self.assertNotIn("\\u0000", (self.folder / "run" / "checkpoints" / "step-00000003" / "manifest.json").read_text())
        self.do("verify", "run")
        # A run's folder, or its checkpoint, stands for config.ini.
        planned = [self.do("plan", path, "--plan.ranks=2").out
                   for path in ("run/config.ini", "run", "run/checkpoints/step-00000003")]
        self.assertEqual(planned[0], planned[1])
        self.assertEqual(planned[0], planned[2])
        self.assertEqual(self.do("plan", "run").out,
                         "planned for 2 ranks, as many as run/config.ini had (--plan.ranks=N plans for others)\n\n" + planned[0])
        self.do("export", "run", "hf")
        weights = safetensors(self.folder / "hf" / "model.safetensors")
        with h5py.File(self.folder / "run" / "dump-00000003.h5") as dump:
            for name, value in weights.items():
                np.testing.assert_array_equal(dump["weights"][name][...], value)
        self.assertEqual(reader.compare(self.folder / "run", self.folder / "run" / "dump-00000003.h5"), 0)
        self.assertGreater(reader.compare(self.folder / "run" / "checkpoints" / "step-00000002", self.folder / "run"), 20)
        shard = self.folder / "run" / "checkpoints" / "step-00000003" / "shard-00001.h5"
        shard.write_bytes(shard.read_bytes()[:-3] + b"\x00\x00\x7f")
        self.assertRegex(self.do("verify", "run", code=4).err, "shard-00001.h5 is damaged")
        # Existing files are not overwritten.
        self.assertRegex(self.do("export", "run/checkpoints/step-00000002", "hf", code=2).err, "hf exists")
        self.assertRegex(self.do("verify", "nothing", code=2).err, "does not exist")

    def test_the_command_that_import_names_trains(self):
        for number, source in enumerate((REFERENCE / "clipped", REFERENCE / "llama3")):
            with self.subTest(source.name):
                said = self.do("import", source, f"ckpt{number}").out
                words = re.search(r"tessera (train --checkpoint.resume=\S+) trains it", said)[1].split()
                more = [f"--data.source={source / 'tokens.bin'}", "--data.val_fraction=0", "--train.steps=2",
                        "--train.seq_len=16"]
                job = self.do(*words, *more, f"--run.dir=a{number}", "--checkpoint.every=2")
                self.assertRegex(job.out, "resume +step 0 from")
                # The same as from the folder itself, or with the checkpoint in its place; and config.ini repeats it.
                self.train(f"--model.from={source}", *more, f"--run.dir=b{number}", "--checkpoint.every=2")
                self.train(f"--model.from=ckpt{number}", *more, f"--run.dir=c{number}", "--checkpoint.every=2")
                self.train(f"a{number}/config.ini", f"--run.dir=d{number}")
                for other in "bcd":
                    self.assertEqual(reader.compare(self.folder / f"a{number}", self.folder / f"{other}{number}"), 0)

    def test_exports_keep_what_lay_beside_the_weights(self):
        source = shutil.copytree(REFERENCE / "clipped", self.folder / "source")
        config = json.loads((source / "config.json").read_text())
        config |= {"bos_token_id": 7, "eos_token_id": [9, 3], "resid_pdrop": 0.1, "quantization_config": {"bits": 4}}
        (source / "config.json").write_text(json.dumps(config))
        beside = {"tokenizer.json": b'{"a": "\xc3\xa9"}', "merges.txt": b"#version\n", "generation_config.json": b"{}"}
        for name, text in beside.items():
            (source / name).write_bytes(text)
        self.do("import", source, "ckpt")
        run = [f"--data.source={source / 'tokens.bin'}", "--data.val_fraction=0", "--train.steps=1", "--train.seq_len=16",
               "--checkpoint.every=1"]
        job = self.train(*run, "--model.from=source", "--run.dir=run")
        self.assertRegex(job.out, r"dropout +resid_pdrop = 0.1 of source is not taken.*model.dropout = 0")
        self.train(*run, "--model.from=source", "--model.dropout=0.2", "--run.dir=dropping")
        self.train(*run, "--checkpoint.resume=ckpt", "--run.dir=onward")
        shutil.rmtree(source)
        for origin, dropout in (("ckpt", 0.1), ("run", 0.1), ("dropping", 0.2), ("onward", 0.1)):
            with self.subTest(origin):
                self.do("export", origin, f"{origin}-hf")
                kept = json.loads((self.folder / f"{origin}-hf" / "config.json").read_text())
                self.assertEqual((kept["bos_token_id"], kept["eos_token_id"], kept["resid_pdrop"]), (7, [9, 3], dropout))
                self.assertNotIn("quantization_config", kept)
                for name, text in beside.items():
                    self.assertEqual((self.folder / f"{origin}-hf" / name).read_bytes(), text)

    def test_what_the_tools_say(self):
        tools = Path(__file__).resolve().parents[2] / "postprocess"
        self.do("import", REFERENCE / "clipped", "ckpt")
        for words, says in ((["checkpoint.py", "slice", "ckpt", "transformer.wte.weigh"], "has no parameter/transformer.wte.weigh: transformer.wte.weight"),
                            (["checkpoint.py", "slice", "ckpt", "none/such"], "has no none/such"),
                            (["-S", "checkpoint.py", "list", "ckpt"], "is missing in .*apt-get install python3-h5py")):
            options, script = ([words[0]], words[1:]) if words[0] == "-S" else ([], words)
            done = subprocess.run([sys.executable, *options, tools / script[0], *script[1:]], cwd=self.folder,
                                  stderr=subprocess.PIPE, text=True)
            self.assertNotEqual(done.returncode, 0)
            self.assertNotIn("Traceback", done.stderr)
            self.assertRegex(done.stderr, says)

    def test_bench_checkpoint_beside_a_run(self):
        (self.folder / "runs" / "run").mkdir(parents=True)
        self.do("bench", "checkpoint", *TINY, *SHORT, "--bench.steps=1", "--data.val_fraction=0")
        self.assertEqual([p.name for p in (self.folder / "runs").iterdir()], ["run"])

    def test_what_is_no_checkpoint(self):
        (self.folder / "empty").mkdir()
        for words in (["verify", "empty"], ["inspect", REFERENCE / "clipped"], ["export", "empty", "x"]):
            said = self.do(*words, code=2).err
            self.assertRegex(said, r"is neither a checkpoint nor a run with checkpoints, because it has no manifest\.json\. Name RUN or")
            self.assertNotIn("checkpoint.resume", said)
        for path, says in (("gpt2", "names of the Hugging Face hub are not"), (REFERENCE / "clipped" / "config.json", "is a file")):
            self.assertRegex(self.train(f"--model.from={path}", code=2).err, says)


if __name__ == "__main__":
    main()
