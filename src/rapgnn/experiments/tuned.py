"""Settings chosen on validation by ``rapgnn tune`` and stored with the project, by dataset, strategy and embedding."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from rapgnn.errors import check_choice
from rapgnn.graph.graph import Graph
from rapgnn.layers.embedding import EMBEDDINGS
from rapgnn.models.config import Config
from rapgnn.training.methods import METHODS

MANY_GRAPHS = 20_000  # so many make an epoch of many steps
BEST = "best"  # stands for the embedding with the best validation metric

# Without a search: what goes through the whole graph in every epoch is narrower, and stops when validation stalls.
_SLOW = {"hidden_channels": 64, "patience": 100}
_UNTUNED: dict[str, dict[str, Any]] = {
    "end-to-end": {"num_layers": 2, **_SLOW},
    "random-full": _SLOW,
    "random": _SLOW,
    "learnable": _SLOW,
}
# Graph tasks: few layers, every layer seen by the head, an MLP in a trained layer as in the paper.
_GRAPHS: dict[str, Any] = {
    "num_layers": 3,
    "hidden_channels": 64,
    "jumping": "cat",
    "standardize": True,
    "normalize_features": False,
    "batch_size": 128,
    "dropout": 0.2,
    "pretrain_dropout": 0.0,
    "weight_decay": 1e-4,
    "pretrain_weight_decay": 0.0,
    "head": "mlp",
    "epochs": 350,
    "pretrain_epochs": 100,
}
_TRAINED_GRAPHS = {"batch_norm": True, "jumping": "last"}


@cache
def stored() -> list[dict[str, Any]]:
    """What the searches chose: a list of {dataset, method, embedding, space, val_mean, tie_break, trials, settings}."""
    return json.loads(files("rapgnn.experiments").joinpath("tuned.json").read_text())


def default_config(graph: Graph, method: str, embedding: str | None = None) -> Config:
    """The settings for a strategy on a dataset; the general ones where no search was made.

    Args:
        embedding: a name from ``EMBEDDINGS``, ``"best"``, or None for the paper's choice.
    """
    if embedding is not None:
        check_choice("embedding", embedding, [*EMBEDDINGS, BEST])
    # Trained layers come with an embedding of their own; its searches are filed under the first name.
    usual = "pretrained" if METHODS[method].trained else paper_embedding(graph)
    wanted = embedding or usual
    base, settings = base_config(graph, method), best_settings(graph.name, method, wanted, graph.rule.higher)
    if settings is None and graph.ptr is not None and not METHODS[method].trained:
        # Weights of another kind in RAP-GNN's place, all else equal.
        settings = best_settings(graph.name, "rap", wanted, graph.rule.higher)
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


def paper_embedding(graph: Graph) -> str:
    """The embedding of the paper's experiments: one layer of the backbone for OGB, an MLP elsewhere."""
    return "pretrained-gnn" if graph.ptr is not None and graph_backbone(graph) == "gine" else "pretrained"


def best_settings(dataset: str, method: str, embedding: str, higher: bool = True) -> dict[str, Any] | None:
    """What the searches chose for an embedding, or for the best one; None where no search was made."""
    found = [s for s in stored() if (s["dataset"], s["method"]) == (dataset, method)]
    if embedding != BEST:
        found = [s for s in found if s["embedding"] == embedding]
    sign = 1 if higher else -1
    return max(found, key=lambda s: (sign * s["val_mean"], sign * s["tie_break"]))["settings"] if found else None


def base_config(graph: Graph, method: str) -> Config:
    """What a graph of this kind starts from, before any search: backbone, pooling, batches."""
    if graph.ptr is None:
        return Config()
    config = Config().update(backbone=graph_backbone(graph), **_GRAPHS)
    if METHODS[method].trained:
        factors = 3 if config.backbone == "gine" else 2  # the paper: two hidden layers for OGB, one for TU
        config = config.update(factors=factors, **_TRAINED_GRAPHS)
    return config


def graph_backbone(graph: Graph) -> str:
    """GINE where edges have features, as the paper has it for OGB; it leaves those of the TU datasets out."""
    return "gine" if graph.edge_attr is not None and not graph.folds else "gin"
