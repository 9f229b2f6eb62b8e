"""Files of bench.output, among the folders of rows or named by themselves."""
from __future__ import annotations

from pathlib import Path

from .opening import open_hdf5

FORMAT = "tessera bench"
OTHERS = ("metrics", "dump-")  # the beginnings of the names of a run's own files


def is_bench_file(path: Path) -> bool:
    """Whether a file is HDF5 that a bench wrote. Runs' own files are not opened."""
    if path.suffix != ".h5" or path.name.startswith(OTHERS):
        return False
    try:
        with open_hdf5(path) as file:
            written_by = file.attrs.get("format", "")
    except OSError:
        return False  # the reader of metrics will say what is wrong
    return (written_by.decode(errors="replace") if isinstance(written_by, bytes) else written_by) == FORMAT


def candidates(path: Path) -> list[tuple[str, Path]]:
    """Files that may be a bench's in a row's folder and its repeats', or the file itself: name from `path`, and path."""
    if path.is_file():
        return [("", path)] if is_bench_file(path) else []
    found = sorted([*path.glob("*.h5"), *path.glob("run*/*.h5")]) if path.is_dir() else []
    return [(file.relative_to(path).as_posix(), file) for file in found if not file.name.startswith(OTHERS)]
