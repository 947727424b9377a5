"""What a search may choose: two spaces by name, each a function from a trial of Optuna to settings of ``Config``.

"faithful" is the paper's three tables of hyperparameters in full, its architecture and its inference. What the tables
do not state is fixed as in the examples that the paper builds on (PyTorch Geometric's, OGB's), or, where these leave a
choice that matters, searched and named here: weight decay, the length of phase 1, self-loops, whether features are
normalised, whether h⁰ passes a ReLU, the signed distribution of full random weights, and whether a GIN layer, random
or the embedding, has one weight or as many as its MLP. So is what the paper says in two ways: the embedding is "an MLP
or a single GNN layer" (Section 3.1), on the citation graphs an MLP (Appendix E.2). On OGB's molecules so are the
pooling, by the mean in OGB's example where nothing is set, and whether the classifier sees dropout, which it does not
there. "any" fits any graph.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rapgnn import Graph, InputError
from rapgnn.graph.backbones import BACKBONES
from rapgnn.network.encode import EMBEDDINGS
from rapgnn.search.start import MANY_GRAPHS
from rapgnn.sparse import nonnegative
from rapgnn_lab.baselines.systems import METHODS
from rapgnn_lab.store import packaged
from rapgnn_lab.tuned import FAITHFUL

ANY = "any"
SPACES = (ANY, FAITHFUL)
PATIENCE = 50  # epochs on molecules, where an epoch is expensive: layers are trained, or there are many graphs
GRAPH_EPOCHS = 200
Pair = tuple[float, float]
# By whether there are many graphs: weight decay, and dropout and weight decay of phase 1.
DECAY: dict[bool, Pair] = {False: (1e-6, 1e-1), True: (1e-7, 1e-2)}
PHASE1: dict[bool, tuple[Pair, Pair]] = {False: ((0.0, 0.8), (1e-5, 1e-1)), True: ((0.0, 0.5), (1e-7, 1e-2))}
WIDEST = 2048  # channels that the head sees when every layer's output stands side by side
ALONE = "pretrained-embedding"  # the method without layers: phase 1 has its own head
MOST_STORED = 1 << 24  # training rows × features up to which the features may pass unchanged


@dataclass(frozen=True)
class Table:
    """One column of the paper's tables; intervals as pairs, sets as tuples.

    ``factors`` are the linear maps in a GIN layer's MLP: one hidden layer for TU, two for OGB; 1 elsewhere. ``signed``:
    whether an h⁰ with signs is searched too; it goes layer by layer, which on PROTEINS takes ten minutes a trial, and
    OGB's embedding is a layer like all others, and these end with σ.
    """

    embedding_layers: tuple[int, ...]
    num_layers: tuple[int, ...]
    hidden_channels: tuple[int, ...]
    epochs: tuple[int, ...]
    lr: Pair
    dropout: Pair
    batch_size: tuple[int | None, ...] = (None,)
    head_layers: tuple[int, ...] = (1,)
    factors: int = 1
    signed: bool = True
    embeddings: tuple[str, ...] = ("pretrained",)
    pooling: tuple[str, ...] = ("sum",)


TABLES = {dataset: Table(**row) for dataset, row in packaged("tune/tables.toml").items()}
_LINEAR = {"embedding": "learnable", "embedding_layers": 1, "embedding_output": "none", "activation": "identity"}
VARIANTS: dict[str, dict[str, Any]] = {"learnable-linear": _LINEAR}
"""Embeddings past the paper's five, by what they fix: a linear one trains at the shortcut's cost."""


class Point:
    """The settings of one trial, filled in one after another."""

    def __init__(self, trial: Any, **settings: Any):
        self.trial, self.settings = trial, settings

    def choose(self, name: str, options: Sequence[Any]) -> Any:
        """One of the options; where there is but one, the trial is not asked."""
        only = len(options) == 1
        self.settings[name] = options[0] if only else self.trial.suggest_categorical(name, list(options))
        return self.settings[name]

    def size(self, name: str, low: float, high: float) -> None:
        self.settings[name] = self.trial.suggest_float(name, low, high, log=True)

    def training(self, lr: Pair, dropout: Pair, decay: Pair, phase: str = "") -> None:
        """How a phase trains; ``"pretrain_"`` is phase 1."""
        self.size(f"{phase}lr", *lr)
        self.settings[f"{phase}dropout"] = self.trial.suggest_float(f"{phase}dropout", *dropout)
        self.size(f"{phase}weight_decay", *decay)


def is_slow(method: str, embedding: str) -> bool:
    """Whether every epoch walks through the graph: there is no shortcut, and no ridge head."""
    kind = EMBEDDINGS[embedding]
    return METHODS[method].trained or method == "random-full" or kind.trained == "with" or kind.redrawn


def suggest_faithful(trial: Any, method: str, embedding: str | None, graph: Graph) -> dict[str, Any]:
    """One point of the paper's tables; the embedding is theirs, or a name from ``EMBEDDINGS`` or ``VARIANTS``."""
    if graph.name not in TABLES:
        raise InputError(f"the paper has no search space for {graph.name}: its datasets are {', '.join(TABLES)}.")
    table, many, trained = TABLES[graph.name], graph.ptr is not None, METHODS[method].trained
    ogb = many and "pretrained" not in table.embeddings
    point = Point(trial, inference="sample", jumping="last", normalize_features=False)
    # End-to-end training has an embedding of its own, which the other strategies' names do not change.
    name = point.choose("embedding", [embedding] if embedding else table.embeddings[: 1 if trained else None])
    variant = VARIANTS.get(name, {"embedding": name})
    kind = EMBEDDINGS[variant["embedding"]]
    point.choose("pooling", table.pooling)
    point.settings["patience"] = PATIENCE if ogb and (trained or len(graph.train) > MANY_GRAPHS) else None
    # Weights are drawn anew in every pass, and one pass of an epoch scores all nodes, as in the examples: so the test
    # rows are scored by the draw that was best on validation. Folds have validation rows alone.
    if method in ("rap", "random-full") and not graph.folds:
        point.settings["keep_draw"] = True
    point.choose("hidden_channels", table.hidden_channels)
    if not kind.one_layer:
        point.choose("embedding_layers", table.embedding_layers)
    elif many and not trained:  # a layer of GIN has an MLP, one of GCN one weight
        point.settings["embedding_layers"] = trial.suggest_categorical("embedding_factors", [1, table.factors])
    point.choose("epochs", table.epochs)
    if many:
        point.choose("batch_size", table.batch_size)
    else:
        point.choose("normalize_features", [False, True])
    if not trained and kind.trained == "before":
        # The paper has one learning rate and one dropout for both phases; its length of phase 1 is not stated.
        point.training(table.lr, table.dropout, DECAY[many], "pretrain_")
        point.choose("pretrain_epochs", [100, 350] if many else [10, 50, 200])
    if not trained and kind.mlp:
        point.choose("embedding_output", ["relu", "none"] if table.signed else ["relu"])
    if method == ALONE:
        return point.settings | variant
    point.choose("num_layers", table.num_layers)
    if many:
        # The paper's equation has one weight in a random layer, its text allows as many as the layer's MLP has.
        point.choose("factors", [table.factors] if trained else [1, table.factors])
        point.settings["batch_norm"] = trained  # OGB's and PyG's layers have it; nothing normalises random ones
    else:
        point.choose("self_loops", [False, True])
    layers = point.choose("head_layers", table.head_layers)
    point.settings["head"] = "linear" if layers == 1 else "mlp"
    point.training(table.lr, table.dropout, DECAY[many])
    if ogb and not trained and not trial.suggest_categorical("head_dropout", [True, False]):
        point.settings["dropout"] = 0.0
    if METHODS[method].settings.get("structure") == "full":
        point.settings["structure"] = "full"
        point.choose("distribution", ["glorot", "linear"])
    return point.settings | variant


def suggest(trial: Any, method: str, embedding: str | None, space: str, graph: Graph) -> dict[str, Any]:
    return (suggest_any if space == ANY else suggest_faithful)(trial, method, embedding, graph)


def suggest_any(trial: Any, method: str, embedding: str | None, graph: Graph) -> dict[str, Any]:
    """Embedding, backbone, depth, head and training for whatever the graph is; only what counts is asked for."""
    point, many, trained = Point(trial), graph.ptr is not None, METHODS[method].trained
    name = point.choose("embedding", [embedding] if embedding else embeddings(method, graph))
    kind, slow = EMBEDDINGS[name], is_slow(method, name)
    mlp = trained or kind.mlp
    alone = method == ALONE
    if many or kind.one_layer or not alone:
        if needs_linear_layers(method, name, graph):
            point.settings["activation"] = "identity"
        edges = [] if "activation" in point.settings or graph.edge_attr is None else ["gine"]
        if not BACKBONES[point.choose("backbone", ["gin", *edges] if many else ["gcn", "sage"])].includes_self:
            point.choose("self_loops", [False, True])
    if many:
        sizes = [size for size in (32, 128, 512) if size < len(graph.train)]
        point.choose("batch_size", sizes or [None])
        point.choose("pooling", ["sum", "mean"])
    else:
        point.choose("normalize_features", [True, False])
    head = "linear" if alone else point.choose("head", ["linear", "mlp"] + ([] if slow else ["ridge"]))
    if mlp or head == "mlp":
        point.choose("hidden_channels", [32, 64, 128, 256] if many or slow else [64, 128, 256, 512])
    if trained or (kind.mlp and (many or not kind.one_layer)):  # one layer of GCN or SAGE has one weight
        point.choose("embedding_layers", [1, 2])
    if not trained and kind.mlp and not alone and kind.trained != "with" and not kind.redrawn:
        point.choose("embedding_output", ["relu", "split"])
    if not trained and kind.mlp and kind.trained == "before":
        point.training((1e-3, 0.05), *PHASE1[many], "pretrain_")
        point.choose("pretrain_epochs", [10, 30, 100] if many else [10, 50, 200])
    if alone:
        return point.settings
    most = 6 if many else 8 if slow else 32
    layers = point.settings["num_layers"] = trial.suggest_int("num_layers", 1, most, log=True)
    includes_self = BACKBONES[point.settings["backbone"]].includes_self
    if includes_self:
        point.choose("factors", [1, 2, 3])
    split = 2 if point.settings.get("embedding_output") == "split" else 1
    width = split * point.settings["hidden_channels"] if mlp else graph.num_features
    point.choose("jumping", ["last", "cat"] if width * (layers + 1) <= WIDEST else ["last"])
    if not trained and head != "ridge":
        point.choose("standardize", [True, False])
    if (trained and includes_self) or head == "mlp":
        point.choose("batch_norm", [True, False])
    if head == "ridge":
        point.size("ridge", 1e-6, 1e2)
        return point.settings
    if head == "mlp":
        point.choose("head_layers", [2, 3])
    if many:
        # Many batches make an epoch of many steps, and one through trained layers is expensive.
        less = (4 if len(graph.train) > MANY_GRAPHS else 1) * (2 if trained else 1)
        point.settings |= {"epochs": GRAPH_EPOCHS // less, "patience": 40}
        point.training((5e-4, 0.05), (0.0, 0.6), (1e-7, 1e-2))
    else:
        point.settings |= {"epochs": 500, "patience": 100}
        point.training((5e-4, 0.1), (0.0, 0.8), (1e-7, 1e-1))
    return point.settings


def embeddings(method: str, graph: Graph) -> list[str]:
    """The embeddings to try: end-to-end trains its own, and phase 1 alone must have one to train."""
    if METHODS[method].trained:
        return ["pretrained"]
    before = [name for name, kind in EMBEDDINGS.items() if kind.trained == "before"]
    if method == ALONE:
        return before
    c, rows = graph.num_features, len(graph.train)
    fits = rows * c <= MOST_STORED and min(rows, c) <= WIDEST  # the hops in memory, and the ridge head's equations
    return [*before, "fixed-random", *(["identity"] if fits else [])]


def needs_linear_layers(method: str, embedding: str, graph: Graph) -> bool:
    """Whether only linear layers keep the shortcut exact in spite of negative numbers."""
    if METHODS[method].trained or METHODS[method].settings.get("structure") == "full":
        return False  # trained layers need no shortcut, and full matrices have none
    signed = not EMBEDDINGS[embedding].mlp and not nonnegative(graph.x)
    return signed or (graph.edge_weight is not None and not nonnegative(graph.edge_weight))
