"""tessera-report --wandb: the offline run has the options and rows of the metrics. Skipped where TESSERA_WANDB does not have
the package; the message without it is always tested."""
import io
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

from reporting import ROOT, Report, write_metrics

PACKAGE = Path(os.environ.get("TESSERA_WANDB", "none"))
STEPS = {"step": np.arange(1, 5), "loss": np.array([4, 3.5, np.nan, 2]), "lr": np.full(4, 1e-3), "seconds": np.full(4, 0.5),
         "tokens_per_second": np.full(4, 200.0), "time/forward": np.array([0.25, np.nan, 0.25, np.nan])}
EVALS = {"eval/step": [2, 4], "eval/loss": [3.0, 2.5], "eval/far/step": [2, 4], "eval/far/loss": [3.5, 3.25]}
OPTIONS = {"optim.lr": "0.001", "train.steps": "4", "shard.strategy": "zero3", "run.seed": "1"}


class Wandb(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="tessera-report-wandb-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        write_metrics(self.folder / "some/metrics.h5", STEPS, EVALS, {"config": OPTIONS})

    def report(self, path, *arguments):
        """In another process, which has the package or does not have it."""
        return subprocess.run([sys.executable, "-B", ROOT / "postprocess/report.py", *arguments, "--wandb"], check=False,
                              capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, timeout=120)

    def test_without_the_package_the_message_says_what_to_install(self):
        (self.folder / "broken/wandb").mkdir(parents=True)  # a folder that is not the package
        done = self.report(str(self.folder / "broken"), self.folder / "some")
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertRegex(done.stderr, r"^tessera-report: --wandb needs the package wandb, which \S+ does not have .*\. Install "
                         r"it .* with: \S+ -m venv .* && wandb-env/bin/pip install wandb; then run the report with wandb-env/bin/python\n$")
        self.assertEqual([path.name for path in (self.folder / "some").iterdir()], ["metrics.h5"])

    def test_without_a_run_there_is_nothing_to_export(self):
        report = Report("--wandb", "--compare", "a", "b")
        self.assertEqual(report.code, 2)
        self.assertIn("--wandb and --baseline need a RUN_OR_SWEEP", report.err)

    @unittest.skipUnless((PACKAGE / "wandb").is_dir(), f"there is no wandb in {PACKAGE}")
    def test_an_offline_run_has_options_and_rows(self):
        done = self.report(str(PACKAGE), self.folder / "some")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        where = next(line.split()[1] for line in done.stdout.splitlines() if line.startswith("written "))
        self.assertEqual(Path(where).parent, self.folder / "some/wandb")
        records = self.records(next(Path(where).glob("run-*.wandb")))
        run = next(record["run"] for record in records if "run" in record)
        self.assertEqual((run["project"], run["displayName"]), ("tessera", "some"))
        config = {item["key"]: json.loads(item["valueJson"]) for item in run["config"]["update"] if item["key"] != "_wandb"}
        self.assertEqual(config, {"optim.lr": 0.001, "train.steps": 4, "shard.strategy": "zero3", "run.seed": 1})
        rows = []
        for record in records:
            items = record.get("history", {}).get("item", [])
            row = {item.get("key") or "/".join(item["nestedKey"]): json.loads(item["valueJson"]) for item in items}
            if row:
                rows.append({key: value for key, value in row.items() if key == "_step" or not key.startswith("_")})
        expected = [{"_step": 1, "train/loss": 4, "train/time/forward": 0.25},
                    {"_step": 2, "train/loss": 3.5, "eval/loss": 3, "eval/far/loss": 3.5},
                    {"_step": 3, "train/time/forward": 0.25}, {"_step": 4, "train/loss": 2, "eval/loss": 2.5, "eval/far/loss": 3.25}]
        same = {"train/lr": 1e-3, "train/seconds": 0.5, "train/tokens_per_second": 200}
        self.assertEqual(rows, [{**row, **same} for row in expected])

    def records(self, path):
        """The records of an offline run, by wandb's own messages: the framing is LevelDB's log."""
        data, messages, part = path.read_bytes(), [], b""
        at = 7  # behind the file's header
        while at + 7 <= len(data):
            left = 32768 - at % 32768
            if left < 7:
                at += left
                continue
            _, length, kind = struct.unpack("<IHB", data[at:at + 7])
            part = (b"" if kind in (1, 2) else part) + data[at + 7:at + 7 + length]
            at += 7 + length
            if kind in (1, 4):
                messages.append(part.hex())
        decode = ("import json, sys\nfrom google.protobuf.json_format import MessageToDict\nfrom wandb.proto.wandb_internal_pb2 import Record\n"
                  "json.dump([MessageToDict(Record.FromString(bytes.fromhex(line.strip()))) for line in sys.stdin], sys.stdout)")
        done = subprocess.run([sys.executable, "-c", decode], input="\n".join(messages), capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(PACKAGE)}, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.load(io.StringIO(done.stdout))


if __name__ == "__main__":
    unittest.main(verbosity=2)  # says why a test is skipped
