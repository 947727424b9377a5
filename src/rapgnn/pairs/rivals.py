"""What a model of links is compared with: each is a product of two matrices, a row per node."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rapgnn.pairs.links import Links
from rapgnn.pairs.measures import Ranked, held_out_measures
from rapgnn.pairs.ranking import allowed_rows
from rapgnn.pairs.splits import negatives
from rapgnn.prng import Stream, seeded

ROW_BYTES = 1 << 26  # of rows nodes × n that live at once
PAIR_BLOCK = 1 << 15  # pairs whose rows live at once
CHANNELS = 64  # of inputs that are drawn where nodes have no features
EPOCHS = 200


@dataclass(frozen=True)
class Product:
    """score(u, v) = left_u · right_v, of sparse or dense matrices ``[n, c]``."""

    left: Any
    right: Any

    def scores(self, pairs: Tensor) -> Tensor:
        """Of pairs ``[m, 2]``."""
        parts = [np.zeros(0)]
        for u, v in (block.numpy().T for block in pairs.split(PAIR_BLOCK)):
            one, other = self.left[u], self.right[v]
            product = one.multiply(other) if sp.issparse(one) else one * other
            parts.append(np.asarray(product.sum(1)).ravel())
        return torch.from_numpy(np.concatenate(parts))

    def best(self, known: Links, nodes: Tensor, k: int) -> Ranked:
        """The best k new neighbours of some nodes."""
        parts = []
        for block in nodes.split(max(1, ROW_BYTES // (8 * known.n))):
            rows = self.left[block.numpy()] @ self.right.T
            rows = torch.from_numpy(np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64))
            score, place = rows.masked_fill_(~allowed_rows(known, block), -torch.inf).topk(min(k, known.n), dim=1)
            row, at = torch.isfinite(score).nonzero().T
            parts.append((block[row].numpy(), place[row, at].numpy(), score[row, at].numpy()))
        node, neighbour, score = (np.concatenate(part) for part in zip(*parts, strict=True))
        return node, neighbour, score


def _common(links: Links, x: Tensor | None, seed: int) -> Product:
    """From side to side, where there are two, the walks of three steps: they have no common neighbours."""
    return Product(sp.csr_matrix(links.both @ links.both) if links.bipartite else links.both, links.both)


def _allocation(links: Links, x: Tensor | None, seed: int) -> Product:
    degree = np.maximum(np.diff(links.both.indptr), 1)
    shared = sp.csr_matrix(links.both @ sp.diags(1 / degree))
    return Product(sp.csr_matrix(shared @ links.both) if links.bipartite else links.both, shared)


def _popularity(links: Links, x: Tensor | None, seed: int) -> Product:
    degree = np.diff(links.both.indptr).astype(np.float64)[:, None]
    return Product(degree, degree)


def autoencoder(
    links: Links, x: Tensor | None, seed: int, channels: int = 64, lr: float = 0.01, epochs: int = EPOCHS
) -> Product:
    """A GCN of two layers that is trained end to end so that z_u · z_v tells links from random pairs (GAE, 2016)."""
    from torch_geometric.nn import GAE, GCN

    generator = seeded(seed, Stream.SKETCH)
    inputs = torch.randn(links.n, CHANNELS, generator=generator) if x is None else x
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = GAE(GCN(inputs.shape[1], 2 * channels, 2, channels))
        optimizer = torch.optim.Adam(model.parameters(), lr=lr)
        edges = torch.from_numpy(np.stack(links.both.nonzero()).astype(np.int64))
        for epoch in range(epochs):
            optimizer.zero_grad()
            z, others = model.encode(inputs, edges), negatives(links, len(links.ends), "random", seed + epoch)
            loss = model.recon_loss(z, links.ends.T, others.T)
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        z = model.eval().encode(inputs, edges).numpy()
    return Product(z, z)


RIVALS: dict[str, Callable[[Links, Tensor | None, int], Product]] = {
    "common neighbours": _common,
    "resource allocation": _allocation,
    "popularity": _popularity,
    "GCN autoencoder": autoencoder,
}
"""Rivals by name: (links, features of the nodes, seed) -> scores of all pairs."""


def compared(
    rivals: dict[str, Callable[..., Product]], known: Links, x: Tensor | None, links: Tensor, k: int, seed: int
) -> list[dict[str, Any]]:
    """A record per rival: its measures on links that are hidden from it, and the seconds that making it took.

    Args:
        links: the hidden ones, as in ``held_out_measures``.
    """
    records = []
    for name, make in rivals.items():
        begun = time.perf_counter()
        product = make(known, x, seed)
        record = {"method": name, "fit_seconds": time.perf_counter() - begun}
        found = held_out_measures(product.scores, partial(product.best, known), known, links, k, seed)
        records.append(record | found)
    return records
