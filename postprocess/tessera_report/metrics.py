"""The metrics of a run: the files of all its attempts, merged."""
from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import numpy as np
import pandas as pd

from .errors import Unreadable
from .source import GROUPS, Source, read_source

MOST_WARMUP_STEPS = 10


@dataclass
class Metrics:
    """All attempts of a run. `steps` and `evals` are indexed by step, each step once: the later attempt's row.

    `steps` has a column for every dataset below /steps ("loss", "time/forward"), `attempt`, and `place`: how many steps
    of its attempt came before. `evals` has `loss`, of the first validation set, and "NAME/loss" of those with names.
    """

    steps: pd.DataFrame
    evals: pd.DataFrame
    lengths: list[int] = field(default_factory=list)  # steps of each attempt, those that were done again included
    shapes: list[Any] = field(default_factory=list)  # ranks and tokens a step of each attempt, on which speeds depend
    memory: dict[str, np.ndarray] = field(default_factory=dict)  # "activations/planned": [rank], of the last attempt
    ranks: list[dict[str, np.ndarray]] = field(default_factory=list)  # an attempt each
    comm: list[dict[str, np.ndarray]] = field(default_factory=list)  # "all_gather/bytes": [step], one per attempt
    schedule: Optional[str] = None  # JSON of the planned step, of the last attempt that has one
    samples: dict[int, str] = field(default_factory=dict)  # the text that the model wrote after a step; the later attempt's
    config: dict[str, Any] = field(default_factory=dict)  # of the last attempt, like the next three
    provenance: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    prediction: dict[str, Any] = field(default_factory=dict)  # "step_seconds", "time/forward"; of the last attempt
    predicted: set[Any] = field(default_factory=set)  # step_seconds of all attempts; None: without a prediction
    startup_seconds: Optional[float] = None  # of the first attempt that came to its first step
    problems: list[str] = field(default_factory=list)  # files that could not be read

    @property
    def validation_sets(self) -> list[str]:
        """Names of validation sets in the order of their names; none where there is one without a name."""
        return [name.removesuffix("/loss") for name in self.evals if name.endswith("/loss")]

    def validation(self, name: str) -> pd.Series:
        """Losses of a named set by step, in nats per token."""
        return self.evals[f"{name}/loss"]

    @property
    def further_sets(self) -> list[str]:
        """Names of the sets that are not the first, which is `evals["loss"]`."""
        first = self.evals["loss"] if "loss" in self.evals else pd.Series(dtype=np.float64)  # other programs may have sets with names only
        return [name for name in self.validation_sets if not self.validation(name).equals(first.rename(f"{name}/loss"))]

    @property
    def sources(self) -> list[str]:
        """Names of a mixture's sources in the order of their names."""
        return sorted(name.split("/")[1] for name in self.steps if name.startswith("sources/") and name.endswith("/loss"))

    def source(self, name: str) -> pd.Series:
        """Training losses of a source by step, in nats per token, of the steps that count some of it."""
        return self.steps[f"sources/{name}/loss"].dropna()

    @property
    def attempts(self) -> int:
        return len(self.lengths)

    def by_step(self) -> pd.DataFrame:
        """The columns of `steps` as "train/NAME" and of `evals` as "eval/NAME". NaN: not measured in this step."""
        train = self.steps.drop(columns=["attempt", "place"], errors="ignore").add_prefix("train/")
        return train.join(self.evals.add_prefix("eval/"), how="outer")

    def timed(self, warmup: Optional[int] = None) -> pd.DataFrame:
        """The steps after warm-up of the attempts that are `alike`: all but the first `warmup` of each, by default a fifth of
        them, 1 to 10."""
        if self.steps.empty:
            return self.steps
        steps = self.steps[self.steps["attempt"].isin(self.alike)]
        counts = steps["attempt"].map(dict(enumerate(self.lengths)))
        return steps[steps["place"] >= ((counts // 5).clip(1, MOST_WARMUP_STEPS) if warmup is None else warmup)]

    @property
    def alike(self) -> list[int]:
        """Attempts on as many ranks as the last one with steps, with as many tokens a step: others have other speeds, and send
        other bytes."""
        shapes = [shape for shape, length in zip(self.shapes, self.lengths) if length] or self.shapes
        return [attempt for attempt, shape in enumerate(self.shapes) if shape == shapes[-1]]

    @property
    def is_of_one_batch(self) -> bool:
        """Whether all attempts that did steps had as many tokens a step, so that steps tell how many tokens were trained."""
        return len({tokens for (_, tokens), length in zip(self.shapes, self.lengths) if length}) < 2

    @property
    def alike_ranks(self) -> list[dict[str, np.ndarray]]:
        """`ranks` of the attempts that are `alike`: on other ranks a rank has other bytes in use."""
        return [self.ranks[place] for place in self.alike]

    @property
    def is_of_one_shape(self) -> bool:
        """Whether all attempts that did steps were on as many ranks, with as many tokens a step."""
        return len({shape for shape, length in zip(self.shapes, self.lengths) if length}) < 2


def metrics_files(folder: Path) -> list[Path]:
    """metrics.h5, metrics.1.h5, ... in the order of attempts; else metrics.json, which another program leaves."""
    numbered = {}
    for path in folder.glob("metrics*.h5"):
        match = re.fullmatch(r"metrics(?:\.(\d+))?\.h5", path.name)
        if match:
            numbered[int(match.group(1) or 0)] = path
    if not numbered and (folder / "metrics.json").exists():
        return [folder / "metrics.json"]
    return [numbered[number] for number in sorted(numbered)]


def read_metrics(path: Path | str) -> Metrics:
    """Reads a run's folder or one metrics file. Raises Unreadable when there is none, or none that can be read."""
    path = Path(path)
    if not path.exists():
        raise Unreadable(f"{path} does not exist")
    files = [path] if path.is_file() else metrics_files(path)
    if not files:
        raise Unreadable(f"{path} holds no metrics.h5 and no metrics.json")
    sources, problems = [], []
    for file in files:
        try:
            sources.append(read_source(file))
        except Unreadable as error:
            problems.append(str(error))
    if not sources:
        raise Unreadable("; ".join(problems))
    metrics = merge(sources)
    metrics.problems = problems
    return metrics


def merge(sources: list[Source]) -> Metrics:
    """Puts attempts together, first one first."""
    steps, evals = [], []
    for attempt, source in enumerate(sources):
        if source.steps:
            rows = len(source.steps["step"])
            steps.append(pd.DataFrame({**source.steps, "attempt": attempt, "place": np.arange(rows)}).set_index("step"))
        if source.evals:
            evals.append(pd.DataFrame(source.evals).set_index("step"))
    lengths = [len(source.steps.get("step", ())) for source in sources]
    shapes = [(source.memory.get("process/planned", np.array([])).size, source.attributes["model"].get("tokens_per_step"))
              for source in sources]
    metrics = Metrics(_last_of_each(steps), _last_of_each(evals), lengths, shapes)
    metrics.ranks = [source.ranks for source in sources]
    metrics.comm = [source.comm for source in sources]
    metrics.schedule = next((source.schedule for source in reversed(sources) if source.schedule), None)
    for source in sources:
        metrics.samples.update(source.samples)
    told = [source for source, length in zip(sources, lengths) if length] or sources  # a restart at the end has nothing to do
    last = told[-1]
    metrics.config, metrics.provenance, metrics.model, metrics.prediction = (last.attributes[group] for group in GROUPS)
    metrics.predicted = {source.attributes["prediction"].get("step_seconds") for source, length in zip(sources, lengths) if length}
    metrics.memory = next((source.memory for source in reversed(told) if _measured(source)), last.memory)
    starts = (source.attributes["provenance"].get("seconds_to_first_step") for source in sources)
    metrics.startup_seconds = next((seconds for seconds in starts if isinstance(seconds, (int, float))), None)
    return metrics


def _measured(source: Source) -> bool:
    values = source.memory.get("process/measured")
    return values is not None and bool((values >= 0).any())


def _last_of_each(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """The tables under one another, of every step only the last row, in the order of steps."""
    if not tables:
        return pd.DataFrame(index=pd.Index([], name="step", dtype=np.int64))
    table = pd.concat(tables)
    return table[~table.index.duplicated(keep="last")].sort_index()
