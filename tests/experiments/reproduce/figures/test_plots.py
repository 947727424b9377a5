"""Every plot is an image, whatever the name of the file; strategies that could not be measured are no obstacle."""

import re
from itertools import combinations

import pytest
import torch

from rapgnn.experiments.reproduce.figures.collapse import STRATEGIES
from rapgnn.experiments.reproduce.figures.layer_plots import plot_collapse, plot_weights
from rapgnn.experiments.reproduce.figures.matrices import describe_matrix
from rapgnn.experiments.reproduce.figures.plots import STYLES, plot_depth, plot_large, plot_memory
from rapgnn.experiments.reproduce.timed import TITLES
from rapgnn.prng import seeded

COMMON = {"dataset": "pubmed", "hardware": "abacus, 7 rods", "hidden_channels": 16, "backbone": "gcn"}
LOST = {"method": "end-to-end-pyg", "title": TITLES["end-to-end-pyg"], "note": "out of memory"}


def timed(layers: int, **more) -> list[dict]:
    found = []
    for i, (method, title) in enumerate(TITLES.items()):
        figures = {"train_ms_per_epoch": layers * 3.0**i, "infer_ms": 2.0**i, "infer_all_ms": 4.0**i}
        record = COMMON | {"kind": "time", "method": method, "title": title, "num_layers": layers} | figures
        found.append(record | {"peak_memory_mb": 5.0**i} | more)
    return [*found[:-1], COMMON | {"kind": "time", "num_layers": layers} | LOST | more]


def layered() -> list[dict]:
    found = []
    for i, (method, strategy) in enumerate(STRATEGIES.items()):
        for layer in range(9):
            figures = {"rank": 16 - layer, "effective_rank": 9.0 - layer, "variance": 3.0 ** (i * layer)}
            record = COMMON | {"method": method, "title": strategy.title, "layer": layer, "num_layers": 8}
            found.append(record | figures)
    return [*found, found[-1] | {"layer": 9, "rank": None, "effective_rank": None, "variance": None}]


def matrices() -> list[dict]:
    found = []
    for method in ("end-to-end", "end-to-end-small"):
        for layer in (1, 64):
            start = torch.randn(12, 12, generator=seeded(layer, 0))
            record = COMMON | {"method": method, "title": f"{method}, layer {layer}", "layer": layer, "epochs": 7}
            found.append(record | describe_matrix(start, start + torch.eye(12)))
    return found


def scored() -> list[dict]:
    both = [("rap", 0.7, 0.02), ("random-full", 0.4, 0.03), ("end-to-end", None, None)]
    common = {"kind": "accuracy", "config": {"num_layers": 2}}
    return [common | {"method": method, "mean": mean, "std": std, "title": method} for method, mean, std in both]


PLOTS = {
    "depth": (plot_depth, [*timed(2), *timed(32), *scored()]),
    "times alone": (plot_depth, [*timed(2), *timed(32)]),
    "memory": (plot_memory, [*timed(32), *timed(4, dataset="a generated graph")]),
    "large": (plot_large, [r | {"paper_train_ms": 900.0, "paper_eval_ms": 70.0} for r in timed(4)]),
    "collapse": (plot_collapse, layered()),
    "weights": (plot_weights, matrices()),
}


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_is_an_image(name, tmp_path, readable):
    plot, records = PLOTS[name]
    path = tmp_path / "no-suffix"
    plot(records, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    readable(path)


def test_every_strategy_has_a_style_of_its_own():
    assert {*TITLES, *STRATEGIES} <= set(STYLES)
    looks = [(style.color, style.marker, style.dash) for style in STYLES.values()]
    assert len(set(looks)) == len(looks)
    colors = {style.color for style in STYLES.values()}
    assert all(re.fullmatch("#[0-9A-F]{6}", color) for color in colors)


def _seen(color: str) -> tuple[float, ...]:
    """As an eye without the cones for red light sees it: Viénot, Brettel and Mollon (1999), linear values."""
    r, g, b = (((int(color[i : i + 2], 16) / 255 + 0.055) / 1.055) ** 2.4 for i in (1, 3, 5))
    mixed = 0.11238 * r + 0.88762 * g
    return tuple(v ** (1 / 2.4) for v in (mixed, mixed, max(0.0, 0.00401 * r - 0.00401 * g + b)))


def test_colours_differ_without_red_cones():
    colors = sorted({style.color for style in STYLES.values()})
    for first, second in combinations(colors, 2):
        apart = sum((a - b) ** 2 for a, b in zip(_seen(first), _seen(second), strict=True)) ** 0.5
        assert apart > 0.1, (first, second)
