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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rapgnn import compare
from rapgnn.compare import Record, fit, warm_up
from rapgnn.datasets import load_dataset
from rapgnn.datasets.catalog import BlockModel
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import edge_bounds
from rapgnn.memory import PeakMemory
from rapgnn.network.config import Config
from rapgnn.search.start import graph_backbone
from rapgnn.sparse import dense
from rapgnn.training.fit import build_rapgnn
from rapgnn_lab.bench import timing
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
            walks = every is not None and build is not sign
            rows = graph.num_nodes if walks else len(graph.test)
            return {"infer_ms": test, "infer_all_ms": every, "infer_rows": rows}

        return times | {"precompute_ms": precompute}, infer

    return measure


def gcn(graph: Graph, config: Config) -> timing.Network:
    """Linear embedding, residual GCNConv layers, linear head: every pass goes over the whole graph."""
    from torch_geometric.nn import GCNConv

    device, d = graph.y.device, config.hidden_channels
    x, edges = dense(graph.x), graph.edge_index.to(device)
    with torch.random.fork_rng():
        layers = nn.ModuleList(
            GCNConv(d, d, bias=False, cached=True, add_self_loops=False) for _ in range(config.num_layers)
        )
        embedding, head = nn.Linear(graph.num_features, d), nn.Linear(d, graph.num_outputs)
        module = nn.ModuleDict({"embedding": embedding, "layers": layers, "head": head}).to(device)

    def every() -> Tensor:
        h = torch.relu(embedding(x))
        for layer in layers:
            h = h + torch.relu(layer(h, edges))
        return head(h)

    return _network(module, lambda split: every()[graph.rows(split)], every, graph)


def sgconv(graph: Graph, config: Config) -> timing.Network:
    """SGConv with its propagated features cached."""
    from torch_geometric.nn import SGConv

    device = graph.y.device
    x, edges = dense(graph.x), graph.edge_index.to(device)
    with torch.random.fork_rng():
        module = SGConv(graph.num_features, graph.num_outputs, K=config.num_layers, cached=True).to(device)
    return _network(module, lambda split: module(x, edges)[graph.rows(split)], lambda: module(x, edges), graph)


class Sign(nn.Module):
    """Scalable Inception Graph Networks: a linear map per hop, and a head on all of them."""

    def __init__(self, in_channels: int, hidden: int, outputs: int, num_layers: int, dropout: float = 0.0):
        super().__init__()
        self.hops = nn.ModuleList(nn.Linear(in_channels, hidden) for _ in range(num_layers + 1))
        self.head, self.drop = nn.Linear(hidden * (num_layers + 1), outputs), nn.Dropout(dropout)

    def forward(self, hops: Sequence[Tensor]) -> Tensor:
        parts = [self.drop(torch.relu(linear(hop))) for linear, hop in zip(self.hops, hops, strict=True)]
        return self.head(torch.cat(parts, dim=1))


def sign(graph: Graph, config: Config) -> timing.Network:
    d, matrix, x = config.hidden_channels, graph.operator(config.backbone).matrix, dense(graph.x)

    def walk() -> Iterator[Tensor]:
        yield (hop := x)
        for _ in range(config.num_layers):
            yield (hop := matrix @ hop)

    stored: dict[str, list[Tensor]] = {split: [] for split in ("train", "val", "test")}
    for hop in walk():
        for split, parts in stored.items():
            parts.append(hop[graph.rows(split)])
    with torch.random.fork_rng():
        module = Sign(graph.num_features, d, graph.num_outputs, config.num_layers, config.dropout).to(graph.y.device)

    def every() -> Tensor:
        out = module.head.bias.expand(graph.num_nodes, -1)
        for linear, weight, hop in zip(module.hops, module.head.weight.split(d, dim=1), walk(), strict=True):
            out = out + torch.relu(linear(hop)) @ weight.T
        return out

    return _network(module, lambda split: module(stored[split]), every, graph)


def _network(
    module: nn.Module, scores: Callable[[str], Tensor], every: Callable[[], Tensor], graph: Graph
) -> timing.Network:
    """A network whose epoch is one step over all training rows."""
    y = graph.y[graph.train]
    return timing.Network(module, lambda: [(scores("train"), y)], lambda: scores("val"), lambda: scores("test"), every)


PEERS = {"pyg-sgconv": sgconv, "pyg-sign": sign, "end-to-end-pyg": gcn}
PRETRAINED = {"embedding": "pretrained", "pretrain_dropout": 0.0}
METHODS: dict[str, tuple[str, Measure]] = {
    "rap": ("RAP, shortcut", _labelled_rows("rap", {})),
    "fixed-diagonal": ("fixed diagonal", _labelled_rows("fixed-diagonal", {})),
    "pretrained-embedding": ("pretrained embedding", _labelled_rows("pretrained-embedding", PRETRAINED)),
    "pyg-sgconv": ("PyG SGConv (cached)", peer(sgconv, beforehand=True, more=4)),
    "pyg-sign": ("SIGN, training rows", peer(sign, beforehand=True, more=4)),
    "rap-stepwise": ("RAP, layer by layer", walking("rap", {"engine": "stepwise"})),
    "fixed-full": ("fixed full", _labelled_rows("fixed-full", {})),
    "random-full": ("random full", walking("random-full", {})),
    "end-to-end": ("end-to-end, CSR", walking("end-to-end", {})),
    "end-to-end-pyg": ("end-to-end, PyG GCNConv", peer(gcn, beforehand=False)),
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
    measures["end-to-end-pyg"] = peer(partial(gin, factors=trained["factors"]), beforehand=False)
    common = describe(graph, config) | {"graphs": graph.num_rows, "repeats": repeats}

    def measure(name: str) -> Record:
        warm_up(["rap", "end-to-end"], str(graph.y.device), graphs=True)
        return measure_costs(measures[name], graph, config, repeats)

    return [Row(common | {"method": m, "title": title}, partial(measure, m)) for m, title in GRAPH_TITLES.items()]


def gin(graph: Graph, config: Config, factors: int) -> timing.Network:
    """GIN or GINE with PyG's loader of batches."""
    from torch_geometric.loader import DataLoader

    device, size = graph.y.device, config.batch_size or len(graph.train)
    with torch.random.fork_rng():
        module = _PyGNetwork(graph, config, factors).to(device)
    loaders = {s: DataLoader(data_list(graph, s), size, shuffle=s == "train") for s in ("train", "val", "test")}

    def steps() -> Iterator[tuple[Tensor, Tensor]]:
        for batch in loaders["train"]:
            batch = batch.to(device)
            yield module(batch), batch.y

    def scores(split: str) -> Tensor:
        return torch.cat([module(batch.to(device)) for batch in loaders[split]])

    return timing.Network(module, steps, lambda: scores("val"), lambda: scores("test"))


class _PyGNetwork(nn.Module):
    """GINConv or GINEConv layers as in PyTorch Geometric's and OGB's examples, sum pooling, a linear head."""

    def __init__(self, graph: Graph, config: Config, factors: int):
        from torch_geometric.nn import MLP, GINConv, GINEConv

        super().__init__()
        d, self.edges = config.hidden_channels, config.backbone == "gine"
        self.embedding = nn.Linear(graph.num_features, d)
        networks = [MLP([d] * (factors + 1), norm="batch_norm") for _ in range(config.num_layers)]
        more: dict[str, Any] = {"edge_dim": graph.num_edge_features} if self.edges else {}
        self.layers = nn.ModuleList((GINEConv if self.edges else GINConv)(network, **more) for network in networks)
        self.head = nn.Linear(d, graph.num_outputs)

    def forward(self, batch: Any) -> Tensor:
        from torch_geometric.nn import global_add_pool

        h = torch.relu(self.embedding(batch.x))
        edges = (batch.edge_index, batch.edge_attr) if self.edges else (batch.edge_index,)
        for layer in self.layers:
            h = torch.relu(layer(h, *edges))
        return self.head(global_add_pool(h, batch.batch, size=batch.num_graphs))


def data_list(graph: Graph, split: str) -> list[Any]:
    """The graphs of a split as PyG takes them."""
    from torch_geometric.data import Data

    assert graph.ptr is not None
    ptr, x = graph.ptr.cpu(), dense(graph.x).cpu()
    bounds = edge_bounds(ptr, graph.edge_index[0].numpy())
    edge_attr = None if graph.edge_attr is None else dense(graph.edge_attr).cpu()
    data = []
    for g in graph.rows(split).tolist():
        nodes, edges = slice(int(ptr[g]), int(ptr[g + 1])), slice(int(bounds[g]), int(bounds[g + 1]))
        attributes = None if edge_attr is None else edge_attr[edges]
        ends = graph.edge_index[:, edges] - ptr[g]
        data.append(Data(x=x[nodes], edge_index=ends, edge_attr=attributes, y=graph.y[g : g + 1].cpu()))
    return data


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
