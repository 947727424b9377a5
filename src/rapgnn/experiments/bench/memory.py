"""Peak memory of training, as in the paper's two figures: on a published graph by depth, and at ogbn-proteins' size.

On a GPU it is the peak of torch's allocator. On a CPU every method runs in a process of its own, and it is the peak
resident size of that process. Both are above what the loaded data take: features and operator.
"""

import gc
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from rapgnn.datasets import load_dataset
from rapgnn.datasets.synthetic import BlockModel
from rapgnn.errors import InputError
from rapgnn.experiments.bench import networks
from rapgnn.experiments.bench.depth import TITLES, bench_config
from rapgnn.experiments.bench.generated import PowerLaw
from rapgnn.experiments.bench.ready import ReadyGraph, fits, message_bytes, ready, trained_bytes
from rapgnn.experiments.bench.rows import Row, machine
from rapgnn.experiments.bench.timing import Scores, train_epochs
from rapgnn.experiments.run import Record
from rapgnn.graph.graph import Graph
from rapgnn.memory import PeakMemory
from rapgnn.models.config import Config
from rapgnn.sparse import SparseMatrix
from rapgnn.training.methods import fit

EPOCHS = 3  # of what walks over the graph: buffers of the optimiser are there from the second on
KEPT_EPOCHS = 64  # of what touches the labelled rows alone: draws are made many together
_FITS: dict[str, tuple[str, Record]] = {
    "rap": ("rap", {"epochs": KEPT_EPOCHS}),
    "fixed-diagonal": ("fixed-diagonal", {"epochs": KEPT_EPOCHS}),
    "pretrained-embedding": ("pretrained-embedding", {"embedding": "pretrained", "pretrain_epochs": KEPT_EPOCHS}),
    "rap-stepwise": ("rap", {"engine": "stepwise", "epochs": EPOCHS}),
    "fixed-full": ("fixed-full", {"epochs": KEPT_EPOCHS}),
    "random-full": ("random-full", {"epochs": EPOCHS}),
    "end-to-end": ("end-to-end", {"epochs": EPOCHS}),
}
_PEERS: dict[str, Callable[[Graph, Config], Scores]] = {
    "pyg-sgconv": networks.sgconv,
    "pyg-sign": networks.sign,
    "end-to-end-pyg": networks.gcn,
}


def plan(
    data: str | PowerLaw,
    depths: Sequence[int],
    hidden_channels: int,
    methods: Sequence[str] = tuple(TITLES),
    device: str = "cpu",
    data_dir: Path | None = None,
) -> list[Row]:
    """A row per depth and method.

    Args:
        data: the name of a dataset, or a graph to be generated.
    """
    rows = []
    source = data if isinstance(data, str) else asdict(data)
    loaded: list[ReadyGraph] = []
    for depth in depths:
        for name in (n for n in TITLES if n in methods):
            task = {"data": source, "method": name, "num_layers": depth, "hidden_channels": hidden_channels}
            settings = {"dataset": data if isinstance(data, str) else data.name, "title": TITLES[name]} | task
            request = task | {"device": device, "data_dir": None if data_dir is None else str(data_dir)}

            def measure(request: Record = request) -> Record:
                if device == "cpu":
                    return in_child(request)
                if not loaded:
                    loaded.append(load(request))
                return peak_of(request, loaded[0])

            rows.append(Row(settings | machine(device), measure))
    return rows


def finish(records: Sequence[Record]) -> list[Record]:
    """The records with how many times less memory each took than end-to-end training on the same graph and depth."""
    same = ("dataset", "num_layers", "hidden_channels")
    whole = {tuple(r[k] for k in same): r.get("peak_memory_mb") for r in records if r["method"] == "end-to-end"}
    done = []
    for r in records:
        slow, own = whole.get(tuple(r[k] for k in same)), r.get("peak_memory_mb")
        done.append(r | {"memory_ratio_vs_end_to_end": slow / own if slow and own else None})
    return done


def in_child(request: Record) -> Record:
    """The same in a fresh process, which no other method has left anything in."""
    words = [sys.executable, "-m", "rapgnn.experiments.bench.child"]
    done = subprocess.run(words, input=json.dumps(request), capture_output=True, text=True)
    if done.returncode in (-9, 137):
        return {"note": "out of memory"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise InputError(f"measuring {request['method']} in a process of its own failed: {last}.")
    return json.loads(done.stdout.splitlines()[-1])


def load(request: Record) -> ReadyGraph:
    """The graph of a request, its operator built, on its device."""
    data, data_dir = request["data"], request["data_dir"]
    graph = load_dataset(data, data_dir and Path(data_dir)) if isinstance(data, str) else PowerLaw(**data).generate()
    return ready(graph.normalized_features().to(request["device"]))


def peak_of(request: Record, graph: ReadyGraph) -> Record:
    """Train one method for a few epochs: its peak above what is there, and what that is."""
    name, device = request["method"], graph.y.device
    config = bench_config(request["num_layers"], request["hidden_channels"])
    tiny = BlockModel(nodes=40, classes=2, features=8, train=5, val=10, test=10).generate()
    _train(name, ready(tiny.to(device)), bench_config(2, 8))  # what libraries take is nobody's
    sizes = {"nodes": graph.num_nodes, "edges": graph.edge_index.shape[1], "data_mb": data_bytes(graph) / 2**20}
    sizes |= {"task": graph.task}
    if not fits(_needed(name, graph, config), device):
        return sizes | {"peak_memory_mb": None, "note": "does not fit"}
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    with PeakMemory(device) as peak:
        _train(name, graph, config)
    return {"peak_memory_mb": peak.megabytes} | sizes


def _needed(name: str, graph: ReadyGraph, config: Config) -> int:
    """About the bytes of the methods that may need more than there are."""
    if name == "end-to-end":
        return trained_bytes(graph, config)
    if name == "end-to-end-pyg":
        return trained_bytes(graph, config) + message_bytes(graph, config.hidden_channels)
    return message_bytes(graph, graph.num_features) if name == "pyg-sgconv" else 0


def _train(name: str, graph: ReadyGraph, config: Config) -> None:
    if name not in _FITS:
        y = graph.y
        train_epochs(_PEERS[name](graph, config), y[graph.train], y[graph.val], graph.objective, EPOCHS - 1)
        return
    method, settings = _FITS[name]
    if graph.objective.metric != "accuracy":  # ranks of many labels take longer than all else
        settings = settings | {key: EPOCHS for key in settings if key.endswith("epochs")}
    fit(method, graph, config.update(**settings), 0)


def data_bytes(graph: ReadyGraph) -> int:
    """Bytes of features and operator."""
    assert graph.built is not None
    return _bytes(graph.x) + _bytes(graph.built.matrix)


def _bytes(x: torch.Tensor | SparseMatrix) -> int:
    parts = (x.values, x.col, x.crow) if isinstance(x, SparseMatrix) else (x,)
    return sum(part.element_size() * part.numel() for part in parts)
