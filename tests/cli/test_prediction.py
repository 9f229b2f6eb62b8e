"""A training with plan.cluster: predicted before it starts, compared when it ends."""
import re
from datetime import datetime

import h5py

from job import REFERENCE, SHORT, TINY, Case, main

CORES = REFERENCE.parents[1] / "inputs/clusters/cores.ini"
CATEGORIES = ["data", "forward", "recompute", "backward", "optimizer", "exposed_gather", "exposed_reduce_scatter",
              "exposed_all_reduce", "exposed_other"]


class Prediction(Case):
    def cluster(self, change=lambda text: text):
        """The machine's prices, changed."""
        path = self.folder / "machine.ini"
        path.write_text(change(CORES.read_text()))
        return f"--plan.cluster={path}"

    def test_two_ranks_are_predicted_and_compared(self):
        thousandth = lambda text: re.sub(r"seconds = ([^\n]+)", lambda found: "seconds = " + ", ".join(
            f"{float(one) / 1000:.4g}" for one in found[1].split(",")), text)
        job = self.train(*TINY, *SHORT, self.cluster(thousandth), "--train.steps=8", "--checkpoint.every=8",
                         "--run.dir=run", "--data.val_fraction=0", ranks=2)
        lines = job.out.splitlines()
        predicted = next(at for at, line in enumerate(lines) if re.match(r"predicted  [\d.]+ us a step \+- \d+%, "
                                                                         r".* tokens/s, limited by ", line))
        self.assertLess(predicted, next(at for at, line in enumerate(lines) if line.startswith("step ")))
        self.assertRegex(job.out, r"compared   seconds a step of rank 0, the median of 7 steps\n")
        self.assertRegex(job.out, r"\n  step +[\d.]+ us +\d+% +[\d.]+ [mu]s +[\d.]+\n")
        self.assertRegex(job.out, r"\nfinding    a step took [\d.]+ times its prediction: [\d.]+ [mu]?s a step instead of")
        self.assertRegex(job.out, r"\nfinding    all-gather took [\d.]+ times its price")
        with h5py.File(self.folder / "run/metrics.h5") as file:
            group = file["prediction"]
            self.assertEqual(list(group["time"].attrs), sorted(CATEGORIES))
            self.assertAlmostEqual(sum(group["time"].attrs.values()) + group.attrs["host_seconds"],
                                   group.attrs["step_seconds"])
            self.assertRegex(group.attrs["cluster_hash"], "xxh3:[0-9a-f]{16}$")
            predicted_at = datetime.fromisoformat(group.attrs["predicted_at"].replace("Z", "+00:00")).timestamp()
            self.assertLess(predicted_at, file["steps/unix_time"][0] - file["steps/seconds"][0])
            first = dict(group.attrs)
        self.train(*TINY, *SHORT, self.cluster(), "--train.steps=9", "--checkpoint.resume=auto", "--run.dir=run",
                   "--data.val_fraction=0", ranks=2)
        with h5py.File(self.folder / "run/metrics.1.h5") as file:  # of a resumed run: the prices and plan of that start
            self.assertNotEqual(file["prediction"].attrs["cluster_hash"], first["cluster_hash"])
            self.assertGreater(file["prediction"].attrs["step_seconds"], 10 * first["step_seconds"])

    def test_a_missing_price_ends_a_training_before_it_starts(self):
        less = self.cluster(lambda text: text.replace("[norm backward.fp32]", "[norm backward.fp64]"))
        for command in ("train", "bench step"):
            self.refused(*command.split(), *TINY, *SHORT, less, "--run.dir=run", ranks=2,
                         says=r"machine\.ini.*norm backward\.fp32")

    def test_bench_step_compares(self):
        job = self.do("bench", "step", *TINY, *SHORT, self.cluster(), "--bench.steps=3", "--bench.output=out.h5")
        self.assertRegex(job.out, r"(?s)\npredicted  .*\ncompared  .*\n  forward .*\nfinding ")
        with h5py.File(self.folder / "out.h5") as file:
            table = file["prediction"]
            rows = [one.decode() for one in table["time"][...]]
            self.assertEqual((rows[0], rows[-1]), ("step", "host"))
            self.assertAlmostEqual(table["predicted"][1:].sum(), table["predicted"][0])


if __name__ == "__main__":
    main()
