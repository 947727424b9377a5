"""The likeliest new links of some nodes, without scoring all pairs."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from rapgnn.pairs.features import TELEPORT
from rapgnn.pairs.links import Links
from rapgnn.pairs.model import LinksOn

ROW_BYTES = 1 << 27  # of rows nodes × n that live at once
SHORT = 100  # candidates by each of the quick scores, at least
STEPS = 3  # of the walks that suggest candidates


def ranked(on: LinksOn, nodes: Tensor, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Node, neighbour and probability of the best k for each of the nodes, one after another.

    Quick scores of whole rows suggest candidates: personalised PageRank, the leading part of S, the bilinear form of
    the features, the degree. The model ranks these.
    """
    n, parts = on.links.n, list[tuple[np.ndarray, np.ndarray, np.ndarray]]()
    for block in nodes.split(max(1, ROW_BYTES // (4 * max(1, n)))):
        allowed = allowed_rows(on.links, block)
        row, candidate = _shortlist(on, block, allowed, k)
        pairs = torch.stack([block[row], candidate], 1)
        score = on.probabilities(pairs)
        order = np.lexsort((candidate.numpy(), -score.numpy(), row.numpy()))
        row, candidate, score = row.numpy()[order], candidate.numpy()[order], score.numpy()[order]
        best = np.arange(len(row)) - np.searchsorted(row, row) < k
        parts.append((block.numpy()[row[best]], candidate[best], score[best]))
    return tuple(np.concatenate(part) for part in zip(*parts, strict=True)) if parts else (np.zeros(0, int),) * 3  # type: ignore[return-value]


def allowed_rows(links: Links, block: Tensor) -> Tensor:
    """Which nodes may be recommended to which ``[b, n]``: no known link, not the node itself, the other side's."""
    allowed = torch.ones(len(block), links.n, dtype=torch.bool)
    known = links.out[block.numpy()].tocoo()
    allowed[torch.from_numpy(known.row.astype(np.int64)), torch.from_numpy(known.col.astype(np.int64))] = False
    allowed[torch.arange(len(block)), block] = False
    if links.bipartite:
        border = links.sides[1][0]
        allowed &= (block >= border)[:, None] != (torch.arange(links.n) >= border)[None]
    return allowed


def _shortlist(on: LinksOn, block: Tensor, allowed: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Rows and candidates, sorted by both."""
    size = max(SHORT, 5 * k)
    if allowed.shape[1] <= 3 * size:
        return _places(allowed)
    chosen = torch.zeros_like(allowed)
    for scores in _quick(on, block):
        best = scores.masked_fill_(~allowed, -torch.inf).topk(size, dim=1).indices
        chosen.scatter_(1, best, True)
    return _places(chosen & allowed)


def _places(marks: Tensor) -> tuple[Tensor, Tensor]:
    row, column = marks.nonzero().T
    return row, column


def _quick(on: LinksOn, block: Tensor) -> Iterator[Tensor]:
    """Scores of whole rows ``[b, n]``, one way after another."""
    features, n = on.features, on.links.n
    S, walk = features.operator.matrix, torch.zeros(n, len(block))
    walk[block, torch.arange(len(block))] = 1
    total = torch.zeros(n, len(block))
    for step in range(1, STEPS + 1):
        walk = S @ walk
        total.add_(walk, alpha=TELEPORT * (1 - TELEPORT) ** step)
    yield (total * features.degree[:, None].sqrt()).T.contiguous()
    del walk, total
    vectors, values = features.spectrum
    yield (vectors[block] * values) @ vectors.T
    if on.model.ridge is not None:
        yield on.model.ridge.rows(on.hops, block)
    yield features.degree.expand(len(block), -1).clone()
