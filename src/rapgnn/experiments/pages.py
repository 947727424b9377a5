"""The tables of README.md and docs/, written from the committed measurements in results/.

    python -m rapgnn.experiments.pages          # rewrites what stands between the markers
    python -m rapgnn.experiments.pages --check  # exit code 1 if a page says anything else than results/

A table stands between ``<!-- name -->`` and ``<!-- /name -->``; the names are those of ``TABLES``.
"""

import re
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from rapgnn.errors import InputError
from rapgnn.experiments.auto_pages import AUTO_TABLES
from rapgnn.experiments.reproduce_pages import REPRODUCED
from rapgnn.experiments.results import one_sentence, results_folder
from rapgnn.experiments.scale_pages import SCALE_TABLES
from rapgnn.experiments.speed_pages import SPEED_TABLES
from rapgnn.files import write_atomic

TABLES = {**AUTO_TABLES, **SPEED_TABLES, **SCALE_TABLES, **REPRODUCED}


def find_pages(root: Path) -> list[Path]:
    """README.md and every page of docs/."""
    return [page for page in (root / "README.md", *sorted((root / "docs").glob("*.md"))) if page.is_file()]


def render(page: Path, root: Path) -> str:
    """The page with every table it has markers for."""
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"<!-- /([\w-]+) -->", text):
        if name not in TABLES:
            raise InputError(f"{page.name} has markers for {name!r}: the tables are {', '.join(TABLES)}.")
    for name, table in TABLES.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        if begin not in text and end not in text:
            continue
        if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
            raise InputError(f"{page.name} needs one {begin.strip()} and after it one {end} for its table.")
        text = text[: text.index(begin)] + begin + table(root) + "\n" + text[text.index(end) :]
    return text


def changed_pages(root: Path = Path()) -> dict[Path, str]:
    """{page: what it should say} of the pages that say anything else than results/."""
    results_folder(root)
    rendered = {page: render(page, root) for page in find_pages(root)}
    return {page: text for page, text in rendered.items() if page.read_text(encoding="utf-8") != text}


def write_pages(root: Path = Path()) -> list[Path]:
    """Bring every page up to date; which of them changed."""
    changed = changed_pages(root)
    for page, text in changed.items():
        write_atomic(page, lambda temporary, text=text: temporary.write_text(text, encoding="utf-8"))
    return list(changed)


@one_sentence
def main(words: Sequence[str] | None = None) -> int:
    """The command."""
    parser = ArgumentParser(prog="python -m rapgnn.experiments.pages", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 if a page is out of date")
    parser.add_argument("--root", type=Path, default=Path(), help="the repository (default: this folder)")
    given = parser.parse_args(words)
    changed = changed_pages(given.root) if given.check else write_pages(given.root)
    for page in changed:
        print(f"{page}: {'differs from results/' if given.check else 'written'}")
    return int(given.check and bool(changed))


if __name__ == "__main__":
    sys.exit(main())
