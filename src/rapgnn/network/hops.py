"""The hops S^k z in memory: by blocks of columns for the rows that are wanted, or whole and shared by networks."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from rapgnn.device import free_memory
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.network.config import Config
from rapgnn.network.known_labels import KnownLabels
from rapgnn.network.propagation import Propagation, stored_hops
from rapgnn.sparse import Features, SparseMatrix, column_block, dense, row_block

BLOCK_BYTES = 256 << 20  # of one n × block buffer while hopping: wide rows are gathered several times faster


def bytes_of_block(device: torch.device) -> int:
    """How large one n × block buffer may be: on a GPU a share of what is free."""
    return max(BLOCK_BYTES, free_memory(device) // 32) if device.type == "cuda" else BLOCK_BYTES


def hops(
    spec: Propagation,
    operator: GraphOperator,
    h: Features,
    wanted: Sequence[Tensor | None],
    e: Tensor | None = None,
    block_bytes: int | None = None,
) -> Iterator[tuple[slice, int, list[Tensor]]]:
    """The hops by blocks of columns: (columns, place in ``stored_hops``, a ``[rows, block]`` for every one wanted).

    Args:
        wanted: rows (nodes, or pooled graphs) whose hops are wanted, any number of times; None: all.
        e: the embedded edge types, where messages have edge features.
        block_bytes: of one n × block buffer, of which two are alive.
    """
    n, d = h.shape
    S, L = operator.matrix, spec.num_layers
    place = {number: i for i, number in enumerate(stored_hops(spec))}
    width = max(1, min(d, (block_bytes or bytes_of_block(S.device)) // max(1, 4 * n)))
    few = None if operator.ptr is not None or spec.rule.edges else few_rows(wanted, n)
    end = S if few is None else S.rows(few)
    for start in range(0, d, width):
        columns = slice(start, min(d, start + width))
        families = [(0, L, column_block(h, columns.start, columns.stop).to(S.dtype))]
        if spec.rule.edges:
            assert e is not None
            assert operator.edges is not None
            received = operator.edges.counts @ e[:, columns].to(S.dtype).contiguous()
            families.append((L + 1, L - 1, received))
        for offset, last, hop in families:
            for k in range(last + 1):
                if k:
                    hop = (end if k == L else S) @ hop
                    if spec.operator_scale != 1.0:
                        hop = hop.div_(spec.operator_scale)
                if offset + k in place:
                    pooled = operator.pool(hop, spec.pooling)
                    at = None if k < L else few
                    yield columns, place[offset + k], [pick(pooled, _among(at, rows)) for rows in wanted]


def few_rows(wanted: Sequence[Tensor | None], n: int) -> Tensor | None:
    """The rows that are wanted, ascending: all that the last hop has to visit. None: they are most of the nodes."""
    rows = [part for part in wanted if part is not None]
    distinct = torch.unique(torch.cat(rows)) if rows and len(rows) == len(wanted) else None
    return None if distinct is None or 2 * len(distinct) > n else distinct


def _among(few: Tensor | None, rows: Tensor | None) -> Tensor | None:
    return rows if few is None or rows is None else torch.searchsorted(few, rows)


def pick(hop: Tensor, rows: Tensor | None) -> Tensor:
    return hop if rows is None else hop[rows]


def next_hop(matrix: SparseMatrix, last: Features, block_bytes: int) -> Tensor:
    """S times the last hop, by the same blocks of columns as elsewhere: n × block takes at most so many bytes."""
    n, d = last.shape
    width = max(1, min(d, block_bytes // max(1, 4 * n)))
    if width == d and not isinstance(last, SparseMatrix):
        return matrix @ last
    hop = torch.empty(n, d, dtype=last.dtype, device=last.device)
    for start in range(0, d, width):
        stop = min(d, start + width)
        hop[:, start:stop] = matrix @ column_block(last, start, stop)
    return hop


def horner(
    matrix: SparseMatrix,
    depth: int,
    part: Callable[[int], Tensor | None],
    after: Callable[[Tensor], Tensor] = lambda hop: hop,
) -> Tensor:
    r"""Σ_k S^k P_k for k = 0 … depth, by Horner's rule: as many hops, of as many columns as P has.

    Args:
        part: k -> P_k; None: nothing. The last one is there.
        after: what is done to every hop.
    """
    total = part(depth)
    assert total is not None
    for k in range(depth - 1, -1, -1):
        total = after(matrix @ total)
        more = part(k)
        total = total if more is None else total.add_(more)
    return total


# Hops of all nodes that several networks share.


ROW_BLOCK_BYTES = 1 << 26  # of rows at full width that live at once
NEAR = 2  # hops that are stored whole; of those beyond the rows that networks ask for, and the last one
LABEL_HOPS = 2  # for which a node's own label can be left out exactly


class Walk:
    """S^k z of all nodes, one hop after another.

    Args:
        rows: those that will be asked for: of distant hops only they are stored, and a whole one is walked to again.
            None: every hop is stored whole.
        near: hops up to which whole ones are stored nonetheless.
    """

    def __init__(self, operator: GraphOperator, inputs: Features, rows: Tensor | None = None, near: int = NEAR):
        self.operator, self.near = operator, near
        self._whole: dict[int, Features] = {0: inputs}
        self._last = 0
        self._slices: dict[int, Tensor] = {}
        self._place: Tensor | None = None
        self.rows = None if rows is None else torch.unique(rows)
        self._few = self.rows is None or 4 * len(self.rows) * inputs.shape[1] <= ROW_BLOCK_BYTES
        if self.rows is not None:
            self._place = torch.full((inputs.shape[0],), -1, dtype=torch.int64, device=self.rows.device)
            self._place[self.rows] = torch.arange(len(self.rows), device=self.rows.device)

    def at(self, k: int, rows: Tensor | None = None) -> Tensor:
        """Hop k of some nodes, or of all."""
        while self._last < k:
            self._step()
        if rows is None or k in self._whole:
            whole = self._whole_hop(k)
            return dense(whole if rows is None else row_block(whole, rows))
        assert self._place is not None
        places = self._place[rows]
        if bool((places < 0).any()):
            return row_block(self._whole_hop(k), rows)  # type: ignore[return-value]
        return self._slices[k].index_select(0, places)

    @property
    def nbytes(self) -> int:
        return sum(hop.nbytes for hop in (*self._whole.values(), *self._slices.values()))

    def after(self, k: int, hop: Tensor) -> Tensor:
        """Hop k + 1 of all nodes, given hop k of all; on the way to a sum much is not stored."""
        if self._last == k and self._few:
            self._step()
        stored = self._whole.get(k + 1)
        return next_hop(self.operator.matrix, hop, BLOCK_BYTES) if stored is None else dense(stored)

    def _step(self) -> None:
        k = self._last
        hop = next_hop(self.operator.matrix, self._whole[k], BLOCK_BYTES)
        if self.rows is not None:
            if k > self.near:
                del self._whole[k]
            if k + 1 > self.near:
                self._slices[k + 1] = hop[self.rows]
        self._whole[k + 1], self._last = hop, k + 1

    def _whole_hop(self, k: int) -> Features:
        near = max(j for j in self._whole if j <= k)
        hop = self._whole[near]
        for _ in range(near, k):
            hop = next_hop(self.operator.matrix, hop, BLOCK_BYTES)
        return hop


class Hops:
    """The hops of a graph's nodes along its edges, and against them where both directions count."""

    def __init__(
        self,
        operator: GraphOperator,
        inputs: Features,
        back: GraphOperator | None = None,
        rows: Tensor | None = None,
        near: int = NEAR,
    ):
        self.operator, self.inputs = operator, inputs
        self.ways = [operator] if back is None else [operator, back]
        self._walks = [Walk(way, inputs, rows, near) for way in self.ways]
        self._predicted: dict[int, Hops] = {}
        self._labels: dict[int, tuple[KnownLabels, list[list[Tensor]]]] = {}
        self._sums: dict[tuple[int, float], Tensor] = {}  # of personalised PageRank, by depth and α

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in (*self._walks, *self._predicted.values(), *self._sums.values()))

    def of(self, k: int, rows: Tensor | None = None, way: int = 0) -> Tensor:
        """Hop k of some nodes, or of all; along the edges, or against them: ``way`` 1."""
        return self._walks[way].at(k, rows)

    def suits(self, spec: Propagation, h: Features) -> bool:
        """Whether these are the hops of a network with random coefficients and this h⁰."""
        return h is self.inputs and not spec.rule.edges and spec.operator_scale == 1.0

    def walk(self, spec: Propagation, wanted: Sequence[Tensor | None]) -> Iterator[tuple[slice, int, list[Tensor]]]:
        """As ``hops``: (columns, place among the stored hops, the wanted rows)."""
        for place, k in enumerate(stored_hops(spec)):
            yield slice(0, self.inputs.shape[1]), place, [self.of(k, rows) for rows in wanted]

    def labels(self, graph: Graph, known: KnownLabels, count: int) -> list[Tensor]:
        """Hops 1 to ``count`` of known labels, for all nodes; then against the edges too, where both ways count."""
        if id(known) not in self._labels:
            like = self.operator.matrix.values
            # The labels stay beside their hops, so that no others get their number.
            self._labels[id(known)] = known, [known.hops(graph, way, like, LABEL_HOPS) for way in self.ways]
        return [hop for way in self._labels[id(known)][1] for hop in way[:count]]

    def predictions(self, of: object, predict: Callable[[], Tensor]) -> "Hops":
        """Hops of what another network predicts for every node."""
        if id(of) not in self._predicted:
            self._predicted[id(of)] = Hops(self.operator, predict())
        return self._predicted[id(of)]

    def joined(self, config: Config, rows: Tensor | None = None) -> Tensor:
        depth = config.num_layers
        if config.jumping == "last":
            return self.of(depth, rows)
        if config.jumping == "cat":
            parts = [self.of(k, rows) for k in range(depth + 1)]
            if config.edges == "both":
                parts += [self.of(k, rows, 1) for k in range(1, depth + 1)]
            return torch.cat(parts, dim=1)
        total = self._sum(depth, config.teleport)
        return total if rows is None else total[rows]

    def _sum(self, depth: int, alpha: float) -> Tensor:
        """Σ α (1 - α)^k S^k z over hops 0 to depth, of all nodes."""
        if (depth, alpha) not in self._sums:
            hop = self.of(0)
            total = alpha * hop
            for k in range(1, depth + 1):
                hop = self._walks[0].after(k - 1, hop)
                total.add_(hop, alpha=alpha * (1 - alpha) ** k)
            self._sums[depth, alpha] = total
        return self._sums[depth, alpha]


def undirected(graph: Graph) -> Graph:
    edges = torch.cat([graph.edge_index, graph.edge_index.flip(0)], dim=1)
    weight = None if graph.edge_weight is None else torch.cat([graph.edge_weight, graph.edge_weight])
    return replace(graph, edge_index=edges, edge_weight=weight, edge_attr=None)
