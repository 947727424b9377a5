r"""Random coefficients along relations: RAP-GNN for graphs with types, whose layers are linear.

.. math:: h_t ← \frac{1}{1 + μ} \Big( h_t + \sum_{r: s → t} α_r^{(l)} ⊙ (S_r h_s) \Big)

So a channel of the target's nodes is a sum over ways, sequences of relations that end there, of a random coefficient
times what comes along that way: :math:`h^L = \sum_p c_p ⊙ (S_{r_k} ⋯ S_{r_1} z)`, and c has exact moments.
"""

from collections.abc import Sequence
from math import comb

import torch
from torch import Tensor

from rapgnn.network.weights import RandomWeights

Way = tuple[str, ...]


def way_mean(way: Way, depth: int, weights: RandomWeights) -> float:
    """E[c]: the k steps of a way are taken by any k of the layers."""
    mu = weights.mean
    return comb(depth, len(way)) * mu ** len(way) / (1 + mu) ** depth


def way_covariance(ways: Sequence[Way], depth: int, weights: RandomWeights) -> Tensor:
    """Cov[c] ``[K, K]``, float64, the same for every channel.

    E[c_p c_q] grows layer by layer: either way takes its next step or stays; where both take the same relation they
    take the same weight.
    """
    mu, second = weights.mean, weights.second_moment
    mean = torch.tensor([way_mean(way, depth, weights) for way in ways], dtype=torch.float64)
    found = torch.empty(len(ways), len(ways), dtype=torch.float64)
    for a, p in enumerate(ways):
        for b, q in enumerate(ways[: a + 1]):
            so_far = {(0, 0): 1.0}
            for _ in range(depth):
                after = dict.fromkeys(((i, j) for i in range(len(p) + 1) for j in range(len(q) + 1)), 0.0)
                for (i, j), value in so_far.items():
                    steps = [((i, j), 1.0), ((i + 1, j), mu), ((i, j + 1), mu)]
                    both = i < len(p) and j < len(q) and p[i] == q[j]
                    for place, factor in [*steps, ((i + 1, j + 1), second if both else mu * mu)]:
                        if place in after:
                            after[place] += factor * value
                so_far = after
            found[a, b] = found[b, a] = so_far[len(p), len(q)] / (1 + mu) ** (2 * depth)
    return found - mean.outer(mean)
