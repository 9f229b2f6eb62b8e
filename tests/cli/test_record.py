"""The run folder: who may use it, and what happens when its files cannot be written."""
import json
import os
import shutil
import signal
import subprocess

import h5py

from job import SHORT, TIMEOUT, TINY, Case, Running, command, main, said_once, status
from running import checkpoints, history

RUN = [word for word in TINY if "train.steps" not in word] + SHORT + [
    "--run.dir=run", "--metrics.every=1", "--optim.schedule=constant", "--data.val_fraction=0"]


class Record(Case):
    def setUp(self):
        super().setUp()
        self.run_folder = self.folder / "run"

    def obstacle(self, name):
        """A folder that is not replaced by a file."""
        (self.run_folder / name / "x").mkdir(parents=True)

    def test_metrics_log_and_status_that_cannot_be_written_cost_nothing(self):
        for name in ("status.json", "metrics.h5.copy.tmp"):
            self.obstacle(name)
        (self.run_folder / "log.jsonl").symlink_to("/dev/full")
        running = self.running(["train", *RUN, "--train.steps=1000000", "--checkpoint.every=5", "--checkpoint.resume=auto",
                                "--metrics.swmr=false"], 2)
        running.wait_for(lambda: max(checkpoints(self.run_folder), default="") >= "step-00000020", "checkpoint")
        shutil.rmtree(self.run_folder / "status.json")
        running.wait_for((self.run_folder / "status.json").exists, "another try")
        os.kill(running.process.pid, signal.SIGUSR1)
        code, out = running.end()
        self.assertEqual(code, 75, out)
        said = status(self.run_folder)
        self.assertEqual((said["state"], said["code"]), ("stopped", 75))
        self.assertIn(f"step-{said['step']:08}", checkpoints(self.run_folder))
        for warning in (r"warning: .*status\.json.*: the run goes on\n", r"warning: .*log\.jsonl.*: the run goes on\n",
                        r"warning: .*metrics\.h5.*: the run goes on without metrics\n"):
            self.assertTrue(said_once(out, warning), out)

    def test_metrics_that_cannot_be_made_cost_nothing(self):
        self.obstacle("metrics.h5.tmp")
        job = self.train(*RUN, "--train.steps=4", "--checkpoint.every=2", "--checkpoint.resume=auto")
        self.assertRegex(job.err, r"warning: .*metrics\.h5.*: the run goes on without metrics\n")
        self.assertEqual(checkpoints(self.run_folder), ["step-00000002", "step-00000004"])
        self.assertEqual(status(self.run_folder)["state"], "finished")
        shutil.rmtree(self.run_folder / "metrics.h5.tmp")
        self.train(*RUN, "--train.steps=8", "--checkpoint.resume=auto")
        self.assertEqual([step for step, _ in history(self.run_folder)], [5, 6, 7, 8])
        recording = [seconds for _, seconds in history(self.run_folder, "steps/time", "recording")]
        self.assertTrue(all(0 < seconds < 10 for seconds in recording[1:]), recording)

    def test_going_back_replaces_rows_and_keeps_the_old_file(self):
        self.train(*RUN, "--train.steps=6", "--checkpoint.every=2")
        first = history(self.run_folder)
        self.train(*RUN, "--train.steps=5", "--optim.lr=0.01",
                   "--checkpoint.resume=run/checkpoints/step-00000002")
        rows = history(self.run_folder)
        self.assertEqual([step for step, _ in rows], [1, 2, 3, 4, 5])
        self.assertEqual(rows[:3], first[:3])  # the loss of step 3 comes before its update
        self.assertNotEqual(rows[3:], first[3:5])
        os.rename(self.run_folder / "metrics.h5.before-step-3", self.run_folder / "metrics.h5")
        (self.run_folder / "metrics.1.h5").unlink()
        self.assertEqual(history(self.run_folder), first)

    def test_every_attempt_keeps_its_schedule(self):
        steps = ["--train.steps=4", "--checkpoint.every=2"]
        self.train(*RUN, *steps, "--train.accumulation=2", ranks=2)
        self.train(*RUN, *steps, "--train.accumulation=4", "--shard.strategy=zero2",
                   "--checkpoint.resume=run/checkpoints/step-00000002")
        for name, ranks, strategy in (("metrics.h5", 2, "zero3"), ("metrics.h5.before-step-3", 2, "zero3"),
                                      ("metrics.1.h5", 1, "zero2")):
            with h5py.File(self.run_folder / name, "r", libver="latest", swmr=True) as file:
                self.assertEqual(file["schedule"].attrs["format"], "tessera-schedule-1")
                schedule = json.loads(file["schedule"].asstr()[()])
                planned = {category: file[f"memory/{category.replace(' ', '_')}/planned"][0]
                           for category in schedule["memory"]["categories"]}
                sent = sum(file[f"comm/{kind}/bytes"][-1] for kind in ("all_gather", "reduce_scatter"))
            job = self.do("plan", *RUN[:5], f"--plan.ranks={ranks}", f"--shard.strategy={strategy}", *RUN[-1:],
                          f"--train.accumulation={4 // ranks}", "--plan.format=json")
            of_plan = json.loads(job.out)
            for key in ("model", "strategies", "reductions", "recomputations", "fit", "length", "prediction"):
                del of_plan[key]
            self.assertEqual(schedule, of_plan)
            self.assertEqual(schedule["memory"]["own_peaks"], planned)
            self.assertEqual(schedule["wire_bytes_per_step"], sent)  # as counted in the last step

    def test_the_plan_of_a_run_as_json(self):
        self.train(*RUN, "--train.steps=1", ranks=2)
        job = self.job("plan", "run", "--plan.format=json")
        self.assertEqual((job.code, job.err), (0, ""))
        self.assertEqual(json.loads(job.out)["ranks"], 2)  # nothing else is printed
        job = self.do("plan", "run", "--plan.format=json", "--plan.memory=1kB", code=6)
        self.assertFalse(json.loads(job.out)["fit"]["fits"])
        self.assertRegex(job.err, r"plan\.memory = 1\.00 kB .*too much")

    def test_two_fresh_starts_on_one_folder(self):
        for _ in range(3):
            jobs = [Running(["train", *RUN, "--train.steps=3"], 0, self.folder) for _ in range(2)]
            for running in jobs:
                self.addCleanup(running.remove)
            ends = [running.end() for running in jobs]
            self.assertEqual(sorted(code for code, _ in ends), [0, 2], ends)
            self.assertEqual([path.name for path in self.run_folder.glob("metrics*")], ["metrics.h5"])
            shutil.rmtree(self.run_folder)

    def test_every_rank_sees_the_same_folder(self):
        elsewhere = self.folder / "elsewhere"
        for path in (self.run_folder, elsewhere):
            path.mkdir()
        if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
            self.skipTest("a file system of its own is not allowed here")
        words = command(["train", *RUN, "--train.steps=3"])
        of_its_own = ["unshare", "-m", "sh", "-c", f"mount --bind '{elsewhere}' '{self.run_folder}' && exec \"$@\"", "sh"]
        done = subprocess.run([os.environ["MPIEXEC"], "-n", "1", *words, ":", "-n", "1", *of_its_own, *words],
                              cwd=self.folder, capture_output=True, text=True, timeout=TIMEOUT, check=False,
                              stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 2, done.stderr)
        said = [line for line in done.stderr.splitlines() if line.startswith("tessera: ")]
        self.assertEqual(len(said), 1, done.stderr)
        self.assertRegex(said[0], r"run\.dir = run must be the same folder on all nodes, but \S+ sees another")
        self.assertEqual(list(elsewhere.iterdir()), [])
        self.assertEqual((status(self.run_folder)["state"], status(self.run_folder)["code"]), ("failed", 2))

    def test_auto_in_a_job_that_was_stopped_before_it_had_a_folder(self):
        running = self.running(["train", *RUN, "--train.steps=2", "--checkpoint.resume=auto"], 0, SLURM_RESTART_COUNT="1")
        code, out = running.end()
        self.assertEqual(code, 0, out)
        self.assertIn("a fresh start", out)

    def test_files_that_ask_are_answered_at_the_last_step(self):
        self.run_folder.mkdir()
        for names in (["stop"], ["checkpoint"], ["stop", "checkpoint"]):
            for name in names:
                (self.run_folder / name).touch()
            steps = len(checkpoints(self.run_folder)) + 1
            self.train(*RUN, f"--train.steps={steps}", "--checkpoint.resume=auto")
            self.assertIn(f"step-{steps:08}", checkpoints(self.run_folder))
            for name in ("stop", "checkpoint"):
                self.assertFalse((self.run_folder / name).exists())


if __name__ == "__main__":
    main()
