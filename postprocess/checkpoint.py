#!/usr/bin/env python3
"""Reads Tessera's checkpoints and dumps with h5py.

    checkpoint.py list PATH                     tensors of a checkpoint, a run (its newest one), or a dump
    checkpoint.py slice PATH NAME [ROWS]        elements, for example: slice run transformer.wte.weight 0:4
    checkpoint.py compare A B [--largest N]     differences tensor by tensor: L2 norm, relative L2, largest

A checkpoint has the kinds parameter, first_moment and second_moment, a dump gradients and weights. `compare` takes two
checkpoints, two dumps, or one of each (weights are parameters then), and exits 1 when anything differs.
"""
import argparse
import difflib
import os
import re
import sys
from pathlib import Path

try:
    import h5py
    import numpy as np
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is missing in {sys.executable}: {sys.executable} -m pip install {missing.name}, or "
             "apt-get install python3-h5py python3-numpy and /usr/bin/python3")

ROWS_AT_ONCE = 1 << 20  # elements read at a time


def tensors_file(path):
    """The HDF5 file that shows whole tensors: of a checkpoint, of a run's newest checkpoint, or a dump itself."""
    path = Path(path)
    if path.is_file():
        return path
    checkpoint = path if (path / "manifest.json").exists() else newest_checkpoint(path / "checkpoints")
    if checkpoint is None:
        raise SystemExit(f"{path} is no checkpoint, no run with checkpoints and no dump")
    if not (checkpoint / "tensors.h5").exists():
        raise SystemExit(f"{checkpoint} has no tensors.h5 (checkpoint.tensors = false): tessera index {checkpoint}")
    return checkpoint / "tensors.h5"


def newest_checkpoint(folder):
    """The newest step-N of the branch that was written last, or None. Other names are unfinished (.tmp) or left (.abandoned-K);
    step-N.after-M is complete and about to become step-N."""
    names = [(re.fullmatch(r"step-(\d+)(\.after-\d+)?", p.name), p) for p in folder.glob("step-*")]
    found = [(bool(name[2]), int(name[1]), p) for name, p in names if name and (p / "manifest.json").exists()]
    return max(found)[2] if found else None


def shown(name):
    """A name from a file, without characters that a terminal would obey."""
    return "".join(c if c.isprintable() else "?" for c in name)


class Tensors:
    """Tensors by (kind, name). Slices are read from disk when they are asked for: tensors["parameter", name][0:3]."""

    def __init__(self, path):
        self.path = tensors_file(path)
        try:
            self.file = h5py.File(self.path, "r")
        except OSError as error:
            raise SystemExit(f"{self.path} cannot be read ({error}): tessera index makes a checkpoint's tensors.h5 again") from None

    def kinds(self):
        return [kind for kind in self.file if isinstance(self.file[kind], h5py.Group)]

    def names(self, kind):
        return list(self.file[kind])

    def __getitem__(self, place):
        kind, name = place
        for group, member in ((self.file, kind), (self.file[kind], name)):
            if not isinstance(group.get(member, getlink=True), h5py.HardLink):
                raise SystemExit(f"{self.path}: {kind}/{shown(name)} is a link (it may lead outside of the checkpoint): not read")
        data = self.file[kind][name]
        # HDF5 opens any file that these name; in a checkpoint they name files next to it.
        sources = [source.file_name for source in data.virtual_sources()] if data.is_virtual else []
        sources += [source[0] for source in data.external or []]
        for source in sources:
            if source != "." and (data.external or not re.fullmatch(r"shard-\d+\.h5", source)):
                raise SystemExit(f"{self.path}: {kind}/{shown(name)} lies in {source!r}, outside of the checkpoint: not read")
        return data

    def close(self):
        self.file.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def pieces(data):
    """The dataset in pieces of whole rows, as float64."""
    rows = max(1, ROWS_AT_ONCE // max(1, int(np.prod(data.shape[1:]))))
    for first in range(0, data.shape[0], rows):
        yield data[first:first + rows].astype(np.float64)


def difference(a, b):
    """(L2 norm of a - b, that over the norm of a, largest |a - b|, how many elements differ). NaN where a shard is missing."""
    squares = norm = largest = 0.0
    count = 0
    for x, y in zip(pieces(a), pieces(b)):
        d = np.abs(x - y)
        squares += float((d * d).sum())
        norm += float((x * x).sum())
        largest = max(largest, float(d.max())) if not np.isnan(d).any() else float("nan")
        count += int(np.count_nonzero(d))
    relative = 0.0 if squares == 0 else np.sqrt(squares / norm) if norm else float("inf")
    return np.sqrt(squares), relative, largest, count


SAME_AS = {"parameter": "weights", "weights": "parameter"}


def pairs(a, b):
    """The tensors that both have: (kind in a, kind in b, name). SystemExit when tensors are missing or of other shapes."""
    for kind in a.kinds():
        other = kind if kind in b.kinds() else SAME_AS.get(kind)
        if other not in b.kinds():
            continue
        names = [name for name in a.names(kind) if name in set(b.names(other))]
        # An optimizer may keep less of some tensors than another one, so the state that both have is compared.
        if kind != "second_moment" and set(a.names(kind)) != set(b.names(other)):
            raise SystemExit(f"{kind}: other tensors ({sorted(set(a.names(kind)) ^ set(b.names(other)))[:3]}, ...)")
        for name in names:
            if a[kind, name].shape != b[other, name].shape:
                raise SystemExit(f"{kind}/{shown(name)}: shape {a[kind, name].shape} and {b[other, name].shape}")
            yield kind, other, name


def compare(a_path, b_path, largest=0):
    """Prints a table; the number of tensors that differ."""
    rows = []
    with Tensors(a_path) as a, Tensors(b_path) as b:
        for kind, other, name in pairs(a, b):
            rows.append((f"{kind}/{name}", a[kind, name].size, *difference(a[kind, name], b[other, name])))
    differing = [row for row in rows if row[5] or np.isnan(row[4])]
    print(f"{len(rows)} tensors compared, {len(differing)} differ")
    listed = sorted(differing, key=lambda row: -row[3])[:largest] if largest else differing
    if listed:
        print(f"{'tensor':<56} {'elements':>10} {'differ':>10} {'L2':>11} {'relative':>11} {'largest':>11}")
    for name, size, l2, relative, most, count in listed:
        print(f"{shown(name):<56} {size:>10} {count:>10} {l2:>11.4g} {relative:>11.4g} {most:>11.4g}")
    return len(differing)


def list_tensors(path):
    with Tensors(path) as tensors:
        print(tensors.path)
        for kind in tensors.kinds():
            for name in tensors.names(kind):
                data = tensors[kind, name]
                print(f"{shown(kind)}/{shown(name):<48} {' x '.join(map(str, data.shape)):>16} {data.dtype}")


def rows_of(text):
    """Returns rows as an index: 3, or 2:5 as a slice."""
    try:
        if ":" not in text:
            return int(text)
        first, last = text.split(":")
        return slice(int(first) if first else None, int(last) if last else None)
    except ValueError:
        raise SystemExit(f"{text} names no rows: give a number, or FIRST:LAST") from None


def print_slice(path, name, rows):
    with Tensors(path) as tensors:
        kind, _, bare = name.partition("/") if "/" in name else (tensors.kinds()[0], "", name)
        kind = kind if "/" in name else next((k for k in ("parameter", "weights") if k in tensors.kinds()), kind)
        chosen = rows_of(rows)
        names = tensors.names(kind) if kind in tensors.kinds() else []
        if bare not in names:
            close = difflib.get_close_matches(bare, names, 3)
            raise SystemExit(f"{path} has no {kind}/{bare}: " + (" or ".join(map(shown, close)) if close else "list shows the names"))
        try:
            print(tensors[kind, bare][chosen])
        except IndexError as error:
            raise SystemExit(f"{kind}/{bare} has no such row: {error}") from None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("list")
    one.add_argument("path")
    one = commands.add_parser("slice")
    one.add_argument("path")
    one.add_argument("name")
    one.add_argument("rows", nargs="?", default=":")
    one = commands.add_parser("compare")
    one.add_argument("a")
    one.add_argument("b")
    one.add_argument("--largest", type=int, default=0, help="show only the N tensors that differ most")
    arguments = parser.parse_args()
    if arguments.command == "list":
        list_tensors(arguments.path)
    elif arguments.command == "slice":
        print_slice(arguments.path, arguments.name, arguments.rows)
    else:
        sys.exit(1 if compare(arguments.a, arguments.b, arguments.largest) else 0)


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that lacks a letter
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough (| head)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
