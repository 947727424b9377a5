"""A wide graph as a search looks at it: the directions in which its features vary most, and as many labelled rows as
these need."""

from dataclasses import replace

import torch
from torch import Tensor

from rapgnn.device import threads
from rapgnn.graph.graph import Graph
from rapgnn.prng import Stream, seeded
from rapgnn.sparse import SparseMatrix
from rapgnn.training.reuse import Reuse
from rapgnn.training.wide import DENSE, feature_cost

DIRECTIONS = 256
ROWS = 8 * DIRECTIONS  # training rows that tell the weights of so many directions; and twice as many for validation
COLUMNS = 64  # at a time: of a graph with tens of thousands of nodes they stay near the processor


def sketched(graph: Graph, seed: int) -> tuple[Graph, Reuse]:
    """The graph with its features X as X Q and some of its labelled rows, and what trainings on it share.

    Q is an orthonormal basis of XᵀX R, R random: one step of the randomised range finder (Halko, Martinsson and Tropp,
    2011). Layers are linear in the features, so propagations compare on X Q as they do on X, at a few hundred columns.
    """
    to = {"dtype": graph.x.dtype, "device": "cpu"}
    start = torch.randn(graph.num_features, DIRECTIONS, generator=seeded(seed, Stream.SKETCH), **to).to(graph.y.device)
    turned = graph.x.T
    towards = torch.cat([turned @ (graph.x @ part.contiguous()) for part in start.split(COLUMNS, dim=1)], dim=1)
    with threads(1):  # many small steps
        basis = torch.linalg.qr(towards)[0].contiguous()
    x = graph.x @ basis
    # A row is divided by its own size, not by that of its sketch.
    scaled = x / _sizes(graph).clamp(min=torch.finfo(x.dtype).tiny)
    train, val = _some(graph, graph.train, ROWS), _some(graph, graph.val, 2 * ROWS)
    return replace(graph, x=x, train=train, val=val), Reuse({False: x, True: scaled}, COLUMNS)


def sketching_cost(graph: Graph) -> float:
    """Seconds, by counted operations, that ``sketched`` takes."""
    return feature_cost(graph, 3 * DIRECTIONS) + 4 * graph.num_features * DIRECTIONS**2 / DENSE


def _sizes(graph: Graph) -> Tensor:
    """The sum of magnitudes of every node's features, ``[n, 1]``."""
    x = graph.x
    magnitude = x.with_values(x.values.abs()) if isinstance(x, SparseMatrix) else x.abs()
    return magnitude @ torch.ones(graph.num_features, 1, dtype=x.dtype, device=x.device)


def _some(graph: Graph, rows: Tensor, most: int) -> Tensor:
    """At most so many of the rows, each class in proportion."""
    if len(rows) <= most:
        return rows
    if graph.y.dim() == 1:
        rows = rows[graph.y[rows].argsort(stable=True)]
    return rows[torch.linspace(0, len(rows) - 1, most, dtype=torch.float64, device=rows.device).long()].sort().values
