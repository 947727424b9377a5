"""S^k h⁰ one hop after another, by blocks of columns, for the rows that are wanted; the last hops visit no others."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from rapgnn.device import free_memory
from rapgnn.graph.operator import GraphOperator
from rapgnn.propagation.spec import Propagation, stored_hops
from rapgnn.sparse import Features, SparseMatrix, column_block, dense

BLOCK_BYTES = 256 << 20  # of one n × block buffer while hopping: wide rows are gathered several times faster
WORTH_IT = 1 << 22  # multiply-adds of a hop from which it pays to look for the nodes that matter


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
    reach = Reach(S, L, [] if operator.ptr is not None or spec.rule.edges else wanted, d)
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
                    hop = reach.step(k) @ hop
                    if spec.operator_scale != 1.0:
                        hop = hop.div_(spec.operator_scale)
                if offset + k in place:
                    pooled = operator.pool(hop, spec.pooling)
                    yield columns, place[offset + k], [pick(pooled, reach.places(k, rows)) for rows in wanted]


def pick(hop: Tensor, rows: Tensor | None) -> Tensor:
    """These rows; None: all."""
    return hop if rows is None else hop[rows]


class Reach:
    """Which nodes each hop must visit, so that the wanted rows are right in all of them.

    Backwards from the last hop: the wanted rows, then also those that they receive from, and so on, until it is half of
    the graph. Every row that is visited is summed as in the whole product, so the numbers are the same.

    Args:
        matrix: S.
        depth: number of hops.
        wanted: rows, or None for all.
        width: columns, which decide whether it pays.
    """

    def __init__(self, matrix: SparseMatrix, depth: int, wanted: Sequence[Tensor | None], width: int):
        self.matrix, self._nodes, self._steps = matrix, dict[int, Tensor](), dict[int, SparseMatrix]()
        known = [rows for rows in wanted if rows is not None]
        n = matrix.shape[0]
        if not known or len(known) < len(wanted) or matrix.nnz * width < WORTH_IT:
            return
        nodes = torch.unique(torch.cat(known))
        for k in range(depth, 0, -1):
            if 2 * len(nodes) > n:
                return
            self._nodes[k] = nodes
            part = matrix.rows(nodes)
            before = torch.unique(torch.cat([part.col.long(), nodes]))
            inside = k > 1 and 2 * len(before) <= n
            if inside:
                col = torch.searchsorted(before, part.col.long())
                part = SparseMatrix.from_csr(part.crow, col, part.values, (len(nodes), len(before)))
            self._steps[k] = part
            if inside and len(before) == len(nodes):  # nothing further is reached: all earlier hops are this one
                for earlier in range(k - 1, 1, -1):
                    self._nodes[earlier], self._steps[earlier] = nodes, part
                self._nodes[1], self._steps[1] = nodes, matrix.rows(nodes)
                return
            nodes = before

    def step(self, k: int) -> SparseMatrix:
        """What takes hop k - 1 to hop k."""
        return self._steps.get(k, self.matrix)

    def places(self, k: int, rows: Tensor | None) -> Tensor | None:
        """Where these nodes are in hop k."""
        return torch.searchsorted(self._nodes[k], rows) if k in self._nodes and rows is not None else rows


# Hops that several networks share: those of the same features and operator, for the rows that any of them asks for.


MOST_BYTES = 512 << 20  # of the last hop, which is kept whole so that deeper networks go on from it


class HopCache:
    """S^k h for some rows, computed once, and further where a deeper network asks for more.

    Args:
        matrix: S.
        h: h⁰; a network whose own h⁰ is another one does not use the cache.
        rows: the rows that are wanted, without repetition.
        columns: how many are propagated at a time, each block kept apart; None: as without a cache.
    """

    def __init__(self, matrix: SparseMatrix, h: Features, rows: Tensor, columns: int | None = None):
        self.matrix, self.h, self.rows, self.columns = matrix, h, rows, columns
        self._hops: list[Tensor] = []
        self._last: list[Tensor] = []
        place = torch.full((matrix.shape[0],), -1, dtype=torch.int64, device=rows.device)
        place[rows] = torch.arange(len(rows), device=rows.device)
        self._place = place

    @staticmethod
    def fits(h: Features) -> bool:
        """Whether a whole hop of these features may be kept."""
        return 4 * h.shape[0] * h.shape[1] <= MOST_BYTES

    def suits(self, spec: Propagation, h: Features, *rows: Tensor | None) -> bool:
        """Whether these rows of a network with this h⁰ can be had from here."""
        plain = h is self.h and not spec.rule.edges and spec.operator_scale == 1.0
        return plain and all(r is not None and bool((self._place[r] >= 0).all()) for r in rows)

    def places(self, rows: Tensor) -> Tensor:
        """Where rows of the graph are among the cached ones."""
        return self._place[rows]

    def walk(
        self, spec: Propagation, block_bytes: int, wanted: Sequence[Tensor | None]
    ) -> Iterator[tuple[slice, int, list[Tensor]]]:
        """As ``hops``, for rows that are cached."""
        places = [None if rows is None else self.places(rows) for rows in wanted]
        for i, k in enumerate(stored_hops(spec)):
            hop = self._hop(k, block_bytes)
            yield slice(0, self.h.shape[1]), i, [hop if at is None else hop[at] for at in places]

    def _hop(self, k: int, block_bytes: int) -> Tensor:
        while len(self._hops) <= k:
            self._last = (
                [next_hop(self.matrix, part, block_bytes) for part in self._last] if self._last else self._first()
            )
            hop = [part[self.rows] for part in self._last]
            self._hops.append(hop[0] if len(hop) == 1 else torch.cat(hop, dim=1))
        return self._hops[k]

    def _first(self) -> list[Tensor]:
        whole = dense(self.h).to(self.matrix.dtype)
        return [whole] if self.columns is None else [part.contiguous() for part in whole.split(self.columns, dim=1)]


def next_hop(matrix: SparseMatrix, last: Features, block_bytes: int) -> Tensor:
    """S times the last hop, by the same blocks of columns as without a cache: n × block takes at most so many bytes."""
    n, d = last.shape
    width = max(1, min(d, block_bytes // max(1, 4 * n)))
    if width == d and not isinstance(last, SparseMatrix):
        return matrix @ last
    hop = torch.empty(n, d, dtype=last.dtype, device=last.device)
    for start in range(0, d, width):
        stop = min(d, start + width)
        hop[:, start:stop] = matrix @ column_block(last, start, stop)
    return hop
