"""Which columns and which hops a model rests on: how much worse it is when they are shuffled, networks held."""

import numpy as np

from rapgnn.graph.graph import Graph
from rapgnn.graph.table import NAMES


def columns_of(graph: Graph) -> dict[str, np.ndarray]:
    """The features that each column of the user's table became, or else each feature alone."""
    encoding, c = graph.encoding, graph.num_features
    if encoding is not None and encoding.kind == "structural" and len(NAMES) == c:
        return {name: np.array([j]) for j, name in enumerate(NAMES)}
    if encoding is not None and encoding.kind == "table" and encoding.width == c:
        ends = np.cumsum([column.width for column in encoding.columns])
        columns = zip(encoding.columns, ends, strict=True)
        return {column.name: np.arange(end - column.width, end) for column, end in columns}
    return {f"feature {j}": np.array([j]) for j in range(c)}
