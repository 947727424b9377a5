"""Whether two methods differ: t tests, confidence intervals, and Holm's correction for several tests.

A difference is always in favour of the first: positive means that the first is better, for errors too.

* Runs with seeds: Welch's t test, two-sided.
* Folds that are the same for both: paired t test, two-sided. Folds share training graphs, so its p is rather too small
  than too large; ``p_shared`` is the same test with the variance corrected for that (Nadeau and Bengio, 2003).
* A quoted mean: one-sample t test.

All are one t test, of a difference with its variance and degrees of freedom.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from rapgnn.graph.nodes import FOLDS

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
        test: its name, or why there is none.
        low, high: 95 % confidence interval of the difference; None without a test.
        p: two-sided; None without a test.
        p_shared: for folds, p corrected for the training graphs they share.
    """

    difference: float
    test: str
    low: float | None = None
    high: float | None = None
    p: float | None = None
    p_shared: float | None = None


def compare_samples(
    first: Sequence[float], second: Sequence[float], *, higher: bool = True, paired: bool = False
) -> Comparison:
    """The means of two samples; ``paired``: value i of both comes from the same fold; ``higher``: more is better."""
    x, y = (np.asarray(values, dtype=float) * (1 if higher else -1) for values in (first, second))
    finite = [values[np.isfinite(values)] for values in (x, y)]
    if len(finite[0]) + len(finite[1]) < len(x) + len(y):
        return Comparison(float(finite[0].mean() - finite[1].mean()), DIVERGED)
    difference = float(x.mean() - y.mean())
    if min(len(x), len(y)) < 2:
        return Comparison(difference, NO_TEST)
    if paired and len(x) == len(y):
        mean, variance, count = float((x - y).mean()), _variance(x - y), len(x)
        shared = _t_test("", mean, variance * (1 / count + 1 / (FOLDS - 1)), count - 1)
        return replace(_t_test("paired t", mean, variance / count, count - 1), p_shared=shared.p)
    parts = np.array([_variance(x) / len(x), _variance(y) / len(y)])
    freedom = parts.sum() ** 2 / (parts**2 / [len(x) - 1, len(y) - 1]).sum() if parts.any() else 1
    return _t_test("Welch t", difference, float(parts.sum()), float(freedom))


def compare_to_quoted(values: Sequence[float], quoted: float, *, higher: bool = True) -> Comparison:
    """The mean of a sample against a published mean, which is taken as exact."""
    untested = compare_samples(values, [quoted], higher=higher)
    if len(values) < 2 or untested.test == DIVERGED:
        return untested
    variance = _variance(np.asarray(values, dtype=float))
    return _t_test("one-sample t", untested.difference, variance / len(values), len(values) - 1)


def compare_slopes(first: Mapping[int, float], second: Mapping[int, float]) -> Comparison:
    """How much faster the first rises than the second, x -> y: two straight lines of three points or more."""
    lines = [np.polyfit(list(points), list(points.values()), 1, cov=True) for points in (first, second)]
    difference = float(lines[0][0][0] - lines[1][0][0])
    variance = sum(float(covariance[0, 0]) for _, covariance in lines)
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


def outcome(difference: float, p: float | None) -> str:
    """Ahead, level or behind at the 5 % level, by p, adjusted where it is one of several."""
    if p is None:
        return UNTESTED
    return TIED if p >= LEVEL else AHEAD if difference > 0 else BEHIND


def _t_test(name: str, difference: float, variance: float, freedom: float) -> Comparison:
    """From the variance of the difference; where nothing varies, different means cannot be tested."""
    if variance < SAME**2:
        same = abs(difference) <= SAME
        return Comparison(0.0, "all values equal", 0.0, 0.0, 1.0) if same else Comparison(difference, NO_TEST)
    error = math.sqrt(variance)
    half = float(special.stdtrit(freedom, 1 - LEVEL / 2)) * error
    p = float(2 * special.stdtr(freedom, -abs(difference) / error))
    return Comparison(difference, name, difference - half, difference + half, p)


def _variance(values: np.ndarray) -> float:
    """Of what the values are a sample of; equal values have none, whatever rounding says."""
    return 0.0 if np.ptp(values) <= SAME * max(1.0, float(np.abs(values).max())) else float(values.var(ddof=1))
