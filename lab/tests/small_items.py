"""Items on a generated graph, measured in a moment."""

from dataclasses import replace
from pathlib import Path

from rapgnn import Config, Graph, InputError
from rapgnn.search.start import start_config, usual_embedding
from rapgnn_lab.baselines.systems import METHODS as DESCRIBED
from rapgnn_lab.paper.accuracy import accuracy_cell
from rapgnn_lab.paper.cells import KINDS, PARTS, Cell, Graphs, Item, Scale, open_store
from rapgnn_lab.paper.run import Reproduced, reproduce
from rapgnn_lab.results import format_figure, format_table
from rapgnn_lab.tune.space import VARIANTS
from samples import collection

TINY = "sbm:nodes=120,train=5,val=20,test=20"
SMALL = Config(num_layers=2, hidden_channels=8, epochs=10, pretrain_epochs=5)
METHODS = ("rap", "end-to-end", "fixed-diagonal", "random-full")
QUICK = Scale(
    quick=True, caps={"stored": 8, "pretrained": 3, "walked": 4, "batched": 4}
)  # even fewer epochs than a quick run has


def small_item(name: str = "meadow", methods: tuple[str, ...] = METHODS, seeds: int = 2, **settings) -> Item:
    """The methods over so many seeds, one fewer in a quick run."""
    config = SMALL.update(**settings)

    def cells(scale: Scale, graphs: Graphs):
        count = range(seeds - scale.quick)
        return [accuracy_cell(TINY, m, config, count, {"title": m, "column": name}) for m in methods]

    def show(records) -> str:
        return format_table(["", name], [[r["title"], format_figure(r)] for r in records])

    return Item(name, f"The {name}", cells, show)


class Given(Graphs):
    """One graph that is there already, under a name."""

    def __init__(self, graph: Graph, name: str = "given"):
        super().__init__()
        self._loaded[name] = graph


def whole(cell: Cell, graphs: Graphs) -> dict:
    """The record of a cell without a store, its parts measured one by one."""
    if cell.kind not in PARTS:
        return KINDS[cell.kind](cell, graphs, None)
    kind = PARTS[cell.kind]
    return kind.join(cell, [whole(part, graphs) for part in kind.split(cell, graphs)])


class Stand(Graphs):
    """Small graphs under the names of the paper's datasets."""

    def get(self, name: str) -> Graph:
        if name not in self._loaded:
            kind = {"molesol": "regression", "moltox21": "multilabel", "molhiv": "multilabel", "molbace": "multilabel"}
            many = name in (*kind, "mutag", "ptc", "proteins")
            graph = collection(kind.get(name, "classification"), graphs=60) if many else super().get(TINY)
            self._loaded[name] = replace(graph, name=name, folds=many and name not in kind)
        return self._loaded[name]


def small_config(graph: Graph, method: str, column: str, embedding: str | None = None, own: bool = False) -> Config:
    """In place of what searches chose: settings that train in a moment; MUTAG was not searched."""
    if graph.name == "mutag":
        raise InputError("nothing was searched.")
    start = start_config(graph, DESCRIBED[method].trained)
    usual = "pretrained" if DESCRIBED[method].trained else usual_embedding(graph)
    sizes = {"num_layers": 2, "hidden_channels": 8, "epochs": 500, "pretrain_epochs": 300, "head": "linear"}
    rate = 0.02 if column == "best" else 0.03 if own else 0.01
    return start.update(lr=rate, **sizes, **VARIANTS.get(embedding or "", {"embedding": embedding or usual}))


def run_in(out: Path, *items: Item, quick: bool = False, **options) -> Reproduced:
    """Measure items into a folder, as a new process would."""
    return reproduce(items, Scale(quick), Graphs(), open_store(out, **options))


def scores(run: Reproduced) -> dict[str, list[list[float]]]:
    """What does not depend on the clock."""
    return {name: [r["values"] for r in records] for name, records in run.records.items()}
