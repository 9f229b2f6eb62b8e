"""Sweeps made by hand, whose answers are known: rows with metrics, a schedule, dumps, tables of bench comm."""
import json

import h5py
import numpy as np

from reporting import write_metrics

STEPS = np.arange(1, 31)
CATEGORIES = ("parameters", "gradients", "optimizer_state", "gathered_units", "activations", "communication",
              "workspace")
CONFIG = {
    "run.seed": "1", "data.seed": "1", "data.source": "texts", "data.order": "shuffled", "shard.wrap": "block",
    "shard.min_params": "1000000",
    "run.graph": "true",
    "train.micro_batch": "4", "train.accumulation": "1", "train.global_batch": "0", "train.seq_len": "64",
    "model.width": "64", "model.layers": "2", "optim.clip": "1", "precision.compute": "fp32",
    "precision.reduce": "fp32", "memory.checkpoint": "none", "comm.emulate": "none", "shard.prefetch_forward": "1",
    "shard.prefetch_backward": "1", "shard.limit_all_gathers": "2", "shard.reshard_after_forward": "true"
}
HOST = {
    "hosts": "node1 x2", "cpu": "AMD EPYC", "load_average_start": 0.4, "seconds_to_first_step": 12.5,
    "git_revision": "0123456789ab"
}
PARAMETERS = 10_000


def operation(number, kind, queue, name, unit=None, part=None, waits=(), after=(), sent=0):
    return {
        "id": number, "kind": kind, "queue": queue, "group": "shard", "name": name, "unit": unit, "part": part,
        "reads": [], "writes": [], "releases": [], "waits": list(waits),
        "after": [{"operation": one, "reason": "prefetch"} for one in after], "wire_bytes": sent, "alive_bytes": 1000
    }


def schedule(ranks, strategy="zero3"):
    """A step of two units with a tied table, as tessera writes it into /schedule, and the bytes that its formula gives."""
    units = [{
        "name": "wte", "elements": 4000, "padded": 4096, "share": 4096 // ranks, "block": False,
        "parts": ["embed", "head"]
    }, {
        "name": "h.0", "elements": 6000, "padded": 6144, "share": 6144 // ranks, "block": True,
        "parts": ["h.0.attn", "h.0.mlp"]
    }]
    elements = 4096 + 6144
    formula = 3 * 4 * elements * (ranks - 1) // ranks
    saved = 4 * 4096 * (ranks - 1) // ranks
    step = [
        operation(0, "load", "load", "load tokens"),
        operation(1, "gather", "gather", "gather wte", "wte", sent=100),
        operation(2, "gather", "gather", "gather h.0", "h.0", sent=100),
        operation(3, "forward", "compute", "forward embed", part="embed", waits=[0, 1]),
        operation(4, "forward", "compute", "forward h.0.attn", part="h.0.attn", waits=[2]),
        operation(5, "gather", "gather", "gather h.0", "h.0", waits=[4], after=[4], sent=100),
        operation(6, "backward", "compute", "head+loss", part="head"),
        operation(7, "backward", "compute", "backward h.0.attn", part="h.0.attn", waits=[5]),
        operation(8, "reduce-scatter", "reduce", "reduce-scatter h.0", "h.0", waits=[7], sent=100)
    ]
    update = [
        operation(9, "all-reduce", "reduce", "all-reduce sums", sent=8),
        operation(10, "update", "compute", "update h.0", "h.0", waits=[9])
    ]
    return {
        "format": "tessera-schedule-1", "strategy": strategy, "ranks": ranks,
        "groups": {"world": ranks, "shard": ranks, "replica": 1}, "accumulation": 1, "micro_batch": 4, "sequence": 64,
        "parameters": PARAMETERS, "prefetch_forward": 1, "prefetch_backward": 1, "units": units,
        "segments": [{"name": "micro-step", "role": "micro_step", "operations": step},
                     {"name": "update", "role": "update",
                      "operations": update}], "prologue": [], "step": [{"segment": 0, "micro_step": 0},
                                                       {"segment": 1,
                                                        "micro_step": 0}], "wire_bytes_per_step": formula - saved,
        "savings": [{"name": "wte: kept from forward to backward",
                     "bytes": saved}], "formula": {"bytes": formula, "terms": []}, "collectives": [{
                         "name": "all-gather of parameters", "group": "shard", "ranks": ranks, "calls": 3,
                         "bytes": formula - saved, "in_formula": True
                     }, {
                         "name": "all-reduce of loss and norm", "group": "world", "ranks": ranks, "calls": 1,
                         "bytes": 8, "in_formula": False
                     }],
        "memory": {
            "categories": {"parameters": 40_000 // ranks, "gradients": 30_000, "optimizer state": 80_000 // ranks},
            "idle": 7000, "host": 0
        }
    }


def run(folder,
        rate=1000.0,
        ranks=2,
        strategy="zero3",
        memory=1_000_000,
        losses=None,
        config=None,
        spread=0.01,
        exposed=0.05,
        reading=0.01,
        parameters=PARAMETERS,
        host=None,
        utilization=None,
        straggler=None,
        prediction=None,
        validation=None):
    """A run of 30 steps: rates around `rate` whose quartiles lie `spread` apart; a rank's peak of memory; shares of the time;
    `prediction`: see predicted(); `validation`: losses of evaluations, the last of them after the last step."""
    losses = 5 / np.sqrt(STEPS) if losses is None else losses
    rates = rate * (1 + spread * np.linspace(-1, 1, len(STEPS)))
    rates[0] = 10
    options = {**CONFIG, "shard.strategy": strategy, **(config or {})}
    tokens = ranks * int(options["train.micro_batch"]) * int(options["train.accumulation"]) * int(
        options["train.seq_len"])
    seconds = tokens / rates
    sharded = strategy == "zero3"
    planned = {
        "parameters": 4 * parameters, "gradients": 4 * parameters, "optimizer_state": 8 * parameters,
        "gathered_units": 0, "activations": 50_000, "communication": 1000, "workspace": 3000
    }
    if sharded:
        planned |= {part: size // ranks
                    for part, size in planned.items()
                    if part in CATEGORIES[:3]} | {"gathered_units": 4 * 6144 if ranks > 1 else 0}
    plan = schedule(ranks, strategy)
    sent = plan["wire_bytes_per_step"] if sharded else 2 * 4 * parameters * (ranks - 1) // ranks
    groups = {
        f"memory/{part}/{kind}": [size] * ranks
        for part, size in planned.items() for kind in ("planned", "measured")
    }
    groups |= {
        "memory/process/planned": [memory * 9 // 10] * ranks, "memory/process/measured": [memory] * ranks,
        "ranks/report": [1, 30], "ranks/memory/peak": [[memory * 0.9] * ranks, [memory] * ranks
                                                       ], "ranks/memory/average": [[memory * 0.8] * ranks] * 2,
        "comm/all_gather/bytes": [sent - (sent // 3 if sharded else 0)] * 30,
        "comm/reduce_scatter/bytes": [sent // 3 if sharded else 0] * 30, "comm/all_gather/calls": [3] * 30,
        "comm/all_reduce/bytes": [8 if sharded and ranks > 1 else 0] * 30
    }
    if validation is not None:
        groups["eval/step"] = STEPS[len(STEPS) % len(validation) + len(STEPS) // len(validation) - 1::len(STEPS) // len(validation)]
        groups["eval/loss"] = np.asarray(validation, dtype=np.float64)
    if straggler is not None:
        groups["ranks/report"] = [1, 15, 30][:len(straggler)]
        groups["ranks/straggler"], groups["ranks/behind_seconds"] = straggler, [0.1 * (rank >= 0) for rank in straggler]
        for name in ("peak", "average"):
            groups[f"ranks/memory/{name}"] = [groups[f"ranks/memory/{name}"][0]] * len(straggler)
    if utilization is not None:
        groups["ranks/device/utilization"] = [[utilization, np.nan][:ranks], [utilization / 2] * ranks]
    times = {
        "time/data": reading * seconds, "time/forward": 0.3 * seconds, "time/backward": 0.5 * seconds,
        "time/exposed_gather": exposed * seconds
    }
    path = write_metrics(
        folder / "metrics.h5", {
            "step": STEPS, "loss": losses, "grad_norm": np.linspace(3, 0.5, len(STEPS)), "tokens_per_second": rates,
            "seconds": seconds, **times
        }, groups, {
            "config": options, "provenance": {**HOST, **(host or {})},
            "model": {
                "parameters": parameters, "tokens_per_step": tokens, "steps_per_epoch": 12.5,
                "flops_per_token_6n": 6.0 * parameters, "flops_per_token": 5.0 * parameters, "device_peak_flops": 1e9,
                "device_peak_source": "datasheet"
            }, **(prediction or {})
        }, schedule=json.dumps(plan))
    return path


def predicted(step, uncertainty=0.06, **shares):
    """A prediction of a step's seconds as attributes, with shares of it like those that run() measures: the rest is the host's."""
    shares = {"data": 0.01, "forward": 0.3, "backward": 0.5, "optimizer": 0.0, "exposed_gather": 0.05, **shares}
    times = {key: share * step for key, share in shares.items()}
    facts = {"step_seconds": step, "uncertainty": uncertainty, "limit": "compute", "host_seconds": step - sum(times.values()),
             "cluster": "machine.ini", "cluster_hash": "xxh3:0123456789abcdef", "predicted_at": "2026-11-25T07:00:00Z"}
    return {"prediction": facts, "prediction/time": times, "prediction/operations": times,
            "prediction/uncertainty": dict.fromkeys(times, uncertainty)}


class Made:
    """A sweep's folder that grows row by row."""
    def __init__(self, folder, name="demo", baseline=None, text="# What is asked here?\n[sweep]\nlimit = 1h\n"):
        self.folder, self.rows = folder, []
        self.about = {"name": name, "baseline": baseline, "arguments": ["--optim.lr=1e-3"]}
        (folder / "sweep.ini").write_text(text)
        (folder / "base.ini").write_text("[model]\nlayers = 1 # <base>\n")

    def add(self, name, status="done", message="", ranks=2, made=True, kind="train", times=None, **options):
        """`times` are those of the row: seconds at which it began and ended."""
        row = self.folder / name
        row.mkdir()
        self.rows.append({"name": name, "ranks": ranks, "kind": kind})
        (self.folder / "sweep.json").write_text(json.dumps({**self.about, "rows": self.rows}))
        (row / "config.ini").write_text("[shard]\nstrategy = zero3\n")
        (row / "status.json").write_text(
            json.dumps({"state": status, "message": message, "code": 0 if status == "done" else 2, "host": "node1",
                        **(dict(zip(("started_unix", "updated_unix"), times)) if times else {})}))
        if made:
            run(row / "run", ranks=ranks, **options)
        return row / "run"

    def dump(self, name, weights, gradients, step=30):
        """The dump of the last step, as run.dump = 30 leaves it."""
        with h5py.File(self.folder / name / f"run/dump-{step:08}.h5", "w") as file:
            file["weights/wte"], file["gradients/wte"] = np.asarray(weights,
                                                                    dtype=np.float32), np.asarray(gradients,
                                                                                                  dtype=np.float32)

    def bench(self, name, ranks=2, speeds=(1.0, ), times=None):
        """A row with the tables of tessera bench comm, of a repeat for each speed."""
        first = self.add(name, ranks=ranks, made=False, kind="command", times=times)
        for repeat, speed in enumerate(speeds, start=1):
            folder = first if repeat == 1 else first.with_name(f"run.{repeat}")
            folder.mkdir()
            lines = [(kind, by, size, size / (speed * rate)) for kind in ("all_gather", "reduce_scatter")
                     for by, rate in (("shared memory", 4e9), ("MPI", 1e9))
                     for size in (1_000_000, 10_000_000, 100_000_000)]
            with h5py.File(folder / "bench.h5", "w") as file:
                columns = list(zip(*lines))
                file["comm/collective"], file["comm/by"] = [[text.encode() for text in column] for column in columns[:2]]
                file["comm/bytes"], file["comm/seconds"] = np.array(columns[2]), np.array(columns[3])
                file["comm/bus_bandwidth"] = np.array(columns[2]) / np.array(columns[3]) / 2


def course(folder):
    """A sweep that has something for every picture that cores can give, every question and every task."""
    made = Made(folder, "course", baseline="memory-1")
    for ranks in (1, 2, 4):
        made.add(f"memory-{ranks}",
                 ranks=ranks,
                 rate=1000.0 * ranks**0.8,
                 memory=2_000_000 // ranks,
                 config={"train.accumulation": str(4 // ranks)})
        made.add(f"weak-{ranks}", ranks=ranks, rate=900.0 * ranks**0.9, config={"train.micro_batch": "8"})
    two = {"train.accumulation": "2"}
    off = {**two, "shard.prefetch_forward": "0", "shard.prefetch_backward": "0"}
    made.add("prefetch-off", rate=1500, exposed=0.2, config=off)
    made.add("latency-on", rate=900, exposed=0.3, config={**two, "comm.emulate": "0.002,0"})
    made.add("latency-off", rate=600, exposed=0.5, config={"comm.emulate": "0.002,0", **off})
    made.add("reshard-off", rate=1600, config={**two, "shard.reshard_after_forward": "false"})
    made.add("2-ddp", rate=1700, strategy="ddp", config=two, utilization=0.9)
    made.add("2-zero2", rate=1650, strategy="zero2", config=two, straggler=(-1, 1, 1))
    for micro_batch, steps in ((2, 1), (2, 2), (4, 1)):
        made.add(f"batch-{micro_batch}-{steps}",
                 rate=1200 + 10 * steps,
                 config={"train.micro_batch": str(micro_batch), "train.accumulation": str(steps)})
    made.add("big", status="does-not-fit", message="needs 120 GB a rank", made=False)
    made.bench("bandwidth-2", speeds=(1.0, 0.5, 3.0))
    for ranks in (1, 2):
        made.add(f"toy-{ranks}",
                 ranks=ranks,
                 rate=9000,
                 parameters=150,
                 config={"model.width": "2", "train.global_batch": "0"})
        made.dump(f"toy-{ranks}", [1, 2, 3 + 0.5 * (ranks - 1)], [0.5, 0.25, 0.125])
    return made
