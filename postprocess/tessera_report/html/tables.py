"""The tables of the report: results, configuration, provenance, and tables of other sections."""
from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Callable, Optional

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..table import flops_text
from .quantity import Html, decimals, duration, escaped, join, name, optional, percent, short, show, signed, size, text, times, whole
from .study import Study
from .traced import NEUTRAL, Traced, link_text

TEMPLATES = Environment(loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True, trim_blocks=True, undefined=StrictUndefined)
EMPTY = Html("–")
RESULTS: list[tuple[str, str, Callable[[float], str]]] = [("ranks", "ranks", whole),
                                                          ("tokens/s", "tokens_per_second", short), ("speed-up", "speedup", times),
                                                          ("loss", "final_loss", decimals), ("best", "best_loss", decimals),
                                                          ("validation", "final_validation_loss", decimals), ("step", "step_seconds", duration),
                                                          ("predicted", "predicted_seconds", duration), ("error", "prediction_error", signed),
                                                          ("batch", "batch_seconds", duration), ("epoch", "epoch_seconds", duration),
                                                          ("average", "memory_average", size), ("exposed", "exposed_share", percent),
                                                          ("data", "data_share", percent), ("MFU", "mfu", percent),
                                                          ("MFU exact", "mfu_exact", percent), ("start-up", "startup_seconds", duration)]
# Columns of two numbers, with the text between them.
PAIRS = [("quartiles", "–", "tokens_per_second_q1", "tokens_per_second_q3", short), ("planned / peak", " / ", "memory_planned", "memory_peak", size)]
SHOWN = ("status", "ranks", "strategy", "tokens/s", "quartiles", "speed-up", "loss", "validation", "step", "planned / peak", "exposed",
         "MFU", "flags")  # the others stand in another table
PROVENANCE = ("hosts", "cpu", "gpu_name", "version", "git_revision", "kernels", "compiler", "build_type", "mpi_version",
              "nccl_version", "cuda_version", "hdf5_version", "onednn_version", "slurm_job_id", "start_time")
COUNTED = [("ranks", "ranks", whole), ("parameters", "parameters", whole), ("tokens a step", "tokens_per_step", short)]


def table(head: list[str], cells: list[list[Any]], kind: str = "", rows: Optional[list[str]] = None) -> Html:
    """A table in a frame that scrolls by itself. Columns of numbers are right-aligned; `rows` are the classes of lines."""
    numeric = [any("<data" in escaped(line[column]) for line in cells) and all(_is_number(line[column]) for line in cells)
               for column in range(len(head))]
    return Html(TEMPLATES.get_template("table.html").render(head=head, cells=cells, kind=kind, numeric=numeric, rows=rows or [""] * len(cells)))


TEMPLATES.globals.update(name=name, table=table)


def _is_number(value: Any) -> bool:
    """A number or two and nothing else, or a dash."""
    return not re.sub(r"<data.*?</data>", "", escaped(value)).strip(" /–")


def results(study: Study, best: Optional[Traced], by_loss: bool = False) -> Html:
    """The sortable table of what is asked first, by validation loss where that is asked, and one of the other columns. Columns that no row knows are left out, the
    status too where all rows are done, and rows that train nothing."""
    rows = [row for row in study.rows if row.row.trains] or study.rows
    if by_loss:
        rows = sorted(rows, key=lambda row: row.values["final_validation_loss"] or float("inf"))
    cells: dict[str, list[Html]] = {
        "row": [name(row.name) for row in rows], "status": [text("{status}", status=row.values["status"] or "–") for row in rows],
        "strategy": [text("{strategy}", strategy=row.strategy or "–") for row in rows],
        "flags": [text("{flags}", flags=" ".join(row.values["flags"]) or "–") for row in rows]
    }
    for title, key, form in RESULTS:
        cells[title] = [optional(study.speedup(row) if key == "speedup" else row.key(key), form) for row in rows]
    for title, between, one, other, form in PAIRS:
        pairs = [[optional(row.key(key), form) for key in (one, other)] for row in rows]
        cells[title] = [EMPTY if pair == [EMPTY, EMPTY] else join(pair, between) for pair in pairs]
    known = [title for title, column in cells.items() if any(cell != EMPTY for cell in column)]
    if all(row.values["status"] == "done" for row in rows):
        known.remove("status")
    classes = [" ".join(kind for kind, is_it in (("baseline", row is study.baseline), ("best", row is best)) if is_it) for row in rows]

    def part(titles: list[str]) -> Html:
        shown = ["row", *titles]
        return table(shown, [list(line) for line in zip(*(cells[title] for title in shown))], "sortable wide-table", classes)

    more = [title for title, *_ in RESULTS if title in known and title not in SHOWN]
    others = [name(row.name) for row in study.rows if row not in rows]
    return join([
        part([title for title in SHOWN if title in known]),
        Html(f'<details class="fold"><summary>More columns</summary>{part(more)}</details>') if more else "",
        Html(f'<p class="facts">{text("Without training, so not in the table: {others}.", others=join(others, ", "))}</p>') if others else ""
    ])


def _options(row: Traced) -> dict[str, str]:
    """Options as the run had them; without train.steps where tokens or epochs count instead."""
    config = row.row.metrics.config if row.row.metrics and row.row.metrics.config else row.row.entry.config
    given = [name for name in ("train.tokens", "train.epochs") if (value := row.attribute(f"/config/{name}")) and value.value]
    length = given[0] if given else "train.steps"
    if row.micro_steps and "train.accumulation" in config:  # what it is where train.global_batch decides
        config = {**config, "train.accumulation": whole(row.micro_steps.value)}
    return {
        key: link_text(str(value)) if key == "comm.emulate" else str(value)
        for key, value in config.items()
        if not key.startswith(NEUTRAL) or key in (length, "run.threads", "run.queues")
    }


def configuration(study: Study) -> Html:
    """The name of each row, the options that differ between rows, and below those that all rows share."""
    rows = [row for row in study.rows if row.row.trains] or study.rows
    options = {row.name: _options(row) for row in rows}
    keys = sorted({key for own in options.values() for key in own})
    differ = [key for key in keys if len({own[key] for own in options.values() if key in own}) > 1]
    cells = [[
        name(row.name), *(optional(row.key(key), form) for _, key, form in COUNTED),
        *(text("{value}", value=options[row.name].get(key, "–") or "(empty)") for key in differ)
    ] for row in rows]
    head = ["row", *(title for title, _, _ in COUNTED), *differ]
    shared = [key for key in keys if key not in differ and any(own.get(key) for own in options.values())]
    values = {key: next(own[key] for own in options.values() if key in own) for key in shared}
    lines = [[name(key), name(values[key])] for key in shared]
    common = Html(f"<details><summary>Options that all rows share</summary>{table(['option', 'value'], lines)}</details>") if lines else Html("")
    return join([table(head, cells, "wide-table"), common])


def provenance(study: Study) -> Html:
    """Where and with what the rows ran; equal facts stand once."""
    facts = {
        row.name: {
            key: str(row.row.metrics.provenance[key])
            for key in PROVENANCE
            if row.row.metrics.provenance.get(key) not in (None, "")
        }
        for row in study.rows
        if row.row.metrics
    }
    keys = [key for key in PROVENANCE if any(key in own for own in facts.values())]
    same = [key for key in keys if len({own.get(key) for own in facts.values()}) == 1]
    lines = [[text("{key}", key=key.replace("_", " ")), name(next(iter(facts.values()))[key])] for key in same]
    with_peak = [row for row in study.trained if row.peak]
    peaks_differ = len({row.attribute("/model/device_peak_flops").value for row in with_peak}) > 1
    if with_peak and not peaks_differ:
        lines.append([
            text("peak of a device"), text("{flops} ({source})",
                 flops=show(with_peak[0].peak, flops_text), source=with_peak[0].values["device_peak_source"] or "source not named")
        ])
    parts = [table(["fact, of all rows", "value"], lines)] if lines else []
    other = [key for key in keys if key not in same]
    if other:
        load = [("load at the start", "load_average_start"), ("load at the end", "load_average_end")]
        cells = [[
            name(row.name), *(text("{value}", value=facts[row.name].get(key, "–")) for key in other),
            *(optional(row.attribute(f"/provenance/{key}"), lambda value: f"{value:.1f}") for _, key in load)
        ] for row in study.rows if row.name in facts]
        parts.append(table(["row", *(key.replace("_", " ") for key in other), *(title for title, _ in load)], cells, "wide-table"))
    if peaks_differ:
        parts.append(_peaks(with_peak))
    return join(parts)


def _peaks(rows: list[Traced]) -> Html:
    """Each row's own peak and the one that MFU is a share of."""
    cells = [[
        name(row.name), show(row.attribute("/model/device_peak_flops"), flops_text), show(row.peak, flops_text), name(row.row.peak.name),
        text("{source}", source=row.values["device_peak_source"] or "source not named")
    ] for row in rows]
    words = text("Peak of a rank's device. MFU is a share of the highest that rows on equal devices, ranks and threads "
                 "found in the same type: one measured beside other work is too low.")
    return join([Html(f"<p>{words}</p>"), table(["row", "its own peak", "peak for MFU", "found by", "source"], cells, "wide-table")])
