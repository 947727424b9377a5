"""What the paper's ranges can reach: RAP-GNN's recorded trials with the test rows choosing, no result but a bound.

    python -m rapgnn_lab.tune.reachable cora --best 10   # results/tune/faithful-trials.json.gz -> reachable.json

Of each search the best trials by validation are scored on the test rows with the first two seeds, and the best of these
with all five. A trial that has test values is not run again, so the command goes on where it was stopped.
"""

import statistics
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rapgnn import Graph, load_dataset
from rapgnn.compare import Record, run
from rapgnn.network.encode import EMBEDDINGS
from rapgnn.search.start import start_config
from rapgnn_lab.results import one_sentence, results_folder
from rapgnn_lab.store import is_regular, read_records, write_json
from rapgnn_lab.tuned import FAITHFUL, LOWER_IS_BETTER, REACHABLE

TRIALS, CHOSEN = "faithful-trials.json.gz", "reachable.json"
FIRST, ALL = (0, 1), (0, 1, 2, 3, 4)  # seeds: of every trial, and of the best, as in the tables
Trial = dict[str, Any]


def trials_of(searches: Sequence[Record], dataset: str) -> list[Trial]:
    """RAP-GNN's trials that ended, with an embedding that is the paper's, each with the name of its search."""
    mine = [s for s in searches if s["search"].startswith(f"{dataset}-rap")]
    trials = [trial | {"search": s["search"], "own": trial} for s in mine for trial in s["trials"]]
    before = [t for t in trials if EMBEDDINGS[t["settings"]["embedding"]].trained == "before"]
    return [t for t in before if None not in t["values"].values()]


def best_of(trials: Sequence[Trial], key: str, count: int, higher: bool) -> list[Trial]:
    """The best trials by their mean over the seeds, of validation (``values``) or of the test rows (``test``)."""
    return sorted(trials, key=lambda t: statistics.fmean(t[key].values()), reverse=higher)[:count]


def choose(searches: Sequence[Record], dataset: str, metric: str) -> Record | None:
    """The trial with the best test mean of those with the most seeds; None where none was scored."""
    scored = [t for t in trials_of(searches, dataset) if t.get("test")]
    if not scored:
        return None
    most = max(len(t["test"]) for t in scored)
    (best,) = best_of([t for t in scored if len(t["test"]) == most], "test", 1, metric not in LOWER_IS_BETTER)
    record = {"dataset": dataset, "method": "rap", "embedding": best["settings"]["embedding"], "space": FAITHFUL}
    record |= {"column": REACHABLE, "metric": metric, "search": best["search"], "trial": best["trial"]}
    record |= {"val_mean": statistics.fmean(best["values"].values()), "test_values": list(best["test"].values())}
    return record | {"trials": len(scored), "settings": best["settings"]}


def score(graph: Graph, searches: Sequence[Record], best: int, finalists: int, stored: Callable[[], None]) -> None:
    """Give trials their test values by seed: the best of each search, then the best of all; ``stored`` after each."""
    higher, trials = graph.objective.higher, trials_of(searches, graph.name)

    def run_on(some: Sequence[Trial], seeds: Sequence[int]) -> None:
        for trial in some:
            test = trial["own"].setdefault("test", {})
            missing = [seed for seed in seeds if str(seed) not in test]
            if missing:
                values = run("rap", graph, start_config(graph).update(**trial["settings"]), missing)["values"]
                test |= dict(zip(map(str, missing), values, strict=True))
                stored()

    for name in dict.fromkeys(t["search"] for t in trials):
        run_on(best_of([t for t in trials if t["search"] == name], "values", best, higher), FIRST)
    # By the first seeds alone, so that the same trials are chosen when the command goes on.
    tests = [{k: v for k, v in t["own"].get("test", {}).items() if int(k) in FIRST} for t in trials]
    scored = [t | {"test": test} for t, test in zip(trials, tests, strict=True) if test]
    run_on(best_of(scored, "test", finalists, higher), ALL)


@one_sentence
def main(words: Sequence[str] | None = None) -> int:
    parser = ArgumentParser(prog="python -m rapgnn_lab.tune.reachable", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--best", type=int, default=10, help="of each search, by validation (default: 10)")
    parser.add_argument("--finalists", type=int, default=5, help="by the test rows, for all five seeds (default: 5)")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--root", type=Path, default=Path(), help="the repository (default: this folder)")
    given = parser.parse_args(words)
    folder = results_folder(given.root) / "tune"
    searches = read_records(folder / TRIALS)
    chosen = {r["dataset"]: r for r in (read_records(folder / CHOSEN) if is_regular(folder / CHOSEN) else [])}
    for name in given.datasets:
        graph = load_dataset(name, given.data_dir)
        score(graph, searches, given.best, given.finalists, lambda: write_json(folder / TRIALS, searches))
        record = choose(searches, name, graph.objective.chosen_by)
        chosen |= {name: record} if record else {}
        write_json(folder / CHOSEN, list(chosen.values()))
        print(f"{name}: {graph.objective.show(statistics.fmean(record['test_values']))}" if record else f"{name}: none")
    return 0


if __name__ == "__main__":
    sys.exit(main())
