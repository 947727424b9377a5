"""Which of the candidates are averaged: the best one, and those that the average gains by."""

import torch
from torch import Tensor

from rapgnn.estimators.judge import Judge, Verdict
from rapgnn.training.averaged import scores_of

MOST, POOL = 8, 16  # members of an average, and how many of the best may be among them
SIZES = (1, 2, 3, 4, 6, 8)
CLEAR = 2.0  # standard errors of a difference that is not chance


def ranked(seen: list[Verdict], by_metric: bool) -> list[Verdict]:
    """Best first, by the metric and by the loss together; the metric alone where the user's own decides."""
    by_merit = sorted(range(len(seen)), key=lambda i: (-seen[i].order, seen[i].loss))
    by_loss = sorted(range(len(seen)), key=lambda i: seen[i].loss)
    place = {i: by_merit.index(i) + (0 if by_metric else by_loss.index(i)) for i in range(len(seen))}
    return [seen[i] for i in sorted(place, key=lambda i: (place[i], i))]


def chosen_members(seen: list[Verdict], judge: Judge, by_metric: bool) -> list[Verdict]:
    """The members of the average.

    The best is the first, and each further one is the one of the best sixteen that the average gains the most by: what
    is alike adds little to an average (Caruana et al., 2004). They are as many as give the lowest loss together,
    and more, as long as the rows that judge cannot tell the larger average from the best one: few rows choose by
    chance, and a larger average depends less on it. Where the user's own metric decides, they are taken in its order,
    as many as reach the most of it.
    """
    order = ranked(seen, by_metric)
    best = order[:MOST] if by_metric else _joined_in_turn(order[:POOL], judge)
    sizes = [size for size in SIZES if size <= len(best)]
    told = {size: judge.of(together(best[:size], judge)) for size in sizes}
    if by_metric:
        size = max(sizes, key=lambda s: (told[s][0], -told[s][1], s))
    else:
        lowest = min(sizes, key=lambda s: (told[s][1], -s))
        rows = judge.by_row(together(best[:lowest], judge))
        size = max(s for s in sizes if s == lowest or not _clearly_more(judge.by_row(together(best[:s], judge)), rows))
    return best[:size]


def _joined_in_turn(pool: list[Verdict], judge: Judge) -> list[Verdict]:
    """The first, then each time the one with which the average has the lowest loss; of equal ones the earlier."""
    chosen, rest = pool[:1], pool[1:]
    total = chosen[0].probabilities
    while rest and len(chosen) < MOST:
        count = len(chosen) + 1
        losses = [judge.loss_of(scores_of((total + v.probabilities) / count, judge.objective)) for v in rest]
        joining = rest.pop(min(range(len(rest)), key=losses.__getitem__))
        chosen, total = [*chosen, joining], total + joining.probabilities
    return chosen


def _clearly_more(one: Tensor, other: Tensor) -> bool:
    """Whether losses are larger row by row, by more than twice the standard error of the difference."""
    more = one - other
    error = more.std(correction=0) / max(1, len(more)) ** 0.5
    return float(more.mean()) > CLEAR * float(error)


def together(members: list[Verdict], judge: Judge) -> Tensor:
    """The scores of the mean of what these give for the rows that judge."""
    return scores_of(torch.stack([v.probabilities for v in members]).mean(0), judge.objective)
