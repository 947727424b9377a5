"""Factorisations of products that rounding may have left indefinite."""

import torch
from torch import Tensor


def factored(product: Tensor, added: float, most: float = float("inf")) -> Tensor:
    """C of C Cᵀ = product + a · identity, with the first a of ``added``, ten times that and so on that gives one.

    Args:
        most: an a from which no larger one is tried.
    """
    while True:
        matrix = product.clone()
        matrix.diagonal().add_(added)
        factor, info = torch.linalg.cholesky_ex(matrix)
        if not bool(info) or added >= most:
            return factor
        added *= 10
