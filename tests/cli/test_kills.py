"""SIGKILL at random moments while checkpoints are written every step or two, within a step or while steps go on: `auto`
always resumes from a valid one, no more is lost than the steps after it (while steps go on: and the checkpoint that was
being written), the trajectory is that of a run that nobody killed, and metrics*.h5 hold every step of it once."""
import os
import random
import signal
import time

from job import SHORT, TINY, Case, main
from running import checkpoints, history, logged, ranks_of

KILLS = 200 if "TESSERA_LONG" in os.environ else 6
RUN = [word for word in TINY if "train.steps" not in word] + SHORT + [
    "--run.dir=run", "--metrics.every=1", "--optim.schedule=constant", "--train.eval_every=4", "--train.eval_batches=1"]


class Kills(Case):
    def test_kills_at_random_moments(self):
        self.kill_and_resume(2026)

    def test_more_kills_at_random_moments(self):
        self.kill_and_resume(2027)

    def kill_and_resume(self, seed):
        """Half of the kills."""
        draw = random.Random(seed)
        run = self.folder / "run"
        last = lost = 0
        for _ in range(KILLS // 2):
            there_was_one = bool(checkpoints(run))
            everybody, victim, beside = draw.random() < 0.5, draw.randrange(2), draw.random() < 0.5
            swmr, every = draw.random() < 0.5, draw.choice([1, 1, 2])
            running = self.running(["train", *RUN, "--train.steps=1000000", f"--checkpoint.every={every}",
                                    "--checkpoint.resume=auto", "--shard.strategy=" + draw.choice(["zero3", "ddp"]),
                                    f"--checkpoint.async={str(beside).lower()}", f"--metrics.swmr={str(swmr).lower()}"], 2)
            seen = last
            running.wait_for(lambda: max(logged(run), default=0) > seen, "step after a restart")
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
            last, lost = max(logged(run)), every * (2 if beside else 1)
            self.assertTrue(checkpoints(run) or last <= lost)
            self.check_rows(run, out)
        self.train(*RUN, f"--train.steps={last}", "--checkpoint.resume=auto", ranks=2)
        self.train(*RUN, f"--train.steps={last}", "--run.dir=whole", ranks=2)
        self.assertEqual(logged(run), logged(self.folder / "whole"))
        self.assertEqual(history(run), history(self.folder / "whole"))
        evaluated, expected = (dict(history(folder, "eval")) for folder in (run, self.folder / "whole"))
        self.assertEqual({step: evaluated.get(step) for step in expected if step % 4 == 0},
                         {step: loss for step, loss in expected.items() if step % 4 == 0})
        print(f"{KILLS // 2} kills over {last} steps", flush=True)

    def check_rows(self, run, out):
        """Every step once, up to the newest checkpoint at least."""
        steps = [step for step, _ in history(run)]
        self.assertEqual(steps, list(range(1, len(steps) + 1)), out)
        newest = max((int(name[5:]) for name in checkpoints(run)), default=0)
        self.assertGreaterEqual(len(steps), newest, out)


if __name__ == "__main__":
    main()
