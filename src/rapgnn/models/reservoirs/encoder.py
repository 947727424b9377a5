"""What the reservoir systems have in common, and how their features are computed in blocks."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import product
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from rapgnn.graph.graph import Graph
from rapgnn.models.graph_blocks import graph_blocks
from rapgnn.sparse import Features, row_block

S = TypeVar("S")


class Context(Protocol):
    """A graph as a system sees it; many graphs are parts of one, and some of them can be selected."""

    @property
    def ptr(self) -> Tensor | None: ...

    def select(self, graphs: Tensor) -> "tuple[Any, Tensor]": ...


class ReservoirEncoder(nn.Module):
    """The untrained part of a system: features -> one block of columns per depth.

    Attributes:
        cumulative: whether a network of depth k has the columns of all depths up to k, or those of k alone.
        depths: the depths that a readout may have, so that validation can choose.
        width: numbers per node that live at once, which decides the size of blocks.
    """

    cumulative: bool
    depths: tuple[int, ...]
    width: int

    @abstractmethod
    def context(self, graph: Graph) -> Context:
        """The graph as this system sees it, on x's device."""

    @abstractmethod
    def parts(self, x: Features, context: Any) -> Iterator[Tensor]:
        """One tensor ``[rows, channels]`` per depth, from the first on; rows are nodes, or graphs."""

    def fit(self, x: Features, context: Any, rows: Tensor) -> None:
        """Take what the layers need of the training rows, such as means; never labels."""

    @torch.no_grad()
    def encode(self, x: Features, context: Any, rows: Tensor, deepest: int | None = None) -> list[Tensor]:
        """The parts of some rows, up to a depth. Graphs go through in blocks; of nodes only the rows asked for stay.

        Shapes:
            one tensor ``[len(rows), channels]`` per depth.
        """
        deepest = deepest or max(self.depths)
        if context.ptr is None:
            return [part[rows] for part in _first(self.parts(x, context), deepest)]
        blocks = []
        for some in graph_blocks(context.ptr, rows, self.width):
            chosen, nodes = context.select(some)
            blocks.append(list(_first(self.parts(row_block(x, nodes), chosen), deepest)))
        return [torch.cat(part) for part in zip(*blocks, strict=True)]

    def columns(self, parts: list[Tensor], depth: int) -> Tensor:
        """What a readout of this depth sees."""
        return torch.cat(parts[:depth], dim=1) if self.cumulative else parts[depth - 1]


def _first(parts: Iterator[Tensor], count: int) -> Iterator[Tensor]:
    for part, _ in zip(parts, range(count), strict=False):
        yield part


def choices(settings: S) -> list[S]:
    """The settings one by one, where fields that are tuples hold the values to choose from."""
    given = {f.name: getattr(settings, f.name) for f in fields(settings)}  # type: ignore[arg-type]
    tried = {name: values for name, values in given.items() if isinstance(values, tuple)}
    return [replace(settings, **dict(zip(tried, point, strict=True))) for point in product(*tried.values())]  # type: ignore[type-var]
