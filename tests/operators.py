"""Operators and features for the engines' tests, and how far two results lie apart."""

from dataclasses import replace

import numpy as np
import torch

from rapgnn import Propagation
from rapgnn.graph.backbones import BACKBONES, adjacency
from rapgnn.graph.operator import GraphOperator, build_operator
from rapgnn.sparse import SparseMatrix

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
PLAIN = [name for name, rule in BACKBONES.items() if not rule.includes_self]


def features(n: int, d: int, seed: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.rand(n, d, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def operator(backbone: str, graph, self_loops: bool = False, dtype: torch.dtype = torch.float64) -> GraphOperator:
    n, edge_index, weight = graph
    A = adjacency(edge_index, weight, n, self_loops)
    return GraphOperator(SparseMatrix(BACKBONES[backbone].operator(A), dtype=dtype))


def relative_error(a: torch.Tensor, b: torch.Tensor) -> float:
    """‖a − b‖ / ‖b‖, and plain ‖a − b‖ where b is zero."""
    size = float(b.double().norm())
    difference = float((a.double() - b.double()).norm())
    return difference / size if size else difference


def build(backbone, batch, dtype=torch.float64, eps=0.0, seed=0, channels=4):
    """(operator, h⁰, e), all non-negative."""
    sizes, edge_index, weight, codes = batch
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(sum(sizes), channels, generator=g, dtype=dtype)
    ptr = torch.tensor([0, *np.cumsum(sizes)])
    edge_attr = torch.eye(3, dtype=dtype)[codes] if backbone == "gine" else None
    operator = build_operator(x, edge_index, backbone, weight, edge_attr, ptr, eps=eps)
    e = None
    if operator.edges is not None:
        e = operator.edges.features @ torch.rand(3, channels, generator=g, dtype=dtype)
    return operator, x, e


def adapted(spec: Propagation, operator: GraphOperator) -> Propagation:
    return replace(spec, operator_scale=operator.growth_rate)
