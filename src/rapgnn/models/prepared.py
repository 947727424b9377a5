"""A graph that a network has embedded once, so that every later forward pass costs what the shortcut costs."""

from functools import cached_property

import torch
from torch import Tensor

from rapgnn.device import full_precision
from rapgnn.errors import InputError
from rapgnn.propagation.engine import EmbeddedGraph, PolynomialRepresentation


class PreparedGraph:
    """What ``RAPGNN.prepare`` gives: the embedded graph, and of the rows asked for the stored hops.

    The embedding is taken as it was at that moment, without gradients; prepare again when it has changed.
    """

    def __init__(self, embedded: EmbeddedGraph, rows: Tensor):
        self.embedded, self.index = embedded, rows
        self._ahead: tuple[int, list[Tensor]] = (0, [])  # draws made together: the first one's number, and all

    @cached_property
    def _representation(self):
        return self.embedded.rows(self.index)

    def rows(self, rows: Tensor) -> "PreparedGraph":
        """The same embedded graph for other rows, by their numbers in the whole graph."""
        return PreparedGraph(self.embedded, rows.to(self.index.device))

    def __len__(self) -> int:
        return len(self.index)

    @property
    def engine(self) -> str:
        """``"polynomial"`` or ``"stepwise"``."""
        return self.embedded.engine

    @property
    def reason(self) -> str:
        """Why that engine."""
        return self.embedded.reason

    @property
    def hops(self) -> Tensor:
        """``[rows, K, d]``: the stored hops, which ``RAPGNN.scorer`` takes."""
        if not isinstance(self._representation, PolynomialRepresentation):
            raise InputError(f"there are no hops, because the layers run one by one: {self.reason}.")
        return self._representation.filter.hops.permute(2, 1, 0)

    @torch.no_grad()
    def draw(self, step: int, generator: torch.Generator | None = None) -> Tensor:
        """The representation ``[rows, J·d]`` of forward pass number ``step``.

        Args:
            generator: switches dropout between the layers on.
        """
        with full_precision(self.index.device):
            if generator is not None or not isinstance(self._representation, PolynomialRepresentation):
                return next(self._representation.draws([self._counter(step)], generator, [step]))
            first, drawn = self._ahead
            if not first <= step < first + len(drawn):
                steps = range(step, step + self._representation.draws_together)
                drawn = list(self._representation.draws([self._counter(s) for s in steps], None, steps))
                first, self._ahead = step, (step, drawn)
            return drawn[step - first]

    @cached_property
    def expectation(self) -> Tensor:
        """The exact expectation ``[rows, J·d]``, where there is one."""
        with torch.no_grad(), full_precision(self.index.device):
            return self.embedded.expectation(self.index)

    def _counter(self, step: int) -> int:
        return self.embedded.spec.weights.counter(step, step)

    def __repr__(self) -> str:
        return f"PreparedGraph({len(self)} rows, {self.engine} engine, because {self.reason})"
