"""What the measures of all claims share: records are found by their fields, and what they say is a finding."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rapgnn.compare import Record
from rapgnn_lab.baselines.systems import METHODS

STEPWISE = "rap-stepwise"
TITLES = {name: method.title for name, method in METHODS.items()} | {
    STEPWISE: "RAP-GNN, layer by layer",
    "end-to-end-pyg": "End-to-End, PyG",
}
Records = Mapping[str, Sequence[Record]]
"""Item -> its records; items may be missing."""


@dataclass(frozen=True)
class Finding:
    """What was measured for a claim: words, the test, and flat rows; those of the first row's column decide."""

    figures: str
    test: str
    details: Sequence[Record]


def title(method: str) -> str:
    """A method's name for people."""
    return TITLES.get(method, method)


def field(record: Record, name: str) -> Any:
    """Of the record, or of its configuration; RAP by the reference engine has a name of its own."""
    if name == "method" and record.get("method") == "rap" and record.get("engine") == "stepwise":
        return STEPWISE if "values" not in record else "rap"
    value = record.get(name)
    return value if value is not None else (record.get("config") or {}).get(name)


def find(records: Records, items: Sequence[str], **wanted: Any) -> list[Record]:
    """The records of these items whose fields are these, in the items' order."""
    every = (record for item in items for record in records.get(item, []))
    return [r for r in every if all(field(r, name) == value for name, value in wanted.items())]
