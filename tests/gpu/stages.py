"""What each stage of tests/gpu/run.sh does."""
from __future__ import annotations

import array
import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Iterable, Sequence

import machine
from attempts import SKIPPED, TOO_LONG, Attempts, Job, Words, lines_of
from kernel_cases import SUITE, Suite
from sizes import GOLDEN, SHARED_GPU_WAYS, Model, Sizes

HERE = Path(__file__).resolve().parent
REFERENCE = HERE.parent / "reference"
TRAIN_EXACTLY = ["--run.deterministic=true", "--metrics.every=1", "--data.order=sequential", "--data.val_fraction=0"]
BF16 = ["--precision.compute=bf16", "--precision.reduce=bf16"]


class Stages:
    """The stages of one call; each is a method. `gpus`: how many CUDA shows."""

    def __init__(self, attempts: Attempts, bundle: Path, gpus: int, sizes: Sizes):
        self._attempts, self._bundle, self._gpus, self._sizes = attempts, bundle, gpus, sizes
        self._work, self._attempt = attempts.work, attempts.attempt
        self._tessera, self._mpiexec = bundle / "tessera", bundle / "mpiexec"

    def _has(self, binary: str, stage: str) -> bool:
        """Whether the bundle has a program; notes it as skipped otherwise."""
        if os.access(self._bundle / binary, os.X_OK):
            return True
        self._attempts.note(stage, binary, "skipped", 0, "not in this bundle")
        return False

    def _cudnn(self, stage: str, seconds: float, cases: str) -> None:
        """Attention once more by cuDNN, where one is found that can be used."""
        def job(running: Job) -> int:
            code = running.run([self._bundle / SUITE, cases])
            said = "\n".join(lines_of(running.log))
            return SKIPPED if re.search("cannot be loaded|is too old|cannot be used here", said) else code
        self._attempt(stage, "attention by cuDNN", job, lines=3, most=seconds, env={"TESSERA_TEST_ATTENTION": "cudnn"})

    def _write_rank_script(self, settings: str) -> Path:
        """Writes the command that starts each rank, with settings of its own; what NCCL tells goes into the logs."""
        script = self._work / "nccl_way.sh"
        script.write_text(f"#!/bin/sh\nexport NCCL_DEBUG=INFO NCCL_DEBUG_FILE={self._work}/nccl.%h.%p.log "
                          f'TESSERA_TEST_BACKEND={self._sizes.nccl_backend} {settings}\nexec "$@"\n')
        script.chmod(0o755)
        return script

    def smoke(self) -> None:
        """The layers one upon the other: the first that fails is what to look at."""
        if self._has("test_gpu_kernels", "smoke"):
            for name, cases in (("a kernel", "cast rounds*"), ("a matmul", "linear in pieces*")):
                self._attempt("smoke", name, [self._bundle / SUITE, cases], lines=3, most=30)
            self._cudnn("smoke", 30, "attention forward and backward: gradients*")
        train = [self._tessera, "train", *self._sizes.strategy_model, "--train.steps=6", "--data.val_fraction=0", "--run.device=cuda"]
        graphs = ("false", "true")  # as graphs: two steps that are timed, one that is captured, and replays
        for graph in graphs:
            self._attempt("smoke", f"steps, graph = {graph}",
                          [*train, f"--run.graph={graph}", f"--run.dir={self._work}/smoke.{graph}"], lines=1, most=30)
        if self._gpus < 2:
            self._attempts.note("smoke", "2 ranks over NCCL", "skipped", 0, "one GPU: stage nccl")
            return
        before = [self._mpiexec, "-n", "2", self._write_rank_script("")]
        for graph in graphs:
            self._attempt("smoke", f"2 ranks over NCCL, graph = {graph}",
                          [*before, *train, f"--run.graph={graph}", f"--comm.backend={self._sizes.nccl_backend}",
                           "--shard.strategy=zero3", f"--run.dir={self._work}/smoke.nccl.{graph}"], lines=1, most=40)

    def kernels(self) -> None:
        """Every kernel against the reference in double precision."""
        if self._has("test_gpu_kernels", "kernels"):
            Suite(self._attempts, self._bundle, "kernels", 90, []).run()
            self._cudnn("kernels", 150, "attention forward and backward*")

    def _sanitize(self, tool: str) -> None:
        sanitizer = machine.tool_of_cuda("compute-sanitizer")
        if not sanitizer:
            self._attempts.note(tool, "compute-sanitizer", "skipped", 0, "not on this machine")
            return
        # A bundle's programs are started by a script.
        words = [sanitizer, "--target-processes", "all", "--tool", tool, "--error-exitcode", "1"]
        # Kernels of NVIDIA's own libraries are slow to check and not ours.
        told = subprocess.run(["timeout", "20", sanitizer, "--help"], capture_output=True, text=True, errors="replace", check=False)
        if "--kernel-name " in told.stdout + told.stderr:
            words += ["--kernel-name", "kns=tessera"]
        # Nor are calls that the driver refuses, and the libraries' own look-ups are such: memory errors are looked for.
        if tool == "memcheck":
            words += ["--report-api-errors", "no"]
        if self._has("test_gpu_kernels", tool):
            Suite(self._attempts, self._bundle, tool, 180, words).run()

    def memcheck(self) -> None:
        self._sanitize("memcheck")

    def racecheck(self) -> None:
        self._sanitize("racecheck")

    def golden(self) -> None:
        """The golden models on one rank: the GPU's losses and norms against the CPU's."""
        for model in self._sizes.golden:
            folders = [self._fresh(f"golden.{model}.{device}") for device in ("cpu", "cuda")]
            source = REFERENCE / model
            commands: list[Words] = [
                [self._tessera, "train", *TRAIN_EXACTLY, f"--model.from={source}", f"--data.source={source}/tokens.bin",
                 "--optim.schedule=constant", *GOLDEN[model].split(), f"--run.device={folder.suffix[1:]}", f"--run.dir={folder}"]
                for folder in folders]
            commands.append([sys.executable, HERE / "compare_runs.py", "--relative", "1e-5", *folders])
            self._attempt("golden", model, lambda job, steps=tuple(commands): job.run_all(steps), lines=1, most=120)

    def text(self) -> None:
        """Masks of documents and of the loss, generation, evaluation: the GPU's against the CPU's."""
        source, questions = self._work / "pairs.jsonl", self._work / "questions.jsonl"
        with open(source, "w", encoding="utf-8") as out:
            for number in range(2000):
                pair = {"prompt": f"{number} and {number * 7 % 11} make", "completion": f" {number + number * 7 % 11}."}
                out.write(json.dumps(pair) + "\n")
        with open(questions, "w", encoding="utf-8") as out:
            for number in range(20):
                out.write(json.dumps({"context": f"{number} a", "endings": ["nd", "t", "n"], "label": number % 3}) + "\n")
        devices = ("cpu", "cuda")
        folders = [self._fresh(f"text.{device}") for device in devices]
        words = ["--data.document_mask=true", f"--data.source={source}", f"--data.cache={self._work / 'cache'}"]
        commands: list[Words] = [
            [self._tessera, "train", *self._sizes.strategy_model, *TRAIN_EXACTLY, *words, "--checkpoint.every=1000000",
             f"--run.device={device}", f"--run.dir={folder}"] for device, folder in zip(devices, folders)]
        commands.append([sys.executable, HERE / "compare_runs.py", "--relative", "1e-5", *folders])
        if not self._attempt("text", "masks", lambda job: job.run_all(commands), lines=1, most=120):
            return
        self._same_output("generate", ["generate", folders[0], "--generate.prompt=1 a", "--generate.max_tokens=4",
                                       "--generate.temperature=0"])
        self._same_output("eval", ["eval", folders[0], f"--eval.choices={questions}"], r"accuracy [\d.]+: \d+ of \d+")

    def _same_output(self, name: str, words: Words, part: str = "(?s).*") -> None:
        """A command prints the same on both devices, or the same part of it."""
        def job(running: Job) -> int:
            said = []
            for device in ("cpu", "cuda"):
                out = self._work / f"{name}.{device}.out"
                code = running.run([self._tessera, *words, f"--run.device={device}"], out, self._work / f"{name}.{device}.err")
                if code != 0:
                    running.say("\n".join(lines_of(self._work / f"{name}.{device}.err")))
                    return code
                found = re.search(part, "\n".join(lines_of(out)))
                said.append(found.group() if found else "")
                running.say(f"{device}: {said[-1]}")
            return 0 if said[0] and said[0] == said[1] else 1
        self._attempt("text", name, job, lines=4, most=60)

    def _fresh(self, name: str) -> Path:
        """Returns a folder of the work folder, which is not there."""
        folder = self._work / name
        shutil.rmtree(folder, ignore_errors=True)
        return folder

    def _bench_comm(self, stage: str, name: str, before: Words, backend: str, steps: int, most_bytes: str, most: float) -> None:
        self._attempt(stage, name, [*before, self._tessera, "bench", "comm", "--run.device=cuda", "--run.deterministic=true",
                                    "--run.share_gpu=true", f"--comm.backend={backend}", f"--bench.steps={steps}",
                                    f"--bench.max_bytes={most_bytes}"], lines=60, most=most)

    def comm(self) -> None:
        """Collectives of several ranks on one GPU, staged."""
        if not self._has("test_gpu_comm", "comm"):
            return
        self._bench_comm("comm", "bench comm over 2 ranks", [self._mpiexec, "-n", "2"], "staged", 5, self._sizes.comm_bytes, 120)
        for ranks in (2, 3, 4):
            self._attempt("comm", f"staged over {ranks} ranks", [self._mpiexec, "-n", str(ranks), self._bundle / "test_gpu_comm"],
                          most=120, env={"TESSERA_TEST_BACKEND": "staged"})

    def _train_strategies(self, backend: str, before: Words, precision: str, names: Sequence[str], options: Words) -> Iterable[Words]:
        """Commands that train the same thing under every strategy, and compare: all must have the same losses."""
        folders = [self._fresh(f"strategies.{backend}.{name}") for name in names]
        for name, folder in zip(names, folders):
            yield [*before, self._tessera, "train", *self._sizes.strategy_model, *options, "--metrics.every=1",
                   "--data.val_fraction=0", "--train.micro_batch=2", "--train.accumulation=2", "--run.device=cuda",
                   "--run.deterministic=true", "--run.share_gpu=true", f"--comm.backend={backend}",
                   f"--precision.compute={precision}", f"--shard.strategy={name}", f"--run.dir={folder}"]
        yield [sys.executable, HERE / "compare_runs.py", *folders]

    def _same_bits(self, stage: str, title: str, backend: str, before: Words, precision: str = "fp32",
                   names: Sequence[str] = ("ddp", "zero1", "zero2", "zero3"), options: Words = (), most: float = 150) -> None:
        commands = self._train_strategies(backend, before, precision, names, options)
        self._attempt(stage, title, lambda job: job.run_all(commands), lines=3, most=most)

    def strategies(self) -> None:
        """Several ranks on one GPU, staged: every strategy has the same bits."""
        for ranks, precision in ((2, "fp32"), (4, "fp32"), (2, "bf16")):
            self._same_bits("strategies", f"staged over {ranks} ranks, {precision}", "staged", [self._mpiexec, "-n", str(ranks)], precision)

    def nccl(self) -> None:
        """One rank a GPU where there are several, otherwise two on one.

        That one of the ways is refused is no failure where the other works.
        """
        if not self._has("test_gpu_comm", "nccl"):
            return
        sizes, failures = self._sizes, self._attempts.failures
        ranks = max(2, self._gpus)
        for name, settings in [(f"a GPU for each of {ranks} ranks", "")] if self._gpus > 1 else SHARED_GPU_WAYS:
            for log in self._work.glob("nccl.*.log"):
                log.unlink()
            before = [self._mpiexec, "-n", str(ranks), self._write_rank_script(settings)]
            if not self._attempt("nccl", name, [*before, self._bundle / "test_gpu_comm"], lines=8, most=100):
                continue
            self._attempts.failures = failures
            # Eagerly first: which half is broken, where the graphs fail.
            self._same_bits("nccl", f"eagerly: {name}", sizes.nccl_backend, before, names=("ddp", "zero3"),
                            options=["--run.graph=false"], most=100)
            self._same_bits("nccl", f"strategies: {name}", sizes.nccl_backend, before)
            self._bench_comm("nccl", f"bench comm: {name}", before, sizes.nccl_backend, 3, sizes.nccl_bytes, 100)
            return

    def _bench_kernels(self, name: str, model: Model, *options: str) -> None:
        self._attempt("bench_kernels", name, [self._tessera, "bench", "kernels", "--run.device=cuda", *model.options, *BF16,
                                              "--shard.strategy=ddp", "--run.deterministic=false", *self._sizes.repetitions,
                                              *options], lines=60, most=120)

    def bench_kernels(self) -> None:
        """Every kernel of the three models' steps, as `bench step` trains them."""
        small = self._sizes.small
        self._bench_kernels(small.preset, small)
        self._bench_kernels(f"{small.preset}, own attention", small, "--run.attention=own")
        for model in (self._sizes.qwen, self._sizes.large):
            self._bench_kernels(model.preset, model)
        self._attempt("bench_kernels", f"{small.preset}: memory",
                      [self._tessera, "bench", "memory", "--run.device=cuda", *small.options, *BF16, "--shard.strategy=ddp",
                       "--memory.checkpoint=none", "--shard.offload=none", "--run.deterministic=true"], most=60)

    def _bench_tokens(self) -> Path:
        """A file of random tokens, which every model has."""
        file = self._work / f"tokens.{self._sizes.token_values}.bin"
        if not file.exists():
            draw = random.Random(1)
            with open(file, "wb") as out:
                array.array("H", (draw.randrange(self._sizes.token_values) for _ in range(4_000_000))).tofile(out)
        return file

    def _speed(self, stage: str, model: Model, settings: str) -> None:
        """Tessera, then PyTorch as fast as its users make it, on the same tokens and batch."""
        sizes = self._sizes
        has_torch = f"import torch; assert '{sizes.peer_device}' == 'cpu' or torch.cuda.is_available()"
        if subprocess.run([sys.executable, "-c", has_torch], capture_output=True, check=False).returncode != 0:
            self._attempts.note(stage, "pytorch", "skipped", 0, "PyTorch with CUDA is not on this machine")
            settings = ""
        words = [sys.executable, HERE.parent / "peers/compare.py", "--device", "cuda", "--peer-device", sizes.peer_device,
                 "--tessera", self._tessera, "--source", self._bench_tokens(), "--preset", model.preset,
                 "--seq-len", str(model.sequence), "--micro-batch", str(model.batch), "--steps", str(sizes.steps),
                 "--settings", settings, "--setting-seconds", str(sizes.setting_seconds)]
        self._attempt(stage, model.preset, [*words, "--seconds", str(int(self._attempts.time_left()) - 15)], lines=80)

    def speed_124m(self) -> None:
        self._speed("speed_124m", self._sizes.small, self._sizes.settings_small)

    def speed_1558m(self) -> None:
        self._speed("speed_1558m", self._sizes.large, self._sizes.settings_large)

    def speed_qwen(self) -> None:
        self._speed("speed_qwen", self._sizes.qwen, self._sizes.settings_large)

    def profile(self) -> None:
        """The hardware's counters of every kernel of a step, also of those within one call (head, sums of columns)."""
        ncu = machine.tool_of_cuda("ncu")
        if not ncu:
            self._attempts.note("profile", "ncu", "skipped", 0, "not on this machine")
            return
        words = [ncu, "--clock-control", "none", "--target-processes", "all", "--csv", "--page", "raw", "--print-units", "base",
                 "--metrics", "gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum",
                 self._tessera, "bench", "kernels", "--run.device=cuda", *self._sizes.small.options, *BF16,
                 "--shard.strategy=ddp", "--run.deterministic=true", "--bench.steps=1", "--bench.warmup=0"]
        table, errors = self._work / "ncu.csv", self._work / "ncu.err"

        def job(running: Job) -> int:
            code = running.run(words, table, errors)
            # Counters that this user or this virtual machine may not read are no failure of the test.
            said = [*lines_of(table), *lines_of(errors)]
            refused = [line for line in said if re.search("ERR_NVGPUCTRPERM|LibraryNotLoaded|Profiling is not supported", line)]
            if refused:
                running.say(refused[0])
                return SKIPPED
            if code != 0:
                running.say("\n".join(lines_of(table)[-5:] + lines_of(errors)[-5:]))
                return code if code == TOO_LONG else 1
            return running.run([sys.executable, HERE / "kernel_profile.py", table])
        self._attempt("profile", self._sizes.small.preset, job, lines=60)
