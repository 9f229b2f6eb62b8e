"""Reads the file of test_hdf5.cpp through h5py."""
import sys

import h5py
import numpy as np

with h5py.File(sys.argv[1], "r") as file:
    group = file["g"]
    assert group["f"].dtype == np.dtype("<f4") and group["f"].shape == (2, 3)
    assert np.array_equal(group["f"][...], np.array([[1.5, -2.25, 3e-30], [4, 5, 6]], np.float32))
    assert group["d"].dtype == np.dtype("<f8") and group["i"].dtype == np.dtype("<i8")
    assert group["s"].asstr()[1] == "Grüße" and len(group["s"].asstr()[3]) == 5000
    assert isinstance(group.attrs["text"], str) and len(group.attrs["text"]) == 100000
    assert group.attrs["count"] == -5 and group.attrs["real"] == 0.2
