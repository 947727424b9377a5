"""Edges that count one way or both ways."""

import numpy as np

ONE_WAY = "edges are taken as listed, one way: directed=False adds the reverse (directed=True keeps them, silently)."


def both_ways(ends: np.ndarray, n: int, directed: bool) -> tuple[np.ndarray, np.ndarray]:
    """The edges with those reversed that are listed in one direction only, and which listed edge each comes from."""
    listed = np.arange(ends.shape[1])
    if directed:
        return ends, listed
    missing = _absent(ends[1] * n + ends[0], ends[0] * n + ends[1])
    return np.concatenate([ends, ends[::-1, missing]], axis=1), np.concatenate([listed, missing])


def only_one_way(ends: np.ndarray, n: int) -> bool:
    """Whether there are edges between different nodes, and none of them is listed in both directions."""
    source, target = ends[:, ends[0] != ends[1]]
    if not len(source):
        return False
    return len(_absent(target * n + source, source * n + target)) == len(source)


def _absent(wanted: np.ndarray, there: np.ndarray) -> np.ndarray:
    """The places of ``wanted`` whose number is not in ``there``; by two sorts, several times faster than np.isin."""
    if not len(wanted):
        return np.zeros(0, dtype=np.int64)
    order, there = np.argsort(wanted), np.sort(there)
    rising = wanted[order]
    place = np.minimum(np.searchsorted(there, rising), len(there) - 1)
    return np.sort(order[there[place] != rising])
