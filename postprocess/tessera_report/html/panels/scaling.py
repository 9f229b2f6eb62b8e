"""Strong and weak scaling with the ideal line."""
from __future__ import annotations

from typing import Callable, Optional

from .. import svg
from ..quantity import Quantity, join, name, percent, show, text, times, whole
from ..quartiles import doubts
from ..study import OF_RANKS, Study, differing, groups
from ..traced import Traced
from .panel import Panel, drawn

Line = tuple[str, list[Traced], list[Quantity]]  # label, rows by ranks, speed of each relative to the first


def strong_groups(study: Study) -> list[list[Traced]]:
    """Rows of one model and one global batch on growing numbers of ranks."""
    rows = [row for row in study.sound if row.values["ranks"] and row.tokens_per_step]
    return growing(groups(rows, OF_RANKS, "tokens_per_step", "parameters"), rows)


def weak_groups(study: Study) -> list[list[Traced]]:
    """Rows whose work per rank and step stays within 20% while the ranks grow: a batch or a model that grows with them."""
    rows = [row for row in study.sound if row.values["ranks"] and row.tokens_per_step and row.flops_per_token]
    found: list[list[Traced]] = []
    for free in ({"train.global_batch", "shard.group_size"}, OF_RANKS | {"model.", "train.micro_batch"}):
        for group in groups(rows, free):
            least = min(row.values["ranks"] for row in group)
            for start in (row for row in group if row.values["ranks"] == least):
                chain = [start]
                for ranks in sorted({row.values["ranks"] for row in group} - {least}):
                    near = {
                        abs(grown - 1): row
                        for row in group
                        if row.values["ranks"] == ranks and 0.8 <= (grown := work(row).value / work(start).value *
                                                                    least / ranks) <= 1.25
                    }
                    chain += [near[min(near)]] if near else []
                if len(chain) > 1 and chain not in found:
                    found.append(chain)
    return found


def work(row: Traced) -> Quantity:
    """FLOPs per step."""
    return row.tokens_per_step * row.flops_per_token


def growing(found: list[list[Traced]], rows: list[Traced]) -> list[list[Traced]]:
    """The groups in the order of ranks, those with several numbers of ranks. On one rank strategies do the same, so a
    group without such a row takes another strategy's. Variants on one number of ranks are left to other pictures."""
    ordered = []
    for group in found:
        group = sorted(group, key=lambda row: row.values["ranks"])
        one = [
            row for row in rows
            if row.values["ranks"] == 1 and group[0].values["ranks"] > 1 and row.values["parameters"] == group[0].
            values["parameters"] and row.values["tokens_per_step"] == group[0].values["tokens_per_step"] and all(
                key in OF_RANKS or key.startswith("shard.") for key in differing(row, group[0]))
        ]
        first: dict[int, Traced] = {}
        for row in one[:1] + group:
            first.setdefault(row.values["ranks"], row)
        ordered.append((len({row.values["ranks"] for row in group}), list(first.values())))
    long = {group[-1].strategy for own, group in ordered if own > 1}
    return [group for own, group in ordered if len(group) > 1 and (own > 1 or group[-1].strategy not in long)]


def strong(study: Study) -> Optional[Panel]:
    """Speed-up over ranks for one model and batch."""
    found = strong_groups(study)
    lines = [(label_of(group, found), group, [row.key("tokens_per_second") / group[0].key("tokens_per_second") for row in group]) for group in found]
    caption = text("One model and one global batch on more ranks. Speed-up: tokens/s over those on the fewest ranks. Grey: the ideal.")
    return _picture(lines, "strong-scaling" + study.suffix, "Strong scaling" + study.scale, "speed-up", caption,
                    lambda group, rank: rank / group[0].values["ranks"])


def weak(study: Study) -> Optional[Panel]:
    """Efficiency over ranks for work that grows with them."""
    lines, found = [], weak_groups(study)
    for group in found:
        speeds = [row.key("tokens_per_second") * row.flops_per_token / row.ranks for row in group]
        lines.append((label_of(group, found), group, [speed / speeds[0] for speed in speeds]))
    caption = text("Work grows with the ranks. Efficiency: model FLOP/s of a rank over those on the fewest ranks. Grey: the ideal.")
    return _picture(lines, "weak-scaling", "Weak scaling", "efficiency", caption, lambda _, __: 1.0)


def label_of(group: list[Traced], found: list[list[Traced]]) -> str:
    """The strategy, or the last row's name where another of the curves has that strategy too."""
    same = [other for other in found if other[-1].strategy == group[-1].strategy]
    return group[-1].name if len(same) > 1 else group[-1].strategy


def _picture(lines: list[Line], key: str, title: str, label: str, caption, ideal: Callable[[list[Traced], int], float]) -> Optional[Panel]:
    if not lines:
        return None
    figure, axes = svg.figure(2.5)
    cells = []
    form = percent if label == "efficiency" else times
    for place, (legend, group, values) in enumerate(lines):
        ranks = [row.values["ranks"] for row in group]
        if place == 0:
            longest = max((group for _, group, _ in lines), key=len)
            every = sorted({row.values["ranks"] for row in longest})
            axes.plot(every, [ideal(longest, rank) for rank in every], color="#b3bcc3", linewidth=3, label="ideal", solid_capstyle="round")
        axes.plot(ranks, [value.value for value in values], marker="o", markersize=4, linewidth=1.3, label=legend, **svg.style_of(place))
        open_marks = [(rank, value.value) for rank, row, value in zip(ranks, group, values) if doubts(row)]
        axes.plot(*zip(*open_marks) if open_marks else ((), ()), "o", markersize=4, markerfacecolor="white", color=svg.style_of(place)["color"])
        cells += [[name(row.name), show(row.ranks, whole), show(value, form)] for row, value in zip(group, values)]
    every = sorted({row.values["ranks"] for _, group, _ in lines for row in group})
    svg.ranks_axis(axes, every)
    if axes.get_xscale() == "log" and label == "speed-up":
        axes.set_yscale("log", base=2)
    else:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}" if label == "efficiency" else f"{value:g}x")
    axes.set_xlabel("ranks")
    axes.set_ylabel(label)
    axes.grid()
    svg.legend(figure, axes)
    if any(doubts(row) for _, group, _ in lines for row in group):
        caption = join([caption, " Open marks: speeds that are not reliable."])
    return drawn(figure, key, title, caption, ["row", "ranks", label], cells)


__all__ = ["strong", "weak", "strong_groups", "weak_groups"]
