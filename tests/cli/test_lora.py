"""Adapters as a user trains them: on a Hugging Face folder, then resume, eval, generate, PEFT's folders and merging."""
import json
import math
import re
import shutil
import struct
from array import array

from hub_folder import REFERENCE, VOCAB, hugging_face_folder, widen
from job import SHORT, TINY, Case, main, write_text
from running import checkpoints, logged

MODULES = {"gpt2": "c_attn,c_fc", "qwen2": "q_proj,v_proj,down_proj"}


def tensors_of(path):
    """Shapes and fp32 numbers of a safetensors file, by name."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    found = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        first, end = entry["data_offsets"]
        assert entry["dtype"] == "F32", entry
        found[name] = entry["shape"], array("f", data[8 + size + first:8 + size + end])
    return found


class Lora(Case):
    def setUp(self):
        super().setUp()
        write_text(self.folder / "text", files=1, sentences=120)

    def base(self, family="qwen2", name="base"):
        return hugging_face_folder(self.folder / name, family)

    def words(self, family="qwen2", run="run"):
        return ["--model.from=base", "--data.source=text", "--data.cache=cache", "--run.threads=1", f"--run.dir={run}",
                "--train.seq_len=16", "--train.micro_batch=1", "--train.global_batch=4", "--lora.rank=4", "--lora.alpha=6",
                f"--lora.targets={MODULES[family]}", "--optim.lr=0.01", "--optim.schedule=constant",
                "--optim.warmup_steps=0", "--metrics.every=1"]

    def loss(self, model, *arguments):
        out = self.do("eval", model, "--data.val_source=text", "--data.cache=cache", "--eval.format=json", "--run.threads=1",
                      "--train.seq_len=16", "--train.eval_batches=3", "--train.micro_batch=2", *arguments).out
        return json.loads(out)["loss"]

    def text(self, model, *arguments):
        return self.do("generate", model, "--generate.prompt=The", "--generate.max_tokens=9", "--generate.temperature=0",
                       "--run.threads=1", *arguments).out

    def test_a_run_of_adapters_is_resumed_evaluated_exported_and_merged(self):
        for family in MODULES:
            with self.subTest(family):
                for name in ("base", "run", "whole", "more", "peft", "merged", "onward"):
                    shutil.rmtree(self.folder / name, ignore_errors=True)
                self.base(family)
                words = self.words(family)
                said = " ".join(self.train(*words, "--train.steps=4", "--checkpoint.every=4", ranks=2).out.split())
                self.assertRegex(said, r"adapters rank 4, alpha 6, on .*; [\d.]+K of [\d.]+K parameters train")
                self.train(*words, "--train.steps=8", "--checkpoint.every=8", "--checkpoint.resume=auto", "--shard.strategy=zero1")
                self.train(*words, "--run.dir=whole", "--train.steps=8", "--checkpoint.every=8", ranks=2)
                self.assertEqual(logged(self.folder / "run"), logged(self.folder / "whole"))
                # Without any options a run goes on with the adapters of the checkpoint.
                said = self.train("--checkpoint.resume=run", "--run.dir=more", "--data.source=text", "--data.cache=cache",
                                  "--train.steps=9", "--run.threads=1").out
                self.assertIn("resume     step 8", said)
                self.assertIn("rank 4, alpha 6", said)
                # An option of adapters alone is of the checkpoint's adapters.
                shutil.rmtree(self.folder / "more")
                again = ["--checkpoint.resume=run", "--run.dir=more", "--data.source=text", "--data.cache=cache", "--train.steps=9",
                         "--run.threads=1"]
                self.assertIn("rank 4, alpha 6, dropout 0.1", self.train(*again, "--lora.dropout=0.1").out)
                self.refused("train", *again, "--lora.alpha=5", run="other", says="alpha 5.*leave out \\[lora\\]")
                # The run is smaller than its base, and knows where that is from any folder.
                manifest = json.loads((self.folder / "run" / "checkpoints" / "step-00000008" / "manifest.json").read_text())
                self.assertEqual(manifest["format"], "tessera adapters")
                self.assertTrue(all(".lora_" in tensor["name"] for tensor in manifest["tensors"]))
                self.assertEqual(manifest["options"]["model.from"], str(self.folder / "base"))
                self.do("verify", "run")
                self.assertIn("adapters   rank 4, alpha 6", self.do("inspect", "run").out)
                self.do("export", "run", "peft")
                self.do("export", "run", "merged", "--export.merged=true", "--export.dtype=fp32")
                self.assertEqual({path.name for path in (self.folder / "peft").iterdir()},
                                 {"adapter_config.json", "adapter_model.safetensors"})
                losses = [self.loss("run"), self.loss("merged"), self.loss("base", "--lora.from=peft"), self.loss("base")]
                self.assertTrue(math.isclose(losses[0], losses[1], rel_tol=1e-5), losses)
                self.assertEqual(losses[0], losses[2])
                self.assertFalse(math.isclose(losses[0], losses[3], rel_tol=1e-3), losses)
                texts = [self.text("run"), self.text("base", "--lora.from=peft"), self.text("merged")]
                self.assertEqual(texts[0], texts[1])
                self.assertEqual(texts[0], texts[2])
                self.check_merged(family)
                # PEFT's folder is a beginning like any other.
                onward = [word for word in words if "lora" not in word] + ["--lora.from=peft", "--run.dir=onward"]
                self.train(*onward, "--train.steps=1", "--checkpoint.every=1", "--optim.lr=1e-9", "--optim.weight_decay=0")
                self.assertTrue(math.isclose(self.loss("onward"), losses[0], rel_tol=1e-5))

    def check_merged(self, family):
        """W + alpha / rank B A, in double."""
        base, merged = (tensors_of(self.folder / name / "model.safetensors") for name in ("base", "merged"))
        base = {name.removeprefix("transformer.").removeprefix("model."): tensor for name, tensor in base.items()}
        merged = {name.removeprefix("transformer.").removeprefix("model."): tensor for name, tensor in merged.items()}
        adapters = {name.removeprefix("base_model.model.").removeprefix("transformer.").removeprefix("model."): tensor
                    for name, tensor in tensors_of(self.folder / "peft" / "adapter_model.safetensors").items()}
        changed = {name.replace("lora_A.weight", "weight") for name in adapters if "lora_A" in name}
        self.assertEqual(len(adapters), 2 * len(changed))
        for name, (shape, values) in merged.items():
            if name not in changed:
                self.assertEqual(values, base[name][1], name)
                continue
            (rank, _), down = adapters[name.replace(".weight", ".lora_A.weight")]
            (out, _), up = adapters[name.replace(".weight", ".lora_B.weight")]
            fan_in = len(down) // rank
            for at in range(0, len(values), 7):
                o, i = (at % out, at // out) if family == "gpt2" else (at // fan_in, at % fan_in)
                added = sum(up[o * rank + r] * down[r * fan_in + i] for r in range(rank)) * 6 / 4
                expected = base[name][1][at] + added
                self.assertTrue(math.isclose(values[at], expected, rel_tol=1e-5, abs_tol=1e-6), (name, at))
        config = json.loads((self.folder / "peft" / "adapter_config.json").read_text())
        self.assertEqual((config["r"], config["lora_alpha"], ",".join(config["target_modules"])), (4, 6, MODULES[family]))

    def test_the_text_model_of_one_that_sees_pictures(self):
        """PEFT finds its modules in a part of the whole model, next to modules of the same names."""
        source, base = REFERENCE / "gemma3", self.folder / "base"
        base.mkdir()
        text = json.loads((source / "config.json").read_text()) | {"vocab_size": VOCAB}
        (base / "config.json").write_text(json.dumps({"model_type": "gemma3", "text_config": text}))
        widen(source / "model.safetensors", base / "model.safetensors", VOCAB)
        words = [*self.words(), "--lora.targets=q_proj,down_proj", "--data.tokenizer=bytes"]
        self.train(*words, "--train.steps=2", "--checkpoint.every=2")
        self.do("export", "run", "peft")
        names = tensors_of(self.folder / "peft" / "adapter_model.safetensors")
        self.assertEqual({name.split(".layers.")[0] for name in names}, {"base_model.model.model.language_model"})
        targets = json.loads((self.folder / "peft" / "adapter_config.json").read_text())["target_modules"]
        for module, is_adapted in (("model.language_model.layers.0.self_attn.q_proj", True), ("model.language_model.layers.0.mlp.up_proj", False),
                                   ("model.vision_tower.encoder.layers.0.self_attn.q_proj", False)):
            self.assertEqual(re.fullmatch(targets, module) is not None, is_adapted)
        losses = [self.loss("run"), self.loss("base", "--lora.from=peft", "--data.tokenizer=bytes")]
        self.assertEqual(*losses)
        # What is trained on the text model alone is of that.
        self.do("export", "run", "merged", "--export.merged=true")
        self.train(*words, "--model.from=merged", "--train.steps=1", "--checkpoint.every=1", "--run.dir=onward")
        self.do("export", "onward", "onward-peft")
        self.assertIn("base_model.model.model.layers.0.", str(list(tensors_of(self.folder / "onward-peft" / "adapter_model.safetensors"))))

    def test_next_to_random_weights_on_synthetic_text(self):
        """They are made again from the seed, on other ranks too."""
        words = [*TINY, *SHORT, "--lora.rank=2", "--train.steps=4", "--train.global_batch=4", "--metrics.every=1", "--checkpoint.every=2"]
        self.train(*words, "--run.dir=run", ranks=2)
        self.train(*words, "--run.dir=on", "--checkpoint.resume=run/checkpoints/step-00000002")
        on = logged(self.folder / "on")
        self.assertEqual(on, {step: loss for step, loss in logged(self.folder / "run").items() if step in on})
        self.assertEqual(list(on), [3, 4])
        self.do("eval", "run", "--run.threads=1")

    def test_what_does_not_fit_is_refused(self):
        self.base()
        words = self.words()
        self.refused("train", *words, "--lora.targets=q_proj,c_attn",
                     says=r'no linear "c_attn" in its blocks. Use all, or some of self_attn.q_proj, self_attn.k_proj')
        self.refused("train", *[w for w in words if "model.from" not in w], "--lora.targets=all",
                     says="lora.rank = 4 has no weights to adapt")
        self.refused("train", "--model.from=base", "--data.source=text", "--lora.alpha=3", says="lora.alpha = '3' has no effect")
        self.refused("train", "--model.from=base", "--data.source=text", "--lora.alpha=3", "--checkpoint.resume=auto",
                     says="lora.alpha has no effect, because neither .* checkpoint.resume = auto finds none")
        self.refused("train", *words, "--lora.from=nothing", says="nothing has no adapter_model.safetensors")
        self.train(*words, "--train.steps=2", "--checkpoint.every=2")
        self.refused("train", *words[1:], "--model.from=run", "--run.dir=other", run="other",
                     says="model.from = run does not work, because it holds adapters")
        self.do("export", "run", "peft")
        self.refused("train", *words, "--lora.from=peft", "--lora.rank=5", "--run.dir=other", run="other",
                     says="lora.rank = 5 does not work, because the adapter in lora.from = peft has 4")
        self.refused("eval", "run", "--lora.from=peft", "--data.val_source=text", run="other",
                     says="lora.from = peft does not work, because .*run has its own adapters. Leave it out")
        self.refused("train", *words, "--model.from=peft", "--run.dir=other", run="other", says="give this folder as lora.from")
        self.refused("train", *words, "--lora.from=peft", "--run.dir=other", "--checkpoint.resume=run", run="other",
                     says="lora.from = peft does not work, because .* has its own adapters")
        self.refused("plan", "--model.from=run", run="other", says="model.from = run does not work, because it holds adapters")
        path = self.folder / "peft" / "adapter_model.safetensors"
        data = bytearray(path.read_bytes())
        data[-4:] = struct.pack("<f", math.nan)
        path.write_bytes(data)
        self.refused("train", *words, "--lora.from=peft", "--run.dir=other", run="other", says="numbers that are not finite")
        self.refused("export", "base", "out", "--export.merged=true", run="out", says="neither a checkpoint nor a run")
        # Other weights under the same name.
        weights = self.folder / "base" / "model.safetensors"
        data = bytearray(weights.read_bytes())
        data[-3] ^= 1
        weights.write_bytes(data)
        for command in (["eval", "run", "--data.val_source=text"], ["export", "run", "out", "--export.merged=true"],
                        ["generate", "run", "--generate.prompt=a", "--generate.max_tokens=3"]):
            self.refused(*command, run="out", says="the adapters belong to other weights than those in .*base")
        self.refused("train", "run/config.ini", "--run.dir=other", run="other", says="lora.base_hash asks for [0-9a-f]{16}")
        job = self.train(*words, "--run.dir=run", "--train.steps=3", "--checkpoint.resume=auto", code=2)
        self.assertRegex(job.err, "belong to other weights than those of model.from")
        shutil.rmtree(self.folder / "base")
        self.refused("generate", "run", "--generate.prompt=a", "--generate.max_tokens=3", run="out",
                     says="belong to the weights in .*base, which is not there")

    def test_plan_says_what_freezing_saves(self):
        words = ["plan", "--model.preset=llama-1b", "--plan.ranks=4", "--train.seq_len=128", "--precision.compute=bf16"]
        with_adapters = json.loads(self.do(*words, "--lora.rank=16", "--plan.format=json").out)
        without = json.loads(self.do(*words, "--plan.format=json").out)
        chosen = [[row for row in plan["strategies"] if row["chosen"]][0] for plan in (with_adapters, without)]
        said = self.do(*words, "--lora.rank=16").out
        self.assertRegex(said, r"adapters: rank 16, alpha 32, on .*; 11.27M of 1.247B parameters train; \d+ bytes per rank")
        saved = int(re.search(r"(\d+) less than where all weights train", said)[1])
        self.assertEqual(with_adapters["adapters"]["saved_by_freezing"], saved)
        self.assertEqual(chosen[1]["to_allocate"] - chosen[0]["to_allocate"], saved)

    def test_folders_of_peft_that_are_not_computed_are_refused_by_key(self):
        self.base()
        self.train(*self.words(), "--train.steps=1", "--checkpoint.every=1")
        self.do("export", "run", "peft")
        path = self.folder / "peft" / "adapter_config.json"
        config = json.loads(path.read_text())
        for change, says in (({"use_dora": True}, "use_dora = true"), ({"peft_type": "IA3"}, "only LoRA is computed"),
                             ({"bias": "lora_only"}, "adapters train no biases"),
                             ({"modules_to_save": ["lm_head"]}, "modules_to_save"), ({"fan_in_fan_out": True}, "fan_in_fan_out"),
                             ({"rank_pattern": {"q_proj": 8}}, "rank_pattern"), ({"alpha_pattern": {"q_proj": 8}}, "alpha_pattern"),
                             ({"init_lora_weights": "pissa"}, "changes the model's own weights"),
                             ({"layers_to_transform": [0]}, "layers_to_transform = [0] does not work"),
                             ({"layer_replication": [[0, 1]]}, "layer_replication"), ({"something_new": 3}, "something_new = 3"),
                             ({"r": 0}, "r = 0"), ({"lora_alpha": "big"}, "lora_alpha"), ({"r": 5}, "does not fit the model")):
            with self.subTest(change):
                path.write_text(json.dumps(config | change))
                self.refused("generate", "base", "--lora.from=peft", "--generate.prompt=a", run="out", says=re.escape(says))
        path.write_text(json.dumps(config | {"use_rslora": True, "lora_dropout": 0.1, "layers_pattern": None, "loftq_config": {}}))
        self.assertTrue(self.text("base", "--lora.from=peft").startswith("The"))
        path.write_text("{")
        self.refused("generate", "base", "--lora.from=peft", "--generate.prompt=a", run="out", says="adapter_config.json")


if __name__ == "__main__":
    main()
