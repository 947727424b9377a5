"""Appendix D.2: RAP-GNN with five embeddings, and end-to-end training."""

from rapgnn.experiments.markdown import format_ms, format_table
from rapgnn.experiments.reproduce.item import Item
from rapgnn.experiments.reproduce.rows import FAITHFUL, LINEAR, Row, cells_of, strategies
from rapgnn.experiments.reproduce.table1 import PLANETOID
from rapgnn.experiments.reproduce.tables import DATASETS, NOT_SEARCHED, show_seeds
from rapgnn.experiments.run import Record
from rapgnn.experiments.tune.faithful import VARIANTS

TITLES = {
    "identity": "identity",
    "fixed-random": "fixed random",
    "random": "random in every forward pass",
    "learnable": "learnable",
    "pretrained": "pretrained (RAP-GNN)",
}
# One linear map and linear layers: the map may come after the hops, which are walked once.
_LINEAR: Record = VARIANTS["learnable-linear"] | {"pretrain_dropout": 0.0}
LEARNABLE_LINEAR = Row("learnable, linear", "rap", LINEAR, _LINEAR, "learnable-linear")
ROWS = (
    *strategies("embeddings", ("end-to-end",)),
    *(
        Row(title, "rap", embedding=name, published={"table": "embeddings", "embedding": name})
        for name, title in TITLES.items()
    ),
    LEARNABLE_LINEAR,
)
TIMED = (TITLES["learnable"], LEARNABLE_LINEAR.title, TITLES["pretrained"])
ENGINES = {"polynomial": "shortcut", "stepwise": "layer by layer"}


def show(records: list[Record]) -> str:
    """A table for each graph, and one of times."""
    return show_seeds(
        records,
        ROWS,
        PLANETOID,
        _times(records),
        "learnable, linear: one linear map without a ReLU before linear layers, so that the map may come after the "
        "hops of the raw features, which are then walked once; that is done where it is less work. The paper has no "
        "such row; its learnable embedding is trained through the layers.",
    )


def _times(records: list[Record]) -> str:
    """What training an embedding together with the head costs."""
    found = {(r["title"], r["dataset"]): r for r in records if r["column"] in (FAITHFUL, LINEAR)}
    body = [[title, *(_time(found.get((title, dataset))) for dataset in PLANETOID)] for title in TIMED]
    return "Training, ms per epoch, faithful settings:\n\n" + format_table(
        ["", *(DATASETS[dataset] for dataset in PLANETOID)], body
    )


def _time(record: Record | None) -> str:
    if record is None:
        return NOT_SEARCHED
    return f"{format_ms(record['train_ms_per_epoch'])}, {ENGINES[record['engine']]}"


ITEM = Item(
    "embeddings",
    "Appendix D.2: the embedding before the random layers",
    lambda scale, graphs: cells_of(ROWS, PLANETOID, scale, graphs),
    show,
)
