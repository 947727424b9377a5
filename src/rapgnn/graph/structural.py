"""Node features for graphs that have none: what a node's place in the graph tells, the same on any other graph."""

import numpy as np
import scipy.sparse as sp

DEGREE_BUCKETS = 12  # 0, 1, 2, 3, 4, 5-8, 9-16, ... neighbours
TRIANGLE_WORK = 200_000_000  # multiply-adds up to which triangles are counted
NAMES = (
    *(f"degree bucket {i}" for i in range(DEGREE_BUCKETS)),
    "log degree",
    "log in-degree",
    "log of the neighbours' mean degree",
    "log of the neighbours' largest degree",
    "share of neighbours with one neighbour",
    "clustering coefficient",
    "log of the two-hop walks",
)


def structural_features(edge_index: np.ndarray, num_nodes: int) -> np.ndarray:
    """``[n, len(NAMES)]``, all non-negative: degrees, the neighbours' degrees, triangles. No labels, no node order.

    Every edge counts in both directions; self-loops and repeated edges do not count. Where counting triangles would
    take too long the clustering coefficient is 0 for every node.
    """
    source, target = np.asarray(edge_index, dtype=np.int64)
    ones = np.ones(len(source), dtype=np.float64)
    directed = sp.csr_matrix((ones, (target, source)), shape=(num_nodes, num_nodes))
    directed.setdiag(0)
    directed.eliminate_zeros()
    directed.data[:] = 1.0
    A = sp.csr_matrix(directed.maximum(directed.T))
    degree = np.asarray(A.sum(axis=1)).ravel()
    incoming = np.asarray(directed.sum(axis=1)).ravel()
    divisor = np.maximum(degree, 1.0)
    walks = A @ degree
    bucket = np.where(degree <= 4, degree, 3 + np.ceil(np.log2(np.maximum(degree, 1)))).astype(np.int64)
    one_hot = np.zeros((num_nodes, DEGREE_BUCKETS))
    one_hot[np.arange(num_nodes), np.minimum(bucket, DEGREE_BUCKETS - 1)] = 1.0
    largest = np.zeros(num_nodes)
    filled = np.diff(A.indptr) > 0
    if A.nnz:
        largest[filled] = np.maximum.reduceat(degree[A.indices], A.indptr[:-1][filled])
    columns = (
        np.log1p(degree),
        np.log1p(incoming),
        np.log1p(walks / divisor),
        np.log1p(largest),
        (A @ (degree == 1).astype(np.float64)) / divisor,
        _clustering(A, degree),
        np.log1p(walks),
    )
    return np.column_stack([one_hot, *columns]).astype(np.float32)


def _clustering(A: sp.csr_matrix, degree: np.ndarray) -> np.ndarray:
    """The share of a node's pairs of neighbours that are neighbours themselves."""
    if float(A @ degree @ np.ones(len(degree)) if len(degree) else 0.0) > TRIANGLE_WORK:
        return np.zeros(len(degree))
    paths = sp.csr_matrix(A @ A)
    closed = np.asarray(paths.multiply(A).sum(axis=1)).ravel()
    return closed / np.maximum(degree * (degree - 1), 1.0)
