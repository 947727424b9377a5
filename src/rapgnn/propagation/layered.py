"""A graph with h⁰ on it and the random layers above: what both engines work on."""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from rapgnn.graph.operator import GraphOperator
from rapgnn.layers.embedding import Embedding
from rapgnn.propagation.cache import HopCache
from rapgnn.propagation.polynomial import OnHop
from rapgnn.propagation.spec import Propagation
from rapgnn.sparse import Features, row_block


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
    cache: HopCache | None = None  # hops that other networks have computed
    on_hop: OnHop = lambda: None  # called after every hop of an expectation, for a progress bar

    @property
    def constant(self) -> bool:
        same_weights = self.spec.weights.schedule == "fixed" or self.spec.weights.structure == "identity"
        return same_weights and self.h is not None and self.spec.dropout == 0

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
