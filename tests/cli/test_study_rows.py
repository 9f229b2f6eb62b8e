"""The purpose of the rows of studies: each does something that no other does, the real versions have all that they ask
for, and rows of PyTorch start from an installation.
"""
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from test_studies import COMMANDS, REAL_ROWS, ROWS, SWEEPS, commands, planned, printed_study  # first: it says where the next are

from html_case import study_of
from job import Case, main, status
from planned_study import PlannedRow, as_if_run
from tessera_report.html import claims
from tessera_report.html.findings import listed as findings
from tessera_report.html.panels import listed as panels
from tessera_report.studies.course.tasks import TASKS

# Pictures beyond those of every sweep, and findings on options, that a study is for.
SHOWN = {
    "manual_vs_official": (set(), ["checkpointing", "gather_limit", "whole_model"]),
    "course": ({"Training state over ranks", "Strong scaling", "Weak scaling",
                "Bandwidth against size"}, ["strong_scaling", "weak_scaling", "prefetch", "reshard"]),
    "gpt2_nanogpt": ({"Training state over ranks", "Strong scaling"}, ["strong_scaling", "unit_size", "graphs"]),
    "zero2_vs_zero3": ({"Speed and memory against the batch", "Model FLOPs utilization (MFU)"}, []),
    "hybrid": ({"Throughput", "Memory by category", "Communication"}, []),
    "overlap": ({"Exposed communication against prefetch"}, ["prefetch"]),
    "strong_scaling": ({"Training state over ranks", "Strong scaling"}, ["strong_scaling"]),
}


def planned_rows(name, version, chosen, *more):
    """Rows that train, with their plans."""
    shown, lines = planned(printed_study(name, version)), commands(printed_study(name, version))
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda row: PlannedRow(row, shown[row][0], lines[row], *more), chosen))


def trained(name, version):
    return [row for row in planned(printed_study(name, version)) if row not in COMMANDS]


class RowsDiffer(Case):
    """Every row shows something that no other shows, and a study's question has its rows; from plans alone."""

    def test_no_two_rows_share_a_schedule_unless_an_option_differs_that_it_does_not_hold(self):
        for version in "small", "real":
            for name in ROWS:
                with self.subTest(name, version=version):
                    shown = planned(printed_study(name, version))
                    # Equal schedules need equal memory, so only rows that show the same are looked at.
                    near = [row for row in trained(name, version) if sum(other == shown[row] for other in shown.values()) > 1]
                    seen = {}
                    for row in planned_rows(name, version, near):
                        other = seen.setdefault(row.does(), row)
                        self.assertIs(other, row, f"{row.name} does the same as {other.name}")

    def test_no_two_commands_are_the_same(self):
        for name in ROWS:
            lines = [re.sub(rf"runs/{name}/\S+", "", line) for row, line in commands(printed_study(name, "real")).items()
                     if row in COMMANDS]
            self.assertEqual(len(lines), len(set(lines)), name)

    def test_the_course_runs_on_eight_ranks(self):
        """All rows but those whose models differ, and none of them is left out because of its batch."""
        out = self.job("sweep", SWEEPS / "course.ini", "--sweep.ranks=1,2,4,8").out
        self.assertRegex(out, r"\Arow weak-8 is left out, because .*\nsweep course: 31 rows")
        self.assertLessEqual({"memory-8", "bandwidth-8", "8-reshard-off", "toy-8"}, set(planned(out)))

    def study(self, name):
        """The real version as if its rows had run."""
        fewer = ["--model.layers=2"] if name in ("hybrid", "zero2_vs_zero3") else []  # quicker; all their rows have one model
        rows = planned_rows(name, "real", trained(name, "real"), *fewer)
        benches = {row: int(row[-1]) for row in REAL_ROWS[name] if row.startswith("bandwidth-")}
        like = {row.name: row for row in rows}
        resumed = {"2-zero3-resumed": (2, like["2-zero3"], 11)} if "2-zero3-resumed" in REAL_ROWS[name] else {}
        baseline = re.search(r"^baseline = (\S+)", (SWEEPS / f"{name}.ini").read_text(), re.M)
        return study_of(as_if_run(self.folder / name, name, baseline and baseline[1], rows, benches, resumed))

    def test_each_real_version_has_what_it_asks_for(self):
        for name, (pictures, found) in SHOWN.items():
            with self.subTest(name):
                study = self.study(name)
                for title, picture, _ in panels.PANELS:
                    if title in pictures:
                        self.assertIsNotNone(picture(study), title)
                for finding in found:
                    self.assertIsNotNone(getattr(findings, finding)(study), finding)
                for claim in (claims.zero1_speed, claims.small_models) if name == "gpt2_nanogpt" else ():
                    self.assertNotEqual(claim(study).measured, claims.NOTHING, claim.__name__)
                for task in TASKS if name == "course" else ():
                    self.assertIsNotNone(task.answer(study), task.title)


class Installed(Case):
    """Rows of PyTorch are started from any folder, and skipped where something that they need is missing."""

    def test_without_python_and_without_pytorch(self):
        prefix, tools = self.folder / "installed", self.folder / "tools"
        build = Path(os.environ["TESSERA"]).parents[1]
        subprocess.run(["cmake", "--install", build, "--prefix", prefix], check=True, capture_output=True)
        peers = {path.name for path in (prefix / "share/tessera/peers").iterdir()}
        self.assertLessEqual({"pytorch_train.py", "pytorch_train.sh", "options.py", "requirements.txt"}, peers)
        self.assertEqual({name for name in peers if name.startswith("test_")}, set())
        tools.mkdir()
        for tool in "sh", "dirname":
            (tools / tool).symlink_to(shutil.which(tool))
        words = [prefix / "bin/tessera", "sweep", prefix / "share/tessera/inputs/sweeps/manual_vs_official.ini", "--sweep.only=ddp_official",
                 "--sweep.action=run"]
        for says in r"there is no python3: install", r"lacks a module \(No module named 'torch'\)":
            done = subprocess.run([*words, f"--sweep.name={len(says)}"], cwd=self.folder, env={**os.environ, "PATH": str(tools)},
                                  capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            row = status(self.folder / f"runs/{len(says)}/ddp_official")
            self.assertEqual(row["status"], "skipped", row)
            self.assertRegex(row["message"], says)
            (tools / "python3").write_text(f'#!{tools}/sh\nexec {sys.executable} -S "$@"\n')  # -S: no installed modules
            (tools / "python3").chmod(0o755)


if __name__ == "__main__":
    main(at_once=1)
