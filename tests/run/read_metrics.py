"""Checks a metrics file of test_metrics_file.cpp. Usage: read_metrics.py FILE STEPS EVALS closed|alive|killed|growing|cut

growing waits until the file is there and STEPS rows are seen; cut accepts columns of different lengths.
"""
import json
import sys
import time

import h5py
import numpy as np

path, steps, evals, how = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]

COLUMNS = {
    "step": lambda s: s, "skipped": lambda s: s % 3 == 0, "timed": lambda s: s % 2 == 0, "loss": lambda s: 10 / (s + 1), "grad_norm": lambda s: s, "lr": lambda s: 1e-3 * s,
    "seconds": lambda s: 0.5 + 0 * s, "unix_time": lambda s: 1.7e9 + s, "tokens_per_second": lambda s: 1000 + s,
    "time/forward": lambda s: 0.25 * s, "time/backward": lambda s: 0.5 * s,
}


# /ranks: s is a column of steps, r a row of ranks, k the number of a kind of collective.
RANKS = {
    "time/forward": lambda s, r: s + r, "time/backward": lambda s, r: s - r, "memory/process/measured": lambda s, r: s + r,
    "memory/peak": lambda s, r: 2 * s + r,
    "memory/average": lambda s, r: s + r / 4, "device/utilization": lambda s, r: 0.5 * r + 0 * s,
    "device/memory_used": lambda s, r: s * r, "device/power": lambda s, r: 100 + r + 0 * s, "device/energy": lambda s, r: s * r,
}
for k, kind in enumerate(["all_gather", "reduce_scatter", "all_reduce", "broadcast", "exchange"]):
    RANKS[f"comm/{kind}/calls"] = lambda s, r, k=k: r + k + 0 * s
    RANKS[f"comm/{kind}/bytes"] = lambda s, r, k=k: s * (r + 1) + k
    RANKS[f"comm/{kind}/seconds"] = lambda s, r, k=k: s + r + 0.5 * k


def check_ranks(file, reports):
    """[report, rank], each in its place, and nothing else."""
    found = {}
    file["ranks"].visititems(lambda name, item: found.update({name: item}) if isinstance(item, h5py.Dataset) else None)
    assert set(found) == {*RANKS, "report", "steps", "timed_steps", "straggler", "behind_seconds"}, sorted(found)
    steps, ranks = np.arange(reports)[:, None], np.arange(3)[None, :]
    assert found["report"][...].tolist() == list(range(reports))
    assert found["steps"][...].tolist() == [7] * reports and found["timed_steps"][...].tolist() == [2] * reports
    reported = np.arange(reports)
    assert np.array_equal(found["straggler"][...], np.where(reported % 20 == 0, -1, 1))
    assert np.array_equal(found["behind_seconds"][...], 0.5 * reported)
    for name, expected in RANKS.items():
        whole = name.endswith(("calls", "bytes", "measured", "memory_used"))
        assert found[name].dtype == (np.int64 if whole else np.float64), name
        assert np.array_equal(found[name][...], expected(steps, ranks)), name


def opened():
    """The file as soon as its writer lets readers in."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return h5py.File(path, "r", swmr=True)
        except OSError:
            if how != "growing" or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def check_steps(file, at_least):
    """Every column is right as far as it goes; returns the shortest length."""
    lengths = []
    for name, expected in COLUMNS.items():
        data = file["steps/" + name]
        data.refresh()
        values = data[...]
        lengths.append(len(values))
        assert np.array_equal(values, expected(np.arange(len(values), dtype=values.dtype))), name
    for k, kind in enumerate(["all_gather", "reduce_scatter", "all_reduce", "broadcast", "exchange"]):
        for name, expected in {"calls": lambda s: k + 1 + 0 * s, "bytes": lambda s: s * (k + 1),
                               "seconds": lambda s: 0.001 * k + 0 * s}.items():
            data = file[f"comm/{kind}/{name}"]
            data.refresh()
            values = data[...]
            lengths.append(len(values))
            assert np.array_equal(values, expected(np.arange(len(values), dtype=values.dtype))), (kind, name)
    if how in ("closed", "alive", "killed"):
        assert set(lengths) == {at_least}, lengths
    return min(lengths)


if how in ("alive", "killed"):
    try:
        h5py.File(path, "r")
        raise AssertionError("a file that is being written opened without swmr=True")
    except OSError:
        pass

with (h5py.File(path, "r") if how == "closed" else opened()) as file:
    assert file.attrs["format"] == "tessera metrics"
    assert len(file["config"].attrs) == 121
    assert all(file["config"].attrs[f"section.option{i}"] == f"value {i}" for i in range(120))
    assert len(file["config"].attrs["data.long"]) == 70000
    assert file["provenance"].attrs["version"] == "0.1.0"
    assert file["memory/parameters/planned"][...].tolist() == [100, 200, 300]
    assert "measured" not in file["memory/parameters"]
    seen, deadline = check_steps(file, steps), time.monotonic() + 60
    while how == "growing" and seen < steps and time.monotonic() < deadline:
        time.sleep(0.002)
        more = check_steps(file, steps)
        assert more >= seen
        seen = more
    assert seen >= steps, seen
    assert file["provenance"].attrs["load_average_start"] == 0.25
    assert dict(file["model"].attrs) == {"parameters": 1234, "steps_per_epoch": 2.5, "device_peak_source": "unknown"}
    schedule = file["schedule"]
    assert schedule.shape == () and schedule.attrs["format"] == "a format"
    assert h5py.check_string_dtype(schedule.dtype) == ("utf-8", None), schedule.dtype
    assert json.loads(schedule.asstr()[()]) == {"strategy": "zero3", "of": "y" * 100000}
    check_ranks(file, 300 if evals else 0)
    assert len(file["eval/step"]) == len(file["eval/loss"]) == evals
    if evals:
        assert file["eval/loss"][...].tolist() == [2.5 * i for i in range(evals)]
        assert file["eval/step"][...].tolist() == [100 * i for i in range(evals)]
        assert file["memory/process/measured"][...].tolist() == [11, 22, 33]
        assert file["provenance"].attrs["seconds_to_first_step"] == 1.75
