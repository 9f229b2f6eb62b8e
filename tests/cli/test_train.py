"""Training from the command line: the files that a run leaves, that it repeats, and that strategies and ranks do not show."""
import configparser
import json
import os
import re
from unittest import mock

import h5py
import numpy as np

from job import REFERENCE, SHORT, TINY, Case, main, said_once, status, write_text
from running import logged

KINDS = ["all_gather", "reduce_scatter", "all_reduce", "broadcast", "exchange"]
STEPS = 40
RUN = TINY + [f"--train.steps={STEPS}", "--train.eval_every=10", "--optim.lr=0.01", "--data.source=text"]


def curves(run):
    """loss, grad_norm and evaluations of a run."""
    with h5py.File(run / "metrics.h5", "r", swmr=True) as file:
        return [file[name][...] for name in ("steps/loss", "steps/grad_norm", "eval/loss")]


class Files(Case):
    """One run of two ranks, and everything that it left."""

    def setUp(self):
        super().setUp()
        write_text(self.folder / "text")
        self.done = self.train(*RUN, "--shard.strategy=zero3", "--run.dir=run", "--run.dump=5", ranks=2)
        self.run_folder = self.folder / "run"

    def test_everything_that_a_run_leaves(self):
        self.assertEqual({p.name for p in self.run_folder.iterdir()},
                         {"config.ini", "dump-00000005.h5", "flight", "log.jsonl", "metrics.h5", "status.json"})
        with h5py.File(self.run_folder / "metrics.h5", "r", swmr=True) as file:
            self.check_steps(file)
            self.check_communication(file)
            self.check_descriptions(file)
        self.check_log()
        self.check_status()
        self.check_dump()
        self.check_words()

    def check_steps(self, file):
        steps = {name: data[...] for name, data in file["steps"].items() if isinstance(data, h5py.Dataset)}
        self.assertEqual(set(steps), {"step", "skipped", "timed", "loss", "grad_norm", "lr", "seconds", "unix_time", "tokens_per_second"})
        self.assertEqual({len(values) for values in steps.values()}, {STEPS})
        self.assertEqual({len(values) for values in file["steps/time"].values()}, {STEPS})
        self.assertEqual((steps["step"].dtype, steps["skipped"].dtype), (np.int64, np.int64))
        self.assertFalse(steps["skipped"].any())
        np.testing.assert_array_equal(steps["step"], np.arange(1, STEPS + 1))
        self.assertTrue(all(np.isfinite(values).all() for values in steps.values()))
        self.assertLess(steps["loss"][-5:].mean(), steps["loss"][:5].mean() - 1)
        self.assertTrue((np.diff(steps["lr"]) <= 0).all() and steps["lr"][0] <= 0.01)  # cosine without warm-up
        self.assertTrue((np.diff(steps["unix_time"]) >= 0).all() and (steps["seconds"] > 0).all())
        tokens = 2 * 2 * 32  # ranks, micro-batch, sequence
        np.testing.assert_allclose(steps["tokens_per_second"] * steps["seconds"], tokens, rtol=1e-9)
        np.testing.assert_array_equal(file["eval/step"][...], [10, 20, 30, 40])
        self.assertLess(file["eval/loss"][-1], file["eval/loss"][0])

    def check_communication(self, file):
        self.assertEqual(set(file["comm"]), set(KINDS))
        for kind in KINDS:
            self.assertEqual({name: len(data) for name, data in file["comm"][kind].items()},
                             {"calls": STEPS, "bytes": STEPS, "seconds": STEPS})
        moved = {kind: file[f"comm/{kind}/bytes"][...] for kind in KINDS}
        for kind in ("all_gather", "reduce_scatter"):  # zero3 gathers for forward and for backward, and scatters once
            self.assertTrue((moved[kind] == moved[kind][0]).all() and moved[kind][0] > 0, moved)
        self.assertGreater(moved["all_gather"][0], moved["reduce_scatter"][0])
        self.assertTrue((file["comm/all_reduce/calls"][...] == 1).all())  # loss, norm and flags together

    def check_descriptions(self, file):
        for category, data in file["memory"].items():
            self.assertEqual(data["planned"].shape, (2,), category)
            self.assertEqual("measured" in data, category == "process", category)
            self.assertTrue((data["planned"][...] >= 0).all(), category)
        self.assertEqual(file["memory/process/measured"].shape, (2,))
        self.assertTrue((file["memory/process/measured"][...] > 0).all())
        config = file["config"].attrs
        self.assertEqual((config["shard.strategy"], config["train.steps"], config["data.source"]),
                         ("zero3", str(STEPS), "text"))
        provenance = file["provenance"].attrs
        self.assertIn("--shard.strategy=zero3", provenance["command_line"])
        for name in ("version", "git_revision", "hosts", "mpi_version", "hdf5_version", "start_time"):
            self.assertTrue(provenance[name], name)
        self.assertTrue(0 < provenance["seconds_to_first_step"] < 30)

    def check_log(self):
        lines = [json.loads(line) for line in (self.run_folder / "log.jsonl").read_text().splitlines()]
        steps = {line["step"]: line for line in lines if "loss" in line}
        self.assertEqual(list(steps), [1, 10, 20, 30, 40])
        loss = curves(self.run_folder)[0]
        for step, line in steps.items():
            self.assertEqual(line["loss"], loss[step - 1])
        self.assertEqual([line["step"] for line in lines if "validation_loss" in line], [10, 20, 30, 40])

    def check_status(self):
        said = status(self.run_folder)
        self.assertEqual((said["state"], said["step"], said["steps"], said["code"]), ("finished", STEPS, STEPS, 0))

    def check_dump(self):
        loss, norm, _ = curves(self.run_folder)
        with h5py.File(self.run_folder / "dump-00000005.h5", "r") as file:
            self.assertEqual(set(file["gradients"]), set(file["weights"]))
            self.assertEqual((file.attrs["step"], file.attrs["loss"], file.attrs["grad_norm"]), (5, loss[4], norm[4]))
            square = sum(float((data[...].astype(np.float64) ** 2).sum()) for data in file["gradients"].values())
            self.assertAlmostEqual(square ** 0.5 / norm[4], 1, places=6)

    def check_words(self):
        for word in ("model ", "grid ", "strategy ", "memory ", "batch ", "data ", "done ", "written "):
            self.assertTrue(said_once(self.done.out, f"(?m)^{word}"), self.done.everything())
        self.assertEqual(self.done.err, "")

    def test_config_repeats_the_run(self):
        self.train("run/config.ini", "--run.dir=again", ranks=2)
        for first, second in zip(curves(self.run_folder), curves(self.folder / "again")):
            np.testing.assert_array_equal(first, second)
        again = (self.folder / "again" / "config.ini").read_text()
        self.assertEqual(again.replace("dir = again", "dir = run"), (self.run_folder / "config.ini").read_text())

    def test_config_says_what_was_used(self):
        written = configparser.ConfigParser(interpolation=None)
        written.read(self.run_folder / "config.ini")
        self.assertEqual({name: written["run"][name] for name in ("device", "threads")}, {"device": "cpu", "threads": "1"})
        self.assertIn(written["run"]["queues"], ("serial", "parallel"))
        self.assertIn(written["run"]["dir"], ("", '""'))
        sizes = {"layers": "2", "heads": "2", "kv_heads": "2", "width": "32", "ffn_width": "128", "vocab": "256", "context": "32"}
        self.assertEqual({name: written["model"][name] for name in sizes}, sizes)
        self.assertEqual((written["train"]["seq_len"], written["shard"]["reduce"]), ("32", "micro_step"))
        self.train(*SHORT, *(word for word in TINY if "threads" not in word), "--shard.strategy=hsdp", "--run.dir=all")
        written.read(self.folder / "all" / "config.ini")
        self.assertEqual(written["run"]["threads"], str(len(os.sched_getaffinity(0))))
        self.assertEqual(written["shard"]["group_size"], "1")
        with h5py.File(self.folder / "all" / "metrics.h5", "r", swmr=True) as file:
            self.assertEqual(file["config"].attrs["run.threads"], written["run"]["threads"])

    def test_other_strategies_and_worlds_give_the_same_bits(self):
        for ranks, strategy, options in ((0, "ddp", ["--train.accumulation=2"]), (1, "zero2", ["--train.global_batch=4"]),
                                         (2, "hsdp", ["--grid.ranks_per_node=1", "--memory.checkpoint=block"])):
            with self.subTest(strategy=strategy, ranks=ranks):
                name = f"{strategy}-{ranks}"
                self.train(*RUN, f"--shard.strategy={strategy}", f"--run.dir={name}", "--run.dump=5", *options, ranks=ranks)
                for first, second in zip(curves(self.run_folder), curves(self.folder / name)):
                    np.testing.assert_array_equal(first, second)
                self.compare_dumps(self.run_folder / "dump-00000005.h5", self.folder / name / "dump-00000005.h5")

    def compare_dumps(self, first, second):
        with h5py.File(first, "r") as a, h5py.File(second, "r") as b:
            for group in ("gradients", "weights"):
                self.assertEqual(set(a[group]), set(b[group]))
                for name in a[group]:
                    self.assertEqual(a[group][name][...].tobytes(), b[group][name][...].tobytes(), f"{group}/{name}")


class Starts(Case):
    """From what a run starts."""

    def test_hugging_face_folders_give_the_reference_curves(self):
        for name in ("clipped", "deep", "shallow", "qwen2-tied", "qwen2-untied", "llama3", "qwen3", "mistral", "gemma3",
       "gemma3-scaled", "llama-biases", "qwen2-windows"):
            folder = REFERENCE / name
            with h5py.File(folder / "golden.h5", "r") as golden, self.subTest(name):
                a = golden.attrs
                self.train(f"--model.from={folder}", f"--data.source={folder / 'tokens.bin'}", "--data.order=sequential",
                           "--data.val_fraction=0", "--optim.schedule=constant", f"--train.seq_len={int(a['sequence'])}",
                           f"--train.steps={int(a['steps'])}", f"--train.micro_batch={int(a['batch']) // 2}",
                           f"--run.dir={name}", *(f"--optim.{key}={float(a[key])!r}" for key in
                           ("lr", "beta1", "beta2", "eps", "weight_decay", "clip")), ranks=2)
                loss, norm, _ = curves(self.folder / name)
                np.testing.assert_allclose(loss, golden["loss"][...], rtol=2e-6)
                np.testing.assert_allclose(norm, golden["grad_norm"][...], rtol=2e-5)

    def test_the_default_folder_and_an_ini_file(self):
        (self.folder / "small.ini").write_text("# small\n[run]\nname = first ; a comment\n[train]\nsteps = 7\n")
        tiny = [word for word in TINY if not word.startswith("--train.steps")]
        self.train("small.ini", *tiny)
        self.assertEqual(status(self.folder / "runs" / "first")["step"], 7)
        self.train("small.ini", *TINY, "--run.name=second", "--train.steps", "2")
        self.assertEqual(status(self.folder / "runs" / "second")["step"], 2)

    def test_one_step_with_the_defaults_trains(self):
        self.train(*TINY, *SHORT, "--run.dir=one", "--train.steps=1")
        self.train(*TINY, *SHORT, "--run.dir=still", "--train.steps=1", "--optim.lr=0")
        loss = {}
        for name in ("one", "still"):
            with h5py.File(self.folder / name / "metrics.h5", "r", swmr=True) as file:
                loss[name] = file["eval/loss"][-1]
        self.assertNotEqual(loss["one"], loss["still"])

    def test_a_config_with_a_global_batch_repeats_the_run_on_other_ranks(self):
        self.train(*TINY, *SHORT, "--run.dir=run", "--train.global_batch=8", "--checkpoint.every=2",
                   "--optim.schedule=constant", ranks=2)
        losses = logged(self.folder / "run")
        for ranks in (1, 4):
            self.train("run/config.ini", f"--run.dir=run-{ranks}", ranks=ranks)
            self.assertEqual(logged(self.folder / f"run-{ranks}"), losses)
        self.train("run/config.ini", "--run.dir=run-1", "--checkpoint.resume=auto", "--train.steps=6", ranks=4)
        self.train("run/config.ini", "--run.dir=six", "--train.steps=6")
        self.assertEqual(logged(self.folder / "run-1")[6], logged(self.folder / "six")[6])
        self.refused("train", "run/config.ini", "--run.dir=three", ranks=3, run="three",
                     says=r"train\.global_batch = 8 is not a multiple of the 6 samples that 3 ranks with train\.micro_batch = 2 run at a time\. Use 6 or 12")

    def test_a_warm_up_that_reaches_into_the_decay_of_epochs(self):
        tiny = [word for word in TINY if not word.startswith("--train.steps")]
        self.refused("train", *tiny, "--run.dir=run", "--data.synthetic_tokens=641", "--data.val_fraction=0", "--train.epochs=1",
                     "--optim.schedule=wsd", "--optim.decay_fraction=0.5", "--optim.warmup_steps=6",
                     says=r"optim\.warmup_steps = 6 reaches into the decay.* of 10 steps \(train\.epochs = 1\)\. Use 0 to 5")

    def test_epochs_decide_how_long(self):
        tiny = [word for word in TINY if not word.startswith("--train.steps")]
        self.train(*tiny, *SHORT, "--run.dir=run", "--train.epochs=0.5", "--data.val_fraction=0")
        samples = (5000 - 1) // 32
        self.assertAlmostEqual(status(self.folder / "run")["step"], 0.5 * samples / 2, delta=1)
        with h5py.File(self.folder / "run" / "metrics.h5", "r", swmr=True) as file:
            self.assertEqual(len(file["eval/step"]), 0)

    def test_tokens_decide_how_long_and_the_end_names_what_is_next(self):
        tiny = [word for word in TINY if not word.startswith("--train.steps")]
        job = self.train(*tiny, *SHORT, "--train.tokens=1000", "--run.dir=run", ranks=2)
        self.assertEqual(max(logged(self.folder / "run")), 8)  # of 2 x 2 x 32 tokens
        start, end = re.split(r"(?ms)^step .*?(?=^done )", job.out)
        self.assertLessEqual(max(map(len, start.splitlines())), 80, start)
        self.assertLess(max(len(line) for line in job.out.splitlines() if re.match(r"step +\d+/", line)), 80)
        self.assertNotIn("run/checkpoints", end)
        self.assertRegex(end, r"\nnext       tessera-report run\n$")
        job = self.train("run/config.ini", "--run.dir=more", "--train.steps=2", "--checkpoint.every=2")
        self.assertRegex(job.out, r"\nwritten .*more/checkpoints\nnext       tessera generate more --generate.prompt=TEXT\n")

    def test_weights_or_a_job_without_data_are_refused(self):
        self.train(*TINY, *SHORT, "--run.dir=base", "--checkpoint.every=3")
        self.refused("train", "--model.from=base", ranks=2, says=r"model\.from = base does not work, because nothing names the text")
        with mock.patch.dict(os.environ, TESSERA_JOB_SCRIPT="train"):
            self.refused("train", *TINY, ranks=2, says=r"this job does not name the text to train on")
            self.train(*TINY, *SHORT, "--run.dir=named")
        self.train("--model.from=base", "--data.source=synthetic", "--train.steps=1", "--run.dir=tuned")

    def test_recomputation_changes_no_bit_and_fit_takes_what_fits(self):
        write_text(self.folder / "text")
        sizes = [*TINY, "--train.micro_batch=8", "--model.layers=4"]
        shape = [option for option in sizes if option.startswith(("--model.", "--train.micro_batch"))]
        rows = json.loads(self.job("plan", *shape, "--plan.format=json", "--plan.ranks=1").out)["recomputations"]
        needs = {row["recomputation"]: row["to_allocate"] for row in rows}
        self.assertEqual(list(needs), ["none", "attention", "mlp", "block"])
        limit = (needs["none"] + needs["mlp"]) // 2
        choices = {"none": [],
                   "attention of blocks 0,2": ["--memory.checkpoint=selective", "--memory.checkpoint_parts=attention",
                                               "--memory.checkpoint_blocks=0,2", "--memory.offload_activations=true"],
                   r"\w+ of [123]/4 of the blocks": ["--memory.checkpoint=fit", f"--plan.memory={limit}"]}
        losses = set()
        for number, (name, options) in enumerate(choices.items()):
            done = self.train(*sizes, "--train.steps=2", "--data.source=text", f"--run.dir={number}", *options)
            self.assertRegex(done.out, f"checkpoint {name}, compute")
            losses.add(curves(self.folder / str(number))[0].tobytes())
        self.assertEqual(len(losses), 1)
        config = (self.folder / "2" / "config.ini").read_text()  # the choices of fit, so that it repeats the run
        self.assertRegex(config, r"(?m)^checkpoint = selective$")
        self.assertRegex(config, r"(?m)^checkpoint_blocks = [123]/4$")
        self.refused("train", *sizes, "--data.source=text", "--memory.checkpoint=fit", "--plan.memory=100kB",
                     code=6, says=r"plan\.memory = 100 kB is too little, so the run does not fit in it\. The run needs")

    def test_skipped_steps_are_said_and_written(self):
        tiny = [word for word in TINY if not word.startswith("--train.steps")]
        job = self.train(*tiny, *SHORT, "--run.dir=run", "--train.steps=6", "--precision.compute=fp16",
                         "--precision.reduce=fp16", "--optim.lr=1", "--optim.clip=0")  # gradients overflow in fp16
        with h5py.File(self.folder / "run" / "metrics.h5", "r", swmr=True) as file:
            skipped = file["steps/step"][...][file["steps/skipped"][...] == 1]
        self.assertEqual([int(step) for step in re.findall(r"step (\d+): skipped", job.out)], skipped.tolist())
        self.assertEqual(re.findall(r"(\d+) steps skipped", job.out), [str(len(skipped))])
        self.assertGreater(len(skipped), 0)

    def test_an_overflow_of_fp16_names_the_type_that_has_the_range(self):
        job = self.train(*TINY, *SHORT, "--run.dir=run", "--precision.compute=fp16", "--optim.lr=1e6", "--optim.clip=0",
                         code=3)
        self.assertRegex(job.everything(), r"numerical failure\)\. Try precision\.compute = bf16")


if __name__ == "__main__":
    main()
