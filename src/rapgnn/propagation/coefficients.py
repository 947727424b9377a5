r"""The coefficients of the random polynomial: which hops there are, and c for any number of draws at once.

.. math:: \sum_k c_{k,i} t^k = \prod_l ((s + a_i^{(l)}) + b_i^{(l)} t)

Messages with non-negative edge embeddings make a layer affine, :math:`h ← b ⊙ (S h + E)`, and add a second family of
hops, S^k E. Hops are divided by ``spec.operator_scale`` per step, which the coefficients take back, so that an operator
that is not normalised overflows neither.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from rapgnn.propagation.spec import Propagation


def bare(spec: Propagation) -> bool:
    """Whether layer l's output holds, of h⁰'s family, S^l h⁰ alone."""
    return not spec.skip and "root" not in spec.rule.terms


def stored_hops(spec: Propagation) -> list[int]:
    """Which entries of the coefficient vector can be other than zero: S^k h⁰ is number k, S^k E number L + 1 + k."""
    L = spec.num_layers
    first = list(spec.outputs) if bare(spec) else list(range(L + 1))
    return first + (list(range(L + 1, 2 * L + 1)) if spec.rule.edges else [])


def coefficients(spec: Propagation, counters: Sequence[int] | Tensor, channels: int, **to) -> Tensor:
    """c for T draws at once, ``[T, J, K, d]``: J outputs, K stored hops; ``to`` names device and dtype."""
    drawn = spec.draw(counters, channels, **to)
    for weights in spec.further_factors(counters, channels, **to):
        drawn = {term: first * weights for term, first in drawn.items()}
    return multiply_out(spec, drawn)


def multiply_out(spec: Propagation, weights: dict[str, Tensor]) -> Tensor:
    """The layers' first-order polynomials multiplied, ``[T, J, K, d]``, for {term: weights ``[T, L, d]``}."""
    drawn, any_term = weights, next(iter(weights.values()))
    channels = any_term.shape[-1]
    shrink, L = 1.0 / spec.growth(channels), spec.num_layers
    if spec.one_hop:  # a product of weights: no recurrence over hops
        raised = torch.cumprod(drawn["neighbour"] * (shrink * spec.operator_scale), dim=1)
        if spec.jumping == "last":
            return raised[:, -1, None, None]
        return torch.diag_embed(torch.cat([torch.ones_like(raised[:, :1]), raised], 1).mT).permute(0, 2, 3, 1)
    size = L + 1 + (L if spec.rule.edges else 0)
    c = any_term.new_zeros(len(any_term), size, channels)
    c[:, 0] = 1.0
    every = [c.clone()] if spec.jumping == "cat" else []
    for layer in range(L):
        keep: Tensor | float = spec.skip * shrink
        if "root" in drawn:
            keep = drawn["root"][:, layer, None] * shrink + keep
        weight = drawn["neighbour"][:, layer, None] * shrink
        raised = c[:, : layer + 1] * (weight * spec.operator_scale)
        raised_edges = c[:, L + 1 : L + 1 + layer] * (weight * spec.operator_scale)
        c *= keep
        c[:, 1 : layer + 2] += raised
        if spec.rule.edges:
            c[:, L + 2 : L + 2 + layer] += raised_edges
            c[:, L + 1] += weight[:, 0] * shrink**layer
        if spec.jumping == "cat":
            every.append(c.clone())
    outputs = torch.stack(every, dim=1) if spec.jumping == "cat" else c[:, None]
    stored = stored_hops(spec)
    return outputs[:, :, stored[0] : stored[-1] + 1]  # they follow one another
