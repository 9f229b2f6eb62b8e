"""The command line of tessera-report. Only the standard library is imported before the arguments are right."""
from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any, Optional, Sequence

from .errors import Unreadable, Usage

WIDTH_OF_FILES = 140  # of a table that goes into a file or a pipe
EPILOG = """RUN_OR_SWEEP is the folder of a run, of a sweep (sweep.json), of a sweep's row, or one metrics file. Runs
may be going on or have crashed. Exit codes: 0; 2 usage; 4 something cannot be read or written (the rest is
reported)."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tessera-report", epilog=EPILOG, allow_abbrev=False,
                                     description="Shows runs and sweeps of Tessera as a table, pictures and files.")
    parser.add_argument("paths", nargs="*", metavar="RUN_OR_SWEEP", type=Path)
    parser.add_argument("--baseline", metavar="ROW",
                        help="the row that speed-ups and flags refer to "
                             "(default: the sweep's, else the first with a speed)")
    parser.add_argument("--warmup", metavar="N", type=int,
                        help="leave the first N steps of every attempt out of the timings (default: a fifth, 1 to 10)")
    parser.add_argument("--csv", metavar="FILE", type=Path, help="write the rows as CSV")
    parser.add_argument("--json", metavar="FILE", type=Path,
                        help="write the rows as JSON: a list of objects, null where not known")
    parser.add_argument("--plots", metavar="DIR", type=Path, help="write throughput, loss, time, memory and a step's timeline as pictures")
    parser.add_argument("--format", choices=("png", "svg"), default="png", help="of the pictures (default: png)")
    parser.add_argument("--html", metavar="FILE", type=Path,
                        help="write one self-contained page: recommendation, findings, table, pictures, claims")
    parser.add_argument("--refresh", metavar="SECONDS", type=int,
                        help="with --html or --tensorboard: while runs go on, write page or events again this often; "
                             "the page reloads itself")
    parser.add_argument("--tensorboard", metavar="DIR", type=Path,
                        help="write event files for TensorBoard to DIR/ROW; called again, it appends what is new")
    parser.add_argument("--wandb", action="store_true", help="make an offline run of Weights & Biases in each run's folder")
    parser.add_argument("--compare", nargs=2, metavar=("A", "B"),
                        help="compare the losses of two rows or runs, step by step")
    parser.add_argument("--every", metavar="N", type=int,
                        help="with --compare: show every N-th step (default: about 20 of them)")
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the command; the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if not options.paths and not options.compare:
        parser.error("name at least one run or sweep")
    if options.warmup is not None and options.warmup < 0:
        parser.error(f"--warmup {options.warmup}: 0 or more is allowed")
    if options.every is not None and (options.every < 1 or not options.compare):
        parser.error("--every takes 1 or more, and only with --compare")
    if not options.paths and (options.csv or options.json or options.plots or options.html or options.wandb or options.tensorboard
                              or options.baseline):
        parser.error("--csv, --json, --plots, --html, --tensorboard, --wandb and --baseline need a RUN_OR_SWEEP")
    if options.refresh is not None and (options.refresh < 1 or not (options.html or options.tensorboard)):
        parser.error("--refresh takes 1 or more, and only with --html or --tensorboard")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a name that the terminal's encoding lacks must not end the report
            stream.reconfigure(errors="backslashreplace")
    try:
        events = _event_files(options.tensorboard)
        while True:
            code, goes_on = _report(options, events)
            sys.stdout.flush()
            if not (options.refresh and goes_on):
                return code
            time.sleep(options.refresh)
    except ImportError as error:
        return _missing_package(error)
    except Usage as error:
        return _say(str(error), 2)
    except Unreadable as error:
        return _say(str(error), 4)
    except BrokenPipeError:  # the reader has seen enough (| head)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # errors of files have been caught where they are read and written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _say(f"cannot write the report ({error.strerror or error})", 4)
    except KeyboardInterrupt:
        return 130


def _say(message: str, code: int) -> int:
    print(f"tessera-report: {message}", file=sys.stderr)
    return code


def _missing_package(error: ImportError) -> int:
    if (error.name or "").startswith("tessera_report"):
        raise error
    name = (error.name or "a package").partition(".")[0]
    other = Path("/usr/bin/python3")
    start = "" if other.exists() and Path(sys.executable).samefile(other) else f", and start the report with {other}"
    return _say(f"{sys.executable} has no {name}, which the report needs ({error}). Install Debian's packages with: "
                f"apt-get install python3-h5py python3-numpy python3-pandas python3-matplotlib python3-jinja2{start}", 2)


def _event_files(folder: Optional[Path]) -> Optional[Any]:
    if folder is None:
        return None
    from .tensorboard_export import EventFiles
    return EventFiles(folder)


def _report(options: argparse.Namespace, events: Optional[Any]) -> tuple[int, bool]:
    """The exit code, and whether a row still runs or waits."""
    from .flags import flag_differences
    from .peaks import add_utilization
    from .predicted_text import predictions_text
    from .rows import add_speedups
    from .table import render
    if options.wandb:
        from .wandb_export import export
    if options.html:
        from .html.page import make_page

    rows, problems = _read_rows(options.paths, options.warmup)
    if rows:
        baseline = _baseline(rows, options.baseline)
        add_utilization(rows)
        add_speedups(rows, baseline)
        flag_differences(rows, baseline)
        width = shutil.get_terminal_size((WIDTH_OF_FILES, 24)).columns
        print(render(rows, baseline, max(40, width), options.warmup))
        if compared := predictions_text(rows, baseline, max(40, width), options.warmup):
            print("\n" + compared)
        values = [row.values for row in rows]
        if options.csv:
            _write(options.csv, _csv(values))
        if options.json:
            _write(options.json, _json(values))
        if options.plots:
            _draw(rows, baseline, options.plots, options.format)
        if options.html:
            _write(options.html, make_page(rows, baseline, options.paths, options.warmup, options.refresh))
        if options.wandb:
            for name, run in [(row.name, run) for row in rows for run in row.entry.runs]:
                print(f"written    {export(name, run)}")
        if events:
            for row in rows:
                for number, metrics in enumerate(row.repeats, 1):
                    name = row.name if len(row.repeats) == 1 else f"{row.name}-{number}"
                    print(f"written    {events.update(name, metrics)}")
        unreadable = [problem for row in rows for problem in row.entry.problems]
        if unreadable:  # all of them are in the notes below the table
            more = f" (and {len(unreadable) - 1} more, see the notes)" if len(unreadable) > 1 else ""
            problems.append(unreadable[0] + more)
    if options.compare:
        from .compare import compare
        print(("\n" if rows else "") + compare(*(_row(name, rows) for name in options.compare), options.every))
    sys.stdout.flush()
    for problem in problems:
        _say(problem, 4)
    return 4 if problems else 0, any(row.goes_on for row in rows)


def _read_rows(paths: Sequence[Path], warmup: Optional[int]) -> tuple[list[Any], list[str]]:
    """The rows of all paths, each folder once, and the errors of paths that hold none."""
    from .find import find_entries, name_apart
    from .measures import make_row

    entries, problems = {}, []
    for path in paths:
        try:
            for entry in find_entries(path):
                entries.setdefault(entry.path.resolve(), entry)
        except Unreadable as error:
            problems.append(str(error))
        except OSError as error:
            problems.append(f"{path} cannot be read ({error.strerror or error})")
    name_apart(list(entries.values()))
    return [make_row(entry, warmup) for entry in entries.values()], problems


def _baseline(rows: list[Any], name: Optional[str]) -> Optional[Any]:
    """The row asked for, else the sweep's, else the first one with a speed, if possible one that did not fail: of a sweep in its
    order, of loose runs by their start."""
    from .rows import failed
    if name is not None:
        found = [row for row in rows if row.name == name]
        if not found:
            raise Usage(f"--baseline {name}: no such row; there are {_names(rows)}")
        return found[0]
    with_speed = [row for row in rows if row.values["tokens_per_second"] is not None]
    with_speed = [row for row in with_speed if not failed(row.values)] or with_speed
    if with_speed and not any(row.entry.of_sweep for row in rows):
        with_speed.sort(key=lambda row: str(row.metrics.provenance.get("start_time") or "9"))
    return next((row for row in rows if row.entry.baseline), with_speed[0] if with_speed else None)


def _names(rows: list[Any]) -> str:
    names = [row.name for row in rows]
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def _row(name: str, rows: list[Any]) -> Any:
    """A row by its name, else a run by its path."""
    for row in rows:
        if row.name == name:
            return row
    if not Path(name).exists():
        there = f"no row ({_names(rows)}) and " if rows else ""
        raise Unreadable(f"--compare {name}: {there}no path of a run")
    found, problems = _read_rows([Path(name)], None)
    if problems:
        raise Unreadable(problems[0])
    if len(found) != 1:
        raise Usage(f"--compare {name}: a sweep with {len(found)} rows; name it first, and one of its rows here")
    if found[0].metrics is None:
        raise Unreadable(found[0].notes[0] if found[0].notes else f"{name} has no metrics yet")
    return found[0]


def _csv(values: list[dict[str, Any]]) -> str:
    import pandas
    rows = [{**row, "flags": " ".join(row["flags"])} for row in values]
    return pandas.DataFrame(rows, dtype=object).to_csv(index=False)


def _json(values: list[dict[str, Any]]) -> str:
    import json
    return json.dumps(values, indent=1, allow_nan=False) + "\n"


def _write(path: Path, text: str) -> None:
    """Writes a file completely or leaves it as it was, even if the disk is full."""
    new = path.resolve().with_name(f"{path.name}.tmp")
    if path.exists() and not path.is_file():
        new = path  # /dev/stdout, a pipe
    try:
        new.write_text(text, encoding="utf-8", errors="backslashreplace")  # of file names that are not UTF-8
        if new is not path:
            new.replace(path.resolve())
    except OSError as error:
        if new.is_file():
            new.unlink()
        raise Unreadable(f"cannot write {path} ({error.strerror or error})") from error
    print(f"written    {path}")


def _draw(rows: list[Any], baseline: Optional[Any], folder: Path, kind: str) -> None:
    from .plots import draw
    written, left_out = draw(rows, baseline, folder, kind)
    for path in written:
        print(f"written    {path}")
    for sentence in left_out:
        print(f"plots      {sentence}")
