"""Rows set apart: for validation where a user names none, and as the folds of cross-validation."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph
from rapgnn.graph.labels import split_rows

FOLDS = 10


def hold_out(graph: Graph, seed: int, share: float = 0.2) -> Graph:
    """The graph with a share of its training rows set apart for validation, where it has no validation rows."""
    if len(graph.val):
        return graph
    masked = torch.full_like(graph.y, -1) if graph.y.dim() == 1 else torch.full_like(graph.y, float("nan"))
    masked[graph.train] = graph.y[graph.train]
    train, val, _ = (torch.from_numpy(part) for part in split_rows(masked, seed, (share, 0.0)))
    if not len(val):
        return graph
    note = f"no validation rows were given: {len(val)} of the {len(graph.train)} training rows serve, seed {seed}."
    return replace(graph, train=train, val=val, notes=(*graph.notes, note))


def split_per_class(y: np.ndarray, train: float | int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training rows per class, a number or a share; the rest is halved, validation at most 500."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    chosen = []
    for label in np.unique(y):
        mine = order[y[order] == label]
        chosen.append(mine[: train if isinstance(train, int) else max(1, round(train * len(mine)))])
    picked = np.concatenate(chosen)
    rest = order[~np.isin(order, picked)]
    val = min(500, len(rest) // 2)
    return picked, rest[:val], rest[val:]


def split_blocks(blocks: np.ndarray, shares: tuple[float, float] = (0.6, 0.8)) -> tuple[np.ndarray, ...]:
    """Training, validation and test rows in the order of their blocks ``[rows]``, numbers from 0; blocks stay whole."""
    counts = np.bincount(blocks)
    middle = (np.cumsum(counts) - counts / 2) / len(blocks)
    part = np.searchsorted(shares, middle, side="right")[blocks]
    return tuple(np.flatnonzero(part == number) for number in range(3))


def make_folds(graph: Graph, seed: int, count: int = FOLDS) -> list[Tensor]:
    """The labelled rows in ``count`` parts, every class in proportion."""
    from sklearn.model_selection import KFold, StratifiedKFold

    y = graph.y.cpu()
    known = torch.cat([graph.train, graph.val, graph.test]).cpu().sort().values.numpy()
    classes = y[torch.from_numpy(known)].numpy() if y.dim() == 1 else None
    least = len(known) if classes is None else int(np.unique(classes, return_counts=True)[1].min())
    if least < count:
        raise InputError(f"{count}-fold cross-validation needs {count} graphs of every class, the rarest has {least}.")
    splitter = (StratifiedKFold if classes is not None else KFold)(count, shuffle=True, random_state=seed)
    parts = splitter.split(known, classes)
    return [torch.from_numpy(known[held_out]).to(graph.y.device) for _, held_out in parts]
