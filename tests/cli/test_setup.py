#!/usr/bin/env python3
"""Scripts of jobs. Whether setup.sh and quickstart.sh build CUDA: by toolkit, by driver, or as the build folder has it. The
machine is played: dpkg-query finds every package, cmake notes its words, nvidia-smi is there or not. And what the real
cmake says where libraries are missing."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
# Writes the cache that a configuration with these words leaves.
CMAKE = """#!/bin/sh
echo "$@" >>cmake.log
mkdir -p build/release && cache=build/release/CMakeCache.txt
for word in "$@"; do
  case $word in -DTESSERA_CUDA=*) echo "TESSERA_CUDA:STRING=${word#*=}" >$cache ;; esac
done
[ -e $cache ] || echo TESSERA_CUDA:STRING=AUTO >$cache
"""


class DebianText(unittest.TestCase):
    """jobs/debian_text.sh, whose packages are played: each holds two files that are text and one that is not."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "bin").mkdir()
        self.play("apt-get", '#!/bin/sh\ncase $3 in git-doc) [ -z "$REFUSED" ] || { echo "E: no such package" >&2; exit 100; } ;; esac\n: >"$3_1.deb"\n')
        self.play("dpkg-deb", """#!/bin/sh
mkdir -p "$3/a" && for end in pod txt py h; do echo "$3 one $end" >"$3/a/one.$end"; printf '%s two \\377\\n' "$3" >"$3/two.$end"; done
echo other >"$3/a/other.so"
""")

    def play(self, program, text):
        path = self.root / "bin" / program
        path.write_text(text)
        path.chmod(0o755)

    def made(self, folder, **more):
        environment = os.environ | {"PATH": f"{self.root / 'bin'}:{os.environ['PATH']}", **more}
        return subprocess.run([SOURCE / "jobs/debian_text.sh", self.root / folder], env=environment, capture_output=True, text=True, timeout=30)

    def test_the_text_is_the_same_twice_and_mixes_the_packages(self):
        for folder in "a", "b":
            done = self.made(folder)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        text = (self.root / "a/debian.txt").read_text()
        self.assertEqual(text, (self.root / "b/debian.txt").read_text())
        self.assertEqual(len(text.splitlines()), 12)
        self.assertNotEqual([line.split()[0] for line in text.splitlines()], sorted(line.split()[0] for line in text.splitlines()))
        self.assertIn("is there already", self.made("a").stdout)

    def test_a_package_that_cannot_be_had_leaves_nothing(self):
        done = self.made("a", REFUSED="1")
        self.assertEqual((done.returncode, done.stderr), (1, "debian_text: apt-get cannot download git-doc: E: no such package\n"))
        self.assertFalse((self.root / "a").exists())


@unittest.skipIf(Path("/proc/driver/nvidia/version").exists(), "an NVIDIA driver runs here: its absence cannot be played")
class CudaInTheBuild(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        shutil.copytree(SOURCE / "jobs", self.root / "jobs")
        shutil.copytree(SOURCE / "inputs", self.root / "inputs")
        self.play("dpkg-query", "#!/bin/sh\nprintf installed\n")
        self.play("cmake", CMAKE)
        self.play("nvidia-smi", "#!/bin/sh\nexit 9\n")

    def play(self, program, text):
        path = self.root / "played" / program
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def play_driver(self):
        self.play("nvidia-smi", "#!/bin/sh\nexit 0\n")

    def cache(self, setting):
        (self.root / "build/release").mkdir(parents=True)
        (self.root / "build/release/CMakeCache.txt").write_text(f"TESSERA_CUDA:STRING={setting}\n")

    def run_script(self, *words):
        """Returns a script's output, and TESSERA_CUDA of the build folder after it."""
        environment = os.environ | {"PATH": f"{self.root / 'played'}:{os.environ['PATH']}"}
        done = subprocess.run(words, cwd=self.root, env=environment, capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        cache = (self.root / "build/release/CMakeCache.txt").read_text()
        return done.stdout, cache.strip().removeprefix("TESSERA_CUDA:STRING=")

    def quickstart(self):
        """The same of jobs/quickstart.sh, whose training and report are played as well."""
        (self.root / "texts").mkdir(exist_ok=True)
        self.play("mpiexec", "#!/bin/sh\n")
        report = self.root / "postprocess/report.py"
        report.parent.mkdir(exist_ok=True)
        report.write_text("")
        return self.run_script("jobs/quickstart.sh", "texts")

    def test_quickstart_without_a_driver_leaves_cuda_out_and_says_so(self):
        said, setting = self.quickstart()
        self.assertEqual(setting, "NO_DRIVER")
        self.assertIn("cuda: left out, because no NVIDIA driver runs here", said)

    def test_quickstart_with_a_driver_takes_the_toolkit(self):
        self.play_driver()
        said, setting = self.quickstart()
        self.assertEqual(setting, "AUTO")
        self.assertNotIn("cuda: left out", said)

    def test_quickstart_keeps_what_a_build_folder_has(self):
        for setting in ("AUTO", "ON", "OFF"):
            self.cache(setting)
            said, kept = self.quickstart()
            self.assertEqual(kept, setting)
            self.assertIn(f"cuda: build/release keeps TESSERA_CUDA = {setting}", said)
            shutil.rmtree(self.root / "build")

    def test_a_second_quickstart_keeps_the_choice_of_the_first(self):
        self.quickstart()
        self.play_driver()
        self.assertEqual(self.quickstart()[1], "NO_DRIVER")

    def test_setup_goes_by_the_toolkit(self):
        self.assertEqual(self.run_script("jobs/setup.sh")[1], "AUTO")

    def test_setup_builds_what_quickstart_left_out(self):
        self.quickstart()
        self.assertEqual(self.run_script("jobs/setup.sh")[1], "AUTO")

    def test_setup_keeps_what_the_user_left_out(self):
        self.cache("OFF")
        self.assertEqual(self.run_script("jobs/setup.sh")[1], "OFF")

    def test_other_words_are_refused(self):
        done = subprocess.run(["jobs/setup.sh", "release", "--cuda"], cwd=self.root, capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--cuda-if-driver", done.stderr)


class GpusOfThisMachine(unittest.TestCase):
    """cmake/LocalGpus.cmake with a driver and an nvcc that are played."""

    def chosen(self, nvidia_smi):
        with tempfile.TemporaryDirectory() as folder:
            for program, text in {"nvidia-smi": nvidia_smi, "nvcc": "printf 'sm_80\\nsm_90\\nsm_100\\nsm_120\\n'"}.items():
                (Path(folder) / program).write_text(f"#!/bin/sh\n{text}\n")
                (Path(folder) / program).chmod(0o755)
            script = Path(folder) / "ask.cmake"
            script.write_text(f'include({SOURCE}/cmake/LocalGpus.cmake)\n'
                              f'tessera_local_gpus({folder}/nvcc found)\nmessage("found <${{found}}>")\n')
            done = subprocess.run(["cmake", "-P", script], env=os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"},
                                  capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 0, done.stderr)
        return re.search("found <(.*)>", done.stderr)[1], done.stdout

    def test_the_driver_tells_them_and_each_counts_once(self):
        self.assertEqual(self.chosen("printf '9.0\\n9.0\\n'")[0], "90")
        self.assertEqual(self.chosen("printf '12.0\\n8.0\\n'")[0], "120;80")

    def test_without_a_driver_there_are_none(self):
        self.assertEqual(self.chosen("echo 'NVIDIA-SMI has failed'; exit 9"), ("", ""))

    def test_what_the_toolkit_or_tessera_does_not_know_is_not_compiled_for(self):
        for capability in ("7.5", "10.3", "13.0"):
            found, said = self.chosen(f"printf '9.0\\n{capability}\\n'")
            self.assertEqual(found, "")
            self.assertIn(f"does not know sm_{capability.replace('.', '')}", said)


class MissingLibraries(unittest.TestCase):
    def test_one_message_names_all_of_them_as_packages(self):
        with tempfile.TemporaryDirectory() as build:
            done = subprocess.run(["cmake", "-S", SOURCE, "-B", build, "-DTESSERA_CUDA=OFF", "-DTESSERA_TESTS=OFF",
                                   "-DCMAKE_DISABLE_FIND_PACKAGE_HDF5=ON", "-DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON",
                                   "-DRANDOM123_INCLUDE=OFF"], env=os.environ | {"PKG_CONFIG_LIBDIR": "/nothing"},
                                  capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(done.stderr.count("CMake Error"), 1, done.stderr)
        self.assertIn("not found: fmt, Random123, xxHash, PCRE2, utf8proc, zlib, Zstandard, serial HDF5 Debian:",
                      " ".join(done.stderr.split()))
        for line in (r"Debian: +apt-get install libfmt-dev libhdf5-dev .* libzstd-dev librandom123-dev$",
                     r"RHEL, Rocky: +dnf install fmt-devel hdf5-devel .* Random123-devel ",
                     r"Spack: +spack install fmt hdf5~mpi .* random123",
                     r"conda: +conda install -c conda-forge fmt 'hdf5=\*=nompi\*' .*zstd$",
                     r"Random123 is headers alone"):
            self.assertRegex(done.stderr, f"(?m){line}")

    def test_the_packages_of_debian_are_those_that_setup_installs(self):
        table = re.findall(r'^  "[^:]+: +(\S+) +\S+ +\S+ +[^" ]+"', (SOURCE / "cmake/Packages.cmake").read_text(), re.M)
        self.assertGreater(len(table), 10)
        setup = (SOURCE / "jobs/setup.sh").read_text()
        installed = " ".join(re.findall(r"(?s)packages\+?=\((.*?)\)", setup)).split()  # += for one architecture
        self.assertEqual(set(table) - set(installed), set())


if __name__ == "__main__":
    unittest.main()
