"""Checkpoints from the command line: stopping and going on, the files as others read them, and errors."""
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import h5py
import numpy as np

from job import SHORT, TINY, Case, Running, main, status
from running import checkpoints, logged, ranks_of

RUN = [word for word in TINY if "train.steps" not in word] + SHORT + [
    "--run.dir=run", "--metrics.every=1", "--optim.schedule=constant", "--data.val_fraction=0"]
ENDLESS = ["train"] + RUN + ["--train.steps=1000000"]


class Stopping(Case):
    def start(self, *arguments, ranks=2, steps=20, **environment):
        running = self.running(ENDLESS + list(arguments), ranks, **environment)
        running.wait_for(lambda: (self.folder / "run" / "metrics.h5").exists(), "metrics")
        running.wait_for(lambda: len(logged(self.folder / "run")) >= steps, "steps")
        return running

    def check_stopped(self, running, says):
        code, out = running.end()
        self.assertEqual(code, 75, out)
        self.assertRegex(out, says)
        state = status(self.folder / "run")
        self.assertEqual((state["state"], state["code"]), ("stopped", 75), out)
        self.assertEqual(checkpoints(self.folder / "run"), [f"step-{state['step']:08}"])
        return state["step"]

    def test_signals_to_a_rank_or_to_mpiexec_stop_all_with_a_checkpoint(self):
        for name, to_rank, beside in (("USR1", False, False), ("USR1", True, True), ("TERM", True, False), ("INT", True, True)):
            with self.subTest(signal=name, to_rank=to_rank, beside=beside):
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                running = self.start(f"--checkpoint.async={str(beside).lower()}")
                target = ranks_of(running.process)[1] if to_rank else running.process.pid
                os.kill(target, getattr(signal, "SIG" + name))
                self.check_stopped(running, "SIG" + name)

    def test_stopped_and_resumed_is_as_never_stopped(self):
        running = self.start("--shard.strategy=zero3")
        os.kill(running.process.pid, signal.SIGUSR1)
        step = self.check_stopped(running, "stopped +after step")
        more = step + 30
        self.train(*RUN, f"--train.steps={more}", "--checkpoint.resume=auto", "--checkpoint.every=10", ranks=2)
        self.train(*RUN, f"--train.steps={more}", "--run.dir=whole", ranks=2)
        whole, parts = logged(self.folder / "whole"), logged(self.folder / "run")
        self.assertEqual(len(whole), more)
        self.assertEqual(whole, parts)
        self.assertTrue((self.folder / "run" / "metrics.1.h5").exists())
        with h5py.File(self.folder / "run" / "metrics.1.h5", "r", swmr=True) as file:
            self.assertEqual(file["steps/step"][0], step + 1)
            self.assertEqual(list(file["checkpoints/step"]), [s for s in range(step + 1, more + 1) if s % 10 == 0 or s == more])
            self.assertTrue((file["checkpoints/blocked_seconds"][...] > 0).all())
        self.assertEqual(len(checkpoints(self.folder / "run")), 3)

    def test_beside_the_steps_a_checkpoint_is_as_good_and_the_metrics_tell(self):
        self.train(*RUN, "--train.steps=30", "--checkpoint.every=3", "--checkpoint.async=true", "--checkpoint.keep=0",
                   "--run.dir=beside", ranks=2)
        self.train(*RUN, "--train.steps=30", "--checkpoint.every=3", "--checkpoint.keep=0", "--run.dir=within", ranks=2)
        names = [f"step-{step:08}" for step in range(3, 31, 3)]
        for run in ("beside", "within"):
            self.assertEqual(checkpoints(self.folder / run), names)
            with h5py.File(self.folder / run / "metrics.h5", "r", swmr=True) as file:
                rows = {name: data[...] for name, data in file["checkpoints"].items()}
            self.assertEqual(sorted(rows), ["background_seconds", "blocked_seconds", "bytes", "step", "waited_seconds"])
            self.assertEqual(list(rows["step"]), list(range(3, 31, 3)))
            self.assertTrue((rows["blocked_seconds"] > 0).all())
            self.assertTrue((rows["waited_seconds"] < rows["blocked_seconds"]).all())
            self.assertEqual((rows["background_seconds"] > 0).all(), run == "beside")
            self.assertEqual(set(logged(self.folder / run, "waited_seconds")), set(rows["step"]))
            self.assertTrue(run == "beside" or (rows["waited_seconds"] == 0).all())
        self.assertEqual(logged(self.folder / "beside"), logged(self.folder / "within"))
        for name in names:
            for kind in ("parameter", "first_moment", "second_moment"):
                states = []
                for run in ("beside", "within"):
                    with h5py.File(self.folder / run / "checkpoints" / name / "tensors.h5") as file:
                        states.append(file[kind]["transformer.wte.weight"][...])
                np.testing.assert_array_equal(*states)

    def test_files_in_the_run_folder_ask_for_a_checkpoint_or_a_stop(self):
        for beside in ("false", "true"):
            with self.subTest(beside=beside):
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                self.check_files_that_ask(self.start(f"--checkpoint.async={beside}", ranks=1))

    def check_files_that_ask(self, running):
        (self.folder / "run" / "checkpoint").touch()
        running.wait_for(lambda: checkpoints(self.folder / "run"), "checkpoint")
        running.wait_for(lambda: not (self.folder / "run" / "checkpoint").exists(), "end of the request")
        shutil.rmtree(self.folder / "run" / "checkpoints")
        (self.folder / "run" / "stop").touch()
        self.check_stopped(running, "the file run/stop")
        self.assertFalse((self.folder / "run" / "stop").exists())

    def test_walltime(self):
        """However few steps there is time for."""
        self.check_stopped(self.running([*ENDLESS, "--run.walltime=3s"], 1), "run.walltime")

    def test_minutes_between_checkpoints(self):
        running = self.start("--checkpoint.every_minutes=0.005", ranks=1)
        running.wait_for(lambda: len(checkpoints(self.folder / "run")) == 3, "checkpoints")

    def test_as_often_as_loses_least_time(self):
        """With failures every millisecond, each step has a checkpoint."""
        job = self.train(*RUN, "--checkpoint.every=auto", "--checkpoint.mtbf=1ms", "--train.steps=4")
        self.assertIn("checkpoints every 1 ms (checkpoint.every = auto: one is assumed to take", job.out)
        self.assertEqual(checkpoints(self.folder / "run"), [f"step-{step:08}" for step in (2, 3, 4)], job.out)

    def test_a_second_signal_ends_at_once(self):
        """A step takes more than four seconds."""
        running = self.start("--comm.emulate=2s,0", "--shard.strategy=ddp", steps=1)
        for rank in ranks_of(running.process).values():
            os.kill(rank, signal.SIGUSR1)
        time.sleep(1.5)  # for half a second it counts as the same one
        os.kill(ranks_of(running.process)[0], signal.SIGUSR1)
        code, out = running.end()
        self.assertNotIn(code, (0, 75), out)
        self.assertEqual(checkpoints(self.folder / "run"), [])

    def test_the_job_launcher_turns_signals_into_a_checkpoint(self):
        launch = Path(os.environ["TESSERA_REFERENCE"]).parent.parent / "jobs" / "launch.sh"
        for number in (signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                running = object.__new__(Running)
                running.launch(["bash", launch, "-n", "2", os.environ["TESSERA"], *ENDLESS], self.folder,
                               TESSERA_GRACE="1")
                self.addCleanup(running.remove)
                running.wait_for(lambda: len(logged(self.folder / "run")) > 20, "steps")
                os.kill(running.process.pid, number)
                self.check_stopped(running, "SIGUSR1")
            shutil.rmtree(self.folder / "run", ignore_errors=True)


class Faults(Case):
    """Each has its own message, and nothing valid is destroyed."""

    def setUp(self):
        super().setUp()
        self.train(*RUN, "--train.steps=20", "--checkpoint.every=10", ranks=2)
        self.run_folder = self.folder / "run"

    def resume(self, *arguments, says, code=0, ranks=2, errors=True):
        job = self.train(*RUN, "--train.steps=22", *arguments, ranks=ranks, code=code)
        self.assertRegex(job.err if code else job.out, says, job.everything())
        self.assertNotIn("terminate called", job.err)
        if code and errors:
            self.assertEqual(len(job.errors), 1, job.everything())
        return job

    def test_damaged_checkpoints_are_passed_over_by_auto_and_refused_by_name(self):
        newest = self.run_folder / "checkpoints" / "step-00000020"
        shard, manifest = newest / "shard-00001.h5", newest / "manifest.json"

        def flip(path):
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 4
            path.write_bytes(data)

        cases = {
            r"cannot open .*shard-00001.h5": shard.unlink,
            r"shard-00001.h5 is damaged": lambda: flip(shard),
            r"not a complete checkpoint": manifest.unlink,
        }
        for says, damage in cases.items():
            with self.subTest(says):
                keep = self.folder / "keep"
                shutil.copytree(self.run_folder, keep)
                damage()
                self.resume(f"--checkpoint.resume={newest}", says=says, code=4)
                self.resume("--checkpoint.resume=auto", says="passed over: .*" + says + r"(?s:.*)step 10 from")
                shutil.rmtree(self.run_folder)
                keep.rename(self.run_folder)

    def test_auto_with_nothing_but_damaged_checkpoints_changes_nothing(self):
        folder = self.run_folder / "checkpoints"
        for shard in folder.glob("*/shard-00000.h5"):
            os.truncate(shard, 100)
        (folder / "step-00000030.tmp").mkdir()  # never complete: not counted
        before = {path: path.read_bytes() for path in folder.glob("*/*")}
        self.assertEqual(len(before), 8)
        job = self.resume("--checkpoint.resume=auto", code=4,
                          says=r"none of the 2 checkpoints in run/checkpoints can be read\..*name a new run\.dir.*step-00000010")
        for step in (10, 20):
            self.assertRegex(job.out, rf"step-{step:08} is passed over: .*cut short")
        self.assertEqual({path: path.read_bytes() for path in folder.glob("*/*")}, before)
        self.assertEqual((status(self.run_folder)["state"], status(self.run_folder)["code"]), ("failed", 4))

    def test_checkpoints_out_of_reach_are_not_begun_again(self):
        folder, away = self.run_folder / "checkpoints", self.folder / "scratch"
        folder.rename(self.folder / "not mounted")
        folder.symlink_to(away)
        before = {path: path.read_bytes() for path in self.run_folder.iterdir() if path.is_file()}
        self.assertIn(self.run_folder / "metrics.h5", before)
        self.resume("--checkpoint.resume=auto", code=4, says=r"run/checkpoints is a link to \S*scratch, which does not exist, "
                                                             r"although the run has published .* of step 20\. Mount")
        self.assertEqual({path: path.read_bytes() for path in self.run_folder.iterdir() if path.is_file()}, before)
        (self.folder / "not mounted").rename(away)
        (away / "step-00000020").rename(self.folder / "gone")
        self.resume("--checkpoint.resume=auto", says=r"missing +run/checkpoints/step-00000020, the last .*of step 10; (?s:.*)resume +step 10 from")
        self.assertTrue((self.run_folder / "metrics.h5.before-step-11").exists())

    def test_other_ranks_make_the_same_global_batch(self):
        words = ["run/config.ini", "--run.dir=run", "--checkpoint.resume=auto", "--train.steps=22"]
        config = (self.run_folder / "config.ini").read_bytes()
        refused = self.train(*words, "--train.accumulation=1", code=2)
        self.assertRegex(refused.err, r"\(4 then, 2 now\)\. Give --train.accumulation=2 for the same, or use checkpoint.allow")
        self.assertRegex(self.job("train", *words, "--train.micro_batch=3").err,
                         r"Give --train.micro_batch=2 --train.accumulation=2 for the same")
        self.assertRegex(self.job("train", *words, ranks=3).err, "Start it on a number of ranks that divides 4, which 3 does not")
        self.assertRegex(self.job("train", *words, "--data.synthetic_tokens=6000").err,
                         "Give --data.synthetic_tokens=5000 for the same")
        # Edits in a run's config.ini count.
        (self.folder / "edited.ini").write_text(config.decode().replace("\nmicro_batch = 2\n", "\nmicro_batch = 3\n"))
        self.assertRegex(self.job("train", "edited.ini", *words[1:]).err, r"Give --train.micro_batch=2 --train.accumulation=2 for")
        self.assertEqual((self.run_folder / "config.ini").read_bytes(), config)  # refused runs leave it as it was
        self.train(*words, "--checkpoint.every=1", "--model.dropout=0.1")
        # Options that the command does not set are the checkpoint's.
        job = self.train("--run.dir=run", "--checkpoint.resume=auto", "--train.steps=24", *SHORT, "--data.val_fraction=0",
                         "--optim.schedule=constant")
        self.assertRegex(job.out, "step 22 from")
        self.assertRegex(job.out, r"batch +128 tokens per step: 1 rank x 2 micro-steps x 2 sequences x 32 tokens")
        self.assertNotIn("model.", job.out)
        self.assertRegex((self.run_folder / "config.ini").read_text(), r"\ndropout = 0.1\n")

    def test_two_jobs_on_one_folder(self):
        running = self.running(ENDLESS + ["--checkpoint.resume=auto"], 2)
        running.wait_for(lambda: len(logged(self.run_folder)) > 25, "steps")
        self.resume("--checkpoint.resume=auto", says=r"run.dir = run is in use", code=2)
        os.kill(running.process.pid, signal.SIGUSR1)
        code, out = running.end()
        self.assertEqual(code, 75, out[-3000:])
        self.assertRegex(self.job("train", *RUN, "--train.steps=22").err, "has files in it")

    def small_disk(self, size):
        place = self.folder / "small"
        place.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], capture_output=True).returncode:
            self.skipTest("mounting is not allowed here")
        self.addCleanup(subprocess.run, ["umount", "-l", place])
        return place

    def test_the_end_of_a_run_names_the_files_that_are_there(self):
        place = self.small_disk("1m")
        for free, steps, lost in ((48, 20, "without metrics"), (48, 1000, "without metrics, log.jsonl lacks lines")):
            with self.subTest(lost):
                (place / "filler").write_bytes(bytes((1024 - free) << 10))
                job = self.train(*RUN, f"--train.steps={steps}", f"--run.dir={place}/run", "--metrics.swmr=false")
                self.assertRegex(job.err, r"warning: cannot \S+ .*\(HDF5: No space left on device\): the run goes on without")
                self.assertLess(max(map(len, job.err.splitlines())), 250)
                last = job.out[job.out.index("\nwritten "):]
                self.assertRegex(last, f"/log.jsonl \\(lines\\), .*; {lost}\n")
                self.assertNotIn("metrics.h5", last)
                state = status(place / "run")
                self.assertEqual((state["state"], state["message"]), ("finished", lost))
                shutil.rmtree(place / "run")
                (place / "filler").unlink()

    def test_a_full_disk_and_a_read_only_folder(self):
        place = self.small_disk("1432k")  # flight files take 266 kB per rank
        run = [*RUN, "--train.steps=20", f"--run.dir={place}/run", "--metrics.swmr=false"]
        # Whether it is written while steps go on or within a step, the end is the same.
        said = []
        for beside, steps in (("true", 1000), ("false", 20)):
            job = self.train(*run, f"--train.steps={steps}", f"--checkpoint.async={beside}", "--checkpoint.every=10",
                             "--checkpoint.keep=0", "--checkpoint.resume=auto", ranks=2, code=4)
            self.assertEqual(len(job.errors), 1, job.everything())
            said.append(re.sub(r"rank \d|shard-\d+", "", job.errors[0]))  # either rank may be the first
            self.assertRegex(said[-1], "No space left on device")
            self.assertEqual(checkpoints(place / "run"), ["step-00000010"])
            state = status(place / "run")
            self.assertEqual((state["state"], state["code"]), ("failed", 4), state)
            self.assertIn("No space left on device", state["message"])
            self.assertEqual(list((place / "run" / "checkpoints").glob("*.tmp")), [])
        self.assertEqual(*said)
        self.assertEqual(subprocess.run(["mount", "-o", "remount,ro", place], capture_output=True).returncode, 0)
        job = self.train(*run, "--checkpoint.resume=auto", ranks=2, code=4)
        self.assertRegex(job.err, "Read-only file system")
        self.train(*RUN, "--train.steps=12", f"--checkpoint.resume={place}/run", "--run.dir=other",
                   ranks=2)


if __name__ == "__main__":
    main()
