"""Appendix D.1: identity weights beside the random ones. Its cells are those of table 1, and identity weights'."""

from rapgnn.experiments.reproduce.item import Item
from rapgnn.experiments.reproduce.rows import cells_of, own_searches, strategies
from rapgnn.experiments.reproduce.table1 import PLANETOID
from rapgnn.experiments.reproduce.tables import SHARED, show_seeds

ROWS = (
    *strategies("weights", ("end-to-end", "identity", "fixed-diagonal", "fixed-full", "random-full", "rap")),
    *own_searches(("identity",)),
)
ITEM = Item(
    "identity",
    "Appendix D.1: identity weights",
    lambda scale, graphs: cells_of(ROWS, PLANETOID, scale, graphs),
    lambda records: show_seeds(records, ROWS, PLANETOID, SHARED),
)
