"""Every plot is an image, whatever the name of the file; strategies that could not be measured are no obstacle."""

import pytest
import torch

from rapgnn.prng import seeded
from rapgnn_lab.bench.depth import TITLES as BENCH_TITLES
from rapgnn_lab.paper.items import ITEMS
from rapgnn_lab.paper.layers import STRATEGIES, describe_matrix
from rapgnn_lab.paper.plots import ORDER, look, save_image
from rapgnn_lab.paper.timed import TITLES

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
    both = [("rap", 0.7, 0.02), ("end-to-end", None, None)]
    common = {"kind": "accuracy", "config": {"num_layers": 2}}
    return [common | {"method": method, "mean": mean, "std": std, "title": method} for method, mean, std in both]


PLOTS = {
    "depth": [*timed(2), *timed(32), *scored()],
    "memory": [*timed(32), *timed(4, dataset="a generated graph")],
    "large": [r | {"paper_train_ms": 900.0, "paper_eval_ms": 70.0} for r in timed(4)],
    "collapse": layered(),
    "weights": matrices(),
}


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_is_an_image(name, tmp_path, readable_plot):
    path = tmp_path / "no-suffix"
    save_image(ITEMS[name].figures(PLOTS[name]), name, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    readable_plot(path)


def test_every_strategy_has_a_style_of_its_own():
    assert {*TITLES, *STRATEGIES, *BENCH_TITLES} <= set(ORDER)
    looks = [tuple(look(place).values()) for place in range(len(ORDER))]
    assert len(set(looks)) == len(looks)
