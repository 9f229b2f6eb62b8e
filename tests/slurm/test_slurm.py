"""The job scripts, submitted with sbatch to a Slurm of the test's own (cluster.py). They are used as an installation
has them; only site.sh is edited, as it is for every cluster.

Environment: TESSERA, MPIEXEC, TESSERA_REFERENCE as for tests/cli, and BUILD (what is installed), CMAKE.
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "cli"))

from cluster import Cluster, SlurmJob, enter_namespaces, output, wait_for
from job import SHORT, TINY, Case, Job, main, said_once, status
from running import checkpoints, logged

# A site's own lines. Nodes of this one share cores, and have no network but the local one.
SITE = """
export SBATCH_PARTITION=main
site_setup() {
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo OMPI_MCA_mpi_yield_when_idle=1
}
"""
MPIRUN = {"TESSERA_LAUNCHER": "mpirun", "TESSERA_LAUNCHER_OPTIONS": "--bind-to none --oversubscribe"}
RUN = [word for word in TINY if "train.steps" not in word] + SHORT + [
    "--run.device=cpu", "--metrics.every=1", "--checkpoint.every=1000000", "--data.val_fraction=0"]
STEPS = 600
LONGER = [*RUN, f"--train.steps={STEPS}", "--comm.emulate=1ms,0"]  # ten seconds, in which a run is stopped
TWO_RANKS = ["--ntasks-per-node=2", "--gpus-per-node=2", "--cpus-per-task=1"]


def settings(**more):
    """The environment of a user on a login node: nothing of what CTest gives Open MPI on this machine."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "TESSERA"))}
    return {**kept, **more}


class Jobs(Case):
    def submit(self, script, *words, sbatch=TWO_RANKS, site=True, cwd=None, **environment):
        """A job that runs in the test's folder, or in `cwd`. `site`: as is told, site.sh was sourced before."""
        command = f'{"source $0/site.sh && " if site else ""}exec sbatch --parsable "$@"'
        done = subprocess.run(["bash", "-c", command, JOBS, "--time=5", *sbatch, JOBS / script, *words],
                              cwd=cwd or self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env=settings(**environment))
        self.assertEqual(done.returncode, 0, done.stderr)
        return SlurmJob(done.stdout.strip())

    def run_of(self, job):
        return self.folder / "runs" / f"tessera-{job.number}"

    def expect(self, job, state, code, says="", restarts=0, timeout=60):
        facts = job.end(timeout)
        said = job.said()
        seen = facts["JobState"], facts["ExitCode"], facts["Restarts"]
        self.assertEqual(seen, (state, f"{code}:0", str(restarts)), said)
        self.assertRegex(said, says)
        return said

    def losses(self, *words, ranks):
        """Returns the losses of an uninterrupted run, without Slurm."""
        self.train(*words, "--run.dir=reference", "--comm.emulate=none", ranks=ranks)
        return logged(self.folder / "reference")


class Slurm(Jobs):
    def wait_for_steps(self, job, steps):
        wait_for(lambda: max(logged(self.run_of(job)), default=0) >= steps, lambda: f"step {steps}\n{job.said()}")

    def test_one_node(self):
        probe = self.folder / "probe"
        probe.write_text('#!/bin/sh\nenv >"env.$SLURM_PROCID"\nexec "$@"\n')
        probe.chmod(0o755)
        words = [*RUN, "--train.steps=5", "--shard.strategy=zero3"]
        # Variables of a job in which this one is submitted.
        job = self.submit("train.sbatch", *words, TESSERA_WRAP=str(probe), SLURM_JOB_END_TIME="1000000000",
                          SLURM_RESTART_COUNT="3", SLURM_ARRAY_JOB_ID="1", SLURM_ARRAY_TASK_ID="1", SLURM_MEM_PER_CPU="100")
        said = self.expect(job, "COMPLETED", 0, r"job \d+: 2 ranks on node\d, 2 GPUs per node, restart 0")
        self.assertRegex(said, r"grid +2 ranks \(2 per node\)")
        self.assertEqual(logged(self.run_of(job)), self.losses(*words, ranks=2))
        seen = [dict(re.findall(r"^(\w+)=(.*)$", (self.folder / f"env.{rank}").read_text(), re.M)) for rank in range(2)]
        for rank in seen:  # each sees both GPUs
            self.assertRegex(rank["CUDA_VISIBLE_DEVICES"], r"^(0,1|2,3)$")
            self.assertEqual(rank["CUDA_VISIBLE_DEVICES"], seen[0]["CUDA_VISIBLE_DEVICES"])
            self.assertGreater(int(rank["SLURM_JOB_END_TIME"]), time.time() + 60)
            self.assertNotIn("OMPI_MCA_hwloc_base_binding_policy", rank)
            self.assertEqual(rank["SLURM_PMIX_FENCE"], "ring")

    def test_two_nodes(self):
        words = [*RUN, "--train.steps=5"]
        sbatch = [*TWO_RANKS, "--nodes=2"]
        jobs = [self.submit("train_multinode.sbatch", *words, sbatch=sbatch, **how) for how in ({}, MPIRUN)]
        losses = self.losses(*words, "--shard.strategy=hsdp", "--grid.ranks_per_node=2", ranks=4)
        for job in jobs:
            said = self.expect(job, "COMPLETED", 0, r"4 ranks on node\[1-2\]")
            self.assertRegex(said, r"grid +4 ranks \(2 per node\), shard group 2, 2 replicas")
            self.assertEqual(logged(self.run_of(job)), losses)

    def test_requeue_and_postprocess(self):
        """Dependent jobs wait for its last attempt."""
        job = self.submit("train.sbatch", *LONGER)
        report = self.submit("postprocess.sbatch", f"runs/tessera-{job.number}", "--json=rows.json", "--plots=plots",
                             sbatch=[f"--dependency=afterany:{job.number}"])
        self.stopped_and_requeued(job, times=2)
        self.expect(report, "COMPLETED", 0, r"tokens/s")
        self.assertGreaterEqual(report.facts()["StartTime"], job.facts()["EndTime"])
        row, = json.loads((self.folder / "rows.json").read_text())
        self.assertEqual((row["status"], row["attempts"]), ("done", 3))
        self.assertEqual(row["final_loss"], logged(self.run_of(job))[STEPS])
        self.assertTrue((self.folder / "plots" / "loss.png").exists())

    def test_requeue_with_mpirun(self):
        """The command line's run folder and options of a first start count."""
        own = ["--run.dir", "runs/own", "--checkpoint.resume", "none"]
        job = self.submit("train.sbatch", *LONGER, *own, **MPIRUN)
        self.stopped_and_requeued(job, times=1, run=self.folder / "runs" / "own")

    def stopped_and_requeued(self, job, times, run=None):
        """Ends with the losses of an uninterrupted run."""
        run, steps = run or self.run_of(job), 0
        for restart in range(1, times + 1):
            wait_for(lambda: max(logged(run), default=0) > steps, lambda: f"step\n{job.said()}")
            output("scancel", "--batch", "--signal=USR1", job.number)
            wait_for(lambda: job.facts()["Restarts"] == str(restart), lambda: f"restart {restart}\n{job.said()}")
            steps = max(logged(run))
            job.wait("RUNNING")
        said = self.expect(job, "COMPLETED", 0, f"requeued, restart {times} of at most 20", restarts=times)
        # Each restart reads the copy that the attempt before left in the node's memory; the end deletes it.
        self.assertEqual(len(re.findall(r"resume +step \d+ from .*, of it [1-9].* near\)", said)), times, said)
        self.assertFalse(Path(re.search(r"near +(/dev/shm/\S+): ", said)[1]).exists())
        self.assertEqual(len(re.findall(r"stopped +after step \d+ of \d+ \(SIGUSR1\)", said)), times, said)
        self.assertEqual(logged(run), self.losses(*LONGER, ranks=2))

    def test_limit_then_stop_file(self):
        """Slurm sends USR1 before the limit; RUN/stop, made while the job is in the queue again, ends it for good."""
        sbatch = [*TWO_RANKS, "--time=1", "--signal=B:USR1@50"]
        job = self.submit("train.sbatch", *RUN, "--train.steps=100000000", sbatch=sbatch)
        wait_for(lambda: job.facts()["Restarts"] == "1", "restart", timeout=75)
        (self.run_of(job) / "stop").touch()
        said = self.expect(job, "FAILED", 75, r"as .*/stop asked: not requeued", restarts=1)
        self.assertTrue(said_once(said, r"stopped +after step \d+ of 100000000 \(SIGUSR1\)"), said)

    def test_attempts_are_counted(self):
        """Tasks of an array, each in its own folder, on CPUs. An attempt makes one step, because run.walltime is over then."""
        sbatch = ["--array=0-1", "--ntasks-per-node=2", "--gpus-per-node=0", "--cpus-per-task=1"]
        array = self.submit("train.sbatch", *RUN, "--train.steps=100", "--run.walltime=1ms", sbatch=sbatch,
                            TESSERA_REQUEUES="1")
        for task in (SlurmJob(f"{array.number}_{index}") for index in range(2)):
            self.expect(task, "FAILED", 75, r"stopped at step 2 .* after 1 restarts .*: not requeued", restarts=1)
            self.assertEqual(checkpoints(self.run_of(task)), ["step-00000001", "step-00000002"])
            self.assertEqual((self.run_of(task) / "requeues").read_text(), f"{task.number} 0 1\n{task.number} 1 2\n")

    def test_no_progress(self):
        stopped = self.folder / "stopped"
        stopped.write_text("#!/bin/sh\nmkdir -p runs/tessera-$SLURM_JOB_ID\nexit 75\n")
        stopped.chmod(0o755)
        self.expect(self.submit("train.sbatch", TESSERA=str(stopped)), "FAILED", 75, r"no progress, not requeued")

    def test_killed_rank(self):
        for launcher in {}, MPIRUN:
            job = self.submit("train.sbatch", *RUN, "--train.steps=100000000", **launcher)
            self.wait_for_steps(job, 1)
            os.kill(job.ranks()[1], signal.SIGKILL)
            said = self.expect(job, "FAILED", 137, r"job \d+: a rank was killed \(SIGKILL, code 137\)")
            self.assertRegex(said.splitlines()[-1], r"rank 1 on \S+ .*is gone: it was killed \(SIGKILL\)")

    def test_cancelled(self):
        """Ranks write a checkpoint within Slurm's KillWait; the job does not come back."""
        job = self.submit("train.sbatch", *RUN, "--train.steps=100000000")
        self.wait_for_steps(job, 1)
        output("scancel", job.number)
        facts = job.wait("CANCELLED")
        self.assertEqual(facts["Restarts"], "0")
        wait_for(lambda: status(self.run_of(job))["state"] == "stopped", f"checkpoint\n{job.said()}")
        wait_for(lambda: not job.ranks(), "end of the ranks")
        self.assertEqual(job.facts()["JobState"], "CANCELLED", job.said())
        self.assertNotIn("requeued, restart", job.said())

    def test_refused(self):
        # Submitted without site.sh from the folder that holds jobs/, then from another.
        job = self.submit("train.sbatch", *RUN, "--train.micro_batch=-1", site=False, cwd=JOBS.parent)
        self.expect(job, "FAILED", 2, r"tessera: .*micro_batch(.|\n)*job \d+: refused \(code 2\)")
        for script in "train.sbatch", "train_multinode.sbatch", "postprocess.sbatch", "study.sbatch":
            job = self.submit(script, site=False)
            self.expect(job, "FAILED", 2, rf"{script}: no .*/jobs/site\.sh.*: source jobs/site\.sh")
        job = self.submit("study.sbatch", "no_such", sbatch=[])
        self.expect(job, "FAILED", 2, r"no study 'no_such': .*course\.ini .*strong_scaling\.ini")
        job = self.submit("postprocess.sbatch", "runs/none", sbatch=[])
        self.expect(job, "FAILED", 4, r"tessera-report: runs/none does not exist")

    def test_singletons(self):
        """Slurm starts two tasks and tells MPI nothing of it."""
        job = self.submit("train.sbatch", *RUN, "--train.steps=5", TESSERA_LAUNCHER="srun --mpi=none")
        said = self.expect(job, "FAILED", 2, r"tessera: .*srun --mpi=pmix")
        self.assertTrue(said_once(said, r"(?m)^tessera: "), said)
        self.assertEqual(list(self.run_of(job).iterdir()), [])  # job.sh makes the folder


PROGRAM = """
import json, os, sys, time
tokens, run = sys.argv[1:]
assert os.path.getsize(tokens) == 1024 + 2 * 5000
json.dump({"/steps/step": [1, 2], "/steps/loss": [5, 4], "/steps/seconds": [1, 1], "/steps/tokens_per_second": [100, 100]},
          open(run + "/metrics.json", "w"))
"""
SWEEP = """[sweep]
baseline = 1-ddp
requeues = 1
limit = 5min
sbatch = --mem=0
[sweep.vary]
ranks = 1, 2, 4
shard.strategy = ddp, zero2, zero3
[sweep.row too big]
model.width = 512
[sweep.row program]
kind = command
command = %s program.py {tokens} {run}
[sweep.row long]
ranks = 2
train.steps = 600
comm.emulate = 1ms,0
[sweep.row killed]
ranks = 2
train.steps = 600
comm.emulate = 1ms,0
shard.strategy = ddp
[plan]
memory = 20MB
[run]
device = cpu
threads = 1
[model]
layers = 2
width = 32
heads = 2
context = 32
[data]
synthetic_tokens = 5K
val_fraction = 0
[train]
steps = 5
micro_batch = 2
global_batch = 8
[metrics]
every = 1
"""


class Sweeps(Jobs):
    def sweep(self, action, *words, code=0, **environment):
        done = subprocess.run([os.environ["TESSERA"], "sweep", "demo.ini", f"--sweep.action={action}", *words], cwd=self.folder,
                              capture_output=True, text=True, env=settings(TESSERA_JOBS=str(JOBS), **environment))
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def row(self, name):
        return status(self.folder / "runs/demo" / name)

    def states(self):
        return {name: self.row(name)["status"] for name in self.names}

    def outputs(self):
        return "\n".join(f"{path}:\n{path.read_text()}" for path in self.folder.glob("runs/demo/*/output.txt"))

    def table(self, job):
        self.expect(SlurmJob(job), "COMPLETED", 0, "tokens/s", timeout=90)
        return {row["row"]: row for row in json.loads((self.folder / "runs/demo/table.json").read_text())}

    def test_from_one_file_to_a_table(self):
        """One task is killed, and tried again alone; one is stopped before its limit, and requeued."""
        (self.folder / "program.py").write_text(PROGRAM)
        (self.folder / "demo.ini").write_text(SWEEP % sys.executable)
        said = self.sweep("submit")
        shapes = re.findall(r"^job (\d+): (\d+) rows? on (\d) ranks?$", said, re.M)
        self.assertEqual([shape[1:] for shape in shapes], [("4", "1"), ("5", "2"), ("3", "4")], said)
        report, = re.findall(r"^job (\d+): the table", said, re.M)
        product = [f"{ranks}-{strategy}" for ranks in (1, 2, 4) for strategy in ("ddp", "zero2", "zero3")]
        self.names = [*product, "too_big", "program", "long", "killed"]
        self.assertRegex(self.sweep("submit", code=2), r"job \d+ of this sweep has not ended, as squeue says")
        runs = self.folder / "runs/demo"
        jobs = {}
        for _ in range(2):  # in whichever order Slurm starts them
            name = wait_for(lambda: next((name for name in ("killed", "long") if name not in jobs
                                          and max(logged(runs / name / "run"), default=0) >= 1), None),
                            lambda: f"steps: {self.sweep('status')}", timeout=120)
            jobs[name] = SlurmJob(self.row(name)["job"])
            if name == "killed":
                os.kill(jobs[name].ranks()[1], signal.SIGKILL)
            else:
                output("scancel", "--batch", "--signal=USR1", jobs[name].number)
        killed, long = jobs["killed"], jobs["long"]
        wait_for(lambda: long.facts()["Restarts"] == "1", lambda: f"a restart\n{long.said()}")
        self.assertRegex(self.row("long")["message"], r"stopped at step \d+ with a checkpoint: goes on in restart 1 of 1")
        long.wait("RUNNING")
        rows = self.table(report)
        self.expect(killed, "FAILED", 137, "row killed: 2 ranks on node")
        self.assertEqual(self.states(), {**dict.fromkeys(self.names, "done"), "too_big": "does-not-fit", "killed": "failed"},
                         self.sweep("status"))
        self.assertEqual((self.row("killed")["code"], self.row("long")["attempts"]), (137, 2))
        self.assertEqual(list(rows), self.names)
        losses = {name: logged(runs / name / "run") for name in self.names}
        for name in product:
            self.assertEqual(losses[name], losses["1-ddp"], name)
            self.assertGreater(rows[name]["speedup"], 0)
        self.assertEqual(losses["long"], self.losses(runs / "long/config.ini", ranks=2))
        self.assertEqual((rows["killed"]["status"], rows["too_big"]["status"], rows["program"]["final_loss"]), ("failed", "does-not-fit", 4))
        said = self.sweep("retry")
        self.assertRegex(said, r"^job \d+: 1 row on 2 ranks\n")
        rows = self.table(re.search(r"job (\d+): the table", said)[1])
        self.assertEqual((rows["killed"]["status"], rows["killed"]["final_loss"]), ("done", losses["long"][600]))
        self.assertEqual(self.sweep("retry"), "nothing to try again: no row has failed\n")
        self.assertTrue((runs / "plots/throughput.png").exists() and (runs / "table.csv").exists())
        self.assertIn("<h1>", (runs / "report.html").read_text())

    def test_a_study(self):
        """Its rows and its report are submitted from within a job; the real version has another base and folder."""
        words = ["--sweep.only=2-*", "--train.steps=3", "--model.layers=1", "--train.seq_len=16", "--run.threads=1"]
        job = self.submit("study.sbatch", "strong_scaling", *words, sbatch=[])
        said = self.expect(job, "COMPLETED", 0, r"job \d+: 2 rows on 2 ranks\n")
        report = SlurmJob(re.search(r"job (\d+): the table, after them, into runs/strong_scaling\n", said)[1])
        self.expect(report, "COMPLETED", 0, "tokens/s", timeout=90)
        runs = self.folder / "runs/strong_scaling"
        rows = {row["row"]: row for row in json.loads((runs / "table.json").read_text())}
        self.assertEqual([rows[name]["status"] for name in ("2-ddp", "2-zero3", "8-ddp")], ["done", "done", "pending"])
        self.assertEqual(logged(runs / "2-ddp/run"), logged(runs / "2-zero3/run"))
        real = self.submit("study.sbatch", "strong_scaling", "real", "--sweep.only=2-ddp", "--plan.memory=1GB", sbatch=[])
        self.expect(real, "COMPLETED", 0, r"2-ddp +does-not-fit +plan\.memory = 1\.00 GB(.|\n)*nothing to submit")
        self.assertTrue((self.folder / "runs/strong_scaling-real/2-ddp/config.ini").exists())

    def test_one_row_after_the_other(self):
        """Rows of an exclusive sweep do not overlap, whatever their shapes; each has all cores of its nodes."""
        probe = self.folder / "probe"
        probe.write_text('#!/bin/sh\necho "$SLURM_JOB_NUM_NODES $SLURM_CPUS_PER_TASK $SLURM_STEP_NUM_TASKS" '
                         '>"$(dirname "$3").cores"\nexec "$@"\n')
        probe.chmod(0o755)
        (self.folder / "demo.ini").write_text(
            "[sweep]\nexclusive = true\n[sweep.row a]\nranks = 2\n[sweep.row b]\nranks = 2\noptim.lr = 0.1\n"
            "[sweep.row nodes]\nranks = 4\ngrid.ranks_per_node = 2\n[plan]" + SWEEP.split("[plan]")[1])
        said = self.sweep("submit", TESSERA_WRAP=str(probe))
        jobs = re.findall(r"^job (\d+): (?:1 row|2 rows) on (\d) ranks?(?:, after job (\d+))?$", said, re.M)
        self.assertEqual([(ranks, after) for _, ranks, after in jobs],
                         [("2", ""), ("4", jobs[0][0])], said)
        self.table(re.search(r"job (\d+): the table", said)[1])
        self.names = ["a", "b", "nodes"]
        self.assertEqual(self.states(), dict.fromkeys(self.names, "done"), self.outputs())
        rows = [self.row(name) for name in self.names]
        for before, row in zip(rows, rows[1:]):
            self.assertLessEqual(before["updated_unix"], row["started_unix"])
            self.assertEqual(SlurmJob(row["job"]).facts()["OverSubscribe"], "NO")
        cores = {name: (self.folder / f"runs/demo/{name}.cores").read_text().split() for name in self.names}
        self.assertEqual(cores, {"a": ["1", "2", "2"], "b": ["1", "2", "2"], "nodes": ["2", "2", "4"]})

    def test_no_more_restarts(self):
        """The row is timed-out then."""
        (self.folder / "demo.ini").write_text(
            SWEEP.split("[sweep.row")[0].replace("1, 2, 4", "2").replace("ddp, zero2, zero3", "ddp").replace("1-ddp", "2-ddp")
            .replace("requeues = 1", "requeues = 0") + "[plan]" + SWEEP.split("[plan]")[1].replace("steps = 5", "steps = 100000000"))
        job = re.search(r"job (\d+): 1 row", self.sweep("submit"))[1]
        self.names = ["2-ddp"]
        wait_for(lambda: max(logged(self.folder / "runs/demo/2-ddp/run"), default=0) >= 1, lambda: f"steps: {self.sweep('status')}")
        output("scancel", "--batch", "--signal=USR1", f"{job}_1")
        self.expect(SlurmJob(f"{job}_1"), "FAILED", 75, r"stopped, and not requeued: runs/demo/2-ddp/status.json says why")
        self.assertEqual(self.states(), {"2-ddp": "timed-out"})
        self.assertRegex(self.row("2-ddp")["message"], r"stopped at step \d+ with a checkpoint after 0 restarts")


if __name__ == "__main__":
    enter_namespaces()
    os.environ["OMPI_MCA_oob_tcp_if_include"] = "lo"  # for the runs without Slurm
    with tempfile.TemporaryDirectory(prefix="tessera-slurm-") as home:
        JOBS = Path(home) / "installed/share/tessera/jobs"
        subprocess.run([os.environ["CMAKE"], "--install", os.environ["BUILD"], "--prefix", Path(home) / "installed"],
                       check=True, stdout=subprocess.DEVNULL)
        with (JOBS / "site.sh").open("a") as site:
            site.write(SITE)
        Cluster(Path(home) / "slurm")
        # Open MPI 4.1 may call a null pointer in MPI_Init when a TCP message of another node comes early (its btl/tcp, in
        # one of four runs beside other jobs), and nodes of users do not share two cores.
        main(at_once=4, alone=["test_two_nodes"])
