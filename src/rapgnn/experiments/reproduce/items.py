"""All items, in the order of the paper: its tables, the appendix, what goes past it, its figures."""

from rapgnn.experiments.reproduce import (
    batches,
    embeddings,
    estimators,
    identity,
    large,
    molbace,
    table1,
    table2,
    table3,
)
from rapgnn.experiments.reproduce.figures import collapse, depth, memory, trained_weights
from rapgnn.experiments.reproduce.item import Item

_TABLES = (table1, table2, table3, large, identity, embeddings, batches, molbace, estimators)
_FIGURES = (depth, memory, collapse, trained_weights)
ITEMS: dict[str, Item] = {module.ITEM.name: module.ITEM for module in (*_TABLES, *_FIGURES)}
"""The items by name."""
