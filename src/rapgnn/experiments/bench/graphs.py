"""One training epoch on many graphs: RAP by the shortcut and layer by layer, end-to-end training of the same network,
and the same again from PyTorch Geometric's layers and loader."""

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from rapgnn.estimators.start import graph_backbone
from rapgnn.experiments.bench.depth import with_ratios
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


def bench(
    graph: Graph,
    num_layers: int,
    hidden_channels: int,
    batch_size: int,
    repeats: int,
    on_measured: Callable[[], None] = lambda: None,
) -> list[Record]:
    """All methods on the training graphs, without evaluation. The light ones run first."""
    config = Config(
        backbone=graph_backbone(graph),
        num_layers=num_layers,
        hidden_channels=hidden_channels,
        batch_size=batch_size,
        embedding="fixed-random",
        dropout=0.0,
        normalize_features=False,
    )
    graph = replace(graph, val=graph.val[:0])
    warm_up(["rap", "end-to-end"], str(graph.y.device), graphs=True)
    measured: dict[str, dict[str, Any]] = {}
    for name, measure in MEASURES.items():
        with PeakMemory(graph.y.device) as peak:
            measured[name] = measure(graph, config, repeats)
        measured[name]["peak_memory_mb"] = peak.megabytes
        on_measured()
    return with_ratios(graph, config, repeats, TITLES, measured)


def _fit(method: str, graph: Graph, config: Config, epochs: int) -> dict[str, Any]:
    start = time.perf_counter()
    loop = fit(method, graph, config.update(epochs=epochs + 1), 0).loop  # the first epoch warms up
    rest = 1e3 * (time.perf_counter() - start) - sum(loop.epoch_ms)
    return {"train_ms_per_epoch": statistics.median(loop.epoch_ms[1:]), "precompute_ms": rest}


def _shortcut(graph: Graph, config: Config, repeats: int) -> dict[str, Any]:
    return _fit("rap", graph, config, max(SHORTCUT_EPOCHS, repeats))


def _stepwise(graph: Graph, config: Config, repeats: int) -> dict[str, Any]:
    return _fit("rap", graph, config.update(engine="stepwise"), repeats) | {"precompute_ms": 0.0}


def _end_to_end(graph: Graph, config: Config, repeats: int) -> dict[str, Any]:
    return _fit("end-to-end", graph, _trained(config), repeats) | {"precompute_ms": 0.0}


def _trained(config: Config) -> Config:
    """The paper's layers: an MLP of one hidden layer for TU, of two for OGB, with batch norm."""
    return config.update(factors=3 if config.backbone == "gine" else 2, batch_norm=True)


def _end_to_end_pyg(graph: Graph, config: Config, repeats: int) -> dict[str, Any]:
    from torch_geometric.loader import DataLoader

    with torch.random.fork_rng():
        model = _PyGNetwork(graph, _trained(config)).to(graph.y.device)
        loader = DataLoader(_data_list(graph), batch_size=config.batch_size or len(graph.train), shuffle=True)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)
        times = []
        for _ in range(repeats + 1):
            start = time.perf_counter()
            for batch in loader:
                batch = batch.to(graph.y.device)
                optimizer.zero_grad()
                graph.objective.loss(model(batch), batch.y).backward()
                optimizer.step()
            if graph.y.is_cuda:
                torch.cuda.synchronize(graph.y.device)
            times.append(1e3 * (time.perf_counter() - start))
    return {"train_ms_per_epoch": statistics.median(times[1:]), "precompute_ms": 0.0}


MEASURES: dict[str, Callable[[Graph, Config, int], dict[str, Any]]] = {
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


def _data_list(graph: Graph) -> list[Any]:
    from torch_geometric.data import Data

    assert graph.ptr is not None
    ptr, x = graph.ptr.cpu(), dense(graph.x).cpu()
    bounds = edge_bounds(ptr, graph.edge_index[0].numpy())
    edge_attr = None if graph.edge_attr is None else dense(graph.edge_attr).cpu()
    data = []
    for g in graph.train.tolist():
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
