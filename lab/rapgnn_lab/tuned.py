"""Settings chosen on validation by ``rapgnn tune`` and stored with the project, by dataset, method and embedding."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from rapgnn.compare import BEST
from rapgnn.errors import InputError, check_choice
from rapgnn.search.start import MANY_GRAPHS, start_config, usual_embedding
from rapgnn.graph.graph import Graph
from rapgnn.network.config import Config
from rapgnn_lab.baselines.systems import METHODS

FAITHFUL = "faithful"
COLUMNS = (FAITHFUL, BEST)
"""What a setting was chosen from: the paper's ranges, architecture and inference, or all that this library offers."""

SHARING = ("fixed-diagonal", "identity", "fixed-full", "random-full")
"""RAP-GNN with other weights: what is compared is the weights, so all other settings are RAP-GNN's."""


@cache
def stored() -> list[dict[str, Any]]:
    """What the searches chose: records with dataset, method, embedding, column, space, val_mean, trials, settings.

    ``tie_break`` decides among embeddings with the same value; ``chosen`` marks the one that a comparison of all of
    them chose.
    """
    return json.loads(files("rapgnn_lab").joinpath("tuned.json").read_text())


def _rows(dataset: str, method: str, column: str, embedding: str) -> list[dict[str, Any]]:
    rows = [s for s in stored() if (s["dataset"], s["method"], s["column"]) == (dataset, method, column)]
    return rows if embedding == BEST else [s for s in rows if s["embedding"] == embedding]


def best_settings(
    dataset: str, method: str, embedding: str, higher: bool = True, faithful: bool = False
) -> dict[str, Any] | None:
    """What the searches chose for an embedding, or for the best one; None where no search was made.

    Args:
        faithful: the paper's own space takes part, too.
    """
    column, sign = BEST if _rows(dataset, method, BEST, BEST) else FAITHFUL, 1 if higher else -1
    rows = _rows(dataset, method, column, embedding)
    rows = sorted(rows, key=lambda s: (s["chosen"], sign * s["val_mean"], sign * s["tie_break"]), reverse=True)[:1]
    rows += _rows(dataset, method, FAITHFUL, embedding) if faithful else []
    return max(rows, key=lambda s: sign * s["val_mean"])["settings"] if rows else None


def tuned_settings(graph: Graph, method: str, embedding: str) -> dict[str, Any] | None:
    """What ``rapgnn compare`` takes on a dataset (the entry-point group ``rapgnn.settings``); None where no search was
    made."""
    settings = best_settings(graph.name, method, embedding, graph.objective.higher)
    if settings is None and graph.ptr is not None and not METHODS[method].trained:
        # Weights of another kind in RAP-GNN's place, all else equal.
        settings = best_settings(graph.name, "rap", embedding, graph.objective.higher)
        if settings is not None and method == "random-full":  # every step draws d × d numbers and walks the graphs
            epochs = 20 if len(graph.train) < MANY_GRAPHS else 5
            width = min(64, settings.get("hidden_channels", 64))
            head = "linear" if settings.get("head") == "ridge" else settings.get("head", "linear")  # no exact mean
            settings = settings | {"hidden_channels": width, "epochs": epochs, "head": head}
    return settings


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
    settings = None if shared else _pick(graph, method, column, BEST if trained else wanted)
    if settings is None and not trained and not own:
        settings = _pick(graph, "rap", column, wanted)
        if settings is not None and METHODS[method].settings.get("structure") == "full" and column == FAITHFUL:
            settings = settings | {"structure": "full", "distribution": "linear"}
    if settings is None:
        raise InputError(f"no settings of {method} on {graph.name} were searched for the column {column}.")
    config = start_config(graph, trained).update(**settings)
    # A ridge head needs an exact mean, which full matrices drawn anew have not.
    return config.update(head="linear") if config.head == "ridge" and method == "random-full" else config


def _pick(graph: Graph, method: str, column: str, embedding: str) -> dict[str, Any] | None:
    """The settings of a column; the paper's own space is part of all that the library offers."""
    if column == BEST:
        return best_settings(graph.name, method, embedding, graph.objective.higher, faithful=True)
    return next((row["settings"] for row in _rows(graph.name, method, FAITHFUL, embedding)), None)
