"""tessera-report over the flight files of a run: the picture of its last second."""
import unittest

from html_case import Html, study_of
from job import SHORT, TINY
from tessera_report.errors import Unreadable
from tessera_report.flight_file import Flight, read_flights
from tessera_report.html.panels.last_second import draw_flights, last_seconds

END = 296  # offset of the header's note of a rank's end


class Flights(Html):
    def setUp(self):
        super().setUp()
        self.train(*TINY, *SHORT, "--run.dir=run", "--metrics.every=1", "--data.val_fraction=0", ranks=2)
        self.run = self.folder / "run"

    def test_the_last_second_of_a_run_that_did_not_finish(self):
        self.assertEqual(last_seconds(study_of(self.folder)), ([], []))
        for rank in (0, 1):  # as SIGKILL leaves it
            with open(self.run / f"flight/rank-{rank}", "r+b") as file:
                file.seek(END)
                file.write(bytes(4))
        flights = read_flights(self.run)
        self.assertEqual([(one.rank, one.is_finished) for one in flights], [(0, False), (1, False)])
        done = [name for name, _, begin, end in flights[0].records if 0 <= end - begin < 60]
        self.assertEqual((len(done), done.count("load tokens"), done.count("backward h.1.attn")), (len(flights[0].records), 3, 3))
        figure = draw_flights(flights)
        self.assertLessEqual({"rank 0, stream 0", "rank 1, stream 0"}, {label.get_text() for label in figure.axes[0].get_yticklabels()})
        self.assertTrue("<h3>The last second: " in self.page())

    def test_a_gpus_segments_have_a_line(self):
        figure = draw_flights([Flight(0, b"", False, [("gather h.1", 1, 8.0, 9.5), ("micro-step", 7, 9.0, None)])])
        self.assertEqual([label.get_text() for label in figure.axes[0].get_yticklabels()], ["rank 0, stream 1", "rank 0, segments"])

    def test_damaged_files_are_named(self):
        path = self.run / "flight/rank-1"
        whole = path.read_bytes()
        for data, says in ((whole[:-64], "is damaged"), (b"nothing", "is not a flight file"), (whole[:8] + bytes(4) + whole[12:], "version")):
            path.write_bytes(data)
            with self.assertRaisesRegex(Unreadable, f"rank-1 {says}|rank-1 .*{says}"):
                read_flights(self.run)
        self.assertIn("needs flight files that can be read", self.page())


if __name__ == "__main__":
    unittest.main(verbosity=2)
