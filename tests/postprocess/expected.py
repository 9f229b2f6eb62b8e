"""The expected numbers of the report, by h5py and numpy alone: none of the report's functions is used here.

RULES says for every numeric key of a row from which datasets it comes and how; docs/manual/report_numbers.md has the same in
words.
"""
import h5py
import numpy as np

from tessera_report.measure_table import REPORTED  # reporting has set the path

EXPOSED = ["exposed_gather", "exposed_reduce_scatter", "exposed_all_reduce", "exposed_other"]
SIX_N = "flops_per_token_6n"


class Run:
    """The attempts of a run, each step once."""

    def __init__(self, *paths):
        self.files = [h5py.File(path, "r", libver="latest", swmr=True) for path in paths]
        self.last = {}  # step -> (attempt, row), later attempts winning
        for attempt, file in enumerate(self.files):
            self.last.update({int(step): (attempt, row) for row, step in enumerate(file["steps/step"][...])})
        self.steps = sorted(self.last)
        lengths = [len(file["steps/step"]) for file in self.files]
        skipped = [min(10, max(1, length // 5)) for length in lengths]
        self.warm = [step for step in self.steps if self.last[step][1] >= skipped[self.last[step][0]]]

    def column(self, name, steps=None):
        places = [self.last[step] for step in (self.steps if steps is None else steps)]
        return np.array([self.files[attempt][f"steps/{name}"][row] for attempt, row in places])

    def evals(self):
        found = {}
        for file in self.files:
            found.update(zip(file["eval/step"][...].tolist(), file["eval/loss"][...].tolist()))
        return np.array(sorted(found)), np.array([found[step] for step in sorted(found)])

    def memory(self, name):
        return self.files[-1][f"memory/process/{name}"][...]

    def ranks(self):
        return len(self.memory("planned"))

    def model(self, name):
        return self.files[-1]["model"].attrs[name] if "model" in self.files[-1] else np.nan

    def attribute(self, path):
        _, group, name = path.split("/")
        return self.files[-1][group].attrs.get(name, np.nan)

    def config(self, name):
        return self.files[-1]["config"].attrs[name]

    def over_time(self, name):
        """/ranks/memory/NAME of all attempts, where it was measured; none in files of before."""
        found = [file[f"ranks/memory/{name}"][...].ravel() for file in self.files if f"ranks/memory/{name}" in file]
        return [values[values >= 0] for values in found]

    def rate(self, quantile):
        return np.quantile(self.column("tokens_per_second", self.warm), quantile)

    def step(self):
        return np.quantile(self.column("seconds", self.warm), 0.5)

    def per_step(self, names):
        return sum(self.column(f"time/{name}", self.warm) for name in names).sum() / len(self.warm)

    def per_second(self, names):
        return self.per_step(names) * len(self.warm) / self.column("seconds", self.warm).sum()

    def measured(self):
        return self.memory("measured")[self.memory("measured") >= 0]

    def mfu(self, flops):
        return self.rate(0.5) * self.model(flops) / (self.ranks() * self.model("device_peak_flops"))

    def tokens(self):
        if "model" in self.files[-1]:
            return self.model("tokens_per_step")
        return self.ranks() * self.micro_steps() * int(self.config("train.micro_batch")) * int(self.config("train.seq_len"))

    def micro_steps(self):
        if int(self.files[-1]["config"].attrs.get("train.global_batch", 0)) > 0:  # files of before have none
            return int(self.config("train.global_batch")) // (self.ranks() * int(self.config("train.micro_batch")))
        return int(self.config("train.accumulation"))


RULES = {
    "ranks": Run.ranks,
    "attempts": lambda run: len(run.files),
    "steps": lambda run: len(run.steps),
    "timed_steps": lambda run: len(run.warm),
    "tokens_per_second": lambda run: run.rate(0.5),
    "tokens_per_second_q1": lambda run: run.rate(0.25),
    "tokens_per_second_q3": lambda run: run.rate(0.75),
    "final_loss": lambda run: run.column("loss")[-1],
    "best_loss": lambda run: run.column("loss").min(),
    "best_loss_step": lambda run: run.steps[run.column("loss").argmin()],
    "final_validation_loss": lambda run: run.evals()[1][-1],
    "best_validation_loss": lambda run: run.evals()[1].min(),
    "best_validation_loss_step": lambda run: run.evals()[0][run.evals()[1].argmin()],
    "step_seconds": Run.step,
    "batch_seconds": lambda run: run.step() / run.micro_steps(),
    "epoch_seconds": lambda run: run.step() * run.model("steps_per_epoch"),
    "memory_planned": lambda run: run.memory("planned").max(),
    "memory_planned_average": lambda run: run.memory("planned").mean(),
    "memory_peak": lambda run: np.concatenate(run.over_time("peak") or [run.measured()]).max(),
    "memory_average": lambda run: np.concatenate(run.over_time("average") or [run.measured()]).mean(),
    "exposed_seconds": lambda run: run.per_step(EXPOSED),
    "exposed_share": lambda run: run.per_second(EXPOSED),
    "data_seconds": lambda run: run.per_step(["data"]),
    "data_share": lambda run: run.per_second(["data"]),
    "mfu": lambda run: run.mfu(SIX_N),
    "mfu_exact": lambda run: run.mfu("flops_per_token"),
    "mfu_peak_flops": lambda run: run.model("device_peak_flops"),
    "startup_seconds": lambda run: run.files[0]["provenance"].attrs["seconds_to_first_step"],
    "tokens_per_step": Run.tokens,
    **{name: lambda run, path=path: run.attribute(path) for name, path in REPORTED.items()},
    **{name: lambda run, name=name: run.model(name)
       for name in ("parameters", "steps_per_epoch", SIX_N, "flops_per_token", "device_peak_flops")},
}
