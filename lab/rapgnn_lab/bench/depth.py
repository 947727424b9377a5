"""One epoch, one prediction and peak memory: RAP by the shortcut and layer by layer, the paper's other strategies,
end-to-end training on the same sparse product, and what a user would pick instead from PyTorch Geometric.

Times are taken on one graph by depth, and on many graphs in batches; every method validates after every epoch. Memory
is that of training, on a graph by depth and at ogbn-proteins' size. On a GPU it is the peak of torch's allocator. On a
CPU every method runs in a process of its own (``python -m`` of this module), and it is the peak resident size of that
process. Both are above what the loaded data take: features and operator.
"""

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path

import torch

from rapgnn import Config, Graph, compare, load_dataset
from rapgnn.compare import Record, fit, warm_up
from rapgnn.datasets.catalog import BlockModel
from rapgnn.memory import PeakMemory
from rapgnn.search.start import graph_backbone
from rapgnn.training.fit import build_rapgnn
from rapgnn_lab.bench import rivals, timing
from rapgnn_lab.bench.generated import PowerLaw
from rapgnn_lab.store import Row, answer, machine, with_ratios
from rapgnn_lab.store import in_child as measure_in_child

SHORTCUT_EPOCHS, GRAPH_EPOCHS = 512, 128
GRAPH_LAYERS, GRAPH_HIDDEN = 4, 64
GRAPH_TITLES = {
    "rap": "RAP, shortcut",
    "rap-stepwise": "RAP, layer by layer",
    "end-to-end": "end-to-end",
    "end-to-end-pyg": "end-to-end, PyG",
}
TIMES = ("train_ms_per_epoch", "eval_ms_per_epoch", "epoch_ms", "steady_ms_per_epoch")
Measure = Callable[[Graph, Config, int], tuple[Record, Callable[[], Record]]]  # of training; of inference, later


def tiny_graph(device: torch.device | str) -> timing.ReadyGraph:
    return timing.ready(BlockModel(nodes=40, classes=2, features=8, train=5, val=10, test=10).generate().to(device))


def bench_config(num_layers: int, hidden_channels: int) -> Config:
    """The same network for every method: no dropout, an embedding that is drawn once."""
    settings = {"embedding": "fixed-random", "dropout": 0.0, "layer_dropout": 0.0, "normalize_features": False}
    return Config(num_layers=num_layers, hidden_channels=hidden_channels, **settings)


def describe(graph: Graph, config: Config) -> Record:
    """What every record of a run says of its graph, its network and the machine."""
    sizes = {"dataset": graph.name, "task": graph.task, "nodes": graph.num_nodes, "edges": graph.edge_index.shape[1]}
    names = ("backbone", "num_layers", "hidden_channels", "batch_size")
    return sizes | {name: getattr(config, name) for name in names} | machine(graph.y.device)


def measure(name: str, graph: Graph, config: Config, repeats: int) -> Record:
    return measure_costs(MEASURES[name], graph, config, repeats)


def measure_costs(method: Measure, graph: Graph, config: Config, repeats: int) -> Record:
    """The times of a method; the peak is that of training."""
    with PeakMemory(graph.y.device) as peak:
        trained, infer = method(graph, config, repeats)
    return trained | infer() | {"peak_memory_mb": peak.megabytes}


def _labelled_rows(method: str, settings: Record) -> Measure:
    """A method whose epochs touch the labelled rows alone: many epochs, several times over."""

    def measure(graph: Graph, config: Config, repeats: int) -> tuple[Record, Callable[[], Record]]:
        config = config.update(pretrain_epochs=config.epochs, **settings)
        precompute = 0.0 if method == "pretrained-embedding" else _hop_ms(method, graph, config)
        fit(method, graph, config.update(epochs=2, pretrain_epochs=2), 0)
        gc.collect()  # a fit before this one is no part of its memory
        start = time.perf_counter()
        fitted = fit(method, graph, config, 0)
        count = timing.affordable(time.perf_counter() - start, max(3, repeats))
        loops = [fitted.loop, *(fit(method, graph, config, seed).loop for seed in range(1, count))]
        times = [timing.loop_times(loop, whole=True) for loop in loops]
        medians = {key: statistics.median(t[key] for t in times) for key in TIMES}
        trained = times[0] | medians | {"precompute_ms": precompute}
        return trained, lambda: timing.inference_times(fitted, graph, repeats)

    return measure


def walking(method: str, settings: Record) -> Measure:
    """A method whose every epoch walks over the graph."""

    def measure(graph: Graph, config: Config, repeats: int) -> tuple[Record, Callable[[], Record]]:
        config = config.update(**settings)
        first = fit(method, graph, config.update(epochs=1), 0).loop  # warms up
        gc.collect()
        count = timing.affordable((first.train_ms_per_epoch + first.eval_ms_per_epoch) / 1e3, repeats)
        fitted = fit(method, graph, config.update(epochs=1 + count), 0)
        times = timing.loop_times(fitted.loop, whole=False) | {"precompute_ms": 0.0}
        return times, lambda: timing.inference_times(fitted, graph, count)

    return measure


def _hop_ms(method: str, graph: Graph, config: Config) -> float:
    """What comes before the first epoch: embedding and hops, or the one forward pass."""
    model, graph, operator = build_rapgnn(graph, compare.METHODS[method].configure(config), 0)

    def walk() -> None:
        representation = model.embed(graph.x, operator).rows(graph.train, expect=graph.val)
        if representation.embedded.constant:
            next(representation.draws([0]))

    return 1e3 * timing.seconds_of(walk, graph.y.device)


def peer(build: Callable[[Graph, Config], timing.Network], beforehand: bool, more: int = 1) -> Measure:
    """A network of PyTorch Geometric in a loop of its user's."""

    def measure(graph: Graph, config: Config, repeats: int) -> tuple[Record, Callable[[], Record]]:
        device = graph.y.device
        start = time.perf_counter()
        network = build(graph, config)
        if beforehand:
            with torch.no_grad():
                network.val()
        timing.wait(device)
        precompute = 1e3 * (time.perf_counter() - start) if beforehand else 0.0
        with torch.random.fork_rng():
            times = timing.train_epochs(network, graph, repeats * more)

        def infer() -> Record:
            test = timing.median_ms(network.test, device, repeats) if len(graph.test) else None
            every = None if network.every is None else timing.median_ms(network.every, device, repeats)
            walks = every is not None and build is not rivals.sign
            rows = graph.num_nodes if walks else len(graph.test)
            return {"infer_ms": test, "infer_all_ms": every, "infer_rows": rows}

        return times | {"precompute_ms": precompute}, infer

    return measure


PEERS = {"pyg-sgconv": rivals.sgconv, "pyg-sign": rivals.sign, "end-to-end-pyg": rivals.gcn}
PRETRAINED = {"embedding": "pretrained", "pretrain_dropout": 0.0}
METHODS: dict[str, tuple[str, Measure]] = {
    "rap": ("RAP, shortcut", _labelled_rows("rap", {})),
    "fixed-diagonal": ("fixed diagonal", _labelled_rows("fixed-diagonal", {})),
    "pretrained-embedding": ("pretrained embedding", _labelled_rows("pretrained-embedding", PRETRAINED)),
    "pyg-sgconv": ("PyG SGConv (cached)", peer(rivals.sgconv, beforehand=True, more=4)),
    "pyg-sign": ("SIGN, training rows", peer(rivals.sign, beforehand=True, more=4)),
    "rap-stepwise": ("RAP, layer by layer", walking("rap", {"engine": "stepwise"})),
    "fixed-full": ("fixed full", _labelled_rows("fixed-full", {})),
    "random-full": ("random full", walking("random-full", {})),
    "end-to-end": ("end-to-end, CSR", walking("end-to-end", {})),
    "end-to-end-pyg": ("end-to-end, PyG GCNConv", peer(rivals.gcn, beforehand=False)),
}
"""The title of every method, and what measures it."""
TITLES = {name: title for name, (title, _) in METHODS.items()}
MEASURES = {name: measure for name, (_, measure) in METHODS.items()}


def plan(
    graph: Graph,
    depths: Sequence[int],
    hidden_channels: int,
    repeats: int,
    methods: Sequence[str] = tuple(TITLES),
    epochs: int = SHORTCUT_EPOCHS,
) -> list[Row]:
    """A row per depth and method. The light ones run first: what they leave behind cannot make them look lighter."""
    once = cache(lambda: timing.ready(graph.normalized_features()))
    rows = []
    for depth in depths:
        config = bench_config(depth, hidden_channels).update(epochs=epochs)
        for name in (n for n in TITLES if n in methods):
            settings = describe(graph, config) | {"method": name, "title": TITLES[name], "repeats": repeats}
            rows.append(Row(settings, lambda name=name, c=config: measure(name, once(), c, repeats)))
    return rows


def warm_up_methods(device: torch.device | str, methods: Sequence[str] = tuple(TITLES)) -> None:
    """Run each method for a moment on a tiny graph, so that loading libraries is charged to none of them."""
    for name in methods:
        measure(name, tiny_graph(device), bench_config(2, 8).update(epochs=2), 1)


def plan_graphs(graph: Graph, batch_size: int, repeats: int, epochs: int = GRAPH_EPOCHS) -> list[Row]:
    """A row per method, the light ones first; ``epochs`` are those of the shortcut."""
    settings = {"embedding": "fixed-random", "dropout": 0.0, "normalize_features": False, "batch_size": batch_size}
    settings |= {"backbone": graph_backbone(graph), "num_layers": GRAPH_LAYERS, "hidden_channels": GRAPH_HIDDEN}
    config = Config(**settings, epochs=epochs)
    # End to end the paper's layers: an MLP of one hidden layer for TU, of two for OGB, with batch norm.
    trained = {"factors": 3 if config.backbone == "gine" else 2, "batch_norm": True}
    measures = MEASURES | {"end-to-end": walking("end-to-end", trained)}
    measures["end-to-end-pyg"] = peer(partial(rivals.gin, factors=trained["factors"]), beforehand=False)
    common = describe(graph, config) | {"graphs": graph.num_rows, "repeats": repeats}

    def measure(name: str) -> Record:
        warm_up(["rap", "end-to-end"], str(graph.y.device), graphs=True)
        return measure_costs(measures[name], graph, config, repeats)

    return [Row(common | {"method": m, "title": title}, partial(measure, m)) for m, title in GRAPH_TITLES.items()]


# Peak memory of training.

MEMORY_HIDDEN, SHARE_LAYERS = 256, 4  # channels; layers on a graph of ogbn-proteins' size
MEMORY_EPOCHS = 3  # of what walks over the graph: buffers of the optimiser are there from the second on
LABELLED_EPOCHS = 64  # of what touches the labelled rows alone: draws are made many together
WALKS = ("rap-stepwise", "random-full", "end-to-end")
in_child = partial(measure_in_child, "rapgnn_lab.bench.depth")


def plan_memory(
    data: str | PowerLaw, depths: Sequence[int], methods: Sequence[str] = tuple(TITLES), device: str = "cpu"
) -> list[Row]:
    """A row per depth and method, of a dataset or of a graph to be generated."""
    name, source = (data, data) if isinstance(data, str) else (data.name, asdict(data))
    loaded = cache(lambda: load_graph({"data": source, "device": device}))

    def row(depth: int, method: str) -> Row:
        task = {"data": source, "method": method, "num_layers": depth, "hidden_channels": MEMORY_HIDDEN}
        request = task | {"device": device}
        measure = lambda: in_child(request) if device == "cpu" else peak_of(request, loaded())  # noqa: E731
        return Row({"dataset": name, "title": TITLES[method]} | task | machine(device), measure)

    return [row(depth, method) for depth in depths for method in TITLES if method in methods]


with_memory_ratios = partial(with_ratios, wanted={"memory_ratio_vs_end_to_end": ("end-to-end", "peak_memory_mb")})


def load_graph(request: Record) -> timing.ReadyGraph:
    """The graph of a request, its operator built, on its device."""
    data, data_dir = request["data"], request.get("data_dir")
    graph = load_dataset(data, data_dir and Path(data_dir)) if isinstance(data, str) else PowerLaw(**data).generate()
    return timing.ready(graph.normalized_features().to(request["device"]))


def peak_of(request: Record, graph: timing.ReadyGraph) -> Record:
    """Train one method for a few epochs: its peak above what is there, and what that is."""
    name, device = request["method"], graph.y.device
    config = bench_config(request["num_layers"], request["hidden_channels"])
    _train(name, tiny_graph(device), bench_config(2, 8))  # what libraries take is nobody's
    sizes = {"nodes": graph.num_nodes, "edges": graph.edge_index.shape[1], "task": graph.task}
    sizes["data_mb"] = (graph.x.nbytes + graph.operator("gcn").matrix.nbytes) / 2**20
    if not timing.fits(needed_bytes(name, graph, config), device):
        return sizes | {"peak_memory_mb": None, "note": "does not fit"}
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    with PeakMemory(device) as peak:
        _train(name, graph, config)
    return {"peak_memory_mb": peak.megabytes} | sizes


def needed_bytes(name: str, graph: Graph, config: Config) -> int:
    """About the bytes of the methods that may need more than there are."""
    if name == "end-to-end":
        return timing.trained_bytes(graph, config)
    if name == "end-to-end-pyg":
        return timing.trained_bytes(graph, config) + timing.message_bytes(graph, config.hidden_channels)
    return timing.message_bytes(graph, graph.num_features) if name == "pyg-sgconv" else 0


def _train(name: str, graph: timing.ReadyGraph, config: Config) -> None:
    if name in PEERS:
        timing.train_epochs(PEERS[name](graph, config), graph, MEMORY_EPOCHS - 1)
        return
    many = name not in WALKS and graph.objective.metric == "accuracy"  # ranks of many labels take longer than all else
    epochs = LABELLED_EPOCHS if many else MEMORY_EPOCHS
    if name == "pretrained-embedding":
        config = config.update(embedding="pretrained", pretrain_epochs=epochs)
    else:
        config = config.update(epochs=epochs, engine="stepwise" if name == "rap-stepwise" else config.engine)
    fit("rap" if name == "rap-stepwise" else name, graph, config, 0)


if __name__ == "__main__":
    answer(lambda request: peak_of(request, load_graph(request)))
