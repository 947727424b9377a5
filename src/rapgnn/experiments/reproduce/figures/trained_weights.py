"""Figure 5: weight matrices of the first and the last layer after end-to-end training, and how diagonal they are.

The kind "matrix" is one matrix of a network that the item ``collapse`` has trained.
"""

from collections.abc import Sequence

from rapgnn.experiments.markdown import format_table
from rapgnn.experiments.reproduce.cells import Cell
from rapgnn.experiments.reproduce.figures.by_layer import measure_collapse
from rapgnn.experiments.reproduce.figures.collapse import (
    CHANNELS,
    EPOCHS,
    LAYERS,
    QUICK_CHANNELS,
    QUICK_EPOCHS,
    STRATEGIES,
    TRAINED,
    describe_training,
    part_of,
    strategy_cell,
    whole_of,
)
from rapgnn.experiments.reproduce.figures.layer_plots import plot_weights
from rapgnn.experiments.reproduce.item import Graphs, Item, Scale
from rapgnn.experiments.reproduce.kinds import KINDS, PARTS, Parts
from rapgnn.experiments.reproduce.tables import below
from rapgnn.experiments.run import OnEpoch, Record


def cells(scale: Scale, graphs: Graphs) -> list[Cell]:
    """Layers 1 and L of each trained network."""
    found = []
    for name in TRAINED:
        whole, title = strategy_cell(name, scale), STRATEGIES[name].title
        found += [part_of(whole, "matrix", layer, {"title": f"{title}, layer {layer}"}) for layer in (1, LAYERS)]
    return found


def join(cell: Cell, wholes: Sequence[Record]) -> Record:
    """One matrix of the network."""
    (whole,) = wholes
    named = ("method", "num_layers", "hidden_channels", "seed", "epochs", "best_epoch", "val", "test")
    (matrix,) = (m for m in whole["matrices"] if m["layer"] == cell.spec["layer"])
    return {name: whole[name] for name in named} | matrix


def measure_matrix(cell: Cell, graphs: Graphs, on_epoch: OnEpoch) -> Record:
    """A matrix by itself."""
    return join(cell, [measure_collapse(whole, graphs, on_epoch) for whole in whole_of(cell, graphs)])


def show(records: list[Record]) -> str:
    """A row per matrix."""
    first = records[0]
    rows = []
    for r in records:
        shares = [r["start_diagonal_share"], r["diagonal_share"]]
        times = r["diagonal_share"] / r["random_diagonal_share"]
        sizes = [r["start_diagonal_size"], r["diagonal_size"]]
        rows.append([r["title"], *(f"{100 * s:.2f}" for s in shares), f"{times:.2f}×"])
        rows[-1] += [*(f"{s:.2f}" for s in sizes), f"{100 * r['moved']:.0f}"]
    header = [
        "",
        "at the start, %",
        "trained, %",
        "of a random one's",
        "size at the start",
        "size, trained",
        "moved, %",
    ]
    return below(
        format_table(header, rows),
        "Share of the squared entries that lies on the diagonal, before and after training: 100 % for a diagonal "
        f"matrix, {100 / first['hidden_channels']:.2f} % for a random one of this width. size: the mean magnitude on "
        "the diagonal divided by that of all other entries. moved: the length of the change divided by that of the "
        "start values.",
        "The paper shows the matrices without numbers and says that they are not diagonal.",
        f"GCN with residual connections, {first['num_layers']} layers, {first['hidden_channels']} channels.",
        describe_training(records),
        f"Quick run, cut: {QUICK_CHANNELS} of {CHANNELS} channels, {QUICK_EPOCHS} of {EPOCHS} epochs."
        if first.get("quick")
        else "",
    )


ITEM = Item("weights", "Figure 5: weight matrices after end-to-end training on PubMed", cells, show, plot_weights)
KINDS["matrix"] = measure_matrix
PARTS["matrix"] = Parts(whole_of, join)
