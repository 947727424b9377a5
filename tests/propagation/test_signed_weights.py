"""Weights that can be negative: linear layers keep the shortcut exact, and its expectation is that of the draws."""

import math

import pytest
import torch

from rapgnn import Propagation, RandomWeights
from rapgnn.graph import build_operator
from rapgnn.propagation import PolynomialFilter


@pytest.mark.parametrize(("distribution", "params"), [("normal", (0.5, 0.5)), ("uniform", (-0.5, 1.0))])
def test_the_expectation_of_signed_weights_is_the_mean_of_their_draws(distribution, params):
    g = torch.Generator().manual_seed(0)
    h, edges = torch.rand(20, 3, generator=g, dtype=torch.float64), torch.randint(0, 20, (2, 80), generator=g)
    weights = RandomWeights(distribution=distribution, params=params, seed=1)
    spec = Propagation("gcn", 6, weights, activation="identity")
    stored = PolynomialFilter(spec, build_operator(h, edges, "gcn"), h)
    draws = stored.draw(range(4000))
    error = (draws.mean(0) - stored.expectation()).abs()
    assert bool((error < 5 * draws.std(0) / math.sqrt(4000) + 1e-9).all())  # an isolated node is always the same
    torch.testing.assert_close(draws.var(0), stored.variance(), rtol=0.25, atol=1e-4)
