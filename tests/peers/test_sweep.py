"""The sweep that compares Tessera with PyTorch: both start from one folder's weights and so must have one loss.

TESSERA_TORCH_PYTHON names a Python with PyTorch (python3); without one this ends with 77.
"""
import os
import re

from with_torch import ROOT, PeerCase, run_tests  # first: it says where the next two are

from job import REFERENCE
from reporting import Report

MODEL = REFERENCE / "deep"
STEPS = 12
STRATEGIES = {"1-ddp": "ddp", "1-zero3": "zero3", "2-ddp": "ddp", "2-zero3": "zero3",
              "1-pytorch": "PyTorch", "2-pytorch-ddp": "PyTorch DDP", "2-pytorch-fsdp1": "PyTorch FSDP1",
              "2-pytorch-fsdp2": "PyTorch FSDP2"}


def changed(text, *pairs):
    """`text` with every match of a pattern replaced; each has one at least."""
    for pattern, value in pairs:
        text, count = re.subn(pattern, value, text, flags=re.M)
        assert count, pattern
    return text


class PyTorchRows(PeerCase):
    def setUp(self):
        super().setUp()
        os.environ["TESSERA_TORCH_PYTHON"] = self.python
        text = changed((ROOT / "inputs/sweeps/pytorch.ini").read_text(),
                       ("--preset nano", f"--from {MODEL}"),
                       ("^preset = nano", f"from = {MODEL}"), ("--steps 50", f"--steps {STEPS}"), ("^steps = 50", f"steps = {STEPS}"),
                       ("--seq-len 128", "--seq-len 16"), ("^seq_len = 128", "seq_len = 16"))
        (self.folder / "pytorch.ini").write_text(text)

    def test_the_table(self):
        job = self.job("sweep", "pytorch.ini", "--sweep.action=run", "--data.synthetic_tokens=20K", timeout=900)
        self.assertEqual(job.code, 0, job.everything())
        report = Report(self.folder / "runs/pytorch", json_file=self.folder / "rows.json")
        self.assertEqual((report.code, report.err), (0, ""))
        rows, cells = report.rows, report.cells()
        self.assertEqual({name: row["strategy"] for name, row in rows.items()}, STRATEGIES, report.out)
        for name, row in rows.items():
            with self.subTest(name):
                self.assertEqual((row["status"], row["steps"], row["ranks"], row["tokens_per_step"], row["seed"]),
                                 ("done", STEPS, int(name[0]), 16 * 16, "1"))
                self.assertLess(abs(row["final_loss"] / rows["1-ddp"]["final_loss"] - 1), 1e-5)
                self.assertEqual(row["steps_per_epoch"], rows["1-ddp"]["steps_per_epoch"])
                self.assertEqual(row["parameters"], rows["1-ddp"]["parameters"])
                self.assertEqual(set(row["flags"]) - {"load"}, set())
                for title in ("tokens/s", "speed-up", "loss", "best", "step", "batch", "epoch", "peak", "average", "start-up", "data", "MFU"):
                    self.assertRegex(cells[name][title], r"^\d", title)
        print("long:", ", ".join(f"{name} {cells[name]['tokens/s']} tokens/s" for name in rows))

    def test_rows_that_are_not_alike_are_flagged(self):
        words = ["--train.seq_len=8", "--train.global_batch=8", "--sweep.only=*1-[dp]*"]
        job = self.job("sweep", "pytorch.ini", "--sweep.action=run", "--data.synthetic_tokens=20K", *words, timeout=300)
        self.assertEqual(job.code, 0, job.everything())
        row = Report(self.folder / "runs/pytorch", json_file=self.folder / "rows.json").rows["1-pytorch"]
        self.assertLessEqual({"sequence", "batch"}, set(row["flags"]))


if __name__ == "__main__":
    run_tests(at_once=1)
