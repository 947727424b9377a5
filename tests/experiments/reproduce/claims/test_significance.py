"""Tests of significance: scipy's answers, known samples, and samples that leave nothing to test."""

import math

import numpy as np
import pytest
from scipy import stats

from rapgnn.experiments.reproduce.claims.significance import (
    AHEAD,
    BEHIND,
    DIVERGED,
    NO_TEST,
    TIED,
    UNTESTED,
    Comparison,
    compare_samples,
    compare_slopes,
    compare_to_quoted,
    holm,
    outcome,
)


def samples(sizes=(5, 7), seed=0, shift=0.01):
    rng = np.random.default_rng(seed)
    return rng.normal(0.8 + shift, 0.01, sizes[0]), rng.normal(0.8, 0.02, sizes[1])


def numbers(compared: Comparison) -> list[float]:
    assert compared.low is not None
    assert compared.high is not None
    assert compared.p is not None
    return [compared.difference, compared.low, compared.high, compared.p]


@pytest.mark.parametrize("seed", range(3))
def test_seeds_are_compared_by_welchs_test(seed):
    x, y = samples(seed=seed)
    known = stats.ttest_ind(x, y, equal_var=False)
    interval = known.confidence_interval(0.95)
    expected = [x.mean() - y.mean(), interval.low, interval.high, known.pvalue]
    assert numbers(compare_samples(x, y)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_folds_are_compared_by_the_paired_test(seed):
    x, y = samples((10, 10), seed)
    known = stats.ttest_rel(x, y)
    interval = known.confidence_interval(0.95)
    found = compare_samples(x, y, paired=True)
    assert numbers(found) == pytest.approx([(x - y).mean(), interval.low, interval.high, known.pvalue], rel=1e-9)
    assert found.test == "paired t"


def test_the_correction_for_shared_training_graphs_is_nadeau_and_bengios():
    x, y = samples((10, 10), shift=0.02)
    d = x - y
    t = d.mean() / math.sqrt(d.var(ddof=1) * (1 / 10 + 1 / 9))
    found = compare_samples(x, y, paired=True)
    assert found.p_shared == pytest.approx(2 * stats.t.sf(abs(t), 9), rel=1e-9)
    assert found.p is not None
    assert found.p_shared > found.p


def test_pairs_need_equal_lengths():
    x, y = samples((5, 7))
    assert compare_samples(x, y, paired=True) == compare_samples(x, y)


def test_a_quoted_mean_is_compared_by_the_one_sample_test():
    x, _ = samples()
    known = stats.ttest_1samp(x, 0.79)
    interval = known.confidence_interval(0.95)
    expected = [x.mean() - 0.79, interval.low - 0.79, interval.high - 0.79, known.pvalue]
    assert numbers(compare_to_quoted(x, 0.79)) == pytest.approx(expected, rel=1e-9)
    errors = compare_to_quoted(x, 0.79, higher=False)
    assert errors.difference == pytest.approx(-expected[0])
    assert errors.p == pytest.approx(known.pvalue)


def test_slopes_are_those_of_two_straight_lines():
    rng = np.random.default_rng(0)
    x = np.arange(12)
    first, second = 0.5 * x + rng.normal(0, 0.3, 12), 0.2 * x + rng.normal(0, 0.3, 12)
    lines = [stats.linregress(x, y) for y in (first, second)]
    error = math.hypot(lines[0].stderr, lines[1].stderr)
    difference = lines[0].slope - lines[1].slope
    found = compare_slopes(*(dict(zip(x, y, strict=True)) for y in (first, second)))
    assert found.difference == pytest.approx(difference)
    assert found.p == pytest.approx(2 * stats.t.sf(difference / error, 20), rel=1e-6)
    assert outcome(found, found.p) == AHEAD


@pytest.mark.parametrize("paired", [False, True])
def test_errors_are_better_when_they_are_smaller(paired):
    x, y = samples((6, 6))
    accuracy, error = (compare_samples(x, y, higher=higher, paired=paired) for higher in (True, False))
    assert numbers(error) == pytest.approx(
        [-accuracy.difference, -(accuracy.high or 0), -(accuracy.low or 0), accuracy.p]
    )


@pytest.mark.parametrize("paired", [False, True])
def test_exchanging_the_two_changes_the_sign_alone(paired):
    x, y = samples((6, 6))
    found, back = compare_samples(x, y, paired=paired), compare_samples(y, x, paired=paired)
    assert numbers(back) == pytest.approx([-found.difference, -(found.high or 0), -(found.low or 0), found.p])


def test_the_order_of_seeds_does_not_matter():
    x, y = samples()
    found, other = compare_samples(x, y), compare_samples(x[::-1], np.roll(y, 3))
    assert numbers(found) == pytest.approx(numbers(other))
    folds = samples((10, 10))
    order = np.random.default_rng(1).permutation(10)
    found = compare_samples(*folds, paired=True)
    other = compare_samples(*(values[order] for values in folds), paired=True)
    assert numbers(found) == pytest.approx(numbers(other))


@pytest.mark.parametrize("paired", [False, True])
def test_values_without_spread_cannot_be_tested(paired):
    found = compare_samples([0.8] * 5, [0.7] * 5, paired=paired)
    assert found.difference == pytest.approx(0.1)
    assert (found.low, found.high, found.p, found.test) == (None, None, None, NO_TEST)
    assert outcome(found, found.p) == UNTESTED


@pytest.mark.parametrize("paired", [False, True])
def test_equal_values_are_level(paired):
    found = compare_samples([0.1 + 0.2] * 4, [0.3] * 4, paired=paired)
    assert numbers(found) == [0.0, 0.0, 0.0, 1.0]
    assert outcome(found, found.p) == TIED


def test_rounding_is_no_spread():
    folds = np.array([0.1, 0.2, 0.7, 0.4])
    found = compare_samples(folds + 0.1, folds, paired=True)
    assert np.ptp((folds + 0.1) - folds) > 0  # the differences are 0.1, up to the last digit
    assert found.p is None


def test_one_side_without_spread_is_a_one_sample_test():
    x = samples()[0]
    found = compare_samples(x, [0.79] * 5)
    assert numbers(found) == pytest.approx(numbers(compare_to_quoted(x, 0.79)))


@pytest.mark.parametrize("sizes", [(1, 1), (1, 5), (5, 1)])
@pytest.mark.parametrize("paired", [False, True])
def test_one_value_is_no_sample(sizes, paired):
    x, y = samples(sizes)
    found = compare_samples(x, y, paired=paired)
    assert found.difference == pytest.approx(x.mean() - y.mean())
    assert (found.p, found.test) == (None, NO_TEST)
    assert compare_to_quoted(x[:1], 0.5).test == NO_TEST


def test_a_run_that_diverged_leaves_no_test_and_no_nan():
    found = compare_samples([0.8, math.nan, 0.6], [0.5, 0.5])
    assert (found.difference, found.p, found.test) == (pytest.approx(0.2), None, DIVERGED)
    assert compare_to_quoted([0.8, math.nan], 0.5).test == DIVERGED


def test_holm_by_hand():
    # Sorted: 0.005 * 4, 0.01 * 3, 0.03 * 2, then 0.04 * 1, which may not fall below the one before.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holm_leaves_out_what_was_not_tested_and_stays_a_probability():
    assert holm([None, 0.02, None, 0.03]) == [None, pytest.approx(0.04), None, pytest.approx(0.04)]
    assert holm([0.7, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_holm_is_never_below_p_nor_above_bonferroni():
    given = np.random.default_rng(0).random(20) ** 3
    for p, adjusted in zip(given, holm(list(given)), strict=True):
        assert p <= (adjusted or 0) <= min(1, 20 * p)


@pytest.mark.parametrize(
    ("difference", "p", "expected"),
    [(0.1, 0.01, AHEAD), (-0.1, 0.01, BEHIND), (0.1, 0.05, TIED), (-0.1, 0.3, TIED), (0.1, None, UNTESTED)],
)
def test_outcomes(difference, p, expected):
    assert outcome(Comparison(difference, None, None, p, "t"), p) == expected
