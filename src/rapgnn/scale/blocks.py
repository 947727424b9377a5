"""The walk over blocks of columns: how wide a block the memory allows, and S^k h⁰ of one block after another."""

import gc
import hashlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np
import torch
from torch import Tensor

from rapgnn.device import free_memory
from rapgnn.errors import InputError
from rapgnn.memory import anonymous_bytes, give_back, show_size
from rapgnn.network.embedding import Embedding, Inputs
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.store import HopStore
from rapgnn.scale.streamed import PRODUCT_BYTES, StreamedMatrix, held_bytes

# h⁰ of a graph on disk: its features as the settings want them, embedded, by blocks of columns or of rows.


ROW_BYTES = 16 << 20  # of the features of the rows that are read together


class FirstHop:
    """h⁰ ``[n, d]``, never whole.

    Args:
        graph: on disk.
        embedding: f_φ, frozen, of features alone; None: the features themselves.
        normalize: divide each node's features by the sum of their magnitudes first.
    """

    def __init__(self, graph: DiskGraph, embedding: Embedding | None = None, normalize: bool = False):
        self.graph, self.normalize = graph, normalize
        self.embedding = None if embedding is None or embedding.mlp is None else embedding
        self.channels = graph.num_features if self.embedding is None else self.embedding.out_channels
        self._sizes: Tensor | None = None

    @property
    def row_step(self) -> int:
        """How many rows are read together."""
        widest = max(self.graph.num_features, self.channels)
        return max(1, ROW_BYTES // (4 * max(1, widest)))

    def row_blocks(self) -> Iterator[slice]:
        """All rows, some at a time."""
        n, step = self.graph.num_nodes, self.row_step
        for start in range(0, n, step):
            yield slice(start, min(n, start + step))

    @torch.no_grad()
    def rows(self, rows: slice, device: torch.device | str = "cpu") -> Tensor:
        """h⁰ of these rows, ``[rows, d]``."""
        return self._embedded(torch.from_numpy(np.array(self.graph.features[rows], order="C")), device)

    @torch.no_grad()
    def fill(self, start: int, stop: int, out: Tensor) -> None:
        """Write the columns from ``start`` to ``stop`` into ``out`` ``[n, stop - start]``."""
        if self.embedding is not None:
            for rows in self.row_blocks():
                out[rows] = self.rows(rows, out.device)[:, start:stop]
            return
        sizes = self._row_sizes() if self.normalize else None
        step = max(1, ROW_BYTES // (4 * max(1, stop - start)))
        for first in range(0, self.graph.num_nodes, step):
            rows = slice(first, first + step)
            block = torch.from_numpy(np.array(self.graph.features[rows, start:stop], order="C"))
            out[rows] = block if sizes is None else block.div_(sizes[rows])

    def pick(self, nodes: np.ndarray) -> Tensor:
        """The features of some nodes, as the settings want them, before they are embedded: ``[nodes, c]``."""
        out = np.empty((len(nodes), self.graph.num_features), dtype=np.float32)
        for column in range(out.shape[1]):  # one piece of the file after another
            out[:, column] = self.graph.features[nodes, column]
        return self._normalized(torch.from_numpy(out))

    @property
    def nonnegative(self) -> bool:
        """Whether no entry is below zero."""
        if self.embedding is not None:
            return not self.embedding.unchanged_output
        return all(not bool((self.graph.features[rows] < 0).any()) for rows in self.row_blocks())

    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that tell this embedding of the features from others."""
        digest = hashlib.sha256(f"{self.channels} {self.normalize}".encode())
        if self.embedding is not None:
            digest.update(self.embedding.output.__name__.encode())
            for name, tensor in self.embedding.state_dict().items():
                digest.update(name.encode() + tensor.detach().cpu().numpy().tobytes())
        return digest.hexdigest()[:16]

    def _embedded(self, x: Tensor, device: torch.device | str) -> Tensor:
        x = self._normalized(x).to(device)
        if self.embedding is None:
            return x
        h = self.embedding(Inputs(x))
        assert isinstance(h, Tensor)
        return h

    def _normalized(self, x: Tensor) -> Tensor:
        return x / _sizes_of(x) if self.normalize else x

    def _row_sizes(self) -> Tensor:
        """What each row is divided by, ``[n, 1]``; taken once."""
        if self._sizes is None:
            parts = [
                _sizes_of(torch.from_numpy(np.array(self.graph.features[rows], order="C")))
                for rows in self.row_blocks()
            ]
            self._sizes = torch.cat([torch.zeros(0, 1), *parts])
        return self._sizes


def _sizes_of(x: Tensor) -> Tensor:
    return x.abs().sum(1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny)


SLACK = 64 << 20  # for what the interpreter and the libraries take on the way
DEVICE_SHARE = 0.85  # of the free memory of a GPU
PART_ROWS = 1 << 16  # that are handed to the store at a time

OnHop = Callable[[int, int], None]  # told how many hops of how many are done


@dataclass(frozen=True)
class Budget:
    """How much memory there is.

    Args:
        limit: bytes of this process that no file backs, all in all; None: as much as it takes.
        device: where products run.
        device_limit: bytes on the GPU; None: a share of what is free.
    """

    limit: int | None = None
    device: str = "cpu"
    device_limit: int | None = None

    def room(self, fixed: int, what: str, unit: int) -> int:
        """Bytes that are left when ``fixed`` is taken; refused where not even ``unit`` is left.

        Args:
            what: is to be done, for the sentence that refuses it.
        """
        left = self.left(fixed)
        if left < unit:
            assert self.limit is not None
            raise InputError(
                f"the memory limit of {show_size(self.limit)} is too small {what}: "
                f"{show_size(self.limit - left + unit + SLACK // 4)} is the least that works."
            )
        return left

    def left(self, fixed: int) -> int:
        """Bytes that are left when what the process holds now, and ``fixed`` beside it, is taken."""
        if self.limit is None:
            return 1 << 62
        give_back()
        return self.limit - (anonymous_bytes() or 0) - SLACK - fixed

    def device_room(self) -> int:
        """Bytes on the GPU that a block and the graph may take."""
        if self.device_limit is not None:
            return self.device_limit
        torch.cuda.empty_cache()
        return int(DEVICE_SHARE * free_memory(self.device))


def block_width(graph: DiskGraph, columns: int, budget: Budget, *, self_loops: bool = False) -> int:
    """How many of the columns a block has: two buffers of n rows are alive for it."""
    per_column = 8 * max(1, graph.num_nodes)
    if torch.device(budget.device).type == "cpu":
        fixed = held_bytes(graph, self_loops) + 3 * ROW_BYTES
        room = budget.room(fixed, f"for one column of {graph.num_nodes:,} nodes", per_column)
    else:
        budget.room(4 * ROW_BYTES, "to stream the graph to the GPU", 1)
        room = budget.device_room() - 12 * graph.num_nodes - 3 * PRODUCT_BYTES["cuda"]
        room -= graph_bytes(graph) if keeps_graph(graph, budget) else 0
    width = max(1, min(columns, room // per_column))
    blocks = -(-columns // width)
    return -(-columns // blocks)


def graph_bytes(graph: DiskGraph) -> int:
    """What the entries of S take on a GPU, with the pieces that its kernel cuts rows into."""
    return graph.num_edges * (8 if graph.weighted else 4) + 32 * graph.num_nodes + graph.num_edges // 2


def keeps_graph(graph: DiskGraph, budget: Budget) -> bool:
    """Whether the entries of S stay on the GPU instead of being streamed for every hop."""
    if torch.device(budget.device).type != "cuda":
        return False
    return 2 * graph_bytes(graph) <= budget.device_room() - 3 * PRODUCT_BYTES["cuda"]


def walk(
    matrix: StreamedMatrix,
    first: FirstHop,
    columns: tuple[int, int],
    hops: tuple[int, ...],
    rows: np.ndarray,
    scale: float = 1.0,
    on_hop: Callable[[], None] = lambda: None,
) -> Generator[Iterator[Tensor], None, None]:
    """The wanted rows of every hop in ``hops``, part by part; the last hop visits no other rows.

    Args:
        columns: first column and end.
        hops: k, ascending.
        rows: nodes, ascending.
        scale: what each step is divided by.
        on_hop: called after every hop.
    """
    n, width = matrix.shape[0], columns[1] - columns[0]
    now = torch.empty(n, width, dtype=torch.float32, device=matrix.device)
    first.fill(*columns, now)
    other: Tensor | None = None
    for k in range(hops[-1] + 1):
        if k and k == hops[-1] and 2 * len(rows) <= n:
            other = None
            found = matrix.product_of(now, rows)
            on_hop()
            yield iter(found.div_(scale).split(PART_ROWS))
            return
        if k:
            other = torch.empty_like(now) if other is None else other
            now, other = matrix.product(now, other), now
            if scale != 1.0:
                now.div_(scale)
        on_hop()
        if k in hops:
            yield picked_parts(now, rows)


def picked_parts(hop: Tensor, rows: np.ndarray) -> Iterator[Tensor]:
    """Some rows of a hop, part by part."""
    for start in range(0, len(rows), PART_ROWS):
        part = rows[start : start + PART_ROWS]
        if len(rows) == len(hop):  # all of them, as they lie there
            yield hop[start : start + PART_ROWS]
        else:
            yield hop.index_select(0, torch.from_numpy(np.ascontiguousarray(part)).to(hop.device))


def fill_store(
    store: HopStore,
    matrix: StreamedMatrix,
    first: FirstHop,
    width: int,
    on_hop: OnHop = lambda done, of: None,
) -> None:
    """Compute and store every block that is missing; on a GPU without enough memory by narrower blocks.

    Args:
        width: columns of a block.
    """
    tell = counted(on_hop, len(store.missing(width)) * (store.of.hops[-1] + 1))
    while store.missing():
        columns = store.missing(width)[0]
        hops = walk(matrix, first, columns, store.of.hops, store.rows, store.of.operator_scale, tell)
        try:
            store.write_block(*columns, hops)
        except torch.OutOfMemoryError:
            hops.close()
            width = narrower(columns[1] - columns[0])


def counted(on_hop: OnHop, total: int) -> Callable[[], None]:
    """Called after every hop, it tells how many there were."""
    done = count(1)
    return lambda: on_hop(next(done), total)


def narrower(width: int) -> int:
    """Half of a width that a GPU had not enough memory for."""
    if width == 1:
        raise InputError("the GPU has too little free memory for one column: use the CPU.")
    gc.collect()
    torch.cuda.empty_cache()
    return -(-width // 2)
