"""Computes the sources of the HTML report again, by h5py and numpy alone: none of the report's functions is used here.

A source is an expression such as max(measured("2-zero3", "/ranks/memory/peak")) / 2. docs/manual/report_numbers.md says what the
functions mean.
"""
import functools
import json
import re

import h5py
import numpy as np

ELEMENT = {"fp32": 4, "bf16": 2, "fp16": 2}


class Sweep:
    """The rows of a sweep's folder: evaluate(source) is the number."""
    def __init__(self, folder):
        self.folder = folder
        self.ranks = {row["name"]: row.get("ranks") for row in json.loads((folder / "sweep.json").read_text())["rows"]}
        self.names = {name: getattr(self, name) for name in FUNCTIONS}
        self.names |= {
            "max": largest, "min": lambda *values: min(np.min(value) for value in values), "median": lambda *values: np.median(values), "mean": np.mean, "quantile": np.quantile, "size": np.size,
            "count": lambda *rows: len(set(rows)), "abs": abs,
            "quantile_of": lambda share, *values: np.quantile(values, share)
        }

    def evaluate(self, source):
        return float(eval(source, {"__builtins__": {}}, self.names))

    # Files of a row: [repeat][attempt]

    @functools.cache
    def files(self, row):
        def number(path):
            digits = re.findall(r"\d+", path.name.split("metrics")[1].removesuffix("h5"))
            return int(digits[0]) if digits else 0

        runs = sorted(self.folder.glob(f"{row}/run*"), key=lambda path: path.name)
        found = [[h5py.File(path, "r") for path in sorted(run.glob("metrics*.h5"), key=number)] for run in runs]
        return [attempts for attempts in found if attempts]

    def last_file(self, row):
        return self.files(row)[0][-1]

    def steps_of(self, attempts, path, skip=None):
        """A column, of every step the last attempt's; with `skip` only steps after warm-up."""
        found = {}
        for file in attempts:
            own = skip if skip is not None else 0
            if skip == "default":
                own = min(10, max(1, len(file["steps/step"]) // 5))
            for place, step in enumerate(file[path.strip("/").split("/")[0] + "/step"][...]):
                found[int(step)] = (place >= own, file[path][place])
        return np.array([value for _, (warm, value) in sorted(found.items()) if warm], dtype=np.float64)

    # Functions of the language

    def timed(self, row, path, warmup="default"):
        values = np.concatenate([self.steps_of(attempts, path, warmup) for attempts in self.files(row)])
        return values[np.isfinite(values)]

    def column(self, row, path):
        return self.steps_of(self.files(row)[0], path)

    def last(self, row, path):
        return self.column(row, path)[-1]

    def first(self, row, path):
        return self.column(row, path)[0]

    def at(self, row, path, place):
        return self.column(row, path)[place]

    def lowest(self, row, path):
        return np.nanmin(self.column(row, path))

    def evaluations(self, row):
        """Steps, seconds of the steps up to them, and losses."""
        steps, losses = (self.column(row, f"/eval/{name}") for name in ("step", "loss"))
        known = np.isfinite(losses)
        spent = dict(zip(self.column(row, "/steps/step"), np.cumsum(self.column(row, "/steps/seconds"))))
        return steps[known], np.array([spent[step] for step in steps[known]]), losses[known]

    def validation_after(self, row, steps):
        return np.interp(steps, self.evaluations(row)[0], self.evaluations(row)[2])

    def validation_in(self, row, seconds):
        return np.interp(seconds, *self.evaluations(row)[1:])

    def seconds_to_evaluation(self, row):
        return self.evaluations(row)[1][-1]

    def seeds(self, *rows):
        return len({tuple(self.last_file(row)["config"].attrs[f"{name}.seed"] for name in ("run", "data")) for row in rows})

    def status(self, row, key):
        return json.loads((self.folder / row / "run/status.json").read_text())[key]

    def exponent(self, seconds, more_seconds, bytes, more_bytes):
        return np.log(more_seconds / seconds) / np.log(more_bytes / bytes)

    def length(self, row, path):
        return len(self.column(row, path))

    def above(self, row, path, limit):
        return np.sum(self.column(row, path) > limit)

    def largest_difference(self, a, b, path):
        columns = []
        for row in (a, b):
            steps = self.column(row, "/steps/step").astype(int)
            columns.append(dict(zip(steps, self.column(row, path))))
        return max(abs(columns[0][step] - columns[1][step]) for step in columns[0].keys() & columns[1].keys())

    def shares(self, row, paths, warmup):
        columns = [
            np.concatenate([self.steps_of(attempts, path, warmup)
                            for attempts in self.files(row)])
            for path in [*paths, "/steps/seconds"]
        ]
        table = np.array(columns)
        return table[:, np.isfinite(table).all(axis=0)]

    def share_of_step(self, row, paths, warmup="default"):
        table = self.shares(row, paths, warmup)
        return table[:-1].sum() / table[-1].sum()

    def seconds_a_step(self, row, paths, warmup="default"):
        table = self.shares(row, paths, warmup)
        return table[:-1].sum() / table.shape[1]

    def dataset(self, row, path):
        return self.last_file(row)[path][...]

    def measured(self, row, path):
        found = [
            file[path][...].astype(np.float64).ravel()
            for attempts in self.files(row)
            for file in attempts
            if path in file
        ]
        values = np.concatenate(found)
        return values[np.isfinite(values) & (values >= 0)]

    def attribute(self, row, path):
        group, _, key = path.rpartition("/")
        return float(str(self.last_file(row)[group].attrs[key]).split()[0])

    def rest_of_step(self, row, warmup="default"):
        names = [f"/steps/time/{name}" for name in self.last_file(row)["steps/time"] if name != "recording"]
        table = self.shares(row, names, warmup)
        return np.maximum(table[-1] - table[:-1].sum(axis=0), 0)

    def orders(self, apart, rows):
        """Of all pairs whose median steps are further apart than a share of the slower one: was the faster one foretold?"""
        steps = [(np.median(self.timed(row, "/steps/seconds")), self.attribute(row, "/prediction/step_seconds")) for row in rows]
        pairs = [(a, b) for place, a in enumerate(steps) for b in steps[place + 1:] if abs(a[0] - b[0]) > apart * max(a[0], b[0])]
        return [(a[0] - b[0]) * (a[1] - b[1]) > 0 for a, b in pairs]

    def pairs(self, apart, *rows):
        return len(self.orders(apart, rows))

    def pairs_right(self, apart, *rows):
        return sum(self.orders(apart, rows))

    def element_bytes(self, row, path):
        _, group, key = path.split("/", 2)
        return ELEMENT[self.last_file(row)[group].attrs[key]]

    def startup(self, row):
        return np.median([attempts[0]["provenance"].attrs["seconds_to_first_step"] for attempts in self.files(row)])

    def ranks_asked(self, row):
        return self.ranks[row]

    def attempts(self, row):
        return len(self.files(row)[0])

    def bytes_a_step(self, row, paths):
        files, last = self.files(row)[0], self.last_file(row)
        alike = [file for file in files if shape_of(file) == shape_of(last)]
        return sum(np.median([sent for file in alike for sent in file[path][...] if sent >= 0]) for path in paths)

    def bench(self, row, file, path, place):
        with h5py.File(self.folder / row / file) as tables:
            return tables[path][place]

    def dumped(self, row, where):
        file, group = where.split(":")
        with h5py.File(self.folder / row / "run" / file) as dump:
            names = []
            dump[group].visititems(lambda key, item: names.append(key) if isinstance(item, h5py.Dataset) else None)
            return np.concatenate([dump[group][key][...].ravel().astype(np.float64) for key in sorted(names)])

    def l2_difference(self, a, b, where):
        return np.linalg.norm(self.dumped(a, where) - self.dumped(b, where))

    def l2_norm(self, row, where):
        return np.linalg.norm(self.dumped(row, where))

    # /schedule

    @functools.cache
    def plan(self, row):
        return json.loads(self.last_file(row)["schedule"].asstr()[()])

    def schedule(self, row, path):
        value = self.plan(row)
        for part in path.split("/"):
            value = value[part]
        return value

    def units(self, row):
        return len(self.plan(row)["units"])

    def padded_elements(self, row):
        return sum(unit["padded"] for unit in self.plan(row)["units"])

    def largest_unit(self, row):
        return max(unit["padded"] for unit in self.plan(row)["units"])

    def unit_elements(self, row, name):
        return next(unit["padded"] for unit in self.plan(row)["units"] if unit["name"] == name)

    def saved_bytes(self, row):
        return sum(saving["bytes"] for saving in self.plan(row)["savings"])

    def scalar_bytes(self, row):
        return sum(entry["bytes"] for entry in self.plan(row)["collectives"] if not entry["in_formula"])

    def collective_calls(self, row):
        return sum(entry["calls"] for entry in self.plan(row)["collectives"])

    def phases(self, row):
        """Column and operation of each phase, from 0 on; the head with its loss ends forward. Init has a share of each unit, and
        behind the first the prologue."""
        plan = self.plan(row)
        played = [plan["segments"][entry["segment"]] for entry in plan["step"]]
        micro_steps = [segment for segment in played if segment["role"] == "micro_step"]
        busiest = max(micro_steps,
                      key=lambda segment: sum(operation["wire_bytes"] > 0 for operation in segment["operations"]))
        placed = list(zip(columns_of(busiest), busiest["operations"]))
        border = next(column for column, operation in placed if operation["name"] == "head+loss")
        found = [[one for one in placed if one[0] <= border], [one for one in placed if one[0] > border]]
        found += [list(zip(columns_of(segment), segment["operations"])) for segment in played if segment["role"] == "update"]
        phases = [shifted(phase) for phase in found if phase]
        init = [(place, {"kind": "share", "unit": unit["name"], "part": None}) for place, unit in enumerate(plan["units"])]
        for entry in plan["prologue"]:
            segment = plan["segments"][entry["segment"]]
            init += [(column + 1, operation) for column, operation in zip(columns_of(segment), segment["operations"])]
        return [init, *phases]

    def drawn_operations(self, row):
        return sum(operation["kind"] != "share" for phase in self.phases(row) for _, operation in phase)

    def cut_operations(self, row):
        return sum(operation["kind"] != "share" and column not in self.columns_shown(row, phase)
                   for phase in self.phases(row) for column, operation in phase)

    def columns_shown(self, row, phase):
        """Up to the end of the second block and from the begin of the last but one; at the end one column behind all but sums;
        of more than 20 the first and the last ten."""
        blocks = {}
        for unit in self.plan(row)["units"]:
            own = [column for column, operation in phase
                   if operation["kind"] in ("share", "forward", "recompute", "backward", "update")
                   and (operation["part"] or operation["unit"]) in [unit["name"], *unit["parts"]]]
            if unit["block"] and own:
                blocks[unit["name"]] = own
        begins, ends = sorted(min(own) for own in blocks.values()), sorted(max(own) for own in blocks.values())
        last = max(column for column, operation in phase if operation["kind"] not in ("norm", "accumulate")) + 1
        shown = sorted({column for column, _ in phase if column <= last})
        if len(blocks) > 4:
            shown = [column for column in shown if column <= ends[1] or column >= begins[-2]]
        return shown if len(shown) <= 20 else shown[:10] + shown[-10:]


def shape_of(file):
    return file["memory/process/planned"].size, file["model"].attrs["tokens_per_step"]


def shifted(phase):
    first = min(column for column, _ in phase)
    return [(column - first, operation) for column, operation in phase]


def columns_of(segment):
    """The first column in which an operation's queue is free and its waits have ended."""
    free, ended, columns = {}, {}, []
    for operation in segment["operations"]:
        waits = operation["waits"] + [after["operation"] for after in operation["after"]]
        columns.append(max([free.get(operation["queue"], 0)] + [ended.get(wait, 0) for wait in waits]))
        free[operation["queue"]] = ended[operation["id"]] = columns[-1] + 1
    return columns


def largest(*values):
    return max(np.max(value) for value in values)


FUNCTIONS = """timed column last first at lowest length above largest_difference share_of_step seconds_a_step dataset measured attribute element_bytes
startup ranks_asked attempts bytes_a_step bench l2_difference l2_norm schedule units padded_elements largest_unit unit_elements saved_bytes
rest_of_step validation_after validation_in seconds_to_evaluation seeds status exponent pairs pairs_right scalar_bytes collective_calls drawn_operations cut_operations""".split()
