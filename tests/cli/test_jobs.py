"""jobs/quickstart.sh and jobs/launch.sh as a newcomer starts them, run small, and events that are rare under real Slurm
(tests/slurm)."""
import os
import re
import shutil
import signal
from pathlib import Path

from job import SHORT, TINY, Case, main, status, write_text
from running import Running, checkpoints, logged

SOURCE = Path(__file__).resolve().parents[2]


class Scripts(Case):
    def program(self, name, text):
        path = self.folder / "programs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)

    def start(self, *words, **environment):
        run = Running.__new__(Running)
        path = f"{self.folder / 'programs'}:{os.environ['PATH']}"
        run.launch([str(word) for word in words], self.folder, PATH=path, **environment)
        return run

    def test_quickstart_trains_and_shows_its_table(self):
        """Packages and the build are played: the executable is there already. All else is real."""
        for name in ("jobs", "inputs", "postprocess"):
            shutil.copytree(SOURCE / name, self.folder / name)
        self.program("dpkg-query", "printf installed\n")
        self.program("cmake", f"mkdir -p build/release/bin && cp '{os.environ['TESSERA']}' build/release/bin/tessera\n"
                              "[ -e build/release/CMakeCache.txt ] || echo TESSERA_CUDA:STRING=AUTO >build/release/CMakeCache.txt\n")
        write_text(self.folder / "my texts")
        code, said = self.start("jobs/quickstart.sh", "my texts", "--train.steps=5", "--metrics.every=1",
                                "--train.seq_len=32", "--model.layers=1", "--optim.warmup_steps=2").end(timeout=60)
        self.assertEqual(code, 0, said)
        run, = (self.folder / "runs").glob("quickstart-*")
        self.assertEqual(len(logged(run)), 5, said)
        self.assertRegex(said, r"(?m)^quickstart-\S+ +done +2 +zero3")
        self.assertEqual({path.name for path in (run / "plots").iterdir()} & {"loss.png", "time.png"}, {"loss.png", "time.png"})

    def test_a_requeue_outlives_the_end_that_it_asks_for(self):
        """Slurm may end all that a script runs before scontrol, played here, has its answer."""
        self.program("scontrol", "[ $1 = requeue ] || { echo JobState=RUNNING; exit; }\n"
                                 "kill -TERM 0\nsleep 0.2\n: >requeued\n")
        manifest = self.folder / "run/checkpoints/step-00000006/manifest.json"
        manifest.parent.mkdir(parents=True)
        manifest.touch()
        script = f"source {SOURCE / 'jobs/job.sh'}; run_ranks true; TESSERA_REQUEUES=3; requeue run 0; exit 75"
        code, said = self.start("bash", "-c", script, SLURM_JOB_ID="7").end(timeout=30)
        self.assertEqual((code, (self.folder / "requeued").exists()), (75, True), said)
        self.assertIn("job 7: stopped at step 6 with a checkpoint: requeued, restart 1 of at most 3", said)

    def test_a_checkpoint_every_half_hour_unless_something_is_said(self):
        """In the words, or in an option file among them."""
        said = {"a.ini": "[checkpoint]\nevery = 5\n", "b.ini": "; x\n[ checkpoint ]\nkeep=1\n every_minutes=0 ; none\n[run]\n"}
        open_ = {"c.ini": "[checkpoint]\nkeep = 1\n# every = 5\n[metrics]\nevery = 5\n", "d.ini": ""}
        for name, text in {**said, **open_}.items():
            (self.folder / name).write_text(text)
        script = f"source {SOURCE / 'jobs/job.sh'}; says_when \"$@\" && echo yes || echo no"
        for words, expected in ((["--checkpoint.every=0"], "yes"), (["--checkpoint.every_minutes", "7"], "yes"), ([], "no"),
                                (["--checkpoint.every_x=1", "--run.dir", "c.ini"], "no"), (["none.ini"], "no"),
                                *(([name], "yes") for name in said), *(([name], "no") for name in open_)):
            code, out = self.start("bash", "-uo", "pipefail", "-c", script, "job", *words).end(timeout=30)
            self.assertEqual(out.strip(), expected, words)

    def test_a_postmortem_collects_the_files_of_the_nodes(self):
        self.train(*TINY, *SHORT, "--run.dir=run")
        run, local = self.folder / "run", self.folder / "local"
        local.mkdir()
        (run / "flight/rank-0").rename(local / "rank-0")
        (run / "flight/node-local").write_text(f"{local}\n")
        self.program("srun", "while [ $1 != sh ]; do shift; done\nexec \"$@\"\n")
        script = f"source {SOURCE / 'jobs/job.sh'}; postmortem run 3; postmortem run 5"
        code, said = self.start("bash", "-c", script, SLURM_JOB_ID="7", SLURM_JOB_NUM_NODES="1").end(timeout=30)
        self.assertEqual((code, said.count("flight     1 of 1 rank")), (0, 1), said)
        self.assertTrue((run / "flight/rank-0").exists() and not local.exists())

    def test_launch_makes_a_checkpoint_of_a_term(self):
        run = self.start(SOURCE / "jobs/launch.sh", "-n", "2", os.environ["TESSERA"], "train", *TINY, *SHORT,
                         "--train.steps=100000", "--metrics.every=1", "--run.dir=run", TESSERA_GRACE="2")
        run.wait_for(lambda: max(logged(self.folder / "run"), default=0) >= 3, "step 3")
        run.process.send_signal(signal.SIGTERM)
        code, said = run.end(timeout=60)
        self.assertEqual(code, 75, said)
        self.assertEqual(checkpoints(self.folder / "run"), [f"step-{status(self.folder / 'run')['step']:08}"])
        self.assertTrue(re.search(r"stopped +after step \d+", said), said)


if __name__ == "__main__":
    main()
