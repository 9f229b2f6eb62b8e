"""read_checkpoint.py FOLDER [SHARD THAT IS MISSING]: every element of tests/checkpoint/checkpoint_case.hpp through h5py."""
import json
import sys
from pathlib import Path

import h5py
import numpy as np

folder, missing = Path(sys.argv[1]), sys.argv[2:]
manifest = json.loads((folder / "manifest.json").read_text())
names = [tensor["name"] for tensor in manifest["tensors"]]
kinds = ["parameter", "first_moment", "second_moment"]


def values(kind, tensor, elements):
    return (kinds.index(kind) * 4000000 + tensor * 400000 + elements + 0.5).astype(np.float32)


absent = {}
for file in manifest["files"]:
    for tensor, first, count in file.get("runs", []):
        if file["name"] in missing:
            absent.setdefault(tensor, []).append((first, count))
    if file["name"] in missing or "runs" not in file:
        continue
    with h5py.File(folder / file["name"], "r") as shard:
        assert [name.decode() if isinstance(name, bytes) else name for name in shard["tensors"][:]] == names
        assert shard["runs"][:].tolist() == file["runs"]
        for kind in kinds:
            expected = np.concatenate([values(kind, t, np.arange(f, f + c)) for t, f, c in file["runs"]])
            assert np.array_equal(shard[kind][:], expected), (file["name"], kind)

with h5py.File(folder / "tensors.h5", "r") as tensors:
    for kind in kinds:
        assert sorted(tensors[kind]) == sorted(names)
        for i, tensor in enumerate(manifest["tensors"]):
            data = tensors[kind][tensor["name"]]
            assert data.is_virtual and list(data.shape) == tensor["shape"] and data.dtype == np.float32
            expected = values(kind, i, np.arange(np.prod(tensor["shape"])))
            for first, count in absent.get(i, []):
                expected[first:first + count] = np.nan
            expected = expected.reshape(tensor["shape"])
            assert np.array_equal(data[...], expected, equal_nan=True), (kind, tensor["name"])
            if expected.ndim == 2:
                assert np.array_equal(data[1:, 2:5], expected[1:, 2:5], equal_nan=True)
if missing:
    assert absent
