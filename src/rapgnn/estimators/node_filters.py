"""Linear filters of the features of a single graph: the propagations that a search begins with."""

from collections.abc import Iterator
from itertools import product

import torch

from rapgnn.graph.graph import Graph
from rapgnn.models.net_config import NetConfig
from rapgnn.sparse import Features, SparseMatrix, nonnegative

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
