"""The search spaces made of the paper's ranges: "paper", what it searched, and "wide", past that."""

from typing import Any

from rapgnn.experiments.tune.points import graph_epochs
from rapgnn.experiments.tune.ranges import RANGES, WIDE, WIDE_GRAPHS, Range
from rapgnn.graph.graph import Graph
from rapgnn.layers.embedding import EMBEDDINGS
from rapgnn.training.methods import METHODS


def find_range(space: str, graph: Graph) -> Range:
    """The range to search: the paper's for its datasets, the wide one for any graph."""
    wide = WIDE if graph.ptr is None else WIDE_GRAPHS
    return RANGES.get(graph.name, wide) if space == "paper" else wide


def suggest_in_ranges(trial: Any, method: str, embedding: str, space: str, graph: Graph) -> dict[str, Any]:
    """One point of the space, as settings of ``Config``."""
    r = find_range(space, graph)
    graphs, trained = graph.ptr is not None, METHODS[method].trained
    settings: dict[str, Any] = {"embedding": embedding, "epochs": r.epochs}
    if graphs:
        settings["epochs"] = min(r.epochs, graph_epochs(graph, method))
    if not graphs:
        settings["normalize_features"] = trial.suggest_categorical("normalize_features", [True, False])
    else:
        settings["batch_size"] = trial.suggest_categorical("batch_size", list(r.batch_size))
    trains_embedding = method in ("end-to-end", "pretrained-embedding") or EMBEDDINGS[embedding].trained != "never"
    if method == "end-to-end" or EMBEDDINGS[embedding].mlp:
        settings["hidden_channels"] = trial.suggest_categorical("hidden_channels", r.hidden_channels)
        if embedding != "pretrained-gnn" or graphs:
            settings["embedding_layers"] = trial.suggest_categorical("embedding_layers", r.embedding_layers)
    if trains_embedding and method != "end-to-end" and embedding != "learnable":
        settings["pretrain_lr"] = trial.suggest_float("pretrain_lr", r.lr[0], max(r.lr[1], 0.01), log=True)
        settings["pretrain_dropout"] = trial.suggest_float("pretrain_dropout", 0.0, 0.5 if graphs else 0.8)
        decay = (1e-7, 1e-2) if graphs else (1e-5, 1e-1)
        settings["pretrain_weight_decay"] = trial.suggest_float("pretrain_weight_decay", *decay, log=True)
        if space == "wide" and method != "pretrained-embedding":
            settings["embedding_output"] = trial.suggest_categorical("embedding_output", ["relu", "split"])
        lengths = [5, 10, 25, 50, 200] if space == "wide" and not graphs else [50, 200]
        settings["pretrain_epochs"] = trial.suggest_categorical("pretrain_epochs", [10, 30, 100] if graphs else lengths)
    if method == "pretrained-embedding":
        if graphs:
            settings["pooling"] = trial.suggest_categorical("pooling", ["sum", "mean"])
        return settings
    settings["num_layers"] = trial.suggest_categorical("num_layers", r.num_layers)
    if graphs:
        settings |= _suggest_graph_layers(trial, method, space, graph)
    else:
        settings["self_loops"] = trial.suggest_categorical("self_loops", [False, True])
    heads = ["linear"] if not graphs else ["linear", "mlp"]
    if space == "paper" and graphs:
        heads = ["mlp"] if r.head_layers > 1 else ["linear"]
    if space == "wide" and not trained and method != "random-full" and embedding not in ("learnable", "random"):
        heads = [*heads, "ridge"]
    head = trial.suggest_categorical("head", heads) if len(heads) > 1 else heads[0]
    settings["head"] = head
    if head == "mlp" and graphs and space == "wide":
        settings["head_layers"] = trial.suggest_categorical("head_layers", [2, 3])
    if head == "ridge":
        settings["ridge"] = trial.suggest_float("ridge", 1e-6 if graphs else 1e-4, 1e2, log=True)
        return settings
    settings["lr"] = trial.suggest_float("lr", *r.lr, log=True)
    settings["dropout"] = trial.suggest_float("dropout", *r.dropout)
    settings["weight_decay"] = trial.suggest_float(
        "weight_decay", *((1e-7, 1e-2) if graphs else (1e-6, 1e-1)), log=True
    )
    if method in ("end-to-end", "random-full") or embedding in ("learnable", "random"):
        settings["patience"] = (
            40 if graphs else 100
        )  # an epoch through the graph is expensive; the cheap ones run to the end
    return settings


def _suggest_graph_layers(trial: Any, method: str, space: str, graph: Graph) -> dict[str, Any]:
    """What only layers on graph batches have: their MLP, pooling, jumping knowledge, normalisation."""
    settings: dict[str, Any] = {}
    trained = METHODS[method].trained
    settings["batch_norm"] = trial.suggest_categorical("batch_norm", [True, False])
    if not trained:
        settings["factors"] = trial.suggest_categorical("factors", [1, 2, 3])
        settings["standardize"] = trial.suggest_categorical("standardize", [True, False])
    if space == "wide":
        settings["pooling"] = trial.suggest_categorical("pooling", ["sum", "mean"])
        settings["jumping"] = trial.suggest_categorical("jumping", ["last", "cat"])
        if trained:
            settings["factors"] = trial.suggest_categorical("factors", [1, 2, 3])
    else:
        settings |= {"pooling": "sum", "jumping": "last"}
    return settings
