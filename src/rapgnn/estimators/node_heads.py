"""Heads that are not linear in the features of a single graph: what they see, random features of it, trained layers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rapgnn.estimators.judge import ENOUGH
from rapgnn.estimators.node_filters import MANY, SKETCH
from rapgnn.graph.graph import Graph
from rapgnn.models.net_config import NetConfig

MOST_OUTPUTS = 200  # classes up to which labels and predictions of neighbours are inputs
KNOWN = 2  # hops of labels that are known
LABELLED = 0.05  # share of the nodes that are training rows from which neighbours' labels are inputs
FEW = 200  # training rows below which random non-linear features have nothing to learn from
HEADS = 2  # of the ways to see a node that heads are trained on
COVERED = 64  # columns up to which random features of a few of them each say what a trained layer would


def can_train(graph: Graph) -> bool:
    """Whether there are rows enough to train a head on, and to stop it by."""
    return len(graph.train) >= FEW and len(graph.val) >= ENOUGH


def many_columns(graph: Graph, walk: NetConfig) -> bool:
    """Whether features have so many columns, none of them left out, that those that hardly vary should stay quiet."""
    return graph.num_features > COVERED and not walk.sketch


def as_they_are(net: NetConfig) -> NetConfig:
    """The same network on features whose columns keep their size."""
    return replace(net, features="none", whiten=False)


def knows_labels(graph: Graph) -> bool:
    """Whether so many nodes of a single graph have a label that neighbours' labels say something about a node."""
    labelled = len(graph.train) >= max(FEW, LABELLED * graph.num_nodes)
    return graph.ptr is None and labelled and graph.num_outputs <= MOST_OUTPUTS


@dataclass(frozen=True)
class Views:
    """What a head may see of a node: hops, hops and labels that are known, or the node's own features alone.

    Args:
        walks: the propagations that were best, all their hops side by side.
        order: (whether hops, how many of labels), what was best to see first.
    """

    walks: list[NetConfig]
    order: list[tuple[bool, int]]

    @classmethod
    def of(cls, graph: Graph, nets: Sequence[NetConfig]) -> "Views":
        free = [net for net in nets if not net.identity]
        both = "both" if any(net.edges != "given" for net in free) else "given"  # the filters have looked
        bare = {"jumping": "cat", "edges": both, "whiten": True, "hidden": 0, "dropout": 0.0}
        bare |= {"lift": 0, "lift_inputs": 0, "lift_hops": 0, "known": 0, "first": None}
        walks: dict[NetConfig, NetConfig] = {}
        for net in free:
            depth = net.num_layers if net.jumping == "cat" else 2
            if depth:
                walks.setdefault(replace(net, **bare, num_layers=2), replace(net, **bare, num_layers=max(2, depth)))
        seen = dict.fromkeys((net.num_layers > 0, net.known) for net in free)
        rest = [(False, 0), (True, 0), *([(True, KNOWN)] if knows_labels(graph) else [])]
        return cls(list(walks.values())[:2], list(dict.fromkeys([*seen, *rest])))

    def see(self, walk: NetConfig, view: tuple[bool, int], **more: Any) -> NetConfig:
        """A network that sees this."""
        hops, known = view
        return replace(walk, **({"known": known} | ({} if hops else {"num_layers": 0, "edges": "given"}) | more))


def node_probes(graph: Graph, nets: Sequence[NetConfig]) -> Iterator[NetConfig]:
    """The same head on everything that it may see; a linear one where there are many columns."""
    views = Views.of(graph, nets)
    if len(graph.train) < FEW or not views.walks:
        return
    if nets[0].identity and knows_labels(graph):
        yield replace(nets[0], known=KNOWN)
    first = views.walks[0]
    for view in views.order:
        if not first.sketch and not many_columns(graph, first):
            yield views.see(first, view, lift=512, lift_inputs=4)
        else:
            yield views.see(first, view)
    if knows_labels(graph):
        yield replace(first, known=KNOWN)
        if first.sketch:
            yield _far(first, known=KNOWN)


def node_heads(graph: Graph, nets: Sequence[NetConfig]) -> Iterator[NetConfig]:
    """Trained heads: on what was best to see, then on the rest."""
    views = Views.of(graph, nets)
    if not can_train(graph) or not views.walks:
        return
    first = views.walks[0]
    for view in views.order[:HEADS]:
        if first.sketch and view[0]:
            yield _far(first, sketch=_wider(graph, first), known=view[1], hidden=128, dropout=0.5)
            if view != views.order[0]:
                continue
        head = views.see(first, view, hidden=128, dropout=0.2 if view[0] else 0.0)
        if view == views.order[0] and many_columns(graph, first):
            yield as_they_are(head)
        yield head
        if view[0] and first.num_layers > 2:
            yield views.see(first, view, num_layers=2, hidden=128, dropout=0.2)


def node_lifts(graph: Graph, nets: Sequence[NetConfig]) -> Iterator[NetConfig]:
    """Further heads that are not linear in the hops: random features of them, and trained layers."""
    views = Views.of(graph, nets)
    if len(graph.train) < FEW or not views.walks:
        return
    trained = can_train(graph)
    known = next(known for hops, known in views.order if hops)
    starts = [replace(walk, known=known) for walk in views.walks]
    if starts[0].sketch:
        for start in starts:
            wide = _wider(graph, start)
            if wide > start.sketch:
                yield _far(start, sketch=wide)
                yield replace(start, sketch=wide, whiten=False, edges=_one_way(start), num_layers=1)
            if trained:
                yield _far(start, sketch=wide, hidden=128, dropout=0.5)
            yield replace(start, lift=1024)
        return
    for start in starts:
        deep = replace(start, lift=256, lift_inputs=4, lift_hops=2)
        yield deep
        if trained:
            yield replace(start, num_layers=4, hidden=128, dropout=0.4)
            yield replace(deep, hidden=128, dropout=0.2)
            yield replace(start, hidden=128, dropout=0.4)
    for start in starts:
        yield replace(start, lift=1024, lift_inputs=4)
        if trained:
            yield replace(start, num_layers=4, hidden=128)
        yield replace(start, num_layers=4, lift=512, lift_inputs=4, lift_hops=1)


def _far(walk: NetConfig, **more: Any) -> NetConfig:
    """The same propagation over eight hops, by personalised PageRank."""
    far = {"jumping": "ppr", "num_layers": 8, "edges": _one_way(walk), "whiten": False}
    return replace(walk, **(far | more))


def _one_way(walk: NetConfig) -> str:
    return "undirected" if walk.edges == "both" else walk.edges


def _wider(graph: Graph, walk: NetConfig) -> int:
    """Columns of a wider sketch, where there are rows enough for one."""
    return min(4 * SKETCH, graph.num_features) if len(graph.train) >= MANY else walk.sketch
