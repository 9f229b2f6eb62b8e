"""Facts in metrics.h5 for an analysis: the model, the machine, what every rank measured, which steps were timed."""
import os
import shutil

import h5py
import numpy as np

from job import SHORT, TINY, Case, main

RUN = [word for word in TINY if "train.steps" not in word] + SHORT + ["--run.dir=run", "--data.val_fraction=0.1",
                                                                      "--train.eval_every=4", "--metrics.every=5"]
TIMES = ["data", "forward", "recompute", "backward", "optimizer", "exposed_gather", "exposed_reduce_scatter",
         "exposed_all_reduce", "exposed_other"]
KINDS = ["all_gather", "reduce_scatter", "all_reduce", "broadcast", "exchange"]


class Facts(Case):
    def metrics(self, name="metrics.h5"):
        file = h5py.File(self.folder / "run" / name, "r")
        self.addCleanup(file.close)
        return file

    def check_sums(self, file):
        """Rank 0's values of a report are the sums of the rows of its steps."""
        steps, reports = file["steps/step"][...], file["ranks/report"][...]
        before = np.concatenate([[steps[0] - 1], reports[:-1]])
        parts = [(steps > a) & (steps <= b) for a, b in zip(before, reports)]
        self.assertEqual(file["ranks/steps"][...].tolist(), [part.sum() for part in parts])
        timed = file["steps/timed"][...] == 1
        self.assertEqual(file["ranks/timed_steps"][...].tolist(), [(part & timed).sum() for part in parts])
        for name in TIMES:
            values = file[f"steps/time/{name}"][...]
            np.testing.assert_array_equal(np.isfinite(values), timed)
            expected = [values[part & timed].sum() if (part & timed).any() else np.nan for part in parts]
            np.testing.assert_allclose(file[f"ranks/time/{name}"][:, 0], expected, rtol=1e-9, atol=1e-12, err_msg=name)
        for kind in KINDS:
            for name in ("calls", "bytes", "seconds"):
                values = file[f"comm/{kind}/{name}"][...]
                np.testing.assert_allclose(file[f"ranks/comm/{kind}/{name}"][:, 0], [values[part].sum() for part in parts],
                                           rtol=1e-9, atol=1e-12, err_msg=f"{kind} {name}")

    def test_every_rank_reports(self):
        job = self.train(*RUN, "--train.steps=12", "--shard.strategy=zero3", ranks=2)
        file = self.metrics()
        ranks = file["ranks"]
        self.assertEqual(ranks["report"][...].tolist(), [1, 5, 10, 12])
        self.assertEqual(file["steps/timed"][...].tolist(), [1] * 12)
        self.assertEqual(set(ranks["time"]), set(TIMES))
        self.assertNotIn("device", ranks)
        self.check_sums(file)
        for name in [f"time/{name}" for name in TIMES] + [f"comm/{kind}/seconds" for kind in KINDS]:
            self.assertEqual((ranks[name].shape, ranks[name].dtype), ((4, 2), np.float64), name)
        for kind in KINDS:  # both send as much
            for name in ("calls", "bytes"):
                values = ranks[f"comm/{kind}/{name}"][...]
                self.assertEqual(values[:, 0].tolist(), values[:, 1].tolist(), (kind, name))
        self.assertTrue((ranks["comm/all_gather/bytes"][...] > 0).all())
        self.assertTrue((ranks["time/forward"][...] > 0).all())
        self.assertFalse(np.array_equal(ranks["time/forward"][:, 0], ranks["time/forward"][:, 1]))
        peak, average = ranks["memory/peak"][...], ranks["memory/average"][...]
        process = ranks["memory/process/measured"][...]
        self.assertEqual((process.shape, process.dtype), ((4, 2), np.int64))
        self.assertEqual(process[0].tolist(), file["memory/process/measured"][...].tolist())
        self.assertTrue((process[3] >= 0).all(), process)
        self.assertTrue((np.diff(peak, axis=0) >= 0).all(), peak)
        self.assertEqual(peak[3].tolist(), process.max(axis=0).tolist())
        known = process >= 0  # between reports memory is looked at only where that costs little
        np.testing.assert_array_equal(average[known], process[known])
        self.assertTrue(np.isnan(average[~known]).all())
        self.assertEqual(job.out.count("  exposed "), 4, job.out)

    def test_model_and_machine(self):
        self.train(*RUN, "--train.steps=3", "--model.layers=3", "--train.accumulation=2", "--train.seq_len=16", ranks=2)
        file = self.metrics()
        model, facts = dict(file["model"].attrs), dict(file["provenance"].attrs)
        width, layers, context, vocab = 32, 3, 32, int(file["config"].attrs["model.vocab"])
        block = 12 * width**2 + 13 * width
        parameters = vocab * width + context * width + layers * block + 2 * width
        self.assertEqual(model["parameters"], parameters)
        self.assertEqual(model["tokens_per_step"], 2 * 2 * 2 * 16)
        samples = (4500 - 1) // 16  # nine tenths are for training; a target is the next token
        self.assertEqual(model["samples_per_epoch"], samples)
        self.assertEqual(model["steps_per_epoch"], samples / 8)
        self.assertEqual(model["validation_samples"], min(16 * 2, (500 - 1) // 16))
        self.assertEqual(model["flops_per_token_6n"], 6 * parameters + 12 * layers * width * 16)
        # Of the matmuls alone: linears, the head, and the visible half of attention's two matmuls.
        matmuls = layers * 12 * width**2 + vocab * width
        self.assertEqual(model["flops_per_token"], 6 * matmuls + layers * (2 + 5) * (16 + 1) * width)
        self.assertGreater(model["device_peak_flops"], 1e8)
        self.assertEqual(model["device_peak_source"], "measured at the start: fp32 matmuls")
        for name in ("mpi_version", "hdf5_version", "cpu"):
            self.assertTrue(facts[name])
        self.assertRegex(facts["onednn_version"], r"^\d+\.\d+\.\d+$")
        self.assertEqual(facts["cores"], len(os.sched_getaffinity(0)))
        self.assertEqual(facts["compute_threads"], 2)
        for name in ("load_average_start", "load_average_end"):
            self.assertTrue(0 <= facts[name] < 1e4, facts[name])
        for name in ("gpu_name", "gpu_driver", "nccl_version"):
            self.assertNotIn(name, facts)
        for when in ("start", "end"):
            self.assertTrue(np.isnan(facts[f"gpu_foreign_processes_{when}"]))

    def test_only_some_steps_are_timed(self):
        job = self.train(*RUN, "--train.steps=30", "--metrics.time_every=7", "--metrics.every=1")
        file = self.metrics()
        self.assertEqual(file["steps/step"][...][file["steps/timed"][...] == 1].tolist(), [1, 2, *range(3, 31, 3)])
        self.check_sums(file)
        self.assertEqual(job.out.count("  exposed "), 30, "steps without a time show that of the last one")
        shutil.rmtree(self.folder / "run")
        self.train(*RUN, "--train.steps=200", "--metrics.time_every=7", "--metrics.every=100")
        file = self.metrics()
        self.assertEqual(file["steps/step"][...][file["steps/timed"][...] == 1].tolist(), [1, 2, *range(7, 201, 7)])
        self.check_sums(file)

    def test_reports_that_are_done_again_are_taken_out(self):
        run = [*RUN, "--checkpoint.every=6", "--checkpoint.resume=auto"]
        self.train(*run, "--train.steps=18", ranks=2)
        shutil.rmtree(self.folder / "run/checkpoints/step-00000018")
        self.train(*run, "--train.steps=20", ranks=2)
        first, second = self.metrics(), self.metrics("metrics.1.h5")
        self.assertEqual(first["ranks/report"][...].tolist(), [1, 5, 10])
        self.assertEqual(first["ranks/time/forward"].shape, (3, 2))
        self.assertEqual(first["model"].attrs["parameters"], second["model"].attrs["parameters"])
        self.assertEqual(second["ranks/report"][...].tolist(), [13, 15, 20])
        self.assertEqual(second["ranks/steps"][...].tolist(), [1, 2, 5])
        self.check_sums(second)

    def test_a_run_that_is_stopped_reports_its_last_step(self):
        (self.folder / "run").mkdir()
        (self.folder / "run/stop").touch()
        self.train(*RUN, "--train.steps=1000", "--checkpoint.resume=auto", ranks=2, code=75)
        file = self.metrics()
        self.assertEqual(file["ranks/report"][-1], file["steps/step"][-1])
        self.check_sums(file)


if __name__ == "__main__":
    main()
