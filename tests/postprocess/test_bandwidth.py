"""Curves of tessera bench comm, from a file of bench.output named on the command line."""
from pathlib import Path

import h5py
import numpy as np

from reporting import Report
from job import Case, main
from tessera_report.find import find_entries
from tessera_report.html.panels.bandwidth import draw_bandwidth, measured_of

SIZES = [1024, 4096, 16384]
SPEEDS = {"shared memory": 4e9, "MPI": 1e9}  # bytes per second, the bus's


def write_bench(path, format_of="tessera bench"):
    """The table of two ranks as the bench writes it, its rows in another order than the curves'."""
    lines = [(kind, by, size) for size in reversed(SIZES) for kind in ("all_gather", "all_reduce") for by in SPEEDS]
    with h5py.File(path, "w") as file:
        file.attrs["format"] = format_of
        group = file.create_group("comm")
        group["collective"], group["by"] = [line[0] for line in lines], [line[1] for line in lines]
        group["bytes"] = np.array([line[2] for line in lines])
        group["bus_bandwidth"] = np.array([SPEEDS[line[1]] * (1 + line[2] / 1e6) for line in lines])
        group["seconds"] = group["bytes"][...] / group["bus_bandwidth"][...] / 2


class Bandwidth(Case):
    def test_a_curve_for_each_communicator_by_size(self):
        write_bench(self.folder / "two.h5")
        figure = draw_bandwidth(measured_of([(entry, entry.path) for entry in find_entries(self.folder / "two.h5")]))
        self.assertEqual([axes.get_title(loc="left") or axes.get_title() for axes in figure.axes],
                         ["all-gather: bus bandwidth", "all-reduce: bus bandwidth"])
        for axes in figure.axes:
            self.assertEqual((axes.get_ylabel(), axes.get_yscale()), ("GB/s", "linear"))
            self.assertEqual({line.get_label(): list(line.get_xdata()) for line in axes.lines}, dict.fromkeys(SPEEDS, SIZES))
            for line in axes.lines:
                expected = [SPEEDS[line.get_label()] * (1 + size / 1e6) / 1e9 for size in SIZES]
                np.testing.assert_allclose(line.get_ydata(), expected)

    def test_curves_that_would_lie_on_zero_make_the_axis_logarithmic(self):
        for name in ("a", "b"):
            write_bench(self.folder / f"{name}.h5")
        with h5py.File(self.folder / "b.h5", "a") as file:
            file["comm/bus_bandwidth"][...] *= [10 if by == b"MPI" else 1 for by in file["comm/by"][...]]
        entries = [entry for name in "ab" for entry in find_entries(self.folder / f"{name}.h5")]
        figure = draw_bandwidth(measured_of([(entry, entry.path) for entry in entries]))
        for axes in figure.axes:
            self.assertEqual(axes.get_yscale(), "log")
            of = {line.get_label(): (line.get_color(), line.get_linestyle()) for line in axes.lines}
            self.assertEqual(of["a, MPI"][0], of["b, MPI"][0])
            self.assertEqual(of["a, MPI"][1], of["a, shared memory"][1])
            self.assertEqual(len(set(of.values())), 4)

    def test_files_of_several_benches_are_rows_of_one_picture(self):
        for name in ("a", "b"):
            write_bench(self.folder / f"{name}.h5")
        report = Report(self.folder / "a.h5", self.folder / "b.h5", "--plots", self.folder / "plots",
                        json_file=self.folder / "rows.json", apart=True)
        self.assertEqual(report.code, 0, report.err)
        self.assertIn(f"written    {self.folder}/plots/bandwidth.png", report.out)
        self.assertGreater((self.folder / "plots/bandwidth.png").stat().st_size, 10_000)
        self.assertNotIn("without metrics", report.out)
        self.assertEqual(set(report.rows), {"a", "b"})

    def test_another_programs_metrics_are_no_bench(self):
        metrics = self.folder / "metrics.json"
        metrics.write_text('{"/steps/loss": [5, 4], "/steps/tokens_per_second": [10, 11]}')
        report = Report(metrics, "--html", self.folder / "page.html", "--plots", self.folder / "plots", apart=True)
        self.assertEqual((report.code, report.err), (0, ""))
        self.assertTrue((self.folder / "page.html").stat().st_size > 10_000)
        self.assertRegex(report.out, r"bandwidth\.png is left out: it needs a row with the tables")

    def test_other_files_are_refused_as_before(self):
        write_bench(self.folder / "other.h5", format_of="something else")
        (self.folder / "text.h5").write_text("no HDF5")
        for name in ("other", "text"):
            report = Report(self.folder / f"{name}.h5", apart=True)
            self.assertEqual(report.code, 4)
            self.assertIn(str(Path(self.folder / f"{name}.h5")), report.err)


if __name__ == "__main__":
    main()
