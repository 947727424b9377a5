"""The kind "time": an epoch, a prediction and the peak memory of a strategy, measured as ``rapgnn bench`` does.

Spec of a cell: ``method``, ``backbone``, ``num_layers``, ``hidden_channels``, ``epochs`` (of what touches the labelled
rows alone), ``repeats``, the machine, and ``generated``, the parameters of a graph that is made for it.
"""

from collections.abc import Sequence
from dataclasses import asdict
from functools import cache, lru_cache

from rapgnn.experiments.bench.depth import bench_config, measure, warm_up_methods
from rapgnn.experiments.bench.generated import PowerLaw
from rapgnn.experiments.bench.ready import ReadyGraph, fits, message_bytes, ready, trained_bytes
from rapgnn.experiments.bench.rows import machine, measure_or_say
from rapgnn.experiments.reproduce.cells import Cell
from rapgnn.experiments.reproduce.item import Graphs, Scale
from rapgnn.experiments.reproduce.kinds import KINDS
from rapgnn.experiments.run import OnEpoch, Record
from rapgnn.graph.graph import Graph
from rapgnn.models.config import Config
from rapgnn.training.methods import METHODS

TITLES = {
    "pretrained-embedding": METHODS["pretrained-embedding"].title,
    "end-to-end": "End-to-End",
    "end-to-end-pyg": "End-to-End, PyG's layers",
    "fixed-diagonal": METHODS["fixed-diagonal"].title,
    "fixed-full": METHODS["fixed-full"].title,
    "random-full": METHODS["random-full"].title,
    "rap-stepwise": "RAP-GNN, layer by layer",
    "rap": "RAP-GNN, shortcut",
}
"""What is timed, in the order of the tables; a strategy's own name is that of its fastest exact way."""
SHARE = 0.05  # of a large graph's size, where the whole is too much
VERSION = 1


def share_of(scale: Scale, device: str, quick: float) -> float:
    """How much of a large graph's size is generated: all of it on a GPU, and ``quick`` in a quick run."""
    return quick if scale.quick else 1.0 if device.startswith("cuda") else SHARE


def time_cell(graph: str | PowerLaw, method: str, sizes: Record, device: str, labels: Record) -> Cell:
    """A cell of this kind.

    Args:
        graph: a dataset's name, or a graph to be generated.
        sizes: ``num_layers``, ``hidden_channels``, ``epochs``, ``repeats``, and ``backbone`` where it is not GCN.
    """
    name = graph if isinstance(graph, str) else graph.name
    spec = {"method": method, "backbone": "gcn"} | sizes | {"version": VERSION} | machine(device)
    if not isinstance(graph, str):
        spec["generated"] = asdict(graph)
    return Cell("time", name, spec, {"title": TITLES[method]} | labels)


def measure_time(cell: Cell, graphs: Graphs, on_epoch: OnEpoch) -> Record:
    """The times of one strategy; a ``note`` where it does not fit into memory."""
    spec = cell.spec
    graph = ready_graph(cell, graphs, spec["backbone"])
    _warm_up(spec["method"], graphs.device)
    config = bench_config(spec["num_layers"], spec["hidden_channels"])
    config = config.update(backbone=spec["backbone"], epochs=spec["epochs"])
    sizes = {"nodes": graph.num_nodes, "edges": graph.edge_index.shape[1], "task": graph.task}
    if not fits(_needed(spec["method"], graph, config), graph.y.device):
        return spec | sizes | {"note": "does not fit into memory"}
    return spec | sizes | measure_or_say(lambda: measure(spec["method"], graph, config, spec["repeats"]))


def ready_graph(cell: Cell, graphs: Graphs, backbone: str = "gcn") -> ReadyGraph:
    """The graph of a cell, features normalised, its operator built."""
    if "generated" in cell.spec:
        return _ready(PowerLaw(**cell.spec["generated"]), graphs.device, backbone)
    return ready(graphs.get(cell.dataset).normalized_features(), backbone)


@lru_cache(maxsize=1)
def _generated(size: PowerLaw, device: str) -> Graph:
    """The last one is kept: the cells of one graph follow one another."""
    return size.generate().normalized_features().to(device)


@lru_cache(maxsize=1)
def _ready(size: PowerLaw, device: str, backbone: str) -> ReadyGraph:
    return ready(_generated(size, device), backbone)


def describe_generated(records: Sequence[Record]) -> str:
    """What stands in for the large graphs, below a table."""
    said = []
    for r in {r["dataset"]: r for r in records if "generated" in r}.values():
        size = r["generated"]
        said.append(f"{r['dataset']}: {size['nodes']:,} nodes, {size['edges']:,} edges, {size['features']} features")
    return f"Generated graphs, degrees by a power law. {'; '.join(said)}." if said else ""


def _needed(method: str, graph: Graph, config: Config) -> int:
    """About the bytes of training, where they may be more than there are."""
    if method not in ("end-to-end", "end-to-end-pyg"):
        return 0
    messages = message_bytes(graph, config.hidden_channels) if method == "end-to-end-pyg" else 0
    return trained_bytes(graph, config) + messages


@cache
def _warm_up(method: str, device: str) -> None:
    """Once in a process: loading libraries is not charged to the first cell."""
    warm_up_methods(device, [method])


KINDS["time"] = measure_time
