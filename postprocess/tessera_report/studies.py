"""The sections that studies bring to the page: SECTIONS of inputs/sweeps/STUDY/report.py.

Sections are code, so they come from this installation only, and never from the folder of a sweep. The modules of a
study are below this one: tessera_report.studies.STUDY.
"""
from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any, Iterable

HERE = Path(__file__).resolve()
# Next to postprocess, in the sources and in share/tessera, or where pip puts them (pyproject.toml).
__path__ = [str(HERE.parents[2] / "inputs/sweeps"), str(HERE.parent / "sweeps")]


def is_known(files: Iterable[str]) -> bool:
    """Whether one of the names that a sweep's file may have had is a study's, or STUDY-real."""
    names = (file.removesuffix("-real") for file in files)
    return any(re.fullmatch(r"\w+", name) and Path(place, f"{name}.ini").is_file() for name in names for place in __path__)


def brought_sections(files: Iterable[str]) -> list[tuple[str, str, Any]]:
    """Key, title and function of each section that the first study among `files` brings, which are names that the sweep's
    file may have had. STUDY-real is the same study over another base."""
    for name in (file.partition("-")[0] for file in files):
        if re.fullmatch(r"\w+", name) and any(Path(place, name, "report.py").is_file() for place in __path__):
            return import_module(f"{__name__}.{name}.report").SECTIONS
    return []
