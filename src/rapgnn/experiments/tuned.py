"""Settings chosen on validation by ``rapgnn tune`` and stored with the project, by dataset, method and embedding."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from rapgnn.errors import InputError, check_choice
from rapgnn.estimators.start import MANY_GRAPHS, start_config, usual_embedding
from rapgnn.graph.graph import Graph
from rapgnn.layers.embedding import EMBEDDINGS
from rapgnn.models.config import Config
from rapgnn.training.methods import METHODS

BEST = "best"  # stands for the embedding that was chosen on validation
FAITHFUL = "faithful"
COLUMNS = (FAITHFUL, BEST)
"""What a setting was chosen from: the paper's ranges, architecture and inference, or all that this library offers."""

SHARING = ("fixed-diagonal", "identity", "fixed-full", "random-full")
"""RAP-GNN with other weights: what is compared is the weights, so all other settings are RAP-GNN's."""

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
    """What the searches chose: records with dataset, method, embedding, column, space, val_mean, trials, settings.

    ``tie_break`` decides among embeddings with the same value; ``chosen`` marks the one that a comparison of all of
    them chose.
    """
    return json.loads(files("rapgnn.experiments").joinpath("tuned.json").read_text())


def default_config(graph: Graph, method: str, embedding: str | None = None) -> Config:
    """The settings for a method on a dataset; the general ones where no search was made.

    Args:
        embedding: a name from ``EMBEDDINGS``, ``"best"``, or None for the paper's choice.
    """
    if embedding is not None:
        check_choice("embedding", embedding, [*EMBEDDINGS, BEST])
    # Trained layers come with an embedding of their own; its searches are filed under the first name.
    usual = "pretrained" if METHODS[method].trained else usual_embedding(graph)
    wanted = embedding or usual
    base, settings = (
        start_config(graph, METHODS[method].trained),
        best_settings(graph.name, method, wanted, graph.objective.higher),
    )
    if settings is None and graph.ptr is not None and not METHODS[method].trained:
        # Weights of another kind in RAP-GNN's place, all else equal.
        settings = best_settings(graph.name, "rap", wanted, graph.objective.higher)
        if settings is not None and method == "random-full":  # every step draws d × d numbers and walks the graphs
            epochs = 20 if len(graph.train) < MANY_GRAPHS else 5
            width = min(64, settings.get("hidden_channels", 64))
            head = "linear" if settings.get("head") == "ridge" else settings.get("head", "linear")  # no exact mean
            settings = settings | {"hidden_channels": width, "epochs": epochs, "head": head}
    if settings is not None:
        return base.update(**settings)
    chosen = base.update(embedding=usual if wanted == BEST else wanted)
    if graph.ptr is not None:
        return chosen
    return chosen.update(**(_UNTUNED.get(method, {}) | _UNTUNED.get(wanted, {})))


def best_settings(dataset: str, method: str, embedding: str, higher: bool = True) -> dict[str, Any] | None:
    """What the searches chose for an embedding, or for the best one; None where no search was made."""
    found = _best(dataset, method, embedding, higher)
    return None if found is None else found["settings"]


def _best(dataset: str, method: str, embedding: str, higher: bool) -> dict[str, Any] | None:
    """The same with its validation metric."""
    found = _rows(dataset, method, BEST) or _rows(dataset, method, FAITHFUL)
    if embedding != BEST:
        found = [s for s in found if s["embedding"] == embedding]
    sign = 1 if higher else -1
    merit = [(s["chosen"], sign * s["val_mean"], sign * s["tie_break"]) for s in found]
    return found[merit.index(max(merit))] if found else None


def _rows(dataset: str, method: str, column: str) -> list[dict[str, Any]]:
    return [s for s in stored() if (s["dataset"], s["method"], s["column"]) == (dataset, method, column)]


def chosen_config(graph: Graph, method: str, column: str, embedding: str | None = None, own: bool = False) -> Config:
    """The settings of a table's column.

    In the faithful column another kind of weights takes RAP-GNN's settings, all else equal. Full matrices are those of
    ``nn.Linear`` then: of the frameworks' two defaults, validation prefers it on the citation graphs.

    Args:
        column: a name from ``COLUMNS``.
        embedding: a name that was searched with RAP-GNN; None: the paper's for ``"faithful"``, and the one that
            validation chose for ``"best"``.
        own: the settings of a method's own search, where others would take RAP-GNN's.
    """
    check_choice("column", column, COLUMNS)
    trained = METHODS[method].trained
    wanted = embedding or (BEST if column == BEST else usual_embedding(graph))
    shared = column == FAITHFUL and method in SHARING and not own
    found = None if shared else _pick(graph, method, column, None if trained else wanted)
    if found is None and not trained and not own:
        found = _pick(graph, "rap", column, wanted)
        if found is not None and METHODS[method].settings.get("structure") == "full" and column == FAITHFUL:
            found = found | {"structure": "full", "distribution": "linear"}
    if found is None:
        raise InputError(f"no settings of {method} on {graph.name} were searched for the column {column}.")
    config = start_config(graph, trained).update(**found)
    # A ridge head needs an exact mean, which full matrices drawn anew have not.
    return config.update(head="linear") if config.head == "ridge" and method == "random-full" else config


def _pick(graph: Graph, method: str, column: str, embedding: str | None) -> dict[str, Any] | None:
    """The settings of a column; the paper's own space is part of all that the library offers."""
    rows = [s for s in _rows(graph.name, method, FAITHFUL) if embedding in (None, BEST, s["embedding"])]
    if column == BEST:
        best, higher = _best(graph.name, method, embedding or BEST, graph.objective.higher), graph.objective.higher
        rows = [row for row in (best, *rows) if row is not None]
        rows.sort(key=lambda row: row["val_mean"], reverse=higher)  # the first of equals stays first
    return rows[0]["settings"] if rows else None
