"""How cells are measured, by the name of their kind.

Each file of measurements adds its own when it is imported: ``KINDS["collapse"] = measure_collapse``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rapgnn.experiments.reproduce.cells import Cell
from rapgnn.experiments.reproduce.item import Graphs
from rapgnn.experiments.run import OnEpoch, Record

Measure = Callable[[Cell, Graphs, OnEpoch], Record]


@dataclass(frozen=True)
class Parts:
    """A kind whose cells are measured and stored in parts, so that a stopped run loses little.

    Args:
        split: the parts of a cell, cells of a kind in ``KINDS``.
        join: the cell and the records of its parts -> the record of the cell.
        together: parts of one cell, measured at once -> their records; None where that cannot be done.
    """

    split: Callable[[Cell, Graphs], list[Cell]]
    join: Callable[[Cell, Sequence[Record]], Record]
    together: Callable[[Sequence[Cell], Graphs, OnEpoch], list[Record] | None] = lambda parts, graphs, on_epoch: None


KINDS: dict[str, Measure] = {}
"""Kind -> function that measures one cell."""

PARTS: dict[str, Parts] = {}
"""Kind -> how its cells fall into parts; kinds that are not here are measured whole."""
