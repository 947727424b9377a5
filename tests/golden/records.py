"""What the program computed when these records were made: methods and estimators, on small graphs.

``python tests/golden/records.py FOLDER`` writes them anew; do that only where a change of the numbers is meant. It uses
public names alone, so that it runs on any version.
"""

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rapgnn import Config, Graph, RAPGraphClassifier, RAPNodeClassifier, fit, load_dataset, make_graphs

SHOWN = 4  # rows of scores that are written down
METHODS = ("rap", "end-to-end", "pretrained-embedding", "fixed-diagonal", "fixed-full", "random-full", "identity")


def nodes() -> Graph:
    return load_dataset("sbm:nodes=300,classes=3,features=12,signal=3,train=10,val=60,test=100,seed=1")


def molecules() -> Graph:
    """Rings and stars of 4 to 7 nodes with two kinds of nodes and of edges."""
    rng = np.random.default_rng(0)
    sizes, edges, start = rng.integers(4, 8, size=60), [], 0
    for i, n in enumerate(sizes):
        ring, star = [(v, (v + 1) % n) for v in range(n)], [(0, v) for v in range(1, n)]
        pairs = np.array(ring if i % 2 else star) + start
        edges += [pairs, pairs[:, ::-1]]
        start += n
    index = np.concatenate(edges).T
    x, kinds = np.eye(2)[rng.integers(0, 2, start)], np.eye(2)[rng.integers(0, 2, index.shape[1])]
    split = {"train": np.arange(40), "val": np.arange(40, 50), "test": np.arange(50, 60)}
    return make_graphs(x, index, sizes, np.arange(60) % 2, edge_attr=kinds, name="shapes", **split)


def method_record(method: str, graph: Graph, **settings: Any) -> dict[str, Any]:
    fitted = fit(method, graph, Config(num_layers=3, hidden_channels=8, epochs=20, pretrain_epochs=10, **settings), 0)
    found = fitted.predict(graph.test)
    return {"history": fitted.loop.history, "scores": found.scores[:SHOWN].tolist(), "engine": fitted.engine}


def estimator_record(model: Any, graph: Graph) -> dict[str, Any]:
    probability, bars = model.predict_proba(graph), model.error_bars(graph)
    chosen = {name: getattr(model.config_, name) for name in ("backbone", "num_layers", "jumping", "embedding", "head")}
    return {
        "chosen": chosen,
        "probability": probability[:SHOWN].tolist(),
        "spread": bars[["draws", "head", "members"]][:SHOWN].to_numpy().tolist(),
        "representation": model.transform(graph)[:SHOWN, :SHOWN].tolist(),
        "trials": [trial.value for trial in getattr(model, "trials_", [])],
    }


def records() -> dict[str, Any]:
    """Everything that is written down."""
    one, many = nodes(), molecules()
    graphs = {"backbone": "gine", "batch_size": 16, "jumping": "cat", "normalize_features": False}
    found = {f"{method}, nodes": method_record(method, one) for method in METHODS}
    found |= {f"{method}, graphs": method_record(method, many, **graphs) for method in METHODS}
    for name, settings in {
        "sample": {"inference": "sample"},
        "learnable": {"embedding": "learnable", "backbone": "sage"},
        "random features": {"random_features": 2},
        "layer dropout": {"layer_dropout": 0.3},
        "mlp head": {"head": "mlp", "standardize": True, "batch_size": 8},
        "ridge": {"head": "ridge", "ridge": None, "embedding": "fixed-random"},
    }.items():
        found[name] = method_record("rap", one, **settings)
    found["node estimator"] = estimator_record(RAPNodeClassifier().fit(one), one)
    found["graph estimator"] = estimator_record(RAPGraphClassifier().fit(many), many)
    return found


def write(folder: Path) -> None:
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = json.dumps(records(), indent=1)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "records.json").write_text(text + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
