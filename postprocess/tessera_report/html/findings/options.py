"""Findings on pairs of rows that differ in one option."""
from __future__ import annotations

from typing import Optional

import numpy as np

from ..panels.overlap import at_one_batch, several_batches
from ..quantity import Html, join, name, names, nats, percent, show, size, text, times, whole
from ..quartiles import caveat, overlap, unsure
from ..study import Study, differing
from ..traced import Traced
from .losses import loss_difference, same_tokens


def prefetch(study: Study) -> Optional[Html]:
    """How much the first unit ahead hides and takes: over several batches where rows show that, else of a pair of rows."""
    points = several_batches(study.sound)
    line = at_one_batch(points) if points else []
    if len(line) > 1 and all(one.row.memory("gathered_units", "planned") for one in line[:2]):
        off, on = line[0].row, line[1].row
        more = on.memory("gathered_units", "planned") - off.memory("gathered_units", "planned")
        return text("Prefetch: with {depth} gathered ahead compute waits for communication {low} of a step instead of {high} ({on} "
                    "against {off}), for {more} more of gathered units{caveat}.",
                    depth=text("{units} unit" if line[1].depth == 1 else "{units} units",
                               units=show(on.attribute("/config/shard.prefetch_forward"), whole)),
                    low=show(on.key("exposed_share"), percent), high=show(off.key("exposed_share"), percent), on=name(on.name), off=name(off.name),
                    more=show(more, size), caveat=caveat(off, on))
    return _pair(study, {"shard.prefetch_forward", "shard.prefetch_backward"}, "shard.prefetch_forward", "Prefetch")


def reshard(study: Study) -> Optional[Html]:
    options = {"shard.reshard_after_forward", "shard.prefetch_backward", "shard.limit_all_gathers"}
    return _pair(study, options, "shard.reshard_after_forward", "Reshard after forward")


def checkpointing(study: Study) -> Optional[Html]:
    return _pair(study, {"memory.checkpoint"}, "memory.checkpoint", "Activation checkpointing")


def gather_limit(study: Study) -> Optional[Html]:
    return _pair(study, {"shard.limit_all_gathers"}, "shard.limit_all_gathers", "The limit of gathered units")


def unit_size(study: Study) -> Optional[Html]:
    return _pair(study, {"shard.min_params"}, "shard.min_params", "The size of units")


def whole_model(study: Study) -> Optional[Html]:
    """One unit of the whole model against units, which may also differ in when they are gathered, dropped and reduced."""
    timing = {f"shard.{one}" for one in ("wrap", "min_params", "prefetch_forward", "prefetch_backward", "limit_all_gathers", "reshard_after_forward", "reduce")}
    return _pair(study, timing, "shard.wrap", "One unit of the whole model", "model")


def official(study: Study) -> Optional[Html]:
    """Rows of PyTorch against rows with the same options, and with one unit of the whole model: their speed and how far their losses are apart."""
    def timing(key: str, own: Traced) -> bool:
        return key == "shard.strategy" or key.startswith(("shard.prefetch", "shard.re", "precision.reduce")) or (
            key in ("shard.wrap", "shard.min_params") and own.option("shard.wrap") == "model")

    pairs = [(own, other) for other in study.sound if str(other.values["version"]).startswith("PyTorch")
             for own in study.sound if not str(own.values["version"]).startswith("PyTorch") and own.values["ranks"] == other.values["ranks"]
             and ("ddp" in own.strategy.lower()) == ("ddp" in other.strategy.lower()) and all(timing(key, own) for key in differing(own, other))]
    pairs = pairs[:5]
    sentences = [text("{own} trains at {ratio} the speed of {other} ({strategy} of PyTorch){losses}", own=name(own.name), other=name(other.name),
                      ratio=show(own.key("tokens_per_second") / other.key("tokens_per_second"), times), strategy=other.strategy.removeprefix("PyTorch "),
                      losses=text(", with losses at most {apart} nats apart", apart=show(loss_difference(own, other), nats)) if own in same_tokens(study, other)
                      or own is study.baseline else "") for own, other in pairs]
    weak = [own.name for own, other in pairs if unsure(own, other)]
    doubt = unsure(*pairs[0]) if len(pairs) == 1 else text("; the speeds of {rows} are not reliable or not told apart", rows=names(weak)) if weak else ""
    return text("Against PyTorch: {sentences}{doubt}.", sentences=join(sentences, "; "), doubt=doubt) if sentences else None


def graphs(study: Study) -> Optional[Html]:
    return _pair(study, {"run.graph"}, "run.graph", "CUDA graphs")


def _pair(study: Study, options: set[str], key: str, words: str, one_is: Optional[str] = None) -> Optional[Html]:
    """The effect of one option on speed and memory, in the pair of rows with the largest change of speed; a pair that is told
    apart goes first. `one_is`: the value that the second row must have."""
    found = [(a, b) for a, b in study.pairs(options, key) if one_is in (None, a.option(key), b.option(key)) and "PyTorch" not in a.strategy + b.strategy]
    found = [(b, a) if one_is and a.option(key) == one_is else (a, b) for a, b in found]
    pairs = [(a, b, b.key("tokens_per_second") / a.key("tokens_per_second")) for a, b in found]
    if not pairs:
        return None
    a, b, ratio = max(pairs, key=lambda pair: (not overlap(pair[0], pair[1]), abs(np.log(pair[2].value))))
    memory = ""
    if a.values["memory_planned"] and b.values["memory_planned"]:
        memory = text(" and plans {ratio} its memory", ratio=show(b.key("memory_planned") / a.key("memory_planned"), times))
    return text("{words}: {b} ({own}) trains at {ratio} the speed of {a} ({other}){memory}{unsure}.", words=words,
                b=name(b.name), own=_setting(b, key), ratio=show(ratio, times), a=name(a.name), other=_setting(a, key),
                memory=memory, unsure=unsure(a, b))


def _setting(row: Traced, key: str) -> Html:
    return name(f"{key} = {row.option(key)}")
