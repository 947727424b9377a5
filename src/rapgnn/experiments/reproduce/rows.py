"""Rows of the tables of accuracies, and the cells that fill them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rapgnn.errors import InputError
from rapgnn.experiments.published import Published, one_published
from rapgnn.experiments.reproduce.accuracy import accuracy_cell
from rapgnn.experiments.reproduce.cells import Cell
from rapgnn.experiments.reproduce.item import Graphs, Scale
from rapgnn.experiments.reproduce.nothing_set import ESTIMATOR, estimator_cell
from rapgnn.experiments.reproduce.quick import cut, keep_every, signed
from rapgnn.experiments.run import Record
from rapgnn.experiments.tuned import chosen_config
from rapgnn.graph.graph import Graph
from rapgnn.models.config import Config
from rapgnn.training.methods import METHODS

FAITHFUL, BEST, EXPECTATION, ANOTHER, UNIFORM, LINEAR, OWN = (
    "faithful",
    "best",
    "expectation",
    "another draw",
    "uniform",
    "linear",
    "own search",
)
FOLD_SEEDS = (0,)
WITH_BEST = ("rap", "end-to-end")  # what is compared; the other strategies explain it, in the paper's settings


@dataclass(frozen=True)
class Row:
    """A row: a method, and what is particular about its settings.

    Args:
        title: in the table.
        column: None: a cell with the faithful settings, and one with the best where the method has them. A name: one
            cell, of the faithful settings and ``changes``, with this name for its column in the records.
        changes: settings beside those that were chosen.
        embedding: None takes the paper's.
        published: which figures of the paper are this row's, fields of ``Published`` beside the method and the dataset;
            None: the paper has no such row.
        protocol: of a dataset with folds.
    """

    title: str
    method: str
    column: str | None = None
    changes: Record = field(default_factory=dict)
    embedding: str | None = None
    published: Record | None = None
    protocol: str = "paper"

    def columns(self, asked: Sequence[str]) -> tuple[str, ...]:
        """Those of the asked columns that it has a cell in."""
        if self.column is not None:
            return (self.column,)
        return tuple(column for column in asked if column != BEST or self.method in WITH_BEST)

    def paper(self, dataset: str) -> Published | None:
        """The paper's figure."""
        if self.published is None:
            return None
        return one_published(**{"dataset": dataset, "method": self.method} | self.published)


def strategies(table: str, methods: Sequence[str], protocols: Record | None = None) -> tuple[Row, ...]:
    """The rows of a table of training methods, in its order.

    Args:
        table: of the paper, a name in ``published.TABLES``.
        protocols: of methods on datasets with folds, where it is not the paper's alone.
    """
    others = protocols or {}
    published = {"table": table}
    return tuple(Row(METHODS[m].title, m, published=published, protocol=others.get(m, "paper")) for m in methods)


METHODS_OF_TABLES = ("pretrained-embedding", "end-to-end", "fixed-diagonal", "fixed-full", "random-full", "rap")
_ANOTHER: Record = {"inference": "sample", "keep_draw": False}
ANOTHER_DRAW = Row("RAP-GNN, another draw", "rap", ANOTHER, _ANOTHER)
FULL_ANOTHER_DRAW = Row("Random Weights, another draw", "random-full", ANOTHER, _ANOTHER)
EXACT = Row("RAP-GNN, exact expectation", "rap", EXPECTATION, {"inference": "expected"})
_UNIFORM: Record = {"distribution": "uniform", "params": (0.0, 1.0)}
FULL_UNIFORM = (
    Row("Fixed Random Weights, U[0, 1]", "fixed-full", UNIFORM, _UNIFORM),
    Row("Random Weights, U[0, 1]", "random-full", UNIFORM, _UNIFORM),
)


NOTHING_SET = Row("estimator, nothing set", ESTIMATOR, BEST)
"""What the library chooses by itself among random networks and averages of them."""


def own_searches(methods: Sequence[str]) -> tuple[Row, ...]:
    """Rows of methods with the settings of their own search instead of RAP-GNN's."""
    return tuple(Row(f"{METHODS[m].title}, {OWN}", m, OWN) for m in methods)


def cells_of(
    rows: Sequence[Row],
    datasets: Sequence[str],
    scale: Scale,
    graphs: Graphs,
    columns: Sequence[str] = (FAITHFUL, BEST),
) -> list[Cell]:
    """The cells of these rows on these datasets; none where no settings were searched."""
    cells = []
    for dataset in datasets:
        graph = graphs.get(dataset)
        for row in rows:
            if row.method == ESTIMATOR:
                cells.append(untuned_cell(graph, scale, {"column": BEST, "title": row.title}))
                continue
            for column in row.columns(columns):
                config = settings(graph, row, column)
                if config is not None:
                    cells.append(_cell(graph, row, column, config, scale))
    return cells


def settings(graph: Graph, row: Row, column: str) -> Config | None:
    """What a row is trained with; None where nothing was searched, or there is no such model."""
    if METHODS[row.method].reservoir:
        return Config()  # its settings are its own paper's
    searched = BEST if column == BEST else FAITHFUL
    try:
        config = chosen_config(graph, row.method, searched, row.embedding, column == OWN)
    except InputError:
        return None
    if row.method == "rap" and (column == FAITHFUL or (column == BEST and config.inference == "sample")):
        config = config.update(inference="sample", keep_draw=True)  # the draw that was best on validation
    config = config.update(**row.changes)
    return None if column == EXPECTATION and signed(config) else config


def untuned_cell(graph: Graph, scale: Scale, labels: Record) -> Cell:
    """The estimator with nothing set on a dataset, by the strict protocol where it has folds."""
    every = keep_every(graph, scale)
    if every > 1:
        labels = labels | {"cut": f"every {every}th graph of training and validation"}
    if graph.folds:
        return estimator_cell(graph.name, FOLD_SEEDS, labels, scale.folds)
    return estimator_cell(graph.name, scale.seeds[:1] if scale.quick else scale.seeds, labels, every=every)


def _cell(graph: Graph, row: Row, column: str, config: Config, scale: Scale) -> Cell:
    config, said = cut(graph, row.method, config, scale)
    labels: Record = {"column": column, "title": row.title}
    if said:
        labels["cut"] = said
    paper = row.paper(graph.name)
    if paper is not None and paper.mean is not None and paper.std is not None:
        factor = 1 if paper.metric == "rmse" else 100
        labels |= {"paper_mean": paper.mean / factor, "paper_std": paper.std / factor}
    if graph.folds:
        return accuracy_cell(graph.name, row.method, config, FOLD_SEEDS, labels, row.protocol, scale.folds)
    every = keep_every(graph, scale)
    return accuracy_cell(graph.name, row.method, config, scale.seeds, labels, every=every)
