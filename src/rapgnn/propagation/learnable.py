r"""A linear embedding that is trained together with the head, at the shortcut's cost.

.. math:: h^L = \sum_k c_k ⊙ (S^k (X W + b)) = \sum_k c_k ⊙ ((S^k X) W + (S^k 1) b)

The hops of the raw features are walked once and stored for the labelled rows; every step multiplies them by the W of
the moment, so gradients reach it without walking the graph.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from rapgnn.graph.operator import GraphOperator
from rapgnn.layers.embedding import Embedding
from rapgnn.layers.inputs import append
from rapgnn.propagation.coefficients import coefficients
from rapgnn.propagation.layered import LayeredGraph
from rapgnn.propagation.polynomial import PolynomialFilter
from rapgnn.propagation.representation import Representation
from rapgnn.propagation.spec import Propagation
from rapgnn.sparse import Features, SparseMatrix

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
    layers = spec.activation == "identity" and not spec.rule.edges and not spec.dropout
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
