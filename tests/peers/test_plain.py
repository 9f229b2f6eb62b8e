"""The parts of pytorch_train.py that need no PyTorch: Tessera's first weights, its order of samples, refused options."""
import argparse
import contextlib
import io
import json
import re
import statistics
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[1] / "cli")]

import h5py  # noqa: E402
import numpy as np  # noqa: E402

import compare  # noqa: E402
import draw_gpu  # noqa: E402
from job import Case, main  # noqa: E402
from options import count, read_options  # noqa: E402
from samples import Samples  # noqa: E402
from tessera_random import normals, permutation  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


class FirstWeights(Case):
    def test_every_matrix(self):
        self.train("--model.layers=1", "--model.width=24", "--model.heads=2", "--model.vocab=300", "--model.context=16", "--train.steps=1",
                   "--train.micro_batch=1", "--optim.lr=0", "--run.seed=5000000000", "--run.dump=1", "--run.device=cpu", "--data.synthetic_tokens=2000")
        with h5py.File(self.folder / "runs/run/dump-00000001.h5") as file:
            first = {name: data[:] for name, data in file["weights"].items()}
        names = ["wte.weight", "wpe.weight", *(f"h.0.{name}" for name in (
            "ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias", "attn.c_proj.weight", "attn.c_proj.bias",
            "ln_2.weight", "ln_2.bias", "mlp.c_fc.weight", "mlp.c_fc.bias", "mlp.c_proj.weight", "mlp.c_proj.bias"))]
        for number, name in enumerate(names):
            weights = first[f"transformer.{name}"]
            if weights.ndim == 2:
                deviation = 0.02 / 2**0.5 if name.endswith("c_proj.weight") else 0.02
                made = normals(5000000000, number, weights.size, deviation)
                self.assertTrue(np.array_equal(made, weights.reshape(-1)), name)


class Order(Case):
    def test_a_permutation(self):
        for places in (1, 2, 3, 100, 257):
            found = permutation(places, 5, 2, np.arange(places))
            self.assertEqual(sorted(found.tolist()), list(range(places)))
        self.assertFalse(np.array_equal(permutation(100, 5, 2, np.arange(100)), permutation(100, 5, 3, np.arange(100))))

    def test_samples_go_round(self):
        (self.folder / "tokens.bin").write_bytes(np.arange(43, dtype="<u2").tobytes())
        options = read_options(f"--source {self.folder}/tokens.bin --seq-len 4 --micro-batch 3 --epochs 2.5".split())
        samples = Samples(options)
        self.assertEqual((samples.per_epoch, samples.steps()), (10, 9))  # ceil(2.5 x 10 / 3)
        self.assertEqual(samples.micro_batch(3, 0)[:, 0].tolist(), [36, 0, 4])
        self.assertEqual(samples.micro_batch(0, 0)[1].tolist(), [4, 5, 6, 7, 8])


class Options(Case):
    CASES = [
        ("--strategy ddp --wrap size", "--wrap has no effect with --strategy ddp"),
        ("--strategy fsdp2 --wrap size", "--wrap size is FSDP1's"),
        ("--strategy fsdp1 --compile", "--compile with fsdp1"),
        ("--strategy fsdp1 --min-params 1M", "--min-params has no effect without --wrap size"),
        ("--strategy fsdp1 --prefetch-forward 2", "0 or 1"),
        ("--strategy fsdp2 --limit-all-gathers true", "--limit-all-gathers has no effect with --strategy fsdp2"),
        ("--strategy fsdp1 --reduce-precision bf16", "needs --precision bf16"),
        ("--strategy single --ranks 2", "--strategy single has one rank"),
        ("--steps 2 --epochs 1", "--steps and --epochs: one of them"),
        ("--preset nano --family gpt2", "--preset and --family: one of them"),
        ("--from x --layers 2", "--layers and --from: the folder has the sizes"),
        ("--checkpoint-every 2", "need --run-dir"),
        ("--global-batch 6 --micro-batch 4", "no multiple of 4"),
        ("--epoch 2", "unrecognized arguments: --epoch"),
        ("--steps 1.5", "invalid count value: '1.5'"),
        ("--source nowhere.bin", "--source nowhere.bin: no such file"),
    ]

    def test_what_has_no_effect_or_cannot_be_is_refused(self):
        for words, says in self.CASES:
            with self.subTest(words), contextlib.redirect_stderr(io.StringIO()) as said:
                with self.assertRaises(SystemExit) as end:
                    read_options(["--source", __file__, *words.split()])
                self.assertEqual(end.exception.code, 2)
                self.assertIn(says, said.getvalue())

    def test_defaults_are_those_of_the_strategy(self):
        sharded = read_options(["--source", __file__, "--strategy", "fsdp1", "--min-params", "20K", "--wrap", "size"])
        self.assertEqual((sharded.reduce, sharded.limit_all_gathers, sharded.min_params), ("micro_step", True, 20000))
        self.assertEqual((sharded.reshard_after_forward, sharded.prefetch_backward, sharded.accumulation), (True, 1, 1))
        ddp = read_options(["--source", __file__, "--strategy", "ddp", "--global-batch", "16", "--ranks", "2"])
        self.assertEqual((ddp.reduce, ddp.wrap, ddp.accumulation, ddp.preset), ("step", None, 2, "gpt2-124m"))
        self.assertEqual([count(text) for text in ("500K", "1M", "1e6", "7")], [500_000, 1_000_000, 1_000_000, 7])


class Measurements(Case):
    """The results that compare.py keeps of a GPU, and the picture that draw_gpu.py makes of them."""

    NEWEST = max((ROOT / "docs/measurements").glob("*_h100.json"))

    def test_a_picture_has_the_best_setting_of_pytorch_and_the_native_peers(self):
        models = json.loads(self.NEWEST.read_text())["models"]
        labels = [[label for label, _, _ in draw_gpu.bars_of(model["tokens_per_second"])] for model in models]
        self.assertEqual(labels[0], ["Tessera", "Tessera, deterministic", "PyTorch\n(fsdp2)", "llm.c, deterministic"])
        self.assertEqual(labels[3], ["Tessera", "llmq, bf16", "llmq, fp8"])
        draw_gpu.main(self.NEWEST, self.folder / "gpu.png")
        self.assertTrue((self.folder / "gpu.png").read_bytes().startswith(b"\x89PNG"))
        with self.assertRaises(SystemExit):  # nothing to compare with
            draw_gpu.main(self.NEWEST.with_name("2026-11-23_h200.json"), self.folder / "none.png")

    def test_the_front_page_has_the_newest_rates(self):
        speed = (ROOT / "README.md").read_text().split("## Speed")[1].split("**CPUs.**")[0]
        self.assertIn(f"(docs/measurements/{self.NEWEST.name})", speed)
        shown = [re.findall(r"[\d.]+K", row) for row in re.findall(r"^\| .*\d x 1024.*", speed, re.MULTILINE)]
        bars = [draw_gpu.bars_of(model["tokens_per_second"]) for model in json.loads(self.NEWEST.read_text())["models"]]
        self.assertEqual(shown, [[draw_gpu.thousands(statistics.median(rates)) for _, rates, _ in model] for model in bars if len(model) > 1])

    def test_results_of_another_gpu_are_not_mixed_in(self):
        file = self.folder / "gpu.json"
        args = argparse.Namespace(output=file, preset="nano", micro_batch=1, seq_len=8, tessera="true")
        compare.keep_results(args, {"tessera": [2.0, 4.0]})
        args.preset = "gpt2-124m"
        compare.keep_results(args, {"tessera": [1.0]})
        self.assertEqual([model["preset"] for model in json.loads(file.read_text())["models"]], ["nano", "gpt2-124m"])
        file.write_text(json.dumps({**json.loads(file.read_text()), "gpu": "another one"}))
        with self.assertRaisesRegex(SystemExit, "another one"):
            compare.kept_results(args)


if __name__ == "__main__":
    main(at_once=1)
