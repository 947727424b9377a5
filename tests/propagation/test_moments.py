"""The exact mean and variance against very many draws."""

import pytest
import torch

from operators import features, operator
from rapgnn import RandomWeights
from rapgnn.propagation.polynomial import PolynomialFilter, expectation
from rapgnn.propagation.spec import Propagation
from rapgnn.propagation.stepwise import propagate


@pytest.mark.parametrize(("backbone", "num_layers"), [("gcn", 3), ("gcn", 8), ("sage", 3)])
def test_exact_moments_agree_with_20000_draws(backbone, num_layers):
    edges = torch.randint(0, 12, (2, 40), generator=torch.Generator().manual_seed(3))
    spec = Propagation(backbone, num_layers, RandomWeights(seed=5))
    kept = PolynomialFilter(spec, operator(backbone, (12, edges, None)), features(12, 6, 4) + 0.1)
    drawn = kept.draw(range(20_000))
    torch.testing.assert_close(drawn.mean(0), kept.expectation(), rtol=0.02, atol=0)
    torch.testing.assert_close(drawn.std(0), kept.variance().sqrt(), rtol=0.02, atol=1e-12)


def test_expected_equals_weights_at_their_mean():
    """E[h^L] is one forward pass with every weight replaced by its mean."""
    edges = torch.randint(0, 12, (2, 40), generator=torch.Generator().manual_seed(3))
    S, h = operator("sage", (12, edges, None)), features(12, 3, 4)
    random = Propagation("sage", 5, RandomWeights())
    constant = Propagation("sage", 5, RandomWeights(params=(0.5, 0.5)))
    torch.testing.assert_close(expectation(random, S, h, torch.arange(12)), propagate(constant, S, h, 0))
