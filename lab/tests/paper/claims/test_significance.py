"""Tests of significance: scipy's answers, known samples, and samples that leave nothing to test."""

import math

import numpy as np
import pytest
from scipy import stats

from rapgnn_lab.paper.claims.significance import (
    DIVERGED,
    NO_TEST,
    compare_samples,
    compare_to_quoted,
    holm,
)

PAIRED = pytest.mark.parametrize("paired", [False, True])


def samples(sizes=(5, 7), seed=0, shift=0.01):
    rng = np.random.default_rng(seed)
    return rng.normal(0.8 + shift, 0.01, sizes[0]), rng.normal(0.8, 0.02, sizes[1])


def numbers(compared):
    return [compared.difference, compared.low, compared.high, compared.p]


def test_the_correction_for_shared_training_graphs_is_nadeau_and_bengios():
    x, y = samples((10, 10), shift=0.02)
    d = x - y
    t = d.mean() / math.sqrt(d.var(ddof=1) * (1 / 10 + 1 / 9))
    compared = compare_samples(x, y, paired=True)
    assert compared.p_shared == pytest.approx(2 * stats.t.sf(abs(t), 9), rel=1e-9)
    assert compared.p_shared > compared.p


@PAIRED
def test_symmetries(paired):
    """Errors for scores, or the other order, turn the sign; the order of seeds, or of folds, means nothing."""
    x, y = samples((6, 6))
    compared = compare_samples(x, y, paired=paired)
    turned = [-compared.difference, -compared.high, -compared.low, compared.p]
    assert numbers(compare_samples(x, y, higher=False, paired=paired)) == pytest.approx(turned)
    assert numbers(compare_samples(y, x, paired=paired)) == pytest.approx(turned)
    order = np.random.default_rng(1).permutation(6)
    other = compare_samples(x[order], y[order if paired else order[::-1]], paired=paired)
    assert numbers(other) == pytest.approx(numbers(compared))
    errors = compare_to_quoted(x, 0.79, higher=False)
    assert numbers(errors)[::3] == pytest.approx([0.79 - x.mean(), compare_to_quoted(x, 0.79).p])


@PAIRED
def test_values_without_spread_are_equal_or_cannot_be_tested(paired):
    compared = compare_samples([0.8] * 5, [0.7] * 5, paired=paired)
    assert compared.difference == pytest.approx(0.1)
    assert (compared.low, compared.high, compared.p, compared.test) == (None, None, None, NO_TEST)
    assert numbers(compare_samples([0.1 + 0.2] * 4, [0.3] * 4, paired=paired)) == [0.0, 0.0, 0.0, 1.0]
    folds = np.array([0.1, 0.2, 0.7, 0.4])
    assert np.ptp((folds + 0.1) - folds) > 0  # the differences are 0.1, up to the last digit
    assert compare_samples(folds + 0.1, folds, paired=True).p is None


def test_a_run_that_diverged_leaves_no_test_and_no_nan():
    compared = compare_samples([0.8, math.nan, 0.6], [0.5, 0.5])
    assert (compared.difference, compared.p, compared.test) == (pytest.approx(0.2), None, DIVERGED)
    assert compare_to_quoted([0.8, math.nan], 0.5).test == DIVERGED


def test_holm():
    # Sorted: 0.005 * 4, 0.01 * 3, 0.03 * 2, then 0.04 * 1, which may not fall below the one before.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([None, 0.02, None, 0.03]) == [None, pytest.approx(0.04), None, pytest.approx(0.04)]
    assert holm([0.7, 0.8]) == [1.0, 1.0]
    given = np.random.default_rng(0).random(20) ** 3
    for p, adjusted in zip(given, holm(list(given)), strict=True):
        assert p <= adjusted <= min(1, 20 * p)
