"""Random search: points of a space, half of them drawn at random and half near the best so far; the best of all are
tried on further seeds.

    python -m rapgnn.experiments.tune.random_search DATASET METHOD [DATASET METHOD ...]
        [--space faithful] [--trials 50] [--seeds 2] [--jobs 1] [--device cpu] [--out tune]

METHOD/EMBEDDING searches a method with another embedding than the paper's usual one. Every method has the same number
of trials and of seeds. A search takes the same points wherever it runs and whenever it was stopped. Only validation
rows are looked at. The values are written to OUT/DATASET-METHOD.jsonl, a line each; a search that was stopped goes on
after the last of them.

Noise must not choose: the best trials are run on further seeds, round after round, fewer trials with more seeds each
time, and the mean over all seeds decides.
"""

import json
import os
import statistics
import sys
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import torch

from rapgnn.errors import InputError, check_choice
from rapgnn.experiments.results import one_sentence
from rapgnn.experiments.run import Record
from rapgnn.experiments.tune.faithful import VARIANTS
from rapgnn.experiments.tune.lines import Lines, ranked
from rapgnn.experiments.tune.rounds import Task, work
from rapgnn.experiments.tune.searches import Search, earlier_points, earlier_trials, graph_of
from rapgnn.experiments.tune.space import FAITHFUL
from rapgnn.files import write_atomic
from rapgnn.layers.embedding import EMBEDDINGS
from rapgnn.training.methods import STRATEGIES


def choose(lines: Lines, search: Search, seeds: int) -> Record:
    """The trial that the last round chose, for results/tune."""
    graph = graph_of(search.dataset, search.data_dir, "cpu")
    higher, competing = graph.objective.higher, len(earlier_points(search))
    tried = {trial: len(lines.values(trial)) for trial, _ in lines.found}
    last = [trial for trial, count in tried.items() if count == max(tried.values())]
    best = ranked(lines, last, higher)[:1]
    if not best:
        raise InputError(f"not one trial of {search.method} on {search.dataset} could run.")
    values, settings = lines.values(best[0]), lines.settings(best[0]) or {}
    return {
        "dataset": search.dataset,
        "method": search.method,
        "embedding": search.embedding or settings["embedding"],
        "space": search.space,
        "metric": graph.objective.metric,
        "trial": best[0],
        "val_mean": statistics.fmean(values),
        "val_values": values,
        "trials": len({trial for trial, _ in lines.found}) - competing,
        "earlier_trials": len(earlier_trials(search)),
        "seeds": seeds,
        "settings": settings,
    }


def _measure(search: Search, task: Task, threads: int | None) -> Record:
    if threads is not None:
        torch.set_num_threads(threads)
    return search.measure(*task)


def run_searches(
    searches: Sequence[Search],
    out: Path,
    trials: int,
    seeds: int,
    jobs: int = 1,
    threads: int | None = None,
    until: float | None = None,
) -> bool:
    """Run the searches, ``jobs`` trainings at a time in processes of their own; whether all came to their end.

    Args:
        threads: of a training; None shares the processors among them.
        until: the time to stop at.
    """
    stages = [_Stages(search, out, trials, seeds) for search in searches]
    if jobs == 1:
        return all(_one_by_one(stage, threads, until) for stage in stages)
    threads, running = threads or max(1, (os.cpu_count() or 1) // jobs), {}
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))

    def submit(stage: _Stages) -> None:
        for task in stage.next_round():
            running[pool.submit(_measure, stage.search, task, threads)] = stage

    try:
        for stage in stages:
            submit(stage)
        while running and not _late(until):
            done = next(as_completed(running))
            stage = running.pop(done)
            stage.take(done.result())
            if not stage.left:
                submit(stage)
    finally:
        workers = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers if running else ():  # what they are at is given up
            worker.kill()
    return not running


def _one_by_one(stage: "_Stages", threads: int | None, until: float | None) -> bool:
    while tasks := stage.next_round():
        for task in tasks:
            if _late(until):
                return False
            stage.take(_measure(stage.search, task, threads))
    return True


def _late(until: float | None) -> bool:
    return until is not None and time.time() > until


class _Stages:
    """A search on its way through the rounds."""

    def __init__(self, search: Search, out: Path, trials: int, seeds: int):
        self.search, self.lines = search, Lines(out / f"{search.name}.jsonl")
        graph = graph_of(search.dataset, search.data_dir, "cpu")
        self._rounds = work(search, self.lines, trials, seeds, graph)
        self.left = 0

    def next_round(self) -> list[Task]:
        """The next measurements; none when the search is at its end."""
        for round_ in self._rounds:
            if round_:
                self.left = len(round_)
                return round_
        return []

    def take(self, record: Record) -> None:
        self.lines.add(record)
        self.left -= 1
        value = record["value"]
        shown = "refused" if value is None else f"{value:.4f}"
        print(f"{self.search.name} trial {record['trial']} seed {record['seed']}: {shown}")
        sys.stdout.flush()


@one_sentence
def main(words: Sequence[str] | None = None) -> int:
    """The command."""
    parser = ArgumentParser(
        prog="python -m rapgnn.experiments.tune.random_search", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("pairs", nargs="+", metavar="DATASET METHOD")
    parser.add_argument("--space", default=FAITHFUL)
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=2, help="of every trial (default: 2)")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time (default: 1)")
    parser.add_argument("--threads", type=int, help="of a training (default: the processors' share)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--minutes", type=float, help="stop after so long; a later run goes on")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("tune"), help="the folder of the lines (default: tune)")
    given = parser.parse_args(words)
    if len(given.pairs) % 2:
        raise InputError("name pairs of a dataset and a method: cora rap cora end-to-end.")
    searches = []
    for dataset, method in zip(given.pairs[::2], given.pairs[1::2], strict=True):
        method, _, embedding = method.partition("/")
        check_choice("method", method, STRATEGIES)
        if embedding:
            check_choice("embedding", embedding, [*EMBEDDINGS, *VARIANTS])
        searches.append(Search(dataset, method, embedding or None, given.space, given.device, given.data_dir))
    until = None if given.minutes is None else time.time() + 60 * given.minutes
    if not run_searches(searches, given.out, given.trials, given.seeds, given.jobs, given.threads, until):
        print("stopped; the same command goes on from here.", file=sys.stderr)
        return 1
    for search in searches:
        lines = Lines(given.out / f"{search.name}.jsonl")
        text = json.dumps([choose(lines, search, given.seeds)], indent=1) + "\n"
        path = given.out / f"{search.name}.json"
        write_atomic(path, lambda temporary, text=text: temporary.write_text(text, encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
