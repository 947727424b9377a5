"""Which engine is right, and the representation it gives of the rows that are asked for, behind one interface."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from rapgnn.errors import InputError
from rapgnn.graph.operator import GraphOperator
from rapgnn.layers.embedding import Embedding
from rapgnn.layers.weights import PROBE
from rapgnn.propagation.cache import HopCache
from rapgnn.propagation.polynomial import OnHop, PolynomialFilter, expectation, expectation_and_covariance
from rapgnn.propagation.spec import Propagation
from rapgnn.propagation.stepwise import pooled
from rapgnn.sparse import Features, row_block

DRAW_BYTES = 16 << 20  # of one batch of draws: enough to read the hops rarely, small enough to stay near the cache
MAX_DRAWS = 64
GRAPHS_AT_ONCE = 4096  # that go through layers side by side where no gradient needs all of them
PROBES = 8  # draws that stand for all where there are no exact moments


@dataclass
class EmbeddedGraph:
    """A graph with its embedded features and the random layers above them: where representations come from.

    ``engine`` is what is used and ``reason`` says why. With ``constant`` every draw is the same one.
    """

    spec: Propagation
    operator: GraphOperator
    x: Features
    embedding: Embedding
    engine: str
    reason: str
    h: Features | None  # h⁰, where it is the same in every forward pass
    e: Tensor | None  # the edge embeddings that go with it
    cache: HopCache | None = None  # hops that other networks have computed
    on_hop: OnHop = lambda: None  # called after every hop of an expectation, for a progress bar

    @property
    def constant(self) -> bool:
        same_weights = self.spec.weights.schedule == "fixed" or self.spec.weights.structure == "identity"
        return same_weights and self.h is not None and self.spec.dropout == 0

    @property
    def has_expectation(self) -> bool:
        """Whether the expectation has an exact form: by the polynomial, or because nothing is random."""
        return self.engine == "polynomial" or self.constant

    def choose_inference(self, wanted: str, error_bars: bool = False) -> str:
        """``"auto"`` is the exact expectation where there is one, else a fresh draw as in the paper, or for error bars
        the mean of several; what cannot be done is refused."""
        if wanted == "auto":
            return "expected" if self.has_expectation else "mean" if error_bars else "sample"
        if wanted == "expected" and not self.has_expectation:
            raise InputError(f'inference "expected" has no exact form here: {self.reason}; use "mean" or "sample".')
        return wanted

    def rows(self, rows: Tensor, expect: Tensor | None = None) -> "Representation":
        """The representation of these rows, and the expectation of those in ``expect``, both from one walk of hops."""
        if self.engine == "polynomial":
            assert self.h is not None
            walk = None if self.constant else expect
            asked = (rows,) if walk is None else (rows, walk)
            cache = self.cache if self.cache is not None and self.cache.suits(self.spec, self.h, *asked) else None
            stored = PolynomialFilter(self.spec, self.operator, self.h, rows, walk, self.e, cache)
            representation = PolynomialRepresentation(self, rows, stored)
        else:
            representation = Representation(self, rows)
        if expect is not None and representation.expected is None:
            representation.expected = self.expectation(expect)
        return representation

    def expectation(self, rows: Tensor) -> Tensor:
        """The exact expectation of these rows, ``[rows, d]``, where there is one."""
        if self.constant:
            return next(self.rows(rows).draws([0]))
        self.choose_inference("expected")
        assert self.h is not None
        return expectation(self.spec, self.operator, self.h, rows, self.e, self.on_hop)

    def expectation_and_covariance(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Beside the expectation the covariance of each channel's outputs, as the polynomial gives them."""
        self.choose_inference("expected")
        assert self.h is not None
        return expectation_and_covariance(self.spec, self.operator, self.h, rows, self.e, self.on_hop)

    def embed(self, step: int, generator: torch.Generator | None = None) -> tuple[Features, Tensor | None]:
        """h⁰ and the edge embeddings of one forward pass."""
        if self.h is not None:
            return self.h, self.e
        inputs = self.embedding.inputs(self.x, self.operator, step)
        return self.embedding.embed(inputs, step, generator), self.embedding.edges(self.operator)

    def part(self, graphs: Tensor) -> "EmbeddedGraph":
        """The given graphs alone."""
        operator, nodes = self.operator.select(graphs)
        h = None if self.h is None else row_block(self.h, nodes)
        return replace(self, operator=operator, x=row_block(self.x, nodes), h=h)


class Representation:
    """Layer by layer: every draw is a forward pass over the graph, or over the graphs that are asked for."""

    def __init__(self, embedded: EmbeddedGraph, rows: Tensor):
        self.embedded, self.index = embedded, rows
        self.expected: Tensor | None = None  # the expectation of the rows it was asked for
        self._parts: list[EmbeddedGraph] | None = None

    @cached_property
    def only_draw(self) -> Tensor:
        """The one draw there is, where every draw is the same."""
        return next(iter(self._each([0], None, [0])))

    def channel_moments(self) -> tuple[Tensor, Tensor]:
        """Mean and mean square over rows and draws of every channel, float64: exact, or of a few draws."""
        if self.embedded.constant:
            drawn = self.only_draw[None]
        else:
            drawn = torch.stack(list(self.draws([PROBE - i for i in range(PROBES)])))
        drawn = drawn.double().flatten(0, 1)
        return drawn.mean(0), drawn.square().mean(0)

    def draws(
        self,
        counters: Sequence[int],
        generator: torch.Generator | None = None,
        steps: Sequence[int] | None = None,
    ) -> Iterator[Tensor]:
        """The representation ``[rows, channels]`` of each draw in turn.

        Args:
            counters: which draws of the weights.
            generator: switches dropout before and between the layers on.
            steps: which forward passes these are, for what an embedding draws anew in each, whatever the weights'
                schedule; None takes the counters.
        """
        steps = counters if steps is None else steps
        if self.embedded.constant:
            yield from (self.only_draw for _ in counters)
        else:
            yield from self._each(counters, generator, steps)

    def _each(
        self, counters: Sequence[int], generator: torch.Generator | None, steps: Sequence[int]
    ) -> Iterator[Tensor]:
        for counter, step in zip(counters, steps, strict=True):
            yield self._pass(None, counter, generator, step)

    def batches(
        self,
        batches: Iterable[Tensor],
        counters: Sequence[int],
        generator: torch.Generator | None = None,
        steps: Sequence[int] | None = None,
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """(rows, their representation) of one batch after another, each with a draw of its own.

        Args:
            batches: rows, counted within this representation's; taken one at a time, as they are needed.
            counters, generator, steps: as in ``draws``, for all batches.
        """
        steps = counters if steps is None else steps
        if self.embedded.constant:
            yield from ((rows, self.only_draw[rows]) for rows in batches)
        else:
            yield from self._each_batch(batches, counters, generator, steps)

    def _each_batch(
        self,
        batches: Iterable[Tensor],
        counters: Sequence[int],
        generator: torch.Generator | None,
        steps: Sequence[int],
    ) -> Iterator[tuple[Tensor, Tensor]]:
        for rows, counter, step in zip(batches, counters, steps, strict=True):
            yield rows, self._pass(rows, counter, generator, step)

    def _pass(self, rows: Tensor | None, counter: int, generator: torch.Generator | None, step: int) -> Tensor:
        whole = self.embedded
        if whole.operator.ptr is None:  # any node may depend on any other: the whole graph, then the rows
            h, e = whole.embed(step, generator)
            out = pooled(whole.spec, whole.operator, h, counter, generator, e)[self.index]
            return out if rows is None else out[rows]
        if rows is not None:
            parts = [whole.part(self.index[rows])]
        else:
            # Random node features differ from node to node, so only one pass gives each node its own.
            at_once = GRAPHS_AT_ONCE if whole.h is not None else max(1, len(self.index))
            parts = self._parts = self._parts or [whole.part(rows) for rows in self.index.split(at_once)]
        outputs = []
        for part in parts:
            h, e = part.embed(step, generator)
            outputs.append(pooled(part.spec, part.operator, h, counter, generator, e))
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


class PolynomialRepresentation(Representation):
    """By the shortcut: draws come in batches that read the stored hops once."""

    def __init__(self, embedded: EmbeddedGraph, rows: Tensor, stored: PolynomialFilter):
        super().__init__(embedded, rows)
        self.filter = stored
        # Fixed weights have one draw, which is then the expectation; the distribution's mean is not.
        self.expected = None if embedded.constant else stored.expected

    def channel_moments(self) -> tuple[Tensor, Tensor]:
        if self.embedded.constant or not len(self.index):
            return super().channel_moments()
        mean = self.filter.expectation().double()
        return mean.mean(0), (mean.square() + self.filter.variance().double()).mean(0)

    def _each(
        self, counters: Sequence[int], generator: torch.Generator | None, steps: Sequence[int]
    ) -> Iterator[Tensor]:
        for start in range(0, len(counters), self.draws_together):
            yield from self.filter.draw(counters[start : start + self.draws_together])

    @property
    def draws_together(self) -> int:
        """How many draws are made at once, so that the hops are read rarely and the result stays small."""
        size = 4 * self.filter.channels * len(self.embedded.spec.outputs) * max(1, len(self.index))
        return max(1, min(MAX_DRAWS, DRAW_BYTES // max(1, size)))

    def _each_batch(self, batches, counters, generator, steps) -> Iterator[tuple[Tensor, Tensor]]:
        one = self.filter.coefficients(counters[:1])
        together = max(1, min(MAX_DRAWS, DRAW_BYTES // max(1, one.element_size() * one.numel())))
        rest = iter(batches)
        for start in range(0, len(counters), together):
            # The numbers of many steps are drawn at once; the rows of a step only when it comes.
            for c in self.filter.coefficients(counters[start : start + together]):
                rows = next(rest)
                yield rows, self.filter.draw_batch(rows, c)


@torch.no_grad()
def represent(
    spec: Propagation,
    operator: GraphOperator,
    x: Features,
    embedding: Embedding,
    engine: str = "auto",
    trainable: bool = False,
    cache: HopCache | None = None,
) -> EmbeddedGraph:
    """Embed the graph and choose the engine: the shortcut exactly when it is exact.

    Args:
        cache: hops that other networks have computed; used where they are this one's too.
        engine: ``"auto"``; ``"stepwise"`` always goes layer by layer; ``"polynomial"`` refuses where it is not exact.
        trainable: whether gradients must reach the embedding, so that h⁰ changes between forward passes.
    """
    h: Features | None = None
    e: Tensor | None = None
    if trainable:
        obstacle = "the embedding is trained through the layers"
    elif embedding.varies:
        obstacle = "the embedding changes in every forward pass"
    else:
        h, e = embedding.embed(embedding.inputs(x, operator)), embedding.edges(operator)
        obstacle = spec.obstacle(operator, h, e)
    if engine == "polynomial" and obstacle:
        raise InputError(f"the polynomial engine would not be exact: {obstacle}; use engine auto or stepwise.")
    if engine == "stepwise" or obstacle:
        reason = obstacle or "the layer-by-layer engine was asked for"
        return EmbeddedGraph(spec, operator, x, embedding, "stepwise", reason, h, e)
    linear = spec.activation == "identity" and not spec.rule.edges
    reason = "the layers are linear" if linear else "weights, graph and embedded features are non-negative"
    return EmbeddedGraph(spec, operator, x, embedding, "polynomial", reason, h, e, cache)
