"""The ridge head: the closed form against very many draws and against the normal equations."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rapgnn import RAPGNN
from rapgnn.graph.operator import GraphOperator
from rapgnn.layers.ridge import RidgeHead, RidgeRegression
from rapgnn.propagation.polynomial import PolynomialFilter
from rapgnn.sparse import SparseMatrix
from samples import GRAPH_CONFIG as CONFIG


def test_ridge_equals_training_on_very_many_draws():
    """The closed form is the least-squares fit to a large sample of draws with the same labels."""
    from rapgnn import Propagation, RandomWeights

    g = torch.Generator().manual_seed(0)
    rows, d = 12, 5
    edges = np.random.default_rng(0).integers(0, rows, (2, 40))
    dense = np.zeros((rows, rows))
    np.add.at(dense, (edges[1], edges[0]), 0.2)
    spec = Propagation("gcn", 3, RandomWeights(seed=1))
    kept = PolynomialFilter(
        spec, GraphOperator(SparseMatrix(dense, dtype=torch.float64)), torch.rand(rows, d, generator=g).double()
    )
    y = torch.randn(rows, 2, generator=g, dtype=torch.float64)
    head = RidgeHead(d, 2).double().fit(kept.expectation(), kept.scatter, y, ridge=0.0)
    draws = kept.draw(range(60_000))
    # The bias is fitted to the mean representation, as in the head.
    center = kept.expectation().mean(0)
    flat = (draws - center).reshape(-1, d)
    sampled = torch.linalg.lstsq(flat, (y - y.mean(0)).repeat(len(draws), 1)).solution
    torch.testing.assert_close(head.weight, sampled, rtol=0.05, atol=0.02)


@pytest.mark.parametrize("rows", [4, 40])
def test_ridge_primal_and_dual_agree_with_the_normal_equations(rows):
    g = torch.Generator().manual_seed(1)
    m, v, y = (torch.rand(rows, k, generator=g, dtype=torch.float64) for k in (7, 7, 2))
    head = RidgeHead(7, 2).double().fit(m, lambda rows: v[rows].sum(0)[:, None, None], y, ridge=0.3)
    c = m - m.mean(0)
    size = float((c.square().sum() + v.sum()) / 7)
    normal = c.T @ c + torch.diag(v.sum(0) + 0.3 * size)
    torch.testing.assert_close(head.weight, torch.linalg.solve(normal, c.T @ (y - y.mean(0))))


def test_ridge_leaves_unknown_labels_out():
    g = torch.Generator().manual_seed(1)
    m, y = torch.rand(20, 3, generator=g), torch.rand(20, 2, generator=g)
    y[5:, 1] = float("nan")

    def nothing(rows):
        return torch.zeros(3, 1, 1)

    both = RidgeHead(3, 2).fit(m, nothing, y, 0.1)
    alone = RidgeHead(3, 1).fit(m[:5], nothing, y[:5, 1:], 0.1)
    torch.testing.assert_close(both.weight[:, 1:], alone.weight)


def test_ridge_with_jumping_knowledge_equals_training_on_very_many_draws(molecules):
    """The block penalty is the least-squares fit to a large sample of draws."""
    from rapgnn.layers.ridge import RidgeHead
    from rapgnn.propagation.engine import represent

    config = CONFIG.update(embedding="fixed-random", jumping="cat", hidden_channels=3, params=(0.5, 1.0))
    model = RAPGNN(4, out_channels=2, edge_channels=3, **config.to_dict()).double()
    graph = replace(
        molecules, x=molecules.x.to(dtype=torch.float64), edge_attr=molecules.edge_attr.to(dtype=torch.float64)
    )
    operator = graph.operator("gine")
    model.fit_operator_scale(operator)
    kept = represent(model.spec, operator, graph.x, model.embedding).rows(torch.arange(30)).filter
    y = torch.randn(30, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    head = RidgeHead(9, 1).double().fit(kept.expectation(), kept.scatter, y, ridge=0.0)
    draws = kept.draw(range(20_000))
    flat = (draws - kept.expectation().mean(0)).reshape(-1, 9)
    sampled = torch.linalg.lstsq(flat, (y - y.mean(0)).repeat(20_000, 1)).solution
    fitted, wanted = flat @ head.weight, flat @ sampled
    assert float((fitted - wanted).norm() / wanted.norm()) < 0.15


@pytest.mark.parametrize("width", [5, 80])
@pytest.mark.parametrize("weighted", [False, True])
def test_where_nothing_is_random_the_shorter_way_gives_the_same(width, weighted):
    g = torch.Generator().manual_seed(3)
    h, y = torch.randn(30, width, generator=g), torch.randn(30, 3, generator=g)
    y[:7, 1] = float("nan")
    weights = torch.rand(30, generator=g) + 0.5 if weighted else None
    certain = RidgeRegression(h, y, weights=weights)
    zeros = [torch.zeros(width, 1, 1)] * 2  # one group of labels without gaps, one with
    other = RidgeRegression(h, y, zeros, weights)
    for penalty in (1e-3, 1.0, 30.0):
        a, b = certain.solve(penalty), other.solve(penalty)
        torch.testing.assert_close(a.weight, b.weight, rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(a.bias, b.bias, rtol=1e-6, atol=1e-9)


def test_features_that_say_nothing_give_the_mean():
    solved = RidgeRegression(torch.zeros(6, 2), torch.tensor([[1.0], [2.0], [3.0], [4.0], [5.0], [9.0]])).solve(1.0)
    assert solved.weight.abs().max() == 0
    assert float(solved.bias) == pytest.approx(4.0)
