"""The plots of the networks' inside: rank and variance by layer, and trained weight matrices."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rapgnn.experiments.reproduce.figures.matrices import unpack
from rapgnn.experiments.reproduce.figures.plots import STYLES, legend, new_axes, new_figure, save
from rapgnn.experiments.reproduce.tables import DATASETS
from rapgnn.experiments.run import Record

PANELS = (("rank", "rank"), ("effective_rank", "effective rank"), ("variance", "mean variance"))
OUTGROWS = "random-full-uniform"  # its variance leaves the panel, so that the others can be told apart


def plot_collapse(records: list[Record], path: Path) -> None:
    """Rank, effective rank and variance over the layers, on log scales."""
    figure = new_figure(13, 4.9)
    for axes, (key, label) in zip(new_axes(figure, len(PANELS)), PANELS, strict=True):
        for name in (n for n in STYLES if any(r["method"] == n for r in records)):
            _curve(axes, sorted((r for r in records if r["method"] == name), key=lambda r: r["layer"]), name, key)
        axes.set(xlabel="layer", ylabel=label, yscale="log")
        axes.set_xticks(range(0, 1 + records[0]["num_layers"], max(1, records[0]["num_layers"] // 4)))
        if key == "variance":
            others = [r[key] for r in records if r.get(key) and r["method"] != OUTGROWS]
            axes.set_ylim(min(others) / 30, 30 * max(others))
        else:
            top = records[0]["hidden_channels"]
            ticks = [t for t in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512) if t <= top]
            axes.set_yticks(ticks, [str(t) for t in ticks])
            axes.set_ylim(0.9, 1.15 * top)
            axes.minorticks_off()
    legend(figure)
    first = records[0]
    sizes = f"{first['num_layers']} layers, {first['hidden_channels']} channels"
    figure.suptitle(f"{_graph(first)}: GCN with residual connections, {sizes}")
    save(figure, path)


def _graph(record: Record) -> str:
    return DATASETS.get(record["dataset"], str(record["dataset"]))


def _curve(axes: Any, records: Sequence[Record], name: str, key: str) -> None:
    """One strategy; markers at some layers, lines through all."""
    known = [r for r in records if r.get(key)]
    if not known:
        return
    every = max(1, len(known) // 8)
    axes.plot(
        [r["layer"] for r in known],
        [r[key] for r in known],
        **STYLES[name].line,
        markevery=every,
        label=known[0]["title"],
    )


def plot_weights(records: list[Record], path: Path) -> None:
    """The matrices as heat maps, a row per network, each on its own scale around zero."""
    networks = list(dict.fromkeys(r["method"] for r in records))
    figure = new_figure(11, 4.9 * len(networks) + 0.3)
    columns = max(sum(r["method"] == name for r in records) for name in networks)
    panels = figure.subplots(len(networks), columns, squeeze=False)
    for row, name in zip(panels, networks, strict=True):
        for axes, r in zip(row, (r for r in records if r["method"] == name), strict=False):
            matrix = unpack(r["matrix"])
            limit = float(np.quantile(np.abs(matrix), 0.999)) or 1.0
            image = axes.imshow(matrix, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
            figure.colorbar(image, ax=axes, shrink=0.8, label="weight", extend="both")
            share, chance = 100 * r["diagonal_share"], 100 * r["random_diagonal_share"]
            on = f"{share:.2f} % of the squares on the diagonal (by chance {chance:.2f} %)"
            axes.set_title(f"{r['title']}\n{on}", fontsize=10)
            axes.set(xlabel="to channel", ylabel="from channel")
    figure.suptitle(f"{_graph(records[0])}: weights after {records[0]['epochs']} epochs of end-to-end training")
    save(figure, path)
