"""Settings chosen on validation by ``rapgnn tune`` and stored with the project, by dataset, strategy and embedding."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from rapgnn.config import Config
from rapgnn.embedding import EMBEDDINGS
from rapgnn.errors import check_choice

BEST = "best"  # stands for the embedding with the best validation metric

# Without a search: what goes through the whole graph in every epoch is narrower, and stops when validation stalls.
_SLOW = {"hidden_channels": 64, "patience": 100}
_UNTUNED: dict[str, dict[str, Any]] = {
    "end-to-end": {"num_layers": 2, **_SLOW},
    "random-full": _SLOW,
    "random": _SLOW,
    "learnable": _SLOW,
}


@cache
def stored() -> list[dict[str, Any]]:
    """What the searches chose: a list of {dataset, method, embedding, space, val_mean, tie_break, trials, settings}."""
    return json.loads(files("rapgnn").joinpath("defaults.json").read_text())


def default_config(dataset: str, method: str, embedding: str | None = None) -> Config:
    """The settings for a strategy on a dataset; the general ones where no search was made.

    Args:
        embedding: a name from ``EMBEDDINGS``, ``"best"``, or None for the paper's choice (pretrained).
    """
    if embedding is not None:
        check_choice("embedding", embedding, [*EMBEDDINGS, BEST])
    wanted = embedding or "pretrained"
    found = [s for s in stored() if (s["dataset"], s["method"]) == (dataset, method)]
    if wanted != BEST:
        found = [s for s in found if s["embedding"] == wanted]
    if found:
        return Config().update(**max(found, key=lambda s: (s["val_mean"], s["tie_break"]))["settings"])
    settings = _UNTUNED.get(method, {}) | _UNTUNED.get(wanted, {})
    return Config().update(embedding="pretrained" if wanted == BEST else wanted, **settings)
