"""A folder as ``rapgnn reproduce`` writes it, measured on a generated graph in a few seconds."""

from dataclasses import replace
from pathlib import Path

import pytest

from rapgnn_lab.paper import layers, rows, timed
from rapgnn_lab.paper.cells import open_store
from rapgnn_lab.paper.items import ITEMS
from rapgnn_lab.paper.run import reproduce
from small_items import QUICK, Stand, small_config

THERE = ("table1", "depth", "collapse", "weights")


def measure_into(out: Path) -> dict[str, list[dict]]:
    """Table 1 on one graph, and three figures, with few epochs and layers: the records by item."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "chosen_config", small_config)
        for name, value in {"QUICK_DEPTHS": (2, 4), "CHANNELS": 16, "SHORTCUT_EPOCHS": 8}.items():
            patch.setattr(timed, name, value)
        patch.setattr(timed, "TIMED", ("end-to-end", "rap-stepwise", "rap"))
        patch.setattr(timed, "SCORED", ("end-to-end", "rap"))
        for name, value in {"LAYERS": 4, "QUICK_CHANNELS": 8, "QUICK_EPOCHS": 3, "QUICK_LAYERS": (0, 1, 4)}.items():
            patch.setattr(layers, name, value)
        table = ITEMS["table1"]
        cora = replace(table, cells=lambda *given: [c for c in table.cells(*given) if c.dataset == "cora"])
        items = [replace(item, figures=None) for item in (cora, *(ITEMS[name] for name in THERE[1:]))]
        run = reproduce(items, QUICK, Stand(), open_store(out))
    assert run.failed == {}
    return run.records
