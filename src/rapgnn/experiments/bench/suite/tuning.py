"""The rivals' searches: random points on the validation rows, every trial stored, the best one trained on new seeds.

One file per graph and rival. It is written anew after every trial; a run that was stopped goes on where it ended, and a
search whose graph or space has changed since begins anew.
"""

import hashlib
import json
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rapgnn.experiments.bench.rows import plain
from rapgnn.experiments.bench.suite.registry import SUITE, Entry
from rapgnn.experiments.bench.suite.training import EPOCHS, SPACES, TITLES, Settings, merit, train_rival
from rapgnn.experiments.run import Record
from rapgnn.files import is_regular, write_atomic
from rapgnn.graph.graph import Graph
from rapgnn.versions import hardware, versions

PATIENCE = 40  # epochs without a better validation score after which a trial ends
MARK, LEAST = 50, 5  # a trial that is below the median of at least so many others after so many epochs ends


def rivals_of(entry: Entry) -> list[str]:
    """The rivals that an entry is measured with."""
    return ["gin"] if entry.sets else ["gcn", "appnp", "sage"]


def space_of(entry: Entry, rival: str) -> dict[str, tuple[Any, ...]]:
    """The ranges of a search.

    Where nodes have no features, a column per node may stand in; directed edges may count both ways.
    """
    ids = {} if entry.features or entry.sets else {"ids": (False, True)}
    both = {"both_ways": (False, True)} if entry.directed else {}
    return SPACES[rival] | ids | both


def define(entry: Entry, graphs: Sequence[Graph], rival: str, trials: int, seeds: int) -> str:
    """Eight hexadecimal digits of all that decides a search: the graphs, their splits, the metric, the space."""
    rules = [entry.metric, space_of(entry, rival), trials, seeds, EPOCHS, PATIENCE, MARK, LEAST]
    digest = hashlib.sha256(json.dumps(rules).encode())
    for graph in graphs:
        digest.update(graph.fingerprint().encode() + graph.test.numpy().tobytes())
    return digest.hexdigest()[:8]


def draw_points(space: dict[str, tuple[Any, ...]], trials: int) -> list[Settings]:
    """The same random points for every graph."""
    rng = np.random.default_rng(0)
    return [{key: values[rng.integers(len(values))] for key, values in space.items()} for _ in range(trials)]


def path_of(folder: Path, name: str, rival: str) -> Path:
    """Where a search is stored."""
    return folder / f"{name}-{rival}.json"


def read_search(folder: Path | None, name: str, rival: str, definition: str | None = None) -> Record | None:
    """A stored search, finished or not; None where there is none of this definition."""
    if folder is None or not is_regular(path_of(folder, name, rival)):
        return None
    record = json.loads(path_of(folder, name, rival).read_text(encoding="utf-8"))
    return record if definition in (None, record.get("definition")) else None


def tune(
    name: str,
    entry: Entry,
    rival: str,
    trials: int,
    seeds: int,
    folder: Path | None = None,
    on_trial: Callable[[], None] = lambda: None,
    device: str = "cpu",
) -> Record:
    """Search, then train the best point: with so many seeds, or once per fold. Gives and stores the record.

    Args:
        folder: where searches are stored; None stores nothing.
        on_trial: called after every training, and for every one that was there.
        device: where the rivals are trained.
    """
    graphs = [make() for make in entry.makes]
    definition = define(entry, graphs, rival, trials, seeds)
    record: Record = read_search(folder, name, rival, definition) or {
        "command": " ".join(["rapgnn", *sys.argv[1:]]),
        "dataset": name,
        "rival": rival,
        "title": TITLES[rival],
        "definition": definition,
        "metric": entry.metric,
        "search_trials": trials,
        "epochs": EPOCHS,
        "patience": PATIENCE,
        "splits": [{"trials": [], "final": []} for _ in graphs],
        "device": device,
        "hardware": hardware(device),
        "threads": torch.get_num_threads(),
        "versions": versions(),
        "done": False,
    }

    here = hardware(device)
    if not record["done"] and here not in (record["hardware"], *record.get("resumed_on", [])):
        record["resumed_on"] = [*record.get("resumed_on", []), here]

    def store() -> None:
        on_trial()
        if folder is None:
            return
        text = json.dumps(plain(record | {"date": date.today().isoformat()}), indent=1, allow_nan=False) + "\n"
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path_of(folder, name, rival), lambda temporary: temporary.write_text(text, encoding="utf-8"))

    points = draw_points(space_of(entry, rival), trials)
    once = len(graphs) > 1
    own = _own(graphs[0], device)
    for graph, split in zip(graphs, record["splits"], strict=True):
        for _ in split["trials"]:
            on_trial()
        for point in points[len(split["trials"]) :]:
            split["trials"].append(_trial(rival, graph, entry.metric, point, split["trials"], device))
            store()
        split["chosen"] = _best(entry.metric, graph.task, split["trials"])["settings"]
        for _ in split["final"]:
            on_trial()
        for seed in range(len(split["final"]), 1 if once else seeds):
            run = train_rival(rival, graph, entry.metric, split["chosen"], seed, own=own, device=device)
            split["final"].append({"seed": seed, "val": run.val, "test": run.test, "seconds": run.seconds})
            store()
    final = [run for split in record["splits"] for run in split["final"]]
    record |= {
        "settings": record["splits"][0]["chosen"],
        "val": statistics.fmean(run["val"] for run in final),
        "values": [run["test"] for run in final],
        "mean": statistics.fmean(run["test"] for run in final),
        "search_seconds": sum(t["seconds"] for split in record["splits"] for t in split["trials"]),
        "done": True,
    }
    store()
    return plain(record)


def tune_all(
    names: Sequence[str], trials: int, seeds: int, folder: Path, device: str = "cpu", workers: int = 1
) -> Iterator[tuple[int, int, Record]]:
    """Every rival on every graph: how many searches are done, of how many, and the record of the latest.

    Args:
        workers: searches at a time, each in a process of its own.
    """
    pairs = [(name, rival) for name in names for rival in rivals_of(SUITE[name])]
    given = (trials, seeds, folder, device, sys.argv[1:])
    if workers == 1:
        found: Iterable[Record] = (_tune_pair(name, rival, *given) for name, rival in pairs)
        yield from ((i, len(pairs), record) for i, record in enumerate(found, 1))
        return
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        jobs = [pool.submit(_tune_pair, name, rival, *given) for name, rival in pairs]
        for i, job in enumerate(as_completed(jobs), 1):
            yield i, len(pairs), job.result()


def _tune_pair(
    name: str, rival: str, trials: int, seeds: int, folder: Path, device: str, typed: Sequence[str]
) -> Record:
    sys.argv[1:] = typed
    return tune(name, SUITE[name], rival, trials, seeds, folder, device=device)


def _trial(rival: str, graph: Graph, metric: str, point: Settings, earlier: Sequence[Record], device: str) -> Record:
    marks = [trial["at_mark"] for trial in earlier if trial["at_mark"] is not None]
    hurdle = statistics.median(marks) if len(marks) >= LEAST else -float("inf")
    own = _own(graph, device)

    def behind(curve: Sequence[float]) -> bool:
        return len(curve) == MARK and curve[-1] < hurdle

    run = train_rival(rival, graph, metric, point, 0, patience=PATIENCE, stop=behind, own=own, device=device)
    found = {"val": run.val, "val_loss": run.val_loss, "test": run.test, "seconds": run.seconds, "epochs": run.epochs}
    reached = run.curve[min(MARK, len(run.curve)) - 1]
    return {"settings": point} | found | {"at_mark": reached if reached > -float("inf") else None}


def _own(graph: Graph, device: str) -> bool:
    """Whether this library's sparse product is the faster one: a matrix per batch is not made on a GPU."""
    return graph.ptr is None or device == "cpu"


def _best(metric: str, task: str, trials: Sequence[Record]) -> Record:
    """The best by validation, equal ones by their loss."""

    def order(trial: Record) -> tuple[float, float]:
        value, loss = (float("nan") if trial[key] is None else trial[key] for key in ("val", "val_loss"))
        return merit(metric, task, value), -loss if loss == loss else -float("inf")

    return max(trials, key=order)
