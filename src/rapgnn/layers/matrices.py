"""Random matrices with signs: full or sparse, of any shape, with a size that is set."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rapgnn.errors import InputError, check_choice
from rapgnn.layers.weights import DISTRIBUTIONS, EVALUATION
from rapgnn.prng import random_words

_SLOT_BITS = 20  # layer numbers below 2^20, the matrix's place in the layer above them
_STREAMS = 2  # of a matrix: its values, and which of them are kept


def _unit_normal(words: Tensor, rows: int, columns: int, fan: int) -> Tensor:
    return DISTRIBUTIONS["normal"].sample(words, 0.0, 1.0)


def _gaussian(words: Tensor, rows: int, columns: int, fan: int) -> Tensor:
    return _unit_normal(words, rows, columns, fan) / math.sqrt(max(1, fan))


def _uniform(words: Tensor, rows: int, columns: int, fan: int) -> Tensor:
    return DISTRIBUTIONS["uniform"].sample(words, -1.0, 1.0)


def _glorot(words: Tensor, rows: int, columns: int, fan: int) -> Tensor:
    bound = math.sqrt(6.0 / max(1, fan + columns))
    return DISTRIBUTIONS["uniform"].sample(words, -bound, bound)


def _orthogonal(words: Tensor, rows: int, columns: int, fan: int) -> Tensor:
    """Orthonormal columns, or rows where there are fewer of them; Haar's distribution."""
    normal = _unit_normal(words, rows, columns, fan).cpu().double().view(rows, columns)
    tall = normal if rows >= columns else normal.T
    q, r = torch.linalg.qr(tall)
    q = q * torch.where(r.diagonal() < 0, -1.0, 1.0)
    return (q if rows >= columns else q.T).float().flatten()


MATRICES: dict[str, Callable[[Tensor, int, int, int], Tensor]] = {
    "gaussian": _gaussian,
    "glorot": _glorot,
    "uniform": _uniform,
    "orthogonal": _orthogonal,
}
"""How 32 random bits become entries: N(0, 1 / inputs), Glorot's U[-b, b], U[-1, 1], orthonormal columns."""


def spectral_radius(matrix: Tensor) -> float:
    """The largest absolute eigenvalue of a square matrix."""
    return float(torch.linalg.eigvals(matrix).abs().max()) if matrix.numel() else 0.0


def spectral_norm(matrix: Tensor) -> float:
    """The largest singular value."""
    return float(torch.linalg.matrix_norm(matrix, 2)) if matrix.numel() else 0.0


MEASURES: dict[str, Callable[[Tensor], float]] = {
    "radius": spectral_radius,
    "absolute radius": lambda matrix: spectral_radius(matrix.abs()),
    "norm": spectral_norm,
}
"""What ``RandomMatrix.size`` is the value of: ρ(W), ρ(|W|) or ‖W‖₂."""


@dataclass(frozen=True)
class RandomMatrix:
    """A matrix with signs that is drawn, never trained: a pure function of (seed, counter, layer).

    Args:
        distribution: a name from ``MATRICES``.
        connections: how many inputs each unit (column) is joined to; None: all of them.
        size: a factor; with ``measure`` the value that this measure of the matrix has.
        measure: a name from ``MEASURES``; None: entries are as drawn, times ``size``.
        schedule: ``"fixed"``, or drawn anew for every ``"forward"`` pass.
        seed: any integer.

    A matrix whose measure is zero is not scaled. The numbers are the same on every device.
    """

    distribution: str = "glorot"
    connections: int | None = None
    size: float = 1.0
    measure: str | None = None
    schedule: str = "fixed"
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice("matrix distribution", self.distribution, MATRICES)
        check_choice("matrix schedule", self.schedule, ("fixed", "forward"))
        if self.measure is not None:
            check_choice("matrix measure", self.measure, MEASURES)
        if not (math.isfinite(self.size) and self.size >= 0):
            raise InputError(f"the size of a random matrix must be a finite number from 0 on, got {self.size}.")
        if self.connections is not None and self.connections < 1:
            raise InputError(f"a unit needs at least 1 connection, got {self.connections}.")
        if self.connections is not None and self.distribution == "orthogonal":
            raise InputError("an orthogonal matrix is full: leave connections out, or take another distribution.")

    def counter(self, step: int) -> int:
        """Which draw forward pass number ``step`` uses."""
        return 0 if self.schedule == "fixed" else step

    def evaluation_counter(self, draw: int) -> int:
        """Which draw inference uses: one that no training pass has, or the one there is."""
        return 0 if self.schedule == "fixed" else EVALUATION + draw

    def draw(
        self,
        counter: int,
        layer: int,
        rows: int,
        columns: int,
        slot: int = 0,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        """One matrix.

        Args:
            counter: which draw.
            layer, slot: which layer's weight, and which of them.
            rows, columns: inputs and units.

        Shapes:
            ``[rows, columns]``, dense; a sparse one holds zeros.
        """
        if self.measure in ("radius", "absolute radius") and rows != columns:
            raise InputError(f"only a square matrix has a spectral radius, not {rows} × {columns}: set its norm.")
        fan = min(rows, self.connections or rows)
        values = MATRICES[self.distribution](self._words(counter, layer, slot, 0, rows * columns), rows, columns, fan)
        matrix = values.view(rows, columns).double()
        if fan < rows:
            keys = self._words(counter, layer, slot, 1, rows * columns).view(rows, columns)
            kept = keys.argsort(dim=0, stable=True)[:fan]
            matrix = torch.zeros_like(matrix).scatter_(0, kept, matrix.gather(0, kept))
        found = 1.0 if self.measure is None else MEASURES[self.measure](matrix)
        return (matrix * (self.size / found if found > 0 else 1.0)).to(device=device, dtype=dtype)

    def _words(self, counter: int, layer: int, slot: int, part: int, count: int) -> Tensor:
        stream = layer + ((slot * _STREAMS + part) << _SLOT_BITS)
        return random_words(self.seed, torch.tensor([counter]), torch.tensor([stream]), count)[0, 0]
