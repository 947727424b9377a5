"""Links that are held out, at random or by time, and pairs without a link to tell them from."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from rapgnn.errors import InputError
from rapgnn.pairs.links import Links

TRIES = 20  # rounds of drawing, after which a graph has hardly any pair without a link


def held_out(count: int, share: float, time: np.ndarray | None, seed: int, most: int = 1 << 20) -> np.ndarray:
    """Which of ``count`` links are held out: the latest, or some at random."""
    size = min(int(share * count), most)
    mask = np.zeros(count, dtype=bool)
    if time is None:
        mask[np.random.default_rng(seed).permutation(count)[:size]] = True
        return mask
    if len(time) != count:
        raise InputError(f"there are {count} links but {len(time)} times.")
    mask[np.argsort(time, kind="stable")[count - size :]] = True  # by rank: many may share the latest time
    return mask


def folds(count: int, parts: int, most: int, seed: int) -> np.ndarray:
    """The fold of each link; -1 where more than ``most`` are there: such links always stay in the graph."""
    order = np.random.default_rng(seed).permutation(count)
    fold = np.full(count, -1)
    chosen = order[:most]
    fold[chosen] = np.arange(len(chosen)) % parts
    return fold


def _ends(links: Links, count: int, draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    low, high = links.sides
    return draw.integers(*low, count), draw.integers(*high, count)


def _random(links: Links, count: int, draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return _ends(links, count, draw)


def _popular(links: Links, count: int, draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Both ends as often as they have links."""
    u, v = (links.ends[:, side].numpy()[draw.integers(len(links.ends), size=count)] for side in (0, 1))
    return u, v


def _one_end(links: Links, count: int, draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """One end as often as it has links, the other any node: what a recommendation chooses from."""
    u, v = _popular(links, count, draw)
    a, b = _ends(links, count, draw)
    first = draw.random(count) < 0.5
    return np.where(first, u, a), np.where(first, b, v)


def _near(links: Links, count: int, draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Ends of short random walks: pairs with much personalised PageRank, as in HeaRT (Li et al., 2023)."""
    A, degree = links.both, np.diff(links.both.indptr)
    start = links.ends.numpy()[draw.integers(len(links.ends), size=count), draw.integers(2, size=count)]
    steps = 3 if links.bipartite else 2 + draw.integers(2, size=count)
    end = start
    for step in range(3):
        following = A.indices[A.indptr[end] + (draw.random(count) * degree[end]).astype(np.int64)]
        end = np.where(step < steps, following, end)
    swap = end < start if links.bipartite else np.zeros(count, dtype=bool)
    return np.where(swap, end, start), np.where(swap, start, end)


NEGATIVES: dict[str, tuple[tuple[Callable[..., tuple[np.ndarray, np.ndarray]], float], ...]] = {
    "random": ((_random, 1.0),),
    "hard": ((_near, 1.0),),
    "mixed": ((_random, 0.5), (_one_end, 0.3), (_near, 0.2)),
}
"""Ways to draw pairs without a link by name: what each draws, and its share."""


def negatives(links: Links, count: int, kind: str, seed: int) -> Tensor:
    """About ``count`` different pairs that are no links, fewer where there are not as many."""
    parts, draw = [], np.random.default_rng(seed)
    if not len(links.ends) or links.n < 2:
        return torch.zeros(0, 2, dtype=torch.int64)
    for way, share in NEGATIVES[kind]:
        size, drawn = round(share * count), torch.zeros(0, 2, dtype=torch.int64)
        for _ in range(TRIES):
            if len(drawn) >= size:
                break
            ends = way(links, max(64, size - len(drawn)), draw)
            pairs = links.ordered(torch.from_numpy(np.stack(ends, 1).astype(np.int64)))
            pairs = pairs[(pairs[:, 0] != pairs[:, 1]) & ~links.contains(pairs)]
            key = np.concatenate([links.key(drawn).numpy(), links.key(pairs).numpy()])
            _, first = np.unique(key, return_index=True)
            drawn = torch.cat([drawn, pairs])[torch.from_numpy(np.sort(first))]
        parts.append(drawn[:size])
    return torch.cat(parts)
