#!/usr/bin/env python3
"""The scripts that start a bundle's programs, in a bundle whose loader only says what it is given."""
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "cmake/bundle"
LOADER = '#!/bin/sh\nprintf "%s\\n" "$TESSERA_PROGRAM" "$LD_LIBRARY_PATH" "$@"\n'


class Wrapper(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        self.bundle = self.root / "my bundle"
        (self.root / "tmp").mkdir()
        for name in "bin/tessera", "bin/orted":
            self.file(self.bundle / name, (SCRIPTS / "wrapper.sh").read_text())
            self.file(self.bundle / "loader" / Path(name).name, LOADER)
        for name in "env.sh", "host.sh":
            shutil.copy(SCRIPTS / name, self.bundle)

    def file(self, path, text=""):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def start(self, program, *words, **more):
        """Returns TESSERA_PROGRAM and LD_LIBRARY_PATH of the program, the loader's words up to the program, and the rest."""
        done = subprocess.run([program, *words], env={"PATH": os.environ["PATH"], "TMPDIR": str(self.root / "tmp")} | more,
                              capture_output=True, text=True, timeout=30)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        told, library_path, inhibit, argv0, name, option, folders, *rest = done.stdout.splitlines()
        self.assertEqual((inhibit, argv0, option), ("--inhibit-cache", "--argv0", "--library-path"))
        self.assertNotIn("", folders.split(":"))  # it would be the current folder
        self.assertEqual(folders.split(":")[:2], [f"{self.bundle}/glibc", f"{self.bundle}/lib"])
        return told, library_path, name, folders.split(":")[2:], rest

    def test_a_link_of_another_name_starts_the_program_and_hands_on_its_words(self):
        (self.root / "trainer").symlink_to(self.bundle / "bin/tessera")
        told, library_path, name, _, rest = self.start(self.root / "trainer", "train", "two words", LD_LIBRARY_PATH="/module/lib")
        self.assertEqual((told, library_path, name), (f"{self.bundle}/bin/tessera", "/module/lib", str(self.root / "trainer")))
        self.assertEqual(rest, [f"{self.bundle}/programs/tessera", "train", "two words"])

    def test_open_mpi_finds_its_other_programs_next_to_its_name(self):
        self.assertEqual(self.start(self.bundle / "bin/orted")[2], f"{self.bundle}/mpi/bin/orted")

    def test_of_a_driver_s_folder_only_its_libraries_are_visible(self):
        for name in "libcuda.so.1", "libnvidia-ml.so.1", "libc.so.6", "libnss_sss.so.2":
            self.file(self.root / "driver" / name)
        said = self.start(self.bundle / "bin/tessera", TESSERA_DRIVER_LIBS=f"{self.root}/none:{self.root}/driver", LD_LIBRARY_PATH="/m")
        links = Path(said[3][0])
        self.assertEqual(sorted(os.listdir(links)), ["libcuda.so.1", "libnvidia-ml.so.1"])
        self.assertEqual((links / "libcuda.so.1").resolve(), self.root / "driver/libcuda.so.1")
        self.assertEqual((said[1], said[3][1]), ("/m", "/m"))
        private = next((self.root / "tmp").iterdir())
        self.assertEqual(private.stat().st_mode & 0o777, 0o700)


if __name__ == "__main__":
    unittest.main()
