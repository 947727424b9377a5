"""What the head sees of the rows asked for: by the shortcut where it is exact, else layer by layer; and why."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import repeat
from typing import Self

import torch
from torch import Tensor

from rapgnn.captured import CapturedFunction
from rapgnn.errors import InputError
from rapgnn.graph.operator import GraphOperator
from rapgnn.memory import blocks
from rapgnn.network.encode import Embedding
from rapgnn.network.hops import Hops, pick
from rapgnn.network.polynomial import OnHop, PolynomialFilter, expectation_and_covariance
from rapgnn.network.propagation import Propagation, stored_hops
from rapgnn.network.stepwise import Layers, pooled
from rapgnn.network.weights import PROBE
from rapgnn.sparse import Features, row_block


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
    cache: Hops | None = None  # hops that other networks have computed
    on_hop: OnHop = lambda: None  # called after every hop of an expectation, for a progress bar

    @property
    def constant(self) -> bool:
        same_weights = self.spec.weights.schedule == "fixed" or self.spec.weights.structure == "identity"
        return same_weights and self.h is not None and self.spec.layer_dropout == 0

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

    def embed(self, step: int, generator: torch.Generator | None = None) -> tuple[Features, Tensor | None]:
        """h⁰ and the edge embeddings of one forward pass."""
        if self.h is not None:
            return self.h, self.e
        inputs = self.embedding.inputs(self.x, self.operator, step)
        return self.embedding.embed(inputs, step, generator), self.embedding.edges(self.operator)

    def part(self, graphs: Tensor) -> Self:
        operator, nodes = self.operator.select(graphs)
        h = None if self.h is None else row_block(self.h, nodes)
        return replace(self, operator=operator, x=row_block(self.x, nodes), h=h)

    def rows(self, rows: Tensor, expect: Tensor | None = None) -> "Representation":
        """The representation of these rows, and the expectation of those in ``expect``, both from one walk of hops."""
        elsewhere = expect is not None and (self.constant or self.engine == "stepwise")
        expected = self.expectation(expect) if elsewhere and expect is not None else None
        if self.engine == "stepwise":
            return Representation(self, rows, expected)
        assert self.h is not None
        cache = self.cache if self.cache is not None and self.cache.suits(self.spec, self.h) else None
        stored = PolynomialFilter(self.spec, self.operator, self.h, rows, None if elsewhere else expect, self.e, cache)
        return PolynomialRepresentation(self, rows, stored, stored.expected if expected is None else expected)

    def expectation(self, rows: Tensor) -> Tensor:
        """The exact expectation of these rows, ``[rows, J·d]``, where there is one."""
        if self.constant:  # fixed weights have one draw, which is then the expectation; the distribution's mean is not
            return next(self.rows(rows).draws([0]))
        self.choose_inference("expected")
        assert self.h is not None
        of_none = PolynomialFilter(self.spec, self.operator, self.h, rows[:0], rows, self.e, on_hop=self.on_hop)
        return of_none.expected

    def expectation_and_covariance(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Beside the expectation the covariance of each channel's outputs, as the polynomial gives them."""
        self.choose_inference("expected")
        assert self.h is not None
        return expectation_and_covariance(self.spec, self.operator, self.h, rows, self.e, self.on_hop)


Drawn = dict[str, Tensor]
GRAPHS_AT_ONCE = 4096  # that go through layers side by side where no gradient needs all of them
MOMENT_BYTES = 64 << 20  # of the rows whose moments are taken together


class Representation:
    """Layer by layer: every draw is a forward pass over the graph, or over the graphs that are asked for."""

    def __init__(self, embedded: EmbeddedGraph, rows: Tensor, expected: Tensor | None = None):
        self.embedded, self.index = embedded, rows
        self.expected = expected  # the expectation of the rows it was asked for
        self._parts: list[EmbeddedGraph] | None = None
        self._drawing: CapturedFunction | None = None
        self._work: CapturedFunction | None = None

    @cached_property
    def only_draw(self) -> Tensor:
        """The one draw there is, where every draw is the same."""
        return next(self._each([0], None, [0], None))

    def channel_moments(self, probes: int = 8) -> tuple[Tensor, Tensor]:
        """Mean and mean square over rows and draws of every channel, float64: exact, or of so many draws."""
        if self.embedded.constant:
            drawn = self.only_draw[None]
        else:
            drawn = torch.stack(list(self.draws([PROBE - i for i in range(probes)])))
        drawn = drawn.double().flatten(0, 1)
        return drawn.mean(0), drawn.square().mean(0)

    def draw_moments(self, counter: int) -> tuple[Tensor, Tensor]:
        """Mean and mean square over rows of every channel, in one draw of the weights."""
        drawn = next(self.draws([counter], steps=[0]))
        return drawn.mean(0), drawn.double().square().mean(0)

    def draws(
        self,
        counters: Sequence[int],
        generator: torch.Generator | None = None,
        steps: Sequence[int] | None = None,
        batches: Iterable[Tensor] | None = None,
    ) -> Iterator[Tensor]:
        """The representation ``[rows, channels]`` of each draw in turn.

        Args:
            counters: which draws of the weights.
            generator: switches dropout before and between the layers on.
            steps: which forward passes these are, for what an embedding draws anew in each, whatever the weights'
                schedule; None takes the counters.
            batches: the rows of each draw, counted within this representation's, taken one at a time, as they are
                needed; None: all, in every draw.
        """
        if self.embedded.constant:
            chosen = repeat(None, len(counters)) if batches is None else batches
            return (pick(self.only_draw, rows) for rows in chosen)
        return self._each(
            counters, generator, counters if steps is None else steps, None if batches is None else iter(batches)
        )

    def _each(
        self,
        counters: Sequence[int],
        generator: torch.Generator | None,
        steps: Sequence[int],
        batches: Iterator[Tensor] | None,
    ) -> Iterator[Tensor]:
        for counter, step in zip(counters, steps, strict=True):
            yield self._pass(None if batches is None else next(batches), counter, generator, step)

    def weights(self, counters: Sequence[int]) -> Drawn:
        """What is random in each of these draws, for ``combine``: tensors with the draws outermost."""
        if self.embedded.constant:
            return {}
        given = {"counters": torch.as_tensor(counters, dtype=torch.int64, device=self.index.device)}
        if not (self.index.is_cuda and self.embedded.spec.weights.on_device):
            return self._drawer()(given)
        if self._drawing is None or not self._drawing.suits(given):
            self._drawing = CapturedFunction(self._drawer(), given)
        return {name: w.clone() for name, w in self._drawing(given).items()}

    def _drawer(self) -> Callable[[Drawn], Drawn]:
        spec, channels, like = self.embedded.spec, self.channels, self.embedded.operator.matrix.values
        return lambda given: spec.draw_all(given["counters"], channels, device=like.device, dtype=like.dtype)

    @property
    def channels(self) -> int:
        return self.embedded.embedding.out_channels

    def combine(
        self,
        weights: Drawn,
        steps: Sequence[int],
        rows: Tensor | None = None,
        scale: Tensor | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """The representations ``[T, rows, channels]`` of T draws at once, without dropout.

        Args:
            weights: of these draws, from ``weights``.
            rows: ``[T, B]``, the rows of each draw; None: all of them, in every draw.
            out: what an earlier call with as many draws has returned, to be written again.
        """
        if self.embedded.constant:
            drawn = self.only_draw[None] if rows is None else self.only_draw[rows]
            drawn = drawn if scale is None else drawn * scale
            return drawn if out is None else out.copy_(drawn)
        for t, step in enumerate(steps):
            mine = {name: w[t] for name, w in weights.items()}
            drawn = self._replayed(mine) if rows is None else self._pass(rows[t], mine, None, step)
            drawn = self._pass(None, mine, None, step) if drawn is None else drawn
            out = drawn.new_empty(len(steps), *drawn.shape) if out is None else out
            out[t] = drawn if scale is None else drawn * scale
        assert out is not None
        return out

    def _replayed(self, weights: Drawn) -> Tensor | None:
        """A pass over one whole graph as captured GPU work, valid until the next; None where there is no such pass."""
        whole, index = self.embedded, self.index
        h, e = whole.h, whole.e
        if h is None or whole.operator.ptr is not None or not index.is_cuda:
            return None
        if self._work is None:
            self._work = CapturedFunction(
                lambda given: {"h": pooled(whole.spec, whole.operator, h, given, None, e)[index]}, weights
            )
        return self._work(weights)["h"]

    def _pass(self, rows: Tensor | None, counter: int | Layers, generator: torch.Generator | None, step: int) -> Tensor:
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

    def __init__(self, embedded: EmbeddedGraph, rows: Tensor, stored: PolynomialFilter, expected: Tensor | None = None):
        super().__init__(embedded, rows, expected)
        self.filter = stored

    def channel_moments(self, probes: int = 8) -> tuple[Tensor, Tensor]:
        if self.embedded.constant or not len(self.index):
            return super().channel_moments(probes)
        sums = []
        for part in self._rows_together:
            mean = self.filter.expectation(part).double()
            sums.append(torch.stack([mean.sum(0), (mean.square() + self.filter.variance(part).double()).sum(0)]))
        mean, square = torch.stack(sums).sum(0) / len(self.index)
        return mean, square

    def draw_moments(self, counter: int) -> tuple[Tensor, Tensor]:
        if self.embedded.constant or len(self._rows_together) < 2:
            return super().draw_moments(counter)
        c, every = self.filter.coefficients([counter])[0], torch.arange(len(self.index), device=self.index.device)
        drawn = (self.filter.draw_batch(every[part], c).double() for part in self._rows_together)
        mean, square = torch.stack([torch.stack([h.sum(0), h.square().sum(0)]) for h in drawn]).sum(0) / len(every)
        return mean, square

    @cached_property
    def _rows_together(self) -> list[slice]:
        spec = self.embedded.spec
        row_bytes = 4 * self.filter.channels * len(spec.outputs) * (2 * len(stored_hops(spec)) + 4)
        return list(blocks(len(self.index), MOMENT_BYTES // row_bytes))

    def _each(self, counters, generator, steps, batches) -> Iterator[Tensor]:
        together = self.draws_together if batches is None else self._together(len(stored_hops(self.embedded.spec)))
        for start in range(0, len(counters), together):
            c = self.filter.coefficients(counters[start : start + together])
            # The numbers of many steps are drawn at once; the rows of a step only when it comes.
            yield from (
                self.filter.combine(c) if batches is None else (self.filter.draw_batch(next(batches), one) for one in c)
            )

    @property
    def draws_together(self) -> int:
        """How many draws are made at once, so that the hops are read rarely and the result stays small."""
        return self._together(len(self.index))

    def _together(self, times: int, most: int = 64, most_bytes: int = 16 << 20) -> int:
        """How many draws of so many numbers for every output and channel: enough to read the hops rarely, few enough to
        stay near the processor."""
        size = 4 * self.filter.channels * len(self.embedded.spec.outputs) * max(1, times)
        return max(1, min(most, most_bytes // max(1, size)))

    def _drawer(self) -> Callable[[Drawn], Drawn]:
        stored = self.filter
        return lambda given: {"coefficients": stored.coefficients(given["counters"])}

    def combine(self, weights, steps, rows=None, scale=None, out=None) -> Tensor:
        if self.embedded.constant:
            return super().combine(weights, steps, rows, scale, out)
        c = weights["coefficients"]
        if scale is not None:
            c = c * scale.view(c.shape[1], 1, c.shape[3])  # [J, 1, d]
        return self.filter.combine(c, rows, out)
