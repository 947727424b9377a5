"""All items, in the order of the paper: its tables, the appendix, what goes past it, its figures.

The items here are tables of accuracies: rows on datasets, with notes below them.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rapgnn.compare import Record
from rapgnn.errors import InputError
from rapgnn.files import is_regular
from rapgnn_lab.paper import layers, rows, timed
from rapgnn_lab.paper.accuracy import ESTIMATOR
from rapgnn_lab.paper.cells import Cell, Graphs, Item, Scale
from rapgnn_lab.results import NONE, format_ms, format_table, one_published, title_of
from rapgnn_lab.store import read_records
from rapgnn_lab.tune.space import VARIANTS

FOLDS_CUT = "the first 2 of 10 folds are held out, the others only train"
_ANOTHER: Record = {"inference": "sample", "keep_draw": False}
_UNIFORM: Record = {"distribution": "uniform", "params": (0.0, 1.0)}
ANOTHER_DRAW = rows.Row("RAP-GNN, another draw", "rap", rows.ANOTHER, _ANOTHER)
EXACT = rows.Row("RAP-GNN, exact expectation", "rap", rows.EXPECTATION, {"inference": "expected"})


def _seeds_item(name: str, title: str, lines: Sequence[rows.Row], datasets: Sequence[str], *notes: str) -> Item:
    """A table of datasets with a fixed split; ``notes`` are names in ``notes.toml``."""
    return Item(
        name,
        title,
        lambda scale, graphs: rows.cells_of(lines, datasets, scale, graphs),
        lambda records: rows.show_seeds(records, lines, datasets, *map(rows.note, notes)),
    )


TABLE1 = _seeds_item(
    "table1",
    "Table 1: training strategies on the citation graphs",
    (
        *rows.strategies("planetoid", rows.METHODS_OF_TABLES),
        ANOTHER_DRAW,
        EXACT,
        rows.Row("RAP-GNN, MLP as the embedding", "rap", rows.OF_MLP, embedding="pretrained"),
        rows.Row("Pretrained Embedding, GNN layer", "pretrained-embedding", rows.OF_LAYER, embedding="pretrained-gnn"),
        rows.NOTHING_SET,
        rows.Row("Random Weights, another draw", "random-full", rows.ANOTHER, _ANOTHER),
        *rows.own_searches("fixed-diagonal", "fixed-full", "random-full"),
        rows.Row("Fixed Random Weights, U[0, 1]", "fixed-full", rows.UNIFORM, _UNIFORM),
        rows.Row("Random Weights, U[0, 1]", "random-full", rows.UNIFORM, _UNIFORM),
    ),
    rows.PLANETOID,
    "embedding-kinds",
    "draws",
    "shared",
    "own-search",
)
_ON_MOLECULES = (*rows.strategies("molecules", rows.METHODS_OF_TABLES), ANOTHER_DRAW, EXACT, rows.NOTHING_SET)
TABLE3 = _seeds_item(
    "table3", "Table 3: training strategies on OGB's molecules", _ON_MOLECULES, rows.MOLECULES, "shared"
)
MOLBACE_ITEM = _seeds_item(
    "molbace", "Appendix D.5: training strategies on molbace", _ON_MOLECULES, rows.MOLBACE, "shared"
)
_OF_WEIGHTS = ("end-to-end", "identity", "fixed-diagonal", "fixed-full", "random-full", "rap")
IDENTITY = _seeds_item(
    "identity",
    "Appendix D.1: identity weights",
    (*rows.strategies("weights", _OF_WEIGHTS), *rows.own_searches("identity")),
    rows.PLANETOID,
    "shared",
)

# Table 2: the reservoir systems, then the paper's architecture, then the best there is. The best settings may have
# other architectures than the paper's: rows of their own, not to be read against it.
_ON_FOLDS = (
    *rows.strategies("tu", tuple(rows.RESERVOIRS), both=tuple(rows.RESERVOIRS)),
    *rows.strategies("tu", rows.METHODS_OF_TABLES, both=rows.WITH_BEST),
    EXACT,
)
_BEST_ON_FOLDS = tuple(
    rows.Row(f"{row.title}, best", row.method, rows.BEST, protocol=row.protocol)
    for row in _ON_FOLDS
    if rows.BEST in row.columns((rows.BEST,))
)


def _cells_on_folds(scale: Scale, graphs: Graphs) -> list[Cell]:
    return rows.cells_of((*_ON_FOLDS, *_BEST_ON_FOLDS), rows.TU, scale, graphs, [rows.FAITHFUL])


def _show_folds(records: list[Record]) -> str:
    there = {r["title"] for r in records}
    best = [row for row in _BEST_ON_FOLDS if row.title in there]
    return rows.below(
        rows.show_datasets(records, (*_ON_FOLDS, *best), rows.TU, ("accuracy", "strict", "paper", "difference")),
        rows.note("folds", spread=rows.spread(records)),
        rows.note("best-on-folds"),
        rows.note("shared"),
        rows.note("reservoirs", systems=", ".join(rows.RESERVOIRS.values())),
        rows.show_cuts(records, FOLDS_CUT),
    )


TABLE2 = Item(
    "table2", "Table 2: training strategies and reservoir systems on TU's graphs", _cells_on_folds, _show_folds
)

# Appendix D.4: RAP-GNN on PROTEINS by the number of graphs that share one draw of the weights.
_BATCHES = tuple(
    rows.Row(
        f"batches of {size:,}", "rap", changes={"batch_size": size}, published={"table": "batches", "batch_size": size}
    )
    for size in (256, 512, 1024)
)
BATCHES = Item(
    "batches",
    "Appendix D.4: RAP-GNN by batch size",
    lambda scale, graphs: rows.cells_of(_BATCHES, ("proteins",), scale, graphs, [rows.FAITHFUL]),
    lambda records: rows.below(
        rows.show_datasets(records, _BATCHES, ("proteins",), ("accuracy", "paper", "difference")),
        rows.note("batches", spread=rows.spread(records)),
        rows.show_cuts(records, FOLDS_CUT),
    ),
)

# Appendix D.2: RAP-GNN with five embeddings, and end-to-end training.
EMBEDDING_TITLES = {
    "identity": "identity",
    "fixed-random": "fixed random",
    "random": "random in every forward pass",
    "learnable": "learnable",
    "pretrained": "pretrained (RAP-GNN)",
}
# One linear map and linear layers: the map may come after the hops, which are walked once.
_LINEAR: Record = VARIANTS["learnable-linear"] | {"pretrain_dropout": 0.0}
_LEARNABLE_LINEAR = rows.Row("learnable, linear", "rap", rows.LINEAR, _LINEAR, "learnable-linear")
_OF_EMBEDDINGS = (
    *rows.strategies("embeddings", ("end-to-end",)),
    *(
        rows.Row(title, "rap", embedding=name, published={"table": "embeddings", "embedding": name})
        for name, title in EMBEDDING_TITLES.items()
    ),
    _LEARNABLE_LINEAR,
)
ENGINES = {"polynomial": "shortcut", "stepwise": "layer by layer"}


def _show_embeddings(records: list[Record]) -> str:
    """A table for each graph, and one of what training an embedding together with the head costs."""
    trained = {(r["title"], r["dataset"]): r for r in records if r["column"] in (rows.FAITHFUL, rows.LINEAR)}
    titles = (EMBEDDING_TITLES["learnable"], _LEARNABLE_LINEAR.title, EMBEDDING_TITLES["pretrained"])
    body = [[title, *(_time(trained.get((title, dataset))) for dataset in rows.PLANETOID)] for title in titles]
    return rows.show_seeds(
        records,
        _OF_EMBEDDINGS,
        rows.PLANETOID,
        "Training, ms per epoch, faithful settings:\n\n" + format_table(["", *map(title_of, rows.PLANETOID)], body),
        rows.note("learnable-linear"),
    )


def _time(record: Record | None) -> str:
    if record is None:
        return rows.NOT_SEARCHED
    return f"{format_ms(record['train_ms_per_epoch'])}, {ENGINES[record['engine']]}"


EMBEDDINGS = Item(
    "embeddings",
    "Appendix D.2: the embedding before the random layers",
    lambda scale, graphs: rows.cells_of(_OF_EMBEDDINGS, rows.PLANETOID, scale, graphs),
    _show_embeddings,
)

# Past the paper: the estimators with nothing set beside RAP-GNN and End-to-End, on folds by the strict protocol too.
_BESIDE = ("end-to-end", "rap")
_ALL = {"planetoid": rows.PLANETOID, "tu": rows.TU, "molecules": (*rows.MOLECULES, *rows.MOLBACE)}


def _cells_beside(scale: Scale, graphs: Graphs) -> list[Cell]:
    """The estimator, then the trainings that the other tables have as well."""
    ours, cells = replace(rows.NOTHING_SET, column="nothing set"), []
    for table, datasets in _ALL.items():
        beside = rows.strategies(table, _BESIDE, both=_BESIDE if table == "tu" else ())
        cells += rows.cells_of((ours, *beside), datasets, scale, graphs, [rows.FAITHFUL])
    return cells


def _show_estimators(records: list[Record]) -> str:
    """One table, a dataset in a row."""
    body = []
    for table, dataset in ((table, dataset) for table, datasets in _ALL.items() for dataset in datasets):
        mine = {r["method"]: _strict(r) for r in records if r["dataset"] == dataset}
        ours, others = mine.get(ESTIMATOR), [mine.get(method) for method in _BESIDE]
        if ours is None:
            continue
        body.append(
            [
                title_of(dataset),
                rows.UNITS[ours["metric"]].partition(",")[0],
                f"**{rows.figure(ours)}**",
                *(NONE if other is None else rows.figure(other) for other in others),
                rows.published(one_published(table=table, dataset=dataset, method="rap")),
                _gap(ours, others[0]),
                f"{ours['fit_seconds']:.1f}",
            ]
        )
    header = ["", "metric", "nothing set", "End-to-End", "RAP-GNN", "paper's RAP-GNN", "difference", "fit, s"]
    return rows.below(
        format_table(header, body),
        rows.note("nothing-set"),
        rows.note("estimators-on-folds"),
        rows.show_cuts(records, "2 seeds instead of 5, 1 of the estimators, 2 of 10 folds"),
    )


def _strict(record: Record) -> Record:
    """The strict figures of a record in the place of the others, where it has them."""
    return record | {k.removeprefix("strict_"): value for k, value in record.items() if k.startswith("strict_")}


def _gap(ours: Record, other: Record | None) -> str:
    if other is None or other["mean"] is None:
        return NONE
    gap = ours["mean"] - other["mean"]
    return f"{gap:+.3f}" if ours["metric"] == "rmse" else f"{100 * gap:+.1f}"


ESTIMATORS = Item(
    "estimators", "Past the paper: estimators with nothing set on its ten datasets", _cells_beside, _show_estimators
)

_TABLES = (TABLE1, TABLE2, TABLE3, timed.LARGE, IDENTITY, EMBEDDINGS, BATCHES, MOLBACE_ITEM, ESTIMATORS)
_FIGURES = (timed.DEPTH, timed.MEMORY, layers.COLLAPSE, layers.WEIGHTS)
ITEMS: dict[str, Item] = {item.name: item for item in (*_TABLES, *_FIGURES)}
"""The items by name."""
Measured = dict[str, list[Record]]
"""The records of the items that are there, by name."""


def read_measured(folder: Path) -> Measured:
    """All that a folder of ``rapgnn reproduce --out`` holds; an item without a file is not there."""
    if not folder.is_dir():
        raise InputError(
            f"there is no folder {folder}: measure with rapgnn reproduce --out {folder}, or name another --results."
        )
    measured: Measured = {}
    for name, path in {name: folder / f"{name}.json" for name in ITEMS}.items():
        records = read_records(path) if is_regular(path) else []
        measured |= {name: records} if records else {}
    return measured
