"""Heads that compare graphs: the best representations so far, each seen by how alike it is to training graphs."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rapgnn.estimators.node_heads import FEW
from rapgnn.graph.graph import Graph
from rapgnn.models.net_config import NetConfig

SOME, MANY = 2000, 4000  # landmarks, and those of the best kernel
CLASSES = ("gauss", False), ("laplace", False)  # kernels, and whether the inner product is added
NUMBERS = ("gauss", False), ("gauss", True), ("laplace", True)  # may lie beyond those of the training graphs
REACHES = (0.7, 1.4)  # beside 1


def first_kernels(graph: Graph, nets: Sequence[NetConfig]) -> Iterator[NetConfig]:
    """Kernels on the best network of each kind, and on the next best of all.

    Args:
        nets: the random networks so far, best first.
    """
    if len(graph.train) < FEW:
        return
    kinds: dict[tuple[bool, ...], NetConfig] = {}
    for net in nets:
        kinds.setdefault((net.colours > 0, net.width > 0, net.lift > 0), net)
    chosen = list(kinds.values())
    chosen += [net for net in nets if net not in chosen][:1]
    for kernel, trend in NUMBERS if graph.objective.metric == "rmse" else CLASSES:
        for net in chosen:
            yield replace(net, kernel=kernel, trend=trend, landmarks=min(SOME, len(graph.train)))


def further_kernels(graph: Graph, nets: Sequence[NetConfig]) -> Iterator[NetConfig]:
    """The best kernel over a shorter and a longer distance, and with more landmarks."""
    best = next((net for net in nets if net.landmarks), None)
    if best is None:
        return
    for reach in REACHES:
        yield replace(best, reach=reach)
    if len(graph.train) > best.landmarks:
        yield replace(best, landmarks=min(MANY, len(graph.train)))
