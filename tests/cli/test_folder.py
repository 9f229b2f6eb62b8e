"""The folder of checkpoints as a user goes back in it, protects some of it, or finds it on a disk that fails."""
import errno
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np

from job import SHORT, TINY, Case, Running, main, status
from running import checkpoints

sys.path.insert(0, str(Path(os.environ["TESSERA_REFERENCE"]).parent.parent / "postprocess"))
import checkpoint as reader  # noqa: E402  postprocess/checkpoint.py

RUN = [word for word in TINY if "train.steps" not in word] + SHORT + [
    "--run.dir=run", "--metrics.every=1", "--optim.schedule=constant", "--data.val_fraction=0"]


def spied(rules="", log=""):
    """The environment that preloads the spy (tests/checkpoint/file_spy.hpp)."""
    return {"LD_PRELOAD": os.environ["FILE_SPY"], "FILE_SPY_RULES": rules, "FILE_SPY_LOG": str(log),
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}


class Folder(Case):
    def setUp(self):
        super().setUp()
        self.place = self.folder / "run" / "checkpoints"

    def go(self, steps, every, *arguments, resume="auto", says=None, code=0, ranks=0, **environment):
        running = self.running(["train", *RUN, f"--train.steps={steps}", f"--checkpoint.every={every}",
                                f"--checkpoint.resume={resume}", *arguments], ranks, **environment)
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

    def test_going_on_from_one_that_was_left_behind(self):
        self.go(30, 10)
        self.go(30, 10, resume="run/checkpoints/step-00000010")
        self.go(40, 10, resume="run/checkpoints/step-00000020.abandoned-1", says="step 30: step-.*: of another branch than")
        self.assertEqual(self.steps(), [30, 40])
        self.assertTrue((self.place / "step-00000020.abandoned-2").is_dir())  # auto would have gone back to it
        self.everybody_takes(40)

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
            for file in ("shard-00000.h5", "manifest.json", "tensors.h5"):
                (self.place / name / file).write_bytes(b"half")
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
        # Limits that the system lets a process raise are raised at the start.
        running = object.__new__(Running)
        running.launch(["bash", "-c", few % "", "x", os.environ["TESSERA"], "train", *RUN, "--train.steps=1",
                        "--run.dir=few"], self.folder)
        self.addCleanup(running.remove)
        code, out = running.end()
        self.assertEqual(code, 0, out)


class Paths(Folder):
    def test_bad_paths_are_not_bugs(self):
        (self.folder / "loop").symlink_to("loop")
        (self.folder / "model").mkdir()
        (self.folder / "model" / "model.safetensors").symlink_to("../loop")
        shutil.copy(Path(os.environ["TESSERA_REFERENCE"]) / "clipped" / "config.json", self.folder / "model")
        for words in (["verify", "a" * 300], ["verify", "loop"], ["inspect", "loop"], ["export", "loop", "x"], ["import", "model", "x"],
                      ["import", "loop", "x"], ["export", "x", "loop"],
                      ["train", *RUN, "--train.steps=1", "--checkpoint.resume=loop"]):
            job = self.job(*words)
            self.assertIn(job.code, (2, 4), job.everything())
            self.assertEqual(len(job.errors), 1, job.everything())


class Exports(Folder):
    def test_nothing_of_the_users_is_touched(self):
        self.go(1, 1)
        (self.folder / "hf.tmp").mkdir()
        (self.folder / "hf.tmp" / "thesis").write_text("years of work")
        self.do("export", "run", "hf")
        self.assertEqual((self.folder / "hf.tmp" / "thesis").read_text(), "years of work")
        self.assertEqual({p.name for p in self.folder.iterdir()}, {"run", "hf.tmp", "hf"})
        self.assertRegex(self.do("export", "run", "hf", code=2).err, r"hf exists\. Name a f")

    def test_an_export_is_there_when_it_is_whole(self):
        self.go(1, 1)
        log = self.folder / "calls"
        running = self.running(["export", "run", "hf", "--export.optimizer=true"], 0, **spied(log=log))
        self.assertEqual(running.end()[0], 0)
        calls = log.read_text().splitlines()
        named = next(i for i, call in enumerate(calls) if re.fullmatch(r"rename hf\.\S+ hf", call))
        for file in ("/model.safetensors", "/state.h5", "/config.json"):
            self.assertLess(max(i for i, call in enumerate(calls) if "write " in call and file in call),
                            next(i for i, call in enumerate(calls) if call.startswith("fsync") and file in call))
            self.assertTrue(all(file not in call for call in calls[named + 1:] if "write" in call), calls)
        self.assertEqual(calls[named + 1:], [f"fsync {self.folder.resolve()}"])


class FileSystems(Folder):
    def test_one_without_locks_holds_checkpoints_and_metrics(self):
        for steps, error in ((2, errno.ENOLCK), (3, errno.EOPNOTSUPP)):
            self.go(steps, 1, **spied(f"flock,,{error}"))
            self.assertEqual(self.steps()[-1], steps)
            self.assertEqual(self.job("verify", "run").code, 0)
        for name, rows in (("metrics.h5", 2), ("metrics.1.h5", 1)):
            with h5py.File(self.folder / "run" / name, "r", swmr=True) as metrics:
                self.assertEqual(len(metrics["steps/step"]), rows)


class Index(Folder):
    def test_tensors_are_shown_when_they_are_asked_for(self):
        self.go(2, 1)
        self.go(2, 1, "--run.dir=other", "--checkpoint.tensors=false", resume="none")
        newest = self.folder / "other" / "checkpoints" / "step-00000002"
        self.assertEqual({entry.name for entry in newest.iterdir()}, {"manifest.json", "shard-00000.h5"})
        self.assertEqual(self.job("verify", "other").code, 0)
        self.assertRegex(self.job("inspect", "other").out, r"; 1 shard\n")
        with self.assertRaisesRegex(SystemExit, "tessera index .*step-00000002"):
            reader.tensors_file(self.folder / "other")
        self.assertIn("shows the checkpoint's tensors", self.job("index", "other").out)
        self.assertEqual(reader.compare(self.folder / "run", self.folder / "other"), 0)
        self.assertEqual(self.job("verify", "other").code, 0)
        made = (newest / "tensors.h5").read_bytes()
        self.assertIn("is there already", self.job("index", newest).out)
        self.assertEqual((newest / "tensors.h5").read_bytes(), made)
        shutil.copy(self.place / "step-00000001" / "tensors.h5", newest)  # the same tensors of another step: as good
        with h5py.File(newest / "tensors.h5", "r+") as file:
            del file["parameter/transformer.ln_f.weight"]
        for damage in (lambda: None, (newest / "tensors.h5").unlink):
            damage()
            job = self.do("verify", "other")
            self.assertRegex(job.err, r"warning: .*tensors\.h5.*; nothing is loaded from it\. Make it again with "
                                      r"tessera index \S*other/checkpoints/step-00000002\n")
        for command in (["generate", "other", "--generate.prompt=a", "--generate.max_tokens=2", "--data.tokenizer=bytes"], ["export", "other", "hf"]):
            self.assertEqual(self.job(*command).code, 0)
        self.go(3, 1, "--run.dir=other", says="resume +step 2")
        self.assertIn("shows the checkpoint's tensors", self.job("index", newest).out)
        job = self.job("verify", newest)
        self.assertEqual((job.code, job.err), (0, ""), job.everything())


class Manifests(Folder):
    def start_with_spy(self, rank, rules, *arguments):
        """Two ranks, of which `rank` has the spy."""
        script = (f"if [ $OMPI_COMM_WORLD_RANK = {rank} ]; then export " +
                  " ".join(f"'{name}={value}'" for name, value in spied(rules).items()) + "; fi; exec " +
                  " ".join([os.environ["TESSERA"], "train", *arguments]))
        return subprocess.run([os.environ["MPIEXEC"], "-n", "2", "sh", "-c", script], cwd=self.folder, timeout=60,
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)

    def test_rank_0_reads_them_for_all(self):
        self.go(2, 1, ranks=2)
        refused = f"open,manifest.json,{errno.EACCES}"
        done = self.start_with_spy(1, refused, *RUN, "--train.steps=3", "--checkpoint.resume=auto")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("resume     step 2 from", done.stdout)
        others = [word for word in RUN if "model." not in word]
        done = self.start_with_spy(1, refused, *others, "--train.steps=3", "--model.from=run", "--run.dir=new")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_all_ranks_end_where_rank_0_cannot_read_one(self):
        self.go(2, 1, ranks=2)
        refused = f"open,step-00000002/manifest.json,{errno.EACCES}"
        done = self.start_with_spy(0, refused, *RUN, "--train.steps=3", "--checkpoint.resume=auto")
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
        self.assertIn("may be whole, so auto does not pass it over", done.stderr)
        self.assertEqual(self.steps(), [1, 2])


class Foreign(Folder):
    """Checkpoints that another program made."""

    def test_a_tensor_that_lies_outside_of_the_checkpoint_is_refused(self):
        self.go(1, 1)
        place = self.place / "step-00000001"
        with h5py.File(self.folder / "secret.h5", "w") as secret:
            secret["parameter"] = np.ones(4, "f4")
        secret = str(self.folder / "secret.h5")
        layout = h5py.VirtualLayout((4,), "f4")
        for name, source in (("absolute", secret), ("up", "../../../secret.h5")):
            layout[:] = h5py.VirtualSource(source, "parameter", (4,))
            with h5py.File(place / "tensors.h5", "r+") as file:
                file["parameter"].create_virtual_dataset(name, layout)
        with h5py.File(place / "tensors.h5", "r+") as file:
            file["parameter/link"] = h5py.ExternalLink(secret, "parameter")
            file["parameter"].create_dataset("raw", (4,), "f4", external=[(secret, 0, 16)])
        with reader.Tensors(place) as tensors:
            self.assertEqual(tensors["parameter", "transformer.ln_f.weight"].shape, (32,))
            for name in ("absolute", "up", "link", "raw"):
                with self.assertRaisesRegex(SystemExit, rf"parameter/{name} .*outside of the checkpoint"):
                    tensors["parameter", name]


class Order(Folder):
    def test_files_then_names_then_what_goes(self):
        self.go(1, 1, "--checkpoint.keep=1", ranks=2)
        log = self.folder / "calls"
        self.go(2, 1, "--checkpoint.keep=1", ranks=2, **spied(log=log))
        place = str(self.place.resolve())
        calls = [call.replace(place, "C").replace("run/checkpoints", "C").removesuffix(" direct") for call in log.read_text().splitlines() if "checkpoints" in call]
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
