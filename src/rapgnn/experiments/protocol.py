"""Cross-validation of graph datasets: the paper's protocol, and a stricter one beside it.

The paper's (Xu et al., 2019): ten stratified folds, each held out once; the epoch whose accuracy, averaged over the
held-out folds, is best, and mean and standard deviation over the folds at that epoch. The held-out folds choose the
epoch they are judged at, so the figure is optimistic.

The strict one: each fold is the test set once, the next one validates and chooses the epoch, the other eight train.
Settings found by a search that used the same folds have still seen every label.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph
from rapgnn.graph.splits import make_folds


def paper_folds(graph: Graph, seed: int) -> Iterator[Graph]:
    """Each fold validates once, and there is no test set."""
    folds = make_folds(graph, seed)
    for i, fold in enumerate(folds):
        yield replace(graph, train=_join(folds, {i}), val=fold, test=fold[:0])


def strict_folds(graph: Graph, seed: int) -> Iterator[Graph]:
    """Each fold is the test set once; the next one validates."""
    folds = make_folds(graph, seed)
    for i, fold in enumerate(folds):
        after = (i + 1) % len(folds)
        yield replace(graph, train=_join(folds, {i, after}), val=folds[after], test=fold)


def at_best_mean_epoch(histories: list[list[float]], higher: bool = True) -> tuple[int, list[float]]:
    """The epoch whose mean over the runs is best, and every run's value there.

    A run that stopped early counts with its last value.
    """
    if not all(histories):
        raise InputError("there is no epoch to choose: a run had none.")
    longest = max(len(history) for history in histories)
    curves = np.array([history + history[-1:] * (longest - len(history)) for history in histories])
    means = np.nan_to_num(curves.mean(axis=0), nan=-np.inf if higher else np.inf)  # a diverged run cannot be best
    best = int(means.argmax() if higher else means.argmin())
    return best, curves[:, best].tolist()


def _join(folds: list[Tensor], without: set[int]) -> Tensor:
    return torch.cat([fold for i, fold in enumerate(folds) if i not in without]).sort().values
