"""The steps that were measured on GPUs at revision 2916742 did the work of today's schedules.

tests/reference/work_2916742.json.gz has what work() counts in each of them: [[role, ..., times], ...], of what `tessera
plan --plan.format=json` of that revision printed.
tests/simulate/test_measured_steps.cpp prices today's schedules with that day's kernels. So what computes must be the
same, operation by operation. What changed since: 16-bit copies are made by updates, tokens and wishes are loads, and
the host updates its part of the state while the last backward runs.
"""
import gzip
import json
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from job import REFERENCE, Case, main

THEN = REFERENCE / "work_2916742.json.gz"
GPU = ["--run.device=cuda", "--precision.compute=bf16", "--precision.reduce=bf16", "--run.deterministic=false"]
DDP = ["--shard.strategy=ddp"]
LLAMA = ["--train.seq_len=4096", "--memory.checkpoint=block"]
STEPS = {
    "gpt2-124m": ["gpt2-124m", "--train.micro_batch=64", *DDP],
    "gpt2-124m-zero3": ["gpt2-124m", "--train.micro_batch=64"],
    "gpt2-1558m": ["gpt2-1558m", "--train.micro_batch=16", *DDP],
    "qwen2-1.5b": ["qwen2-1.5b", "--train.micro_batch=16", *DDP],
    "qwen2-1.5b-16": ["qwen2-1.5b", "--train.micro_batch=16", "--train.accumulation=16"],
    "llama-8b-host": ["llama-8b", "--train.micro_batch=4", "--train.accumulation=2", "--shard.offload=optimizer", *LLAMA],
}
MOVED = {"gather", "cast", "load"}  # kinds of operations that came or went, or that were a gather
MOVED_BY_HOST = MOVED | {"store", "update"}


def work(schedule):
    """Counts a step's operations by what they do: role of the segment, queue, kind, of what, FLOPs, bytes sent."""
    counts = Counter()
    for play in schedule["step"]:
        segment = schedule["segments"][play["segment"]]
        for op in segment["operations"]:
            counts[segment["role"], op["queue"], op["kind"], op["part"] or op["unit"] or op["name"], op.get("flops", 0),
                   op["wire_bytes"]] += 1
    return counts


class MeasuredSchedules(Case):
    def now(self, name):
        preset, *options = STEPS[name]
        if not any(option.startswith("--train.seq_len") for option in options):
            options = ["--train.seq_len=1024", *options]
        job = self.do("plan", "--plan.ranks=1", "--plan.format=json", f"--model.preset={preset}", *GPU, *options)
        return json.loads(job.out)

    def test_what_computes_is_the_same(self):
        with gzip.open(THEN) as file:
            works = {name: Counter({tuple(of): times for *of, times in counts}) for name, counts in json.load(file).items()}
        self.assertEqual(set(works), set(STEPS))
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            schedules = dict(zip(STEPS, pool.map(self.now, STEPS)))
        for name, schedule in schedules.items():
            with self.subTest(name):
                then, now = works[name], work(schedule)
                moved = MOVED_BY_HOST if name.endswith("-host") else MOVED
                self.assertLessEqual({kind for _, _, kind, *_ in (then - now) + (now - then)}, moved)
                flops = [sum(of * count for (*_, of, _), count in counts.items()) for counts in (then, now)]
                self.assertEqual(*flops)
                self.assertGreater(flops[0], 1e12)


if __name__ == "__main__":
    main()
