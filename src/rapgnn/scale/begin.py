"""What comes before the hops where these are computed by several workers or on Ray: the rows, and what is exact."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rapgnn.graph.graph import Graph
from rapgnn.models.rapgnn import RAPGNN
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.fit import labelled_graph
from rapgnn.scale.hops import exact


def labelled_rows(graph: DiskGraph, scoring: str | None = None, class_weight: Any = None) -> tuple[Graph, np.ndarray]:
    """``labelled_graph`` without a look at all features and weights, which no single worker has to read."""
    return labelled_graph(replace(graph, features=graph.features[:0], weights=None), scoring, class_weight)


@dataclass(frozen=True)
class Sign:
    """Stands for a matrix of which only this is known."""

    nonnegative: bool


def exact_with(model: RAPGNN, matrix: bool, h: bool) -> str:
    """Why the shortcut is exact, or a refusal, given whether S and h⁰ are free of negative entries."""
    return exact(model, Sign(matrix), Sign(h))  # type: ignore[arg-type]
