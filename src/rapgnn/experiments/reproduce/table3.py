"""Table 3: the training strategies on three of OGB's sets of molecules."""

from collections.abc import Sequence

from rapgnn.experiments.reproduce.item import Item
from rapgnn.experiments.reproduce.rows import EXACT, METHODS_OF_TABLES, cells_of, strategies
from rapgnn.experiments.reproduce.tables import SETTINGS, below, show_cuts, show_datasets, spread
from rapgnn.experiments.run import Record

MOLECULES = ("molesol", "moltox21", "molhiv")
ROWS = (*strategies("molecules", METHODS_OF_TABLES), EXACT)


def show_molecules(records: Sequence[Record], datasets: Sequence[str]) -> str:
    """A table for each set."""
    return below(
        show_datasets(records, ROWS, datasets),
        f"{SETTINGS} {spread(records)}",
        show_cuts(records, "2 seeds instead of 5"),
    )


ITEM = Item(
    "table3",
    "Table 3: training strategies on OGB's molecules",
    lambda scale, graphs: cells_of(ROWS, MOLECULES, scale, graphs),
    lambda records: show_molecules(records, MOLECULES),
)
