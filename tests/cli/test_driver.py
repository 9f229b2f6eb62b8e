#!/usr/bin/env python3
"""On a machine whose NVIDIA driver runs but gives no GPU, every start says why it computes on the CPU. A mount namespace
with another /proc/driver plays that machine."""
import shutil
import subprocess
import unittest

from job import SHORT, TINY, Case, command, main

UNSHARED = ["unshare", "--mount"]
WITH_DRIVER = ["sh", "-c", "mount -t tmpfs driver /proc/driver && mkdir /proc/driver/nvidia && "
                           "echo 'NVRM version: 1' >/proc/driver/nvidia/version && exec \"$@\"", "sh"]


def may_unshare():
    return shutil.which("unshare") and subprocess.run([*UNSHARED, *WITH_DRIVER, "true"], capture_output=True).returncode == 0


@unittest.skipUnless(may_unshare(), "needs the right to mount in a namespace (root)")
class Driver(Case):
    def said(self, *arguments):
        """The error stream's lines about the driver."""
        done = subprocess.run([*UNSHARED, *WITH_DRIVER, *command(arguments)], capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [line for line in done.stderr.splitlines() if "NVIDIA driver" in line]

    def test_every_start(self):
        gpus = next(line for line in self.job("--version").out.splitlines() if line.startswith("gpus"))
        if not gpus.split()[1] == "0":
            self.skipTest("a GPU is used here")
        without_cuda = "this build has no CUDA" in gpus
        expected = ("an NVIDIA driver runs here, but this build has no CUDA: jobs/setup.sh builds it in"
                    if without_cuda else "an NVIDIA driver runs here, but this run computes on the CPU")
        for words in (["plan", *TINY], ["train", *TINY, *SHORT, "--run.dir=a"]):
            lines = self.said(*words)
            self.assertEqual(len(lines), 1, words)
            self.assertIn(expected, lines[0], words)
        # A run's config.ini says cpu: with CUDA in the build that is the user's word.
        self.assertEqual(len(self.said("train", "a/config.ini", "--run.dir=b")), int(without_cuda))


if __name__ == "__main__":
    main()
