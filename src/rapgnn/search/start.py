"""What a graph starts from: before any search, and where there is none; what a user's settings imply."""

from typing import Any

import torch

from rapgnn.errors import InputError
from rapgnn.graph.backbones import BACKBONES
from rapgnn.graph.graph import Graph
from rapgnn.graph.relations import Types, Walk, as_walk, joined_walk
from rapgnn.network.config import Config, checked
from rapgnn.network.encode import EMBEDDINGS
from rapgnn.network.network import is_bound
from rapgnn.prng import Stream, seeded
from rapgnn.search.preset import PRESET
from rapgnn.sparse import SparseMatrix, nonnegative

MANY_GRAPHS = 20_000  # so many make an epoch of many steps
WIDE = 2 << 30  # bytes of n × c features beyond which they are embedded first
ROWS_PER_FEATURE = 2  # training rows per feature from which the head can weigh every layer for itself
WIDEST = 2048  # columns that the head may see of four layers side by side
DRAWN = {"embedding": "fixed-random", "embedding_output": "split", "head": "ridge", "ridge": None}
_MAPPED = {  # what only an embedding that maps the features has
    *("hidden_channels", "embedding_layers", "embedding_output"),
    *("pretrain_lr", "pretrain_weight_decay", "pretrain_dropout", "pretrain_epochs"),
}
# What may be set without asking for a head that is trained by gradient descent.
_SOLVED = {
    *("backbone", "num_layers", "jumping", "pooling", "self_loops", "eps", "rescale", "normalize_features"),
    *("ridge", "inference", "num_samples", "embedding", "activation", "scaling", "components"),
    *_MAPPED,
}
_TRAINED = {  # what only gradient descent has
    *("epochs", "lr", "lr_decay", "weight_decay", "dropout", "batch_size", "patience"),
    *("standardize", "head_layers", "batch_norm"),
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


def start_config(graph: Graph, trained: bool = False) -> Config:
    """What a graph of this kind starts from."""
    if graph.ptr is None:
        return Config()
    config = Config().update(backbone=graph_backbone(graph), **_GRAPHS)
    if trained:
        factors = 3 if config.backbone == "gine" else 2  # the paper: two hidden layers for OGB, one for TU
        config = config.update(factors=factors, **_TRAINED_GRAPHS)
    return config


HOPS = Config(
    coefficients="fixed",
    embedding="identity",
    normalize_features=False,
    num_layers=2,
    jumping="cat",
    head="ridge",
    ridge=None,
    standardize=True,
)
"""What points with fixed hops start from: the hops side by side, and a head that is solved."""
_OF_HOPS = {  # what only fixed coefficients have, and the values that random ones have too
    **dict.fromkeys(
        ("units", "unit_inputs", "unit_hops", "landmarks", "known_labels", "node_columns", "anchors"), (0,)
    ),
    "log_hops": (False,),
    "kernel": ("none",),
    "degree_columns": (False,),
    "half_life": (0.0,),
    "previous": (None,),
    "coefficients": ("random",),
    "jumping": ("last", "cat"),
    "edges": ("given",),
    "pooling": ("sum", "mean", "max"),
}


def base_of_points(graph: Graph, start: Config, fixed: dict[str, Any]) -> Config:
    """What points with random coefficients start from: a solved head on the features, unless a user asks for more."""
    mapped = fixed.get("embedding", "identity") != "identity" or not _MAPPED.isdisjoint(fixed)
    if wants_hops(fixed) or (wants_solution(start, fixed) and not mapped):
        return start.update(embedding="identity", head="ridge", ridge=None)
    return first_point(graph, start, fixed)


def wants_hops(fixed: dict[str, Any]) -> bool:
    """Whether a setting is one that only fixed coefficients have."""
    of_hops = any(name in fixed and fixed[name] not in values for name, values in _OF_HOPS.items())
    return of_hops or fixed.get("head") == "trees"


def check_settings(graph: Graph, start: Config, fixed: dict[str, Any]) -> None:
    """Refuse settings that contradict each other, or that the graph does not admit, before any work."""
    config = first_point(graph, start, fixed)
    if config.relations and graph.typed is None:
        raise InputError("relations are those of a graph with types, and this graph has none: leave them out.")
    leaks = config.relations and (config.backbone != "sage" or is_bound(config))
    if leaks and graph.typed is not None and graph.typed.clock is not None:
        raise InputError(
            "rows that are predicted as of a time need sage, without known_labels, node_columns and anchors."
        )
    if config.previous is not None:
        raise InputError("previous is a network that the search itself has tried: leave it out.")
    if config.components > graph.num_features and graph.typed is None:
        raise InputError(f"components must be at most the {graph.num_features} columns there are.")
    if graph.ptr is None:
        if config.coefficients == "colours":
            raise InputError("colours are counted in sets of graphs: leave them out for the nodes of one graph.")
        return
    for name in ("node_columns", "known_labels"):
        if getattr(config, name):
            raise InputError(f"{name} is for the nodes of one graph: leave it out for a set of graphs.")
    if config.edges != "given":
        raise InputError("edges of sets of graphs are taken as given: add the reverse ones to the data.")
    if config.jumping == "ppr":
        raise InputError("personalised PageRank is for the nodes of one graph: take last or cat for a set of graphs.")


def first_point(graph: Graph, start: Config, fixed: dict[str, Any], components: bool = True) -> Config:
    """The settings without a search, and where a search with fixed settings begins: what suits the kind of graph.

    The head is solved in closed form on the features as they are, or on components of wide ones, unless a setting asks
    for another head or another embedding. Nodes: four layers (two where the features are wide). The head sees every
    layer where there are enough training rows to weigh them, and else the last one alone, which averages over
    neighbours.

    Args:
        components: whether wide features may be replaced by components, which needs all of them in memory.
    """
    fixed = checked(fixed)
    if graph.typed is not None:
        drawn = {"jumping": "last", "num_layers": 2} if fixed.get("coefficients") == "random" else {}
        return HOPS.update(**typed_start(graph) | drawn | fixed)
    if wants_hops(fixed):
        of_sets = {} if graph.ptr is None else {"backbone": "gin", "num_layers": 3}
        changes = {"coefficients": "fixed"} | of_sets | fixed
        if BACKBONES[changes.get("backbone", "gcn")].includes_self:
            changes = {"self_loops": False} | changes
        return HOPS.update(**changes)
    settings: dict[str, Any] = {"ridge": None}  # a penalty that is not given is chosen
    width = graph.num_features
    solved = wants_solution(start, fixed)
    if solved and components and graph.ptr is None and width > PRESET.narrow and "components" not in fixed:
        settings["components"] = width = min(PRESET.components, width)
    if graph.ptr is None:
        settings |= _layers(graph, width)
    if solved:
        mapped = not _MAPPED.isdisjoint(fixed)
        if fixed["embedding"] != "identity" if "embedding" in fixed else mapped:
            settings |= {"embedding": usual_embedding(graph), "head": "ridge"}
        elif graph.edge_attr is not None and fixed.get("backbone", start.backbone) == "gine":
            settings |= DRAWN
        else:
            settings |= linear_settings(graph) | {"normalize_features": False}
        if graph.edge_weight is not None and not nonnegative(graph.edge_weight):
            settings["activation"] = "identity"
    else:
        settings["embedding"] = usual_embedding(graph)
    changes = settings | fixed
    signed = not nonnegative(graph.x) or changes.get("components", 0) or changes.get("scaling") == "standard"
    return start.update(**(suited(bool(solved and signed), start, changes) | fixed))


def _layers(graph: Graph, width: int) -> dict[str, Any]:
    if len(graph.train) < ROWS_PER_FEATURE * width:
        return {"num_layers": 4, "jumping": "last", "self_loops": True}
    return {"num_layers": 4 if 5 * width <= WIDEST else 2, "jumping": "cat"}


def wants_solution(start: Config, fixed: dict[str, Any]) -> bool:
    """Whether these settings leave the head to the closed form, which needs the exact mean and variance."""
    if "head" in fixed:
        return fixed["head"] == "ridge"
    kind = EMBEDDINGS[fixed.get("embedding", "identity")]
    if kind.redrawn or kind.trained == "with" or fixed.get("embedding_output") == "none":
        return False
    others = {name: value for name, value in fixed.items() if name not in _SOLVED}
    return fixed.get("activation", "relu") in ("relu", "identity") and all(
        name not in _TRAINED and value == getattr(start, name) for name, value in others.items()
    )


def linear_settings(graph: Graph) -> dict[str, Any]:
    """The cheapest embedding there is, with a head in closed form."""
    if 4 * graph.num_nodes * graph.num_features > WIDE:
        return dict(DRAWN)
    return {"embedding": "identity", "head": "ridge", "ridge": None}


def suited(signed: bool, base: Config, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with what follows from them and from the features' signs."""
    identity = settings.get("embedding", base.embedding) == "identity"
    if identity and "activation" not in settings and signed:
        settings = settings | {"activation": "identity"}  # linear layers, where the shortcut is exact for any sign
    if settings.get("backbone") not in (None, "gcn"):
        settings = {key: value for key, value in settings.items() if key != "self_loops"}
    return settings


def graph_backbone(graph: Graph) -> str:
    """GINE where edges have features, as the paper has it for OGB; it leaves those of the TU datasets out."""
    return "gine" if graph.edge_attr is not None and not graph.folds else "gin"


def usual_embedding(graph: Graph) -> str:
    """One layer of the backbone where edges have features, as the paper has it for OGB; an MLP elsewhere."""
    return "pretrained-gnn" if graph.ptr is not None and graph_backbone(graph) == "gine" else "pretrained"


# Graphs with types: what is walked with, and over which relations.


def columns_of(graph: Graph) -> list[dict[str, Any]]:
    """What may be walked with: features of every type, how many neighbours nodes have, and where they are."""
    types = graph.typed
    assert types is not None
    words = any(isinstance(x, SparseMatrix) and x.shape[1] > PRESET.few_words for x in types.features.values())
    components = min(PRESET.type_components, max(8, PRESET.most_numbers // max(1, types.num_nodes)))
    columns = {"components": components, "degree_columns": not words}
    found = [columns | {"scaling": scaling} for scaling in (("tfidf", "length") if words else ("standard",))]
    known = types.clock is None and types.num_edges <= PRESET.placed_edges
    places = [found[0] | {"node_columns": count} for count in (PRESET.places if known else ())]
    return places + found if len(types.features) < len(types.counts) else found + places


def walks(types: Types) -> list[Walk]:
    """All relations together, then every chain of them; random subsets where there are many."""
    every = tuple(key for pair in types.pairs for key in pair)
    found = [every, *types.chains[: PRESET.chains]]
    if len(types.pairs) > PRESET.chains:
        generator = seeded(0, Stream.RANDOM_NET)
        for _ in range(PRESET.subsets):
            taken = (torch.rand(len(types.chains), generator=generator) < 0.5).tolist()
            found.append(joined_walk([chain for chain, yes in zip(types.chains, taken, strict=True) if yes]))
    return [walk for walk in dict.fromkeys(found) if walk]


def typed_start(graph: Graph) -> dict[str, Any]:
    """Where a search begins, and all there is without one: every relation, by personalised PageRank."""
    assert graph.typed is not None
    types = graph.typed
    if not types.pairs:  # nothing to walk: the rows by themselves
        return {}
    shape = {"backbone": "gcn" if types.clock is None else "sage", "jumping": "ppr", "num_layers": 8}
    return columns_of(graph)[0] | shape | {"relations": as_walk(walks(types)[0]), "standardize": False}
