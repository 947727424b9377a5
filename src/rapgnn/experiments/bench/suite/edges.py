"""What the generators of graphs have in common: drawing the ends of edges, and dividing rows."""

from typing import Any

import numpy as np
import torch

from rapgnn.graph.splits import split_rows

Rows = tuple[Any, Any, Any]


def both_ways(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Every pair once in each direction, ``[2, m]``; self-loops and repeated pairs are left out."""
    low, high = np.minimum(source, target), np.maximum(source, target)
    pairs = np.unique(np.stack([low, high])[:, low != high], axis=1)
    return np.concatenate([pairs, pairs[::-1]], axis=1).astype(np.int64)


def pick_members(rng: np.random.Generator, group: np.ndarray, wanted: np.ndarray, fame: np.ndarray) -> np.ndarray:
    """For every wanted group one of its members, by chance in proportion to fame."""
    order = np.argsort(group, kind="stable")
    share = np.cumsum(fame[order])
    first = np.searchsorted(group[order], wanted)
    last = np.searchsorted(group[order], wanted, side="right")
    low = np.where(first > 0, share[first - 1], 0.0)
    at = low + rng.random(len(wanted)) * (share[last - 1] - low)
    return order[np.clip(np.searchsorted(share, at, side="right"), first, last - 1)]


def by_shares(y: np.ndarray, val: float = 0.2, test: float = 0.2, seed: int = 0) -> Rows:
    """Training, validation and test rows by chance, every class in proportion."""
    return split_rows(torch.from_numpy(y), seed, (val, test))


def top_share(score: np.ndarray, share: float) -> np.ndarray:
    """1 for the rows with the highest scores, 0 for the others."""
    return (score > np.quantile(score, 1.0 - share)).astype(np.int64)


def standardized(x: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and standard deviation 1."""
    return (x - x.mean(0)) / np.maximum(x.std(0), 1e-12)
