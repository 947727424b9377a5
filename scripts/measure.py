"""The committed measurements of accuracy (speed is `rapgnn bench depth`).

    python scripts/measure.py compare|embeddings|depth [dataset ...]

compare: all strategies, five seeds.  embeddings: RAP-GNN with every embedding, five seeds.
depth: RAP-GNN's settings on PubMed with 1 to 32 layers, for RAP-GNN and its ablations, three seeds.
"""

import json
import sys
from pathlib import Path

from rapgnn.compare import compare, plan
from rapgnn.datasets import load_dataset
from rapgnn.defaults import default_config, stored
from rapgnn.embedding import EMBEDDINGS
from rapgnn.experiment import run, warm_up
from rapgnn.methods import METHODS

RESULTS = Path(__file__).resolve().parents[1] / "results"
DATASETS = ["cora", "citeseer", "pubmed"]


def strategies(dataset: str) -> list[dict]:
    graph = load_dataset(dataset)
    return compare(
        graph, plan(graph, list(METHODS), None, {}), range(5), on_start=lambda m: print(dataset, m, flush=True)
    )


def embeddings(dataset: str) -> list[dict]:
    graph, records = load_dataset(dataset), []
    warm_up(["rap"])
    for name in EMBEDDINGS:
        print(dataset, name, flush=True)
        chosen = [s for s in stored() if (s["dataset"], s["method"], s["embedding"]) == (dataset, "rap", name)]
        searched: dict = {"selected_val_mean": -1.0, "search_trials": 0}  # not searched, so never the chosen one
        if chosen:
            searched = {"selected_val_mean": chosen[0]["val_mean"], "search_trials": chosen[0]["trials"]}
        records.append(run("rap", graph, default_config(dataset, "rap", name), range(5)) | searched)
    return records


def depth(dataset: str) -> list[dict]:
    graph, records = load_dataset(dataset), []
    config = default_config(dataset, "rap")
    for method in ("rap", "fixed-diagonal", "fixed-full", "random-full"):
        for layers in (1, 2, 4, 8, 16, 32):
            print(dataset, method, layers, flush=True)
            chosen = config.update(num_layers=layers)
            if method == "random-full":  # every epoch is a pass over the graph
                chosen = chosen.update(epochs=100)
            records.append(run(method, graph, chosen, range(3)))
    return records


JOBS = {
    "compare": (strategies, "compare-{}.json", DATASETS),
    "embeddings": (embeddings, "embeddings-{}.json", DATASETS),
    "depth": (depth, "depth-accuracy-{}.json", ["pubmed"]),
}


def main(job: str, datasets: list[str]) -> None:
    measure, name, usual = JOBS[job]
    for dataset in datasets or usual:
        command = {"command": f"python scripts/measure.py {job} {dataset}"}
        records = [record | command for record in measure(dataset)]
        (RESULTS / name.format(dataset)).write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
