"""The space that fits any graph: embedding, backbone, depth, head and training."""

from typing import Any

from rapgnn.experiments.tune.points import Point, graph_epochs
from rapgnn.graph.backbones import BACKBONES
from rapgnn.graph.graph import Graph
from rapgnn.layers.embedding import EMBEDDINGS
from rapgnn.sparse import nonnegative
from rapgnn.training.methods import METHODS

WIDEST = 2048  # channels that the head sees when every layer's output stands side by side
MOST_STORED = 1 << 24  # training rows × features up to which the features may pass unchanged


def suggest_any(trial: Any, method: str, embedding: str | None, graph: Graph) -> dict[str, Any]:
    """Embedding, backbone, depth, head and training for whatever the graph is; only what counts is asked for."""
    point, many, trained = Point(trial), graph.ptr is not None, METHODS[method].trained
    kind = EMBEDDINGS[point.choose("embedding", [embedding] if embedding else embeddings(method, graph))]
    alone = method == "pretrained-embedding"  # there are no layers, and phase 1 has its own head
    if many or kind.one_layer or not alone:
        _suggest_backbone(point, method, graph)
    if many:
        sizes = [size for size in (32, 128, 512) if size < len(graph.train)]
        point.choose("batch_size", sizes or [None])
        point.choose("pooling", ["sum", "mean"])
    else:
        point.choose("normalize_features", [True, False])
    slow = trained or method == "random-full" or kind.trained == "with" or kind.redrawn  # no shortcut
    head = "linear" if alone else point.choose("head", ["linear", "mlp"] + ([] if slow else ["ridge"]))
    if trained or kind.mlp or head == "mlp":
        point.choose("hidden_channels", [32, 64, 128, 256] if many or slow else [64, 128, 256, 512])
    if trained or kind.mlp:
        _suggest_embedding(point, method, many)
    if alone:
        return point.settings
    most = 6 if many else 8 if slow else 32
    point.settings["num_layers"] = trial.suggest_int("num_layers", 1, most, log=True)
    _suggest_outputs(point, method, graph)
    if head == "ridge":
        point.size("ridge", 1e-6, 1e2)
        return point.settings
    if head == "mlp":
        point.choose("head_layers", [2, 3])
    point.settings |= (
        {"epochs": graph_epochs(graph, method), "patience": 40} if many else {"epochs": 500, "patience": 100}
    )
    point.size("lr", 5e-4, 0.05 if many else 0.1)
    point.share("dropout", 0.6 if many else 0.8)
    point.size("weight_decay", 1e-7, 1e-2 if many else 1e-1)
    return point.settings


def embeddings(method: str, graph: Graph) -> list[str]:
    """The embeddings to try: end-to-end trains its own, and phase 1 alone must have one to train."""
    if METHODS[method].trained:
        return ["pretrained"]
    before = [name for name, kind in EMBEDDINGS.items() if kind.trained == "before"]
    if method == "pretrained-embedding":
        return before
    c, rows = graph.num_features, len(graph.train)
    fits = rows * c <= MOST_STORED and min(rows, c) <= WIDEST  # the hops that are kept, and the ridge head's equations
    return [*before, "fixed-random", *(["identity"] if fits else [])]


def _suggest_backbone(point: Point, method: str, graph: Graph) -> None:
    """The layers' rule; linear layers where only these keep the shortcut exact in spite of negative numbers."""
    # Full matrices have no shortcut to keep, and trained ones need none.
    diagonal = not METHODS[method].trained and METHODS[method].settings.get("structure") != "full"
    signed = not EMBEDDINGS[point.settings["embedding"]].mlp and not nonnegative(graph.x)
    linear = diagonal and (signed or (graph.edge_weight is not None and not nonnegative(graph.edge_weight)))
    if linear:
        point.settings["activation"] = "identity"
    edges = [] if linear or graph.edge_attr is None else ["gine"]
    names = ["gcn", "sage"] if graph.ptr is None else ["gin", *edges]
    if not BACKBONES[point.choose("backbone", names)].includes_self:
        point.choose("self_loops", [False, True])


def _suggest_embedding(point: Point, method: str, many: bool) -> None:
    """The embedding's MLP, and phase 1 where there is one."""
    kind, trained = EMBEDDINGS[point.settings["embedding"]], METHODS[method].trained
    if trained or many or not kind.one_layer:  # one layer of GCN or SAGE has one weight
        point.choose("embedding_layers", [1, 2])
    if trained:
        return
    if method != "pretrained-embedding" and kind.trained != "with" and not kind.redrawn:
        point.choose("embedding_output", ["relu", "split"])
    if kind.trained == "before":
        point.size("pretrain_lr", 1e-3, 0.05)
        point.share("pretrain_dropout", 0.5 if many else 0.8)
        point.size("pretrain_weight_decay", 1e-7 if many else 1e-5, 1e-2 if many else 1e-1)
        point.choose("pretrain_epochs", [10, 30, 100] if many else [10, 50, 200])


def _suggest_outputs(point: Point, method: str, graph: Graph) -> None:
    """What the head sees of the layers, and how it is normalised."""
    given, trained = point.settings, METHODS[method].trained
    includes_self = BACKBONES[given["backbone"]].includes_self
    if includes_self:
        point.choose("factors", [1, 2, 3])
    width = graph.num_features
    if trained or EMBEDDINGS[given["embedding"]].mlp:
        width = given["hidden_channels"] * (2 if given.get("embedding_output") == "split" else 1)
    side_by_side = width * (given["num_layers"] + 1) <= WIDEST
    point.choose("jumping", ["last", "cat"] if side_by_side else ["last"])
    if not trained and given["head"] != "ridge":
        point.choose("standardize", [True, False])
    if (trained and includes_self) or given["head"] == "mlp":
        point.choose("batch_norm", [True, False])
