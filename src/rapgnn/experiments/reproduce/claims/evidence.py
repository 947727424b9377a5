"""What was measured, as the claims look it up: records by item, dataset, method and settings."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from rapgnn.experiments.reproduce.rows import FAITHFUL
from rapgnn.experiments.run import Record
from rapgnn.training.methods import METHODS

TABLES = ("table1", "table2", "table3", "molbace", "identity", "large")  # methods on datasets, at their own settings
STEPWISE = "rap-stepwise"
TITLES = {name: method.title for name, method in METHODS.items()} | {
    STEPWISE: "RAP-GNN, layer by layer",
    "end-to-end-pyg": "End-to-End, PyG",
}


class Evidence:
    """The records of the items that were measured.

    Args:
        records: item -> its records; items may be missing.
    """

    def __init__(self, records: dict[str, list[Record]]):
        self.records = records

    def find(self, items: Sequence[str], **wanted: Any) -> list[Record]:
        """The records of these items whose fields are these, in the items' order."""
        return [r for r in self._of(items) if all(field(r, name) == value for name, value in wanted.items())]

    def scores(self, items: Sequence[str], column: str = FAITHFUL, **wanted: Any) -> Record | None:
        """The first record with values of a metric in this column; where none is named it is the paper's."""
        found = (r for r in self.find(items, **wanted) if _measured(r) and r.get("column", FAITHFUL) == column)
        return next(found, None)

    def _of(self, items: Sequence[str]) -> Iterator[Record]:
        for item in items:
            yield from self.records.get(item, [])


def values_of(record: Record, kind: str = "") -> list[float]:
    """Of the metric; a run that diverged is None in a file, and has no number.

    Args:
        kind: ``"strict_"`` for the strict protocol's.
    """
    return [math.nan if value is None else float(value) for value in record.get(f"{kind}values") or []]


def _measured(record: Record) -> bool:
    return any(math.isfinite(value) for value in values_of(record))


def field(record: Record, name: str) -> Any:
    """Of the record, or of its configuration; RAP by the reference engine has a name of its own."""
    if name == "method" and record.get("method") == "rap" and record.get("engine") == "stepwise":
        return STEPWISE if "values" not in record else "rap"
    value = record.get(name)
    return value if value is not None else (record.get("config") or {}).get(name)


def title(method: str) -> str:
    """A method's name for people."""
    return TITLES.get(method, method)
