"""bench.output: the tables that benches print, as HDF5."""
import re

import h5py
import numpy as np

from job import SHORT, TINY, Case, main

SMALL = [*TINY, *SHORT, "--bench.steps=2", "--bench.warmup=1", "--data.val_fraction=0"]


class Bench(Case):
    def bench(self, *arguments, ranks=2):
        """Returns the output of a bench, and its file."""
        job = self.do("bench", *arguments, "--bench.output=out.h5", ranks=ranks)
        file = h5py.File(self.folder / "out.h5", "r")
        self.addCleanup(file.close)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["out.h5"])
        self.assertEqual(file.attrs["format"], "tessera bench")
        facts = file["provenance"].attrs
        self.assertIn("bench", facts["command_line"])
        self.assertTrue(facts["hosts"] and facts["cpu"] and facts["mpi_version"] and facts["git_revision"])
        self.assertEqual(file["config"].attrs["bench.output"], "out.h5")
        for table in set(file) - {"config", "provenance"}:
            self.assertTrue(file[table].attrs["about"])
            self.assertEqual(len({len(column) for column in file[table].values()}), 1, table)
            for name, column in file[table].items():
                self.assertEqual("unit" in column.attrs, column.dtype.kind != "O", name)
        return job, file

    def test_collectives_of_given_sizes(self):
        job, file = self.bench("comm", *SMALL, "--bench.sizes=64KB,2KiB")
        table = {name: column[...] for name, column in file["comm"].items()}
        self.assertEqual(sorted(set(table["bytes"].tolist())), [2048, 64000])
        self.assertEqual(sorted(set(table["collective"].tolist())), [b"all_gather", b"all_reduce", b"reduce_scatter"])
        self.assertEqual(set(table["by"].tolist()), {b"shared memory", b"messages", b"MPI"})
        self.assertEqual(len(table["bytes"]), 3 * 2 * 3)
        np.testing.assert_allclose(table["algorithm_bandwidth"], table["bytes"] / table["seconds"])
        factor = np.where(table["collective"] == b"all_reduce", 1, 0.5)
        np.testing.assert_allclose(table["bus_bandwidth"], factor * table["algorithm_bandwidth"])
        self.assertTrue((table["speed"][table["by"] == b"MPI"] == 1).all())
        units = {name: column.attrs.get("unit") for name, column in file["comm"].items()}
        self.assertEqual(units, {"collective": None, "by": None, "bytes": "B", "seconds": "s", "algorithm_bandwidth": "B/s",
                                 "bus_bandwidth": "B/s", "speed": "1"})
        printed = [line for line in job.out.splitlines() if re.match(r" *(all_gather|reduce_scatter|all_reduce) ", line)]
        self.assertEqual(len(printed), len(table["bytes"]))
        for line, seconds in zip(printed, table["seconds"]):
            self.assertAlmostEqual(float(line.split()[-4]), seconds * 1e6, delta=0.0051)

    def test_steps(self):
        job, file = self.bench("step", *SMALL)
        seconds, rate = file["steps/seconds"][...], {name: column[0] for name, column in file["rate"].items()}
        self.assertEqual(len(seconds), 2)
        self.assertAlmostEqual(rate["seconds"], np.median(seconds), delta=1e-9)
        self.assertAlmostEqual(rate["tokens_per_second"], 2 * 2 * 32 / rate["seconds"], delta=1e-6 * rate["tokens_per_second"])
        self.assertTrue(np.isnan(rate["product_by_datasheet"]))
        self.assertGreater(rate["product"], 0)
        times = dict(zip(file["time/category"].asstr()[...], file["time/seconds"][...]))
        self.assertGreater(times["forward"], 0)
        self.assertLess(sum(times.values()), 1.001 * seconds.sum() / len(seconds))
        self.assertIn("step       median", job.out)

    def test_kernels(self):
        job, file = self.bench("kernels", *SMALL, ranks=0)
        table = {name: column[...] for name, column in file["kernels"].items()}
        self.assertIn(b"adamw", table["kernel"].tolist())
        np.testing.assert_allclose(table["seconds"].sum() * table["share"], table["seconds"])
        np.testing.assert_allclose(table["call_seconds"] * table["calls"], table["seconds"])
        matmuls = table["flops"] > 0
        np.testing.assert_allclose(table["product_share"][matmuls],
                                   (table["flops"] / table["call_seconds"] / file["rates/product"][0])[matmuls])
        self.assertTrue(np.isnan(table["product_share"][~matmuls]).all())
        self.assertEqual(job.out.count("\n  adamw "), 1)

    def test_what_is_refused(self):
        (self.folder / "there.h5").write_text("mine")
        for words, says in ((["bench", "kernels", *SMALL, "--bench.output=there.h5"], r"there\.h5 exists"),
                            (["bench", "comm", "--bench.sizes=0,1MB"], r"bench\.sizes = '0,1MB'.*list of bytes"),
                            (["bench", "comm", "--bench.sizes=1MB", "--bench.max_bytes=1MB"], r"bench\.max_bytes.*no effect"),
                            (["bench", "comm", "--bench.output=out.h5"], r"one rank measures nothing"),
                            (["bench", "checkpoint", "--bench.output=out.h5"], r"bench\.output = 'out\.h5' has no effect")):
            self.refused(*words, says=says)
        self.refused("bench", "kernels", *SMALL, "--bench.output=none/out.h5", says=r"none/out\.h5", code=4)
        self.assertEqual((self.folder / "there.h5").read_text(), "mine")
        self.assertEqual([path.name for path in self.folder.iterdir()], ["there.h5"])


if __name__ == "__main__":
    main()
