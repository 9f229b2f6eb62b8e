"""Rows of a study as tessera plans them: the parts that two rows share, and a sweep's folder as if they had run."""
import json
import shlex
from pathlib import Path

import numpy as np

from job import Job
from made_sweep import CONFIG, HOST, Made
from reporting import write_metrics

STEPS = 20
# Settings that a schedule does not hold, with their defaults. Rows may differ in one of these alone:
NOT_SCHEDULED = {
    "precision.linear": "compute",  # what linears multiply; stored types are the same
    "precision.fp8_gradients": "e5m2",
    "run.seed": "1",  # the same operations on other weights
    "run.device": "auto",  # the same operations by another device's kernels
    "run.graph": "true",  # the same operations, replayed or submitted one by one
    "precision.matmul": "fp32",  # how a device rounds the factors of fp32 matmuls; all stored types are the same
    "precision.logits": "compute",  # the type in which a kernel keeps data that are not values of the schedule
    "comm.emulate": "none",  # how long a collective takes
    "optim.lr": "0.0006",  # a number that an update reads
}
SCHEDULE = ("ranks", "ranks_per_node", "groups", "accumulation", "micro_batch", "sequence", "architecture", "compute", "reduce",
            "units", "segments", "prologue", "step", "finish", "fresh", "evaluation", "snapshot")
OF_OPERATION = ("kind", "queue", "group", "unit", "part", "reads", "writes", "releases", "waits", "after", "wire_bytes")


class PlannedRow:
    """A row that trains: its options as on the command line, and its plan."""

    def __init__(self, name, ranks, command, *more):
        words = shlex.split(command)
        options = [word for word in words[words.index("train") + 1:] if not word.startswith("--run.dir=")]
        self.name, self.ranks = name, int(ranks)
        self.options = dict(word[2:].split("=", 1) for word in options)
        job = Job(["plan", *options, *more, f"--plan.ranks={ranks}", "--plan.format=json"])
        assert job.code == 0, job.everything()
        self.plan = json.loads(job.out)

    def does(self):
        """Operations with their order, waits and sizes, without the settings that led to them; and the settings that are not in a schedule."""
        kept = {key: self.plan[key] for key in SCHEDULE}
        kept["segments"] = [[{key: operation[key] for key in OF_OPERATION} for operation in segment["operations"]]
                            for segment in kept["segments"]]
        apart = [self.options.get(option, default) for option, default in NOT_SCHEDULED.items()]
        return json.dumps([kept, apart], sort_keys=True)

    def run(self, folder, first_step=1):
        """Metrics as a run of this plan leaves them, with speeds that are made up and losses that fall."""
        plan, memory = self.plan, self.plan["memory"]
        micro_batch, sequence = plan["micro_batch"], plan["sequence"]
        tokens = self.ranks * micro_batch * plan["accumulation"] * sequence
        steps = np.arange(first_step, STEPS + 1)
        rates = 1e5 * self.ranks**0.9 * (1 + 0.01 * np.linspace(-1, 1, len(steps)))
        seconds = tokens / rates
        planned = {name.replace(" ", "_"): size for name, size in memory["categories"].items()}
        groups = {f"memory/{name}/{kind}": [size] * self.ranks for name, size in planned.items() for kind in ("planned", "measured")}
        groups |= {"memory/process/planned": [memory["to_allocate"]] * self.ranks,
                   "memory/process/measured": [memory["to_allocate"]] * self.ranks}
        sent = {"all_gather": 0, "reduce_scatter": 0, "all_reduce": 0}
        for entry in plan["collectives"]:
            sent[entry["name"].split()[0].replace("-", "_")] += entry["bytes"]
        groups |= {f"comm/{name}/bytes": [size] * len(steps) for name, size in sent.items()}
        groups["ranks/device/utilization"] = [[0.9] * self.ranks] * 2
        groups["ranks/report"] = [first_step, STEPS]
        config = {**CONFIG, **self.options, "train.micro_batch": str(micro_batch), "train.seq_len": str(sequence)}
        config.setdefault("run.device", "cpu")
        name = write_metrics(
            Path(folder) / "metrics.h5", {
                "step": steps, "loss": 5 / np.sqrt(steps), "grad_norm": np.linspace(3, 0.5, len(steps)), "seconds": seconds,
                "tokens_per_second": rates, "time/data": 0.01 * seconds, "time/forward": 0.3 * seconds,
                "time/backward": 0.5 * seconds, "time/exposed_gather": 0.05 * seconds
            }, groups, {
                "config": config, "provenance": HOST,
                "model": {
                    "parameters": plan["parameters"], "tokens_per_step": tokens, "steps_per_epoch": 12.5,
                    "flops_per_token_6n": 6.0 * plan["parameters"], "flops_per_token": float(plan["flops_per_token"]),
                    "device_peak_flops": 1e15, "device_peak_source": "datasheet"
                }
            }, schedule=json.dumps(plan))
        return name


def as_if_run(folder, study, baseline, rows, benches, others):
    """A sweep's folder in which all `rows` ended; `benches` and `others` are ranks by the name of a command's row."""
    folder.mkdir()
    made = Made(folder, study, baseline=baseline)
    for row in rows:
        path = made.add(row.name, ranks=row.ranks, made=False)
        row.run(path)
        if row.options.get("run.dump"):
            made.dump(row.name, [1, 2, 3], [0.5, 0.25, 0.125], step=STEPS)
    for name, ranks in benches.items():
        made.bench(name, ranks=ranks)
    for name, (ranks, like, first_step) in others.items():
        like.run(made.add(name, ranks=ranks, made=False, kind="command"), first_step)
    return folder
