"""What a random search does round after round: points at random, points near the best, further seeds for the best."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from rapgnn.estimators.start import MANY_GRAPHS
from rapgnn.experiments.tune.lines import Lines, ranked
from rapgnn.experiments.tune.searches import Search, earlier_points
from rapgnn.graph.graph import Graph


@dataclass(frozen=True)
class Round:
    """The ``best`` trials so far are run on ``seeds`` further seeds, until the best have them all."""

    best: int
    seeds: int


RANDOM = 0.5  # share of the trials that are drawn at random; the others are near the best of those before
GENERATIONS, PARENTS = 2, 4  # of the others: how often the best are looked at, and how many are gone on from
# After the trials' own seeds. A cross-validation is ten trainings already.
ROUNDS = {"nodes": (Round(8, 3), Round(3, 10)), "folds": (), "graphs": (Round(3, 2),)}

Task = tuple[int, int, dict[str, Any]]  # trial, seed, settings


def work(search: Search, lines: Lines, trials: int, seeds: int, graph: Graph) -> Iterator[list[Task]]:
    """What is left to do, round after round."""
    higher, first = graph.objective.higher, math.ceil(RANDOM * trials)
    ends = [first + (trials - first) * (g + 1) // GENERATIONS for g in range(GENERATIONS)]
    points = {t: lines.settings(t) or search.settings(t) for t in range(first)}
    points |= {trials + i: settings for i, settings in enumerate(earlier_points(search))}
    yield _missing(lines, points, range(seeds))
    for start, end in pairwise([first, *ends]):
        best = ranked(lines, range(start), higher)[:PARENTS]
        for t in range(start, end):
            points[t] = lines.settings(t) or search.settings(t, points[best[t % len(best)]] if best else None)
        yield _missing(lines, {t: points[t] for t in range(start, end)}, range(seeds))
    wanted = seeds
    for one in rounds_for(graph):
        wanted += one.seeds
        # A mean over few seeds may be luck: whoever is among the best must have as many seeds as the others there.
        while left := _missing(lines, {t: points[t] for t in ranked(lines, points, higher)[: one.best]}, range(wanted)):
            yield left


def _missing(lines: Lines, points: dict[int, dict[str, Any]], seeds: Iterable[int]) -> list[Task]:
    seeds = list(seeds)
    return [(t, s, settings) for t, settings in points.items() for s in seeds if (t, s) not in lines.found]


def rounds_for(graph: Graph) -> tuple[Round, ...]:
    """The further rounds that suit a graph; none where one training is long."""
    if len(graph.train) > MANY_GRAPHS:
        return ()
    return ROUNDS["nodes" if graph.ptr is None else "folds" if graph.folds else "graphs"]
