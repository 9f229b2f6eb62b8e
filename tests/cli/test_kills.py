"""SIGKILL at random moments while a checkpoint is written every step, in the step or beside it: `auto` always resumes from a
valid one, at most one step is lost (beside the steps: one more, whose checkpoint was being written), and the trajectory is
that of a run that nobody killed."""
import os
import random
import signal
import time

from job import SHORT, TINY, Case, main
from running import Running, checkpoints, logged, ranks_of

KILLS = 200 if "TESSERA_LONG" in os.environ else 20
RUN = [word for word in TINY if "train.steps" not in word] + SHORT + [
    "--run.dir=run", "--metrics.every=1", "--optim.schedule=constant", "--data.val_fraction=0"]


class Kills(Case):
    def test_kills_at_random_moments(self):
        self.kill_and_resume(2026)

    def test_more_kills_at_random_moments(self):
        self.kill_and_resume(2027)

    def kill_and_resume(self, seed):
        """Half of the kills."""
        draw = random.Random(seed)
        last = lost = 0
        for _ in range(KILLS // 2):
            there_was_one = bool(checkpoints(self.folder / "run"))
            everybody, victim, beside = draw.random() < 0.5, draw.randrange(2), draw.random() < 0.5
            running = Running(["train", *RUN, "--train.steps=1000000", "--checkpoint.every=1", "--checkpoint.resume=auto",
                               "--shard.strategy=" + draw.choice(["zero3", "ddp"]),
                               f"--checkpoint.async={str(beside).lower()}"], 2, self.folder)
            self.addCleanup(running.remove)
            seen = last
            running.wait_for(lambda: max(logged(self.folder / "run"), default=0) > seen, "step after a restart")
            ranks = ranks_of(running.process)
            time.sleep(draw.random() * 0.3)
            for rank in ranks:
                if everybody or rank == victim:
                    os.kill(ranks[rank], signal.SIGKILL)
            code, out = running.end()
            self.assertNotEqual(code, 0, out)
            if there_was_one:
                self.assertRegex(out, r"resume +step \d+ from", out)
                resumed = int(out.split("resume     step ")[1].split()[0])
                self.assertGreaterEqual(resumed, last - lost, out)
            self.assertNotIn("passed over", out)
            last, lost = max(logged(self.folder / "run")), 2 if beside else 1
            self.assertTrue(checkpoints(self.folder / "run") or last <= lost)
        self.train(*RUN, f"--train.steps={last}", "--run.dir=whole", ranks=2)
        whole = logged(self.folder / "whole")
        self.assertEqual(logged(self.folder / "run"), whole)
        print(f"{KILLS // 2} kills over {last} steps", flush=True)


if __name__ == "__main__":
    main()
