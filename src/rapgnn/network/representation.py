"""What the head sees of the rows asked for: by the shortcut where it is exact, else layer by layer; and why."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from rapgnn.captured import CapturedFunction
from rapgnn.errors import InputError
from rapgnn.graph.operator import GraphOperator
from rapgnn.network.encode import Embedding, append
from rapgnn.network.hops import Hops
from rapgnn.network.polynomial import OnHop, PolynomialFilter, expectation, expectation_and_covariance
from rapgnn.network.propagation import Propagation, coefficients
from rapgnn.network.stepwise import Layers, pooled
from rapgnn.network.weights import PROBE
from rapgnn.sparse import Features, SparseMatrix, row_block

# A graph with h⁰ on it and the random layers above: what both engines work on.


@dataclass
class LayeredGraph:
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

    def embed(self, step: int, generator: torch.Generator | None = None) -> tuple[Features, Tensor | None]:
        """h⁰ and the edge embeddings of one forward pass."""
        if self.h is not None:
            return self.h, self.e
        inputs = self.embedding.inputs(self.x, self.operator, step)
        return self.embedding.embed(inputs, step, generator), self.embedding.edges(self.operator)

    def part(self, graphs: Tensor) -> Self:
        """The given graphs alone."""
        operator, nodes = self.operator.select(graphs)
        h = None if self.h is None else row_block(self.h, nodes)
        return replace(self, operator=operator, x=row_block(self.x, nodes), h=h)


Drawn = dict[str, Tensor]
DRAW_BYTES = 16 << 20  # of one batch of draws: enough to read the hops rarely, small enough to stay near the cache
MAX_DRAWS = 64
GRAPHS_AT_ONCE = 4096  # that go through layers side by side where no gradient needs all of them
PROBES = 8  # draws that stand for all where there are no exact moments


class Representation:
    """Layer by layer: every draw is a forward pass over the graph, or over the graphs that are asked for."""

    def __init__(self, embedded: LayeredGraph, rows: Tensor):
        self.embedded, self.index = embedded, rows
        self._expected: Tensor | None = None
        self._parts: list[LayeredGraph] | None = None
        self._drawing: CapturedFunction | None = None
        self._work: CapturedFunction | None = None

    @property
    def expected(self) -> Tensor | None:
        """The expectation of the rows it was asked for."""
        return self._expected

    def keep_expectation(self, expected: Tensor) -> None:
        """Take the expectation that was computed elsewhere."""
        self._expected = expected

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

    def draw_moments(self, counter: int) -> tuple[Tensor, Tensor]:
        """Mean and mean square over rows of every channel, in one draw of the weights."""
        drawn = next(self.draws([counter], steps=[0]))
        return drawn.mean(0), drawn.double().square().mean(0)

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
        """counters -> what is random in these draws."""
        spec, channels, like = self.embedded.spec, self.channels, self.embedded.operator.matrix.values
        return lambda given: spec.draw_all(given["counters"], channels, device=like.device, dtype=like.dtype)

    @property
    def channels(self) -> int:
        """d, the width of a layer."""
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
            steps: which forward passes they are.
            rows: ``[T, B]``, the rows of each draw; None: all of them, in every draw.
            scale: multiplies the channels.
            out: what an earlier call with as many draws has returned, to be written again.
        """
        if self.embedded.constant:
            found = self.only_draw[None] if rows is None else self.only_draw[rows]
            found = found if scale is None else found * scale
            return found if out is None else out.copy_(found)
        for t, step in enumerate(steps):
            mine = {name: drawn[t] for name, drawn in weights.items()}
            found = self._replayed(mine) if rows is None else self._pass(rows[t], mine, None, step)
            found = self._pass(None, mine, None, step) if found is None else found
            out = found.new_empty(len(steps), *found.shape) if out is None else out
            out[t] = found if scale is None else found * scale
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

    def __init__(self, embedded: LayeredGraph, rows: Tensor, stored: PolynomialFilter):
        super().__init__(embedded, rows)
        self.filter = stored
        # Fixed weights have one draw, which is then the expectation; the distribution's mean is not.
        self._expected = None if embedded.constant else stored.expected

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

    def _drawer(self) -> Callable[[Drawn], Drawn]:
        spec, channels, to = (
            self.embedded.spec,
            self.channels,
            {"device": self.index.device, "dtype": self.filter.dtype},
        )
        return lambda given: {"coefficients": coefficients(spec, given["counters"], channels, **to)}

    def combine(self, weights, steps, rows=None, scale=None, out=None) -> Tensor:
        if self.embedded.constant:
            return super().combine(weights, steps, rows, scale, out)
        c = weights["coefficients"]
        if scale is not None:
            c = c * scale.view(c.shape[1], 1, c.shape[3])  # [J, 1, d]
        return self.filter.combine(c, rows, out)

    def _each_batch(self, batches, counters, generator, steps) -> Iterator[tuple[Tensor, Tensor]]:
        one = self.filter.coefficients(counters[:1])
        together = max(1, min(MAX_DRAWS, DRAW_BYTES // max(1, one.element_size() * one.numel())))
        rest = iter(batches)
        for start in range(0, len(counters), together):
            # The numbers of many steps are drawn at once; the rows of a step only when it comes.
            for c in self.filter.coefficients(counters[start : start + together]):
                rows = next(rest)
                yield rows, self.filter.draw_batch(rows, c)


# Which engine is right, and the representation it gives of the rows that are asked for, behind one interface.


class EmbeddedGraph(LayeredGraph):
    """A graph with its embedded features and the random layers above them: where representations come from."""

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

    def rows(self, rows: Tensor, expect: Tensor | None = None) -> Representation:
        """The representation of these rows, and the expectation of those in ``expect``, both from one walk of hops."""
        if self.engine == "polynomial" and self.h is None:
            return LearnableRepresentation(self, rows, expect)
        if self.engine == "polynomial":
            assert self.h is not None
            walk = None if self.constant else expect
            cache = self.cache if self.cache is not None and self.cache.suits(self.spec, self.h) else None
            stored = PolynomialFilter(self.spec, self.operator, self.h, rows, walk, self.e, cache)
            representation = PolynomialRepresentation(self, rows, stored)
        else:
            representation = Representation(self, rows)
        if expect is not None and representation.expected is None:
            representation.keep_expectation(self.expectation(expect))
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


@torch.no_grad()
def represent(
    spec: Propagation,
    operator: GraphOperator,
    x: Features,
    embedding: Embedding,
    engine: str = "auto",
    trainable: bool = False,
    cache: Hops | None = None,
    rows: int = 0,
) -> EmbeddedGraph:
    """Embed the graph and choose the engine: the shortcut exactly when it is exact.

    Args:
        cache: hops that other networks have computed; used where they are this one's too.
        engine: ``"auto"``; ``"stepwise"`` always goes layer by layer; ``"polynomial"`` refuses where it is not exact.
        trainable: whether gradients must reach the embedding, so that h⁰ changes between forward passes.
        rows: how many rows will be asked for, where that decides what is cheaper.
    """
    h: Features | None = None
    e: Tensor | None = None
    obstacle: str | None
    if trainable:
        after = trains_after_hops(spec, operator, x, embedding, rows)
        obstacle = None if after else "the embedding is trained through the layers"
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
    reason = "embedding and layers are linear" if trainable else reason
    return EmbeddedGraph(spec, operator, x, embedding, "polynomial", reason, h, e, cache)


# A linear embedding that is trained together with the head, at the shortcut's cost.
#
# .. math:: h^L = \sum_k c_k ⊙ (S^k (X W + b)) = \sum_k c_k ⊙ ((S^k X) W + (S^k 1) b)
# The hops of the raw features are walked once and stored for the labelled rows; every step multiplies them by the W of
# the moment, so gradients reach it without walking the graph.


MOST_BYTES = 1 << 30  # of stored raw hops
DENSE_GAIN = 20  # how many times as fast a multiply-add is in a dense product


def trains_after_hops(spec: Propagation, operator: GraphOperator, x: Features, embedding: Embedding, rows: int) -> bool:
    """Whether embedding and layers are linear, so that the embedding may come after the hops, and that is cheaper.

    Args:
        rows: how many there are to train on and to validate with.
    """
    raw = rows * (spec.num_layers + 1) * (x.shape[1] + 1)  # numbers that are stored, and multiplied for every channel
    features = x.nnz if isinstance(x, SparseMatrix) else x.numel() // DENSE_GAIN
    if 4 * raw > MOST_BYTES or raw // DENSE_GAIN > spec.num_layers * operator.matrix.nnz + features:
        return False
    one_map = embedding.mlp is not None and len(embedding.mlp.linears()) == 1 and not embedding.mlp.dropout
    plain = embedding.unchanged_output and not embedding.varies and not embedding.kind.one_layer
    layers = spec.activation == "identity" and not spec.rule.edges and not spec.layer_dropout
    weights = spec.weights.structure == "identity" or (
        spec.weights.structure == "diagonal" and spec.weights.schedule != "fixed"
    )
    return one_map and plain and layers and weights and spec.pooling != "max"


class LearnableRepresentation(Representation):
    """What the head sees while the embedding below it is trained: a function of its weights as they are now.

    Args:
        rows: the training rows.
        expect: rows whose expectation is wanted.
    """

    def __init__(self, embedded: LayeredGraph, rows: Tensor, expect: Tensor | None):
        super().__init__(embedded, rows)
        x = embedded.x
        ones = torch.ones(x.shape[0], 1, dtype=x.dtype, device=x.device)
        spec = replace(embedded.spec, hop_precision="float32")
        with torch.no_grad():
            stored = PolynomialFilter(spec, embedded.operator, append(x, ones), rows, expect)
        self._raw = stored.hops.permute(2, 1, 0).contiguous()  # [rows, K, F + 1]
        outputs = len(spec.outputs)
        self._raw_expected = None if expect is None else stored.expected.unflatten(1, (outputs, x.shape[1] + 1))

    @property
    def expected(self) -> Tensor | None:
        """The expectation of the rows it was asked for, under the embedding as it is now."""
        return None if self._raw_expected is None else self._embedded(self._raw_expected).flatten(1)

    def _embedded(self, raw: Tensor) -> Tensor:
        """(S^k X) W + (S^k 1) b for raw hops ``[..., F + 1]``."""
        mlp = self.embedded.embedding.mlp
        assert mlp is not None
        (layer,) = mlp.linears()
        z = raw[..., :-1] @ layer.weight.T
        return z if layer.bias is None else z + raw[..., -1:] * layer.bias

    def _draw(self, raw: Tensor, counter: int) -> Tensor:
        to = {"device": raw.device, "dtype": raw.dtype}
        c = coefficients(self.embedded.spec, [counter], self.channels, **to)[0]  # [J, K, d]
        return torch.einsum("jkd,rkd->rjd", c, self._embedded(raw)).flatten(1)

    def _each(
        self, counters: Sequence[int], generator: torch.Generator | None, steps: Sequence[int]
    ) -> Iterator[Tensor]:
        yield from (self._draw(self._raw, counter) for counter in counters)

    def _each_batch(self, batches, counters, generator, steps) -> Iterator[tuple[Tensor, Tensor]]:
        for rows, counter in zip(batches, counters, strict=True):
            yield rows, self._draw(self._raw.index_select(0, rows), counter)
