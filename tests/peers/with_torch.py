"""Starts pytorch_train.py as a user does, with the Python that TESSERA_TORCH_PYTHON names (python3). Without PyTorch a test ends with 77."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import h5py

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).parent / "pytorch_train.py"
sys.path[:0] = [str(ROOT / "tests/postprocess"), str(ROOT / "tests/cli")]

from job import Case, main  # noqa: E402


def torch_python():
    """A Python that has what the program needs. Ends the test without one."""
    python = shutil.which(os.environ.get("TESSERA_TORCH_PYTHON") or "python3")
    needed = "import torch, h5py, safetensors"
    if python and subprocess.run([python, "-c", needed], capture_output=True).returncode == 0:
        return python
    print("no PyTorch with h5py in TESSERA_TORCH_PYTHON or python3: pip install -r tests/peers/requirements.txt")
    sys.exit(77)


def steps(run, *names):
    """Rows of a run's /steps over all its files, without those that came twice: tuples."""
    rows = []
    for path in sorted(Path(run).glob("metrics*.h5"), key=lambda path: (path.name != "metrics.h5", path.name)):
        with h5py.File(path, "r", libver="latest", swmr=True) as file:
            rows += zip(*(file["steps"][name][:].tolist() for name in names))
    return rows


class PeerCase(Case):
    python = None

    def peer(self, *words, code=0, timeout=300):
        """The program with these words, in the case's folder; must end with `code`."""
        environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
        done = subprocess.run([self.python, "-B", str(PROGRAM), *map(str, words)], cwd=self.folder, env=environment,
                              capture_output=True, text=True, timeout=timeout)
        self.assertEqual(done.returncode, code, f"{words}\n{done.stdout}\n{done.stderr}")
        return done


def run_tests(at_once):
    PeerCase.python = torch_python()
    main(at_once)
