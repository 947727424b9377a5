"""What is tried on graphs with types: which relations are walked, what is walked with, and what the head sees of it."""

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import Any

from rapgnn.graph.graph import Graph
from rapgnn.graph.relations import BESIDE, as_walk, depth_of, joined_walk, walks_of
from rapgnn.network.config import Config
from rapgnn.network.typed import MOST_WALKS
from rapgnn.search.preset import PRESET
from rapgnn.search.start import HOPS, columns_of, typed_start, walks
from rapgnn.sparse import SparseMatrix

BACKBONES = ("gcn", "sage")
TIMED = ("sage",)  # the mean over what a node receives; gcn would count what its neighbours send later


def walk_points(graph: Graph, base: Config, best: Sequence[Config]) -> Iterator[Config]:
    """Linear filters: the row's own features; personalised PageRank and few hops over all relations, and over some."""
    types = graph.typed
    assert types is not None
    columns, ways = columns_of(graph), walks(types)
    depth, teleport = PRESET.far
    far = {"num_layers": depth, "teleport": teleport}
    yield HOPS.update(**typed_start(graph) | (far if types.pairs else {}))  # what goes furthest is walked first
    if types.target in types.features:
        words = isinstance(types.features[types.target], SparseMatrix)
        width = types.widths[types.target]
        components = {"components": min(PRESET.components, width)} if words and width > PRESET.narrow else {}
        yield HOPS.update(num_layers=0, scaling="tfidf" if words else "standard", **components)
    shapes: list[dict[str, Any]] = [
        {"jumping": "ppr", "num_layers": 8, "standardize": False},
        {"jumping": "ppr", **far, "standardize": False},
        {"jumping": "cat", "num_layers": 2},
        {"jumping": "cat", "num_layers": 2, "standardize": False},
    ]
    meeting = [walk for walk in ways if types.joins(walk)]
    for walk, one in product(meeting, columns):
        if one.get("node_columns"):
            yield HOPS.update(relations=as_walk(walk), num_layers=0, **one | {"degree_columns": False})
    if types.clock is None and types.num_edges <= PRESET.placed_edges:
        for walk, (hops, alpha) in product(meeting, ((8, HOPS.teleport), (2 * depth, teleport / 3))):
            near = {"relations": as_walk(walk), "anchors": min(PRESET.anchors, graph.num_rows), "backbone": "sage"}
            yield HOPS.update(**near, jumping="ppr", num_layers=hops, teleport=alpha, standardize=False)
    for layers, backbone in product((2, 4), BACKBONES if types.clock is None else ()):
        drawn = {"coefficients": "random", "jumping": "last", "num_layers": layers, "backbone": backbone}
        yield HOPS.update(relations=as_walk(ways[0]), **columns[0] | drawn)
    backbones, lives = (BACKBONES, (0.0,)) if types.clock is None else (TIMED, PRESET.half_lives)
    for life, walk, one, shape, backbone in product(lives, ways, columns, shapes, backbones):
        near = {"relations": as_walk(walk), "half_life": life}
        if walk in meeting:
            yield HOPS.update(backbone=backbone, **near, **one, **shape)
        elif shape["jumping"] == "cat":  # what rows have of their own lies at the steps that first come to it
            layers = max(2, depth_of([types.ends(key) for key in walk], types.target))
            yield HOPS.update(backbone=backbone, **near, **one, **shape | {"num_layers": layers})


def beside_points(graph: Graph, base: Config, best: Sequence[Config]) -> Iterator[Config]:
    """Several walks: the chains that were best, together and side by side; labels of the nodes they come back to."""
    types = graph.typed
    assert types is not None
    walked = [net for net in best if net.relations and not net.known_labels and net.coefficients == "fixed"]
    ways = list(dict.fromkeys(net.relations for net in walked))
    alone = [way for way in ways if len(walks_of(way)) == 1][:4]
    first = {way: next(net for net in walked if net.relations == way) for way in alone}
    labels = types.clock is None and graph.num_outputs <= PRESET.most_outputs
    chains = BESIDE.join(as_walk(chain) for chain in types.chains[: PRESET.chains])
    if labels and walked:
        near = [chain for chain in types.chains[: PRESET.chains] if types.joins(chain)]
        steps = {chain: max(2, depth_of([types.ends(key) for key in chain], types.target)) for chain in near}
        # their ways are few enough to leave each row's own label out
        near = [chain for chain in near if types.count_walks(chain, steps[chain]) <= MOST_WALKS]
        for known in (1, 2):
            yield walked[0].update(known_labels=known)
            if near:
                beside = BESIDE.join(map(as_walk, near))
                yield walked[0].update(relations=beside, known_labels=known, backbone="sage")
    for one, other in combinations(alone[:3], 2):
        net = first[one]
        together = as_walk(joined_walk([*walks_of(one), *walks_of(other)]))
        yield net.update(relations=together)
        yield net.update(relations=BESIDE.join((one, other)))
        yield first[other].update(relations=together)
    if len(types.chains) > 1 and walked:
        yield walked[0].update(relations=chains)
        yield HOPS.update(**columns_of(graph)[0], relations=chains, backbone="sage")
    for net in walked[:2]:
        yield net.update(jumping="cat", num_layers=4)
        yield net.update(jumping="ppr", num_layers=2 * PRESET.far[0], teleport=0.05, standardize=False)
        if net.node_columns:
            yield net.update(node_columns=2 * net.node_columns)
