"""h⁰ of a graph on disk: its features as the settings want them, embedded, by blocks of columns or of rows."""

import hashlib
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from rapgnn.layers.embedding import Embedding
from rapgnn.layers.inputs import Inputs
from rapgnn.scale.disk_graph import DiskGraph

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
