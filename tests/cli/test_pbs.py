"""jobs/train.pbs under a stand-in of PBS: qsub puts jobs into a folder, qstat tells of them, and the test runs them one
after the other. No PBS cluster was at hand. mpirun is the real one."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from job import SHORT, TINY, Case, main, status
from running import checkpoints, logged

SOURCE = Path(__file__).resolve().parents[2]
WORDS = [word for word in TINY if "train.steps" not in word] + SHORT + ["--metrics.every=1", "--data.val_fraction=0"]

# A job: the directives of its script, over them the options of qsub; and what -v hands on, with its value or from qsub's own
# environment. Resources are those of `-l`, by name.
QSUB = '''#!{python}
import json, os, pathlib, sys
options, words, values = [], sys.argv[1:], {{}}
script = pathlib.Path(words.pop())
for line in script.read_text().splitlines():
    if line.startswith("#PBS "):
        options += line.split()[1:]
job = {{"Job_Name": script.name, "queue": "work", "script": str(script), "variables": {{}}, "depend": ""}}
for name, value in zip((options + words)[::2], (options + words)[1::2]):
    if name == "-l":
        resource, _, amount = value.partition("=")
        job["Resource_List." + resource] = amount
    elif name == "-v":
        for word in value.split(","):
            job["variables"][word.partition("=")[0]] = word.partition("=")[2] or os.environ[word]
    elif name == "-W":
        job["depend"] = value
    elif name in ("-N", "-q", "-A", "-P"):
        job[{{"-N": "Job_Name", "-q": "queue", "-A": "Account_Name", "-P": "project"}}[name]] = value
    elif name not in ("-S", "-j", "-r"):
        sys.exit("qsub: illegal option " + name)
number = 7 + len(list(pathlib.Path("{jobs}").iterdir()))
pathlib.Path("{jobs}", str(number)).write_text(json.dumps(job))
print(f"{{number}}.stand-in")
'''
# Lines of more than 78 columns are wrapped.
QSTAT = '''#!{python}
import json, pathlib, sys
job = json.loads(pathlib.Path("{jobs}", sys.argv[2].partition(".")[0]).read_text())
print("Job Id: " + sys.argv[2])
for name, value in job.items():
    if name not in ("script", "variables", "depend") and value:
        line = f"    {{name}} = {{value}}"
        print("\\n\\t".join(line[i:i + 78] for i in range(0, len(line), 78)))
'''


class Pbs(Case):
    def setUp(self):
        super().setUp()
        self.jobs, self.programs = self.folder / "queue", self.folder / "programs"
        self.jobs.mkdir()
        self.programs.mkdir()
        for name, text in (("qsub", QSUB), ("qstat", QSTAT)):
            (self.programs / name).write_text(text.format(python=sys.executable, jobs=self.jobs))
            (self.programs / name).chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{self.programs}:{os.environ['PATH']}",
                            "TESSERA_JOBS": str(SOURCE / "jobs")}

    def submit(self, words, *options, **environment):
        done = subprocess.run(["qsub", "-v", "TESSERA_WORDS,TESSERA_JOBS,TESSERA,TESSERA_REQUEUES", *options,
                               SOURCE / "jobs/train.pbs"], cwd=self.folder, capture_output=True, text=True,
                              env={"TESSERA_REQUEUES": "20", **self.environment, "TESSERA_WORDS": words, **environment})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def run_job(self, number, then=None, **environment):
        """The exit code of a job, and what it said; `then` is called with its process."""
        job = json.loads((self.jobs / str(number)).read_text())
        ranks = int(re.search(r"mpiprocs=(\d+)", job["Resource_List.select"])[1])
        (self.folder / "nodes").write_text("localhost\n" * ranks)
        plain = {name: value for name, value in self.environment.items() if not name.startswith("TESSERA")}
        process = subprocess.Popen(
            ["bash", job["script"]], cwd="/", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
            env={**plain, **job["variables"], "PBS_JOBID": f"{number}.stand-in", "PBS_JOBNAME": job["Job_Name"],
                 "PBS_O_WORKDIR": str(self.folder), "PBS_NODEFILE": str(self.folder / "nodes"), **environment})
        if then:
            then(process)
        return process.wait(timeout=100), process.communicate()[0]

    def queue(self):
        return sorted(int(path.name) for path in self.jobs.iterdir())

    def test_jobs_follow_each_other_until_all_steps_are_done(self):
        """Each is stopped ahead of its limit. Losses are those of a run that was never stopped."""
        resources = "select=1:ncpus=2:mpiprocs=2:long_name_of_a_resource_so_that_qstat_wraps_its_line_of_resources=1"
        words = self.words_from_a_beginning("--checkpoint.every=1000000")
        self.submit(words, "-l", resources, "-l", "walltime=0:00:06", "-N", "mine", "-A", "project7", TESSERA=self.slow())
        ended = []
        while len(ended) < 12:
            code, said = self.run_job(self.queue()[-1])
            ended.append(code)
            self.assertIn(code, (0, 75), said)
            self.assertIn(f"2 ranks on localhost, restart {len(ended) - 1}, into {self.folder}/runs/mine-7", said)
            if code == 0:
                break
            self.assertRegex(said, rf"job {6 + len(ended)}: stopped at step \d+ with a checkpoint: job {7 + len(ended)}.stand-in follows")
            follower = json.loads((self.jobs / str(self.queue()[-1])).read_text())
            self.assertEqual(follower["depend"], f"depend=afterany:{6 + len(ended)}.stand-in")
            first = json.loads((self.jobs / "7").read_text())
            for name in ("Resource_List.select", "Resource_List.walltime", "Job_Name", "Account_Name"):
                self.assertEqual(follower[name], first[name])
        self.assertGreater(len(ended), 1)
        self.assertEqual(ended[-1], 0)
        self.check_whole(*(self.folder / "runs").iterdir())

    def test_a_job_that_pbs_runs_again_goes_on(self):
        """With its own number, because a node failed."""
        words = self.words_from_a_beginning("--checkpoint.every=2", "--run.dir=again")
        self.submit(words, "-l", "select=1:ncpus=2:mpiprocs=2", TESSERA=self.slow())

        def fail(process):
            while len(checkpoints(self.folder / "again")) < 2:
                time.sleep(0.05)
            os.killpg(process.pid, signal.SIGKILL)

        code, said = self.run_job(7, fail)
        self.assertEqual(code, -signal.SIGKILL, said)
        code, said = self.run_job(7)
        self.assertEqual(code, 0, said)
        self.assertRegex(said, r"resume +step \d+ from again/checkpoints")
        self.check_whole(self.folder / "again")

    def words_from_a_beginning(self, *more):
        """Of a run that goes on from another one's first step to step 40."""
        self.train(*WORDS, "--train.steps=1", "--optim.schedule=constant", "--checkpoint.every=1", "--run.dir=begin", ranks=2)
        return " ".join(WORDS + ["--train.steps=40", "--optim.schedule=constant",
                                 "--checkpoint.resume=begin/checkpoints/step-00000001", *more])

    def check_whole(self, run):
        self.train(*WORDS, "--train.steps=40", "--optim.schedule=constant", "--run.dir=whole", ranks=2)
        whole = logged(self.folder / "whole")
        del whole[1]
        self.assertEqual(logged(run), whole)

    def slow(self):
        """A program whose steps take a tenth of a second, by a link that is emulated."""
        slow = self.programs / "tessera"
        slow.write_text(f'#!/bin/sh\nexec "{os.environ["TESSERA"]}" "$@" --comm.emulate=20ms,0\n')
        slow.chmod(0o755)
        return str(slow)

    def test_no_job_follows_one_that_made_no_progress_or_was_asked_to_stop(self):
        words = " ".join(WORDS + ["--train.steps=1000000"])
        at_once = self.programs / "tessera"
        at_once.write_text("#!/bin/sh\nexit 75\n")
        at_once.chmod(0o755)
        self.submit(words, "-l", "select=1:ncpus=2:mpiprocs=2", "-l", "walltime=00:00:01", TESSERA=str(at_once))
        code, said = self.run_job(7)
        self.assertEqual((code, self.queue()), (75, [7]), said)
        self.assertIn("no progress, no other job follows. Is walltime too short?", said)
        self.submit(words + " --run.dir=asked", "-l", "select=1:ncpus=2:mpiprocs=2")

        def ask(_):
            while len(logged(self.folder / "asked")) < 3:
                time.sleep(0.05)
            (self.folder / "asked/stop").touch()

        code, said = self.run_job(8, ask)
        self.assertEqual((code, self.queue()), (75, [7, 8]), said)
        self.assertIn("as asked/stop asked: no other job follows", said)
        self.assertEqual(len(checkpoints(self.folder / "asked")), 1)
        self.assertEqual(status(self.folder / "asked")["code"], 75)

    def test_words_may_have_blanks_and_none_are_refused(self):
        mpirun = self.programs / "mpirun"
        mpirun.write_text(f'#!/bin/sh\necho "$@" >mpirun.words\nexec {shutil.which("mpirun")} "$@"\n')
        mpirun.chmod(0o755)
        self.submit(" ".join(WORDS) + " --train.steps=2 '--run.dir=with a blank'", "-l", "select=1:ncpus=2:mpiprocs=1")
        code, said = self.run_job(7, NCCL_SOCKET_IFNAME="ib0")
        self.assertEqual(code, 0, said)
        handed_on = re.findall(r" -x (\S+)", (self.folder / "mpirun.words").read_text())  # to ranks of other nodes
        self.assertLessEqual({"NCCL_SOCKET_IFNAME", "TESSERA_JOB_SCRIPT"}, set(handed_on))
        self.assertEqual(len(logged(self.folder / "with a blank")), 2)
        self.submit("")
        code, said = self.run_job(8)
        self.assertEqual(code, 2, said)
        self.assertIn("TESSERA_WORDS is empty", said)


if __name__ == "__main__":
    main()
