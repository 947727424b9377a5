"""Ridge heads: the closed form against draws and normal equations, paths of penalties, rows left out, weights."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rapgnn import RAPGNN, Propagation, RandomWeights
from rapgnn.graph.operator import GraphOperator
from rapgnn.network.engine import represent
from rapgnn.network.polynomial import PolynomialFilter
from rapgnn.network.ridge import RidgeHead, RidgePath, RidgeRegression, factored
from rapgnn.sparse import SparseMatrix
from samples import GRAPH_CONFIG as CONFIG


def test_ridge_equals_training_on_very_many_draws():
    """The closed form is the least-squares fit to a large sample of draws with the same labels."""
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
    draws = kept.draw(range(30_000))
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


def test_a_weight_is_a_number_of_copies():
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(12, 5, generator=generator)
    targets = torch.randn(12, 2, generator=generator)
    variance = torch.rand(12, 5, generator=generator)
    weights = torch.tensor([1.0, 3, 2] * 4)
    copies = torch.arange(12).repeat_interleave(weights.long())
    scatter = (weights @ variance)[:, None, None]
    weighed = RidgeRegression(mean, targets, [scatter], weights).solve(0.1)
    copied = RidgeRegression(mean[copies], targets[copies], [variance[copies].sum(0)[:, None, None]]).solve(0.1)
    torch.testing.assert_close(weighed.weight, copied.weight)
    torch.testing.assert_close(weighed.bias, copied.bias)


def solved(h, t, weights, penalty):
    """One solution by the normal equations, in double precision."""
    w = torch.ones(len(h), dtype=torch.float64) if weights is None else weights
    share = w / w.sum()
    center, level = share @ h, share @ t
    m, y = (h - center) * w.sqrt()[:, None], (t - level) * w.sqrt()[:, None]
    weight = torch.linalg.solve(m.T @ m + penalty * len(h) * torch.eye(h.shape[1], dtype=h.dtype), m.T @ y)
    return weight, level - center @ weight


def problem(rows, columns, seed=0):
    rng = torch.Generator().manual_seed(seed)
    h = torch.randn(rows, columns, generator=rng, dtype=torch.float64)
    return h, torch.randn(rows, 3, generator=rng, dtype=torch.float64), rng


@pytest.mark.parametrize("left_out", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(30, 7), (9, 40), (300, 280), (280, 300)])
def test_solutions_for_every_penalty(rows, columns, weighted, left_out):
    h, t, rng = problem(rows, columns)
    weights = torch.rand(rows, generator=rng, dtype=torch.float64) + 0.2 if weighted else None
    path = RidgePath(h, t, weights, left_out)
    for penalty in (1e-3, 0.1, 10.0):
        weight, bias = path.solve(penalty)
        expected, level = solved(h, t, weights, penalty)
        torch.testing.assert_close(weight, expected, rtol=1e-6, atol=1e-8)
        torch.testing.assert_close(bias, level, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("left_out", [True, False])
@pytest.mark.parametrize(("rows", "columns"), [(12, 5), (8, 30), (270, 260), (260, 270)])
def test_every_row_is_left_out_once(rows, columns, left_out):
    h, t, _ = problem(rows, columns, seed=1)
    penalty = 0.05
    found = RidgePath(h, t, None, left_out).left_out(penalty)
    for row in range(0, rows, max(1, rows // 6)):
        others = torch.arange(rows) != row
        weight, bias = solved(h[others], t[others], None, penalty * rows / (rows - 1))
        torch.testing.assert_close(found[row], h[row] @ weight + bias, rtol=1e-5, atol=1e-7)


def test_labels_with_gaps_are_solved_on_the_rows_that_have_them():
    h, t, _ = problem(40, 6, seed=2)
    t[::3, 1] = float("nan")
    t[:, 2] = float("nan")
    path = RidgePath(h, t)
    weight, bias = path.solve(0.1)
    known = ~t[:, 1].isnan()
    expected, level = solved(h[known], t[known][:, 1:2], None, 0.1)
    torch.testing.assert_close(weight[:, 1:2], expected, rtol=1e-8, atol=1e-10)
    assert bias[1] == pytest.approx(float(level))
    assert not weight[:, 2].any()
    scores = path.left_out(0.1)
    assert torch.equal(scores.isnan(), t.isnan())


def test_constant_columns_and_equal_rows_stay_finite():
    h = torch.ones(10, 4, dtype=torch.float64)
    t = torch.arange(10, dtype=torch.float64)[:, None]
    path = RidgePath(h, t)
    weight, bias = path.solve(1e-5)
    assert torch.isfinite(weight).all()
    assert float(bias) == pytest.approx(4.5)
    assert torch.isfinite(path.left_out(1e-5)).all()


@pytest.mark.parametrize("left_out", [True, False])
def test_columns_that_are_sums_of_others_in_single_precision(left_out):
    rng = torch.Generator().manual_seed(3)
    base = torch.randn(2000, 30, generator=rng)
    h = (base @ torch.randn(30, 400, generator=rng)) * 100.0
    t = base[:, :2].double()
    path = RidgePath(h, t, None, left_out)
    for penalty in (1e-5, 1e-1):
        weight, bias = path.solve(penalty)
        assert torch.isfinite(weight).all()
        torch.testing.assert_close(h.double() @ weight + bias, t, rtol=0.05, atol=0.05)


def product(rank: int) -> torch.Tensor:
    a = torch.randn(6, rank, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return a @ a.T


@pytest.mark.parametrize(("shift", "added"), [(0.0, 1e-9), (-0.5, 1.0)])
def test_the_first_that_gives_one_is_added(shift, added):
    matrix = product(3) + shift * torch.eye(6, dtype=torch.float64)
    before = matrix.clone()
    factor = factored(matrix, 1e-9)
    expected = before + added * torch.eye(6, dtype=torch.float64)
    assert torch.allclose(factor @ factor.T, expected, atol=1e-8)
    assert torch.equal(matrix, before)
