"""The ridge head from sums over the rows of a hop store, which are never in memory together."""

from functools import cached_property

import torch
from torch import Tensor

from rapgnn.layers.ridge import RidgeHead, RidgeRegression, RidgeSolution, same_gaps
from rapgnn.layers.ridge_problem import RidgeSums
from rapgnn.propagation.moments import coefficient_covariance
from rapgnn.scale.stored import StoredRows
from rapgnn.training.solve import Merit, choose_penalty


def gram_bytes(width: int, groups: int = 1) -> int:
    """What the equations of so many unknowns take: the sums, and for one penalty at a time a copy and its factor."""
    return 8 * width * width * (groups + 3)


class StreamedRidge:
    """The equations of a ridge head, set up and checked on validation part by part.

    Args:
        train, val: their rows.
        targets: of the training rows ``[rows, t]``, NaN where unknown.
        weights: how much each training row counts; None: all the same.
    """

    def __init__(self, train: StoredRows, val: StoredRows, targets: Tensor, weights: Tensor | None):
        self.train, self.val, self.targets, self.weights = train, val, targets, weights
        self.threads = torch.get_num_threads()

    @cached_property
    def regression(self) -> RidgeRegression:
        """The sums are taken when the first penalty is tried."""
        shape = self.train.outputs * self.train.channels, self.targets.shape[1]
        return RidgeRegression.of_sums(shape, self.sums())

    def sums(self) -> list[RidgeSums]:
        """Over all training rows, for each group of labels that are known for the same ones."""
        return ridge_sums(self.train, self.targets, self.weights)

    def solve(self, penalty: float) -> RidgeSolution:
        return self.regression.solve(penalty)

    def best(self, merit: Merit) -> RidgeSolution:
        return choose_penalty(self.regression, merit)

    def held_out(self, head: RidgeHead) -> Tensor:
        parts = [head(self.val.expected(part)) for part in self.val.parts()]
        return torch.cat([torch.zeros(0, self.targets.shape[1]), *parts])


def ridge_sums(train: StoredRows, targets: Tensor, weights: Tensor | None) -> list[RidgeSums]:
    """What the equations need of all training rows, for each group of labels that are known for the same rows."""
    count = torch.ones(len(targets), dtype=torch.float64) if weights is None else weights.double()
    groups = [(columns, known.double() * count) for columns, known in same_gaps(targets)]
    width, hops = train.outputs * train.channels, len(train.hops)
    centers = [torch.zeros(width, dtype=torch.float64) for _ in groups]
    for part in train.parts():
        mean = train.expected(part).double()
        for center, (_, weight) in zip(centers, groups, strict=True):
            center += weight[part] @ mean
    for center, (_, weight) in zip(centers, groups, strict=True):
        center /= weight.sum()
    known = targets.double().nan_to_num()
    levels = [weight @ known[:, columns] / weight.sum() for columns, weight in groups]
    grams = [torch.zeros(width, width, dtype=torch.float64) for _ in groups]
    rights = [torch.zeros(width, len(columns), dtype=torch.float64) for columns, _ in groups]
    products = [torch.zeros(train.channels, hops, hops, dtype=torch.float64) for _ in groups]
    for part in train.parts():
        stored = train.read(part)
        mean = train.expected_of(stored).double()
        by_channel = stored.permute(2, 1, 0).double()  # [d, K, rows]
        for i, (columns, weight) in enumerate(groups):
            here = weight[part]
            centred = (mean - centers[i]) * here.sqrt()[:, None]
            grams[i].addmm_(centred.T, centred)
            rights[i].addmm_(centred.T, (known[part][:, columns] - levels[i]) * here.sqrt()[:, None])
            products[i].baddbmm_(by_channel * here, by_channel.mT)
    covariance = coefficient_covariance(train.spec)
    scatter = [_scatter(train, covariance, product) for product in products]
    parts = zip(groups, centers, levels, grams, rights, scatter, strict=True)
    return [RidgeSums(columns, *rest) for (columns, _), *rest in parts]


def _scatter(train: StoredRows, covariance: Tensor, products: Tensor) -> Tensor:
    """The covariance between a channel's outputs, summed over the rows, ``[d, J, J]``; none where nothing is random."""
    if train.constant:
        return products.new_zeros(train.channels, train.outputs, train.outputs)
    return torch.einsum("jkml,dkl->djm", covariance, products)
