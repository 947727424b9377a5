"""The numbers that pages quote: committed measurements, those the paper prints, and how each is written in Markdown.

Measurements are lists of records in ``results/<command>/<dataset>.json`` of the repository. The paper's numbers are in
``published.json``: accuracy and ROC-AUC in percent, as printed; a cell without a number has a note that says why.
"""

import functools
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any, ClassVar

from rapgnn.compare import Record
from rapgnn.errors import InputError, check_choice
from rapgnn.files import write_atomic
from rapgnn.memory import show_size
from rapgnn_lab import store


def results_folder(root: Path) -> Path:
    """``results`` of the repository ``root``, which must be there."""
    folder = root / "results"
    if not folder.is_dir():
        raise InputError(f"there is no folder results in {root.resolve()}: run this in the repository, or name --root.")
    return folder


def read_records(root: Path, file: str) -> list[Record]:
    """What was measured, ``<command>/<dataset>``."""
    path = results_folder(root) / f"{file}.json"
    if not path.is_file():
        raise InputError(f"results/{file}.json is not there: it was not measured.")
    return store.read_records(path)


def one_sentence(main: Callable[..., int]) -> Callable[..., int]:
    """A ``python -m`` command that ends with one sentence and exit code 2 where its input is refused."""

    @functools.wraps(main)
    def command(words: Sequence[str] | None = None) -> int:
        try:
            return main(words)
        except InputError as error:
            print(error, file=sys.stderr)
            return 2

    return command


def writer(module: str, doc: str | None, wanted: Callable[[Path], Mapping[Path, str]]) -> Callable[..., int]:
    """``python -m`` of a module that writes files of the repository from results/; ``--check`` says which differ."""

    @one_sentence
    def main(words: Sequence[str] | None = None) -> int:
        parser = ArgumentParser(prog=f"python -m {module}", description=(doc or "").split("\n")[0])
        parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 if a file is out of date")
        parser.add_argument("--root", type=Path, default=Path(), help="the repository (default: this folder)")
        given = parser.parse_args(words)
        changed = changed_files(wanted(given.root))
        for path, text in changed.items():
            if not given.check:
                write_atomic(path, lambda temporary, text=text: temporary.write_text(text, encoding="utf-8"))
            print(f"{path}: {'differs from results/' if given.check else 'written'}")
        return int(given.check and bool(changed))

    return main


def changed_files(wanted: Mapping[Path, str]) -> dict[Path, str]:
    """{file: what it should say} of those that say anything else, or are not there."""
    return {
        path: text for path, text in wanted.items() if not path.is_file() or path.read_text(encoding="utf-8") != text
    }


_PUBLISHED: Record = store.packaged("published.json")
TABLES: dict[str, list[str]] = _PUBLISHED["tables"]
"""The tables, and the labels of the paper's source they were taken from."""


@dataclass(frozen=True)
class Published:
    """One cell of one table: its method, a metric as in the records of ``rapgnn.compare`` or in the paper's words, and
    what the table varies; ``note``: why there is no number, or what else is to be said."""

    table: str
    dataset: str
    method: str
    metric: str
    mean: float | None
    std: float | None
    embedding: str | None = None
    backbone: str | None = None
    batch_size: int | None = None
    num_layers: int | None = None
    note: str | None = None


@functools.cache
def published() -> tuple[Published, ...]:
    return tuple(Published(**cell) for cell in _PUBLISHED["cells"])


def find_published(table: str, **fields: Any) -> list[Published]:
    check_choice("table", table, TABLES)
    for name in fields:
        check_choice("field", name, Published.__dataclass_fields__)
    return [p for p in published() if p.table == table and all(getattr(p, k) == v for k, v in fields.items())]


def one_published(table: str, **fields: Any) -> Published:
    cells = find_published(table, **fields)
    if len(cells) != 1:
        asked = ", ".join(f"{name}={value!r}" for name, value in fields.items())
        raise InputError(f"the paper's table {table} has {len(cells)} cells with {asked or 'no field named'}, not one.")
    return cells[0]


MISSING, DIVERGED = "not measured", "diverged"
NONE = "–"  # there is no such figure
DATASETS = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}
DATASETS |= {name: name.upper() for name in ("mutag", "ptc", "proteins")}
ONE_DIGIT = ("tu", "batches")  # the paper's tables that print one decimal


def format_table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A table; the first ``left`` columns are aligned to the left, all others to the right."""
    rule = ["---"] * left + ["---:"] * (len(header) - left)
    lines = ("".join(f"| {cell} " if cell else "| " for cell in cells) + "|" for cells in (header, rule, *rows))
    return "\n".join(lines)


def format_number(value: float | None) -> str:
    """Three digits, and thousands in full."""
    return NONE if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def format_figure(record: Record | None, prefix: str = "") -> str:
    """A metric with its spread; ``prefix`` "strict_": by that protocol. How many seeds stands below the tables."""
    if record is None or f"{prefix}mean" not in record:
        return NONE if prefix else MISSING
    mean, std, folds = record[f"{prefix}mean"], record[f"{prefix}std"], "fold," in record["protocol"]
    if mean is None:
        return DIVERGED
    factor, digits = (1, 3) if record["metric"] == "rmse" else (100, 1 if folds else 2)
    spread = "" if len(record["seeds"]) == 1 and not folds else f" ± {factor * std:.{digits}f}"
    return f"{factor * mean:.{digits}f}{spread}"


def format_published(cell: Published | None) -> str:
    """A published mean and standard deviation, with as many digits as its table prints."""
    if cell is None or cell.mean is None or cell.std is None:
        return (cell and cell.note) or NONE
    digits = 3 if cell.metric == "rmse" else 1 if cell.table in ONE_DIGIT else 2
    return f"{cell.mean:.{digits}f} ± {cell.std:.{digits}f}"


def format_ratio(value: float) -> str:
    return f"{value:,.0f}×" if value >= 10 else f"{value:.1f}×" if value >= 0.1 else f"{value:.2f}×"


def format_ms(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2f}"


def title_of(dataset: str) -> str:
    return DATASETS.get(dataset, dataset)


COLUMNS: dict[str, str] = store.packaged("columns.toml")
"""The columns of every benchmark's table, and of those in README.md and docs/, as ``make_table`` takes them."""


class Cells(Formatter):
    """Cells of a record by a template such as ``{nodes:,} | {epoch_ms:ms}``; what it does not have is a dash."""

    KINDS: ClassVar = {
        "n": format_number,
        "ms": format_ms,
        "x": format_ratio,
        "points": lambda share: f"{100 * share:.1f}",
        "percent": lambda share: f"{100 * share:.0f} %",
        "MB": "{:,.0f} MB".format,
        "bytes": show_size,
        "size": lambda megabytes: show_size(round(megabytes * 2**20)),
    }

    def get_value(self, key: Any, args: Any, kwargs: Any) -> Any:
        return kwargs.get(key)

    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None:
            return NONE
        kind = self.KINDS.get(format_spec)
        return format(value, format_spec) if kind is None else kind(value)


def make_table(records: Iterable[Record], columns: str) -> str:
    """A row per record; ``columns``: ``heading: template``, parted by ``|``, the first ones without a format words."""
    parts = [column.partition(":") for column in columns.split("|")]
    names, cells = ([part[at].strip() for part in parts] for at in (0, 2))
    words = next((at for at, cell in enumerate(cells) if ":" in cell), len(cells))
    return format_table(names, ([Cells().vformat(cell, (), r) for cell in cells] for r in records), max(1, words))
