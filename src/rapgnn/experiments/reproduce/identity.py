"""Appendix D.1: identity weights beside the random ones. Its cells are those of table 1, and identity weights'."""

from rapgnn.experiments.reproduce.item import Item
from rapgnn.experiments.reproduce.rows import cells_of, strategies
from rapgnn.experiments.reproduce.table1 import PLANETOID
from rapgnn.experiments.reproduce.tables import SETTINGS, below, show_cuts, show_datasets, spread
from rapgnn.experiments.run import Record

ROWS = strategies("weights", ("end-to-end", "identity", "fixed-diagonal", "fixed-full", "random-full", "rap"))


def show(records: list[Record]) -> str:
    """A table for each graph."""
    return below(
        show_datasets(records, ROWS, PLANETOID),
        f"{SETTINGS} {spread(records)}",
        show_cuts(records, "2 seeds instead of 5"),
    )


ITEM = Item(
    "identity",
    "Appendix D.1: identity weights",
    lambda scale, graphs: cells_of(ROWS, PLANETOID, scale, graphs),
    show,
)
