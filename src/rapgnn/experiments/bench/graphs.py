"""One epoch and one prediction on many graphs: RAP by the shortcut and layer by layer, end-to-end training of the same
network, and the same again from PyTorch Geometric's layers and loader. Every method validates after every epoch."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rapgnn.estimators.start import graph_backbone
from rapgnn.experiments.bench.depth import describe
from rapgnn.experiments.bench.ready import inference_times
from rapgnn.experiments.bench.rows import Row, measure_rows
from rapgnn.experiments.bench.timing import (
    affordable,
    epoch_times,
    loop_times,
    median_ms,
    wait,
    with_ratios,
)
from rapgnn.experiments.run import Record, warm_up
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import edge_bounds
from rapgnn.memory import PeakMemory
from rapgnn.models.config import Config
from rapgnn.sparse import dense
from rapgnn.training.methods import fit

SHORTCUT_EPOCHS = 20
TITLES = {
    "rap": "RAP, shortcut",
    "rap-stepwise": "RAP, layer by layer",
    "end-to-end": "end-to-end",
    "end-to-end-pyg": "end-to-end, PyG",
}
Measured = tuple[Record, Callable[[], Record]]  # of training; of inference, later
SAME = ("dataset", "num_layers", "hidden_channels", "batch_size")


def bench(
    graph: Graph,
    num_layers: int,
    hidden_channels: int,
    batch_size: int,
    repeats: int,
    on_measured: Callable[[], None] = lambda: None,
) -> list[Record]:
    """All methods on the training graphs, validated on the validation graphs."""
    rows = plan(graph, num_layers, hidden_channels, batch_size, repeats)
    return finish(measure_rows(rows, on_row=on_measured))


def plan(graph: Graph, num_layers: int, hidden_channels: int, batch_size: int, repeats: int) -> list[Row]:
    """A row per method. The light ones run first."""
    config = Config(
        backbone=graph_backbone(graph),
        num_layers=num_layers,
        hidden_channels=hidden_channels,
        batch_size=batch_size,
        embedding="fixed-random",
        dropout=0.0,
        normalize_features=False,
    )
    common = describe(graph, config) | {"graphs": graph.num_rows, "repeats": repeats}
    return [
        Row(common | {"method": name, "title": title}, lambda name=name: _measure(name, graph, config, repeats))
        for name, title in TITLES.items()
    ]


def finish(records: Sequence[Record]) -> list[Record]:
    """The records with their ratios to end-to-end training."""
    return with_ratios(records, SAME)


def _measure(name: str, graph: Graph, config: Config, repeats: int) -> Record:
    warm_up(["rap", "end-to-end"], str(graph.y.device), graphs=True)
    with PeakMemory(graph.y.device) as peak:
        trained, infer = MEASURES[name](graph, config, repeats)
    return trained | infer() | {"peak_memory_mb": peak.megabytes}


def _fit(method: str, graph: Graph, config: Config, epochs: int, shortcut: bool = False) -> Measured:
    if shortcut and graph.y.is_cuda:
        fit(method, graph, config.update(epochs=2), 0)  # compiles kernels
    start = time.perf_counter()
    fitted = fit(method, graph, config.update(epochs=epochs + 1), 0)  # the first epoch warms up
    loop = fitted.loop
    spent = (loop.train_ms_per_epoch + loop.eval_ms_per_epoch) * loop.epochs
    before = 1e3 * (time.perf_counter() - start) - spent
    # Steps are told apart on a CPU; where many epochs run as one block, the mean of all counts.
    times = loop_times(loop, whole=shortcut and graph.y.is_cuda) | {"precompute_ms": before if shortcut else 0.0}
    seconds = loop.epoch_ms[-1] / 1e3 if loop.epoch_ms else 1.0
    return times, lambda: inference_times(fitted, graph, affordable(seconds, 5))


def _shortcut(graph: Graph, config: Config, repeats: int) -> Measured:
    return _fit("rap", graph, config, max(SHORTCUT_EPOCHS, repeats), shortcut=True)


def _stepwise(graph: Graph, config: Config, repeats: int) -> Measured:
    return _fit("rap", graph, config.update(engine="stepwise"), repeats)


def _end_to_end(graph: Graph, config: Config, repeats: int) -> Measured:
    return _fit("end-to-end", graph, _trained(config), repeats)


def _trained(config: Config) -> Config:
    """The paper's layers: an MLP of one hidden layer for TU, of two for OGB, with batch norm."""
    return config.update(factors=3 if config.backbone == "gine" else 2, batch_norm=True)


def _end_to_end_pyg(graph: Graph, config: Config, repeats: int) -> Measured:
    from torch_geometric.loader import DataLoader

    device, rule = graph.y.device, graph.objective
    size = config.batch_size or len(graph.train)
    with torch.random.fork_rng():
        model = _PyGNetwork(graph, _trained(config)).to(device)
        train, val, test = (
            DataLoader(_data_list(graph, split), batch_size=size, shuffle=split == "train")
            for split in ("train", "val", "test")
        )
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)

        @torch.no_grad()
        def scores(loader: Any) -> Tensor:
            model.eval()
            return torch.cat([model(batch.to(device)) for batch in loader])

        best, state, train_ms, eval_ms = (-float("inf"), -float("inf")), {}, [], []
        for _ in range(repeats + 1):
            start = time.perf_counter()
            model.train()
            for batch in train:
                batch = batch.to(device)
                optimizer.zero_grad()
                rule.loss(model(batch), batch.y).backward()
                optimizer.step()
            wait(device)
            middle = time.perf_counter()
            if len(graph.val):
                out, y = scores(val), graph.y[graph.val]
                merit = rule.merit(rule.score(out, y)), -float(rule.loss(out, y))
                if merit > best:
                    best, state = merit, {name: value.clone() for name, value in model.state_dict().items()}
                wait(device)
            train_ms.append(1e3 * (middle - start))
            eval_ms.append(1e3 * (time.perf_counter() - middle))
        model.load_state_dict(state or model.state_dict())

    def infer() -> Record:
        ms = median_ms(lambda: scores(test), device, repeats) if len(graph.test) else None
        return {"infer_ms": ms, "infer_rows": len(graph.test), "infer_all_ms": None}

    times = epoch_times(statistics.median(train_ms[1:]), statistics.median(eval_ms[1:]), repeats)
    return times | {"precompute_ms": 0.0}, infer


MEASURES: dict[str, Callable[[Graph, Config, int], Measured]] = {
    "rap": _shortcut,
    "rap-stepwise": _stepwise,
    "end-to-end": _end_to_end,
    "end-to-end-pyg": _end_to_end_pyg,
}


class _PyGNetwork(nn.Module):
    """GINConv or GINEConv layers as in PyTorch Geometric's and OGB's examples, sum pooling, a linear head."""

    def __init__(self, graph: Graph, config: Config):
        from torch_geometric.nn import MLP, GINConv, GINEConv

        super().__init__()
        d, edges = config.hidden_channels, config.backbone == "gine"
        self.embedding = nn.Linear(graph.num_features, d)
        networks = [MLP([d] * (config.factors + 1), norm="batch_norm") for _ in range(config.num_layers)]
        self.layers = nn.ModuleList(
            GINEConv(network, edge_dim=graph.num_edge_features) if edges else GINConv(network) for network in networks
        )
        self.head = nn.Linear(d, graph.num_outputs)
        self.edges = edges

    def forward(self, batch: Any) -> Tensor:
        from torch_geometric.nn import global_add_pool

        h = torch.relu(self.embedding(batch.x))
        for layer in self.layers:
            h = layer(h, batch.edge_index, batch.edge_attr) if self.edges else layer(h, batch.edge_index)
            h = torch.relu(h)
        return self.head(global_add_pool(h, batch.batch, size=batch.num_graphs))


def _data_list(graph: Graph, split: str = "train") -> list[Any]:
    from torch_geometric.data import Data

    assert graph.ptr is not None
    ptr, x = graph.ptr.cpu(), dense(graph.x).cpu()
    bounds = edge_bounds(ptr, graph.edge_index[0].numpy())
    edge_attr = None if graph.edge_attr is None else dense(graph.edge_attr).cpu()
    data = []
    for g in graph.rows(split).tolist():
        edges = slice(int(bounds[g]), int(bounds[g + 1]))
        data.append(
            Data(
                x=x[ptr[g] : ptr[g + 1]],
                edge_index=graph.edge_index[:, edges] - ptr[g],
                edge_attr=None if edge_attr is None else edge_attr[edges],
                y=graph.y[g : g + 1].cpu(),
            )
        )
    return data
