"""How far two runs' dumps are apart: weights and gradients of one step (run.dump)."""
from __future__ import annotations

import math
from pathlib import Path
from typing import Optional

import h5py
import numpy as np

from tessera_report.opening import open_hdf5
from tessera_report.html.quantity import Quantity, call
from tessera_report.html.traced import Traced

GROUPS = {"parameters": "weights", "gradients": "gradients"}


def _last_dump(row: Traced) -> Optional[Path]:
    """The dump of the last step in the row's first run."""
    folder = row.row.entry.runs[0] if row.row.entry.runs else None
    found = sorted(folder.glob("dump-*.h5")) if folder is not None and folder.is_dir() else []
    return found[-1] if found else None


def dump_differences(one: Traced, other: Traced) -> list[tuple[str, Quantity, Quantity]]:
    """What, the L2 norm of the difference, and the L2 norm of the first row's; nothing where a run left no dump."""
    a, b = _last_dump(one), _last_dump(other)
    if a is None or b is None or a.name != b.name:
        return []
    found = []
    with open_hdf5(a) as left, open_hdf5(b) as right:
        for what, group in GROUPS.items():
            names = _tensors(left[group])
            if names != _tensors(right[group]):
                return []
            difference = math.sqrt(
                sum(
                    float(((left[group][key][...].astype(np.float64) - right[group][key][...])**2).sum())
                    for key in names))
            norm = math.sqrt(sum(float((left[group][key][...].astype(np.float64)**2).sum()) for key in names))
            found.append((what, call(difference, "l2_difference", one.name, other.name,
                                     f"{a.name}:/{group}"), call(norm, "l2_norm", one.name, f"{a.name}:/{group}")))
    return found


def _tensors(group: h5py.Group) -> list[str]:
    """Paths of all datasets in a group, sorted."""
    names: list[str] = []
    group.visititems(lambda key, item: names.append(key) if isinstance(item, h5py.Dataset) else None)
    return sorted(names)
