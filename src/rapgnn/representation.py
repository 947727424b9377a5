"""h^L for the rows that are asked for, by whichever engine is right, behind one interface."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rapgnn.embedding import Embedding
from rapgnn.errors import InputError
from rapgnn.polynomial import PolynomialFilter, expected
from rapgnn.propagation import Propagation
from rapgnn.spmm import Features, SparseMatrix
from rapgnn.stepwise import propagate

DRAW_BYTES = 16 << 20  # of one batch of draws: enough to read the hops rarely, small enough to stay near the cache
MAX_DRAWS = 64


@dataclass
class Source:
    """Where representations come from: the embedded graph and its random layers.

    ``engine`` is what is used and ``reason`` says why. With ``constant`` every draw is the same one.
    """

    spec: Propagation
    operator: SparseMatrix
    x: Features
    embedding: Embedding
    engine: str
    reason: str
    h: Features | None  # h⁰, where it is the same in every forward pass

    @property
    def constant(self) -> bool:
        same_weights = self.spec.weights.schedule == "fixed" or self.spec.weights.structure == "identity"
        return same_weights and self.h is not None and self.spec.dropout == 0

    @property
    def has_expectation(self) -> bool:
        """Whether E[h^L] has an exact form: by the polynomial, or because nothing is random."""
        return self.engine == "polynomial" or self.constant

    def rows(self, rows: Tensor, average: Tensor | None = None) -> "Representation":
        """The representation of these rows, and E[h^L] of those to ``average``; hops are computed now, in one walk."""
        if self.engine == "polynomial":
            assert self.h is not None
            walk = None if self.constant else average
            kept = PolynomialFilter(self.spec, self.operator, self.h, rows, walk)
            representation = PolynomialRepresentation(self, rows, kept)
        else:
            representation = Representation(self, rows)
        if average is not None and representation.averaged is None:
            representation.averaged = self.expected(average)
        return representation

    def expected(self, rows: Tensor) -> Tensor:
        """E[h^L] of these rows, exact, ``[rows, d]``."""
        if self.constant:
            return next(self.rows(rows).draws([0]))
        if self.engine == "polynomial":
            assert self.h is not None
            return expected(self.spec, self.operator, self.h, rows)
        raise InputError(self.no_expectation)

    @property
    def no_expectation(self) -> str:
        """The sentence that refuses ``"expected"`` where ``has_expectation`` is False."""
        return f'inference "expected" has no exact form here: {self.reason}; use "mean" or "sample".'

    def embed(self, step: int, generator: torch.Generator | None = None) -> Features:
        if self.h is not None:
            return self.h
        return self.embedding(self.embedding.inputs(self.x, self.operator, step), step, generator)


class Representation:
    """Layer by layer: every draw is a forward pass over the graph."""

    def __init__(self, source: Source, rows: Tensor):
        self.source, self.index = source, rows
        self.averaged: Tensor | None = None  # E[h^L] of the rows that were to be averaged

    def draws(
        self,
        counters: Sequence[int],
        generator: torch.Generator | None = None,
        steps: Sequence[int] | None = None,
    ) -> Iterator[Tensor]:
        """h^L ``[rows, d]`` of each draw in turn.

        Args:
            counters: which draws of the weights.
            generator: switches dropout before and between the layers on.
            steps: which forward passes these are, for what an embedding draws anew in each, whatever the weights'
                schedule; None takes the counters.
        """
        steps = counters if steps is None else steps
        if self.source.constant:
            once = next(self._each(counters[:1], generator, steps[:1]))
            yield from (once for _ in counters)
        else:
            yield from self._each(counters, generator, steps)

    def _each(
        self, counters: Sequence[int], generator: torch.Generator | None, steps: Sequence[int]
    ) -> Iterator[Tensor]:
        source = self.source
        for counter, step in zip(counters, steps, strict=True):
            h = source.embed(step, generator)
            yield propagate(source.spec, source.operator, h, counter, generator)[self.index]


class PolynomialRepresentation(Representation):
    """By the shortcut: draws come in batches that read the stored hops once."""

    def __init__(self, source: Source, rows: Tensor, kept: PolynomialFilter):
        super().__init__(source, rows)
        self.filter = kept
        # Fixed weights have one draw, which is then the expectation; the distribution's mean is not.
        self.averaged = None if source.constant else kept.averaged

    def _each(
        self, counters: Sequence[int], generator: torch.Generator | None, steps: Sequence[int]
    ) -> Iterator[Tensor]:
        size = max(1, 4 * self.filter.channels * max(1, len(self.index)))
        batch = max(1, min(MAX_DRAWS, DRAW_BYTES // size))
        for start in range(0, len(counters), batch):
            yield from self.filter.draw(counters[start : start + batch])


@torch.no_grad()
def represent(
    spec: Propagation,
    operator: SparseMatrix,
    x: Features,
    embedding: Embedding,
    engine: str = "auto",
    trainable: bool = False,
) -> Source:
    """Embed the graph and choose the engine: the shortcut exactly when it is exact.

    Args:
        engine: ``"auto"``; ``"stepwise"`` always goes layer by layer; ``"polynomial"`` refuses where it is not exact.
        trainable: whether gradients must reach the embedding, so that h⁰ changes between forward passes.
    """
    h: Features | None = None
    if trainable:
        obstacle = "the embedding is trained through the layers"
    elif embedding.varies:
        obstacle = "the embedding changes in every forward pass"
    else:
        frozen: Features = embedding(embedding.inputs(x, operator))
        h, obstacle = frozen, spec.obstacle(operator, frozen)
    if engine == "polynomial" and obstacle:
        raise InputError(f"the polynomial engine would not be exact: {obstacle}; use engine auto or stepwise.")
    if engine == "stepwise" or obstacle:
        reason = obstacle or "the layer-by-layer engine was asked for"
        return Source(spec, operator, x, embedding, "stepwise", reason, h)
    linear = spec.activation == "identity"
    reason = "the layers are linear" if linear else "weights, graph and embedded features are non-negative"
    return Source(spec, operator, x, embedding, "polynomial", reason, h)
