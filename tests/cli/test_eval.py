"""tessera eval as a user runs it: the losses that training printed, sets with names, multiple choice; and the best checkpoints."""
import json
import re
import tempfile
import threading
from pathlib import Path

import h5py

from job import REFERENCE, TINY, Case, Job, main, status, write_text
from running import checkpoints, logged

MADE = tempfile.TemporaryDirectory(prefix="tessera-cli-eval-")
MAKING = threading.Lock()  # tests run at the same time
SETS = "--data.val_source=near:val,far:far.txt"


def evaluations(run):
    """Steps, and losses by the name of their set; those of the first or only one also as `loss`."""
    with h5py.File(run / "metrics.h5", "r", swmr=True) as file:
        names = {name.removesuffix("/loss"): file["eval"][name][...].tolist()
                 for name in ("loss", "near/loss", "far/loss") if name in file["eval"]}
        return file["eval/step"][...].tolist(), names


def trained_run():
    """A run on bytes with two validation sets and a checkpoint after each evaluation, made once for all tests."""
    folder = Path(MADE.name)
    with MAKING:
        if not (folder / "run").exists():
            write_text(folder / "text", sentences=100)
            write_text(folder / "val", files=2, sentences=40, seed=2)
            (folder / "far.txt").write_text("0123456789 " * 60)
            job = Job(["train", *TINY, "--train.steps=20", "--data.source=text", SETS, "--run.dir=run", "--optim.lr=0.01",
                       "--checkpoint.every=10", "--train.eval_every=10", "--train.eval_batches=7"], ranks=2, cwd=folder)
            assert job.code == 0, job.everything()
            (folder / "run.txt").write_text(job.out)
    return folder


class Eval(Case):
    def setUp(self):
        super().setUp()
        self.made = trained_run()
        self.run_folder = self.made / "run"

    def results(self, model, *arguments, ranks=0, cwd=None):
        """The objects that an evaluation that succeeds prints."""
        job = Job(["eval", model, "--eval.format=json", "--run.threads=1", *arguments], ranks, cwd or self.made)
        self.assertEqual(job.code, 0, job.everything())
        return [json.loads(line) for line in job.out.splitlines()]

    def test_a_checkpoint_gives_what_training_found_at_its_step_on_any_ranks_and_strategy(self):
        steps, losses = evaluations(self.run_folder)
        self.assertEqual(steps, [10, 20])
        for place, step in enumerate(steps):
            checkpoint = self.run_folder / "checkpoints" / f"step-{step:08}"
            expected = [("near", losses["near"][place]), ("far", losses["far"][place])]
            for ranks, strategy in ((0, "zero3"), (2, "zero3"), (3, "zero2"), (2, "ddp")):
                with self.subTest(step=step, ranks=ranks, strategy=strategy):
                    if (step, ranks) == (10, 3):
                        continue
                    found = self.results(checkpoint, f"--shard.strategy={strategy}", ranks=ranks)
                    self.assertEqual([(one["set"], one["loss"]) for one in found], expected)
                    self.assertEqual({one["step"] for one in found}, {step})
                    self.assertEqual({one["tokens"] for one in found}, {7 * 2 * 32})
        self.assertTrue(all(one["tokens_per_second"] > 0 for one in found))

    def test_the_words_are_those_of_training(self):
        job = Job(["eval", self.run_folder, "--run.threads=1"], 2, self.made)
        self.assertEqual(job.code, 0, job.everything())
        said = re.search(r"^step 20: validation loss (near \S+ \(perplexity \S+\)), (far .*)$",
                         (self.made / "run.txt").read_text(), re.M)
        for line, wanted in zip(job.out.splitlines(), said.groups(), strict=True):
            self.assertTrue(line.startswith(f"validation loss {wanted}: 448 tokens (14 of "), line)
        self.assertIn("step 20: zero3 over 2 ranks", job.err)

    def test_other_data_and_all_of_them(self):
        whole, = self.results(self.run_folder, "--data.val_source=far.txt")
        self.assertEqual((whole["set"], whole["windows"], whole["tokens"], whole["left_out"]), ("", 21, 659, 0))
        again, = self.results(self.run_folder, "--data.val_source=far.txt", "--train.eval_batches=0", ranks=2)
        self.assertEqual(again["loss"], whole["loss"])
        job = Job(["eval", self.run_folder, "--data.val_source=far.txt", "--train.eval_batches=100"], cwd=self.made)
        self.assertIn(": 640 tokens (20 of 20 windows of 32; 19 tokens after them left out)", job.out)
        part, = self.results(self.run_folder, "--data.val_fraction=0.5")
        self.assertGreater(part["tokens"], 1000)
        self.assertLess(part["loss"], whole["loss"])  # it was trained on that

    def test_metrics_log_and_status_have_every_set(self):
        steps, losses = evaluations(self.run_folder)
        self.assertEqual(losses["loss"], losses["near"])
        self.assertNotEqual(losses["near"], losses["far"])
        for key, name in (("validation_loss", "near"), ("validation_loss/near", "near"), ("validation_loss/far", "far")):
            self.assertEqual(list(logged(self.run_folder, key).values()), losses[name])
        state = status(self.run_folder)
        self.assertEqual(state["evaluated_step"], 20)
        self.assertEqual(state["validation_loss"], losses["near"][-1])
        self.assertEqual(state["validation_losses"], {name: losses[name][-1] for name in ("near", "far")})
        with h5py.File(self.run_folder / "metrics.h5", "r", swmr=True) as file:
            self.assertEqual(file["eval/far/step"][...].tolist(), steps)

    def test_hugging_face_folders_cost_what_transformers_says(self):
        for name, batch, sequence in (("deep", 6, 29), ("qwen2-tied", 8, 19), ("llama3", 6, 29), ("qwen3", 8, 19)):
            folder = REFERENCE / name
            samples = json.loads((folder / "transformers.json").read_text())["loss"]
            found, = self.results(folder, f"--data.val_source={folder / 'tokens.bin'}", f"--train.seq_len={sequence}",
                                  f"--train.micro_batch={batch}", "--train.eval_batches=4")
            self.assertEqual(found["windows"], len(samples))
            self.assertAlmostEqual(found["loss"], sum(samples) / len(samples), delta=2e-6 * found["loss"])

    def test_multiple_choice_chooses_as_transformers_does(self):
        for name in ("deep", "qwen2-untied"):
            made = json.loads((REFERENCE / name / "choices.json").read_text())
            file = self.folder / "choices.jsonl"
            file.write_text("".join(json.dumps({key: one[key] for key in ("context", "endings", "label")}) + "\n"
                                    for one in made["questions"]))
            lines = {}
            for ranks in (0, 2):
                *answers, total = self.results(REFERENCE / name, f"--eval.choices={file}", "--data.tokenizer=bytes", ranks=ranks)
                for answer, question in zip(answers, made["questions"], strict=True):
                    for cost, expected in zip(answer["losses"], question["costs"], strict=True):
                        self.assertAlmostEqual(cost, expected, delta=2e-6 * expected)
                    self.assertEqual(answer["chosen"], question["costs"].index(min(question["costs"])))
                self.assertEqual(total["accuracy"], made["accuracy"])
                lines[ranks] = answers
            self.assertEqual(lines[0], lines[2])  # the same bits

    def test_a_run_answers_with_its_own_tokenizer(self):
        (self.folder / "q.jsonl").write_text(
            '{"context": "The rank waits.", "endings": ["0101 0101", "The rank sums."], "label": 1}\n'
            '{"ctx": "", "endings": ["a", "b"], "label": "0"}\n')
        job = Job(["eval", self.run_folder, f"--eval.choices={self.folder / 'q.jsonl'}"], 2, self.made)
        self.assertEqual(job.code, 2, job.everything())  # bytes have no end of text
        self.assertRegex(job.errors[0], r"q\.jsonl, line 2: context is empty")
        (self.folder / "q.jsonl").write_text((self.folder / "q.jsonl").read_text().splitlines()[0] + "\n")
        *_, total = self.results(self.run_folder, f"--eval.choices={self.folder / 'q.jsonl'}")
        self.assertEqual((total["questions"], total["right"], total["step"]), (1, 1, 20))

    def test_what_cannot_be_evaluated_is_refused(self):
        folder = REFERENCE / "deep"
        for arguments, says in (([folder], "there is nothing to evaluate"),
                                (["missing", "--data.val_source=a"], "missing does not exist"),
                                ([folder, "--data.val_source=missing"], r"data\.val_source = missing does not work, because there is no such file"),
                                ([folder, "--train.steps=3"], "tessera eval does not read it"),
                                ([folder, "--eval.choices=missing"], "missing")):
            with self.subTest(arguments):
                self.refused("eval", *arguments, says=says)
        (self.folder / "q.jsonl").write_text('{"context": "a", "endings": ["b"], "label": 0}\n')
        self.refused("eval", folder, "--eval.choices=q.jsonl", "--data.tokenizer=bytes", ranks=2,
                     says=r"q\.jsonl, line 1: endings is not a list of two or more")
        self.refused("train", *TINY, "--eval.choices=q.jsonl", says="tessera train does not read it")


class Best(Case):
    """A run that learns its text by heart, so that the loss on another text falls and rises again."""

    RUN = [*TINY, "--data.source=text.txt", "--data.val_source=near:other.txt,far:far.txt", "--train.eval_every=4",
           "--checkpoint.every=4", "--checkpoint.keep=1", "--checkpoint.keep_best=2", "--optim.lr=0.006", "--run.dir=run",
           "--optim.schedule=constant"]

    def setUp(self):
        super().setUp()
        (self.folder / "text.txt").write_text("The shard waits. " * 30)
        (self.folder / "other.txt").write_text("A rank reads the shard that moves. " * 10)
        (self.folder / "far.txt").write_text("0123456789 " * 20)

    def test_the_best_checkpoints_stay_and_are_named(self):
        self.train(*self.RUN, "--train.steps=24", ranks=2)
        # Going on knows the losses of checkpoints that another process wrote.
        self.train(*self.RUN, "--train.steps=48", "--checkpoint.resume=auto", "--checkpoint.async=true", ranks=2)
        run = self.folder / "run"
        losses = logged(run, "validation_loss")
        self.assertEqual(sorted(losses), list(range(4, 49, 4)))
        best = sorted(losses, key=lambda step: (losses[step], step))[:2]
        self.assertLess(max(best), 48, "the loss does not rise again")
        self.assertLess(losses[best[0]], losses[4])
        self.assertEqual(checkpoints(run), [f"step-{step:08}" for step in sorted({*best, 48})])
        listed = self.do("inspect", run)
        self.assertRegex(listed.out, rf"kept +step-{best[0]:08}: validation loss {losses[best[0]]:.4f}, the best\n")
        self.assertEqual(listed.out.count("the best"), 1, listed.out)
        one = self.job("inspect", run / "checkpoints" / f"step-{best[0]:08}")
        self.assertRegex(one.out, rf"evaluated +validation loss near {losses[best[0]]:.4f} .*; the best of 3 evaluated checkpoints")
        found = self.do("eval", run / "checkpoints" / f"step-{best[1]:08}", "--eval.format=json", "--run.threads=1")
        self.assertEqual(json.loads(found.out.splitlines()[0])["loss"], losses[best[1]])

    def test_going_on_with_evaluations_of_other_sequences_is_warned_of(self):
        run = [word for word in self.RUN if "micro_batch" not in word and "steps" not in word]
        run += ["--train.eval_batches=1", "--train.global_batch=4", "--checkpoint.resume=auto"]
        warned = r"warning: evaluations are of 1 sequence now, and were of 2: .*train\.micro_batch = 2 with train\.eval_batches = 1"
        for steps, batch, warns in ((4, 2, False), (8, 2, False), (12, 1, True)):
            said = self.train(*run, f"--train.steps={steps}", f"--train.micro_batch={batch}").out
            self.assertEqual(bool(re.search(warned, said)), warns, said)


if __name__ == "__main__":
    main()
