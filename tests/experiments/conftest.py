"""Records with numbers that are easy to find again in a table or a plot."""

from pathlib import Path
from typing import Any

import matplotlib.image
import pytest

Record = dict[str, Any]


@pytest.fixture
def comparison() -> list[Record]:
    """Three methods on one graph."""
    common = {"dataset": "meadow", "task": "node-classification", "metric": "accuracy", "protocol": "fixed split"}
    common |= {"seeds": [0, 1], "hardware": "abacus, 7 rods", "engine_reason": "no entry is negative"}
    numbers = {
        "rap": (0.8123, 0.0111, 1.25, 0.0417, 3.5, 61.0, 8, "polynomial"),
        "end-to-end": (0.7456, 0.0222, 17.75, 23.1, 4.6, None, 16, "stepwise"),
        "pretrained-embedding": (0.6789, 0.0333, 0.75, 5.07, 5.7, 63.0, 8, "none"),
    }
    records = []
    for method, (mean, std, seconds, train, evaluation, peak, layers, engine) in numbers.items():
        cost = {"fit_seconds": seconds, "train_ms_per_epoch": train, "eval_ms_per_epoch": evaluation}
        records.append(
            common
            | {"method": method, "mean": mean, "std": std, "peak_memory_mb": peak, "engine": engine}
            | {"values": [mean - std, mean + std]}
            | cost
            | {"config": {"num_layers": layers}, "epochs": [90 + layers, 100 + layers]}
        )
    return records


@pytest.fixture
def by_depth() -> list[Record]:
    """Two methods at two depths."""
    common = {"dataset": "meadow", "hidden_channels": 96, "batch_size": 48, "hardware": "abacus, 7 rods"}
    records = []
    for layers in (2, 16):
        for method, title, ms in (("rap", "RAP, shortcut", 0.5), ("end-to-end", "end-to-end, CSR", 4.0 * layers)):
            cost = {"train_ms_per_epoch": ms, "precompute_ms": 12.0 if method == "rap" else 0.0}
            ratios = {"speedup_vs_end_to_end": 4.0 * layers / ms, "speedup_vs_pyg": 6.0 * layers / ms}
            peak = {"peak_memory_mb": 31.0 + layers if method == "rap" else None}
            records.append(common | {"method": method, "title": title, "num_layers": layers} | cost | ratios | peak)
    return records


@pytest.fixture
def readable():
    """Checks that a file is an image with something on it."""

    def check(path: Path) -> None:
        image = matplotlib.image.imread(path)
        assert image.ndim == 3
        assert min(image.shape[:2]) > 200
        assert len({tuple(pixel) for pixel in image[::7, ::7, :3].reshape(-1, 3).tolist()}) > 5  # colours

    return check
