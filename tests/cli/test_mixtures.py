"""Mixtures of sources: the same losses on any number of ranks, epochs for each source, and what is refused."""
import json

from job import TINY, Case, main
from running import history, logged

MIXTURE = "--data.source=chats:0.7:chats,code:0.3:code.txt"


class Mixtures(Case):
    """data.source = NAME:WEIGHT:PATH,NAME:WEIGHT:PATH."""

    def setUp(self):
        super().setUp()
        (self.folder / "chats").mkdir()
        (self.folder / "chats" / "a.jsonl").write_text("".join(
            json.dumps({"prompt": f"{a} and {a + 1} make", "completion": f" {2 * a + 1}."}) + "\n" for a in range(400)))
        (self.folder / "code.txt").write_text("while gather reduce shard " * 600)
        self.weights = [*TINY, "--metrics.every=1", "--checkpoint.every=3", "--train.global_batch=8",
                        "--optim.schedule=constant"]

    def run_of(self, name, *arguments, ranks=0, steps=6):
        return self.train(*self.weights, f"--train.steps={steps}", f"--run.dir={name}", *arguments, ranks=ranks)

    def source_losses(self, name):
        """(source, loss, targets) of each source, by step; of a step that was done again, the last."""
        found = {}
        for source in ("chats", "code"):
            rows = [history(self.folder / name, "steps", f"sources/{source}/{column}") for column in ("loss", "targets")]
            for (step, loss), (_, targets) in zip(*map(dict.items, map(dict, rows))):
                found.setdefault(step, []).append((source, loss, targets))
        return found

    def test_the_same_on_any_ranks_and_resumed(self):
        job = self.run_of("one", MIXTURE)
        said = " ".join(job.out.split())
        self.assertIn("data.source draws chats 70%, code 30% of the tokens", said)
        self.assertRegex(said, r"6 steps = chats 0\.\d\d epochs, code 0\.\d\d epochs evaluation")
        self.assertRegex(job.out, r"(?m)^done .* loss \S+, chats 0\.\d\d epochs, code 0\.\d\d epochs, "
                                  r"validation loss chats \S+ \(perplexity \S+\), code ")
        losses, of_sources = logged(self.folder / "one"), self.source_losses("one")
        for step, loss in losses.items():
            total = sum(targets for _, _, targets in of_sources[step])
            self.assertAlmostEqual(sum(mean * targets for _, mean, targets in of_sources[step]) / total, loss, delta=1e-14 * loss)
            self.assertEqual(logged(self.folder / "one", "loss/chats")[step], of_sources[step][0][1])
        self.run_of("two", MIXTURE, "--shard.strategy=zero2", "--run.check_every=1", "--run.replay_every=1", ranks=2,
                    steps=3)
        self.refused("train", *self.weights, "--run.dir=two", "--checkpoint.resume=auto", "--data.source=chats:0.6:chats,"
                     "code:0.4:code.txt", says=r"made with another corpus .* Give --data\.source=chats:0\.7:chats,code:0\.3:code\.txt")
        self.run_of("two", MIXTURE, "--checkpoint.resume=auto", ranks=4)
        self.assertEqual(logged(self.folder / "two"), losses)
        self.assertEqual(self.source_losses("two"), of_sources)
        self.run_of("two", "--data.source=code.txt", "--checkpoint.resume=auto",
                    "--checkpoint.allow=data", steps=7)
        job = self.job("eval", "one", "--eval.format=json")
        self.assertEqual([json.loads(line)["set"] for line in job.out.splitlines() if line.startswith("{")],
                         ["chats", "code"], job.everything())

    def test_packed_sources_go_on_with_other_ranks(self):
        packed = [MIXTURE, "--data.packing=documents", "--data.val_fraction=0"]
        job = self.run_of("one", *packed)
        self.assertEqual(job.out.count("\npacking  "), 2)
        self.run_of("two", *packed, "--shard.strategy=zero2", ranks=2, steps=3)
        self.run_of("two", *packed, "--checkpoint.resume=auto", ranks=4)
        self.assertEqual(logged(self.folder / "two"), logged(self.folder / "one"))
        self.assertEqual(self.source_losses("two"), self.source_losses("one"))

    def test_prepared_and_inspected_one_by_one(self):
        job = self.job("data", "prepare", MIXTURE)
        self.assertRegex(job.out, r"(?s)cached +\S+.*direct +code\.txt")
        job = self.job("data", "inspect", MIXTURE.split("=")[1])
        self.assertRegex(job.out, r"(?s)^mixture +chats 70%, code 30%\n.*file .*file ", job.everything())
        self.refused("data", "prepare", MIXTURE, "--data.output=x.bin", says=r"cannot hold the sources of a mixture")

    def test_what_is_refused(self):
        for source, more, says in (
                ("a:1:code.txt,b:code.txt", [], "has weights, but none for b"),
                ("a:1:code.txt,b:1:code.txt", ["--train.epochs=1"], r"epochs of its own\. Use train\.tokens or train\.steps"),
                ("a:1:code.txt,b:1:chats", ["--train.seq_len=32", "--data.val_fraction=0.001"], "data.source, a: "),
                ("a:1:code.txt,b:1:none", [], "data.source = none does not work")):
            with self.subTest(source):
                arguments = [word for word in TINY if "epochs" not in str(more) or "train.steps" not in word]
                self.refused("train", *arguments, f"--data.source={source}", *more, "--run.dir=run", says=says)


if __name__ == "__main__":
    main()
