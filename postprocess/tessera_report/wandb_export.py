"""Offline runs of Weights & Biases, made of a run's metrics: tessera-report --wandb."""
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from .errors import Unreadable, Usage
from .metrics import read_metrics

try:
    from wandb import Settings, init
except ImportError as missing:
    raise Usage(f"--wandb needs the package wandb, which {sys.executable} does not have ({missing}). "
                f"Install it beside this Python's packages with: {sys.executable} -m venv --system-site-packages wandb-env && "
                "wandb-env/bin/pip install wandb; then run the report with wandb-env/bin/python") from missing


def export(name: str, path: Path) -> Path:
    """Makes an offline run of a run's folder, in its folder wandb, and returns where."""
    metrics = read_metrics(path)
    folder = path.parent if path.is_file() else path
    try:
        run = init(mode="offline", project="tessera", name=name, dir=folder,
                   config={option: _value(text) for option, text in metrics.config.items()},
                   settings=Settings(silent=True, console="off", x_disable_stats=True))
    except OSError as error:
        raise Unreadable(f"cannot write {folder / 'wandb'} ({error.strerror or error})") from error
    for step, row in metrics.by_step().iterrows():  # NaN: nothing was measured in this step
        run.log(row.dropna().to_dict(), step=int(step))
    where = Path(run.dir).parent
    run.finish()
    return where


def _value(text: Any) -> Any:
    """Options are texts in metrics files, if not in metrics.json; W&B sorts and filters by numbers."""
    if not isinstance(text, str):
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
