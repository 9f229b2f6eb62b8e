#!/usr/bin/env python3
"""Checks that what Markdown links to is there: check_links.py ROOT. Prints a line per violation and exits 1 if there is one.

A link to a file of the repository needs that file, and one with #HEADING that heading. A page of docs/ that a source, a
script or a message names by its path must be there too, and no merge may have left its marks.
"""

import re
import sys
from pathlib import Path

from count_house import SOURCES, files

LINK = re.compile(r"\]\(([^)\s]+)\)")
MARK = re.compile(r"^(?:<{7}|>{7}) .*", re.MULTILINE)  # of a merge that is not done
PAGE = re.compile(r"(?<![\w/.])docs/[\w/-]+\.md\b")
NAMING = {*SOURCES, ".md", ".py", ".sh", ".sbatch", ".cmake", ".txt", ".html", ".ini"}


def without_code(text):
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(text):
    """The anchors that GitHub gives a page's headings."""
    titles = re.findall(r"^#+ (.*)", without_code(text), re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).strip().lower() for title in titles)
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain}


def check_page(root, name):
    page, problems = root / name, []
    text = page.read_text(encoding="utf-8")
    problems += [f"{name}: {mark}" for mark in MARK.findall(text)]
    for link in LINK.findall(without_code(text)):
        path, _, heading = link.partition("#")
        target = page.parent / path if path else page
        if re.match(r"\w+:", link):
            continue
        if not target.exists():
            problems.append(f"{name}: {link} is not there")
        elif heading and (target.suffix != ".md" or heading not in anchors(target.read_text(encoding="utf-8"))):
            problems.append(f"{name}: {link} has no such heading")
    return problems


def check_tree(root):
    """All violations, and how many pages were read."""
    pages = files(root, ".md")
    problems = [problem for name in pages for problem in check_page(root, name)]
    for name in files(root, *NAMING):
        if name not in ("CHANGELOG.md", "tests/architecture/test_check_links.py"):  # (of pages that were, or never were)
            named = set(PAGE.findall((root / name).read_text(encoding="utf-8", errors="replace")))
            problems += [f"{name}: {page} is not there" for page in sorted(named) if not (root / page).exists()]
    return list(dict.fromkeys(problems)), len(pages)


def main():
    problems, pages = check_tree(Path(sys.argv[1]))
    for problem in problems:
        print(problem)
    if pages == 0:
        print(f"{sys.argv[1]} holds no Markdown: name the root of the repository")
    print(f"{pages} pages, {len(problems)} links or names of pages that lead nowhere")
    return 1 if problems or pages == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
