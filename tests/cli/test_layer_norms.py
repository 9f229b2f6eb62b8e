"""/layers of metrics.layer_norms against numpy's norms of the gradients in run.dump."""
import os

import h5py
import numpy as np

from job import SHORT, TINY, Case, main

DUMPED = 4
RUN = [*TINY, *SHORT, "--train.steps=5", "--metrics.every=2", f"--run.dump={DUMPED}", "--metrics.layer_norms=true",
       "--run.device=" + os.environ.get("TESSERA_DEVICE", "cpu"), "--data.val_fraction=0", "--run.dir=run"]
UNITS = ["wte", "wpe", "h.0", "h.1", "ln_f"]


class LayerNorms(Case):
    def layers(self, *options, ranks, units=UNITS):
        """Trains and returns [report, layer] after a comparison of the dumped step's row."""
        self.train(*RUN, *options, ranks=ranks)
        with h5py.File(self.folder / "run/metrics.h5") as file:
            steps, norms = file["layers/step"][:], file["layers/grad_norm"][:]
            self.assertEqual(file["layers"].attrs["names"].split(","), units)
            self.assertEqual(steps.tolist(), [1, 2, 4, 5])
            whole = file["steps/grad_norm"][:][steps - 1]
        np.testing.assert_allclose(np.sqrt((norms ** 2).sum(axis=1)), whole, rtol=1e-14)
        with h5py.File(self.folder / f"run/dump-{DUMPED:08}.h5") as file:
            squares = dict.fromkeys(units, 0.0)
            for name, gradient in file["gradients"].items():
                squares[self.unit_of(name, units)] += (gradient[...].astype(np.float64) ** 2).sum()
        np.testing.assert_allclose(norms[2], np.sqrt(list(squares.values())), rtol=1e-12)
        (self.folder / "run").rename(self.folder / f"done-{len(list(self.folder.iterdir()))}")
        return norms

    @staticmethod
    def unit_of(tensor, units):
        name = tensor.removeprefix("transformer.")
        return next((unit for unit in units if name.startswith(unit + ".")), units[-1])  # the last may be several

    def test_every_strategy_and_world_records_the_same_norms(self):
        same = self.layers("--train.accumulation=4", ranks=1)
        for ranks, *options in ((2, "--shard.strategy=zero3"), (4, "--shard.strategy=zero3"), (2, "--shard.strategy=ddp"),
                                (4, "--shard.strategy=ddp"), (2, "--shard.strategy=zero2", "--shard.reduce=step"),
                                (4, "--shard.strategy=hsdp", "--shard.group_size=2"),
                                (2, "--shard.strategy=zero1", "--shard.offload=optimizer")):
            with self.subTest(ranks=ranks, options=options):
                found = self.layers(f"--train.accumulation={4 // ranks}", *options, ranks=ranks)
                np.testing.assert_array_equal(found, same)

    def test_layers_are_the_units(self):
        self.layers("--shard.wrap=model", ranks=2, units=["model"])
        self.layers("--shard.wrap=size", "--shard.min_params=20000", ranks=2, units=["wte", "wpe", "h.0.attn..ln_f"])

    def test_a_loss_scale_is_divided_out(self):
        self.layers("--precision.compute=fp16", "--precision.reduce=fp16", ranks=2)

    def test_rows_are_those_of_all_starts(self):
        self.train(*RUN, "--checkpoint.every=2")
        with h5py.File(self.folder / "run/metrics.h5") as file:
            before = file["layers/grad_norm"][:]
        self.train(*RUN, "--checkpoint.resume=run/checkpoints/step-00000002", "--run.dump=0")
        with h5py.File(self.folder / "run/metrics.h5") as first, h5py.File(self.folder / "run/metrics.1.h5") as second:
            self.assertEqual([file["layers/step"][:].tolist() for file in (first, second)], [[1, 2], [3, 4, 5]])
            np.testing.assert_array_equal(first["layers/grad_norm"][:], before[:2])
            np.testing.assert_array_equal(second["layers/grad_norm"][1:], before[2:])

    def test_nothing_is_recorded_unless_it_is_wanted(self):
        self.train(*RUN, "--metrics.layer_norms=false")
        with h5py.File(self.folder / "run/metrics.h5") as file:
            self.assertNotIn("layers", file)


if __name__ == "__main__":
    main()
