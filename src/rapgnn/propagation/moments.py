"""The exact first and second moments of the coefficients: what no number of draws improves."""

import torch
from torch import Tensor

from rapgnn.propagation.coefficients import multiply_out, stored_hops
from rapgnn.propagation.spec import Propagation


def expected_coefficients(spec: Propagation) -> Tensor:
    """E[c] ``[J, K]``, float64: the polynomial with every weight at its mean."""
    mean = torch.tensor(spec.weights.mean, dtype=torch.float32).double()  # as draws are: rounded to 32 bits first
    mean = torch.stack([mean] * spec.factors).prod()
    weights = {term: mean.expand(1, spec.num_layers, 1) for term in spec.rule.terms}
    return multiply_out(spec, weights)[0, :, :, 0]


def coefficient_covariance(spec: Propagation) -> Tensor:
    """Cov[c] ``[J, K, J, K]``, float64, the same for every channel.

    One layer maps c to c' = u·c + b·(ω N c + γ δ) with u = s + a and b independent of c; N raises each family by one
    hop and γ δ brings E in. So first and second moments follow linear recurrences in E[u], E[b], E[u²], E[ub], E[b²].
    """
    shrink, L = 1.0 / spec.growth(1), spec.num_layers
    mean_a, mean_b = (m * shrink for m in spec.first_moments())
    variance = spec.weight_variance() * shrink * shrink
    u, b = spec.skip * shrink + mean_a, mean_b
    uu, ub, bb = u * u + (variance if "root" in spec.rule.terms else 0.0), u * b, b * b + variance
    size = 2 * L + 1
    raises = torch.zeros(size, size, dtype=torch.float64)
    for k in [*range(L), *range(L + 1, 2 * L)]:
        raises[k + 1, k] = spec.operator_scale
    enters = torch.zeros(size, dtype=torch.float64)
    mean, second = torch.zeros(size, dtype=torch.float64), torch.zeros(size, size, dtype=torch.float64)
    mean[0] = second[0, 0] = 1.0
    means, seconds = [mean], {(0, 0): second}
    for layer in range(L):
        if spec.rule.edges:
            enters[L + 1] = shrink**layer
        step = u * torch.eye(size, dtype=torch.float64) + b * raises
        new_mean = step @ mean + b * enters
        raised_mean = raises @ mean
        entering = torch.outer(raised_mean, enters)
        cross = second @ raises.T + torch.outer(mean, enters)  # E[c y'], y what the weight b multiplies
        square = raises @ second @ raises.T + entering + entering.T + torch.outer(enters, enters)
        for j in range(layer + 1) if spec.jumping == "cat" else ():
            seconds[layer + 1, j] = step @ seconds[layer, j] + b * torch.outer(enters, means[j])
        second = uu * second + ub * (cross + cross.T) + bb * square
        mean = new_mean
        means.append(mean)
        seconds[layer + 1, layer + 1] = second
    stored, outputs = stored_hops(spec), list(spec.outputs)
    covariance = torch.empty(len(outputs), len(stored), len(outputs), len(stored), dtype=torch.float64)
    for p, i in enumerate(outputs):
        for q, j in enumerate(outputs):
            both = seconds[i, j] if i >= j else seconds[j, i].T
            covariance[p, :, q] = (both - torch.outer(means[i], means[j]))[stored][:, stored]
    return covariance


def coefficient_root(spec: Propagation) -> Tensor:
    """F ``[J, K, f]`` with F Fᵀ = Cov[c], float64; directions too small for 32-bit hops are left out."""
    covariance = coefficient_covariance(spec)
    outputs, hops = covariance.shape[:2]
    values, vectors = torch.linalg.eigh(covariance.reshape(outputs * hops, outputs * hops))
    large = values > 1e-9 * values.abs().max().clamp(min=1e-300)
    return (vectors[:, large] * values[large].sqrt()).reshape(outputs, hops, -1)
