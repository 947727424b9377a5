"""The numbers the paper prints, read from ``published.json``.

Accuracy and ROC-AUC are in percent, as printed; RMSE is as it is. A cell without a number has no mean and a note
that says why ("OOM", "N/A").
"""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from rapgnn.errors import InputError, check_choice

# The tables, and the labels of the paper's source they were taken from.
TABLES = {
    "planetoid": ("tab:GNN_weights_new",),  # the methods on Cora, CiteSeer and PubMed
    "weights": ("tab:GNN_weights_variants",),  # the same with identity weights
    "embeddings": ("tab:pretrain",),
    "tu": ("tab:node",),  # with four reservoir systems
    "molecules": ("tab:no_molbace", "tab:molbace"),
    "ogbn": ("tab:ogbn-products",),  # both large graphs, GCN
    "ogbn-proteins": ("tab:ogbn_proteins",),  # with times
    "ogbn-products": ("tab:ogbn-products-full",),  # with times, GCN and GraphSAGE
    "batches": ("tab:batchsize_effect",),
    "costs": ("sec:efficiency", "app:largegraphs_class"),  # numbers of the text; the figures print none
}


@dataclass(frozen=True)
class Published:
    """One cell of one table.

    Args:
        method: a name from ``METHODS``.
        metric: as in the records of ``rapgnn.experiments.run``; ``train_ms_saved`` and ``memory_saving_vs_end_to_end``
            are the paper's words for what it saves.
        embedding, backbone, batch_size, num_layers: where the table varies them.
        note: why there is no number, or what else is to be said.
    """

    table: str
    dataset: str
    method: str
    metric: str
    mean: float | None
    std: float | None
    embedding: str | None = None
    backbone: str | None = None
    batch_size: int | None = None
    num_layers: int | None = None
    note: str | None = None


@cache
def published() -> tuple[Published, ...]:
    """Every published number."""
    text = files("rapgnn.experiments").joinpath("published.json").read_text(encoding="utf-8")
    return tuple(Published(**record) for record in json.loads(text))


def find_published(table: str, **fields: Any) -> list[Published]:
    """The cells of a table whose fields are these, in the paper's order."""
    check_choice("table", table, TABLES)
    for name in fields:
        check_choice("field", name, Published.__dataclass_fields__)
    return [p for p in published() if p.table == table and all(getattr(p, k) == v for k, v in fields.items())]


def one_published(table: str, **fields: Any) -> Published:
    """The one cell whose fields are these."""
    found = find_published(table, **fields)
    if len(found) != 1:
        asked = ", ".join(f"{name}={value!r}" for name, value in fields.items())
        raise InputError(f"the paper's table {table} has {len(found)} cells with {asked or 'no field named'}, not one.")
    return found[0]
