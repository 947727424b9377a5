"""Whether two methods differ: t tests, confidence intervals, and Holm's correction for several tests.

A difference is always in favour of the first: positive means that the first is better, for errors too.

* Runs with seeds: Welch's t test, two-sided.
* Folds that are the same for both: paired t test, two-sided. Folds share training graphs, so its p is rather too small
  than too large; ``p_shared`` is the same test with the variance corrected for that (Nadeau and Bengio, 2003).
* A quoted mean: one-sample t test.

The tests are scipy's.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from rapgnn.graph.rows import FOLDS

LEVEL = 0.05
NO_TEST = "one value, no test"
DIVERGED = "a run without a finite value, no test"
AHEAD, TIED, BEHIND, UNTESTED = "ahead", "level", "behind", "no test"
SAME = 1e-12  # differences below this, in units of the values, are rounding


@dataclass(frozen=True)
class Comparison:
    """The first against the second: the difference of the means, positive where the first is better, the name of the
    test or why there is none, the 95 % interval and the two-sided p; ``p_shared`` is corrected for shared folds."""

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
    if not (paired and len(x) == len(y)):
        return _compared("Welch t", difference, (x, y), lambda: stats.ttest_ind(x, y, equal_var=False))
    tested = _compared("paired t", difference, (x - y,), lambda: stats.ttest_rel(x, y))
    if tested.p is None:
        return tested
    longer = math.sqrt(1 + len(x) / (FOLDS - 1))  # the standard error with what folds share, divided by the usual one
    t = stats.t.isf(tested.p / 2, len(x) - 1) / longer
    return replace(tested, p_shared=float(2 * stats.t.sf(t, len(x) - 1)))


def compare_to_quoted(values: Sequence[float], quoted: float, *, higher: bool = True) -> Comparison:
    """The mean of a sample against a published mean, which is taken as exact."""
    untested = compare_samples(values, [quoted], higher=higher)
    if len(values) < 2 or untested.test == DIVERGED:
        return untested
    x = np.asarray(values, dtype=float) * (1 if higher else -1)
    centre = quoted if higher else -quoted
    return _compared("one-sample t", untested.difference, (x,), lambda: stats.ttest_1samp(x - centre, 0.0))


def compare_slopes(first: Mapping[int, float], second: Mapping[int, float]) -> Comparison:
    """How much faster the first rises than the second, x -> y: two straight lines of three points or more."""
    lines: list[Any] = [stats.linregress(list(points), list(points.values())) for points in (first, second)]
    difference, error = lines[0].slope - lines[1].slope, math.hypot(*(line.stderr for line in lines))
    spread = stats.t(len(first) + len(second) - 4, difference, error)
    low, high = spread.interval(1 - LEVEL)
    p = 2 * spread.sf(difference + abs(difference))
    return Comparison(difference, "t test of two slopes", float(low), float(high), float(p))


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


def _compared(name: str, difference: float, samples: Sequence[np.ndarray], test: Callable[[], Any]) -> Comparison:
    """The answer of one of scipy's tests; where no sample varies, different means cannot be tested."""
    if all(np.ptp(values) <= SAME * max(1.0, float(np.abs(values).max())) for values in samples):
        same = abs(difference) <= SAME
        return Comparison(0.0, "all values equal", 0.0, 0.0, 1.0) if same else Comparison(difference, NO_TEST)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # one of two samples may be constant
        tested = test()
    low, high = tested.confidence_interval(1 - LEVEL)
    return Comparison(difference, name, float(low), float(high), float(tested.pvalue))
