"""The report's modules import one another without a circle (in functions, too), and name no study."""
import ast
import re
import tempfile
import unittest
from pathlib import Path

from reporting import ROOT

from tessera_report.studies import brought_sections  # noqa: E402 (reporting has set the path)

STUDIES = ROOT / "inputs/sweeps"


def modules(folder):
    """{name: its syntax tree and its package} of the files below a folder."""
    found = {}
    for path in folder.rglob("*.py"):
        words = path.relative_to(folder).with_suffix("").parts
        package = words[:-1]
        found[".".join(package if words[-1] == "__init__" else words)] = ast.parse(path.read_text()), package
    return found


def imported(tree, package):
    """Names that the import statements of a tree may mean, with the packages that Python imports before them."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[:len(package) - node.level + 1] if node.level else ()
            origin = [*above, *([node.module] if node.module else [])]
            names += [".".join([*origin, one.name]) for one in node.names]
    return {name[:end] for name in (f"{name}." for name in names) for end in range(len(name)) if name[end] == "."}


def circles(*folders):
    """Strongly connected components of more than one module, or of one that imports itself; each sorted."""
    known = {name: module for folder in folders for name, module in modules(folder).items()}
    reached = {name: imported(*module) & known.keys() for name, module in known.items()}
    for middle in known:  # after Warshall
        for name in known:
            if middle in reached[name]:
                reached[name] |= reached[middle]
    parts = [sorted(other for other in reached[name] if name in reached[other]) for name in sorted(known)]
    return [part for place, part in enumerate(parts) if part and part not in parts[:place]]


class Imports(unittest.TestCase):
    def test_the_report_has_no_circle(self):
        self.assertGreater(len(modules(ROOT / "postprocess")), 50)
        self.assertEqual(circles(ROOT / "postprocess", STUDIES), [])

    def test_circles_are_found(self):
        late = "def f():\n    from ..low import g\n"
        for files, expected in (
            ({"a.py": "import b", "b.py": "import json"}, []),
            ({"a.py": "import b", "b.py": "import c", "c.py": "from a import x", "d.py": ""}, [["a", "b", "c"]]),
            ({"p/low.py": "from .high.top import h", "p/high/top.py": late}, [["p.high.top", "p.low"]]),
            ({"p/__init__.py": "from . import a", "p/a.py": "from .b import x", "p/b.py": ""}, [["p", "p.a"]]),
        ):
            with self.subTest(files=files), tempfile.TemporaryDirectory() as folder:
                for name, text in files.items():
                    (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                    (Path(folder) / name).write_text(text)
                self.assertEqual(circles(Path(folder)), expected)


class Studies(unittest.TestCase):
    def test_the_report_names_no_study_that_brings_sections(self):
        names = [path.parent.name for path in STUDIES.glob("*/report.py")]
        self.assertIn("course", names)
        for path in (path for path in (ROOT / "postprocess").rglob("*.*") if path.suffix not in (".md", ".pyc")):
            self.assertEqual([name for name in names if re.search(rf"\b{name}\b", path.read_text())], [], path)

    def test_sections_are_found_by_the_sweeps_file_or_its_name(self):
        for files, found in ((("course", "my"), 2), (("", "course"), 2), (("", "course-real"), 2), (("overlap",), 0),
                             (("../sweeps/course", "course/", "real", "course.report", ""), 0)):
            self.assertEqual(len(brought_sections(files)), found, files)


if __name__ == "__main__":
    unittest.main(verbosity=2)
