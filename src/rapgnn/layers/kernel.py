r"""Rows by how alike they are to other rows: a kernel, by landmarks.

Ridge regression on :math:`k(z, Z) C^{-T}`, with :math:`k(Z, Z) = C C^T` for landmarks Z, is kernel ridge regression
where Z are all the training rows, and its Nyström approximation (Williams and Seeger, 2001) where they are some.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from rapgnn.errors import InputError, check_choice
from rapgnn.layers.ridge_path import factored

JITTER = 1e-6  # added to the diagonal of the landmarks' kernel, and ten times more as long as it cannot be factored
BLOCK_ROWS = 8192  # compared with the landmarks at a time

KERNELS: dict[str, Callable[[Tensor], Tensor]] = {
    "gauss": lambda squared: torch.exp(-squared),
    "laplace": lambda squared: torch.exp(-squared.sqrt()),
}
"""Of squared distances: exp(-d²), and exp(-d), which is less smooth."""


class KernelMap(nn.Module):
    r"""Rows ``[r, c]`` -> ``[r, m]``, whose inner products are about :math:`m \, k(z, z')`.

    Args:
        in_channels: c.
        landmarks: m, rows that are drawn from those it is fitted on.
        kind: a name from ``KERNELS``.
        reach: the distance at which rows are no longer alike, by the mean distance of two rows.
        trend: add the inner product of two rows: far from all landmarks what is linear goes on, where the kernel alone
            falls back to the mean. Rows have mean 0 then.
    """

    landmarks: Tensor
    turn: Tensor
    unit: Tensor

    def __init__(self, in_channels: int, landmarks: int, kind: str = "gauss", reach: float = 1.0, trend: bool = False):
        super().__init__()
        check_choice("kernel", kind, KERNELS)
        self.kind, self.reach, self.trend = kind, reach, trend
        # Half precision: landmarks are most of what a saved model holds. The rows' own distances count as they are.
        self.register_buffer("landmarks", torch.zeros(landmarks, in_channels, dtype=torch.float16))
        self.register_buffer("turn", torch.zeros(landmarks, landmarks, dtype=torch.float32))
        self.register_buffer("unit", torch.ones((), dtype=torch.float32))

    @torch.no_grad()
    def fit(self, z: Tensor, generator: torch.Generator) -> None:
        """Draw the landmarks among these rows, and learn how far apart rows are."""
        count = len(self.landmarks)
        if len(z) < count:
            raise InputError(f"{count} landmarks cannot be drawn from {len(z)} rows.")
        drawn = torch.randperm(len(z), generator=generator)[:count].sort().values.to(z.device)
        largest = torch.finfo(self.landmarks.dtype).max
        self.landmarks.copy_(z[drawn].clamp(-largest, largest))
        # The mean squared distance of two rows is twice the mean squared distance from the middle.
        apart = 2 * (z - z.mean(0)).square().sum(1, dtype=torch.float64).mean()
        self.unit.copy_(apart.sqrt().clamp(min=torch.finfo(torch.float32).tiny))
        factor = factored(self._alike(self.landmarks.double()), JITTER, 1.0)  # the same row twice would leave none
        identity = torch.eye(count, dtype=torch.float64, device=z.device)
        inverse = torch.linalg.solve_triangular(factor, identity, upper=False)
        self.turn.copy_(math.sqrt(count) * inverse.T)

    def forward(self, z: Tensor) -> Tensor:
        turn = self.turn.to(z.dtype)
        return torch.cat([self._alike(part) @ turn for part in z.split(BLOCK_ROWS)])

    def _alike(self, z: Tensor) -> Tensor:
        """k(z, landmarks)."""
        unit = self.unit.to(z.dtype)
        z, marks = z / unit, self.landmarks.to(z.dtype) / unit
        product = 2 * (z @ marks.T)
        squared = z.square().sum(1)[:, None] + marks.square().sum(1) - product
        alike = KERNELS[self.kind](squared.clamp(min=0) / self.reach**2)
        return alike + product if self.trend else alike
