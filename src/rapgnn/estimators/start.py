"""What a graph starts from before any search: backbone, pooling and batches that suit its kind."""

from typing import Any

from rapgnn.graph.graph import Graph
from rapgnn.models.config import Config

MANY_GRAPHS = 20_000  # so many make an epoch of many steps

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


def start_config(graph: Graph, trained: bool = False) -> Config:
    """What a graph of this kind starts from.

    Args:
        trained: for layers whose weights are trained.
    """
    if graph.ptr is None:
        return Config()
    config = Config().update(backbone=graph_backbone(graph), **_GRAPHS)
    if trained:
        factors = 3 if config.backbone == "gine" else 2  # the paper: two hidden layers for OGB, one for TU
        config = config.update(factors=factors, **_TRAINED_GRAPHS)
    return config


def graph_backbone(graph: Graph) -> str:
    """GINE where edges have features, as the paper has it for OGB; it leaves those of the TU datasets out."""
    return "gine" if graph.edge_attr is not None and not graph.folds else "gin"


def usual_embedding(graph: Graph) -> str:
    """One layer of the backbone where edges have features, as the paper has it for OGB; an MLP elsewhere."""
    return "pretrained-gnn" if graph.ptr is not None and graph_backbone(graph) == "gine" else "pretrained"
