"""Bad options and data: each ends with exit code 2 (a run that does not fit: 6) and one message that says what is wrong, where, and what is allowed, and leaves
no run folder; over one rank and over two."""
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

    # words that follow a good command, what must be said
    OPTIONS = [
        (["--train.stepz=3"], r"unknown option 'train\.stepz'.*did you mean train\.steps"),
        (["--train.step=3"], r"unknown option 'train\.step' = '3': did you mean train\.steps\? Names are never abbreviated"),
        (["--strategy=ddp"], r"unknown option 'strategy'"),
        (["--train.micro_batch=0"], r"train\.micro_batch = '0' is not an allowed value\. Allowed values: whole number, 1 to"),
        (["--train.micro_batch=-1"], r"train\.micro_batch = '-1'.*1 to"),
        (["--train.micro_batch=many"], r"train\.micro_batch = 'many'.*whole number"),
        (["--train.micro_batch=2.5"], r"train\.micro_batch = '2\.5'.*whole number"),
        (["--train.micro_batch=99999999999999999999"], r"train\.micro_batch = '9+'.*whole number"),
        (["--optim.beta2=1"], r"optim\.beta2 = '1'.*0 to below 1"),
        (["--optim.lr=nan"], r"optim\.lr = 'nan'.*number"),
        (["--optim.lr=inf"], r"optim\.lr = 'inf'.*number"),
        (["--optim.lr="], r"optim\.lr = ''.*number"),
        (["--shard.strategy=zero4"], r"shard\.strategy = 'zero4'.*ddp\|zero1\|zero2\|zero3\|hsdp\|hsdp-zero2"),
        (["--run.deterministic=maybe"], r"run\.deterministic = 'maybe'.*true\|false"),
        (["--comm.emulate=fast"], r"comm\.emulate = 'fast'.*latency,bandwidth"),
        (["--shard.group_size=2"], r"shard\.group_size = '2' has no effect, because only hsdp, hsdp-zero2 and hsdp-zero1 have"),
        (["--shard.strategy=ddp", "--shard.prefetch_forward=2"], r"shard\.prefetch_forward = '2' has no effect, because ddp"),
        (["--shard.strategy=zero2", "--shard.limit_all_gathers=3"], r"shard\.limit_all_gathers = '3' has no effect"),
        (["--shard.min_params=100"], r"shard\.min_params = '100' has no effect, because only shard\.wrap = size"),
        (["--plan.ranks=4"], r"plan\.ranks = '4' has no effect, because tessera train does not read it\. Leave it out\."),
        (["--train.epochs=1"], r"train\.steps = '3' has no effect, because train\.epochs already decides how long the run is\. Leave it out\."),
        (["--optim.warmup_steps=4"], r"optim\.warmup_steps = 4 is more than train\.steps = 3\. Use 0 to 3\."),
        (["--optim.min_lr=1"], r"optim\.min_lr = 1 is above optim\.lr"),
        (["--shard.strategy=hsdp", "--shard.group_size=3"], r"shard\.group_size = 3 does not divide the \d+ rank.*\. Use (one of )?1"),
        (["--grid.ranks_per_node=3"], r"grid\.ranks_per_node = 3 does not divide"),
        (["--run.device=cuda"], r"run\.device = cuda does not work, because .+\. Use cpu, auto, or a machine with a GPU\."),
        (["--run.trace=2:5"], r"run\.trace = 2:5 ends after the last step, because train\.steps = 3\. Use steps from 1 to 3\."),
        (["--checkpoint.resume=auto", "--checkpoint.allow=data,all"], r"checkpoint\.allow = data,all lists 'all'"),
        (["--checkpoint.allow=data"], r"checkpoint\.allow = 'data' has no effect"),
        (["--checkpoint.resume=nowhere"], r"checkpoint\.resume = nowhere is neither a checkpoint nor a run with checkpoints"),
        (["--data.source="], r"data\.source is empty"),
        (["--train.seq_len=33"], r"train\.seq_len = 33 is longer than the model's context, model\.context = 32"),
        (["--data.synthetic_tokens=20"], r"18 tokens for training .*less than one sample of train\.seq_len \+ 1 = 33"),
        (["--data.val_fraction=0.001", "--data.synthetic_tokens=5000"], r"validation.*data\.val_fraction"),
        (["--run.seed=18446744073709551615"], "whole number, 0 or more, at most 9223372036854775807"),
        (["--optim.lr=1e-400"], r"number, 0 to 1000000, in size 0 or 2\.3e-308 to 1\.7e308"),
        (["--model.preset=gpt2"], r"no such preset\. Did you mean gpt2-124m\? Use one of nano"),
        (["--model.preset=gpt3"], r"model\.preset = gpt3 does not work, because there is no such preset\. Use one of nano, gpt2-124m"),
        (["--model.width=33"], r"model\.width = 33 is not a multiple of model\.heads = 2"),
        (["--run.dump=4"], r"run\.dump = 4.*train\.steps = 3"),
        # run.device = auto is a CPU here
        (["--comm.backend=staged"], r"comm\.backend = 'staged' has no effect, because .*auto without a GPU.*MPI\. Leave it out\."),
        (["--comm.min_ctas=4"], r"comm\.min_ctas = '4' does not work any more\. Leave it out, and set NCCL_MIN_CTAS"),
    ]

    def check(self, options):
        for words, says in options:
            with self.subTest(words):
                self.refused(*TRAIN, *words, says=says)

    def test_options(self):
        self.check(self.OPTIONS[::2])

    def test_more_options(self):
        self.check(self.OPTIONS[1::2])

    def test_options_over_two_ranks(self):
        for number in (0, 3, 12, 15, 19, 22, 23, 27, 28):
            words, says = self.OPTIONS[number]
            with self.subTest(words):
                self.refused(*TRAIN, *words, says=says, ranks=2)

    def test_words(self):
        for words, says in (
                (["frobnicate"], r"unknown command 'frobnicate'\. The commands are: train, plan, sweep"),
                (["trian", "--train.steps=3"], r"unknown command 'trian': did you mean train\?"),
                (["generate"], r"generate needs a path\. Write tessera generate CHECKPOINT_OR_FOLDER"),
                (["train", "-n", "3"], r"'-n' is not an option"),
                (["train", "/tmp"], r"/tmp is a folder"),
                (["--train.steps=3"], r"'--train\.steps=3' stands where a command belongs\. Write tessera COMMAND"),
                (["train", "a.ini", "b.ini"], r"'b\.ini' stands after the input file 'a\.ini'"),
                (["train", "missing.ini"], r"missing\.ini does not exist"),
                (["train", "--run.dir"], r"run\.dir has no value"),
                (["bench"], r"bench needs to know what to do\. Use one of step, comm, kernels, calibrate, checkpoint"),
                (["bench", "speed"], r"bench does not know 'speed'.*step, comm, kernels, calibrate, checkpoint"),
                (["plan", "--plan.ranks=0"], r"plan\.ranks = '0'.*1 to")):
            with self.subTest(words):
                self.refused(*words, says=says)

    def test_lines_of_an_ini_file(self):
        for text, says in (
                ("[run]\nname = x\n[train\nsteps = 3\n", r"bad\.ini:3: '\[train' is not a section"),
                ("[train]\n\nsteps 3\n", r"bad\.ini:3: 'steps 3' is neither a section nor an option"),
                ("steps = 3\n", r"bad\.ini:1: 'steps' stands before any section"),
                ("[train]\nstepz = 3\n", r"bad\.ini:2: unknown option 'train\.stepz'.*did you mean train\.steps"),
                ("[train]\nsteps = 3\n# more\nsteps = 4\n", r"bad\.ini:4: train\.steps is set twice, first in line 2"),
                ("[train]\nsteps = ten\n", r"bad\.ini:2: train\.steps = 'ten' is not an allowed value"),
                ("[run]\nname = \"x\n", r"bad\.ini:2: .*quoted"),
                ("\x00\x01\x02\xff\n", r"bad\.ini:1: ")):
            (self.folder / "bad.ini").write_text(text, encoding="latin-1")
            with self.subTest(text):
                self.refused("train", "bad.ini", "--run.dir=run", says=says)
        self.refused("train", "bad.ini", "--run.dir=run", says=r"bad\.ini:1: ", ranks=2)


class Data(Case):
    """Data that cannot be trained on."""

    def setUp(self):
        super().setUp()
        (self.folder / "empty").mkdir()
        write_text(self.folder / "text", files=1, sentences=60)
        good = list(range(100)) * 20
        token_file(self.folder / "good.bin", good)
        token_file(self.folder / "cut.bin", good, count=2100)
        token_file(self.folder / "long.bin", good, count=1900)
        token_file(self.folder / "version.bin", good, version=9)
        token_file(self.folder / "none.bin", [], count=0)
        token_file(self.folder / "wide.bin", good + [300], magic=20240801, version=7, width="I")
        token_file(self.folder / "huge.bin", good + [2 ** 31 + 5], magic=20240801, version=7, width="I")
        (self.folder / "head.bin").write_bytes((self.folder / "good.bin").read_bytes()[:500])
        (self.folder / "odd.bin").write_bytes(b"\1\0" * 200 + b"\1")
        (self.folder / "zero.bin").write_bytes(b"")
        (self.folder / "blank").mkdir()
        (self.folder / "blank" / "a.txt").write_text("")
        (self.folder / "mixed").mkdir()
        (self.folder / "mixed" / "a.jsonl").write_text('{"body": "a"}\n')
        (self.folder / "notes.md").write_text("text")

    SOURCES = [
        ("missing", r"data\.source = missing does not work, because there is no such file or folder"),
        ("missing.bin", r"data\.source = missing\.bin does not work, because there is no such file or folder"),
        ("empty", r"empty has no \.txt, \.json, \.jsonl or \.parquet file in it or below it"),
        ("blank", r"blank has no text to train on, because its \.txt files are empty, 1 in all"),
        ("mixed", r"a\.jsonl:1: an object has no \"text\" \(data\.text_key\)"),
        ("notes.md", r"data\.source = notes\.md is a file of unknown kind"),
        ("cut.bin", r"cut\.bin is truncated, because it has 5024 bytes instead of 5224, and its header says 2100 tokens of 2 bytes"),
        ("long.bin", r"long\.bin is longer than its header says, because it has 5024 bytes instead of 4824, and its header says 1900 tokens"),
        ("head.bin", r"head\.bin is truncated, because it has 500 bytes, but llm\.c's header alone has 1024"),
        ("version.bin", r"version\.bin has version 9 of llm\.c's token file"),
        ("none.bin", r"none\.bin has nothing to train on, because its header says 0 tokens"),
        ("odd.bin", r"odd\.bin is truncated, because it has 401 bytes .*uint16"),
        ("zero.bin", r"zero\.bin is empty"),
        ("wide.bin", r"wide\.bin: token 300 at position 2000 is beyond the model's vocabulary\. Use ids 0 to 255 \(model\.vocab = 256\)"),
        ("huge.bin", r"huge\.bin: token 2147483653 at position 2000"),
    ]

    def test_sources(self):
        for source, says in self.SOURCES:
            with self.subTest(source):
                self.refused(*TRAIN, f"--data.source={source}", says=says)

    def test_sources_over_two_ranks(self):
        for number in (0, 2, 6, 8, 13):
            source, says = self.SOURCES[number]
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
        for ranks in (0, 2):
            (self.folder / "used").mkdir(exist_ok=True)
            (self.folder / "used" / "results.txt").write_text("mine")
            self.refused("train", *TINY, "--run.dir=used", ranks=ranks, says=r"run\.dir = used has files in it \(results\.txt")
            self.assertEqual([p.name for p in (self.folder / "used").iterdir()], ["results.txt"])

    def test_a_second_run_into_the_same_folder(self):
        self.train(*TINY, "--run.dir=twice")
        before = {p: p.read_bytes() for p in (self.folder / "twice").rglob("*") if p.is_file()}
        self.refused("train", *TINY, "--run.dir=twice", says=r"run\.dir = twice has files in it")
        self.assertEqual(before, {p: p.read_bytes() for p in (self.folder / "twice").rglob("*") if p.is_file()})

    def test_an_empty_folder_is_used(self):
        (self.folder / "fresh").mkdir()
        self.train(*TINY, "--run.dir=fresh")

    def test_a_file_in_the_way(self):
        (self.folder / "file").write_text("mine")
        for name in ("file", "file/run"):
            self.refused("train", *TINY, f"--run.dir={name}", says=rf"run\.dir = {name} cannot be used")
        self.assertEqual((self.folder / "file").read_text(), "mine")

    def test_a_corrected_mistake_can_be_run_again(self):
        self.refused("train", *TINY, "--run.dir=run", "--data.source=missing", says="missing")
        self.train(*TINY, "--run.dir=run")


class Memory(Case):
    """The message about a model that does not fit says by how much, and what would help."""

    ABSURD = ["train", "--run.dir=run"] + TINY + ["--train.micro_batch=1000000", "--data.val_fraction=0"]

    def test_an_absurd_micro_batch(self):
        for ranks in (0, 2):
            self.refused(*self.ABSURD, ranks=ranks, code=6, says=r"(?i)(memory|fit).*train\.micro_batch")

    def test_a_model_that_is_too_large(self):
        self.refused("train", "--run.dir=run", "--model.preset=gpt2-1558m", "--model.width=16000", "--model.heads=125",
                     "--train.micro_batch=1", code=6, says=r"(?i)memory|fit")


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
