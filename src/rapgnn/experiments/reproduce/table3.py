"""Table 3: the training strategies on three of OGB's sets of molecules."""

from rapgnn.experiments.reproduce.item import Item
from rapgnn.experiments.reproduce.rows import ANOTHER_DRAW, EXACT, METHODS_OF_TABLES, NOTHING_SET, cells_of, strategies
from rapgnn.experiments.reproduce.tables import SHARED, show_seeds

MOLECULES = ("molesol", "moltox21", "molhiv")
ROWS = (*strategies("molecules", METHODS_OF_TABLES), ANOTHER_DRAW, EXACT, NOTHING_SET)
ITEM = Item(
    "table3",
    "Table 3: training strategies on OGB's molecules",
    lambda scale, graphs: cells_of(ROWS, MOLECULES, scale, graphs),
    lambda records: show_seeds(records, ROWS, MOLECULES, SHARED),
)
