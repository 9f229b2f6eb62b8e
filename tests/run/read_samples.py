"""Checks the texts of test_metrics_history.cpp, which are cut to at most 8 bytes: read_samples.py FILE ROWS."""
import sys

import h5py

with h5py.File(sys.argv[1], "r") as file:
    assert file["samples/text"].dtype == "S8" and file["samples/text"].maxshape == (None,)
    assert file["samples/text"][...].tolist() == [f"text {i}{'x' * i}"[:8].encode() for i in range(int(sys.argv[2]))]
