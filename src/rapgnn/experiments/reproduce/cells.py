"""A cell: one measurement, and the key that it is stored and found by."""

import hashlib
import json
from dataclasses import dataclass, field

from rapgnn.experiments.bench.rows import plain
from rapgnn.experiments.reproduce.source import code_version
from rapgnn.experiments.run import Record

KEY_DIGITS = 16


@dataclass(frozen=True)
class Cell:
    """One measurement.

    Args:
        kind: how it is measured, a name in ``KINDS``.
        dataset: a dataset's name, or the name of a generated graph.
        spec: all else that decides the result, as JSON holds it: method, configuration, seeds, epochs. A kind whose
            own code changes what it measures counts a ``"version"`` up here.
        labels: what tables need and the result does not depend on: ``column``, ``row``, ``title``.
    """

    kind: str
    dataset: str
    spec: Record
    labels: Record = field(default_factory=dict)


def cell_key(cell: Cell, checksum: str) -> str:
    """The cell's key; labels have no part in it, so a cell of several tables is measured once.

    Args:
        checksum: of the data, as ``Graphs.checksum`` gives it.
    """
    decides = [cell.kind, cell.dataset, plain(cell.spec), code_version(), checksum]
    text = json.dumps(decides, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]
