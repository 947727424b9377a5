"""Figure 4 and Section 3.2: rank and variance of the features after every layer of a deep GCN on PubMed.

The kind "layer" is one layer of a cell of the kind "collapse" (``by_layer``), which is measured and stored once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from rapgnn.experiments.markdown import NONE, format_table
from rapgnn.experiments.reproduce.cells import Cell
from rapgnn.experiments.reproduce.figures.by_layer import FIGURES, measure_collapse
from rapgnn.experiments.reproduce.figures.layer_plots import plot_collapse
from rapgnn.experiments.reproduce.item import Graphs, Item, Scale
from rapgnn.experiments.reproduce.kinds import KINDS, PARTS, Parts
from rapgnn.experiments.reproduce.tables import below
from rapgnn.experiments.run import OnEpoch, Record
from rapgnn.models.config import Config
from rapgnn.training.methods import METHODS

DATASET, SEED = "pubmed", 0
LAYERS, CHANNELS, QUICK_CHANNELS = 64, 256, 32
QUICK_LAYERS = (0, 1, 2, 4, 8, 16, 32, 64)
EPOCHS, QUICK_EPOCHS = 1000, 30  # of end-to-end training
SHOWN = (0, 1, 4, 16, 64)
# Fixed, inside the paper's ranges, and not searched; full matrices as the frameworks start them.
SETTINGS = Config(rescale=False, embedding_layers=1, lr=0.01, dropout=0.0, weight_decay=5e-4)
GLOROT: Record = {"structure": "full", "distribution": "glorot"}
VERSION = 1


@dataclass(frozen=True)
class Strategy:
    """A line of the figure.

    Args:
        title: for people.
        base_method: the training method it is.
        settings: what is particular about its weights.
        start: what the start values of trained layers are multiplied by.
    """

    title: str
    base_method: str
    settings: Record = field(default_factory=dict)
    start: float = 1.0


def _method(name: str, **settings: object) -> Strategy:
    return Strategy(METHODS[name].title, name, settings)


STRATEGIES = {
    "end-to-end": _method("end-to-end"),
    "end-to-end-small": Strategy("End-to-End, small start values", "end-to-end", start=LAYERS**-0.5),
    "rap": _method("rap"),
    "fixed-diagonal": _method("fixed-diagonal"),
    "fixed-full": _method("fixed-full", **GLOROT),
    "random-full": _method("random-full", **GLOROT),
    "random-full-uniform": Strategy("Random Weights, U[0, 1]", "random-full"),
    "identity": _method("identity"),
}
"""The lines of the figure. Full matrices are Glorot's; the paper's Observation 1 has U[0, 1].

With Glorot's start values so deep a network hardly learns; divided by √L they let it.
"""


TRAINED = tuple(name for name, strategy in STRATEGIES.items() if METHODS[strategy.base_method].trained)


def strategy_cell(name: str, scale: Scale) -> Cell:
    """The cell of the kind "collapse" that all layers of a strategy are taken from."""
    chosen = STRATEGIES[name]
    sizes = {"num_layers": LAYERS, "hidden_channels": QUICK_CHANNELS if scale.quick else CHANNELS}
    config = SETTINGS.update(**sizes, epochs=QUICK_EPOCHS if scale.quick else EPOCHS, **chosen.settings)
    layers = QUICK_LAYERS if scale.quick else range(LAYERS + 1)
    spec = {"method": name, "base_method": chosen.base_method, "config": config.to_dict(), "seed": SEED}
    spec |= {"start": chosen.start} if METHODS[chosen.base_method].trained else {}
    return Cell("collapse", DATASET, spec | {"layers": list(layers), "version": VERSION})


def part_of(whole: Cell, kind: str, layer: int, labels: Record) -> Cell:
    """One layer of a strategy, as a cell of its own."""
    return Cell(kind, whole.dataset, whole.spec | {"layer": layer}, labels)


def whole_of(part: Cell, graphs: Graphs) -> list[Cell]:
    """The strategy that a layer is of."""
    return [Cell("collapse", part.dataset, {k: v for k, v in part.spec.items() if k != "layer"})]


def cells(scale: Scale, graphs: Graphs) -> list[Cell]:
    """Every layer of every strategy."""
    found = []
    for name, chosen in STRATEGIES.items():
        whole = strategy_cell(name, scale)
        labels = {"title": chosen.title}
        found += [part_of(whole, "layer", layer, labels) for layer in whole.spec["layers"]]
    return found


def join(cell: Cell, wholes: Sequence[Record]) -> Record:
    """The figures of one layer."""
    (whole,) = wholes
    at = cell.spec["layers"].index(cell.spec["layer"])
    named = ("method", "num_layers", "hidden_channels", "nodes", "seed", "rank_tolerance")
    trained = ("epochs", "best_epoch", "val", "test")
    kept = {name: whole[name] for name in (*named, *trained) if name in whole}
    return kept | {"layer": cell.spec["layer"]} | {name: whole[name][at] for name in FIGURES}


def measure_layer(cell: Cell, graphs: Graphs, on_epoch: OnEpoch) -> Record:
    """A layer by itself."""
    return join(cell, [measure_collapse(whole, graphs, on_epoch) for whole in whole_of(cell, graphs)])


def show(records: list[Record]) -> str:
    """Three tables, a column per layer."""
    first = records[0]
    parts = [
        (f"Rank, at most {first['hidden_channels']}", _by_layer(records, "rank", lambda v: f"{v:.0f}")),
        ("Rank in float64", _by_layer(records, "rank_float64", lambda v: f"{v:.0f}")),
        ("Effective rank", _by_layer(records, "effective_rank", lambda v: f"{v:.1f}")),
        ("Mean variance", _by_layer(records, "variance", lambda v: f"{v:.2g}", _growth)),
    ]
    return below(
        *(f"## {title}\n\n{table}" for title, table in parts),
        f"Layer 0 is the embedding. GCN with residual connections, {first['num_layers']} layers, "
        f"{first['hidden_channels']} channels, the paper's raw equation in float64, one draw of the weights. Rank: "
        f"singular values above {first['rank_tolerance']:.2g} of the largest one, as in float32 with "
        f"{first['nodes']:,} nodes, the paper's precision; in float64 the limit is far lower. Neither depends on the "
        "features' scale. Effective rank: the exponential of the "
        "entropy of the singular values' shares. Variance: over the nodes, averaged over the channels; growth: the "
        "factor per layer from the embedding to the last layer.",
        "Full random matrices are Glorot's, with signs; U[0, 1] is what the paper's Observation 1 assumes.",
        describe_training(records),
        f"Quick run, cut: {QUICK_CHANNELS} of {CHANNELS} channels, {QUICK_EPOCHS} of {EPOCHS} epochs of end-to-end "
        f"training, {len(QUICK_LAYERS)} of {LAYERS + 1} layers measured."
        if first.get("quick")
        else "",
    )


def describe_training(records: Sequence[Record]) -> str:
    """How far end-to-end training came."""
    trained = {r["method"]: r for r in records if r["method"] in TRAINED}
    said = [
        f"{STRATEGIES[name].title}: {100 * r['val']:.1f} % on validation and {100 * r['test']:.1f} % on test after "
        f"epoch {r['best_epoch'] + 1} of {r['epochs']}, the best on validation"
        for name, r in trained.items()
    ]
    return f"{'; '.join(said)}. Small start values are Glorot's divided by √{LAYERS}." if said else ""


def _by_layer(records, key: str, write, last=None) -> str:
    layers = [layer for layer in SHOWN if any(r["layer"] == layer for r in records)]
    rows = []
    for name in dict.fromkeys(r["method"] for r in records):
        mine = {r["layer"]: r for r in records if r["method"] == name}
        title = f"**{mine[layers[0]]['title']}**" if name == "rap" else mine[layers[0]]["title"]
        found = [mine[layer].get(key) if layer in mine else None for layer in layers]
        rows.append([title, *(NONE if v is None else write(v) for v in found), *([last(mine)] if last else [])])
    return format_table(["", *(f"layer {layer}" for layer in layers), *(["growth"] if last else [])], rows)


def _growth(layers: dict[int, Record]) -> str:
    """The factor of the variance per layer."""
    first, last = layers[min(layers)]["variance"], layers[max(layers)]["variance"]
    if not first or not last:
        return NONE
    return f"{math.exp((math.log(last) - math.log(first)) / (max(layers) - min(layers))):.2f}×"


ITEM = Item("collapse", "Figure 4: rank and variance by layer on PubMed", cells, show, plot_collapse)
KINDS["layer"] = measure_layer
PARTS["layer"] = Parts(whole_of, join)
