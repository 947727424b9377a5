"""Which engine is right, and the representation it gives of the rows that are asked for, behind one interface."""

import torch
from torch import Tensor

from rapgnn.errors import InputError
from rapgnn.graph.operator import GraphOperator
from rapgnn.layers.embedding import Embedding
from rapgnn.propagation.cache import HopCache
from rapgnn.propagation.layered import LayeredGraph
from rapgnn.propagation.learnable import LearnableRepresentation, trains_after_hops
from rapgnn.propagation.polynomial import PolynomialFilter, expectation, expectation_and_covariance
from rapgnn.propagation.representation import PolynomialRepresentation, Representation
from rapgnn.propagation.spec import Propagation
from rapgnn.sparse import Features


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
            asked = (rows,) if walk is None else (rows, walk)
            cache = self.cache if self.cache is not None and self.cache.suits(self.spec, self.h, *asked) else None
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
    cache: HopCache | None = None,
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
