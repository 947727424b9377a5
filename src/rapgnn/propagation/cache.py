"""Hops that several networks share: those of the same features and operator, for the rows that any of them asks for."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from rapgnn.propagation.coefficients import stored_hops
from rapgnn.propagation.spec import Propagation
from rapgnn.sparse import Features, SparseMatrix, column_block, dense

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
