"""Bad options and data: each ends with exit code 2 (a run that does not fit: 6) and one message that says what is wrong, where, and what is allowed, and leaves
no run folder. Of two ranks, on which most are started, one speaks."""
import os
import struct

from job import SHORT, TINY, Case, main, write_text

TRAIN = ["train", "--run.dir=run"] + TINY


def token_file(path, ids, magic=20240520, version=1, count=None, width="H"):
    """llm.c's format."""
    header = [magic, version, len(ids) if count is None else count] + [0] * 253
    path.write_bytes(struct.pack("<256i", *header) + struct.pack(f"<{len(ids)}{width}", *ids))
    return path


class Options(Case):
    """Errors that are found before any file is opened."""

    # words that follow a good command, what must be said: one of a kind, and what only a whole start finds
    # (tests/config has every check of options)
    OPTIONS = [
        (["--train.stepz=3"], r"unknown option 'train\.stepz'.*did you mean train\.steps"),
        (["--train.micro_batch=0"], r"train\.micro_batch = '0' is not an allowed value\. Allowed values: whole number, 1 to"),
        (["--shard.group_size=2"], r"shard\.group_size = '2' has no effect, because only hsdp, hsdp-zero2 and hsdp-zero1 have"),
        (["--plan.ranks=4"], r"plan\.ranks = '4' has no effect, because tessera train does not read it\. Leave it out\."),
        (["--optim.warmup_steps=4"], r"optim\.warmup_steps = 4 is more than train\.steps = 3\. Use 0 to 3\."),
        (["--shard.strategy=hsdp", "--shard.group_size=3"], r"shard\.group_size = 3 does not divide the \d+ rank.*\. Use (one of )?1"),
        (["--grid.ranks_per_node=3"], r"grid\.ranks_per_node = 3 does not divide"),
        (["--checkpoint.resume=nowhere"], r"checkpoint\.resume = nowhere is neither a checkpoint nor a run with checkpoints"),
        (["--data.synthetic_tokens=20"], r"18 tokens for training .*less than one sample of train\.seq_len \+ 1 = 33"),
        (["--data.val_fraction=0.001", "--data.synthetic_tokens=5000"], r"validation.*data\.val_fraction"),
        (["--train.seq_len=33"], r"train\.seq_len = 33 is longer than the model's context, model\.context = 32"),
        (["--run.device=cuda"], r"run\.device = cuda does not work, because .+\. Use cpu, auto, or a machine with a GPU\."),
        (["--checkpoint.resume=auto", "--checkpoint.allow=data,all"], r"checkpoint\.allow = data,all lists 'all'"),
        (["--checkpoint.allow=data"], r"checkpoint\.allow = 'data' has no effect"),
        (["--run.seed=18446744073709551615"], "whole number, 0 or more, at most 9223372036854775807"),
        (["--optim.lr=1e-400"], r"number, 0 to 1000000, in size 0 or 2\.3e-308 to 1\.7e308"),
        (["--model.preset=gpt2"], r"no such preset\. Did you mean gpt2-124m\? Use one of nano"),
        (["--run.dump=4"], r"run\.dump = 4.*train\.steps = 3"),
    ]

    def test_options(self):
        for number, (words, says) in enumerate(self.OPTIONS):
            with self.subTest(words):
                self.refused(*TRAIN, *words, says=says, ranks=2 if number < 8 else 0)

    def test_words(self):
        for words, says in ((["trian", "--train.steps=3"], r"unknown command 'trian': did you mean train\?"),
                            (["train", "a.ini", "b.ini"], r"'b\.ini' stands after the input file 'a\.ini'"),
                            (["train", "missing.ini"], r"missing\.ini does not exist")):
            with self.subTest(words):
                self.refused(*words, says=says)
        (self.folder / "bad.ini").write_bytes(b"[train]\nsteps = 3\n# more\nsteps = 4\n")
        self.refused("train", "bad.ini", "--run.dir=run", ranks=2, says=r"bad\.ini:4: train\.steps is set twice, first in line 2")


class Data(Case):
    """Data that cannot be trained on."""

    def setUp(self):
        super().setUp()
        write_text(self.folder / "text", files=1, sentences=60)
        good = list(range(100)) * 20
        token_file(self.folder / "good.bin", good)
        token_file(self.folder / "cut.bin", good, count=2100)
        token_file(self.folder / "wide.bin", good + [300], magic=20240801, version=7, width="I")
        (self.folder / "mixed").mkdir()
        (self.folder / "mixed" / "a.jsonl").write_text('{"body": "a"}\n')

    def test_sources(self):
        """One of a kind: tests/data and tests/text have the others."""
        for source, says in (
                ("missing", r"data\.source = missing does not work, because there is no such file or folder"),
                ("mixed", r"a\.jsonl:1: an object has no \"text\" \(data\.text_key\)"),
                ("cut.bin", r"cut\.bin is truncated, because it has 5024 bytes instead of 5224, and its header says 2100 tokens of 2 bytes"),
                ("wide.bin", r"wide\.bin: token 300 at position 2000 is beyond the model's vocabulary\. Use ids 0 to 255 \(model\.vocab = 256\)")):
            with self.subTest(source):
                self.refused(*TRAIN, f"--data.source={source}", says=says, ranks=2)

    def test_a_vocabulary_that_is_too_small(self):
        says = r"token \d+ at position \d+ is beyond the model's vocabulary\. Use ids 0 to 90 \(model\.vocab = 91\)"
        self.refused(*TRAIN, "--data.source=text", "--model.vocab=91", says=says)
        self.refused(*TRAIN, "--data.source=good.bin", "--model.vocab=91", says=says, ranks=2)

    def test_good_data_trains(self):
        for source in ("good.bin", "text"):
            self.train(*TRAIN[1:], f"--data.source={source}", f"--run.dir=run-{source}")


class Folders(Case):
    """Run folders that cannot be used."""

    def test_a_used_folder_stays_as_it_is(self):
        (self.folder / "used").mkdir()
        (self.folder / "used" / "results.txt").write_text("mine")
        self.refused("train", *TINY, "--run.dir=used", ranks=2, says=r"run\.dir = used has files in it \(results\.txt")
        self.assertEqual([p.name for p in (self.folder / "used").iterdir()], ["results.txt"])

    def test_a_second_run_into_the_same_folder(self):
        self.train(*TINY, "--run.dir=twice")
        before = {p: p.read_bytes() for p in (self.folder / "twice").rglob("*") if p.is_file()}
        self.refused("train", *TINY, "--run.dir=twice", says=r"run\.dir = twice has files in it")
        self.assertEqual(before, {p: p.read_bytes() for p in (self.folder / "twice").rglob("*") if p.is_file()})

    def test_a_corrected_mistake_can_be_run_again(self):
        self.refused("train", *TINY, "--run.dir=run", "--data.source=missing", says="missing")
        self.train(*TINY, "--run.dir=run")


class Memory(Case):
    """The message about a model that does not fit says by how much, and what would help."""

    ABSURD = ["train", "--run.dir=run"] + TINY + ["--train.micro_batch=1000000", "--data.val_fraction=0"]

    def test_an_absurd_micro_batch(self):
        for ranks in (0, 2):
            self.refused(*self.ABSURD, ranks=ranks, code=6, says=r"(?i)(memory|fit).*train\.micro_batch")


class Launchers(Case):
    """Processes that MPI cannot bring together. (tests/slurm has the same with a real srun.)"""

    def alone(self, **environment):
        running = self.running(["train", *TINY, "--run.dir=run"], 0, **environment)
        code, said = running.end()
        self.assertEqual(code, 2, said)
        self.assertFalse((self.folder / "run").exists())
        return said

    def test_the_doctor_finds_it_before(self):
        model = [word for word in TINY if word.startswith("--model.")]
        job = self.do("doctor", *model, "--run.dir=runs/a", ranks=2)
        for subject in ("ranks +fine +2 ranks", "memory", "MPI", "run folder +fine", "step +fine"):
            self.assertRegex(job.out, f"(?m)^{subject}")
        self.assertEqual(list(self.folder.iterdir()), [])
        job = self.do("doctor", *model, "--train.micro_batch=1000000", ranks=2, code=2)
        self.assertRegex(job.out, r"(?m)^step +refused .* is too little")
        job = self.do("doctor", *model, "--model.heads=3", "--run.dir=/proc/a", ranks=2, code=2)
        self.assertRegex(job.out, r"(?m)^run folder refused +/proc \(unknown\) on \S+ takes no files")
        self.assertRegex(job.out, r"(?m)^step +refused +model\.width = 32 is not a multiple of model\.heads = 3")

    def test_slurm_without_a_process_manager(self):
        self.assertRegex(self.alone(SLURM_STEP_NUM_TASKS="2", SLURM_PROCID="0"),
                         r"tessera: Slurm started 2 tasks .*\. Use srun --mpi=pmix")
        self.assertEqual(self.alone(SLURM_STEP_NUM_TASKS="2", SLURM_PROCID="1"), "")

    def test_the_shell_of_a_step_runs_what_one_process_can(self):
        """srun --pty bash: one task, whose shell has all variables of a rank."""
        shell = {name: "0" for name in ("SLURM_STEP_ID", "SLURM_STEPID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID")}
        shell.update(SLURM_JOB_ID="7", SLURM_NODELIST="here", SLURM_JOB_NODELIST="here", SLURM_NTASKS="1")
        for size, words in (("1", ["train", *TINY, *SHORT, "--checkpoint.every=3", "--run.dir=run"]), ("1", ["eval", "run"]),
                            ("4", ["plan", "--plan.ranks=2"]), ("4", ["train", "--help"])):
            running = self.running(words, 0, SLURM_STEP_NUM_TASKS=size, **shell)
            code, said = running.end()
            self.assertEqual(code, 0, f"{words}\n{said}")

    def test_variables_of_a_step_of_another_job(self):
        """sbatch in the shell of a step hands them on to a job that has no such step."""
        scontrol = self.folder / "scontrol"
        scontrol.write_text('#!/bin/sh\n[ "$*" = "show step 8.0" ] && echo "Job step 8.0 not found" >&2 && exit 1\n')
        scontrol.chmod(0o755)
        running = self.running(["train", *TINY, *SHORT, "--run.dir=run"], 0, SLURM_JOB_ID="8", SLURM_STEP_ID="0",
                               SLURM_STEP_NUM_TASKS="2", SLURM_PROCID="0", PATH=f"{self.folder}:{os.environ['PATH']}")
        code, said = running.end()
        self.assertEqual(code, 0, said)

    def test_a_launcher_that_mpi_does_not_know(self):
        self.assertIn("tessera: PMI started 4 processes, and MPI sees one in each",
                      self.alone(PMI_SIZE="4", PMI_RANK="0"))


if __name__ == "__main__":
    main()
