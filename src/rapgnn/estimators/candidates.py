"""What an estimator tries when nothing is set, in order of promise, and what each costs by counted operations."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from rapgnn.estimators.costs import CANDIDATE, LARGE, fits, joined_width, net_cost, nominal_cost
from rapgnn.estimators.judge import ENOUGH
from rapgnn.estimators.start import DRAWN, linear_settings, suited
from rapgnn.graph.graph import Graph
from rapgnn.models.average import TreatedConfig
from rapgnn.models.config import Config
from rapgnn.models.net_config import NetConfig
from rapgnn.models.rapgnn import RAPGNN
from rapgnn.sparse import Features, SparseMatrix, nonnegative
from rapgnn.training.predict import HopsOf, model_on
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


# Heads that compare graphs: the best representations so far, each seen by how alike it is to training graphs.


SOME, MANY_LANDMARKS = 2000, 4000  # landmarks, and those of the best kernel
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
        yield replace(best, landmarks=min(MANY_LANDMARKS, len(graph.train)))


# Linear filters of the features of a single graph: the propagations that a search begins with.


NARROW = 384  # columns up to which features are propagated as they are
SKETCH = 256  # directions that wide features are sketched to
MANY = 1000  # training rows from which sketches are twice as wide
SCARCE = 4  # nodes for each training row from which labels are scarce
FAR, FAR_TELEPORT = 16, 0.1  # hops and α of personalised PageRank where they are
LEFT = "none", 0  # features as they are
WALKS = (("gcn", True), ("sage", False))  # symmetric with self-loops, and the random walk


def treatments(graph: Graph) -> tuple[tuple[str, int], ...]:
    """What is done to the features of a single graph: narrow ones are standardised, wide ones sketched."""
    if graph.num_features <= NARROW:
        return (("standard", 0),)
    many = len(graph.train) >= MANY or graph.num_features <= 2 * SKETCH
    sketch = min(2 * SKETCH if many else SKETCH, graph.num_features)
    if nonnegative(graph.x):  # what is no count has its weights already
        return ("length", sketch), ("tfidf" if _whole(graph.x) else "none", sketch)
    return ("length", sketch), ("standard", sketch)


def scarce_labels(graph: Graph) -> bool:
    """Whether most nodes of a single graph are far from any training row."""
    return graph.ptr is None and graph.num_nodes >= SCARCE * max(1, len(graph.train))


def node_filters(graph: Graph) -> Iterator[NetConfig]:
    """Linear filters: what is done to the features, and how they are propagated."""
    narrow, directed = graph.num_features <= NARROW, is_directed(graph)
    if graph.encoding is not None and graph.encoding.kind == "structural":
        for (jumping, depth), (backbone, loops) in product((("last", 3), ("ppr", 8), ("cat", 3)), WALKS):
            walk = {"backbone": backbone, "self_loops": loops, "edges": "undirected" if directed else "given"}
            yield NetConfig(identity=SKETCH, num_layers=depth, jumping=jumping, whiten=False, **walk)
    far = (("ppr", FAR),) if scarce_labels(graph) else ()
    shapes = (("ppr", 8), *far, ("cat", 2), ("last", 4), ("last", 2), ("cat", 4))
    if (
        not narrow and len(graph.train) >= MANY
    ):  # hops side by side are wide, so that only the best are tried, as probes
        shapes = tuple(shape for shape in shapes if shape[0] != "cat")
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
            teleport=FAR_TELEPORT if depth == FAR else NetConfig.teleport,
            whiten=features == "standard" and narrow,
        )


def is_directed(graph: Graph) -> bool:
    """Whether some edge of a single graph has no reverse."""
    edges = graph.edge_index
    there, back = (torch.unique(pair[0] * graph.num_nodes + pair[1]) for pair in (edges, edges.flip(0)))
    return not torch.equal(there, back)


def _whole(x: Features) -> bool:
    """Whether these are whole numbers: counts of words, or marks of them."""
    values = x.values if isinstance(x, SparseMatrix) else x
    return bool((values == values.round()).all())


# Heads that are not linear in the features of a single graph: what they see, random features of it, trained layers.


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


# Students: heads that are solved on all nodes of a graph for what the average so far, their teacher, says of them.
# Few training rows tell little about the features of the many nodes without a label; their propagated predictions do.


SHARPER = 2.0  # power of the teacher's probabilities
STUDENTS = 6  # of one teacher
ROUNDS = 3  # in which students become teachers


def can_teach(graph: Graph) -> bool:
    """Whether most nodes of a single graph have no label that counts, and validation rows can judge."""
    classes = graph.ptr is None and graph.y.dim() == 1 and graph.objective.metric == "accuracy"
    return classes and len(graph.val) >= ENOUGH and scarce_labels(graph)


def student_configs(graph: Graph, nets: Sequence[NetConfig]) -> Iterator[NetConfig]:
    """Linear filters: personalised PageRank on every kind of features, and those that were best.

    Args:
        nets: the random networks so far, best first.
    """
    linear = [n for n in nets if not (n.bound or n.hidden or n.lift or n.first is not None)]
    far = [net for net in linear if net.jumping == "ppr"]
    kinds = {(net.features, net.sketch, net.num_layers): net for net in reversed(far)}
    small = [n for n in [*kinds.values(), *linear] if 8 * graph.num_nodes * joined_width(graph, n) <= LARGE]
    yield from list(dict.fromkeys(small))[:STUDENTS]


def all_nodes(graph: Graph) -> Graph:
    """The graph with every node as a training row."""
    return replace(graph, train=torch.arange(graph.num_nodes, device=graph.y.device))


@torch.no_grad()
def lesson(teacher: nn.Module, graph: Graph, kept: HopsOf) -> Tensor:
    """What is taught of every node: its label where that is known, the teacher's sharpened probabilities elsewhere.

    Args:
        kept: hops of the graph that its networks have walked.
    """
    how = {} if isinstance(teacher, RAPGNN) else {"kept": kept}
    found = model_on(teacher, graph, **how)(torch.arange(graph.num_nodes)).probabilities.double().pow(SHARPER)
    found = found / found.sum(dim=1, keepdim=True).clamp(min=torch.finfo(found.dtype).tiny)
    found[graph.train] = nn.functional.one_hot(graph.y[graph.train], graph.num_outputs).to(found)
    return found
