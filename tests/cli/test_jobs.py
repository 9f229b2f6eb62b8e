"""jobs/quickstart.sh and jobs/launch.sh as a newcomer starts them, run small, and events that are rare under real Slurm
(tests/slurm)."""
import os
import random
import shutil
from pathlib import Path

from job import SHORT, TINY, Case, Running, main, status, write_text
from running import logged

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

    def test_a_job_that_slurm_requeues_itself_goes_on(self):
        """Preempted, or put back by hand: the job is COMPLETING as after scancel, but its restart is counted."""
        row = self.folder / "sweep/row"
        row.mkdir(parents=True)
        (self.folder / "run").mkdir()
        (self.folder / "list").write_text("row\n")
        (row / "row.ini").touch()
        of_row = ("own_variables() { :; }; choose_launcher() { launcher=(x); }; site_setup() { :; }; TESSERA_LAUNCHER=x; "
                  "TESSERA=/bin/true; run_ranks() { code=75; cancelled=1; }; (sweep_job list sweep) || :")
        task = {"SLURM_ARRAY_TASK_ID": "1", "SLURM_NTASKS": "1", "SLURM_JOB_NODELIST": "n"}
        for restarts, ended, state in ((1, "Slurm has put the job back into the queue itself", "pending"),
                                       (0, "Slurm ended the job: not requeued", "stopped")):
            self.program("scontrol", f"echo JobState=COMPLETING Restarts={restarts}\n")
            said = self.of_job_sh("cancelled=1; requeue run 0")
            self.assertRegex(said, "itself: goes on in restart 1\n" if restarts else "Slurm ends the job: not requeued\n")
            for before in ("pending", "stopped") if restarts else ("pending",):  # a sweep that gets TERM writes "stopped"
                (row / "status.json").write_text(f'{{\n  "state": "{before}",\n  "message": "",\n  "code": 75\n}}\n')
                said = self.of_job_sh(of_row, **task)
                self.assertIn(ended, said)
                self.assertEqual(status(row)["state"], state, said)

    def test_a_run_that_was_asked_to_stop_by_its_file_is_not_requeued(self):
        (self.folder / "run").mkdir()
        self.program("scontrol", "echo JobState=RUNNING Restarts=0\n")
        for more, said in ((',\n  "by_stop_file": true', "as run/stop asked: not requeued\n"), ("", "no progress, not requeued")):
            (self.folder / "run/status.json").write_text(f'{{\n  "message": "after step 3 of 9 (the file run/stop)"{more}\n}}\n')
            self.assertIn(said, self.of_job_sh("cancelled=; requeue run 0"))

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

    def of_job_sh(self, script, **environment):
        """What a shell says that has read job.sh, in job 8."""
        code, said = self.start("bash", "-c", f"set -u; source {SOURCE / 'jobs/job.sh'}; {script}", SLURM_JOB_ID="8",
                                **environment).end(timeout=30)
        self.assertEqual(code, 0, said)
        return said

    def test_variables_of_another_job_are_not_believed(self):
        """sbatch passes on those of the job, the step and the rank in which it is called."""
        draw = random.Random(1)
        foreign = ["SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURM_MEM_PER_CPU", "SLURM_CPU_BIND", "SLURM_CPU_BIND_TYPE",
                   "SLURM_GPUS_PER_TASK", "SLURM_TRES_PER_TASK", "PMI_RANK", "PMIX_RANK", "PMIX_NAMESPACE", "PMIX_SERVER_URI2"]
        of_rank = ["OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_UNIVERSE_SIZE", "OMPI_MCA_ess", "OMPI_MCA_orte_hnp_uri"]
        own = ["SLURM_NTASKS", "SLURM_CPUS_ON_NODE", "PMIX_MCA_gds", "OMPI_MCA_btl_tcp_if_include", "SBATCH_ACCOUNT"]
        for _ in range(12):
            restarts, cores, array, gpus = (draw.randrange(3) for _ in range(4))
            of_array = f"ArrayJobId={array} ArrayTaskId=2 " if array else ""
            record = (f"JobId=8 {of_array}JobName=x Restarts={restarts} NumTasks=1 CPUs/Task={cores + 1} "
                      f"TresPerNode={'gres:gpu:2' if gpus else '(null)'} ")
            self.program("scontrol", f"[ \"$*\" = '--oneliner show job 8' ] && echo 'JobId=7 x'; echo '{record}'\n")
            said = {"SLURM_RESTART_COUNT": draw.randrange(3), "SLURM_CPUS_PER_TASK": draw.randrange(3) + 1,
                    "SLURM_ARRAY_JOB_ID": draw.randrange(3), "SLURM_ARRAY_TASK_ID": 2, "SLURM_GPUS_ON_NODE": 2}
            said |= {name: 1 for name in [*foreign, *of_rank, *own] if draw.random() < 0.7}
            said = {name: str(value) for name, value in said.items() if draw.random() < 0.8}
            expected = {name: value for name, value in said.items() if name in own or name.startswith("SLURM_GPUS_ON") and gpus}
            if "OMPI_COMM_WORLD_SIZE" not in said:
                expected |= {name: said[name] for name in of_rank if name in said}
            expected |= {"SLURM_RESTART_COUNT": str(restarts), "SLURM_EXPORT_ENV": "ALL"}
            if said.get("SLURM_CPUS_PER_TASK") == str(cores + 1):
                expected["SLURM_CPUS_PER_TASK"] = str(cores + 1)
            if array and said.get("SLURM_ARRAY_JOB_ID") == str(array):
                expected |= {name: said[name] for name in said if name.startswith("SLURM_ARRAY")}
            if "SLURM_STEP_ID" in said:
                expected["SLURM_OVERLAP"] = "1"
            names = [*foreign, *of_rank, *own, *said, *expected, "SLURM_OVERLAP"]
            seen = dict(line.split("=", 1) for line in self.of_job_sh("own_variables; env", **said).splitlines() if "=" in line)
            # The variables of the test's own surroundings stay.
            self.assertEqual({name: seen[name] for name in names if name in seen and name not in os.environ},
                             {name: value for name, value in expected.items() if name not in os.environ}, record)

    def test_mpirun_starts_the_tasks_of_the_job(self):
        for tasks, nodes, most in ((1, 1, 2), (2, 2, 2), (3, 2, 2), (8, 2, 4)):
            said = self.of_job_sh("choose_launcher; echo ${launcher[*]}", SLURM_NTASKS=str(tasks), SLURM_JOB_NUM_NODES=str(nodes),
                                  SLURM_NTASKS_PER_NODE=str(most), SLURM_CPUS_PER_TASK="2", TESSERA_LAUNCHER="mpirun")
            self.assertEqual(said, f"mpirun -n {tasks} --map-by ppr:{-(-tasks // nodes)}:node:PE=2 --bind-to core\n")
        own = self.of_job_sh("choose_launcher; echo ${launcher[*]}", SLURM_NTASKS="2", SLURM_JOB_NUM_NODES="1",
                             TESSERA_LAUNCHER="mpirun -np 1", TESSERA_LAUNCHER_OPTIONS="--bind-to none")
        self.assertEqual(own, "mpirun -np 1 --bind-to none\n")

    def test_an_allocation_without_a_number_of_tasks_is_refused(self):
        said = self.of_job_sh("(job_number=1; choose_launcher) 2>&1; echo code $?", SLURM_NTASKS="", SLURM_JOB_NUM_NODES="1", TESSERA_LAUNCHER="mpirun")
        self.assertRegex(said, r"^job 1: SLURM_NTASKS does not say how many ranks to start: salloc --ntasks-per-node=RANKS\ncode 2\n$")

    def test_srun_binds_ranks_in_the_order_of_gpus(self):
        self.program("srun", "echo pmix >&2\n")
        said = self.of_job_sh("choose_launcher; echo ${launcher[*]} $SRUN_CPUS_PER_TASK", SLURM_NTASKS="8", SLURM_JOB_NUM_NODES="1",
                              SLURM_CPUS_PER_TASK="3", TESSERA_LAUNCHER="auto", TESSERA="/bin/true")
        self.assertEqual(said, "srun --mpi=pmix --kill-on-bad-exit=0 --cpu-bind=cores --distribution=block:block 3\n")

    def test_what_a_job_has_is_said(self):
        for tasks, gpus, expected in (("1", "", "1 rank on node1"), ("2", "1", "2 ranks on node1, 1 GPU per node"),
                                      ("3", "0", "3 ranks on node1"), ("8", "10", "8 ranks on node1, 10 GPUs per node")):
            self.assertEqual(self.of_job_sh("resources", SLURM_NTASKS=tasks, SLURM_JOB_NODELIST="node1", SLURM_GPUS_ON_NODE=gpus),
                             expected)

    def test_a_limit_that_is_shorter_than_its_warning_is_named(self):
        self.program("scontrol", "echo JobState=RUNNING TimeLimit=00:01:00\n")
        (self.folder / "run").mkdir()
        for limit, is_short in ((60, True), (100000, False)):
            said = self.of_job_sh(f"cancelled=; warned=3; SLURM_JOB_END_TIME=$(($(date +%s) + {limit})); requeue run 0")
            self.assertRegex(said, r"no checkpoint: no progress, not requeued")
            self.assertEqual("--time = 00:01:00 is too short, because Slurm warned the job 3 s after it began" in said, is_short, said)

    def test_a_folder_that_an_attempt_had_is_not_made_anew(self):
        """Where no attempt came as far as that, it is made, in a restart too."""
        log, folder = self.folder / "job.out", self.folder / "runs/a"
        self.program("scontrol", f"echo JobState=RUNNING StdErr={log}\n")
        for restarts, line, made in (("1", "job 7: nothing", True), ("1", "job 7: 2 ranks on n, restart 0, into runs/ab", True),
                                     ("1", "job 7: 2 ranks on n, restart 0, into runs/a", False),
                                     ("0", "job 7: 2 ranks on n, restart 0, into runs/a", True)):
            with self.subTest(restarts=restarts, line=line):
                log.write_text(line + "\n")
                code, said = self.start("bash", "-o", "pipefail", "-c", f"source {SOURCE / 'jobs/job.sh'}; make_folder runs/a",
                                        SLURM_JOB_ID="7", SLURM_RESTART_COUNT=restarts).end(timeout=30)
                self.assertEqual((code, folder.exists()), (0, True) if made else (4, False), said)
                self.assertEqual("mount its file system" in said, not made, said)
                if made:
                    folder.rmdir()

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


if __name__ == "__main__":
    main()
