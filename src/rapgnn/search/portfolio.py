"""What the estimators try, in order of promise: points of ``Config``, and the condition under which each is tried.

``PORTFOLIO`` is the table. A stage sees the configurations that were best so far, best first. What a user has fixed
constrains every point (``constrained``); a point that does not have such a setting is left out.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import torch

from rapgnn.errors import InputError
from rapgnn.graph.backbones import BACKBONES
from rapgnn.graph.graph import Graph
from rapgnn.network.config import Config
from rapgnn.network.encode import EMBEDDINGS
from rapgnn.network.network import is_bound
from rapgnn.search.costs import joined_width
from rapgnn.search.preset import PRESET
from rapgnn.search.start import DRAWN, HOPS, linear_settings, suited
from rapgnn.search.typed import beside_points, walk_points
from rapgnn.sparse import Features, SparseMatrix, nonnegative

WALKS = (("gcn", True), ("sage", False))  # S symmetric with self-loops, and the random walk
AS_GIVEN = "none", 0  # scaling and components of features that are taken as they are


@dataclass(frozen=True)
class Stage:
    """Points that are tried together.

    Args:
        points: (graph, base, the best configurations so far) -> configurations.
        share: which part of the cost they may take: ``filters``, ``rest``, or, of what is ``left``, anything.
        single: True: for single graphs alone; False: for sets of graphs alone; None: for both.
        typed: whether it is for graphs with types, and for no others.
        idle: after how many in a row that do not make the average better the rest is left out; 0: none is.
    """

    points: Callable[[Graph, Config, Sequence[Config]], Iterator[Config]]
    share: str = "rest"
    single: bool | None = None
    typed: bool = False
    idle: int = 0

    def suits(self, graph: Graph) -> bool:
        """Whether it is for such a graph."""
        return self.single in (None, graph.ptr is None) and self.typed == (graph.typed is not None)


# Random coefficients, and linear filters of scaled features.


def random_points(graph: Graph, base: Config, best: Sequence[Config]) -> Iterator[Config]:
    """RAP-GNN with a head in closed form; with another head, or an embedding, where what is fixed asks for it."""
    if base.head != "ridge" or EMBEDDINGS[base.embedding].mlp:
        nodes = (("gcn", 4, "last"), ("gcn", 2, "last"), ("gcn", 8, "last"), ("sage", 2, "last"))
        sets = (("gin", 3, "cat"), ("gin", 3, "last"), ("gin", 2, "cat"))
        for backbone, depth, jumping in nodes if graph.ptr is None else sets:
            shape = {"backbone": backbone, "num_layers": depth, "jumping": jumping, "self_loops": backbone == "gcn"}
            if BACKBONES[base.backbone].edges == BACKBONES[backbone].edges:
                yield base.update(**shape)
        return
    if graph.ptr is None:
        linear = {"embedding": "identity", "head": "ridge", "activation": "identity", "normalize_features": False}
        shapes = (("gcn", 4, "last"), ("gcn", 8, "last"), ("sage", 2, "last"), ("gcn", 2, "cat"))
        tried = list(product(shapes, scalings(graph)))
        if len(graph.train) >= PRESET.many_rows:  # hops side by side are wide, and one scaling has been better
            tried = [(shape, best_scaling(graph, best)) for shape in shapes if shape[2] != "cat"]
        for (backbone, depth, jumping), (scaling, components) in tried:
            shape = {"backbone": backbone, "num_layers": depth, "jumping": jumping, "self_loops": backbone == "gcn"}
            yield base.update(**linear, **shape, scaling=scaling, components=components)
        return
    shapes = [
        linear_settings(graph) | {"backbone": "gin", "num_layers": 3, "jumping": "cat", "pooling": pooling}
        for pooling in ("sum", "mean")
    ]
    if graph.edge_attr is not None:
        shapes.append(DRAWN | {"backbone": "gine", "num_layers": 3, "jumping": "cat", "pooling": "sum"})
    for shape in shapes:
        yield base.update(**suited(not nonnegative(graph.x), base, shape))


def scalings(graph: Graph) -> tuple[tuple[str, int], ...]:
    """(scaling, components) of a single graph's features: narrow ones are standardised, of wide ones components."""
    if graph.num_features <= PRESET.narrow:
        return (("standard", 0),)
    few = PRESET.components
    many = len(graph.train) >= PRESET.many_rows or graph.num_features <= 2 * few
    components = min(2 * few if many else few, graph.num_features)
    if nonnegative(graph.x):  # what is no count has its weights already
        return ("length", components), ("tfidf" if _whole(graph.x) else "none", components)
    return ("length", components), ("standard", components)


def best_scaling(graph: Graph, best: Sequence[Config]) -> tuple[str, int]:
    """(scaling, components) of the best configuration so far that has one of the usual ones; else the first."""
    usual = scalings(graph)
    return next((one for config in best if (one := (config.scaling, config.components)) in usual), usual[0])


def filter_points(graph: Graph, base: Config, best: Sequence[Config]) -> Iterator[Config]:
    """Linear filters of a single graph: what is done to the features, and how they are propagated."""
    narrow, directed = graph.num_features <= PRESET.narrow, is_directed(graph)
    one_way = "undirected" if directed else "given"
    if graph.encoding is not None and graph.encoding.kind == "structural":
        for (jumping, depth), (backbone, loops) in product((("last", 3), ("ppr", 8), ("cat", 3)), WALKS):
            walk = {"backbone": backbone, "self_loops": loops, "edges": one_way, "num_layers": depth}
            yield HOPS.update(node_columns=PRESET.node_columns, jumping=jumping, standardize=False, **walk)
    shapes = (("last", 2), ("ppr", 8), ("last", 4), ("cat", 2), ("cat", 4))
    tried = list(product(shapes, scalings(graph), WALKS))
    if not narrow and len(graph.train) >= PRESET.many_rows:
        # Hops side by side are wide: only the best are tried, as probes. A last hop of the walk forgets the node.
        fine = {("ppr", walk) for walk in WALKS} | {("last", WALKS[0])}
        tried = [point for point in tried if (point[0][0], point[2]) in fine]
    if narrow:
        tried += [(("ppr", 8), AS_GIVEN, WALKS[0]), (("last", 2), AS_GIVEN, WALKS[0]), (("cat", 1), AS_GIVEN, WALKS[1])]
    for (jumping, hops), (scaling, components), (backbone, loops) in tried:
        yield HOPS.update(
            scaling=scaling,
            components=components,
            degree_columns=narrow,
            backbone=backbone,
            self_loops=loops,
            edges="both" if directed and jumping == "cat" else one_way,
            num_layers=hops,
            jumping=jumping,
            standardize=scaling == "standard" and narrow,
        )


def far_points(graph: Graph, base: Config, best: Sequence[Config]) -> Iterator[Config]:
    """Where labels are scarce, personalised PageRank over more hops."""
    if scarce_labels(graph):
        depth, teleport = PRESET.far
        for net in [net for net in hop_points(best) if net.jumping == "ppr"][:4]:
            yield net.update(num_layers=depth, teleport=teleport)


def set_points(graph: Graph, base: Config, best: Sequence[Config]) -> Iterator[Config]:
    """Sets of graphs: random layers, random features of hops, counts of colours."""
    buckets = next((b for b in PRESET.buckets if 16 * b * graph.num_rows <= PRESET.count_bytes), None)
    start = HOPS.update(degree_columns=True, backbone="gin", num_layers=3)
    expanded = start.update(log_hops=True, units=512)
    deep = start.update(coefficients="layers", num_layers=4, width=128)
    for config in (start, deep, expanded, deep.update(activation="tanh"), expanded.update(unit_inputs=4)):
        for pooling in ("log", "sum", "mean"):
            yield config.update(pooling=pooling)
        if config is start and buckets is not None:
            for depth, pooling in ((3, "log"), (5, "log")):
                colours = {"coefficients": "colours", "width": buckets, "standardize": False}
                yield HOPS.update(num_layers=depth, pooling=pooling, **colours)


def larger_points(graph: Graph, base: Config, best: Sequence[Config]) -> Iterator[Config]:
    """Larger ones of the best networks of a set of graphs."""
    larger: dict[Config, None] = {}
    for net in hop_points(best)[:3]:
        if net.coefficients == "layers":
            larger |= {net.update(width=256): None, net.update(width=256, num_layers=2): None}
        elif net.units:
            larger |= {net.update(units=2048): None, net.update(units=1024, num_layers=5): None}
        elif net.coefficients != "colours":
            larger |= {net.update(num_layers=6): None}
    yield from larger


def is_directed(graph: Graph) -> bool:
    """Whether some edge of a single graph has no reverse."""
    edges = graph.edge_index
    there, back = (torch.unique(pair[0] * graph.num_nodes + pair[1]) for pair in (edges, edges.flip(0)))
    return not torch.equal(there, back)


def scarce_labels(graph: Graph) -> bool:
    """Whether most nodes of a single graph are far from any training row."""
    return graph.ptr is None and graph.num_nodes >= PRESET.scarce * max(1, len(graph.train))


def hop_points(best: Sequence[Config]) -> list[Config]:
    """Those with fixed hops, random layers or colours."""
    return [config for config in best if config.coefficients != "random"]


def _whole(x: Features) -> bool:
    values = x.values if isinstance(x, SparseMatrix) else x
    return bool((values == values.round()).all())


# Heads that compare graphs: the best representations so far, each seen by how alike it is to training graphs.


def kernel_points(graph: Graph, base: Config, best: Sequence[Config]) -> Iterator[Config]:
    """Kernels on the best network of each kind, and on the next best of all."""
    if len(graph.train) < PRESET.few_rows:
        return
    nets, kinds = hop_points(best), dict[tuple[Any, ...], Config]()
    for net in nets:
        kinds.setdefault((net.coefficients, net.units > 0), net)
    chosen = list(kinds.values())
    chosen += [net for net in nets if net not in chosen][:1]
    kernels = (("gauss", False), ("laplace", False))
    if graph.objective.metric == "rmse":  # numbers may lie beyond those of the training graphs
        kernels = (("gauss", False), ("gauss", True), ("laplace", True))
    for net in chosen:
        for kernel, trend in kernels:
            yield net.update(kernel=kernel, trend=trend, landmarks=min(PRESET.landmarks, len(graph.train)))


def further_kernel_points(graph: Graph, base: Config, best: Sequence[Config]) -> Iterator[Config]:
    """The best kernel over a shorter and a longer distance, and with more landmarks."""
    net = next((net for net in best if net.landmarks), None)
    if net is None:
        return
    for bandwidth in PRESET.bandwidths:
        yield net.update(bandwidth=bandwidth)
    if len(graph.train) > net.landmarks:
        yield net.update(landmarks=min(PRESET.most_landmarks, len(graph.train)))


# Heads that are not linear in the features of a single graph: what they see, random features of it, trained layers.


def can_train(graph: Graph) -> bool:
    """Whether there are rows enough to train a head on, and to stop it by."""
    return len(graph.train) >= PRESET.few_rows and len(graph.val) >= PRESET.enough_validation


def knows_labels(graph: Graph) -> bool:
    """Whether so many nodes of a single graph have a label that neighbours' labels say something about a node."""
    labelled = len(graph.train) >= max(PRESET.few_rows, PRESET.labelled * graph.num_nodes)
    if graph.typed is not None and graph.typed.clock is not None:  # when a label is known is not said
        return False
    return graph.ptr is None and labelled and graph.num_outputs <= PRESET.most_outputs


def trained(graph: Graph, net: Config, **settings: Any) -> Config:
    """The same network with a head that is trained."""
    epochs = max(PRESET.least_epochs, min(150, PRESET.steps * PRESET.batch // max(1, len(graph.train))))
    steps = {"lr": PRESET.learning_rate, "weight_decay": PRESET.weight_decay, "batch_size": PRESET.batch}
    steps |= {
        "lr_decay": True,
        "epochs": epochs,
        "patience": PRESET.patience,
        "hidden_channels": PRESET.hidden,
        "dropout": 0.0,
    }
    return net.update(head="mlp", ridge=1.0, **(steps | settings))


def many_columns(graph: Graph, net: Config) -> bool:
    """Whether features have so many columns, none of them left out, that those that hardly vary should stay quiet."""
    return graph.num_features > PRESET.covered and not net.components


def as_given(net: Config) -> Config:
    """The same network on features whose columns keep their size."""
    return net.update(scaling="none", standardize=False)


@dataclass(frozen=True)
class Views:
    """What a head may see of a node: hops, hops and known labels, or the node's own features alone.

    Args:
        walks: the propagations that were best, all their hops side by side.
        order: (whether hops, how many of labels), what was best to see first.
    """

    walks: list[Config]
    order: list[tuple[bool, int]]

    @classmethod
    def of(cls, graph: Graph, best: Sequence[Config]) -> "Views":
        free = [net for net in hop_points(best) if not net.node_columns]
        both = "both" if any(net.edges != "given" for net in free) else "given"  # the filters have looked
        bare: dict[str, Any] = {name: getattr(HOPS, name) for name in _HEAD}
        bare |= {"jumping": "cat", "teleport": HOPS.teleport, "edges": both, "units": 0, "unit_inputs": 0}
        bare |= {"unit_hops": 0, "known_labels": 0, "previous": None, "kernel": "none", "landmarks": 0}
        walks: dict[Config, Config] = {}
        for net in free:
            depth = net.num_layers if net.jumping == "cat" else 2
            if depth:
                walks.setdefault(net.update(**bare, num_layers=2), net.update(**bare, num_layers=max(2, depth)))
        seen = dict.fromkeys((net.num_layers > 0, net.known_labels) for net in free)
        rest = [(False, 0), (True, 0), *([(True, PRESET.label_hops)] if knows_labels(graph) else [])]
        return cls(list(walks.values())[:2], list(dict.fromkeys([*seen, *rest])))

    def see(self, walk: Config, view: tuple[bool, int], **more: Any) -> Config:
        """A network that sees this."""
        hops, known = view
        return walk.update(**({"known_labels": known} | ({} if hops else {"num_layers": 0, "edges": "given"}) | more))


_HEAD = (
    *("head", "ridge", "standardize", "dropout", "hidden_channels"),
    *("lr", "lr_decay", "weight_decay", "epochs", "patience", "batch_size"),
)


def probe_points(graph: Graph, base: Config, best: Sequence[Config]) -> Iterator[Config]:
    """Solved heads that tell what one that is not linear should see; a linear one where there are many columns."""
    views, nets = Views.of(graph, best), hop_points(best)
    if len(graph.train) < PRESET.few_rows or not views.walks:
        return
    if nets[0].node_columns and knows_labels(graph):
        yield nets[0].update(known_labels=PRESET.label_hops)
    first = views.walks[0]
    for view in views.order:
        if not first.components and not many_columns(graph, first):
            yield views.see(first, view, units=512, unit_inputs=4)
        else:
            yield views.see(first, view)
    if knows_labels(graph):
        yield first.update(known_labels=PRESET.label_hops)
        if first.components:
            yield _far(first, known_labels=PRESET.label_hops)


def tree_points(graph: Graph, base: Config, best: Sequence[Config]) -> Iterator[Config]:
    """Boosted trees on the hops of few columns, each of which means something, of few classes."""
    views, few = Views.of(graph, best), 0 < graph.num_features <= PRESET.covered
    if views.walks and few and len(graph.train) >= PRESET.many_rows and graph.num_outputs <= PRESET.tree_outputs:
        yield views.see(views.walks[0], views.order[0], head="trees", num_layers=2)


def first_head_points(graph: Graph, base: Config, best: Sequence[Config]) -> Iterator[Config]:
    """The first of the trained heads."""
    yield from islice(head_points(graph, base, best), 1)


def head_points(graph: Graph, base: Config, best: Sequence[Config]) -> Iterator[Config]:
    """Trained heads: on what was best to see, then on the rest."""
    views = Views.of(graph, best)
    if not can_train(graph) or not views.walks:
        return
    first = views.walks[0]
    for view in views.order[: PRESET.head_views]:
        if first.components and view[0]:
            yield trained(graph, _far(first, components=_wider(graph, first), known_labels=view[1]), dropout=0.5)
            if view != views.order[0]:
                continue
        head = trained(graph, views.see(first, view), dropout=0.2 if view[0] else 0.0)
        if view == views.order[0] and many_columns(graph, first):
            yield as_given(head)
        yield head
        if view[0] and first.num_layers > 2:
            yield trained(graph, views.see(first, view, num_layers=2), dropout=0.2)


def expanded_points(graph: Graph, base: Config, best: Sequence[Config]) -> Iterator[Config]:
    """Further heads that are not linear in the hops: random features of them, and trained layers."""
    views = Views.of(graph, best)
    if len(graph.train) < PRESET.few_rows or not views.walks:
        return
    known, trains = next(known for hops, known in views.order if hops), can_train(graph)
    for start in [walk.update(known_labels=known) for walk in views.walks]:
        if start.components:
            wide = _far(start, components=_wider(graph, start))
            if wide.components > start.components:
                yield wide
            if trains:
                yield trained(graph, wide, dropout=0.5)
            continue
        deep = start.update(units=256, unit_inputs=4, unit_hops=2)
        yield deep
        if trains:
            yield trained(graph, start, num_layers=4)
            yield trained(graph, start, num_layers=4, dropout=0.4)
            yield trained(graph, deep, dropout=0.2)
            yield trained(graph, start, dropout=0.4)


def _far(walk: Config, **more: Any) -> Config:
    """The same propagation over eight hops, by personalised PageRank."""
    far = {"jumping": "ppr", "num_layers": 8, "edges": _one_way(walk), "standardize": False}
    return walk.update(**(far | more))


def _one_way(walk: Config) -> str:
    return "undirected" if walk.edges == "both" else walk.edges


def _wider(graph: Graph, walk: Config) -> int:
    """More components, where there are rows enough for them."""
    many = len(graph.train) >= PRESET.many_rows
    return min(PRESET.most_components, graph.num_features) if many else walk.components


def typed_head_points(graph: Graph, base: Config, best: Sequence[Config]) -> Iterator[Config]:
    """Heads that are not linear in the hops over relations, where there are rows enough: random features, an MLP."""
    nets = [net for net in hop_points(best) if net.head == "ridge"]
    if len(graph.train) < PRESET.few_rows or not nets:
        return
    chosen = list(dict.fromkeys([nets[0], next((net for net in nets if net.jumping == "cat"), nets[0])]))
    for net in chosen:
        yield net.update(units=512, unit_inputs=4, standardize=True)
        if can_train(graph):
            yield trained(graph, net, dropout=0.2, standardize=True)
            yield trained(graph, net, dropout=0.5, standardize=True)
        yield net.update(units=1024, standardize=True)
    if joined_width(graph, chosen[-1]) <= PRESET.narrow:
        yield chosen[-1].update(head="trees")


def may_come_before(config: Config, typed: bool) -> bool:
    """Whether another network may see what this one predicts for the neighbours."""
    if typed:
        return bool(config.relations and config.previous is None and not config.known_labels)
    return config.previous is None and not is_bound(config)


def second_points(graph: Graph, first: Config) -> Iterator[Config]:
    """What a network predicts for the neighbours, beside the hops: points whose ``previous`` is that network."""
    shape = {name: getattr(HOPS, name) for name in (*_HEAD, "jumping", "teleport")}
    shape |= {"num_layers": 1, "units": 0, "unit_inputs": 0, "unit_hops": 0, "backbone": "sage", "self_loops": False}
    shape |= {"kernel": "none", "landmarks": 0, "anchors": 0}
    shape["standardize"], shape["known_labels"] = first.standardize, PRESET.label_hops if knows_labels(graph) else 0
    shape["num_layers"] = 1 if graph.typed is None else 2
    start = first.update(**shape, previous=first, edges="given" if first.edges == "both" else first.edges)
    head = trained(graph, start, dropout=0.2)
    # Of many columns a linear look says least, so it comes last.
    for config in (as_given(head), start) if many_columns(graph, start) else (start, head):
        if can_train(graph) or config.head == "ridge":
            yield config


# Self-training: heads that are solved on all nodes of a graph for what the average so far says of them. Few training
# rows tell little about the features of the many nodes without a label; their propagated predictions do.


def can_self_train(graph: Graph) -> bool:
    """Whether most nodes of a single graph have no label that counts, and validation rows can judge."""
    if graph.typed is not None and graph.typed.clock is not None:  # rows of the future would teach those before them
        return False
    classes = graph.ptr is None and graph.y.dim() == 1 and graph.objective.metric == "accuracy"
    return classes and len(graph.val) >= PRESET.enough_validation and scarce_labels(graph)


def self_training_points(graph: Graph, best: Sequence[Config]) -> list[Config]:
    """Linear filters: personalised PageRank on every kind of features, and those that were best."""
    linear = [net for net in hop_points(best) if net.head == "ridge" and net.previous is None and not net.units]
    linear = [net for net in linear if not net.known_labels and (net.relations or not net.node_columns)]
    far = [net for net in linear if net.jumping == "ppr"]
    kinds = {(net.scaling, net.components, net.num_layers, net.relations): net for net in reversed(far)}
    small = [n for n in [*kinds.values(), *linear] if 8 * graph.num_nodes * joined_width(graph, n) <= PRESET.most_bytes]
    return list(dict.fromkeys(small))[: PRESET.pseudo_candidates]


PORTFOLIO = (
    Stage(walk_points, "filters", typed=True),
    Stage(beside_points, typed=True),
    Stage(typed_head_points, typed=True),
    Stage(filter_points, "filters", single=True),
    Stage(random_points, "filters"),
    Stage(far_points, "filters", single=True),
    Stage(set_points, "filters", single=False),
    Stage(probe_points, single=True),
    Stage(larger_points, single=False),
    Stage(tree_points, single=True),
    Stage(first_head_points, single=True),
    # Here networks on another network's predictions are tried (``second_points``), and self-training.
    Stage(head_points, "left", single=True, idle=2),
    Stage(expanded_points, "left", single=True, idle=2),
    Stage(kernel_points, "left", single=False, idle=3),
    Stage(further_kernel_points, "left", single=False),
)
"""The stages in their order."""


# What a user has fixed.


_TRAINED_HEAD = {"epochs", "lr", "lr_decay", "weight_decay", "dropout", "batch_size", "patience", "head_layers"}
_DRAWS = {"structure", "schedule", "distribution", "params", "rescale", "residual", "factors", "layer_dropout"}
_DRAWS |= {"inference", "num_samples", "keep_draw", "engine", "normalize_features", "random_features"}
_MAPPED = {"embedding_layers", "embedding_output"}


def constrained(config: Config, fixed: dict[str, Any]) -> Config | None:
    """A point with what the user has fixed; None where it has no such setting."""
    changes = dict(fixed)
    backbone = BACKBONES.get(changes.get("backbone", config.backbone))
    if backbone is not None and backbone.includes_self:
        changes.setdefault("self_loops", False)
    try:
        point = config.update(**changes)
    except InputError:
        return None
    return point if all(decides(point, name) for name in fixed) else None


def idle_note(config: Config, fixed: dict[str, Any]) -> tuple[str, ...]:
    """What to say of settings that decide nothing, where there is one point alone and no other is looked for."""
    idle = [name for name in fixed if not decides(config, name)]
    return (f"these settings decide nothing here: {', '.join(idle)}.",) if idle else ()


def decides(config: Config, name: str) -> bool:
    """Whether a setting decides anything at this point."""
    mapped = EMBEDDINGS[config.embedding].mlp
    if name in _TRAINED_HEAD:
        return config.head != "ridge"
    if name == "hidden_channels":
        return mapped or config.head == "mlp"
    if name in _MAPPED:
        return mapped
    if name.startswith("pretrain_"):
        return EMBEDDINGS[config.embedding].trained == "before"
    if name in _DRAWS:
        return config.coefficients == "random"
    if name.startswith("unit_") or name == "log_hops":
        return config.units > 0
    if name in ("bandwidth", "trend"):
        return config.landmarks > 0
    if name == "teleport":
        return config.jumping == "ppr"
    if name == "half_life":
        return bool(config.relations)
    if name == "width":
        return config.coefficients in ("layers", "colours")
    return name != "ridge" or config.head == "ridge"
