"""Event files of TensorBoard, made of a run's metrics: tessera-report --tensorboard DIR."""
from __future__ import annotations

import logging
import sys
import time
from pathlib import Path
from typing import Optional

import numpy as np
import pandas as pd

from .errors import Unreadable, Usage
from .metrics import Metrics

try:
    from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator
    from tensorboard.compat.proto.event_pb2 import Event, SessionLog
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter
except ImportError as missing:
    raise Usage(f"--tensorboard needs the package tensorboard, which {sys.executable} does not have ({missing}). "
                f"Install it beside this Python's packages with: {sys.executable} -m venv --system-site-packages tensorboard-env && "
                "tensorboard-env/bin/pip install tensorboard; then run the report with tensorboard-env/bin/python") from missing

PREFIX = "events.out.tfevents."
logging.getLogger("tensorboard").setLevel(logging.ERROR)  # its reader warns of steps that were done again


class EventFiles:
    """Event files of runs, a folder below `folder` for each. One object serves all passes of --refresh."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runs: dict[str, tuple[pd.DataFrame, Optional[RecordWriter]]] = {}  # what their files hold

    def update(self, name: str, metrics: Metrics) -> Path:
        """Appends the rows from the first step on that the run's files lack, or have otherwise; returns their folder."""
        folder, rows = self._folder / name, metrics.by_step()
        times = rows.pop("train/unix_time").ffill() if "train/unix_time" in rows else pd.Series(np.nan, rows.index)
        rows, times = rows.astype(np.float32), times.fillna(time.time())
        try:
            there, writer = self._runs.get(name) or (_scalars(folder), None)
            old, new = there.align(rows)
            differs = ((old != new) & (old.notna() | new.notna())).any(axis=1)
            if differs.any():
                writer = writer or _new_file(folder)
                _write(writer, rows.loc[differs.idxmax():], times, int(differs.idxmax()))
        except OSError as error:
            raise Unreadable(f"cannot write {folder} ({error.strerror or error})") from error
        self._runs[name] = rows, writer
        return folder


def _scalars(folder: Path) -> pd.DataFrame:
    """What TensorBoard reads there: a column for each tag, by step."""
    if not folder.exists():
        return pd.DataFrame()
    events = EventAccumulator(str(folder), size_guidance={SCALARS: 0}).Reload()
    return pd.DataFrame({tag: pd.Series({one.step: one.value for one in events.Scalars(tag)}) for tag in events.Tags()[SCALARS]})


def _new_file(folder: Path) -> RecordWriter:
    """Opens a file that is read after those in the folder, which is in the order of their names."""
    folder.mkdir(parents=True, exist_ok=True)
    seconds = [path.name[len(PREFIX):].partition(".")[0] for path in folder.glob(PREFIX + "*")]
    after = max([int(time.time()), *(int(second) + 1 for second in seconds if second.isdigit())])
    writer = RecordWriter(open(folder / f"{PREFIX}{after:010d}.tessera", "xb"))  # pylint: disable=consider-using-with
    writer.write(Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())
    return writer


def _write(writer: RecordWriter, rows: pd.DataFrame, times: pd.Series, first: int) -> None:
    """Writes rows in place of all that TensorBoard has read of step `first` and later ones."""
    start = SessionLog(status=SessionLog.START)
    writer.write(Event(wall_time=float(times.get(first, time.time())), step=first, session_log=start).SerializeToString())
    for step, row in rows.iterrows():  # NaN: nothing was measured in this step
        values = [Summary.Value(tag=tag, simple_value=float(value)) for tag, value in row.dropna().items()]
        writer.write(Event(wall_time=float(times[step]), step=int(step), summary=Summary(value=values)).SerializeToString())
    writer.flush()
