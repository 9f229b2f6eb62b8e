#!/usr/bin/env python3
"""A bundle under a Slurm of the test's own (tests/slurm/cluster.py): ranks that srun starts, and the bundle's own job
scripts, on two nodes.  test_bundle_slurm.py ARCHIVE.tar.xz"""
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "slurm"))

from cluster import Cluster, SlurmJob, enter_namespaces

RUN = ["--model.layers=2", "--model.width=32", "--train.seq_len=32", "--train.steps=5", "--train.eval_every=0", "--run.threads=1",
       "--run.device=cpu", "--run.timeout=20"]
# A site's lines: nodes of this Slurm have no network but the local one.
SITE = """
export SBATCH_PARTITION=main
site_setup() { export OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo; }
"""


class UnderSlurm(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.user = {"PATH": os.environ["PATH"], "HOME": folder.name, "SLURM_CONF": os.environ["SLURM_CONF"],
                     "OMPI_MCA_btl_tcp_if_include": "lo", "OMPI_MCA_oob_tcp_if_include": "lo"}

    def start(self, *words, **more):
        return subprocess.run(words, cwd=self.folder, env=self.user | more, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=120)

    def test_ranks_that_srun_starts(self):
        done = self.start("srun", "--mpi=pmix", "--nodes=2", "--ntasks-per-node=2", BUNDLE / "tessera", "train", *RUN)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"grid +4 ranks \(2 per node\)")
        self.assertRegex(done.stdout, r"done +5 steps")

    def test_no_variable_hands_the_bundle_s_libraries_to_programs_of_the_machine(self):
        done = self.start("srun", "--ntasks=1", BUNDLE / "mpiexec", "-n", "1", "sh", "-c", "env; python3 --version")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for folder in re.search(r"^LD_LIBRARY_PATH=(.*)$", done.stdout, re.M)[1].split(":"):
            self.assertEqual(list(Path(folder).glob("*.so*")) if folder else [], [], folder)

    def test_job_scripts(self):
        for launcher in {}, {"TESSERA_LAUNCHER": "mpirun", "TESSERA_LAUNCHER_OPTIONS": "--bind-to none --oversubscribe"}:
            jobs = BUNDLE / "share/tessera/jobs"
            done = self.start("bash", "-c", 'source "$0/site.sh" && exec sbatch --parsable --time=5 --nodes=2 --ntasks-per-node=1 '
                              '--gpus-per-node=0 --cpus-per-task=1 "$0/train_multinode.sbatch" "$@"', jobs, *RUN, **launcher)
            self.assertEqual(done.returncode, 0, done.stderr)
            job = SlurmJob(done.stdout.strip())
            facts = job.end()
            self.assertEqual(facts["ExitCode"], "0:0", job.said())
            self.assertRegex(job.said(), r"2 ranks on node\[1-2\](.|\n)*done +5 steps")


if __name__ == "__main__":
    enter_namespaces()
    with tempfile.TemporaryDirectory(prefix="tessera-bundle-") as home:
        with tarfile.open(sys.argv.pop(1)) as archive:
            archive.extractall(home)
        BUNDLE, = Path(home).glob("tessera-*")
        with (BUNDLE / "share/tessera/jobs/site.sh").open("a") as site_file:
            site_file.write(SITE)
        Cluster(Path(home) / "slurm")
        unittest.main()
