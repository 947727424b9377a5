"""S^k h⁰ one hop after another, by blocks of columns, for the rows that are wanted; the last hops visit no others."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from rapgnn.device import free_memory
from rapgnn.graph.operator import GraphOperator
from rapgnn.propagation.coefficients import stored_hops
from rapgnn.propagation.spec import Propagation
from rapgnn.sparse import Features, SparseMatrix, column_block

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
