"""Appendix D.4: RAP-GNN on PROTEINS by the number of graphs that share one draw of the weights."""

from rapgnn.experiments.reproduce.item import Item
from rapgnn.experiments.reproduce.rows import FAITHFUL, Row, cells_of
from rapgnn.experiments.reproduce.tables import DIFFERENCE, OURS, PAPER, Column, below, show_cuts, show_datasets, spread
from rapgnn.experiments.run import Record

SIZES = (256, 512, 1024)
ROWS = tuple(
    Row(f"batches of {size:,}", "rap", changes={"batch_size": size}, published={"table": "batches", "batch_size": size})
    for size in SIZES
)
COLUMNS = (Column("accuracy", OURS.cell), PAPER, DIFFERENCE)


def show(records: list[Record]) -> str:
    """One table."""
    return below(
        show_datasets(records, ROWS, ("proteins",), COLUMNS),
        f"The settings of RAP-GNN in table 2 with other batches; the paper's protocol. {spread(records)} "
        "difference: ours minus paper. A batch of 1,024 is the whole training set of a fold, 1,002 graphs at most.",
        show_cuts(records, "the first 2 of 10 folds are held out, the others only train"),
    )


ITEM = Item(
    "batches",
    "Appendix D.4: RAP-GNN by batch size",
    lambda scale, graphs: cells_of(ROWS, ("proteins",), scale, graphs, [FAITHFUL]),
    show,
)
