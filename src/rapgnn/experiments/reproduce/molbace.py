"""Appendix D.5: the training strategies on molbace."""

from rapgnn.experiments.reproduce.item import Item
from rapgnn.experiments.reproduce.rows import cells_of
from rapgnn.experiments.reproduce.table3 import ROWS
from rapgnn.experiments.reproduce.tables import SHARED, show_seeds

MOLBACE = ("molbace",)
ITEM = Item(
    "molbace",
    "Appendix D.5: training strategies on molbace",
    lambda scale, graphs: cells_of(ROWS, MOLBACE, scale, graphs),
    lambda records: show_seeds(records, ROWS, MOLBACE, SHARED),
)
