"""The folder of checkpoints as a user goes back in it, protects some of it, or finds it on a disk that fails."""
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from job import SHORT, TINY, Case, main, status
from running import Running, checkpoints

sys.path.insert(0, str(Path(os.environ["TESSERA_REFERENCE"]).parent.parent / "postprocess"))
import checkpoint as reader  # noqa: E402  postprocess/checkpoint.py

RUN = [word for word in TINY if "train.steps" not in word] + SHORT + [
    "--run.dir=run", "--metrics.every=1", "--optim.schedule=constant", "--data.val_fraction=0"]


def spied(rules="", log=""):
    """The environment that preloads the spy (tests/io/file_spy.hpp)."""
    return {"LD_PRELOAD": os.environ["FILE_SPY"], "FILE_SPY_RULES": rules, "FILE_SPY_LOG": str(log),
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}


class Folder(Case):
    def setUp(self):
        super().setUp()
        self.place = self.folder / "run" / "checkpoints"

    def go(self, steps, every, *arguments, resume="auto", says=None, code=0, ranks=0, **environment):
        running = Running(["train", *RUN, f"--train.steps={steps}", f"--checkpoint.every={every}",
                           f"--checkpoint.resume={resume}", *arguments], ranks, self.folder, **environment)
        self.addCleanup(running.remove)
        got, out = running.end()
        self.assertEqual(got, code, out)
        if says:
            self.assertRegex(out, says)
        return out

    def steps(self):
        return [int(name[5:]) for name in checkpoints(self.folder / "run")]

    def everybody_takes(self, step):
        """auto, export, inspect and Python."""
        self.go(step, 0, says=rf"resume +step {step} from")
        self.assertRegex(self.job("inspect", "run").out, rf"step +{step};")
        shutil.rmtree(self.folder / "hf", ignore_errors=True)
        self.assertRegex(self.job("export", "run", "hf").out, rf"step {step} of")
        self.assertEqual(reader.tensors_file(self.folder / "run").parent.name, f"step-{step:08}")


class GoingBack(Folder):
    def test_what_is_written_stays_and_is_what_auto_takes(self):
        self.go(60, 10)
        self.assertEqual(self.steps(), [40, 50, 60])
        out = self.go(45, 5, "--checkpoint.keep=1", resume="run/checkpoints/step-00000040")
        self.assertRegex(out, r"set aside +step-00000050, step-00000060: newer than step 40.*step-N.abandoned-1")
        self.assertEqual(self.steps(), [45])
        self.everybody_takes(45)
        for step in (50, 60):  # still whole
            self.assertEqual(self.job("verify", f"run/checkpoints/step-{step:08}.abandoned-1").code, 0)
        # From a copy elsewhere of an earlier step: until something is written, the folder's own is the last.
        shutil.copytree(self.place / "step-00000045", self.folder / "copy")
        self.go(60, 5)
        self.go(1000000, 0, resume="copy", code=-signal.SIGKILL, **spied("write,log.jsonl,-9,6"))
        self.everybody_takes(60)
        self.go(47, 1, resume="copy", says=r"step 46: step-00000050, step-00000055, step-00000060: newer than step 45")
        self.assertEqual(self.steps(), [46, 47])
        self.everybody_takes(47)

    def test_killed_right_after_going_back(self):
        self.go(30, 10)
        self.go(1000000, 0, resume="run/checkpoints/step-00000010", code=-signal.SIGKILL, **spied("write,log.jsonl,-9,3"))
        self.everybody_takes(10)

    def test_a_damaged_one_that_was_passed_over_is_kept_and_does_not_count(self):
        self.go(30, 10)
        shard = self.place / "step-00000030" / "shard-00000.h5"
        os.truncate(shard, 100)
        self.go(22, 1, "--checkpoint.keep=1", says=r"step-00000030 is passed over(?s:.*)step 20 from(?s:.*)set aside +step-00000030")
        self.assertEqual(self.steps(), [22])
        self.assertEqual((self.place / "step-00000030.abandoned-1" / "shard-00000.h5").stat().st_size, 100)
        self.everybody_takes(22)

    def test_killed_between_the_renames_that_publish(self):
        self.go(10, 5, "--checkpoint.keep=1")
        for number, found in ((1, 10), (2, 11)):  # the first that is not done: 1 decides, 2 gives the name
            shutil.copytree(self.folder / "run", self.folder / f"{number}")
            self.go(11, 1, "--checkpoint.keep=1", f"--run.dir={number}", code=-signal.SIGKILL,
                    **spied(f"rename,step-00000011.,-9,{number}"))
            self.assertEqual(reader.tensors_file(self.folder / f"{number}").parent.name[:13], f"step-{found:08}")
            self.go(11, 0, f"--run.dir={number}", says=rf"resume +step {found} from")


class Undeletable(Folder):
    def test_a_protected_checkpoint_is_a_warning(self):
        self.go(20, 10, "--checkpoint.keep=2")
        out = self.go(50, 10, "--checkpoint.keep=2", **spied("unlink,step-00000010,1"))
        self.assertEqual(len(re.findall(r"cannot delete \S*step-00000010 \(Operation not permitted\): it stays, complete", out)), 1, out)
        self.assertEqual(self.steps(), [10, 40, 50])
        self.assertEqual(self.job("verify", "run/checkpoints/step-00000010").code, 0)
        self.assertEqual(list(self.place.glob("*.tmp")), [])

    def test_what_a_killed_process_left_goes_at_the_start(self):
        self.go(10, 10)
        for name in ("step-00000020.tmp", "step-00000030.tmp"):
            (self.place / name).mkdir()
            (self.place / name / "shard-00000.h5").write_bytes(b"half")
        self.assertEqual(reader.tensors_file(self.folder / "run").parent.name, "step-00000010")
        log = self.folder / "calls"
        self.go(10, 10, **spied(log=log))
        self.assertEqual(list(self.place.glob("*.tmp")), [])
        calls = log.read_text().splitlines()
        gone = next(i for i, call in enumerate(calls) if "unlink" in call and call.endswith("step-00000020.tmp/shard-00000.h5"))
        self.assertLess(gone, next(i for i, call in enumerate(calls) if "status.json" in call))


class Reading(Folder):
    def test_what_cannot_be_read_is_not_passed_over(self):
        self.go(20, 10, ranks=2)
        out = self.go(22, 0, code=4, ranks=2, **spied("open,step-00000020/shard-00001,5"))
        self.assertRegex(out, r"rank 1 on \S+: cannot open \S*step-00000020/shard-00001.h5 \(Input/output error\), 3 times: .*"
                              "auto does not pass it over")
        self.assertNotIn("passed over:", out)
        self.assertEqual(self.steps(), [10, 20])
        # A server that fails over comes back.
        self.go(20, 0, ranks=2, says="resume +step 20 from", **spied("open,step-00000020/shard-00001,5,0,0"))

    def test_more_files_than_may_be_open(self):
        self.go(2, 2, ranks=8)
        few = 'ulimit -S%sn 10; exec "$@"'
        got = subprocess.run(["bash", "-c", few % "H", "x", os.environ["TESSERA"], "inspect", "run"], cwd=self.folder,
                             capture_output=True, text=True)
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertRegex(got.stdout, "transformer.ln_f.bias")
        # What the system allows beyond the usual is taken at the start.
        running = object.__new__(Running)
        running.launch(["bash", "-c", few % "", "x", os.environ["TESSERA"], "train", *RUN, "--train.steps=1",
                        "--run.dir=few"], self.folder)
        self.addCleanup(running.remove)
        code, out = running.end()
        self.assertEqual(code, 0, out)


class Order(Folder):
    def test_files_then_names_then_what_goes(self):
        self.go(1, 1, "--checkpoint.keep=1", ranks=2)
        log = self.folder / "calls"
        self.go(2, 1, "--checkpoint.keep=1", ranks=2, **spied(log=log))
        place = str(self.place.resolve())
        calls = [call.replace(place, "C").replace("run/checkpoints", "C") for call in log.read_text().splitlines() if "checkpoints" in call]
        beside = "C/step-00000002.tmp"
        last = {call: i for i, call in enumerate(calls)}
        manifest = next(i for i, call in enumerate(calls) if re.match(rf"rename {beside}/manifest\S* {beside}/manifest.json", call))
        for file in ("shard-00000.h5", "shard-00001.h5", "tensors.h5"):
            self.assertLess(last[f"pwrite {beside}/{file}"], last[f"fsync {beside}/{file}"])
            self.assertLess(last[f"fsync {beside}/{file}"], manifest)
        self.assertTrue(calls[manifest - 1].startswith(f"fsync {beside}/manifest"), calls)
        pending = "C/step-00000002.after-00000001"
        self.assertEqual(calls[manifest + 1:manifest + 8],
                         [f"fsync {beside}", f"fsync {beside}", f"rename {beside} {pending}", "fsync C",
                          f"rename {pending} C/step-00000002", "fsync C", "unlink C/step-00000001/manifest.json"])


if __name__ == "__main__":
    main()
