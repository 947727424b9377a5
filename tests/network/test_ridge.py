"""The one ridge regression: every way to its solution, against draws and normal equations; rows left out; weights."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rapgnn.network import heads
from rapgnn.network.heads import NormalEquations, RidgeHead, RidgeRegression, factored, same_gaps


def floor_of(h, weights, scatter, penalty):
    """What λ adds to the diagonal: it is relative to the mean squared size of the centred columns."""
    weights = torch.ones(len(h), dtype=h.dtype) if weights is None else weights
    m = (h - weights @ h / weights.sum()) * weights.sqrt()[:, None]
    return penalty * float(m.square().sum() + scatter.diagonal().sum()) / h.shape[1]


def solved(h, t, weights, scatter, floor):
    """One solution by the normal equations; ``scatter`` ``[J·d, J·d]`` is what the draws add."""
    w = torch.ones(len(h), dtype=h.dtype) if weights is None else weights
    share = w / w.sum()
    center, level = share @ h, share @ t
    m, y = (h - center) * w.sqrt()[:, None], (t - level) * w.sqrt()[:, None]
    weight = torch.linalg.solve(m.T @ m + scatter + floor * torch.eye(h.shape[1], dtype=h.dtype), m.T @ y)
    return weight, level - center @ weight


class Problem:
    """Rows, labels of which some are not known, weights, and the covariance of every row's outputs, from a seed."""

    def __init__(self, rows, channels, outputs=1, seed=0, weighted=False, random=False, gaps=False):
        g = torch.Generator().manual_seed(seed)
        d, to = channels * outputs, {"generator": g, "dtype": torch.float64}
        self.h, self.t = torch.randn(rows, d, **to), torch.randn(rows, 3, **to)
        if gaps:
            self.t[::3, 1] = float("nan")
            self.t[:, 2] = float("nan")
        self.weights = torch.rand(rows, **to) + 0.2 if weighted else None
        root = torch.randn(rows, channels, outputs, 2, **to)
        self.covariance = root @ root.mT if random else torch.zeros(rows, channels, outputs, outputs).double()
        self.random = random

    def scatter(self, known):
        """[d, J, J], summed over the rows that are known."""
        w = torch.ones(len(self.h), dtype=torch.float64) if self.weights is None else self.weights
        return torch.einsum("r,rdjm->djm", w[known], self.covariance[known])

    def regression(self, many):
        scatter = [self.scatter(known) for _, known in same_gaps(self.t)] if self.random else None
        return RidgeRegression(self.h, self.t, scatter, self.weights, many)

    def of_sums(self):
        """From sums over the rows, as where they were too many to be kept."""
        sums = []
        for columns, known in same_gaps(self.t):
            h, t = self.h[known], self.t[known][:, columns]
            w = torch.ones(len(h), dtype=h.dtype) if self.weights is None else self.weights[known]
            center, level = w @ h / w.sum(), w @ t / w.sum()
            m, y = h - center, t - level
            gram, right, square = m.T @ (w[:, None] * m), m.T @ (w[:, None] * y), y.T @ (w[:, None] * y)
            equations = NormalEquations(None, None, gram, right, self.scatter(known), 0, square)
            sums.append(equations.about(columns, center, level, float(w.sum())))
        return RidgeRegression.of_sums((self.h.shape[1], self.t.shape[1]), sums)

    def by_hand(self, penalty, left_out=None):
        """Weight and bias by the normal equations, one label after another; without one row."""
        d, parts = self.h.shape[1], []
        for column in range(3):
            known = ~self.t[:, column].isnan()
            if not bool(known.any()):
                parts.append((torch.zeros(d, 1).double(), torch.zeros(1).double()))
                continue
            outputs = self.covariance.shape[2]
            scatter = self.scatter(known)
            whole = torch.zeros(outputs, d // outputs, outputs, d // outputs, dtype=torch.float64)
            for channel in range(d // outputs):
                whole[:, channel, :, channel] = scatter[channel]
            whole = whole.view(d, d)
            floor = floor_of(self.h[known], None if self.weights is None else self.weights[known], whole, penalty)
            if left_out is not None:
                known[left_out] = False
            weights = None if self.weights is None else self.weights[known]
            parts.append(solved(self.h[known], self.t[known][:, [column]], weights, whole, floor))
        return torch.cat([weight for weight, _ in parts], dim=1), torch.cat([bias for _, bias in parts])


problems = st.builds(
    Problem,
    rows=st.integers(4, 40),
    channels=st.integers(1, 30),
    outputs=st.integers(1, 3),
    seed=st.integers(0, 1 << 20),
    weighted=st.booleans(),
    random=st.booleans(),
    gaps=st.booleans(),
)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(problem=problems, penalty=st.sampled_from([1e-3, 0.1, 1.0, 30.0]))
def test_every_way_gives_the_solution_of_the_normal_equations(problem, penalty):
    """By an eigendecomposition or a factorisation, with one unknown per row or per column, from sums over rows."""
    weight, bias = problem.by_hand(penalty)
    ways = [problem.regression(many=False), problem.regression(many=True), problem.of_sums()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heads, "DECOMPOSED", 0)
        ways.append(problem.regression(many=True))
    for way in ways:
        solution = way.solve(penalty)
        torch.testing.assert_close(solution.weight, weight, rtol=1e-6, atol=1e-8)
        torch.testing.assert_close(solution.bias, bias, rtol=1e-6, atol=1e-8)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(problem=problems, penalty=st.sampled_from([0.05, 2.0]), decomposed=st.sampled_from([0, 1200]))
def test_every_row_is_left_out_once(problem, penalty, decomposed):
    """Each by the solution without it; its own variance stays part of the penalty."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heads, "DECOMPOSED", decomposed)
        found = problem.regression(many=True).left_out(penalty)
    assert torch.equal(found.isnan(), problem.t.isnan())
    for row in range(0, len(problem.h), max(1, len(problem.h) // 4)):
        weight, bias = problem.by_hand(penalty, left_out=row)
        known = ~problem.t[row].isnan()
        torch.testing.assert_close(found[row, known], (problem.h[row] @ weight + bias)[known], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("many", [True, False])
@pytest.mark.parametrize(("rows", "columns"), [(300, 280), (280, 300)])
def test_more_unknowns_than_are_decomposed_once(rows, columns, many):
    problem = Problem(rows, columns)
    weight, _ = problem.by_hand(0.1)
    regression = problem.regression(many)
    torch.testing.assert_close(regression.solve(0.1).weight, weight, rtol=1e-6, atol=1e-8)
    out, without = regression.left_out(0.1)[5], problem.by_hand(0.1, left_out=5)
    torch.testing.assert_close(out, problem.h[5] @ without[0] + without[1], rtol=1e-5, atol=1e-7)


def test_a_head_multiplies_its_scores_and_their_noise():
    problem, head = Problem(20, 5), RidgeHead(5, 3).double()
    regression = RidgeRegression(problem.h, problem.t)
    head.take(regression.solve(0.3), regression.posterior(0.3))
    scores, noise = head(problem.h), head.noise.clone()
    head.multiply(3.0)
    torch.testing.assert_close((head(problem.h), head.noise), (3 * scores, 3 * noise))
    assert (head.penalty, head.inverse_temperature) == (0.3, 3.0)


def test_constant_columns_and_equal_rows_stay_finite():
    h = torch.ones(10, 4, dtype=torch.float64)
    t = torch.arange(10, dtype=torch.float64)[:, None]
    regression = RidgeRegression(h, t)
    solution = regression.solve(1e-5)
    assert torch.isfinite(solution.weight).all()
    assert float(solution.bias) == pytest.approx(4.5)
    assert torch.isfinite(regression.left_out(1e-5)).all()


@pytest.mark.parametrize("many", [True, False])
def test_columns_that_are_sums_of_others_in_single_precision(many):
    rng = torch.Generator().manual_seed(3)
    base = torch.randn(2000, 30, generator=rng)
    h = (base @ torch.randn(30, 400, generator=rng)) * 100.0
    t = base[:, :2].double()
    regression = RidgeRegression(h, t, many=many)
    for penalty in (1e-5, 1e-2):
        solution = regression.solve(penalty)
        assert torch.isfinite(solution.weight).all()
        torch.testing.assert_close(h.double() @ solution.weight + solution.bias, t, rtol=0.05, atol=0.05)


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


@settings(max_examples=60, deadline=None, derandomize=True)
@given(problem=problems, penalty=st.sampled_from([1e-2, 1.0, 30.0]))
def test_every_way_gives_the_posterior_of_the_normal_equations(problem, penalty):
    """Of a prior λ and noise of the size that makes the labels likeliest; wide roots are random projections."""
    columns = problem.h.shape[1]
    ways = [problem.regression(many=False), problem.regression(many=True), problem.of_sums()]
    if len(list(same_gaps(problem.t))) > 1:  # one root would not do for all labels
        assert all(way.posterior(penalty) is None for way in ways)
        return
    w = torch.ones(len(problem.h)).double() if problem.weights is None else problem.weights
    center = w @ problem.h / w.sum()
    m, outputs = (problem.h - center) * w.sqrt()[:, None], problem.covariance.shape[2]
    whole = torch.zeros(outputs, columns // outputs, outputs, columns // outputs).double()
    for channel, block in enumerate(problem.scatter(torch.ones(len(m), dtype=torch.bool))):
        whole[:, channel, :, channel] = block
    whole = whole.view(columns, columns)
    matrix = m.T @ m + whole + floor_of(problem.h, problem.weights, whole, penalty) * torch.eye(columns).double()
    t = (problem.t - w @ problem.t / w.sum()) * w.sqrt()[:, None]
    left = (t.T @ t - t.T @ m @ torch.linalg.solve(matrix, m.T @ t)) / w.sum()
    exact = torch.linalg.inv(matrix)
    for way in ways:
        found = way.posterior(penalty)
        assert found.root.shape == (columns, min(columns, heads.SKETCH))
        assert found.level == pytest.approx(1 / float(w.sum()))
        torch.testing.assert_close(found.noise @ found.noise.T, left, rtol=1e-5, atol=1e-7 * float(left.max()))
        size = float(exact.diagonal().max())
        spread = 1e-6 if columns <= heads.SKETCH else 1.0
        torch.testing.assert_close(found.root @ found.root.T, exact, rtol=1e-5, atol=spread * size)
        trace = float((found.root @ found.root.T).trace() / exact.trace())
        assert trace == pytest.approx(1, abs=1e-5 if columns <= heads.SKETCH else 0.5)


@pytest.mark.parametrize(("rows", "columns"), [(40, 6), (40, 300), (6, 40)])
def test_other_targets_share_the_equations(rows, columns):
    """With a factorisation per penalty, an eigendecomposition, and one unknown per row."""
    generator = torch.Generator().manual_seed(3)
    h, first, other = (torch.randn(rows, c, generator=generator) for c in (columns, 2, 3))
    again, alone = RidgeRegression(h, first).with_targets(other), RidgeRegression(h, other)
    for penalty in (1e-3, 1.0):
        torch.testing.assert_close(again.solve(penalty).weight, alone.solve(penalty).weight)
        torch.testing.assert_close(again.solve(penalty).bias, alone.solve(penalty).bias)
