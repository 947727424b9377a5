"""One epoch and one prediction by depth: RAP by the shortcut and layer by layer, the paper's other strategies,
end-to-end training on the same sparse product, and what a user would pick instead from PyTorch Geometric.

Every method validates after every epoch.
"""

import gc
import time
from collections.abc import Callable, Sequence

import torch

from rapgnn.datasets.synthetic import BlockModel
from rapgnn.experiments.bench import networks
from rapgnn.experiments.bench.ready import ReadyGraph, inference_times, ready
from rapgnn.experiments.bench.rows import Row, machine, measure_rows
from rapgnn.experiments.bench.timing import (
    Scores,
    affordable,
    loop_times,
    median_ms,
    median_times,
    train_epochs,
    wait,
    with_ratios,
)
from rapgnn.experiments.run import Record
from rapgnn.graph.graph import Graph
from rapgnn.memory import PeakMemory
from rapgnn.models.config import Config
from rapgnn.training.fit import build_rapgnn
from rapgnn.training.methods import fit

SHORTCUT_EPOCHS = 512
TITLES = {
    "rap": "RAP, shortcut",
    "fixed-diagonal": "fixed diagonal",
    "pretrained-embedding": "pretrained embedding",
    "pyg-sgconv": "PyG SGConv (cached)",
    "pyg-sign": "SIGN, training rows",
    "rap-stepwise": "RAP, layer by layer",
    "fixed-full": "fixed full",
    "random-full": "random full",
    "end-to-end": "end-to-end, CSR",
    "end-to-end-pyg": "end-to-end, PyG GCNConv",
}
SAME = ("dataset", "num_layers", "hidden_channels")
Measure = Callable[[ReadyGraph, Config, int], tuple[Record, Callable[[], Record]]]  # of training; of inference, later


def bench(
    graph: Graph, num_layers: int, hidden_channels: int, repeats: int, methods: Sequence[str] = tuple(TITLES)
) -> list[Record]:
    """All methods at one depth."""
    rows = plan(graph, [num_layers], hidden_channels, repeats, methods)
    return finish(measure_rows(rows))


def plan(
    graph: Graph, depths: Sequence[int], hidden_channels: int, repeats: int, methods: Sequence[str] = tuple(TITLES)
) -> list[Row]:
    """A row per depth and method. The light ones run first: what they leave behind cannot make them look lighter."""
    prepared: list[ReadyGraph] = []

    def graph_once() -> ReadyGraph:
        if not prepared:
            prepared.append(ready(graph.normalized_features()))
        return prepared[0]

    rows = []
    for depth in depths:
        config = bench_config(depth, hidden_channels).update(epochs=SHORTCUT_EPOCHS)
        for name in (n for n in TITLES if n in methods):
            settings = describe(graph, config) | {"method": name, "title": TITLES[name], "repeats": repeats}
            rows.append(Row(settings, lambda name=name, c=config: measure(name, graph_once(), c, repeats)))
    return rows


def warm_up_methods(device: torch.device | str, methods: Sequence[str] = tuple(TITLES)) -> None:
    """Run each method for a moment on a tiny graph, so that loading libraries is charged to none of them."""
    tiny = BlockModel(nodes=40, classes=2, features=8, train=5, val=10, test=10).generate().to(device)
    for name in methods:
        measure(name, ready(tiny), bench_config(2, 8).update(epochs=2), 1)


def finish(records: Sequence[Record]) -> list[Record]:
    """The records with their ratios to end-to-end training at the same depth."""
    return with_ratios(records, SAME)


def bench_config(num_layers: int, hidden_channels: int) -> Config:
    """The same network for every method: no dropout, an embedding that is drawn once."""
    settings = {"embedding": "fixed-random", "dropout": 0.0, "layer_dropout": 0.0, "normalize_features": False}
    return Config(num_layers=num_layers, hidden_channels=hidden_channels, **settings)


def describe(graph: Graph, config: Config) -> Record:
    """What every record of a run says of its graph, its network and the machine."""
    return {
        "dataset": graph.name,
        "task": graph.task,
        "nodes": graph.num_nodes,
        "edges": graph.edge_index.shape[1],
        "backbone": config.backbone,
        "num_layers": config.num_layers,
        "hidden_channels": config.hidden_channels,
        "batch_size": config.batch_size,
    } | machine(graph.y.device)


def measure(name: str, graph: ReadyGraph, config: Config, repeats: int) -> Record:
    """One method at one depth; the peak is that of training."""
    with PeakMemory(graph.y.device) as peak:
        trained, infer = MEASURES[name](graph, config, repeats)
    return trained | infer() | {"peak_memory_mb": peak.megabytes}


def _kept(method: str, settings: Record) -> Measure:
    """A method whose epochs touch the labelled rows alone: many epochs, several times over."""

    def measure(graph: ReadyGraph, config: Config, repeats: int) -> tuple[Record, Callable[[], Record]]:
        config = config.update(pretrain_epochs=config.epochs, **settings)
        precompute = 0.0 if method == "pretrained-embedding" else _hop_ms(method, graph, config)
        fit(method, graph, config.update(epochs=2, pretrain_epochs=2), 0)
        gc.collect()  # a fit before this one is no part of its memory
        start = time.perf_counter()
        fitted = fit(method, graph, config, 0)
        more = affordable(time.perf_counter() - start, max(3, repeats)) - 1
        loops = [fitted.loop, *(fit(method, graph, config, seed).loop for seed in range(1, more + 1))]
        times = median_times([loop_times(loop, whole=True) for loop in loops])
        return times | {"precompute_ms": precompute}, lambda: inference_times(fitted, graph, repeats)

    return measure


def _walking(method: str, settings: Record) -> Measure:
    """A method whose every epoch walks over the graph."""

    def measure(graph: ReadyGraph, config: Config, repeats: int) -> tuple[Record, Callable[[], Record]]:
        config = config.update(**settings)
        first = fit(method, graph, config.update(epochs=1), 0).loop  # warms up
        gc.collect()
        seconds = (first.train_ms_per_epoch + first.eval_ms_per_epoch) / 1e3
        fitted = fit(method, graph, config.update(epochs=1 + affordable(seconds, repeats)), 0)
        times = loop_times(fitted.loop, whole=False) | {"precompute_ms": 0.0}
        return times, lambda: inference_times(fitted, graph, affordable(seconds, repeats))

    return measure


def _hop_ms(method: str, graph: ReadyGraph, config: Config) -> float:
    """What comes before the first epoch: embedding and hops, or the one forward pass."""
    from rapgnn.training.methods import METHODS

    config = METHODS[method].configure(config)
    operator = graph.operator(config.backbone)
    model = build_rapgnn(graph, operator, config, 0)
    wait(graph.y.device)
    start = time.perf_counter()
    representation = model.embed(graph.x, operator).rows(graph.train, expect=graph.val)
    if representation.embedded.constant:
        next(representation.draws([0]))
    wait(graph.y.device)
    return 1e3 * (time.perf_counter() - start)


def _peer(build: Callable[[Graph, Config], Scores], beforehand: bool, more: int = 1) -> Measure:
    """A network of PyTorch Geometric in a loop of its user's."""

    def measure(graph: ReadyGraph, config: Config, repeats: int) -> tuple[Record, Callable[[], Record]]:
        device = graph.y.device
        start = time.perf_counter()
        network = build(graph, config)
        if beforehand:
            with torch.no_grad():
                network.val()
        wait(device)
        precompute = 1e3 * (time.perf_counter() - start) if beforehand else 0.0
        y = graph.y
        times = train_epochs(network, y[graph.train], y[graph.val], graph.objective, repeats * more)
        network.module.eval()

        def infer() -> Record:
            rows = len(graph.test) if build is networks.sign else graph.num_nodes
            test, every = (median_ms(work, device, repeats) for work in (network.test, network.every))
            return {"infer_ms": test, "infer_all_ms": every, "infer_rows": rows}

        return times | {"precompute_ms": precompute}, infer

    return measure


MEASURES: dict[str, Measure] = {
    "rap": _kept("rap", {}),
    "fixed-diagonal": _kept("fixed-diagonal", {}),
    "pretrained-embedding": _kept("pretrained-embedding", {"embedding": "pretrained", "pretrain_dropout": 0.0}),
    "pyg-sgconv": _peer(networks.sgconv, beforehand=True, more=4),
    "pyg-sign": _peer(networks.sign, beforehand=True, more=4),
    "rap-stepwise": _walking("rap", {"engine": "stepwise"}),
    "fixed-full": _kept("fixed-full", {}),
    "random-full": _walking("random-full", {}),
    "end-to-end": _walking("end-to-end", {}),
    "end-to-end-pyg": _peer(networks.gcn, beforehand=False),
}
