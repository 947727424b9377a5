"""Choose among the best trials of several searches for one method, on validation alone.

    python -m rapgnn.experiments.tune.choose DATASET METHOD EMBEDDING [--trials FILE ...]
        [--top N] [--seeds N] [--out FILE]

FILE: a SQLite file of ``rapgnn tune``, or its trials as .json.gz (results/tune/trials.json.gz if none is named). The
best trials are run on further seeds; the best mean of the search's value and theirs is chosen. Of those that are as
good within ``TIE`` the one with the fewest channels is taken. Without further seeds the best trial is taken as it is.
"""

import gzip
import json
import statistics
import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from pathlib import Path

from rapgnn.datasets import load_dataset
from rapgnn.errors import InputError, check_choice
from rapgnn.estimators.start import start_config
from rapgnn.experiments.results import one_sentence
from rapgnn.experiments.run import Record, run
from rapgnn.experiments.tune.study import trial_records
from rapgnn.experiments.tune.trials import CONFIRM_SEED
from rapgnn.files import write_atomic
from rapgnn.graph.graph import Graph
from rapgnn.layers.embedding import EMBEDDINGS
from rapgnn.training.methods import METHODS, STRATEGIES

TIE = 0.002
TRIALS = Path("results/tune/trials.json.gz")


def read_trials(files: Iterable[Path], dataset: str, method: str, space: str | None = None) -> list[Record]:
    """The finished trials of every search for a method on a dataset, or of those in one space."""
    found = []
    for file in files:
        if not file.is_file():
            raise InputError(f"there is no file of trials {file}: name one that rapgnn tune wrote.")
        zipped = file.name.endswith(".json.gz")
        trials = json.loads(gzip.decompress(file.read_bytes())) if zipped else trial_records(file)
        of = f"{dataset}/{method}/"  # how every search's name begins
        found += [t for t in trials if t["state"] == "COMPLETE" and t["study"].startswith(of)]
    return [t for t in found if space is None or t["study"].split("/")[3] == space]


def rank_trials(trials: Iterable[Record], embedding: str, higher: bool) -> list[Record]:
    """The trials with an embedding, best first; of several with the same settings the last one counts."""
    given = [t for t in trials if t["settings"]["embedding"] == embedding]
    different = {json.dumps(t["settings"], sort_keys=True): t for t in given}
    return sorted(different.values(), key=lambda t: -t["value"] if higher else t["value"])


def decide(candidates: Sequence[Record], higher: bool) -> Record:
    """The candidate with the best mean; among those within ``TIE`` of it the narrowest."""
    sign = 1 if higher else -1
    most = max(sign * c["val_mean"] for c in candidates)
    equal = [c for c in candidates if sign * c["val_mean"] >= most - TIE]
    return min(equal, key=lambda c: (c["settings"].get("hidden_channels", 0), -sign * c["val_mean"]))


def choose(graph: Graph, method: str, embedding: str, trials: Sequence[Record], top: int = 4, seeds: int = 3) -> Record:
    """A record for results/tune, which ``collect`` gathers.

    Args:
        trials: of searches for this method on this dataset.
        top: how many of the best are candidates.
        seeds: how many further seeds each is run on.
    """
    check_choice("method", method, STRATEGIES)
    check_choice("embedding", embedding, EMBEDDINGS)
    if top < 1 or seeds < 0:
        raise InputError(f"top must be at least 1 and seeds not negative, got {top} and {seeds}.")
    ranked = rank_trials(trials, embedding, graph.objective.higher)
    if not ranked:
        raise InputError(f"no trial of {method} on {graph.name} has the embedding {embedding}: search it first.")
    base, candidates = start_config(graph, METHODS[method].trained), []
    for trial in ranked[: top if seeds else 1]:
        values = [trial["value"]]
        if seeds:
            again = range(CONFIRM_SEED, CONFIRM_SEED + seeds)
            config = base.update(**trial["settings"])
            values += run(method, graph, config, again, splits=("val",))["val_values"]
        candidates.append({"val_mean": statistics.fmean(values), "val_values": values, "settings": trial["settings"]})
    record = {"dataset": graph.name, "method": method, "embedding": embedding, "space": "wide"}
    return (
        record | {"trials": len(ranked), "metric": graph.objective.metric} | decide(candidates, graph.objective.higher)
    )


@one_sentence
def main(words: Sequence[str] | None = None) -> int:
    """The command."""
    parser = ArgumentParser(prog="python -m rapgnn.experiments.tune.choose", description=(__doc__ or "").split("\n")[0])
    for name in ("dataset", "method", "embedding"):
        parser.add_argument(name)
    parser.add_argument("--trials", type=Path, nargs="+", default=[TRIALS], metavar="FILE")
    parser.add_argument("--top", type=int, default=4, help="candidates (default: 4)")
    parser.add_argument("--seeds", type=int, default=3, help="further seeds; 0 takes the best trial (default: 3)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write the record; else it is printed")
    given = parser.parse_args(words)
    trials = read_trials(given.trials, given.dataset, given.method)
    graph = load_dataset(given.dataset)
    text = json.dumps([choose(graph, given.method, given.embedding, trials, given.top, given.seeds)], indent=1)
    if given.out is None:
        print(text)
    else:
        write_atomic(given.out, lambda temporary: temporary.write_text(text + "\n", encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
