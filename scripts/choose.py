"""Choose among the best trials of several searches for one strategy, on validation alone.

    python scripts/choose.py TARGET.json DATASET METHOD EMBEDDING TOP SEEDS FILE...

FILE: SQLite files of `rapgnn tune`, or .jsonl files of {"settings": ..., "value": ...}. The TOP best trials are run on
SEEDS further seeds; the best mean of the search's value and theirs is chosen and written as a record for
`scripts/collect_defaults.py`. Of those that are as good within TIE the one with the fewest channels is taken. SEEDS 0
takes the best trial as it is.
"""

import json
import statistics
import sys
from pathlib import Path

from rapgnn.datasets import load_dataset
from rapgnn.experiments.run import run
from rapgnn.experiments.tune.search import CONFIRM_SEED, trial_records
from rapgnn.experiments.tuned import base_config

TIE = 0.002


def main(target: str, dataset: str, method: str, embedding: str, top: int, seeds: int, files: list[str]) -> None:
    graph = load_dataset(dataset)
    merit, found = graph.rule.merit, {}
    for file in files:
        for trial in _trials(Path(file)):
            if trial["settings"]["embedding"] == embedding:
                found[json.dumps(trial["settings"], sort_keys=True)] = trial
    best = sorted(found.values(), key=lambda t: -merit(t["value"]))[: max(1, top)]
    base, candidates = base_config(graph, method), []
    for trial in best:
        values = [trial["value"]]
        if seeds:
            again = range(CONFIRM_SEED, CONFIRM_SEED + seeds)
            config = base.update(**trial["settings"])
            values += run(method, graph, config, again, splits=("val",))["val_values"]
        mean = statistics.fmean(values)
        print(dataset, method, f"{trial['value']:.4f} -> {mean:.4f}", flush=True)
        candidates.append({"val_mean": mean, "val_values": values, "settings": trial["settings"]})
    most = max(merit(c["val_mean"]) for c in candidates)
    equal = [c for c in candidates if merit(c["val_mean"]) >= most - TIE]
    chosen = min(equal, key=lambda c: (c["settings"].get("hidden_channels", 0), -merit(c["val_mean"])))
    record = {"dataset": dataset, "method": method, "embedding": embedding, "space": "wide", "trials": len(found)}
    Path(target).write_text(json.dumps([record | {"metric": graph.rule.metric} | chosen], indent=1) + "\n")


def _trials(path: Path) -> list[dict]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    return [t for t in trial_records(path) if t["state"] == "COMPLETE"]


if __name__ == "__main__":
    words = sys.argv[1:]
    main(words[0], words[1], words[2], words[3], int(words[4]), int(words[5]), words[6:])
