"""Which engine is right, and the representation it gives of the rows that are asked for, behind one interface."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from rapgnn.errors import InputError
from rapgnn.graph.operator import GraphOperator
from rapgnn.network.embedding import Embedding, append
from rapgnn.network.hops import Hops
from rapgnn.network.polynomial import PolynomialFilter, expectation, expectation_and_covariance
from rapgnn.network.propagation import Propagation, coefficients
from rapgnn.network.representation import LayeredGraph, PolynomialRepresentation, Representation
from rapgnn.sparse import Features, SparseMatrix


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
