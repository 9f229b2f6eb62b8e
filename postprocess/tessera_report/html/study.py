"""The rows of a report together: the baseline, what was asked, and which rows differ in what."""
from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Callable, Optional, Sequence

from ..quantity import Quantity
from ..rows import OTHER_WORK, Row
from ..studies import is_known
from .quantity import Html, text
from .traced import Traced

# Options that follow from the number of ranks where the global batch is fixed.
OF_RANKS = {"train.accumulation", "train.global_batch", "shard.group_size", "shard.reduce"}
SEEDS = ("run.seed", "data.seed")
MOST_NAMES = 3  # of the paths that a study without a name is called by
BATCH = {"train.micro_batch", "train.accumulation", "train.global_batch"}


@dataclass
class Study:
    """Rows in the order of the report. `asked` is the sweep's INI file, `base` the text of its base, where they are
    kept; `arguments` are the command line's options of rows, `files` names that the INI file may have had."""

    rows: list[Traced]
    baseline: Optional[Traced]
    name: str
    asked: Optional[str] = None
    base: Optional[str] = None
    arguments: Sequence[str] = ()
    files: Sequence[str] = ()
    warmup: Optional[int] = None
    suffix: str = ""  # added to keys and titles of pictures that show a part of the rows
    scale: str = ""

    @property
    def is_study(self) -> bool:
        """Whether its file is one of inputs/sweeps, which claims and the checklist are about."""
        return is_known(self.files)

    @property
    def trained(self) -> list[Traced]:
        """Rows with a speed, which a picture of training can show; the baseline first."""
        return [row for row in self.ordered if row.values["tokens_per_second"] is not None]

    @property
    def sound(self) -> list[Traced]:
        """Those of them that did not fail, which can be compared; a row alone is compared with none."""
        return self.trained if len(self.rows) == 1 else [row for row in self.trained if not row.failed]

    @property
    def ordered(self) -> list[Traced]:
        """All rows, the baseline first."""
        return sorted(self.rows, key=lambda row: row is not self.baseline)

    @property
    def alike(self) -> list[Traced]:
        """Sound rows that train the baseline's model on its data, in sequences as long, with its seed."""
        return [row for row in self.sound if not {*OTHER_WORK, "data", "seed"} & set(row.values["flags"])]

    def among(self, beyond: Callable[[Traced], bool]) -> Html:
        """Words for a superlative of `alike`, where a sound row that trains otherwise goes beyond it."""
        others = [row for row in self.sound if row not in self.alike]
        return text(" of the rows that train as the baseline does") if any(map(beyond, others)) else text("")

    def scales(self) -> list["Study"]:
        """This study cut into models of one scale, so that bars can be compared: the baseline's model and those within a
        factor of 10 of its parameters, then the others. Rows that trained nothing are in the first."""
        middle = self.baseline.values["parameters"] if self.baseline else None

        def near(row: Traced) -> bool:
            own = row.values["parameters"]
            return not own or not middle or 0.1 <= own / middle <= 10

        others = [row for row in self.rows if not near(row)]
        first = replace(self, rows=[row for row in self.rows if near(row)])
        return [first, replace(self, rows=others, suffix="-others", scale=": models of another scale")] if others else [first]

    def speedup(self, row: Traced) -> Optional[Quantity]:
        """None for another model than the baseline's, or longer sequences: their tokens cost other work. None of a row that failed."""
        if OTHER_WORK & set(row.values["flags"]) or row.failed:
            return None
        own, other = row.key("tokens_per_second"), self.baseline.key("tokens_per_second") if self.baseline else None
        return own / other if own and other and other.value else None

    def named(self, name: str) -> Optional[Traced]:
        return next((row for row in self.rows if row.name == name), None)

    def pairs(self, options: set[str], key: str) -> list[tuple[Traced, Traced]]:
        """Pairs of sound rows on as many ranks whose settings differ in `key`, and in nothing outside `options`."""
        rows, found = self.sound, []
        for place, one in enumerate(rows):
            for other in rows[place + 1:]:
                differ = differing(one, other)
                if key in differ and differ <= options and one.values["ranks"] == other.values["ranks"]:
                    found.append((one, other))
        return found


def differing(one: Traced, other: Traced) -> set[str]:
    """Names of settings that differ. An option that one of them lacks does not count: peers have fewer."""
    a, b = one.settings(), other.settings()
    return {key for key in a.keys() & b.keys() if a[key] != b[key]}


def groups(rows: Sequence[Traced], free: set[str], *more: str) -> list[list[Traced]]:
    """Rows that agree in all settings but the free ones (names, or how they begin), and in the values `more`."""
    found: dict[tuple, list[Traced]] = {}
    for row in rows:
        settings = tuple(sorted((key, value) for key, value in row.settings().items() if not key.startswith(tuple(free))))
        found.setdefault((settings, *(row.values[key] for key in more)), []).append(row)
    return list(found.values())


def seeds_of(rows: Sequence[Traced]) -> int:
    """How many pairs of seeds."""
    return len({tuple(map(row.option, SEEDS)) for row in rows})


def make_study(rows: list[Row], baseline: Optional[Row], paths: Sequence[Path], warmup: Optional[int]) -> Study:
    traced = [Traced(row) for row in rows]
    first = next((one for one in traced if one.row is baseline), None)
    named = [path.resolve().name for path in paths[:MOST_NAMES]]
    if len(paths) > MOST_NAMES:
        named.append(f"{len(paths) - MOST_NAMES} more")
    study = Study(traced, first, ", ".join(named), warmup=warmup)
    sweep = paths[0] / "sweep.json" if len(paths) == 1 else None
    if sweep is not None and sweep.exists():
        asked = json.loads(sweep.read_text(encoding="utf-8"))
        study.name, study.arguments = asked.get("name") or study.name, asked.get("arguments") or ()
        study.files = (Path(str(asked.get("file", ""))).stem, study.name)
        study.asked, study.base = (_text(sweep.parent / file) for file in ("sweep.ini", "base.ini"))
    return study


def _text(file: Path) -> Optional[str]:
    """The text of a file of the sweep's folder, where it is there."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def blocks(words: str) -> list[tuple[bool, str]]:
    """A comment as paragraphs: (is it laid out, text). Lines that begin with a blank keep their layout, others flow."""
    found: list[tuple[bool, list[str]]] = []
    for line in words.splitlines():
        laid_out = line.startswith(" ")
        if not line.strip() or not found or found[-1][0] != laid_out:
            found.append((laid_out, []))
        if line.strip():
            found[-1][1].append(line)
    return [(laid_out, ("\n" if laid_out else " ").join(lines)) for laid_out, lines in found if lines]


def header(text: str) -> tuple[str, str]:
    """The comment at the head of an INI file as prose, and the rest."""
    lines = text.splitlines()
    end = next((place for place, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return "\n".join(line[1:].removeprefix(" ") for line in lines[:end]), "\n".join(lines[end:]).strip()
