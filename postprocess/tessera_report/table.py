"""The table on the terminal: columns that fit side by side, then the others below under the same rows."""
from __future__ import annotations

import textwrap
from typing import Any, Callable, NamedTuple, Optional

import numpy as np

from .metrics import MOST_WARMUP_STEPS
from .rows import OTHER_WORK, Row, failed

GAP = 2


def count(value: float) -> str:
    """A number with three digits: 417, 1.55K, 42.4K, 2.35M."""
    return _scaled(value, ("", "K", "M", "G", "T", "P"))


def _scaled(value: float, units: tuple[str, ...]) -> str:
    """The value in the unit that leaves it three digits, each a thousand of the one before."""
    place = next((place for place in range(len(units)) if abs(value) < 999.5 * 1000.0**place), len(units) - 1)
    return f"{_digits(value / 1000.0**place, whole=place == 0)}{units[place]}"


def flops_text(value: float) -> str:
    text = count(value)
    return f"{text[:-1]} {text[-1]}FLOP/s" if text[-1].isalpha() else f"{text} FLOP/s"


def bytes_text(value: float) -> str:
    return _scaled(value, (" B", " kB", " MB", " GB", " TB"))


def seconds_text(value: float) -> str:
    if value < 0.9995:
        return f"{_digits(value * 1e3)} ms" if value >= 0.9995e-3 else f"{_digits(value * 1e6)} us"
    if value < 99.95:
        return f"{_digits(value)} s"
    minutes, seconds = divmod(round(value), 60)
    return f"{minutes} min {seconds:02} s" if minutes < 100 else f"{value / 3600:.1f} h"


def _digits(value: float, whole: bool = False) -> str:
    """Three significant digits; whole counts may have none after the point."""
    if whole and value == int(value):
        return str(int(value))
    return f"{value:.{max(0, 3 - len(str(int(abs(value)))))}f}"


def share(value: float) -> str:
    return f"{value:.1%}"


def loss(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 1e6 else f"{value:.3e}"


class Column(NamedTuple):
    title: str
    text: Callable[[dict[str, Any]], Optional[str]]  # of a row's values; None where not known
    left: bool = False


def _of(title: str, key: str, form: Callable[[Any], str] = str, left: bool = False) -> Column:
    return Column(title, lambda values: None if values[key] is None else form(values[key]), left)


def _quartiles(values: dict[str, Any]) -> Optional[str]:
    low, high = values["tokens_per_second_q1"], values["tokens_per_second_q3"]
    return None if low is None else f"{count(low)}-{count(high)}"


def _speedup(values: dict[str, Any]) -> Optional[str]:
    """None where a token costs other work than the baseline's, and of a row that failed."""
    return None if values["speedup"] is None or OTHER_WORK & set(values["flags"]) or failed(values) else f"{values['speedup']:.2f}x"


def _final_loss(values: dict[str, Any]) -> Optional[str]:
    if values["final_loss"] is not None:
        return loss(values["final_loss"])
    return "not finite" if "nan" in values["flags"] else None


COLUMNS = [
    _of("row", "row", left=True),
    _of("status", "status", left=True),
    _of("ranks", "ranks"),
    _of("strategy", "strategy", left=True),
    _of("tokens/s", "tokens_per_second", count),
    Column("quartiles", _quartiles),
    Column("speed-up", _speedup),
    Column("loss", _final_loss),
    _of("best", "best_loss", loss),
    _of("validation", "final_validation_loss", loss),
    _of("best val.", "best_validation_loss", loss),
    _of("step", "step_seconds", seconds_text),
    _of("predicted", "predicted_seconds", seconds_text),
    _of("error", "prediction_error", lambda error: f"{error:+.1%}"),
    _of("batch", "batch_seconds", seconds_text),
    _of("epoch", "epoch_seconds", seconds_text),
    _of("planned", "memory_planned", bytes_text),
    _of("peak", "memory_peak", bytes_text),
    _of("average", "memory_average", bytes_text),
    _of("exposed", "exposed_share", share),
    _of("data", "data_share", share),
    _of("MFU", "mfu", share),
    _of("MFU exact", "mfu_exact", share),
    _of("start-up", "startup_seconds", seconds_text),
    Column("flags", lambda values: " ".join(values["flags"]) or None, True),
]
ALWAYS = ("row", "ranks", "strategy")


def render(rows: list[Row], baseline: Optional[Row], width: int, warmup: Optional[int] = None) -> str:
    """The table, what its columns mean, and the notes of flagged rows. Columns unknown for all rows are named below."""
    listed = [row for row in rows if row.trains] or rows
    cells = {column.title: [column.text(row.values) for row in listed] for column in COLUMNS}
    shown = [column for column in COLUMNS if column.title in ALWAYS or any(cells[column.title])]
    unknown = [column.title for column in COLUMNS if column not in shown and column.title != "flags"]
    parts = ["\n".join(_block(block, cells)) for block in _blocks(shown, cells, width)]
    lines = _legend({column.title for column in shown}, baseline, warmup)
    if unknown:
        lines.append(f"not known for any row: {', '.join(unknown)}")
    lines += _formula(rows) + _named_losses(rows)
    if len(listed) < len(rows):
        lines.append(f"without training, so not in the table: {', '.join(row.name for row in rows if row not in listed)}")
    notes = [f"{row.name}: {note}" for row in rows for note in row.notes + _failure(row)]
    for lines in filter(None, (lines, notes)):
        wrapped = (textwrap.fill(line, width, subsequent_indent="  ", break_on_hyphens=False) for line in lines)
        parts.append("\n".join(wrapped))
    return "\n\n".join(parts)


def _width(column: Column, cells: dict[str, list[Optional[str]]]) -> int:
    return max(len(text or "-") for text in [column.title, *cells[column.title]])


def _blocks(columns: list[Column], cells: dict[str, list[Optional[str]]], width: int) -> list[list[Column]]:
    """Columns that fit into the width together; every block begins with the names of the rows."""
    first, *others = columns
    blocks, used = [[first]], _width(first, cells)
    for column in others:
        if used + GAP + _width(column, cells) > width and len(blocks[-1]) > 1:
            blocks.append([first])
            used = _width(first, cells)
        blocks[-1].append(column)
        used += GAP + _width(column, cells)
    return blocks


def _block(columns: list[Column], cells: dict[str, list[Optional[str]]]) -> list[str]:
    lines = []
    for texts in zip(*([column.title, *cells[column.title]] for column in columns)):
        aligned = [(text or "-").ljust(size) if column.left else (text or "-").rjust(size)
                   for text, column, size in zip(texts, columns, (_width(column, cells) for column in columns))]
        lines.append((" " * GAP).join(aligned).rstrip())
    return [lines[0], "-" * max(map(len, lines)), *lines[1:]]


def _legend(titles: set[str], baseline: Optional[Row], warmup: Optional[int]) -> list[str]:
    lines = []
    if "tokens/s" in titles:
        skipped = f"the first fifth of the steps, 1 to {MOST_WARMUP_STEPS}," if warmup is None else f"{warmup} steps"
        against = "no speed-up: the baseline has no tokens/s" if not baseline or baseline.values["tokens_per_second"] is None else (
            f"no speed-up: {baseline.name} failed, or a loss of it is not finite")
        if "speed-up" in titles:
            against = f"speed-up against {baseline.name}"
        lines.append(f"tokens/s and step: median, without {skipped} of each attempt; {against}")
    meanings = {"loss": "of the last step", "best": "lowest of a step", "validation": "the last",
                "predicted": "the step, before the run", "error": "of the prediction, of the measured step",
                "batch": "a micro-batch", "epoch": "an epoch at that pace", "planned": "memory of a rank, the largest",
                "peak": "measured, the largest of all ranks", "average": "measured, mean of ranks",
                "exposed": "share of the time in which compute on rank 0 waited for communication",
                "data": "share of the time for reading the batch"}
    known = [f"{title}: {text}" for title, text in meanings.items() if title in titles]
    return lines + (["; ".join(known)] if known else [])


def _formula(rows: list[Row]) -> list[str]:
    """How MFU is counted, and which peaks it is a share of."""
    peaks: dict[str, list[float]] = {}
    for row in rows:
        if row.values["mfu_formula"]:
            peaks.setdefault(row.values["device_peak_source"] or "source not named", []).append(row.values["mfu_peak_flops"])
    ranges = ((source, dict.fromkeys((flops_text(min(found)), flops_text(max(found))))) for source, found in peaks.items())
    texts = [f"{' to '.join(ends)} ({source})" for source, ends in ranges]
    formula = next((row.values["mfu_formula"] for row in rows if row.values["mfu_formula"]), None)
    if formula is None:
        return []
    return [f"MFU = {formula}; FLOPs a token: 6 N + 12 x heads' width x keys seen in each layer, "
            f"exact: the model's matmuls; peak {', '.join(texts)}"]


def _named_losses(rows: list[Row]) -> list[str]:
    """Last and lowest loss of every validation set and every source of a mixture, where they have names; the table's
    columns are of the first set, and of all sources together."""
    lines = []
    for metrics, row in ((row.metrics, row) for row in rows if row.metrics):
        for what, names, series in (("validation loss", metrics.validation_sets, metrics.validation), ("loss", metrics.sources, metrics.source)):
            values = [(name, series(name).to_numpy(np.float64)) for name in names]
            texts = [f"{name} {loss(found[-1]) if np.isfinite(found[-1]) else '-'} (lowest {loss(np.nanmin(found))})" for name, found in values if np.isfinite(found).any()]
            if texts:
                lines.append(f"{row.name}: {what} of {', '.join(texts)}")
    return lines


def _failure(row: Row) -> list[str]:
    """Why a row has no result, or what one that is done lacks, in its own words."""
    if row.values["status"] in (None, "running", "pending") or not row.values["message"]:
        return []
    code = row.values["code"]
    return [f"{row.values['status']}{f' with code {code}' if code else ''}: {row.values['message']}"]
