"""The view of tools on a run on an (emulated) GPU: NVTX ranges, and the driver's figures in the metrics."""
import os
import unittest
from collections import Counter, defaultdict

import h5py

from job import SHORT, TINY, Case

RUN = [*TINY, *SHORT, "--run.device=cuda", "--data.val_fraction=0", "--model.width=16", "--model.context=8", "--metrics.every=1",
       "--run.dir=run"]


class Tools(Case):
    def ranges(self, *arguments, ranks=0):
        """How often each range was opened; they must be closed in the threads that opened them."""
        os.environ["NVTX_INJECTION64_PATH"] = os.environ["NVTX_SPY"]
        os.environ["NVTX_SPY_FILE"] = str(self.folder / "ranges")
        self.addCleanup(os.environ.pop, "NVTX_INJECTION64_PATH")
        self.train(*RUN, *arguments, ranks=ranks)
        opened, depth = Counter(), defaultdict(int)
        for line in (self.folder / "ranges").read_text().splitlines():
            thread, what, *name = line.split(" ", 2)
            opened.update(name)
            depth[thread] += 1 if what == ">" else -1
            self.assertIn(depth[thread], (0, 1), line)
        self.assertEqual(set(depth.values()), {0})
        return opened

    def test_operations_and_replayed_segments_have_names(self):
        opened = self.ranges("--train.steps=20")
        # Steps 1, 2, 4, 6, ... 20 operation by operation: ten at least are timed. Step 3 is captured, then there are graphs.
        for name in ("forward embed", "forward h.0.attn", "backward h.1.mlp", "backward head", "update h.1"):
            self.assertEqual(opened[name], 12, opened)
        self.assertEqual((opened["micro-step"], opened["update"]), (9, 9), opened)
        with h5py.File(self.folder / "run/metrics.h5", "r") as file:
            steps, timed = file["steps/step"][...], file["steps/timed"][...]
            self.assertEqual(steps[timed == 1].tolist(), [1, *range(2, 21, 2)])
            for data in (data[...] for name, data in file["steps/time"].items() if name != "recording"):
                self.assertEqual((data == data).tolist(), (timed == 1).tolist())
            for name in ("time/forward", "time/exposed_gather"):  # the report after an untimed step has no time
                self.assertEqual([value == value for value in file[f"ranks/{name}"][:, 0]], (timed == 1).tolist())

    def test_ranks_that_nccl_cannot_serve_leave_no_folder(self):
        for said, *options in (("ranks 0 and 1 share a GPU .* which NCCL refuses",),
                               ("comm.emulate slows down", "--comm.emulate=10us,1GB/s")):
            self.refused("train", *RUN, "--run.share_gpu=true", *options, says=said, ranks=2)

    def test_collectives_have_names(self):
        opened = self.ranges("--shard.strategy=zero3", "--run.share_gpu=true", "--comm.backend=staged", ranks=2)
        for name in ("gather h.0", "gather h.1", "reduce-scatter h.0", "reduce-scatter wte"):
            self.assertGreaterEqual(opened[name], 2 * 3, opened)

    def test_norms_of_layers_are_read_back_at_reports_from_replayed_steps_too(self):
        # Step 2 is played operation by operation, step 7 is a replayed graph.
        for dumped, steps, *options in ((7, 20), (2, 2, "--shard.offload=optimizer", "--shard.strategy=zero3", "--run.share_gpu=true",
                                        "--comm.backend=staged")):
            with self.subTest(options):
                self.train(*RUN, f"--train.steps={steps}", "--metrics.layer_norms=true", f"--metrics.every={dumped}", f"--run.dump={dumped}",
                           *options, ranks=2 if options else 0)
                with h5py.File(self.folder / "run/metrics.h5", "r") as file:
                    at = file["layers/step"][...].tolist().index(dumped)
                    self.assertEqual(file["steps/timed"][dumped - 1], int(bool(options)))
                    norms = dict(zip(file["layers"].attrs["names"].split(","), file["layers/grad_norm"][at]))
                squares = dict.fromkeys(norms, 0.0)
                with h5py.File(self.folder / f"run/dump-{dumped:08}.h5", "r") as file:
                    for name, gradient in file["gradients"].items():
                        unit = next(unit for unit in norms if name.removeprefix("transformer.").startswith(unit + "."))
                        squares[unit] += (gradient[...].astype("f8") ** 2).sum()
                for unit, square in squares.items():
                    self.assertAlmostEqual(norms[unit] / square ** 0.5, 1, delta=1e-12, msg=unit)
                (self.folder / "run").rename(self.folder / f"done-{dumped}")

    def test_a_bench_tells_clock_power_and_tokens_a_joule(self):
        job = self.do("bench", "step", *RUN[:-2], "--bench.steps=2", "--bench.warmup=1", "--bench.output=step.h5")
        text = job.out
        self.assertRegex(text, r"matmuls \(fp32\) reach .*, .* when held: [\d.]+%")
        self.assertRegex(text, r"\npower      clock 1\.41 GHz in the mean, [\d.]+ W, [\d.]+K? tokens/J\n")
        with h5py.File(self.folder / "step.h5", "r") as file:
            rate = {name: data[0] for name, data in file["rate"].items()}
        self.assertEqual(rate["clock"], 1.41e9)
        # The monitor's GPU takes 1.5 J between two questions: after each of two steps, and at the end.
        tokens = rate["tokens_per_second"] * rate["seconds"] * 2
        self.assertAlmostEqual(rate["tokens_per_joule"], tokens / 4.5, delta=1e-6 * tokens)

    def device_rows(self):
        self.train(*RUN)
        with h5py.File(self.folder / "run" / "metrics.h5", "r", swmr=True) as file:
            rows = {name: list(data[...]) for name, data in file["device"].items()}
            for name, data in file["ranks/device"].items():
                self.assertEqual(str(data[:, 0].tolist()), str([float(x) if data.dtype.kind == "f" else int(x) for x in rows[name]]))
            self.facts = dict(file["provenance"].attrs)
            return rows

    def test_the_drivers_figures_are_in_the_metrics(self):
        rows = self.device_rows()
        self.assertEqual(rows["step"], [1, 2, 3])
        self.assertEqual(rows["utilization"], [0.37] * 3)
        self.assertEqual(rows["memory_used"], [123456789] * 3)
        self.assertEqual(rows["power"], [345.678] * 3)
        self.assertEqual([round(b - a, 6) for a, b in zip(rows["energy"], rows["energy"][1:])], [1.5, 1.5])
        self.assertRegex(self.facts["gpu_name"], r"emulated GPU.*, sm_\d+")
        self.assertEqual(self.facts["gpu_driver"], "550.54.15")
        self.assertRegex(self.facts["cublaslt_version"], r"^[\d.]+$")
        for when in ("start", "end"):  # a driver that does not see this run sees no other
            self.assertNotEqual(self.facts[f"gpu_foreign_processes_{when}"], self.facts[f"gpu_foreign_processes_{when}"])

    def test_the_doctor_sees_a_hot_gpu_of_two_ranks(self):
        os.environ["NVML_SPY_HOT"] = "1"
        self.addCleanup(os.environ.pop, "NVML_SPY_HOT", None)
        said = self.doctor(2, 2)
        self.assertRegex(said, r"GPUs +refused +ranks 0 and 1 use the same GPU of ")
        self.assertRegex(said, r"clocks +warning +the GPU of rank 1 on \S+ runs at 1410 of 1980 MHz\s+because of its\s+temperature")
        del os.environ["NVML_SPY_HOT"]
        self.assertRegex(self.doctor(0, 0), r"GPUs +fine +1 x emulated GPU")
        self.assertRegex(self.doctor(2, 0, "--run.share_gpu=true"), r"GPUs +warning +ranks")

    def doctor(self, ranks, code, *options):
        return self.do("doctor", "--run.device=cuda", "--run.threads=1", *options, ranks=ranks, code=code).out

    def test_other_processes_on_the_gpu_are_counted(self):
        os.environ["NVML_SPY_PROCESSES"] = "4"
        self.addCleanup(os.environ.pop, "NVML_SPY_PROCESSES")
        self.device_rows()
        self.assertEqual([self.facts[f"gpu_foreign_processes_{when}"] for when in ("start", "end")], [3, 3])

    def test_what_a_driver_does_not_count_is_no_number(self):
        os.environ["NVML_SPY_LACKS"] = "energy"
        self.addCleanup(os.environ.pop, "NVML_SPY_LACKS")
        rows = self.device_rows()
        self.assertTrue(all(value != value for value in rows["energy"]), rows)
        self.assertEqual(rows["power"], [345.678] * 3)


if __name__ == "__main__":
    unittest.main()
