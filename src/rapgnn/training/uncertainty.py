r"""Error bars without sampling: what the exact variance of the representation means for the predictions.

Channels are independent, so with slopes :math:`W_{ji}` of the scores by output j of channel i (the weights of a linear
head; an MLP head is linearised at the expectation) the scores of a row have the covariance
:math:`Σ = \sum_i \sum_{jm} W_{ji} W_{mi}^T \mathrm{Cov}[h_{ji}, h_{mi}]`, exactly for a linear head. It is never
written down for all classes: its diagonal, its product with the probabilities p and pᵀ Σ p are enough, at the cost of a
few predictions.

Scores are sums over independent channels, hence close to normal where there are dozens of these (with a handful it is a
rough guide). A label's logit is then normal, and its probability's spread an integral over one number. For classes the
log-odds of each class against all others has to first order the variance (e − p)ᵀ Σ (e − p) / (1 − p)², e the class;
with two classes that is exact. Rows whose scores vary too much for that, with three and more classes, are integrated
over the scores of their likeliest classes, at points that are the same every time.
"""

from functools import cache

import numpy as np
import torch
from torch import Tensor

from rapgnn.graph.tasks import Objective
from rapgnn.network.heads import Head, RidgeHead

NODES = 32  # of the quadrature over one normal number
SMALL = 0.5  # standard deviation of score differences up to which first order is enough
LIKELIEST, POINTS = 16, 64  # classes, and points, of the integral over scores


@torch.no_grad()
def spread_of(head: Head | RidgeHead, objective: Objective, expectation: Tensor, covariance: Tensor) -> Tensor:
    """The standard deviation over draws of what the head's scores are read as, ``[rows, t]``.

    Args:
        expectation, covariance: of the representation, as ``expectation_and_covariance`` gives them.
    """
    d = covariance.shape[2]
    outputs = expectation.shape[1] // d
    linear = head.linear
    slope = _slope(head, expectation[:1]).unflatten(2, (outputs, d)) if linear else None  # [1, t, J, d]
    targets = head(expectation[:1]).shape[1]
    likely = min(LIKELIEST, targets)
    per_row = 8 * d * (covariance.shape[1] + outputs * likely) + 8 * targets * NODES + 8 * POINTS * likely
    per_row += 0 if linear else 12 * targets * outputs * d
    spreads = []
    for part in torch.arange(len(expectation), device=expectation.device).split(max(1, (32 << 20) // per_row)):
        h, c = expectation[part], covariance[part]
        here = _slope(head, h).unflatten(2, (outputs, d)) if slope is None else slope
        if objective.metric == "rmse":
            spreads.append(_diagonal(here, c).sqrt())
        elif objective.metric == "rocauc":
            spreads.append(_sigmoid_spread(head(h), _diagonal(here, c)))
        else:
            spreads.append(_class_spread(here, c, head(h)))
    return torch.cat([expectation.new_zeros(0, targets), *spreads])


@torch.no_grad()
def head_spread(head: RidgeHead, objective: Objective, h: Tensor) -> Tensor:
    """The standard deviation of what scores are read as, over the posterior of a head that was solved ``[rows, t]``.

    Scores have the covariance v N Nᵀ, v a number of every row's own. Classes are taken to first order in the log-odds
    of each against all others; of two classes that is exact.
    """
    variance, noise, scores = head.variance(h)[:, None].double(), head.noise.double(), head(h)
    square = noise.square().sum(1)
    if objective.metric == "rmse":
        return (variance * square).sqrt().to(h)
    if objective.metric == "rocauc":
        return _sigmoid_spread(scores.double(), variance * square).to(h)
    log_p, log_rest, top, shares = _against_the_rest(scores)
    at_top = noise[top[:, 0]]
    u = shares @ noise - at_top
    along, cross = u @ noise.T, at_top @ noise.T
    apart = square - 2 * cross + cross.gather(1, top)
    products = apart, along - along.gather(1, top), u.square().sum(1, keepdim=True)
    return _sigmoid_spread(log_p - log_rest, variance * _odds(*products, log_rest, top)).to(h)


def _diagonal(slope: Tensor, covariance: Tensor) -> Tensor:
    first, second, weight = _pairs(slope)
    products = slope[:, :, first] * slope[:, :, second] * weight[:, None]  # [1 or rows, t, P, d]
    if len(slope) == 1:
        return (covariance.flatten(1) @ products[0].flatten(1).T).clamp(min=0)
    return (products * covariance[:, None]).sum((2, 3)).clamp(min=0)


def _class_spread(slope: Tensor, covariance: Tensor, scores: Tensor) -> Tensor:
    """For every class; scores are taken relative to the likeliest class, where differences lose no digits."""
    log_p, log_rest, top, shares = _against_the_rest(scores)
    apart, along, within = _products(slope, covariance, shares.to(scores), top)
    spread = _sigmoid_spread(log_p - log_rest, _odds(apart, along, within, log_rest, top)).to(scores)
    rows = (apart.amax(1) > SMALL**2).nonzero()[:, 0]
    if scores.shape[1] > 2 and len(rows):
        classes = scores[rows].topk(min(LIKELIEST, scores.shape[1]), dim=1).indices
        integrated = _integrated(scores[rows], classes, _of_classes(slope, covariance, rows, classes), spread[rows])
        spread[rows] = _with_rare_draws(integrated, scores[rows], apart[rows], top[rows])
    return spread


def _against_the_rest(scores: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(log p, log(1 - p), the likeliest class, the other classes' shares of what it leaves), in double precision."""
    log_p = torch.log_softmax(scores.double(), dim=1)
    top = log_p.argmax(1, keepdim=True)
    return log_p, _log_rest(log_p), top, torch.softmax(log_p.scatter(1, top, -torch.inf), dim=1).nan_to_num()


def _odds(apart: Tensor, along: Tensor, within: Tensor, log_rest: Tensor, top: Tensor) -> Tensor:
    """The variance of the log-odds of every class, (e - p)ᵀ Σ (e - p) / (1 - p)², for p = e_top + r (s - e_top).

    Args:
        apart, along, within: of x = e - e_top and s - e_top: xᵀΣx, xᵀΣ(s - e_top) ``[rows, t]``, and the last with
            itself ``[rows, 1]``.
    """
    rest = log_rest.gather(1, top).exp()
    variance = apart.double() - 2 * rest * along.double() + rest.square() * within.double()
    return (variance / log_rest.exp().square()).scatter(1, top, within.double()).clamp(min=0)


def _with_rare_draws(
    spread: Tensor, scores: Tensor, apart: Tensor, top: Tensor, rare: float = 0.1, missed: float = 0.5
) -> Tensor:
    """Where a class wins in few draws, no point of the integral may be one of them: its duel with the likeliest class
    is an integral over one number, which knows them. The two share what the other classes leave.

    Args:
        rare: spread of a duel that is decided the other way in few draws.
        missed: share of a duel's spread below which the integral has missed it.
    """
    p = torch.softmax(scores, dim=1)
    duel = _sigmoid_spread(scores - scores.gather(1, top), apart) * (p + p.gather(1, top))
    others = duel.scatter(1, top, 0.0)
    duel = others.scatter(1, top, others.amax(1, keepdim=True))
    return torch.where((duel < rare) & (spread < missed * duel), duel, spread)


def _products(slope: Tensor, covariance: Tensor, shares: Tensor, top: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``apart``, ``along`` and ``within`` of ``_odds``: Σ enters by its products with two vectors."""
    one = len(slope) == 1
    weights = slope[0] if one else slope  # [t, J, d] or [rows, t, J, d]
    at_top = weights[top[:, 0]] if one else weights[torch.arange(len(top), device=top.device), top[:, 0]]
    times_each = "vji,tji->vt" if one else "vji,vtji->vt"
    u = torch.einsum("vt,tji->vji" if one else "vt,vtji->vji", shares, weights) - at_top
    z = _times(covariance, u)
    along = torch.einsum(times_each, z, weights)
    along = along - along.gather(1, top)
    cross = torch.einsum(times_each, _times(covariance, at_top), weights)
    apart = (_diagonal(slope, covariance) - 2 * cross + cross.gather(1, top)).clamp(min=0)
    return apart, along, (z * u).sum((1, 2))[:, None]


def _of_classes(slope: Tensor, covariance: Tensor, rows: Tensor, classes: Tensor) -> Tensor:
    place = torch.arange(len(classes), device=classes.device)[:, None]
    chosen = slope[0][classes] if len(slope) == 1 else slope[rows][place, classes]  # [rows, kept, J, d]
    c = covariance[rows]
    half = torch.stack([_times(c, chosen[:, i]) for i in range(classes.shape[1])], dim=1)
    return half.flatten(2) @ chosen.flatten(2).mT


def _integrated(scores: Tensor, classes: Tensor, sigma: Tensor, spread: Tensor) -> Tensor:
    """The spread with that of the given classes replaced by an integral over their scores."""
    mean = scores.gather(1, classes)
    rest = torch.logsumexp(scores.scatter(1, classes, -torch.inf), dim=1)[:, None, None]
    sigma = sigma.double()
    sigma.diagonal(dim1=1, dim2=2).add_(1e-6 * sigma.diagonal(dim1=1, dim2=2).amax(1, keepdim=True))
    lower = torch.linalg.cholesky_ex(sigma)[0].to(scores)
    # Points innermost: the exponentials of one class at all points are one run through memory.
    drawn = torch.baddbmm(
        mean[:, :, None], lower, _normal_points(classes.shape[1]).to(scores).expand(len(mean), -1, -1)
    )
    largest = torch.maximum(drawn.amax(1, keepdim=True), rest)
    read = drawn.sub_(largest).exp_()
    read /= read.sum(1, keepdim=True) + (rest - largest).exp()
    center = read.mean(2, keepdim=True)
    return spread.scatter(1, classes, read.sub_(center).square_().mean(2).sqrt())


def _log_rest(log_p: Tensor) -> Tensor:
    """log(1 − p), added up from the other classes where p is nearly 1."""
    rest = torch.log1p(-log_p.exp().clamp(max=1 - 1e-12))
    top = log_p.argmax(1, keepdim=True)
    others = log_p.scatter(1, top, -torch.inf)
    return rest.scatter(1, top, torch.logsumexp(others, dim=1, keepdim=True).clamp(min=-700.0))


def _times(covariance: Tensor, u: Tensor) -> Tensor:
    """C u ``[rows, J, d]``: every channel's covariance between outputs times its u."""
    first, second = torch.triu_indices(u.shape[1], u.shape[1]).tolist()
    z = torch.zeros_like(u)
    for pair, (j, m) in enumerate(zip(first, second, strict=True)):
        z[:, j] += covariance[:, pair] * u[:, m]
        if j != m:
            z[:, m] += covariance[:, pair] * u[:, j]
    return z


def _pairs(slope: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The pairs of outputs j ≤ m, and how often each stands in the full covariance."""
    first, second = torch.triu_indices(slope.shape[2], slope.shape[2], device=slope.device)
    return first, second, torch.where(first == second, 1.0, 2.0).to(slope)


def _sigmoid_spread(mean: Tensor, variance: Tensor) -> Tensor:
    """The standard deviation of 1 / (1 + exp(−x)), x normal."""
    points, weights = (values.to(mean) for values in _quadrature())
    read = torch.sigmoid(mean[..., None] + variance.sqrt()[..., None] * points)
    center = read @ weights
    return ((read - center[..., None]).square() @ weights).sqrt()


def _slope(head: Head | RidgeHead, h: Tensor) -> Tensor:
    """The derivative of every score of every row by its input: ``[rows, t, J·d]``."""
    if head.linear:
        return head.first_map()[0].T.expand(len(h), -1, -1)
    with torch.enable_grad():
        return torch.func.vmap(torch.func.jacrev(lambda row: head(row[None])[0]))(h)


@cache
def _quadrature() -> tuple[Tensor, Tensor]:
    """Points and weights for the expectation over a standard normal number (Gauss-Hermite)."""
    points, weights = np.polynomial.hermite_e.hermegauss(NODES)
    return torch.from_numpy(points), torch.from_numpy(weights / weights.sum())


@cache
def _normal_points(dimensions: int) -> Tensor:
    """``[dimensions, POINTS]`` that stand for a standard normal distribution: mean 0, variance 1, no randomness."""
    from scipy.stats import norm, qmc

    points = norm.ppf(qmc.Sobol(dimensions, rng=np.random.default_rng(0)).random(POINTS // 2))
    points = np.concatenate([points, -points])
    return torch.from_numpy(np.ascontiguousarray((points / points.std(axis=0)).T))
