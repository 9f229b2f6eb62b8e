"""Opening an HDF5 file that may be complete, being written, left by a crash, damaged, or none at all."""
from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path
from typing import Any

import h5py

TIMES_TO_OPEN = 3  # a file that is being created is incomplete for a moment
# The library reads metadata with a wrong checksum again, 100 times by default, and waits twice as long each time (from
# a nanosecond): for damaged files that is forever. This many take 0.1 s.
READS_OF_METADATA = 26


def open_hdf5(path: Path) -> h5py.File:
    """Opens a file for reading. Raises OSError.

    A file that has been closed is opened plainly; one that is being written, or was when its writer died, as a reader
    of SWMR (single writer, multiple readers).
    """
    with open(path, "rb") as file:
        if not file.read(1):
            raise OSError("the file is empty")
    if not h5py.is_hdf5(path):
        raise OSError("no HDF5 file")
    for attempt in range(TIMES_TO_OPEN):
        try:
            return h5py.File(path, "r")
        except OSError as error:
            plainly = error
        try:
            return _open_swmr(path)
        except OSError:
            if attempt + 1 == TIMES_TO_OPEN:
                raise plainly from None
            time.sleep(0.1)
    raise AssertionError("not reached")


def _open_swmr(path: Path) -> h5py.File:
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(h5py.h5f.LIBVER_LATEST, h5py.h5f.LIBVER_LATEST)
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    _limit_reads(access)
    return h5py.File(h5py.h5f.open(os.fsencode(path), h5py.h5f.ACC_RDONLY | h5py.h5f.ACC_SWMR_READ, fapl=access))


def _limit_reads(access: Any) -> None:
    """Sets what h5py has no call for. Without the library's name (other systems than Linux) the default stays."""
    try:
        with open("/proc/self/maps", encoding="utf-8") as maps:
            loaded = {line.split(maxsplit=5)[5].strip() for line in maps if "libhdf5" in line}
        for name in loaded:
            if "hdf5_hl" not in name and "hdf5_serial_hl" not in name:
                set_reads = ctypes.CDLL(name).H5Pset_metadata_read_attempts
                set_reads.argtypes = [ctypes.c_int64, ctypes.c_uint]
                set_reads(access.id, READS_OF_METADATA)
                return
    except (OSError, AttributeError, IndexError):
        return
