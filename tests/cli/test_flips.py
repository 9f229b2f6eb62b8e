"""run.check_every, and a bit that flips in the memory of a running process."""
import os
import re
import signal
import subprocess
import time

import h5py
import numpy as np

from job import SHORT, TIMEOUT, TINY, Case, command, main

RUN = [*TINY, *SHORT, "--run.device=cpu", "--data.val_fraction=0", "--run.dir=run", "--train.steps=1000000",
       "--optim.lr=0", "--checkpoint.every=1000", "--checkpoint.keep=0", "--run.check_every=10"]  # weights stay


class Flips(Case):
    def first(self):
        """The first complete checkpoint, once it is there."""
        begun = time.monotonic()
        while not (found := self.folder / "run/checkpoints/step-00001000").exists():
            self.assertLess(time.monotonic() - begun, TIMEOUT)
            time.sleep(0.05)
        return found

    @staticmethod
    def flip(process, pattern):
        """Flips a bit of a stopped process in all places with this pattern; returns how many."""
        found = 0
        with open(f"/proc/{process}/maps") as maps, open(f"/proc/{process}/mem", "r+b", buffering=0) as memory:
            for line in maps:
                span, rights, *_ = line.split()
                begin, end = (int(word, 16) for word in span.split("-"))
                if not rights.startswith("rw") or "[v" in line or end - begin > 1 << 30:
                    continue
                try:
                    memory.seek(begin)
                    content = memory.read(end - begin)
                except OSError:
                    continue
                for match in re.finditer(re.escape(pattern), content):
                    memory.seek(begin + match.start() + 2)
                    memory.write(bytes([pattern[2] ^ 4]))
                    found += 1
        return found

    def test_a_flip_in_a_running_process_ends_it(self):
        process = subprocess.Popen(command(["train", *RUN]), cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.kill)
        checkpoint = self.first()
        self.assertIn('"checked": true', (checkpoint / "manifest.json").read_text())
        os.kill(process.pid, signal.SIGSTOP)
        with h5py.File(next(checkpoint.glob("shard-*.h5"))) as file:
            weights = file["parameter"][:4096].astype(np.float32)
        self.assertGreater(self.flip(process.pid, weights[1024:1040].tobytes()), 0)
        os.kill(process.pid, signal.SIGCONT)
        out = process.communicate(timeout=TIMEOUT)[0]
        self.assertEqual(process.returncode, 7, out)
        self.assertRegex(out, r"tessera: memory or a processor changed bits, after step \d+ and at the latest in step "
                              r"\d+: the master weights of wte on rank 0 \(\S+\) are not what was written there\. The "
                              r"checkpoint of step \d+ was written after a check: go on from there")


if __name__ == "__main__":
    main()
