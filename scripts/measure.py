"""The committed measurements of accuracy (speed is `rapgnn bench depth`).

    python scripts/measure.py compare|embeddings|depth|batches [dataset ...]
        [--only name ...] [--seeds N] [--protocol both|paper|strict]

compare: all strategies, five seeds (cross-validated datasets: one).
embeddings: RAP-GNN with every embedding, five seeds.
batches: RAP-GNN on PROTEINS with batches of 256, 512 and 1024 graphs, three seeds.
depth: RAP-GNN's settings on PubMed, 64 channels, with 1 to 32 layers, for RAP-GNN and its ablations, three seeds.
"""

import json
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from rapgnn.datasets import load_dataset
from rapgnn.experiments.compare import compare, plan
from rapgnn.experiments.run import run, warm_up
from rapgnn.experiments.tuned import default_config, stored
from rapgnn.layers.embedding import EMBEDDINGS
from rapgnn.training.methods import METHODS

RESULTS = Path(__file__).resolve().parents[1] / "results"
DATASETS = ["cora", "citeseer", "pubmed"]
GRAPHS = ["mutag", "ptc", "proteins", "molesol", "moltox21", "molhiv", "molbace"]


def strategies(dataset: str, options: Namespace) -> list[dict]:
    graph = load_dataset(dataset)
    methods = [m for m in METHODS if not options.only or m in options.only]
    return compare(
        graph,
        plan(graph, methods, None, {}),
        range(options.seeds or (1 if graph.folds else 5)),
        options.protocol,
        on_start=lambda m: print(dataset, m, flush=True),
    )


def batches(dataset: str, options: Namespace) -> list[dict]:
    graph = load_dataset(dataset)
    config = default_config(graph, "rap")
    warm_up(["rap"], graphs=True)
    seeds = range(options.seeds or 3)
    sizes = (256, 512, 1024)
    return [run("rap", graph, config.update(batch_size=n), seeds, protocol=options.protocol) for n in sizes]


def embeddings(dataset: str, options: Namespace) -> list[dict]:
    graph, records = load_dataset(dataset), []
    warm_up(["rap"], graphs=graph.ptr is not None)
    for name in (e for e in EMBEDDINGS if not options.only or e in options.only):
        print(dataset, name, flush=True)
        chosen = [s for s in stored() if (s["dataset"], s["method"], s["embedding"]) == (dataset, "rap", name)]
        searched = {"search_trials": chosen[0]["trials"] if chosen else 0}
        records.append(run("rap", graph, default_config(graph, "rap", name), range(options.seeds or 5)) | searched)
    return records


def depth(dataset: str, options: Namespace) -> list[dict]:
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


def main(options: Namespace, words: list[str]) -> None:
    measure, name, usual = JOBS[options.job]
    for dataset in options.datasets or usual:
        command = {"command": f"python scripts/measure.py {' '.join(words)}"}
        records = [record | command for record in measure(dataset, options)]
        target = RESULTS / name.format(dataset)
        if options.job == "compare" and options.only and target.exists():  # the others stay as they were measured
            records += [r for r in json.loads(target.read_text()) if r["method"] not in options.only]
        order = list(METHODS)
        records.sort(key=lambda r: order.index(r["method"]))
        target.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    parser = ArgumentParser()
    parser.add_argument("job", choices=list(JOBS))
    parser.add_argument("datasets", nargs="*")
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--protocol", default="both")
    main(parser.parse_args(), sys.argv[1:])
