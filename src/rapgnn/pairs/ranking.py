"""The likeliest new links of some nodes, without scoring all pairs."""

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rapgnn.pairs.features import TELEPORT
from rapgnn.pairs.links import Links
from rapgnn.pairs.model import LinksOn

ROW_BYTES = 1 << 27  # of rows nodes × n that live at once
AT_ONCE = 2048  # nodes whose candidates are described at once, as the hops of that are the same for all
SHORT = 100  # candidates by each of the quick scores, at least
STEPS = 3  # of the walks that suggest candidates


def ranked(on: LinksOn, nodes: Tensor, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Node, neighbour and probability of the best k for each of the nodes, one after another.

    Quick scores of whole rows suggest candidates: personalised PageRank, the leading part of S, the bilinear form of
    the features, the degree. The model ranks these.
    """
    width, parts = max(1, ROW_BYTES // (4 * max(1, on.links.n))), list[tuple[np.ndarray, np.ndarray, np.ndarray]]()
    for some in nodes.split(AT_ONCE):
        lists, begun = [], 0
        for block in some.split(width):
            row, candidate = _shortlist(on, block, k)
            lists.append(torch.stack([row + begun, candidate], 1))
            begun += len(block)
        row, candidate = torch.cat(lists).T
        score = on.probabilities(torch.stack([some[row], candidate], 1))
        order = np.lexsort((candidate.numpy(), -score.numpy(), row.numpy()))
        row, candidate, score = row.numpy()[order], candidate.numpy()[order], score.numpy()[order]
        best = np.arange(len(row)) - np.searchsorted(row, row) < k
        parts.append((some.numpy()[row[best]], candidate[best], score[best]))
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


def _shortlist(on: LinksOn, block: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Rows and candidates, sorted by both."""
    size, allowed = max(SHORT, 5 * k), allowed_rows(on.links, block)
    if allowed.shape[1] > 3 * size:
        chosen = torch.zeros_like(allowed)
        for scores in _quick(on, block):
            best = scores.masked_fill_(~allowed, -torch.inf).topk(size, dim=1).indices
            chosen.scatter_(1, best, True)
        enough = size + int((~allowed).sum(1).max())  # so many have as many among them that are allowed
        popular = on.features.degree.argsort(descending=True)[:enough]
        fresh = allowed[:, popular]
        chosen[:, popular] |= fresh & (fresh.cumsum(1, dtype=torch.int32) <= size)
        allowed &= chosen
    row, column = allowed.nonzero().T
    return row, column


def _quick(on: LinksOn, block: Tensor) -> Iterator[Tensor]:
    """Scores of whole rows ``[b, n]``, one way after another."""
    features = on.features
    S, total = features.operator.matrix.scipy(), sp.csr_matrix((len(block), on.links.n), dtype=np.float32)
    walk = sp.csr_matrix((np.ones(len(block), np.float32), (range(len(block)), block.numpy())), total.shape)
    for step in range(1, STEPS + 1):
        walk = walk @ S
        total += TELEPORT * (1 - TELEPORT) ** step * walk
    yield torch.from_numpy(total.toarray()) * features.degree.sqrt()
    vectors, values = features.spectrum
    yield (vectors[block] * values) @ vectors.T
    if on.model.ridge is not None:
        left, right = on.bilinear
        yield left[block] @ right.T
