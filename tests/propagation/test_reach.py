"""Hops that visit only the nodes that matter give the same numbers, bit for bit."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rapgnn.graph.operator import build_operator
from rapgnn.layers.weights import RandomWeights
from rapgnn.propagation import hops as module
from rapgnn.propagation.hops import Reach
from rapgnn.propagation.polynomial import PolynomialFilter, expectation_and_covariance
from rapgnn.propagation.spec import Propagation


def _path(n: int) -> torch.Tensor:
    one = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
    return torch.cat([one, one.flip(0)], dim=1)


@settings(max_examples=40)
@given(
    n=st.integers(1, 30),
    edges=st.lists(st.tuples(st.integers(0, 29), st.integers(0, 29)), max_size=60),
    rows=st.lists(st.integers(0, 29), max_size=6),
    backbone=st.sampled_from(["gcn", "sage", "gin"]),
    depth=st.integers(1, 4),
)
def test_the_same_numbers(n: int, edges: list[tuple[int, int]], rows: list[int], backbone: str, depth: int) -> None:
    edge_index = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T % n
    x = torch.rand(n, 5, generator=torch.Generator().manual_seed(0))
    operator = build_operator(x, edge_index, backbone)
    spec, wanted = Propagation(backbone, depth, RandomWeights(seed=1)), torch.tensor(rows, dtype=torch.int64) % n
    with pytest.MonkeyPatch.context() as patch:
        found = []
        for worth in (0, 1 << 60):
            patch.setattr(module, "WORTH_IT", worth)
            part = PolynomialFilter(spec, operator, x, wanted, expect=wanted.flip(0))
            found.append((part.hops, part.expected, *expectation_and_covariance(spec, operator, x, wanted)))
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_the_last_hops_visit_few_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORTH_IT", 0)
    matrix = build_operator(torch.ones(101, 1), _path(101), "gcn").matrix
    reach = Reach(matrix, 4, [torch.tensor([50])], 1)
    assert [reach.step(k).shape[0] for k in (1, 2, 3, 4)] == [7, 5, 3, 1]
    assert reach.step(1).shape[1] == 101
    assert reach.places(3, torch.tensor([50])).tolist() == [1]  # type: ignore[union-attr]


@pytest.mark.parametrize("wanted", [[None], [torch.arange(101)], [torch.tensor([3]), None]])
def test_where_nearly_all_are_wanted_all_are_visited(wanted: list, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORTH_IT", 0)
    matrix = build_operator(torch.ones(101, 1), _path(101), "gcn").matrix
    reach = Reach(matrix, 2, wanted, 1)
    assert all(reach.step(k) is matrix for k in (1, 2))


def test_a_small_component_is_stored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once no further node is reached, all earlier hops share one matrix."""
    monkeypatch.setattr(module, "WORTH_IT", 0)
    clique = torch.combinations(torch.arange(10), 2).T
    edges = torch.cat([clique, clique.flip(0)], dim=1)
    x = torch.rand(40, 3, generator=torch.Generator().manual_seed(0))
    operator = build_operator(x, edges, "gcn")
    reach = Reach(operator.matrix, 30, [torch.tensor([2])], 3)
    assert len({id(reach.step(k)) for k in range(1, 31)}) <= 4
    spec = Propagation("gcn", 30, RandomWeights(seed=1))
    found = []
    for worth in (0, 1 << 60):
        monkeypatch.setattr(module, "WORTH_IT", worth)
        found.append(PolynomialFilter(spec, operator, x, torch.tensor([2, 7])).hops)
    assert torch.equal(*found)
