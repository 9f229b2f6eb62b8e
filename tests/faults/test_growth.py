"""A long run holds no more memory, open files and threads at its end than after its first tenth."""
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))
from job import SHORT, TINY, Case, Running, main, status  # noqa: E402
from running import ranks_of  # noqa: E402

STEPS = 10000 if "TESSERA_LONG" in os.environ else 400
START = STEPS // 10 if STEPS > 1000 else 150
MOST_BYTES = 2 << 20  # of growth per rank: buffers of files that are written now and then


def held_by(process):
    """(resident bytes, open files, threads)"""
    about = Path(f"/proc/{process}")
    pages = int((about / "statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), len(list((about / "fd").iterdir())), len(list((about / "task").iterdir()))


class Growth(Case):
    def test_nothing_grows(self):
        every = STEPS // 100
        running = Running(["train", "--run.dir=run", *TINY, *SHORT, "--train.steps=1000000", f"--train.eval_every={2 * every}",
                           "--train.eval_batches=1", f"--checkpoint.every={every}", "--checkpoint.async=true",
                           "--checkpoint.keep=2", "--run.check_every=7", "--run.queues=parallel"], 2, self.folder)
        self.addCleanup(running.remove)
        seen = {}
        for step in (START, STEPS):
            running.wait_for(lambda: self.step() >= step, f"step {step}", timeout=1200)
            processes = ranks_of(running.process)
            seen[step] = [[min(each) for each in zip(*samples)] for samples in zip(*self.samples(processes))]
            seen[step].append(len(list((self.folder / "run").rglob("*"))))
        running.process.send_signal(signal.SIGUSR1)
        code, out = running.end()
        self.assertEqual(code, 75, out)
        (*first, files), (*last, files_at_end) = seen.values()
        for rank, (before, after) in enumerate(zip(first, last)):
            self.assertLess(after[0] - before[0], MOST_BYTES, f"rank {rank}: {seen}")
            # A slow disk may be writing a checkpoint in every look; what leaks per checkpoint leaks sixty times.
            self.assertLessEqual(after[1], before[1] + 3, f"open files of rank {rank}: {seen}")
            self.assertLessEqual(after[2], before[2] + 1, f"threads of rank {rank}: {seen}")
        self.assertLessEqual(files_at_end, files + 10, "files of the run, one of whose checkpoints may be being written")
        growth = ", ".join(f"{(after[0] - before[0]) / 1024:.0f} KiB" for before, after in zip(first, last))
        files, threads = (max(after[i] - before[i] for before, after in zip(first, last)) for i in (1, 2))
        print(f"long: {STEPS} steps, growth per rank {growth}, {files} open files, {threads} threads", flush=True)

    def step(self):
        """Of status.json, which the run writes now and then."""
        try:
            return status(self.folder / "run")["step"]
        except OSError:
            return 0

    @staticmethod
    def samples(processes):
        """Twenty looks at each rank, because a checkpoint's files and threads are there while it is written."""
        for _ in range(20):
            yield [held_by(processes[rank]) for rank in sorted(processes)]
            time.sleep(0.02)


if __name__ == "__main__":
    main()
