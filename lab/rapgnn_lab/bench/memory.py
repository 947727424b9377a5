"""Peak memory of training, as in the paper's two figures: on a published graph by depth, and at ogbn-proteins' size.

On a GPU it is the peak of torch's allocator. On a CPU every method runs in a process of its own (``python -m`` of this
module), and it is the peak resident size of that process. Both are above what the loaded data take: features and
operator.
"""

import gc
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path

import torch

from rapgnn.compare import Record, fit
from rapgnn.datasets import load_dataset
from rapgnn.memory import PeakMemory
from rapgnn.network.config import Config
from rapgnn.sparse import SparseMatrix
from rapgnn_lab.bench import rows
from rapgnn_lab.bench.depth import PEERS, TITLES, bench_config, tiny_graph
from rapgnn_lab.bench.generated import PowerLaw
from rapgnn_lab.bench.timing import ReadyGraph, fits, message_bytes, ready, train_epochs, trained_bytes

HIDDEN, SHARE_LAYERS = 256, 4  # channels; layers on a graph of ogbn-proteins' size
EPOCHS = 3  # of what walks over the graph: buffers of the optimiser are there from the second on
LABELLED_EPOCHS = 64  # of what touches the labelled rows alone: draws are made many together
WALKS = ("rap-stepwise", "random-full", "end-to-end")
in_child = partial(rows.in_child, "rapgnn_lab.bench.memory")


def plan(
    data: str | PowerLaw, depths: Sequence[int], methods: Sequence[str] = tuple(TITLES), device: str = "cpu"
) -> list[rows.Row]:
    """A row per depth and method, of a dataset or of a graph to be generated."""
    name, source = (data, data) if isinstance(data, str) else (data.name, asdict(data))
    loaded = cache(lambda: load({"data": source, "device": device}))

    def row(depth: int, method: str) -> rows.Row:
        task = {"data": source, "method": method, "num_layers": depth, "hidden_channels": HIDDEN}
        request = task | {"device": device}
        measure = lambda: in_child(request) if device == "cpu" else peak_of(request, loaded())  # noqa: E731
        return rows.Row({"dataset": name, "title": TITLES[method]} | task | rows.machine(device), measure)

    return [row(depth, method) for depth in depths for method in TITLES if method in methods]


finish = partial(rows.with_ratios, wanted={"memory_ratio_vs_end_to_end": ("end-to-end", "peak_memory_mb")})


def load(request: Record) -> ReadyGraph:
    """The graph of a request, its operator built, on its device."""
    data, data_dir = request["data"], request.get("data_dir")
    graph = load_dataset(data, data_dir and Path(data_dir)) if isinstance(data, str) else PowerLaw(**data).generate()
    return ready(graph.normalized_features().to(request["device"]))


def peak_of(request: Record, graph: ReadyGraph) -> Record:
    """Train one method for a few epochs: its peak above what is there, and what that is."""
    name, device = request["method"], graph.y.device
    config = bench_config(request["num_layers"], request["hidden_channels"])
    _train(name, tiny_graph(device), bench_config(2, 8))  # what libraries take is nobody's
    sizes = {"nodes": graph.num_nodes, "edges": graph.edge_index.shape[1], "task": graph.task}
    sizes["data_mb"] = (_bytes(graph.x) + _bytes(graph.operator("gcn").matrix)) / 2**20
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
    if name in PEERS:
        train_epochs(PEERS[name](graph, config), graph, EPOCHS - 1)
        return
    many = name not in WALKS and graph.objective.metric == "accuracy"  # ranks of many labels take longer than all else
    epochs = LABELLED_EPOCHS if many else EPOCHS
    if name == "pretrained-embedding":
        config = config.update(embedding="pretrained", pretrain_epochs=epochs)
    else:
        config = config.update(epochs=epochs, engine="stepwise" if name == "rap-stepwise" else config.engine)
    fit("rap" if name == "rap-stepwise" else name, graph, config, 0)


def _bytes(x: torch.Tensor | SparseMatrix) -> int:
    parts = (x.values, x.col, x.crow) if isinstance(x, SparseMatrix) else (x,)
    return sum(part.element_size() * part.numel() for part in parts)


if __name__ == "__main__":
    rows.answer(lambda request: peak_of(request, load(request)))
