"""What an estimator tries when nothing is set, in order of promise, and what each costs by counted operations."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from rapgnn.estimators.costs import CANDIDATE, nominal_cost
from rapgnn.estimators.kernels import first_kernels, further_kernels
from rapgnn.estimators.net_costs import fits, net_cost
from rapgnn.estimators.node_filters import LEFT, NARROW, node_filters, treatments
from rapgnn.estimators.node_heads import (
    KNOWN,
    MOST_OUTPUTS,
    as_they_are,
    can_train,
    knows_labels,
    many_columns,
    node_heads,
    node_lifts,
    node_probes,
)
from rapgnn.estimators.start import DRAWN, linear_settings, suited
from rapgnn.graph.graph import Graph
from rapgnn.models.config import Config
from rapgnn.models.net_config import NetConfig
from rapgnn.models.treated import TreatedConfig
from rapgnn.sparse import nonnegative
from rapgnn.training.wide import direct_cost, too_wide

BUCKETS = (1024, 512, 256)  # for the colours of nodes
COUNTED = 1 << 29  # bytes of the counts of colours of all graphs


@dataclass(frozen=True)
class Wanted:
    """A candidate's settings and its cost in nominal seconds."""

    config: TreatedConfig | NetConfig
    cost: float


def first_candidates(graph: Graph, base: Config, best: Sequence[Any]) -> Iterator[Wanted]:
    """RAP networks, and linear filters of treated features; for sets of graphs random layers too."""
    yield from _rap(graph, base)
    for config in node_filters(graph) if graph.ptr is None else _graph_nets(graph):
        if fits(graph, config):
            yield Wanted(config, net_cost(graph, config))


def probing_candidates(graph: Graph, base: Config, best: Sequence[Any]) -> Iterator[Wanted]:
    """Solved heads that tell what a head that is not linear should see; for sets of graphs larger networks."""
    yield from _affordable(graph, best, node_probes if graph.ptr is None else _larger_nets)


def trained_candidates(graph: Graph, base: Config, best: Sequence[Any]) -> Iterator[Wanted]:
    """Trained heads on what was best to see (single graphs alone)."""
    if graph.ptr is None:
        yield from _affordable(graph, best, node_heads)


def further_candidates(graph: Graph, base: Config, best: Sequence[Any]) -> Iterator[Wanted]:
    """More of the same with what is left (single graphs alone)."""
    if graph.ptr is None:
        yield from _affordable(graph, best, node_lifts)


def kernel_candidates(graph: Graph, base: Config, best: Sequence[Any]) -> Iterator[Wanted]:
    """Heads that compare graphs with training graphs (sets alone)."""
    if graph.ptr is not None:
        yield from _affordable(graph, best, first_kernels)


def further_kernel_candidates(graph: Graph, base: Config, best: Sequence[Any]) -> Iterator[Wanted]:
    """More of the best of these (sets alone)."""
    if graph.ptr is not None:
        yield from _affordable(graph, best, further_kernels)


def _affordable(
    graph: Graph, best: Sequence[Any], of: Callable[[Graph, Sequence[NetConfig]], Iterator[NetConfig]]
) -> Iterator[Wanted]:
    """The candidates that follow from the random networks so far, best first, and fit into memory."""
    nets = [c.config for c in best if isinstance(getattr(c, "config", None), NetConfig)]
    for config in of(graph, nets) if nets else ():
        if fits(graph, config):
            yield Wanted(config, net_cost(graph, config))


def second_candidates(graph: Graph, best: Sequence[Any]) -> Iterator[tuple[Any, Wanted]]:
    """(the network before, a candidate): what the best network predicts for the neighbours, beside the hops."""
    nets = [c for c in best if isinstance(c.config, NetConfig) and not c.config.bound and c.config.first is None]
    if graph.ptr is not None or not nets or graph.num_outputs > MOST_OUTPUTS:
        return
    trained = can_train(graph)
    for first in nets[:2]:
        shape = {"jumping": "cat", "num_layers": 1, "lift": 0, "lift_hops": 0, "lift_inputs": 0, "hidden": 0}
        start = replace(first.config, **shape, dropout=0.0, backbone="sage", self_loops=False, first=first.config)
        start = replace(start, edges="given" if start.edges == "both" else start.edges)
        start = replace(start, known=KNOWN if knows_labels(graph) else 0)
        head = replace(start, hidden=128, dropout=0.2)
        # Of many columns a linear look says least, so it comes last.
        for config in (as_they_are(head), start) if many_columns(graph, start) else (start, head):
            if fits(graph, config) and (trained or not config.hidden):
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


def _graph_nets(graph: Graph) -> Iterator[NetConfig]:
    buckets = next((b for b in BUCKETS if 16 * b * graph.num_rows <= COUNTED), None)
    start = NetConfig(features="none", places=True, backbone="gin", num_layers=3)
    lifted = replace(start, logarithm=True, lift=512)
    deep = replace(start, num_layers=4, width=128)
    for config in (start, deep, lifted, replace(deep, activation="tanh"), replace(lifted, lift_inputs=4)):
        for pooling in ("log", "sum", "mean"):
            yield replace(config, pooling=pooling)
        if config is start and buckets is not None:
            for depth, pooling in ((3, "log"), (3, "sum"), (2, "log"), (5, "log")):
                yield NetConfig(colours=buckets, num_layers=depth, pooling=pooling, whiten=False)


def _larger_nets(graph: Graph, nets: Sequence[NetConfig]) -> Iterator[NetConfig]:
    grown: dict[NetConfig, None] = {}
    for net in nets[:3]:
        if net.width:
            grown |= {replace(net, width=256): None, replace(net, width=256, num_layers=2): None}
        elif net.colours:
            grown |= {replace(net, num_layers=net.num_layers + 1): None}
        elif net.lift:
            grown |= {replace(net, lift=2048): None, replace(net, lift=1024, num_layers=5): None}
        else:
            grown |= {replace(net, num_layers=6): None}
    yield from grown
