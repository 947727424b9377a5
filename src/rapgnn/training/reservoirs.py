"""Training a reservoir system: its random layers stay as they are, the readout and a few settings are chosen."""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph
from rapgnn.layers.heads import Head
from rapgnn.layers.matrices import RandomMatrix
from rapgnn.layers.reservoir import RandomLayer
from rapgnn.layers.standardize import Standardize
from rapgnn.layers.targets import TargetScale
from rapgnn.models.config import Config
from rapgnn.models.reservoirs.encoder import ReservoirEncoder, choices
from rapgnn.models.reservoirs.fdgnn import FDGNN, FDGNNSettings
from rapgnn.models.reservoirs.multiresolution import MRGNN, MRGNNSettings
from rapgnn.models.reservoirs.network import ReservoirNetwork
from rapgnn.models.reservoirs.pyramid import PRGNN, PRGNNSettings
from rapgnn.models.reservoirs.untrained import UGCN, UGCNSettings
from rapgnn.prng import Stream, seeded
from rapgnn.training.fit import Fitted
from rapgnn.training.loop import Loop, OnEpoch
from rapgnn.training.predict import Prediction, as_prediction
from rapgnn.training.readouts import Choice, Gradient, Readouts


@dataclass(frozen=True)
class System:
    """A reservoir system.

    Args:
        title: in tables.
        settings: of its paper; tuples hold what validation chooses from.
        build: (graph, settings, seed) -> the encoder.
        nodes: whether nodes can be classified with it, or graphs alone.
        standardize: whether the readout's columns get mean 0 and variance 1 over the training rows.
    """

    title: str
    settings: Any
    build: Callable[[Graph, Any, int], ReservoirEncoder]
    nodes: bool = False
    standardize: bool = False


SYSTEMS = {
    "fdgnn": System("FDGNN", FDGNNSettings(), FDGNN.of, nodes=True),
    "u-gcn": System("U-GCN", UGCNSettings(), UGCN.of, nodes=True, standardize=True),
    "mrgnn": System("MRGNN", MRGNNSettings(), MRGNN.of, standardize=True),
    "p-rgnn": System("P-RGNN", PRGNNSettings(), PRGNN.of),
}
"""The reservoir systems by name."""


@torch.inference_mode(False)  # also where a user has switched it on
def fit_reservoir(
    name: str, graph: Graph, config: Config, seed: int, on_epoch: OnEpoch | None = None, settings: Any = None
) -> Fitted:
    """Try the system's settings one after another, and keep those whose readout is best on validation.

    Args:
        name: of ``SYSTEMS``.
        config: of RAP-GNN; a reservoir system has settings of its own.
        settings: None: those of its paper.
    """
    system = SYSTEMS[name]
    if graph.ptr is None and not system.nodes:
        raise InputError(f"{system.title} classifies graphs, not nodes: leave {name} out with --methods.")
    begun, choice, found = time.perf_counter(), Choice(), None
    output = TargetScale(graph.num_outputs).to(graph.y.device)
    if graph.objective.metric == "rmse":
        output.fit(graph.y[graph.train])
    for point, encoder, context, parts in _encoded(system, settings or system.settings, graph, seed):
        for network in _networks(system, point, encoder, parts, graph, output, seed):
            if _try(network, point, parts, graph, choice, seed):
                found = network, point, context
        if on_epoch:
            on_epoch()
    assert found is not None
    assert choice.head is not None
    (network, point, context), tried = found, max(1, len(choice.history))
    network.head = choice.head
    milliseconds = 1e3 * (time.perf_counter() - begun)
    best = choice.merit if choice.history else None
    loop = Loop(choice.at, tried, milliseconds / tried, 0.0, choice.history, best=best)

    def predict(rows: Tensor) -> Prediction:
        return as_prediction(network(graph.x, context, rows), graph.objective, network.output)

    chosen = asdict(point) | {"depth": network.depth} | choice.named
    return Fitted(network.eval(), predict, loop, "stepwise", "random layers with a non-linearity", "expected", chosen)


def _encoded(
    system: System, settings: Any, graph: Graph, seed: int
) -> Iterator[tuple[Any, ReservoirEncoder, Any, list[Tensor]]]:
    """Each point of the settings with its encoder and its features; made once where only the readout differs."""
    rows = torch.cat([graph.train, graph.val])
    last: tuple[Any, Any] = (None, None)
    contexts: dict[Any, Any] = {}
    for point in choices(settings) if len(graph.val) else choices(settings)[:1]:  # the first, if nothing can choose
        same = replace(point, projection_scaling=0.0) if hasattr(point, "projection_scaling") else point
        if last[0] != same:
            encoder = system.build(graph, point, seed)
            kind = getattr(point, "matrix", None)
            if kind not in contexts:
                contexts[kind] = encoder.context(graph)
            encoder.fit(graph.x, contexts[kind], graph.train)
            last = same, (encoder, contexts[kind], encoder.encode(graph.x, contexts[kind], rows))
        yield point, *last[1]


def _networks(
    system: System,
    point: Any,
    encoder: ReservoirEncoder,
    parts: list[Tensor],
    graph: Graph,
    output: TargetScale,
    seed: int,
) -> Iterator[ReservoirNetwork]:
    """The system without a readout, for each depth; the deepest alone where nothing can choose."""
    units = getattr(point, "projection", 0)
    for depth in encoder.depths if len(graph.val) else encoder.depths[-1:]:
        width = encoder.columns(parts, depth).shape[1]
        projection = None
        if units:
            weights = RandomMatrix("uniform", size=point.projection_scaling, measure="norm", seed=seed)
            projection = RandomLayer(width, units, weights, layer=len(encoder.depths)).to(graph.y.device)
        network = ReservoirNetwork(encoder, depth, torch.nn.Identity(), output, projection)
        if system.standardize:
            columns = network.columns([part[: len(graph.train)] for part in parts])
            network.standardize = Standardize(columns.shape[1]).to(columns.device).fit([columns])
        yield network


def _try(network: ReservoirNetwork, point: Any, parts: list[Tensor], graph: Graph, choice: Choice, seed: int) -> bool:
    """Try the readouts of a network; whether one is the best so far."""
    with torch.no_grad():
        train, val = network.columns(parts).split([len(graph.train), len(graph.val)])
    readouts = Readouts(graph, train, val, network.output)
    better = readouts.try_ridge(choice)
    epochs = getattr(point, "epochs", 0)
    if epochs and network.depth == max(network.encoder.depths):
        hidden = max(1, point.units // 2) * network.depth
        start = seeded(seed, Stream.START_VALUES)
        head = Head(train.shape[1], hidden, graph.num_outputs, 2, dropout=point.dropout, generator=start)
        how = Gradient(epochs, point.learning_rate, point.weight_decay, point.batch_size)
        better = readouts.try_network(choice, head.to(train.device), how, seed) or better
    return better
