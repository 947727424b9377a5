"""What an estimator tries when nothing is set, in order of promise, and what each costs by counted operations."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import torch

from rapgnn.estimators.costs import CANDIDATE, STEP, nominal_cost
from rapgnn.estimators.judge import ENOUGH
from rapgnn.estimators.members import BATCH, trained_epochs
from rapgnn.estimators.start import DRAWN, linear_settings, suited
from rapgnn.graph.graph import Graph
from rapgnn.layers.ridge_path import DECOMPOSED, PENALTIES
from rapgnn.layers.treatment import PLACES
from rapgnn.models.config import Config
from rapgnn.models.net_config import NetConfig
from rapgnn.models.treated import TreatedConfig
from rapgnn.sparse import SparseMatrix, nonnegative
from rapgnn.training.wide import DENSE, SPARSE, direct_cost, feature_cost, too_wide

NARROW = 384  # columns up to which features are propagated as they are
SKETCH = 256  # directions that wide features are sketched to
LARGE = 1 << 30  # bytes of the hops of all nodes beyond which a candidate is not tried
MANY = 1000  # training rows from which sketches are twice as wide
MOST_OUTPUTS = 200  # classes up to which predictions for neighbours are inputs
FEW = 200  # training rows below which random non-linear features have nothing to learn from
LEFT = "none", 0  # features as they are
WALKS = (("gcn", True), ("sage", False))  # symmetric with self-loops, and the random walk


@dataclass(frozen=True)
class Wanted:
    """A candidate's settings and its cost in nominal seconds."""

    config: TreatedConfig | NetConfig
    cost: float


def first_candidates(graph: Graph, base: Config, best: Sequence[Any]) -> Iterator[Wanted]:
    """RAP networks, and linear filters of treated features; for sets of graphs random layers too."""
    yield from _rap(graph, base)
    for config in _node_filters(graph) if graph.ptr is None else _graph_nets(graph):
        if net_bytes(graph, config) <= LARGE:
            yield Wanted(config, net_cost(graph, config))


def further_candidates(graph: Graph, base: Config, best: Sequence[Any]) -> Iterator[Wanted]:
    """Random non-linear features on the propagation that was best, or more of them."""
    nets = [c.config for c in best if isinstance(getattr(c, "config", None), NetConfig)]
    if not nets:
        return
    found = _node_lifts(graph, nets) if graph.ptr is None else _larger_nets(graph, nets)
    for config in found:
        if net_bytes(graph, config) <= LARGE:
            yield Wanted(config, net_cost(graph, config))


def treatments(graph: Graph) -> tuple[tuple[str, int], ...]:
    """What is done to the features of a single graph: narrow ones are standardised, wide ones sketched."""
    if graph.num_features <= NARROW:
        return (("standard", 0),)
    sketch = min(SKETCH if len(graph.train) < MANY else 2 * SKETCH, graph.num_features)
    return (("length", sketch), ("tfidf" if nonnegative(graph.x) else "standard", sketch))


def second_candidates(graph: Graph, best: Sequence[Any]) -> Iterator[tuple[Any, Wanted]]:
    """(the network before, a candidate): what the best network predicts for the neighbours, beside the hops."""
    nets = [c for c in best if isinstance(c.config, NetConfig) and not c.config.identity and c.config.first is None]
    if graph.ptr is not None or not nets or graph.num_outputs > MOST_OUTPUTS:
        return
    trained = len(graph.val) >= ENOUGH and len(graph.train) >= FEW
    for first in nets[:2]:
        shape = {"jumping": "cat", "num_layers": 1, "lift": 0, "lift_hops": 0, "lift_inputs": 0, "hidden": 0}
        start = replace(first.config, **shape, dropout=0.0, backbone="sage", self_loops=False, first=first.config)
        start = replace(start, edges="given" if start.edges == "both" else start.edges)
        for config in (start, *((replace(start, hidden=128, dropout=0.2),) if trained else ())):
            if net_bytes(graph, config) <= LARGE:
                yield first, Wanted(config, net_cost(graph, config))


def _rap(graph: Graph, base: Config) -> Iterator[Wanted]:
    if graph.ptr is None:
        linear = {"embedding": "identity", "head": "ridge", "activation": "identity", "normalize_features": False}
        shapes = (("gcn", 4, "last"), ("gcn", 8, "last"), ("sage", 2, "last"), ("gcn", 2, "cat"))
        tried = list(product(shapes, treatments(graph)))
        if graph.num_features <= NARROW:
            tried += [(shapes[0], LEFT), (shapes[2], LEFT)]
        for (backbone, depth, jumping), (features, sketch) in tried:
            settings = linear | {"backbone": backbone, "num_layers": depth, "jumping": jumping}
            settings["self_loops"] = backbone == "gcn"
            config = base.update(**settings)
            width = sketch or graph.num_features
            cost = CANDIDATE + direct_cost(graph, config, width)
            yield Wanted(TreatedConfig(features, sketch, config), cost)
        return
    signed = not nonnegative(graph.x)
    found = [
        linear_settings(graph) | {"backbone": "gin", "num_layers": 3, "jumping": "cat", "pooling": pooling}
        for pooling in ("sum", "mean")
    ]
    if graph.edge_attr is not None:
        found.append(DRAWN | {"backbone": "gine", "num_layers": 3, "jumping": "cat", "pooling": "sum"})
    for settings in found:
        config = base.update(**suited(signed, base, settings))
        if not too_wide(graph, config):
            yield Wanted(TreatedConfig(network=config), nominal_cost(graph, config))


def _node_filters(graph: Graph) -> Iterator[NetConfig]:
    narrow, directed = graph.num_features <= NARROW, is_directed(graph)
    shapes = (("ppr", 8), ("cat", 2), ("last", 4), ("last", 2), ("cat", 4))
    tried = list(product(shapes, treatments(graph), WALKS))
    if narrow:
        tried += [(("ppr", 8), LEFT, WALKS[0]), (("last", 2), LEFT, WALKS[0]), (("cat", 1), LEFT, WALKS[1])]
    for (jumping, depth), (features, sketch), (backbone, loops) in tried:
        yield NetConfig(
            features=features,
            sketch=sketch,
            places=narrow,
            backbone=backbone,
            self_loops=loops,
            edges=("both" if jumping == "cat" else "undirected") if directed else "given",
            num_layers=depth,
            jumping=jumping,
            whiten=features == "standard" and narrow,
        )
    if graph.encoding is not None and graph.encoding.kind == "structural":
        for (jumping, depth), (backbone, loops) in product((("last", 3), ("ppr", 8), ("cat", 3)), WALKS):
            walk = {"backbone": backbone, "self_loops": loops, "edges": "undirected" if directed else "given"}
            yield NetConfig(identity=SKETCH, num_layers=depth, jumping=jumping, whiten=False, **walk)


def _node_lifts(graph: Graph, nets: Sequence[NetConfig]) -> Iterator[NetConfig]:
    """Heads that are not linear in the hops: random features of them, and a trained layer."""
    if len(graph.train) < FEW:
        return
    walks = [net for net in nets if not net.identity]
    directed = any(net.edges != "given" for net in walks)  # the filters have looked
    trained, both = len(graph.val) >= ENOUGH, "both" if directed else "given"
    found = dict.fromkeys(replace(net, jumping="cat", edges=both, num_layers=2, whiten=True) for net in walks)
    starts = list(found)[:2]
    if not starts:
        return
    first, bare = starts[0], replace(starts[0], num_layers=0, edges="given")
    if trained:
        yield replace(first, hidden=128, dropout=0.2)
        yield replace(bare, hidden=128)
    if first.sketch:
        yield from _wide_heads(graph, starts, trained)
        return
    deep = replace(first, lift=256, lift_inputs=4, lift_hops=2)
    yield deep
    if trained:
        yield replace(deep, hidden=128, dropout=0.2)
        yield replace(first, num_layers=4, hidden=128, dropout=0.4)
    yield replace(bare, lift=512, lift_inputs=4)
    for start in starts[1:]:
        if trained:
            yield replace(start, hidden=128, dropout=0.4)
        yield replace(start, lift=256, lift_inputs=4, lift_hops=2)
    for start in starts:
        yield replace(start, lift=1024, lift_inputs=4)
        if trained:
            yield replace(start, num_layers=4, hidden=128)
        yield replace(start, num_layers=4, lift=512, lift_inputs=4, lift_hops=1)


def _wide_heads(graph: Graph, starts: Sequence[NetConfig], trained: bool) -> Iterator[NetConfig]:
    wide = min(4 * SKETCH, graph.num_features)
    wider = len(graph.train) >= MANY and wide > starts[0].sketch
    for start in starts:
        edges = "undirected" if start.edges == "both" else "given"
        plain = replace(start, sketch=wide, whiten=False, edges=edges)
        far = {"jumping": "ppr", "num_layers": 8}
        if wider:
            yield replace(plain, **far)
            yield replace(plain, jumping="cat", num_layers=1)
        if trained:
            yield replace(plain if wider else start, **far, edges=edges, whiten=False, hidden=128, dropout=0.5)
        yield replace(start, lift=1024)


def is_directed(graph: Graph) -> bool:
    """Whether some edge of a single graph has no reverse."""
    edges = graph.edge_index
    there, back = (torch.unique(pair[0] * graph.num_nodes + pair[1]) for pair in (edges, edges.flip(0)))
    return not torch.equal(there, back)


def _graph_nets(graph: Graph) -> Iterator[NetConfig]:
    start = NetConfig(features="none", places=True, backbone="gin", num_layers=3)
    lifted = replace(start, logarithm=True, lift=512)
    deep = replace(start, num_layers=4, width=128)
    for config in (start, deep, lifted, replace(deep, activation="tanh"), replace(lifted, lift_inputs=4)):
        for pooling in ("log", "sum", "mean"):
            yield replace(config, pooling=pooling)


def _larger_nets(graph: Graph, nets: Sequence[NetConfig]) -> Iterator[NetConfig]:
    grown: dict[NetConfig, None] = {}
    for net in nets[:3]:
        if net.width:
            grown |= {replace(net, width=256): None, replace(net, width=256, num_layers=2): None}
        elif net.lift:
            grown |= {replace(net, lift=2048): None, replace(net, lift=1024, num_layers=5): None}
        else:
            grown |= {replace(net, num_layers=6): None}
    yield from grown


def _base_width(graph: Graph, config: NetConfig) -> int:
    base = config.identity or (config.sketch or graph.num_features) + graph.num_edge_features
    return base + (PLACES if config.places else 0)


def net_bytes(graph: Graph, config: NetConfig) -> int:
    """What a candidate keeps of all nodes: its hops; batches of graphs keep little."""
    if graph.ptr is not None:
        return 4 * graph.num_nodes * _base_width(graph, config)
    hops = 1 + (config.num_layers if config.jumping != "last" else 1)
    further = config.lift_hops * config.lift * len(graph.train) // max(1, graph.num_nodes)
    return 4 * graph.num_nodes * (_base_width(graph, config) * hops + further)


def net_cost(graph: Graph, config: NetConfig) -> float:
    """Seconds, by counted operations, that a candidate takes."""
    n, m, base = graph.num_nodes, graph.edge_index.shape[1] + graph.num_nodes, _base_width(graph, config)
    rows, depth = len(graph.train) + len(graph.val), config.num_layers
    seconds = CANDIDATE
    if config.sketch and isinstance(graph.x, SparseMatrix):
        seconds += feature_cost(graph, config.sketch) / 4  # shared by the candidates with the same features
    joined = base * (depth * (2 if config.edges == "both" else 1) + 1 if config.jumping == "cat" else 1)
    if config.width:
        seconds += n * config.width * (base + (depth - 1) * config.width) / DENSE + m * depth * config.width / SPARSE
        joined = base + depth * config.width
    else:
        seconds += m * depth * base / SPARSE / (2 if graph.ptr is None else 1)
    width = joined
    if config.lift:
        of = n if graph.ptr is not None or config.lift_hops else rows
        seconds += of * joined * config.lift / DENSE + config.lift_hops * m * config.lift / SPARSE
        width = joined + config.lift * (1 + config.lift_hops) if config.lift_hops else config.lift
    train = len(graph.train)
    if config.hidden:
        epochs = trained_epochs(train)
        each = (3 * train + len(graph.val)) * config.hidden * (width + graph.num_outputs) / DENSE
        return seconds + epochs * (each + STEP * -(-train // BATCH)) / 2
    least = min(train, width)
    solves = 9 * least**3 if least <= DECOMPOSED else len(PENALTIES) * least**3 / 3
    return seconds + (train * width * least + solves + len(PENALTIES) * rows * width * graph.num_outputs) / DENSE
