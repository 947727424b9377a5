"""The path of ridge solutions against each penalty solved on its own, and rows really left out."""

import pytest
import torch

from rapgnn.layers.ridge_path import RidgePath


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
@pytest.mark.parametrize(("rows", "columns"), [(30, 7), (9, 40), (20, 20), (300, 280), (280, 300)])
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
