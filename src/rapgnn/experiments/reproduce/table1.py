"""Table 1: the training strategies on Cora, CiteSeer and PubMed."""

from rapgnn.experiments.reproduce.item import Item
from rapgnn.experiments.reproduce.rows import EXACT, FULL_UNIFORM, METHODS_OF_TABLES, cells_of, strategies
from rapgnn.experiments.reproduce.tables import show_seeds
from rapgnn.experiments.run import Record

PLANETOID = ("cora", "citeseer", "pubmed")
ROWS = (*strategies("planetoid", METHODS_OF_TABLES), EXACT, *FULL_UNIFORM)


def show(records: list[Record]) -> str:
    """A table for each graph."""
    return show_seeds(
        records,
        ROWS,
        PLANETOID,
        "RAP-GNN with the faithful settings predicts by one fresh draw of the weights, as in the paper; the exact "
        "expectation over all draws, with the same settings, has a row of its own. The paper does not say what full "
        "random weights are drawn from: the faithful rows choose between two signed distributions, U[0, 1] has rows "
        "of its own.",
    )


ITEM = Item(
    "table1",
    "Table 1: training strategies on the citation graphs",
    lambda scale, graphs: cells_of(ROWS, PLANETOID, scale, graphs),
    show,
)
