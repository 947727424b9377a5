"""Rows set apart: for validation where a user names none, and as the folds of cross-validation."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph
from rapgnn.graph.labels import UNKNOWN, split_rows

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


def of_seen_classes(graph: Graph) -> tuple[Graph, Tensor | None]:
    """The graph with the classes that training rows have, and their numbers; None: these are all.

    A class that only held-out rows have is no part of the training: it would move what is said of other rows.
    """
    if graph.y.dim() == 2 or graph.objective.metric == "rmse" or not len(graph.train):
        return graph, None
    seen = graph.y[graph.train].unique()
    if not 1 < len(seen) < graph.num_outputs:
        return graph, None
    place = torch.full((graph.num_outputs + 1,), UNKNOWN, device=graph.y.device)  # the last for rows without a label
    place[seen] = torch.arange(len(seen), device=graph.y.device)
    y, names = place[graph.y], graph.classes or tuple(range(graph.num_outputs))
    rows = {split: graph.rows(split)[y[graph.rows(split)] >= 0] for split in ("val", "test")}
    return replace(graph, y=y, num_outputs=len(seen), classes=tuple(names[c] for c in seen.tolist()), **rows), seen


def with_all_classes(graph: Graph, whole: Graph) -> Graph:
    """What ``of_seen_classes`` made, after training, with all classes and held-out rows of the graph it came from."""
    val = torch.cat([graph.val, whole.val.to(graph.val)]).unique()
    labels = {"y": whole.y.to(graph.y), "num_outputs": whole.num_outputs, "classes": whole.classes}
    return replace(graph, **labels, val=val, test=whole.test.to(graph.test))


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
