"""The committed measurements of accuracy (speed is `rapgnn bench depth`).

    python scripts/measure.py compare|embeddings|depth|batches [dataset ...] [--without name ...]

compare: all strategies, five seeds (cross-validated datasets: one).
embeddings: RAP-GNN with every embedding, five seeds.
batches: RAP-GNN on PROTEINS with batches of 256, 512 and 1024 graphs, three seeds.
depth: RAP-GNN's settings on PubMed, 64 channels, with 1 to 32 layers, for RAP-GNN and its ablations, three seeds.
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
GRAPHS = ["mutag", "ptc", "proteins", "molesol", "moltox21", "molhiv", "molbace"]


def strategies(dataset: str, without: list[str]) -> list[dict]:
    graph = load_dataset(dataset)
    methods = [m for m in METHODS if m not in without]
    return compare(
        graph,
        plan(graph, methods, None, {}),
        range(1 if graph.folds else 5),
        on_start=lambda m: print(dataset, m, flush=True),
    )


def batches(dataset: str, without: list[str]) -> list[dict]:
    graph = load_dataset(dataset)
    config = default_config(graph, "rap")
    warm_up(["rap"], graphs=True)
    return [run("rap", graph, config.update(batch_size=size), range(3)) for size in (256, 512, 1024)]


def embeddings(dataset: str, without: list[str]) -> list[dict]:
    graph, records = load_dataset(dataset), []
    warm_up(["rap"])
    for name in (e for e in EMBEDDINGS if e not in without):
        print(dataset, name, flush=True)
        chosen = [s for s in stored() if (s["dataset"], s["method"], s["embedding"]) == (dataset, "rap", name)]
        searched = {"search_trials": chosen[0]["trials"] if chosen else 0}
        records.append(run("rap", graph, default_config(graph, "rap", name), range(5)) | searched)
    return records


def depth(dataset: str, without: list[str]) -> list[dict]:
    graph, records = load_dataset(dataset), []
    config = default_config(graph, "rap").update(hidden_channels=64)
    for method in ("rap", "fixed-diagonal", "fixed-full", "random-full"):
        for layers in (1, 2, 4, 8, 16, 32):
            print(dataset, method, layers, flush=True)
            chosen = config.update(num_layers=layers)
            if method == "random-full":  # every epoch is a pass over the graph
                chosen = chosen.update(epochs=50)
            records.append(run(method, graph, chosen, range(3)))
    return records


JOBS = {
    "compare": (strategies, "compare-{}.json", DATASETS + GRAPHS),
    "batches": (batches, "batches-{}.json", ["proteins"]),
    "embeddings": (embeddings, "embeddings-{}.json", DATASETS),
    "depth": (depth, "depth-accuracy-{}.json", ["pubmed"]),
}


def main(job: str, datasets: list[str], without: list[str]) -> None:
    measure, name, usual = JOBS[job]
    for dataset in datasets or usual:
        words = [job, dataset, *(["--without", *without] if without else [])]
        command = {"command": f"python scripts/measure.py {' '.join(words)}"}
        records = [record | command for record in measure(dataset, without)]
        target = RESULTS / name.format(dataset)
        if job == "compare" and without and target.exists():  # what was left out stays as it was measured
            records += [r for r in json.loads(target.read_text()) if r["method"] in without]
        target.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    cut = sys.argv.index("--without") if "--without" in sys.argv else len(sys.argv)
    main(sys.argv[1], sys.argv[2:cut], sys.argv[cut + 1 :])
