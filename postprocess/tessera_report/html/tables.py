"""The tables of the report: results, configuration, provenance, and tables of other sections."""
from __future__ import annotations

from typing import Any, Callable, Optional

from ..table import flops_text
from .quantity import Html, decimals, duration, escaped, join, name, optional, percent, short, show, size, text, times, whole
from .study import Study
from .traced import NEUTRAL, Traced

EMPTY = Html("–")
RESULTS: list[tuple[str, str, Callable[[float], str]]] = [("ranks", "ranks", whole),
                                                          ("tokens/s", "tokens_per_second", short),
                                                          ("q1", "tokens_per_second_q1", short),
                                                          ("q3", "tokens_per_second_q3", short),
                                                          ("speed-up", "speedup", times),
                                                          ("loss", "final_loss", decimals),
                                                          ("best", "best_loss", decimals),
                                                          ("validation", "final_validation_loss", decimals),
                                                          ("step", "step_seconds", duration),
                                                          ("batch", "batch_seconds", duration),
                                                          ("epoch", "epoch_seconds", duration),
                                                          ("planned", "memory_planned", size),
                                                          ("peak", "memory_peak", size),
                                                          ("average", "memory_average", size),
                                                          ("exposed", "exposed_share", percent),
                                                          ("data", "data_share", percent), ("MFU", "mfu", percent),
                                                          ("MFU exact", "mfu_exact", percent),
                                                          ("start-up", "startup_seconds", duration)]
PROVENANCE = ("hosts", "cpu", "gpu_name", "version", "git_revision", "kernels", "compiler", "build_type", "mpi_version",
              "nccl_version", "cuda_version", "hdf5_version", "onednn_version", "slurm_job_id", "start_time")
COUNTED = [("ranks", "ranks", whole), ("parameters", "parameters", whole), ("tokens a step", "tokens_per_step", short)]


def table(head: list[str], cells: list[list[Any]], kind: str = "", rows: Optional[list[str]] = None) -> Html:
    """A table in a frame that scrolls by itself. Columns of numbers are right-aligned; `rows` are the classes of lines."""
    numeric = [
        any("<data" in escaped(line[column])
            for line in cells) and all(_is_number(line[column])
                                       for line in cells)
        for column in range(len(head))
    ]

    def cell(tag: str, value: Any, column: int) -> str:
        kind = ' class="n"' if numeric[column] else ""
        scope = ' scope="col"' if tag == "th" else ""
        return f"<{tag}{kind}{scope}>{escaped(value)}</{tag}>"

    lines = ["".join(cell("td", value, column) for column, value in enumerate(line)) for line in cells]
    classes = [f' class="{one}"' if one else "" for one in (rows or [""] * len(lines))]
    body = "\n".join(f"<tr{one}>{line}</tr>" for one, line in zip(classes, lines))
    titles = "".join(cell("th", title, column) for column, title in enumerate(head))
    return Html(
        f'<div class="frame"><table class="{kind}"><thead><tr>{titles}</tr></thead><tbody>\n{body}\n</tbody></table></div>'
    )


def _is_number(value: Any) -> bool:
    """One number and nothing else, or a dash."""
    shown = escaped(value)
    return shown == EMPTY or shown.startswith("<data") and shown.count("<data") == 1 and shown.endswith("</data>")


def results(study: Study, best: Optional[Traced]) -> Html:
    """The sortable table. Columns that no row knows are left out."""
    cells: dict[str, list[Html]] = {
        "row": [name(row.name) for row in study.rows],
        "status": [text("{status}", status=row.values["status"] or "–") for row in study.rows],
        "strategy": [text("{strategy}", strategy=row.strategy or "–") for row in study.rows]
    }
    for title, key, form in RESULTS:
        cells[title] = [optional(study.speedup(row) if key == "speedup" else row.key(key), form) for row in study.rows]
    cells["flags"] = [text("{flags}", flags=" ".join(row.values["flags"]) or "–") for row in study.rows]
    shown = [
        title for title, column in cells.items() if title in ("row", "status") or any(cell != EMPTY for cell in column)
    ]
    lines = [list(line) for line in zip(*(cells[title] for title in shown))]
    classes = [
        " ".join(kind
                 for kind, is_it in (("baseline", row is study.baseline), ("best", row is best))
                 if is_it)
        for row in study.rows
    ]
    return table(shown, lines, "sortable wide-table", classes)


def _options(row: Traced) -> dict[str, str]:
    """Options as the run had them; without train.steps where epochs count instead."""
    config = row.row.metrics.config if row.row.metrics and row.row.metrics.config else row.row.entry.config
    epochs = row.attribute("/config/train.epochs")
    length = "train.epochs" if epochs and epochs.value else "train.steps"
    return {
        key: str(value)
        for key, value in config.items()
        if not key.startswith(NEUTRAL) or key in (length, "run.threads", "run.lanes")
    }


def configuration(study: Study) -> Html:
    """What each row is, the options that differ between rows, and below those that all rows share."""
    options = {row.name: _options(row) for row in study.rows}
    keys = sorted({key for own in options.values() for key in own})
    differ = [key for key in keys if len({own[key] for own in options.values() if key in own}) > 1]
    cells = [[
        name(row.name), *(optional(row.key(key), form) for _, key, form in COUNTED),
        *(text("{value}", value=options[row.name].get(key, "–") or "(empty)") for key in differ)
    ] for row in study.rows]
    head = ["row", *(title for title, _, _ in COUNTED), *differ]
    shared = [key for key in keys if key not in differ and any(own.get(key) for own in options.values())]
    values = {key: next(own[key] for own in options.values() if key in own) for key in shared}
    lines = [[name(key), name(values[key])] for key in shared]
    common = Html(
        f"<details><summary>Options that all rows share</summary>{table(['option', 'value'], lines)}</details>"
    ) if lines else Html("")
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
            text("peak of a device"),
            text("{flops} ({source})",
                 flops=show(with_peak[0].peak, flops_text),
                 source=with_peak[0].values["device_peak_source"] or "source not named")
        ])
    parts = [table(["fact, of all rows", "value"], lines)] if lines else []
    other = [key for key in keys if key not in same]
    if other:
        load = [("load at the start", "load_average_start"), ("load at the end", "load_average_end")]
        cells = [[
            name(row.name), *(text("{value}", value=facts[row.name].get(key, "–")) for key in other),
            *(optional(row.attribute(f"/provenance/{key}"), lambda value: f"{value:.1f}") for _, key in load)
        ] for row in study.rows if row.name in facts]
        parts.append(
            table(["row", *(key.replace("_", " ") for key in other), *(title for title, _ in load)], cells,
                  "wide-table"))
    if peaks_differ:
        parts.append(_peaks(with_peak))
    return join(parts)


def _peaks(rows: list[Traced]) -> Html:
    """Each row's own peak and the one that MFU is a share of."""
    cells = [[
        name(row.name),
        show(row.attribute("/model/device_peak_flops"), flops_text),
        show(row.peak, flops_text),
        name(row.row.peak.name),
        text("{source}", source=row.values["device_peak_source"] or "source not named")
    ] for row in rows]
    words = text("Peak of a rank's device. MFU is a share of the highest that rows on equal devices, ranks and threads "
                 "found in the same type: one measured beside other work is too low.")
    return join([Html(f"<p>{words}</p>"),
                 table(["row", "its own peak", "peak for MFU", "found by", "source"], cells, "wide-table")])
