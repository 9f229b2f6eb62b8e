"""checkpoint.keep_near as a user runs it: copies in /dev/shm from one start to the next, and on a disk that is too small."""
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

from job import SHORT, TINY, Case, Job, main
from running import checkpoints, logged, ranks_of

RUN = [word for word in TINY if "train.steps" not in word] + SHORT + [
    "--run.dir=run", "--metrics.every=1", "--data.val_fraction=0", "--checkpoint.resume=auto"]
AUTO = "--checkpoint.keep_near=auto"


class Near(Case):
    def near_of(self, said):
        near = Path(re.search(r"(?m)^near +(/dev/shm/tessera-\S+):[^:]* per\s+node,\s+for\s+two\s+checkpoints$", said)[1])
        self.addCleanup(shutil.rmtree, near, ignore_errors=True)
        return near

    def test_a_stopped_run_goes_on_from_memory_and_a_finished_one_leaves_nothing(self):
        running = self.running(["train", *RUN, AUTO, "--train.steps=100000", "--optim.schedule=constant"], 2)
        running.wait_for(lambda: max(logged(self.folder / "run"), default=0) >= 5, "step 5")
        os.kill(running.process.pid, signal.SIGUSR1)
        code, said = running.end()
        self.assertEqual(code, 75, said)
        near, (newest,) = self.near_of(said), checkpoints(self.folder / "run")
        disk = self.folder / "run/checkpoints" / newest
        for shard in disk.glob("shard-*"):
            self.assertEqual((near / newest / shard.name).read_bytes(), shard.read_bytes())
            shard.write_bytes(bytes(shard.stat().st_size))
        steps = int(newest[5:]) + 5
        job = self.train(*RUN, AUTO, f"--train.steps={steps}", "--optim.schedule=constant", ranks=2)
        self.assertRegex(job.out, rf"resume +step {steps - 5} from \S+{newest} \((\S+ \S+) in .*, of it \1 near\)")
        self.assertFalse(near.exists())
        self.train(*RUN, "--run.dir=whole", f"--train.steps={steps}", "--optim.schedule=constant", ranks=2)
        self.assertEqual(logged(self.folder / "run"), logged(self.folder / "whole"))

    def test_a_killed_run_keeps_its_copy(self):
        running = self.running(["train", *RUN, AUTO, "--train.steps=100000", "--checkpoint.every=2"], 2)
        running.wait_for(lambda: len(checkpoints(self.folder / "run")) >= 2, "second checkpoint")
        for rank in ranks_of(running.process).values():
            os.kill(rank, signal.SIGKILL)
        near = self.near_of(running.end()[1])
        self.assertTrue(any(near.glob("step-*/shard-00000.h5")))

    def test_a_small_disk_near_costs_a_line(self):
        place = self.folder / "small"
        place.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", place], capture_output=True).returncode:
            self.skipTest("mounting is not allowed here")
        self.addCleanup(subprocess.run, ["umount", "-l", place])
        job = self.train(*RUN, f"--checkpoint.keep_near={place}", "--train.steps=6", "--checkpoint.every=2")
        self.assertEqual(len(re.findall(r"step 2: cannot write .*No space left on device\): .*the disk's is complete",
                                        job.out)), 1, job.everything())
        self.assertEqual((job.out.count("No space left"), len(checkpoints(self.folder / "run"))), (1, 3))
        self.assertEqual(list(place.iterdir()), [])

    def test_too_little_memory_is_named_before_the_first_step(self):
        """As in a container, whose /dev/shm has 64 MB."""
        small = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=200k tmpfs /dev/shm && exec "$0" "$@"']
        job = Job(["train", *RUN, AUTO, "--train.steps=2", "--checkpoint.every=1"], cwd=self.folder, before=small)
        if "unshare" in job.err or "mount:" in job.err:
            self.skipTest("mounting is not allowed here")
        self.assertEqual((job.code, job.err), (0, ""), job.everything())
        self.assertRegex(" ".join(job.out.split()), r"near no copies of checkpoints: \S+: /dev/shm has 205 kB free, and two checkpoints take ")
        self.assertEqual(len(checkpoints(self.folder / "run")), 2)


if __name__ == "__main__":
    main()
