"""Whether two methods differ: t tests, confidence intervals, and Holm's correction for several tests.

A difference is always in favour of the first: positive means that the first is better, for errors too.

* Runs with seeds: Welch's t test, two-sided.
* Folds that are the same for both: paired t test, two-sided. Folds share training graphs, so its p is rather too small
  than too large; ``p_shared`` is the same test with the variance corrected for that (Nadeau and Bengio, 2003).
* A quoted mean: one-sample t test.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from rapgnn.graph.splits import FOLDS

LEVEL = 0.05
NO_TEST = "one value, no test"
DIVERGED = "a run without a finite value, no test"
AHEAD, TIED, BEHIND, UNTESTED = "ahead", "level", "behind", "no test"
SAME = 1e-12  # differences below this, in units of the values, are rounding


@dataclass(frozen=True)
class Comparison:
    """The first against the second.

    Args:
        difference: of the means, positive where the first is better.
        low, high: 95 % confidence interval of the difference; None without a test.
        p: two-sided; None without a test.
        test: its name, or why there is none.
        p_shared: for folds, p corrected for the training graphs they share.
    """

    difference: float
    low: float | None
    high: float | None
    p: float | None
    test: str
    p_shared: float | None = None


def compare_samples(
    first: Sequence[float], second: Sequence[float], *, higher: bool = True, paired: bool = False
) -> Comparison:
    """The means of two samples; the order of the values matters only where they are paired.

    Args:
        higher: whether more is better.
        paired: value i of both comes from the same fold.
    """
    x, y = (np.asarray(values, dtype=float) * (1 if higher else -1) for values in (first, second))
    finite = [values[np.isfinite(values)] for values in (x, y)]
    if len(finite[0]) + len(finite[1]) < len(x) + len(y):
        return Comparison(float(finite[0].mean() - finite[1].mean()), None, None, None, DIVERGED)
    if paired and len(x) == len(y):
        return _paired(x - y)
    difference = float(x.mean() - y.mean())
    if min(len(x), len(y)) < 2:
        return Comparison(difference, None, None, None, NO_TEST)
    parts = np.array([_variance(x) / len(x), _variance(y) / len(y)])
    freedom = np.array([len(x) - 1, len(y) - 1])
    if not parts.any():
        return _without_spread(difference)
    return _t_test("Welch t", difference, parts.sum(), float(parts.sum() ** 2 / (parts**2 / freedom).sum()))


def compare_to_quoted(values: Sequence[float], quoted: float, *, higher: bool = True) -> Comparison:
    """The mean of a sample against a published mean, which is taken as exact."""
    sign = 1 if higher else -1
    compared = compare_samples(values, [quoted], higher=higher)
    x = sign * np.asarray(values, dtype=float)
    if len(x) < 2 or compared.test == DIVERGED:
        return compared
    variance = _variance(x)
    if variance == 0:
        return _without_spread(compared.difference)
    return _t_test("one-sample t", compared.difference, variance / len(x), len(x) - 1)


def compare_slopes(first: Mapping[int, float], second: Mapping[int, float]) -> Comparison:
    """How much faster the first rises than the second: two straight lines, one t test for their slopes.

    Args:
        first, second: x -> y, three points or more.
    """
    lines = [np.polyfit(list(points), list(points.values()), 1, cov=True) for points in (first, second)]
    difference = float(lines[0][0][0] - lines[1][0][0])
    variance = sum(float(covariance[0, 0]) for _, covariance in lines)
    if variance < SAME**2:
        return _without_spread(difference)
    return _t_test("t test of two slopes", difference, variance, len(first) + len(second) - 4)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjustment; None stays None and is not counted."""
    order = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, i) in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * p))
        adjusted[i] = highest
    return adjusted


def outcome(compared: Comparison, p: float | None) -> str:
    """Ahead, level or behind at the 5 % level.

    Args:
        p: that of the comparison, adjusted where it is one of several.
    """
    if p is None:
        return UNTESTED
    if p >= LEVEL:
        return TIED
    return AHEAD if compared.difference > 0 else BEHIND


def _paired(differences: np.ndarray) -> Comparison:
    mean, count = float(differences.mean()), len(differences)
    if count < 2:
        return Comparison(mean, None, None, None, NO_TEST)
    variance = _variance(differences)
    if variance == 0:
        return _without_spread(mean)
    found = _t_test("paired t", mean, variance / count, count - 1)
    shared = _t_test("", mean, variance * (1 / count + 1 / (FOLDS - 1)), count - 1)
    return Comparison(mean, found.low, found.high, found.p, found.test, shared.p)


def _t_test(name: str, difference: float, variance: float, freedom: float) -> Comparison:
    """From the variance of the difference."""
    error = math.sqrt(variance)
    reach = float(special.stdtrit(freedom, 1 - LEVEL / 2)) * error
    p = float(2 * special.stdtr(freedom, -abs(difference) / error))
    return Comparison(difference, difference - reach, difference + reach, p, name)


def _variance(values: np.ndarray) -> float:
    """Of what the values are a sample of; equal values have none, whatever rounding says."""
    return 0.0 if np.ptp(values) <= SAME * max(1.0, float(np.abs(values).max())) else float(values.var(ddof=1))


def _without_spread(difference: float) -> Comparison:
    """Nothing varies: equal means are level, and different ones cannot be tested."""
    if abs(difference) <= SAME:
        return Comparison(0.0, 0.0, 0.0, 1.0, "all values equal")
    return Comparison(difference, None, None, None, NO_TEST)
