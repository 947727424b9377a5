"""Few rows of wide sparse features: from the rows' side the same numbers as by columns."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from rapgnn.graph.operator import GraphOperator, build_operator
from rapgnn.layers.weights import RandomWeights
from rapgnn.propagation import few_rows
from rapgnn.propagation.few_rows import few_rows_pay
from rapgnn.propagation.polynomial import PolynomialFilter
from rapgnn.propagation.spec import Propagation
from rapgnn.sparse import SparseMatrix


def _case(backbone: str, n: int = 60, width: int = 90) -> tuple[GraphOperator, SparseMatrix]:
    rng = np.random.default_rng(0)
    x = SparseMatrix(sp.random(n, width, density=0.03, random_state=1, dtype=np.float32))
    edges = torch.from_numpy(rng.integers(0, n, (2, 150)))  # directed, with isolated nodes and loops
    return build_operator(x, edges, backbone), x


@pytest.mark.parametrize("backbone", ["gcn", "sage", "gin"])
@pytest.mark.parametrize("expect", [None, [5, 5, 1], []])
def test_the_same_hops_and_expectation(
    backbone: str, expect: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, x = _case(backbone)
    scale = operator.growth_rate if backbone == "gin" else 1.0
    spec = Propagation(backbone, 4, RandomWeights(seed=1), operator_scale=scale)
    rows, others = torch.tensor([3, 0, 3]), None if expect is None else torch.tensor(expect, dtype=torch.int64)
    found = []
    for worth in (0, 1 << 60):
        monkeypatch.setattr(few_rows, "WORTH_IT", worth)
        assert few_rows_pay(spec, operator, x, rows, others) == (worth == 0)
        part = PolynomialFilter(spec, operator, x, rows, others)
        found.append((part.hops, part.expected))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_where_columns_are_cheaper(monkeypatch: pytest.MonkeyPatch) -> None:
    operator, x = _case("gcn")
    monkeypatch.setattr(few_rows, "WORTH_IT", 0)
    spec, few = Propagation("gcn", 4), torch.tensor([1])
    assert few_rows_pay(spec, operator, x, few, None)
    assert not few_rows_pay(spec, operator, x, torch.arange(60), torch.arange(60))
    assert not few_rows_pay(spec, operator, x, None, None)
    assert not few_rows_pay(spec, operator, x.columns(0, 90), few, None)
    assert not few_rows_pay(Propagation("gcn", 4, jumping="cat"), operator, x, few, None)
