r"""Error bars without sampling: what the exact variance of the representation means for the predictions.

Channels are independent and :math:`h_{jiv} = \sum_k c_{jk,i} (S^k h⁰)_{iv}`, so with :math:`\mathrm{Cov}[c] = F F^T` a
linear head's scores have the covariance :math:`\sum_i \sum_f g_{ivf} g_{ivf}^T`,
:math:`g_{ivf} = \sum_{jk} W_{ji} F_{jk,f} (S^k h⁰)_{iv}`, exactly. An MLP head is linearised at the expectation.
Scores are sums over independent channels, hence close to normal where there are dozens of these (with a handful it is a
rough guide): probabilities are read by cubature over that normal distribution, the same points every time.
"""

from functools import cache

import numpy as np
import torch
from torch import Tensor

from rapgnn.graph.tasks import Objective
from rapgnn.layers.heads import Head
from rapgnn.layers.ridge import RidgeHead
from rapgnn.models.rapgnn import RAPGNN
from rapgnn.propagation.moments import coefficient_covariance
from rapgnn.propagation.polynomial import PolynomialFilter

POINTS = 256
CHUNK_BYTES = 64 << 20


@torch.no_grad()
def score_moments(model: RAPGNN, stored: PolynomialFilter) -> tuple[Tensor, Tensor]:
    """Mean ``[rows, t]`` and covariance ``[rows, t, t]`` of the raw scores of the rows that ``stored`` has."""
    root = _root(coefficient_covariance(stored.spec)).to(stored.hops)
    outputs, hops, terms = root.shape
    d, _, rows = stored.hops.shape
    mean = stored.expectation()
    scores = model.head(mean)
    targets = scores.shape[1]
    covariance = scores.new_zeros(rows, targets, targets)
    linear = isinstance(model.head, RidgeHead) or model.head.linear
    size = max(1, CHUNK_BYTES // max(1, 4 * d * targets * max(terms, hops)))
    for part in torch.arange(rows, device=mean.device).split(size):
        slope = _slope(model.head, mean[part[:1]] if linear else mean[part])  # [1 or part, t, J·d]
        slope = slope.unflatten(2, (outputs, d))
        weights = torch.einsum("vtji,jkf->ivktf", slope, root)  # [d, 1 or part, K, t, f]
        values = stored.hops[:, :, part]
        if linear:
            g = torch.bmm(values.mT, weights[:, 0].flatten(2)).unflatten(2, (targets, terms))  # [d, part, t, f]
        else:
            g = torch.einsum("ikv,ivktf->ivtf", values, weights)
        g = g.permute(1, 2, 0, 3).flatten(2)
        covariance[part] = g @ g.mT
    return scores, covariance


def read_moments(objective: Objective, mean: Tensor, covariance: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of what the scores are read as, for normal scores with these moments."""
    if objective.metric == "rmse":
        return mean, covariance.diagonal(dim1=1, dim2=2).clamp(min=0).sqrt()
    rows, targets = mean.shape
    if objective.metric == "rocauc":  # every label for itself
        root = covariance.diagonal(dim1=1, dim2=2).clamp(min=0).sqrt()[:, :, None]
        points = _points(1).to(mean)
        read = objective.read(mean + (root * points[:, 0]).permute(2, 0, 1))
        return read.mean(0), read.std(0, correction=0)
    values, vectors = torch.linalg.eigh(covariance.double())
    root = (vectors * values.clamp(min=0).sqrt()[:, None]).to(mean)
    points = _points(targets).to(mean)
    means, spreads = [], []
    for part in torch.arange(rows, device=mean.device).split(max(1, CHUNK_BYTES // (4 * POINTS * targets))):
        read = objective.read(mean[part, None] + points @ root[part].mT)
        means.append(read.mean(1))
        spreads.append(read.std(1, correction=0))
    return torch.cat([mean[:0], *means]), torch.cat([mean[:0], *spreads])


def _root(covariance: Tensor) -> Tensor:
    """F ``[J, K, f]`` with F Fᵀ = Cov[c], float64."""
    outputs, hops = covariance.shape[:2]
    values, vectors = torch.linalg.eigh(covariance.reshape(outputs * hops, outputs * hops))
    positive = values > 1e-14 * values.abs().max().clamp(min=1e-300)
    return (vectors[:, positive] * values[positive].sqrt()).reshape(outputs, hops, -1)


def _slope(head: Head | RidgeHead, h: Tensor) -> Tensor:
    """The derivative of every score of every row by its input: ``[rows, t, J·d]``."""
    with torch.enable_grad():
        return torch.func.vmap(torch.func.jacrev(lambda row: head(row[None])[0]))(h)


@cache
def _points(dimensions: int) -> Tensor:
    """``[POINTS, dimensions]`` that stand for a standard normal distribution: mean 0, variance 1, no randomness."""
    from scipy.stats import norm, qmc

    points = norm.ppf(qmc.Sobol(dimensions, rng=np.random.default_rng(0)).random(POINTS // 2))
    points = np.concatenate([points, -points])
    return torch.from_numpy(points / points.std(axis=0))
