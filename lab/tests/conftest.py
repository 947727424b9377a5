"""Records with numbers that are easy to find again in a table or a plot."""

from typing import Any

import pytest

Record = dict[str, Any]


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
