"""The expectation as a linear map: its products are those of the matrix that it stands for."""

import pytest
import torch

from rapgnn.models.config import Config
from rapgnn.propagation.linear import ExpectedMap
from rapgnn.propagation.polynomial import PolynomialFilter, expectation

CASES = [
    ("gcn", 3, "last", False),
    ("gcn", 2, "cat", True),
    ("sage", 2, "cat", False),
    ("gin", 2, "last", False),
    ("gin", 2, "cat", False),
]


@pytest.fixture(params=CASES, ids=lambda case: "-".join(map(str, case)))
def mapped(request, small_graph):
    backbone, layers, jumping, self_loops = request.param
    config = Config(backbone=backbone, num_layers=layers, jumping=jumping, activation="identity", self_loops=self_loops)
    operator = small_graph.operator(backbone, self_loops)
    from dataclasses import replace

    scale = operator.growth_rate if backbone == "gin" else 1.0
    spec = replace(config.propagation(0), operator_scale=scale)
    return ExpectedMap(spec, operator, small_graph.x), spec, operator, small_graph


def test_products_are_those_of_the_expectation(mapped):
    expected, spec, operator, graph = mapped
    whole = expectation(spec, operator, graph.x, torch.arange(graph.num_nodes))
    weight = torch.randn(expected.width, 3, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(expected @ weight, whole @ weight, rtol=1e-4, atol=1e-4)
    rows, values = graph.train, torch.randn(len(graph.train), 4, generator=torch.Generator().manual_seed(1))
    wanted = whole[rows].T @ values
    assert torch.allclose(expected.transposed(rows, values), wanted, rtol=1e-4, atol=1e-3)
    sums = expected.hop_sums(rows, values)
    assert torch.allclose(expected.from_hop_sums(sums), wanted, rtol=1e-4, atol=1e-3)


def test_the_covariance_of_all_rows_is_that_of_the_stored_hops(mapped):
    expected, spec, operator, graph = mapped
    stored = PolynomialFilter(spec, operator, graph.x, graph.train)
    sums = expected.hop_sums(graph.train, torch.eye(len(graph.train)))
    wanted = stored.scatter(torch.arange(len(graph.train))).float()
    assert torch.allclose(expected.scatter(sums @ sums.mT), wanted, rtol=1e-3, atol=1e-4 * float(wanted.abs().max()))
