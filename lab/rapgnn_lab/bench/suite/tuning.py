"""The rivals' searches: random points on the validation rows, every trial stored, the best one trained on new seeds.

One file per graph and rival. It is written anew after every trial; a run that was stopped goes on where it ended, and a
search whose graph or space has changed since begins anew.
"""

import hashlib
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import date
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch

from rapgnn.compare import Record
from rapgnn.device import hardware, versions
from rapgnn.files import is_regular
from rapgnn.graph.graph import Graph
from rapgnn_lab.bench.suite.graphs import GRAPHS, Entry
from rapgnn_lab.bench.suite.rivals import EPOCHS, SPACES, TITLES, Ranges, Settings, merit, train_rival
from rapgnn_lab.store import plain, write_json

PATIENCE = 40  # epochs without a better validation score after which a trial ends
MARK, LEAST = 50, 5  # a trial that is below the median of at least so many others after so many epochs ends


def space_of(entry: Entry, rival: str) -> Ranges:
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


def draw_points(space: Ranges, trials: int) -> list[Settings]:
    """The same random points for every graph."""
    rng = np.random.default_rng(0)
    return [{key: values[rng.integers(len(values))] for key, values in space.items()} for _ in range(trials)]


def read_search(folder: Path | None, name: str, rival: str, definition: str) -> Record | None:
    """A stored search, finished or not; None where there is none of this definition."""
    path = None if folder is None else folder / f"{name}-{rival}.json"
    if path is None or not is_regular(path):
        return None
    record = json.loads(path.read_text(encoding="utf-8"))
    return record if record.get("definition") == definition else None


def tune(
    name: str, rival: str, trials: int, seeds: int, folder: Path | None, device: str = "cpu", epochs: int = EPOCHS
) -> Record:
    """Search, then train the best point: with so many seeds, or once per fold. Gives the record, and stores it in the
    folder after every training; a stored search has ``EPOCHS`` epochs."""
    entry = GRAPHS[name]
    graphs = [make() for make in entry.makes]
    here, definition = hardware(device), define(entry, graphs, rival, trials, seeds)
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
        "hardware": here,
        "threads": torch.get_num_threads(),
        "versions": versions(),
        "done": False,
    }
    if record["done"]:
        return record
    if here not in (record["hardware"], *record.get("resumed_on", [])):
        record["resumed_on"] = [*record.get("resumed_on", []), here]

    def store() -> None:
        record["date"] = date.today().isoformat()
        if folder is not None:
            write_json(folder / f"{name}-{rival}.json", record)

    points = draw_points(space_of(entry, rival), trials)
    for graph, split in zip(graphs, record["splits"], strict=True):
        for point in points[len(split["trials"]) :]:
            split["trials"].append(trial(rival, graph, entry.metric, point, split["trials"], device, epochs))
            store()
        split["chosen"] = _best(entry.metric, graph.task, split["trials"])["settings"]
        for seed in range(len(split["final"]), 1 if len(graphs) > 1 else seeds):
            run = train_rival(rival, graph, entry.metric, split["chosen"], seed, epochs, device=device)
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
    names: Sequence[str], trials: int, seeds: int, folder: Path, device: str, workers: int
) -> Iterator[Record]:
    """Every rival on every graph, ``workers`` searches at a time, each in a process of its own."""
    pairs = [(name, rival) for name in names for rival in GRAPHS[name].rivals]
    given = (trials, seeds, folder, device)
    if workers == 1:
        yield from (tune(name, rival, *given) for name, rival in pairs)
        return
    with ProcessPoolExecutor(workers, get_context("spawn"), _set_command, (sys.argv,)) as pool:
        jobs = [pool.submit(tune, name, rival, *given) for name, rival in pairs]
        yield from (job.result() for job in as_completed(jobs))


def _set_command(words: list[str]) -> None:
    """In a new process: what was typed, which records name."""
    sys.argv = words


def trial(
    rival: str, graph: Graph, metric: str, point: Settings, earlier: Sequence[Record], device: str, epochs: int
) -> Record:
    """One point, trained with the first seed; it ends after ``MARK`` epochs where it is below the others' median."""
    marks = [other["at_mark"] for other in earlier if other["at_mark"] is not None]
    hurdle = statistics.median(marks) if len(marks) >= LEAST else -float("inf")

    def behind(curve: Sequence[float]) -> bool:
        return len(curve) == MARK and curve[-1] < hurdle

    run = train_rival(rival, graph, metric, point, 0, epochs, PATIENCE, behind, device)
    scores = {"val": run.val, "val_loss": run.val_loss, "test": run.test, "seconds": run.seconds, "epochs": run.epochs}
    then = run.curve[min(MARK, run.epochs) - 1]
    return {"settings": point} | scores | {"at_mark": then if then > -float("inf") else None}


def _best(metric: str, task: str, trials: Sequence[Record]) -> Record:
    """The best by validation, equal ones by their loss."""

    def order(trial: Record) -> tuple[float, float]:
        value, loss = (float("nan") if trial[key] is None else trial[key] for key in ("val", "val_loss"))
        return merit(metric, task, value), -loss if loss == loss else -float("inf")

    return max(trials, key=order)
