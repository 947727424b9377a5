"""Published datasets, with their own split or one by chance."""

from dataclasses import replace

import torch

from rapgnn.datasets import load_dataset
from rapgnn.graph.graph import Graph
from rapgnn.graph.splits import make_folds, split_rows

FOLDS = 5


def published(name: str) -> Graph:
    """With the split it is published with."""
    return load_dataset(name)


def divided(name: str, seed: int = 0) -> Graph:
    """60, 20 and 20 percent of the nodes by chance, every class in proportion."""
    graph = load_dataset(name)
    train, val, test = (torch.from_numpy(part) for part in split_rows(graph.y, seed, (0.2, 0.2)))
    return replace(graph, name=f"{name}-60", train=train, val=val, test=test)


def fold(name: str, k: int, seed: int = 0) -> Graph:
    """One fold is tested, the next one validates, the others train: no graph serves twice."""
    graph = load_dataset(name)
    parts = make_folds(graph, seed, FOLDS)
    rest = [part for i, part in enumerate(parts) if i not in (k, (k + 1) % FOLDS)]
    return replace(
        graph, train=torch.cat(rest).sort().values, val=parts[(k + 1) % FOLDS], test=parts[k], name=f"{name}, fold {k}"
    )
