"""One metrics file, HDF5 or JSON, as plain columns and attributes."""
from __future__ import annotations

import json
import multiprocessing
import os
import pickle
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Optional

import h5py
import numpy as np

from .errors import Unreadable
from .opening import open_hdf5

MOST_SECONDS = 120  # for reading one file
GROUPS = ("config", "provenance", "model", "prediction")
SCHEDULE_FORMAT = "tessera-schedule-1"


@dataclass
class Source:
    """The contents of one file. Columns of a group have one length; a column that the file lacks is not in its dictionary."""

    path: Path
    steps: dict[str, np.ndarray] = field(default_factory=dict)  # name below /steps: "loss", "time/forward"
    evals: dict[str, np.ndarray] = field(default_factory=dict)
    memory: dict[str, np.ndarray] = field(default_factory=dict)  # "activations/planned": [rank]
    ranks: dict[str, np.ndarray] = field(default_factory=dict)  # "memory/peak": [report, rank]
    comm: dict[str, np.ndarray] = field(default_factory=dict)  # "all_gather/bytes": a row for each step
    schedule: Optional[str] = None  # JSON of the planned step
    samples: dict[int, str] = field(default_factory=dict)  # the text that the model wrote after a step
    attributes: dict[str, dict[str, Any]] = field(default_factory=lambda: {group: {} for group in GROUPS})


def read_source(path: Path) -> Source:
    """Reads a metrics file in another process, because the HDF5 library crashes on some damaged files.

    Raises Unreadable with the file's name and the reason.
    """
    if "fork" not in multiprocessing.get_all_start_methods():
        return _read(path)
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    reader = context.Process(target=_read_and_send, args=(path, sender), daemon=True)
    reader.start()
    sender.close()
    try:
        if receiver.poll(MOST_SECONDS):
            result = receiver.recv()
        else:
            result = Unreadable(f"{path} takes more than {MOST_SECONDS} s to read")
    except (EOFError, OSError, pickle.UnpicklingError):
        result = Unreadable(f"{path} is damaged (the HDF5 library crashes on it)")
    reader.kill()
    reader.join()
    if isinstance(result, Unreadable):
        raise result
    return result


def _read_and_send(path: Path, sender: Connection) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the C library's last words ("free(): invalid pointer")
    try:
        sender.send(_read(path))
    except Unreadable as error:
        sender.send(error)


def _read(path: Path) -> Source:
    try:
        source = _read_json(path) if path.suffix == ".json" else _read_hdf5(path)
    except OSError as error:
        raise Unreadable(f"{path} cannot be read ({_reason(error)})") from error
    except (KeyError, RuntimeError, ValueError, TypeError, OverflowError, MemoryError) as error:
        raise Unreadable(f"{path} is damaged ({_reason(error)})") from error
    source.steps = _one_length(path, "steps", source.steps)
    source.evals = _one_length(path, "eval", source.evals)
    for group, columns in (("memory", source.memory), ("ranks", source.ranks), ("comm", source.comm)):
        for name, values in columns.items():
            if values.dtype.kind not in "iuf":
                raise Unreadable(f"{path}: /{group}/{name} holds no numbers")
    return source


def _reason(error: Exception) -> str:
    """The first line of what went wrong, in the operating system's words where there are some."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return (str(error).strip("'\"") or type(error).__name__).splitlines()[0]


def _one_length(path: Path, group: str, columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Cuts the columns to the shortest (a crash may leave one a row ahead) and numbers the steps where they are not.

    A full disk may leave rows without their step: it reads as -1, in files of earlier versions as 0.
    """
    for name, values in columns.items():
        if values.ndim != 1 or values.dtype.kind not in "iuf":
            raise Unreadable(f"{path}: /{group}/{name} is no list of numbers")
    if len(columns.get("step", ())) and columns["step"].dtype.kind == "f":
        raise Unreadable(f"{path}: /{group}/step is no list of whole numbers")
    rows = min((len(values) for values in columns.values()), default=0)
    if "step" in columns:
        unwritten = columns["step"][:rows] < (1 if group == "steps" else 0)
        rows = int(unwritten.argmax()) if unwritten.any() else rows
    cut = {name: values[:rows] for name, values in columns.items()}
    if cut and "step" not in cut:
        cut["step"] = np.arange(1, rows + 1)
    return cut


# HDF5 ----------------------------------------------------------------------------------------------------------------


def _datasets(group: h5py.Group | None, prefix: str = "") -> dict[str, np.ndarray]:
    """All datasets of a group and of the groups in it, by their path in it."""
    found: dict[str, np.ndarray] = {}
    for name in group if group is not None else ():
        item = group[name]
        if isinstance(item, h5py.Dataset):
            found[prefix + name] = item[...]
        elif isinstance(item, h5py.Group):
            found.update(_datasets(item, f"{prefix}{name}/"))
    return found


def _plain(value: Any) -> Any:
    """An attribute as text, int, float or None; NaN stands for what was not known."""
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, np.ndarray):
        value = value.reshape(-1)[0] if value.size == 1 else value.tolist()
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _attributes(group: h5py.Group, prefix: str = "") -> dict[str, Any]:
    """The attributes of a group and of the groups in it, by their path in it."""
    found = {prefix + name: _plain(value) for name, value in group.attrs.items()}
    for name, item in group.items():
        found |= _attributes(item, f"{prefix}{name}/") if isinstance(item, h5py.Group) else {}
    return found


def _read_hdf5(path: Path) -> Source:
    with open_hdf5(path) as file:
        written_by = _plain(file.attrs.get("format", ""))
        version = _plain(file.attrs.get("format_version", 1))
        if written_by not in ("", "tessera metrics") or not isinstance(file.get("steps"), h5py.Group):
            what = f"format {written_by!r}" if written_by not in ("", "tessera metrics") else "no group /steps"
            raise OSError(f"no metrics of a run: {what}")
        if version != 1:
            raise OSError(f"format_version {version}: this reads 1")
        source = Source(path)
        source.steps = _datasets(file["steps"])
        source.evals = _evals(_datasets(file.get("eval")))
        source.memory = _datasets(file.get("memory"))
        source.ranks = _datasets(file.get("ranks"))
        source.comm = _datasets(file.get("comm"))
        source.schedule = _schedule(file)
        source.samples = _samples(file.get("samples"))
        for group in GROUPS:
            if group in file:
                source.attributes[group] = _attributes(file[group])
    return source


def _evals(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """/eval's columns: step, loss, and NAME/loss of each validation set with a name, whose steps are the same."""
    return {name: data for name, data in columns.items() if name in ("step", "loss") or name.endswith("/loss")}


def _schedule(file: h5py.File) -> Optional[str]:
    """The text of /schedule in the format that the report draws; None where there is none, or of another format.

    Raises ValueError where the text is not JSON.
    """
    item = file.get("schedule")
    if not isinstance(item, h5py.Dataset) or _plain(item.attrs.get("format", "")) != SCHEDULE_FORMAT:
        return None
    text = str(_plain(item[()]))
    json.loads(text)  # ValueError: the file is damaged
    return text


def _samples(group: Optional[h5py.Group]) -> dict[int, str]:
    """Step to text. Raises ValueError where a column is of another type."""
    if not isinstance(group, h5py.Group) or not {"step", "text"} <= set(group):
        return {}
    steps, texts = group["step"][...], group["text"][...]
    if steps.ndim != 1 or steps.dtype.kind not in "iu" or texts.ndim != 1 or texts.dtype.kind not in "SO":
        raise ValueError("/samples holds no steps and texts")
    return {int(step): bytes(text).rstrip(b"\0").decode(errors="replace") for step, text in zip(steps, texts)}


# JSON ----------------------------------------------------------------------------------------------------------------


def _option(value: Any) -> Any:
    """An option as the text that metrics.h5 has, so that 1 equals "1"."""
    return str(value).lower() if isinstance(value, bool) else f"{value:.15g}" if isinstance(value, (int, float)) else value


def _read_json(path: Path) -> Source:
    """metrics.json of another program: dataset path -> list, and attribute path ("/model/parameters") -> a value."""
    values = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(values, dict) or not any(name.strip("/").startswith("steps/") for name in values):
        raise OSError('no metrics of a run: {"/steps/loss": [...], ...} is expected')
    source = Source(path)
    columns = {"steps": source.steps, "eval": source.evals, "memory": source.memory, "ranks": source.ranks, "comm": source.comm}
    for name, value in values.items():
        group, _, rest = name.strip("/").partition("/")
        if group in GROUPS:
            source.attributes[group][rest] = _option(value) if group == "config" else _plain(value)
            continue
        if group not in columns or not rest:
            continue
        if not isinstance(value, list):
            raise OSError(f"{name} is no list")
        numbers = [np.nan if number is None else number for number in value]
        columns[group][rest] = np.array(numbers, dtype=None if numbers else np.float64)
    return source
