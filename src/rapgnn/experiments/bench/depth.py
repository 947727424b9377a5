"""One training epoch by depth: RAP by the shortcut and layer by layer, end-to-end on the same sparse product, and what
a user would pick instead from PyTorch Geometric (GCNConv layers trained end to end, SGConv, SIGN)."""

import statistics
import time
from collections.abc import Callable
from datetime import date
from itertools import repeat
from typing import Any

import torch
from torch import Tensor, nn

from rapgnn.device import threads_for
from rapgnn.experiments.run import Record
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.layers.heads import Head
from rapgnn.memory import PeakMemory
from rapgnn.models.config import Config
from rapgnn.models.endtoend import EndToEnd
from rapgnn.models.rapgnn import RAPGNN
from rapgnn.sparse import dense
from rapgnn.training.loop import optimise
from rapgnn.versions import hardware, versions

SHORTCUT_EPOCHS = 256
TITLES = {
    "rap": "RAP, shortcut",
    "rap-stepwise": "RAP, layer by layer",
    "end-to-end": "end-to-end, CSR",
    "end-to-end-pyg": "end-to-end, PyG GCNConv",
    "pyg-sgconv": "PyG SGConv (cached)",
    "pyg-sign": "SIGN, training rows",
}


def bench(graph: Graph, num_layers: int, hidden_channels: int, repeats: int) -> list[Record]:
    """All methods at one depth. The light ones run first: what they leave behind cannot make them look lighter."""
    config = Config(
        num_layers=num_layers, hidden_channels=hidden_channels, embedding="fixed-random", dropout=0.0, layer_dropout=0.0
    )
    graph = graph.normalized_features()
    measured: dict[str, dict[str, Any]] = {}
    for name, measure in MEASURES.items():
        with PeakMemory(graph.y.device) as peak:
            measured[name] = measure(graph, config, repeats)
        measured[name]["peak_memory_mb"] = peak.megabytes
    return with_ratios(graph, config, repeats, TITLES, measured)


def with_ratios(
    graph: Graph, config: Config, repeats: int, titles: dict[str, str], measured: dict[str, dict[str, Any]]
) -> list[Record]:
    """The records of one run: what was measured, its ratio to end-to-end training in the same run, and the setting."""
    slow, pyg = (measured[name]["train_ms_per_epoch"] for name in ("end-to-end", "end-to-end-pyg"))
    common = {
        "dataset": graph.name,
        "task": graph.task,
        "backbone": config.backbone,
        "num_layers": config.num_layers,
        "hidden_channels": config.hidden_channels,
        "batch_size": config.batch_size,
        "repeats": repeats,
        "device": str(graph.y.device),
        "hardware": hardware(str(graph.y.device)),
        "threads": torch.get_num_threads(),
        "date": date.today().isoformat(),
        "versions": versions(),
    }
    return [
        {"method": name, "title": titles[name]}
        | common
        | row
        | {
            "speedup_vs_end_to_end": slow / row["train_ms_per_epoch"],
            "speedup_vs_pyg": pyg / row["train_ms_per_epoch"],
        }
        for name, row in measured.items()
    ]


def _shortcut(graph: Graph, config: Config, repeats: int) -> dict[str, Any]:
    model, operator, y = _rap(graph, config)
    start = time.perf_counter()
    representation = model.embed(graph.x, operator).rows(graph.train)
    _wait(y)
    precompute = time.perf_counter() - start
    work = len(graph.train) * config.hidden_channels * (config.num_layers + 1)
    times = []
    with threads_for(work):
        for _ in range(max(3, repeats)):
            scores = (model.head(h) for h in representation.draws(range(SHORTCUT_EPOCHS)))
            schedule = {"lr": 0.01, "weight_decay": 0.0, "epochs": SHORTCUT_EPOCHS}
            loop = optimise([model.head], lambda epoch, scores=scores: [(next(scores), y)], graph.objective, **schedule)
            times.append(loop.train_ms_per_epoch)
    return {"train_ms_per_epoch": statistics.median(times), "precompute_ms": 1e3 * precompute}


def _stepwise(graph: Graph, config: Config, repeats: int) -> dict[str, Any]:
    model, operator, y = _rap(graph, config.update(engine="stepwise"))
    draws = model.embed(graph.x, operator).rows(graph.train).draws(range(1 << 30))
    return _median_epoch(model.head, lambda: model.head(next(draws)), y, repeats)


def _end_to_end(graph: Graph, config: Config, repeats: int) -> dict[str, Any]:
    y = graph.y[graph.train]
    operator = graph.operator("gcn")
    model = EndToEnd(graph.num_features, graph.num_outputs, config).to(y.device)
    return _median_epoch(model, lambda: model(graph.x, operator)[graph.train], y, repeats)


def _end_to_end_pyg(graph: Graph, config: Config, repeats: int) -> dict[str, Any]:
    from torch_geometric.nn import GCNConv

    y, d = graph.y[graph.train], config.hidden_channels
    x, edges = dense(graph.x), graph.edge_index.to(y.device)
    with torch.random.fork_rng():
        model = nn.ModuleDict(
            {
                "embedding": nn.Linear(graph.num_features, d),
                "head": nn.Linear(d, graph.num_outputs),
                "layers": nn.ModuleList(
                    GCNConv(d, d, bias=False, cached=True, add_self_loops=False) for _ in range(config.num_layers)
                ),
            }
        ).to(y.device)

    def forward() -> Tensor:
        h = torch.relu(model["embedding"](x))
        for layer in model["layers"]:  # type: ignore[attr-defined]
            h = h + torch.relu(layer(h, edges))
        return model["head"](h)[graph.train]

    return _median_epoch(model, forward, y, repeats)


def _sgconv(graph: Graph, config: Config, repeats: int) -> dict[str, Any]:
    from torch_geometric.nn import SGConv

    y, x, edges = graph.y[graph.train], dense(graph.x), graph.edge_index.to(graph.y.device)
    with torch.random.fork_rng():
        model = SGConv(graph.num_features, graph.num_outputs, K=config.num_layers, cached=True).to(y.device)
    start = time.perf_counter()
    model(x, edges)
    _wait(y)
    precompute = 1e3 * (time.perf_counter() - start)
    return _median_epoch(model, lambda: model(x, edges)[graph.train], y, repeats * 4) | {"precompute_ms": precompute}


def _sign(graph: Graph, config: Config, repeats: int) -> dict[str, Any]:
    """Scalable Inception Graph Networks: a linear map per hop, kept for the training rows, as in PyG's example."""
    y, d = graph.y[graph.train], config.hidden_channels
    operator, hop = graph.operator("gcn").matrix, dense(graph.x)
    start = time.perf_counter()
    kept = [hop[graph.train]]
    for _ in range(config.num_layers):
        hop = operator @ hop
        kept.append(hop[graph.train])
    _wait(y)
    precompute = 1e3 * (time.perf_counter() - start)
    with torch.random.fork_rng():
        hops = nn.ModuleList(nn.Linear(graph.num_features, d) for _ in kept)
        model = nn.ModuleDict({"hops": hops, "head": nn.Linear(d * len(kept), graph.num_outputs)}).to(y.device)

    def forward() -> Tensor:
        parts = [torch.relu(linear(h)) for linear, h in zip(hops, kept, strict=True)]
        return model["head"](torch.cat(parts, dim=1))

    return _median_epoch(model, forward, y, repeats * 4) | {"precompute_ms": precompute}


MEASURES: dict[str, Callable[[Graph, Config, int], dict[str, Any]]] = {
    "rap": _shortcut,
    "rap-stepwise": _stepwise,
    "pyg-sgconv": _sgconv,
    "pyg-sign": _sign,
    "end-to-end": _end_to_end,
    "end-to-end-pyg": _end_to_end_pyg,
}


def _rap(graph: Graph, config: Config) -> tuple[RAPGNN, GraphOperator, Tensor]:
    model = RAPGNN(graph.num_features, out_channels=graph.num_outputs, **config.to_dict()).to(graph.y.device)
    assert isinstance(model.head, Head)
    return model, graph.operator("gcn"), graph.y[graph.train]


def _median_epoch(module: nn.Module, forward: Callable[[], Tensor], y: Tensor, repeats: int) -> dict[str, Any]:
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01, fused=True)
    times = []
    for _ in repeat(None, repeats + 1):  # the first one warms up
        start = time.perf_counter()
        optimizer.zero_grad()
        nn.functional.cross_entropy(forward(), y).backward()
        optimizer.step()
        _wait(y)
        times.append(1e3 * (time.perf_counter() - start))
    return {"train_ms_per_epoch": statistics.median(times[1:]), "precompute_ms": 0.0}


def _wait(tensor: Tensor) -> None:
    if tensor.is_cuda:
        torch.cuda.synchronize(tensor.device)
