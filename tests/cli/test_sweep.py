"""Sweeps, as a user starts them: what their files may say, what rows become, and what accidents leave."""
import contextlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest
from fnmatch import fnmatch
from pathlib import Path

from job import Case, Running, command, main, status
from running import history, logged

ROOT = Path(__file__).parents[2]
REPORT = ROOT / "postprocess" / "report.py"

COMMON = """
[model]
layers = 1
width = 16
heads = 2
context = 16
[data]
synthetic_tokens = 5K
val_fraction = 0
[train]
steps = 3
micro_batch = 2
global_batch = 8
[run]
threads = 1
device = cpu
[checkpoint]
every = 1
"""

PROGRAM = """
import json, os, sys
ranks, run, tokens = int(sys.argv[1]), sys.argv[2], sys.argv[3]
assert os.path.getsize(tokens) == 1024 + 2 * 5000, os.path.getsize(tokens)
assert int(os.environ["MASTER_PORT"]) > 1024
json.dump({"/steps/step": [1, 2], "/steps/loss": [5, 4], "/steps/seconds": [1, 1], "/steps/tokens_per_second": [100, 100]},
          open(run + "/metrics.json", "w"))
"""


class Sweep(Case):
    def file(self, text, name="demo.ini", common=COMMON):
        (self.folder / name).write_text(text + common)
        return name

    def sweep(self, action="run", *words, code=0, file="demo.ini"):
        return self.do("sweep", file, f"--sweep.action={action}", *words, timeout=200, code=code)

    def row(self, name, sweep="demo"):
        return status(self.folder / "runs" / sweep / name)

    def states(self, sweep="demo"):
        rows = json.loads((self.folder / "runs" / sweep / "sweep.json").read_text())["rows"]
        return {row["name"]: self.row(row["name"], sweep)["status"] for row in rows}

    def losses(self, name, run="run"):
        return logged(self.folder / "runs" / "demo" / name / run)


class Rows(Sweep):
    def test_every_kind_of_row(self):
        (self.folder / "program.py").write_text(PROGRAM)
        (self.folder / "other.ini").write_text("[train]\nsteps = 50\naccumulation = 4\n[optim]\nlr = 0.002\n")
        self.file(f"""[sweep]
base = other.ini
baseline = 1-ddp
[sweep.vary]
ranks = 1, 2
shard.strategy = ddp, zero3   # two values
shard.prefetch_forward = "1", 2
[sweep.row too big]
model.width = 512
[sweep.row gpu]
run.device = cuda
[sweep.row program]
kind = command
ranks = 2
command = {sys.executable} program.py {{ranks}} "{{run}}" {{tokens}}
[plan]
memory = 20MB
""")
        printed = self.sweep("print").out
        self.assertFalse((self.folder / "runs").exists())
        names = ["1-ddp", "1-zero3-1", "1-zero3-2", "2-ddp", "2-zero3-1", "2-zero3-2", "too_big", "gpu", "program"]
        self.assertEqual(re.findall(r"^# (.*)$", printed, re.M), names)
        self.assertRegex(printed, r"too_big .* does not fit: plan.memory = 20.0 MB: needs .* too much")
        self.assertRegex(printed, r"mpiexec -n 2 \S*tessera train .*--optim.lr=0.002 .*--shard.strategy=zero3 --shard.prefetch_forward=2 .*"
                                  r"--run.dir=runs/demo/2-zero3-2/run\n")
        self.assertNotIn("accumulation", printed)  # the sweep's global_batch took its place
        done = self.sweep("run")
        gpu = "skipped"
        if "needs a GPU" not in self.row("gpu")["message"]:
            gpu = self.row("gpu")["status"]  # there is one
        self.assertEqual(self.states(), {**dict.fromkeys(names, "done"), "too_big": "does-not-fit", "gpu": gpu}, done.everything())
        self.assertFalse((self.folder / "runs/demo/too_big/run").exists())
        losses = self.losses("1-ddp")
        self.assertEqual(len(losses), 2)
        for name in names[1:6]:
            self.assertEqual(self.losses(name), losses, name)
        self.assertIn("[shard]\nstrategy = zero3\nprefetch_forward = 2\n",
                      (self.folder / "runs/demo/2-zero3-2/config.ini").read_text())
        table = subprocess.run(["/usr/bin/python3", REPORT, self.folder / "runs/demo", "--json", self.folder / "rows.json"],
                               capture_output=True, text=True)
        self.assertEqual(table.returncode, 0, table.stderr)
        rows = {row["row"]: row for row in json.loads((self.folder / "rows.json").read_text())}
        self.assertEqual(list(rows), names)
        self.assertEqual((rows["1-ddp"]["speedup"], rows["program"]["final_loss"], rows["2-zero3-1"]["final_loss"]),
                         (1, 4, losses[3]))
        self.assertNotIn("batch", rows["2-ddp"]["flags"])
        # Once more: nothing is left to do.
        self.sweep("run")
        self.assertEqual({self.row(name)["attempts"] for name in names[:6]}, {1})
        shown = self.sweep("status").out
        self.assertRegex(shown, r"1-ddp +1 +done +3/3 +1")

    def test_the_command_line_wins(self):
        self.file("[sweep.vary]\nshard.strategy = ddp, zero3\n[sweep.row other]\noptim.lr = 0.1\n"
                  "[sweep.row program]\nkind = command\ncommand = cp {tokens} {run}/metrics.json\n")
        self.sweep("run", "--shard.strategy=zero1", "--sweep.dir=elsewhere", "--train.steps=2", "--optim.lr=0.2",
                   "--data.synthetic_tokens=6000")
        for row in ("zero1", "other"):
            text = (self.folder / "elsewhere" / row / "run" / "config.ini").read_text()
            self.assertRegex(text, r"(?s)steps = 2\n.*lr = 0.2\n.*strategy = zero1\n")
        self.assertEqual((self.folder / "elsewhere/program/run/metrics.json").stat().st_size, 1024 + 2 * 6000)

    def test_a_launcher_that_starts_other_ranks(self):
        self.file("[sweep.vary]\nranks = 1, 2\n")
        self.sweep("run", "--sweep.launcher=mpiexec -n 2", code=2)
        self.assertEqual(self.states(), {"1": "failed", "2": "done"})
        self.assertRegex(self.row("1")["message"], "2 ranks were started, but TESSERA_RANKS = 1 asks for another number")

    def test_a_commands_corpus_is_its_rows(self):
        (self.folder / "size.py").write_text("import os, sys\nopen(sys.argv[2] + '/metrics.json', 'w').write('{}')\n"
                                             "print('size', os.path.getsize(sys.argv[1]))\n")
        command = f"kind = command\ncommand = {sys.executable} size.py {{tokens}} {{run}}\n"
        self.file(f"[sweep.row a]\n{command}[sweep.row b]\n{command}data.synthetic_tokens = 3K\n")
        self.sweep("run")
        for row, tokens in (("a", 5000), ("b", 3000)):
            self.assertIn(f"size {1024 + 2 * tokens}\n", (self.folder / "runs/demo" / row / "output.txt").read_text())

    def test_only(self):
        self.file("[sweep.vary]\nranks = 1, 2\nshard.strategy = ddp, zero3\n")
        self.sweep("run", "--sweep.only=?-ddp")
        self.assertEqual(self.states(), {"1-ddp": "done", "1-zero3": "pending", "2-ddp": "done", "2-zero3": "pending"})

    def test_other_ranks(self):
        """They replace the file's, and what that leaves out is said."""
        self.file("[sweep]\nbaseline = single\n[sweep.row single]\n[sweep.vary]\nranks = 1\nshard.strategy = ddp, zero3\n"
                  "[sweep.row 1-lr]\noptim.lr = 0.1\n", common=COMMON.replace("[data]", "[shard]\nstrategy = ddp\n[data]"))
        job = self.sweep("run", "--sweep.ranks=2")
        self.assertEqual(self.states(), dict.fromkeys(["2-ddp", "2-zero3", "2-lr"], "done"))
        self.assertRegex(job.out, r"^row single is left out, because 2-ddp is the same\.\n"
                                  r"The baseline single is not a row on these ranks\. The first row takes its place\.\nsweep demo: 3 of 3")

    def test_a_printed_command_works_when_pasted(self):
        self.file("[sweep.row a]\nmetrics.every = 1\n"
                  + "[sweep.row b]\nkind = command\ncommand = {tessera} --version\n")
        for line in re.findall(r"^# \S+\n(.*)$", self.sweep("print").out, re.M):
            done = subprocess.run(["sh", "-c", line], cwd=self.folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(len(logged(self.folder / "runs/demo/a/run")), 3)

    def test_progress_on_a_terminal(self):
        self.file("[sweep.row a]\n[sweep.row b]\n")
        terminal, end = pty.openpty()
        job = subprocess.Popen(command(["sweep", "demo.ini", "--sweep.action=run"], 0), cwd=self.folder, stdin=subprocess.DEVNULL,
                               stdout=end)
        os.close(end)
        said = b""
        with contextlib.suppress(OSError):  # its other end is closed
            while block := os.read(terminal, 4096):
                said += block
        os.close(terminal)
        self.assertEqual(job.wait(), 0)
        for row in "ab":  # in one line that is rewritten, and is gone in the end
            self.assertRegex(said.decode(), rf"\r\033\[K{row} +(starting|\d/3)? +\d s(\r\033\[K{row} .*?)*\r\033\[K{row} +done ")

    def test_what_is_refused(self):
        for text, says in (
                ("[sweep]\nnam = x\n[sweep.row a]\n", r"demo\.ini:2: unknown option 'sweep\.nam'.*did you mean sweep\.name\?"),
                ("[sweep]\nranks = 2,0\n[sweep.row a]\n", r"demo\.ini:2: sweep\.ranks = '2,0' .*above 0, for example 1,2,4"),
                ("[sweep.row a]\ndata.synthetic_tokens = 5\n", r"row a: .*5 tokens"),
                ("[sweep]\nlauncher = mpiexec\n[sweep.row a]\ntrain.accumulation = 2\n", r"row a: train\.accumulation = '2' has no effect")):
            with self.subTest(text):
                self.file(text)
                self.refused("sweep", "demo.ini", "--sweep.action=run", says=says, run="runs/demo/a/run")
        self.file("[sweep.row a]\n")
        self.refused("sweep", "demo.ini", "--sweep.action=submit", says="no sbatch here|sbatch refuses", run="runs/demo/a/run")
        self.assertRegex(self.job("sweep", "demo.ini", ranks=2).err, "Start it without mpiexec")

    def test_a_corpus_that_is_missing_is_found_before_the_first_row(self):
        self.file("[sweep.vary]\nranks = 1, 2\n", common=COMMON.replace("synthetic_tokens = 5K", "source = nowhere"))
        self.refused("sweep", "demo.ini", "--sweep.action=run", says="row 1: .*nowhere", run="runs")


class Delivered(Sweep):
    """The examples of inputs/sweeps, with less to do, and without PyTorch. (The studies: test_studies.py.)"""
    SMALL = ["--train.steps=2", "--optim.warmup_steps=0", "--train.seq_len=16", "--model.layers=1", "--data.synthetic_tokens=5K"]
    ONLY = {"strategies.ini": "4-*", "pytorch.ini": "[12]-[dp]*"}  # the other rows are neither checked nor run

    def test_every_example(self):
        for name, only in self.ONLY.items():
            file = ROOT / "inputs/sweeps" / name
            with self.subTest(name):
                # A Python that looks for packages nowhere: it has no torch on any machine.
                text = file.read_text().replace('sh "{peers}/pytorch_train.sh"', f"/usr/bin/python3 -ESB {ROOT}/tests/peers/pytorch_train.py")
                (self.folder / file.name).write_text(text)
                self.sweep("run", *self.SMALL, f"--sweep.only={only}", f"--sweep.dir=runs/{file.stem}", file=file.name)
                others = re.findall(r"^\[sweep\.row (.*)\]\nkind = command", text, re.M)
                states = {row: state for row, state in self.states(file.stem).items() if fnmatch(row, only)}
                self.assertEqual(states, {row: "skipped" if row in others else "done" for row in states})
                self.assertIn("done", states.values())
                for row in others:
                    self.assertIn("/usr/bin/python3 lacks a module (No module named 'torch')", self.row(row, file.stem)["message"])


    def test_a_row_that_goes_on_halfway_does_so_for_any_number_of_steps(self):
        name, row = "gpt2_nanogpt", "2-zero3-resumed"
        for folder in ("small", "real"):
            shutil.copytree(ROOT / "inputs/sweeps" / folder, self.folder / folder)
        shutil.copy(ROOT / f"inputs/sweeps/{name}.ini", self.folder)
        for steps in (3, 41):
            self.sweep("run", *self.SMALL[1:], f"--train.steps={steps}", f"--sweep.only={row}", f"--sweep.dir=runs/{steps}",
                       file=f"{name}.ini")
            run = self.folder / f"runs/{steps}/{row}"
            self.assertEqual(status(run)["status"], "done", status(run))
            self.assertEqual([len(history(run / one)) for one in ("first", "run")], [steps, steps - steps // 2])
            self.assertEqual(history(run / "run"), history(run / "first")[steps // 2:])


class Happens(Sweep):
    """Something happens to a sweep while it runs."""
    LONG = "[sweep]\nrequeues = 0\n[sweep.vary]\noptim.lr = 0.01, 0.02\n"

    def long(self, *words):
        self.file(self.LONG)
        return Running(["sweep", "demo.ini", "--sweep.action=run", "--train.steps=100000",
                        "--metrics.every=1", "--checkpoint.every=0", *words], 0, self.folder)

    def wait_for_steps(self, job, row, steps=3):
        job.wait_for(lambda: max(self.losses(row), default=0) >= steps, f"step {steps} of {row}")

    def test_killed_and_begun_again(self):
        self.file("[sweep.row 0.01]\ntrain.steps = 10\n"
                  "[sweep.row 0.02]\nranks = 2\ntrain.steps = 400\ncomm.emulate = 1ms,0\n")  # some milliseconds per step
        words = ["--metrics.every=1", "--checkpoint.every=50"]
        job = Running(["sweep", "demo.ini", "--sweep.action=run", *words], 0, self.folder)
        self.wait_for_steps(job, "0.02", 55)
        launcher = self.children(job.process.pid)
        ranks = [rank for pid in launcher for rank in self.children(pid)]
        self.assertTrue(ranks)
        self.signal(ranks, signal.SIGSTOP)  # or the row may be done before the second sweep looks
        try:
            second = self.job("sweep", "demo.ini", "--sweep.action=run", *words)
        finally:
            job.process.kill()
            job.process.wait()
            self.signal(ranks, signal.SIGCONT)
        self.assertEqual(second.code, 2, second.everything())
        self.assertRegex(second.err, r"sweep\.dir = runs/demo is in use by process \d+")
        self.assertEqual(self.row("0.02")["status"], "running")
        deadline = time.monotonic() + 20
        while any(Path(f"/proc/{pid}").exists() for pid in launcher + ranks):  # the ranks end with their sweep
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        shown = self.sweep("status", *words).out
        self.assertRegex(shown, r"0\.02 +2 +failed .*what ran it was killed")
        self.sweep("run", *words)
        self.assertEqual([(self.row(name)["status"], self.row(name)["attempts"]) for name in ("0.01", "0.02")], [("done", 1), ("done", 2)])
        self.assertIn("resume     step", (self.folder / "runs/demo/0.02/output.txt").read_text())
        self.train("runs/demo/0.02/config.ini", "--run.dir=whole", "--comm.emulate=none", ranks=2)
        self.assertEqual(self.losses("0.02"), logged(self.folder / "whole"))

    def signal(self, pids, number):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def children(self, parent):
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) == parent:
                    found.append(int(entry.name))
            except (OSError, IndexError):
                continue
        return found

    def test_asked_to_end(self):
        job = self.long()
        self.wait_for_steps(job, "0.01")
        job.process.send_signal(signal.SIGTERM)
        code, said = job.end()
        self.assertEqual(code, 75, said)
        self.assertEqual(self.states(), {"0.01": "stopped", "0.02": "pending"}, said)
        self.assertIn("\n2 rows left. Use --sweep.action=run to go on.\n", said)
        self.assertRegex(self.row("0.01")["message"], r"stopped at step \d+ with a checkpoint")

    def program_that_waits(self, *words):
        """Its first run ends; the second waits until `luck` exists, with `sleep` as its only child."""
        (self.folder / "wait.sh").write_text("[ ${1##*.} != 2 ] || [ -e luck ] || { sleep 60 & : >waits; wait; }\n"
                                             "echo '{}' >$1/metrics.json\n")
        self.file("[sweep]\nrepeat = 2\n[sweep.row a]\nkind = command\ncommand = sh wait.sh {run}\n")
        job = Running(["sweep", "demo.ini", "--sweep.action=run"], 0, self.folder, before=words)
        job.wait_for((self.folder / "waits").exists, "second repeat")
        return job

    def test_a_repeat_that_was_stopped_goes_on(self):
        job = self.program_that_waits("nohup")
        job.process.send_signal(signal.SIGHUP)  # is nothing to who ignores it
        time.sleep(1)
        self.assertIsNone(job.process.poll())
        job.process.send_signal(signal.SIGTERM)
        code, said = job.end()
        self.assertEqual((code, self.row("a")["status"], self.row("a")["repeats"]), (143, "stopped", 1), said)
        (self.folder / "luck").write_text("")
        self.sweep("run")
        self.assertEqual((self.row("a")["status"], self.row("a")["repeats"], self.row("a")["attempts"]), ("done", 2, 3))

    def test_what_outlives_a_killed_sweep_keeps_its_row(self):
        job = self.program_that_waits()
        shell, = self.children(job.process.pid)
        left = self.children(shell)
        job.process.kill()
        job.process.wait()
        deadline = time.monotonic() + 10
        while Path(f"/proc/{shell}").exists():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        self.assertRegex(self.sweep("status").out, r"a +1 +running")
        for process in left:
            os.kill(process, signal.SIGKILL)
        while "running" in (shown := self.sweep("status").out):
            self.assertLess(time.monotonic(), deadline)
        self.assertRegex(shown, r"a +1 +failed .*what ran it was killed")

    def test_a_sweep_waits_for_what_outlives_a_killed_one(self):
        """As a row's ranks do, until they have written their checkpoint."""
        job = self.program_that_waits()
        left = self.children(self.children(job.process.pid)[0])
        job.process.kill()
        job.process.wait()
        (self.folder / "luck").write_text("")
        again = Running(["sweep", "demo.ini", "--sweep.action=run"], 0, self.folder)
        again.wait_for(lambda: "1 of 1 row to run" in again.said(), "row to run")
        self.assertRegex(self.sweep("status").out, r"a +1 +running")
        for process in left:
            os.kill(process, signal.SIGKILL)
        code, said = again.end()
        self.assertEqual((code, self.row("a")["status"], self.row("a")["repeats"]), (0, "done", 2), said)

    def test_the_limit_of_an_attempt(self):
        self.file("[sweep]\nlimit = 5s\n[sweep.vary]\nranks = 1, 2\n")
        words = ["--train.steps=100000", "--metrics.every=1", "--checkpoint.every=0", "--sweep.only=1"]
        self.sweep("run", *words, code=75)
        first = self.row("1")
        self.assertEqual((first["status"], first["code"], first["attempts"]), ("timed-out", 75, 1))
        self.assertRegex(first["message"], r"stopped at step \d+ with a checkpoint \(sweep\.limit = 5 s\)")
        self.sweep("run", *words, code=75)  # not by itself
        self.assertEqual(self.row("1")["attempts"], 1)
        self.sweep("retry", *words, code=75)
        again = self.row("1")
        self.assertEqual((again["status"], again["attempts"]), ("timed-out", 2))
        step = [int(re.search(r"step (\d+)", row["message"])[1]) for row in (first, again)]
        self.assertGreater(step[1], step[0])

    def test_a_killed_rank(self):
        job = self.long("--sweep.only=0.01")
        self.wait_for_steps(job, "0.01")
        launcher, = self.children(job.process.pid)
        os.kill(self.children(launcher)[0], signal.SIGKILL)
        code, said = job.end()
        self.assertEqual(code, 137, said)
        self.assertRegex(self.row("0.01")["message"], "signal 9")


if __name__ == "__main__":
    main()
