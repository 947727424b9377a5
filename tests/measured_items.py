"""A folder as ``rapgnn reproduce`` writes it, measured on a generated graph in a few seconds."""

from dataclasses import replace
from pathlib import Path

import pytest

from rapgnn.experiments.reproduce import quick, rows, table1
from rapgnn.experiments.reproduce.figures import collapse, depth, trained_weights
from rapgnn.experiments.reproduce.item import Scale
from rapgnn.experiments.reproduce.quick import Budget
from rapgnn.experiments.reproduce.store import Store
from rapgnn.experiments.reproduce.whole import reproduce
from small_items import Stand, small_config

THERE = ("table1", "depth", "collapse", "weights")


def measure_into(out: Path) -> dict[str, list[dict]]:
    """Table 1 on one graph, and three figures, with few epochs and layers: the records by item."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "chosen_config", small_config)
        patch.setattr(quick, "STORED", Budget(1e9, 4, 8))
        for name in ("WALKED", "BATCHED"):
            patch.setattr(quick, name, Budget(1e9, 2, 4))
        patch.setattr(quick, "PRETRAINED", Budget(1e9, 2, 3))
        patch.setattr(depth, "QUICK_DEPTHS", (2, 4))
        patch.setattr(depth, "CHANNELS", 16)
        patch.setattr(depth, "TIMED", ("end-to-end", "rap-stepwise", "rap"))
        patch.setattr(depth, "SCORED", ("end-to-end", "rap"))
        patch.setattr(depth, "SHORTCUT_EPOCHS", 8)
        for module in (collapse, trained_weights):
            patch.setattr(module, "LAYERS", 4)
            patch.setattr(module, "QUICK_CHANNELS", 8)
            patch.setattr(module, "QUICK_EPOCHS", 3)
        patch.setattr(collapse, "QUICK_LAYERS", (0, 1, 4))
        cora = replace(table1.ITEM, cells=lambda *given: [c for c in table1.ITEM.cells(*given) if c.dataset == "cora"])
        items = [cora, depth.ITEM, collapse.ITEM, trained_weights.ITEM]
        run = reproduce([replace(item, plot=None) for item in items], Scale(quick=True), Stand(), Store(out))
    assert run.failed == {}
    return run.records
