"""Text on an (emulated) GPU as a user sees it: generate, samples while it trains, eval, masks; each follows the CPU."""
import json
import re
import tempfile
import threading
from pathlib import Path

from job import REFERENCE, TINY, Case, Job, main, write_text
from running import logged

SMALL = [*TINY, "--model.layers=1", "--model.width=16"]
GPU = ["--run.device=cuda"]
GPUS = [*GPU, "--run.share_gpu=true", "--comm.backend=staged"]  # ranks that share the one
MADE = tempfile.TemporaryDirectory(prefix="tessera-cli-gpu-text-")
MAKING = threading.Lock()  # tests run at the same time
PAIRS = [{"prompt": f"{i} and {i * 7 % 11} make", "completion": f" {i + i * 7 % 11}."} for i in range(200)]
QUESTIONS = [{"context": "The rank", "endings": ["waits.", "reads the block."], "label": 0},
             {"context": "A shard", "endings": ["sums", "keeps the loss", "moves"], "label": 2}]


def trained_run():
    """A run of the CPU on bytes, with a checkpoint and a validation set; made once for all tests."""
    folder = Path(MADE.name)
    with MAKING:
        if not (folder / "run").exists():
            write_text(folder / "text", sentences=100)
            (folder / "questions.jsonl").write_text("".join(json.dumps(one) + "\n" for one in QUESTIONS))
            job = Job(["train", *SMALL, "--train.steps=60", "--data.source=text", "--run.dir=run", "--run.device=cpu",
                       "--checkpoint.every=60", "--optim.lr=0.02", "--train.eval_batches=3"], cwd=folder)
            assert job.code == 0, job.everything()
    return folder / "run"


class GpuText(Case):
    """Commands that read and write text, with run.device = cuda and on the CPU."""

    def setUp(self):
        super().setUp()
        self.run_folder = trained_run()

    def out(self, command, *arguments, ranks=0):
        job = Job([command, self.run_folder, "--run.threads=1", *arguments], ranks, self.run_folder.parent)
        self.assertEqual(job.code, 0, job.everything())
        return job.out

    def test_generate_says_the_same(self):
        options = ["--generate.prompt=The rank ", "--generate.max_tokens=12", "--generate.temperature=0"]
        said = self.out("generate", *options, "--run.device=cpu")
        self.assertTrue(said.startswith("The rank "))
        self.assertEqual(self.out("generate", *options, *GPU), said)
        self.assertEqual(self.out("generate", *options, *GPUS, "--shard.strategy=zero3", ranks=2), said)

    def test_eval_finds_the_same_losses(self):
        def found(*arguments, ranks=0):
            return [json.loads(line) for line in self.out("eval", "--eval.format=json", *arguments, ranks=ranks).splitlines()]
        expected, = found("--run.device=cpu")
        for arguments, ranks in ((GPU, 0), (GPUS, 2)):
            result, = found(*arguments, ranks=ranks)
            self.assertEqual(result["tokens"], expected["tokens"])
            self.assertAlmostEqual(result["loss"] / expected["loss"], 1, delta=2e-6)
        choices = "--eval.choices=questions.jsonl"
        expected = found(choices, "--run.device=cpu")
        for arguments, ranks in ((GPU, 0), (GPUS, 2)):
            result = found(choices, *arguments, ranks=ranks)
            self.assertEqual(result[-1]["right"], expected[-1]["right"])
            for one, other in zip(result[:-1], expected[:-1], strict=True):
                self.assertEqual(one["chosen"], other["chosen"])
                for loss, wanted in zip(one["losses"], other["losses"], strict=True):
                    self.assertAlmostEqual(loss / wanted, 1, delta=1e-5)

    def test_samples_and_masks_while_it_trains(self):
        (self.folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in PAIRS))
        options = [*SMALL, "--train.steps=4", "--data.source=pairs.jsonl", "--data.document_mask=true", "--data.val_fraction=0",
                   "--metrics.every=1"]
        self.train(*options, "--run.dir=cpu", "--run.device=cpu")
        job = self.train(*options, *GPU, "--run.dir=gpu", "--train.sample_every=2", "--generate.prompt=1 and ",
                         "--generate.max_tokens=5", "--generate.temperature=0", "--checkpoint.every=4")
        self.assertIn("nor over the first token of a document", " ".join(job.out.split()))
        expected, found = logged(self.folder / "cpu"), logged(self.folder / "gpu")
        self.assertEqual(list(found), list(expected))
        for step, loss in expected.items():
            self.assertAlmostEqual(found[step] / loss, 1, delta=1e-5)
        samples = logged(self.folder / "gpu", "sample")
        self.assertEqual(list(samples), [0, 2, 4])
        said = self.job("generate", "gpu", "--generate.prompt=1 and ", "--generate.max_tokens=5", "--generate.temperature=0", *GPU)
        self.assertEqual(said.out, "1 and " + samples[4] + "\n", said.everything())

    def test_packed_documents_by_cudnn(self):
        (self.folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in PAIRS))
        options = [*SMALL, "--model.heads=2", "--train.steps=4", "--data.source=pairs.jsonl", "--data.packing=documents",
                   "--data.val_fraction=0.2", "--train.eval_batches=2", "--precision.compute=bf16", "--metrics.every=1"]
        self.train(*options, "--run.dir=cpu", "--run.device=cpu")
        prices = f"--plan.cluster={REFERENCE.parents[1] / 'inputs/clusters/h100.ini'}"
        job = self.train(*options, *GPU, "--run.dir=gpu", "--run.attention=cudnn", "--checkpoint.every=4", prices)
        said = " ".join(job.out.split())
        self.assertIn("attention by cuDNN", said)
        self.assertNotIn("times as long as with cuDNN", said)
        counted = int(re.search(r"data.most_documents = (\d+)", said)[1])
        self.assertGreater(counted, 1)
        self.assertIn(f"most_documents = {counted}\n", (self.folder / "gpu" / "config.ini").read_text())
        expected, found = logged(self.folder / "cpu"), logged(self.folder / "gpu")
        for step, loss in expected.items():
            self.assertAlmostEqual(found[step] / loss, 1, delta=2e-3)
        job = self.train(*options, *GPU, "--run.dir=own", "--model.dropout=0.1", prices)
        self.assertRegex(" ".join(job.out.split()), r"attention by own kernels \(.*masks of dropout are our own\).* attention "
                                                    r"by own kernels: a step takes [\d.]+ times as long as with cuDNN's")
        losses = [json.loads(self.job("eval", "gpu", "--eval.format=json", *more).out)["loss"]
                  for more in (GPU, ["--run.device=cpu"])]
        self.assertAlmostEqual(losses[0] / losses[1], 1, delta=1e-3)


if __name__ == "__main__":
    main()
