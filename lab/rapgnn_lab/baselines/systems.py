"""Training a reservoir system: its random layers stay as they are, the readout and a few settings are chosen."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from rapgnn import Config, Graph, InputError, compare
from rapgnn.compare import Method, Record
from rapgnn.network.encode import Standard
from rapgnn.network.heads import Head, RidgeHead, RidgeRegression, TargetScale
from rapgnn.prng import Stream, seeded
from rapgnn.training.fit import Fitted, ridge_targets, row_weights, train_on_features
from rapgnn.training.loop import Loop, OnEpoch
from rapgnn.training.predict import Prediction, as_prediction
from rapgnn_lab.baselines.encoders import FDGNN, MRGNN, UGCN
from rapgnn_lab.baselines.prgnn import PRGNN
from rapgnn_lab.baselines.reservoir import RandomLayer, RandomMatrix, ReservoirEncoder, ReservoirNetwork, choices
from rapgnn_lab.store import packaged

PENALTIES = tuple(10.0**k for k in range(-4, 3))
"""The λ that validation chooses a readout's from."""


@dataclass(frozen=True)
class System:
    """A reservoir system with its paper's settings (``systems.toml``), whose lists hold what validation chooses from;
    ``nodes``: for nodes too, not graphs alone; ``standardize``: the readout's columns, over the training rows."""

    title: str
    settings: Record
    build: Callable[[Graph, int, Record], ReservoirEncoder]
    nodes: bool = False
    standardize: bool = False


_OF = packaged("baselines/systems.toml")
SYSTEMS = {
    "fdgnn": System("FDGNN", _OF["fdgnn"], FDGNN, nodes=True),
    "u-gcn": System("U-GCN", _OF["u-gcn"], UGCN, nodes=True, standardize=True),
    "mrgnn": System("MRGNN", _OF["mrgnn"], MRGNN, standardize=True),
    "p-rgnn": System("P-RGNN", _OF["p-rgnn"], PRGNN),
}
"""The reservoir systems by name."""


@dataclass(frozen=True)
class Readout:
    """A readout that was tried: the validation metric, of a network's after each epoch, and the place of the best."""

    head: nn.Module
    named: dict[str, float | str]
    history: Sequence[float] = ()
    best: int = 0
    merit: tuple[float, float] | None = None


@torch.inference_mode(False)  # also where a user has switched it on
def fit_reservoir(
    name: str, graph: Graph, config: Config, seed: int, on_epoch: OnEpoch | None = None, **settings: Any
) -> Fitted:
    """Try the system's settings one after another, and keep those whose readout is best on validation.

    ``config`` is RAP-GNN's and plays no part; ``settings`` in the place of those of the system's paper.
    """
    system = SYSTEMS[name]
    if graph.ptr is None and not system.nodes:
        raise InputError(f"{system.title} classifies graphs, not nodes: leave {name} out with --methods.")
    begun, best, at, history = time.perf_counter(), None, 0, []
    for point, encoder, context, parts in _encoded(system, choices(system.settings | settings), graph, seed):
        for network in _networks(system, point, encoder, parts, graph, seed):
            with torch.no_grad():
                train, val = network.columns(parts).split([len(graph.train), len(graph.val)])
            for readout in _readouts(network, point, train, val, graph, seed):
                if best is None or (readout.merit or ()) > (best[0].merit or ()):
                    best, at = (readout, network, point, context, val), len(history) + readout.best
                history += readout.history
        if on_epoch:
            on_epoch()
    assert best is not None
    readout, network, point, context, val = best
    rule = graph.objective
    if isinstance(readout.head, RidgeHead) and len(graph.val) and rule.metric != "rmse" and rule.scoring is None:
        readout.head.fit_temperature(rule, readout.head(val), graph.y[graph.val])
    network.head, tried = readout.head.eval(), max(1, len(history))
    milliseconds = 1e3 * (time.perf_counter() - begun)
    loop = Loop(at, tried, milliseconds / tried, 0.0, history, best=readout.merit)

    def predict(rows: Tensor) -> Prediction:
        return as_prediction(network(graph.x, context, rows), graph.objective, network.output)

    chosen = point | {"depth": network.depth} | readout.named
    return Fitted(network.eval(), predict, loop, "stepwise", "random layers with a non-linearity", "expected", chosen)


def _encoded(
    system: System, points: list[Record], graph: Graph, seed: int
) -> Iterator[tuple[Record, ReservoirEncoder, Any, list[Tensor]]]:
    """Each point of the settings with its encoder and its features; made once where only the readout differs."""
    rows = torch.cat([graph.train, graph.val])
    last: tuple[Any, Any] = (None, None)
    contexts: dict[Any, Any] = {}
    for point in points if len(graph.val) else points[:1]:  # the first, if nothing can choose
        same = {name: value for name, value in point.items() if name != "projection_scaling"}
        if last[0] != same:
            encoder = system.build(graph, seed, point).to(graph.y.device)
            kind = point.get("matrix")
            if kind not in contexts:
                contexts[kind] = encoder.context(graph)
            encoder.fit(graph.x, contexts[kind], graph.train)
            last = same, (encoder, contexts[kind], encoder.encode(graph.x, contexts[kind], rows))
        yield point, *last[1]


def _networks(
    system: System, point: Record, encoder: ReservoirEncoder, parts: list[Tensor], graph: Graph, seed: int
) -> Iterator[ReservoirNetwork]:
    """The system without a readout, for each depth; the deepest alone where nothing can choose."""
    output = TargetScale(graph.num_outputs).to(graph.y.device)
    if graph.objective.metric == "rmse":
        output.fit(graph.y[graph.train])
    units = point.get("projection", 0)
    for depth in encoder.depths if len(graph.val) else encoder.depths[-1:]:
        width = encoder.columns(parts, depth).shape[1]
        projection = None
        if units:
            weights = RandomMatrix("uniform", None, point["projection_scaling"], "norm", seed)
            projection = RandomLayer(width, units, weights, layer=len(encoder.depths)).to(graph.y.device)
        network = ReservoirNetwork(encoder, depth, output, projection)
        if system.standardize:
            columns = network.columns([part[: len(graph.train)] for part in parts])
            standard = Standard(columns.shape[1]).to(columns.device)
            standard.fit(columns)
            network.standardize = standard
        yield network


def _readouts(
    network: ReservoirNetwork, point: Record, train: Tensor, val: Tensor, graph: Graph, seed: int
) -> Iterator[Readout]:
    """Ridge for one penalty after another, and a small network on the deepest columns where the system has one.

    Ridge with the penalty 1 alone where there is no validation row to choose by.
    """
    rule, y, channels = graph.objective, graph.y[graph.val], train.shape[1]
    regression = RidgeRegression(train, ridge_targets(network.output, graph, train.dtype), weights=row_weights(graph))
    for penalty in PENALTIES if len(y) else (1.0,):
        head = RidgeHead(channels, graph.num_outputs).to(train)
        head.take(regression.solve(penalty))
        named: dict[str, float | str] = {"readout": "ridge", "penalty": head.penalty or 0.0}
        if not len(y):
            yield Readout(head, named)
            return
        if rule.scoring is not None and rule.metric != "rmse":  # probabilities count, not only their order
            head.fit_temperature(rule, head(val), y)
        scores = network.output(head(val))
        metric = rule.score(scores, y)
        worth, loss = rule.merit(metric), float(rule.loss(scores, y))
        merit = -math.inf if math.isnan(worth) else worth, -math.inf if math.isnan(loss) else -loss
        yield Readout(head, named, [metric], merit=merit)
    epochs = point.get("epochs", 0)
    if epochs and network.depth == max(network.encoder.depths):
        start, noise = seeded(seed, Stream.START_VALUES), seeded(seed, Stream.DROPOUT)
        hidden = max(1, point["units"] // 2) * network.depth
        head = Head(channels, hidden, graph.num_outputs, 2, dropout=point["dropout"], generator=start).to(train.device)
        how = {"lr": point["learning_rate"], "weight_decay": point["weight_decay"], "epochs": epochs, "patience": None}
        loop = train_on_features(head, graph, train, val, network.output, seed, noise, point["batch_size"], **how)
        yield Readout(head, {"readout": "network", "epoch": loop.best_epoch}, loop.history, loop.best_epoch, loop.best)


RESERVOIRS = {
    name: Method(system.title, partial(fit_reservoir, name), configured=False, steps=len(choices(system.settings)))
    for name, system in SYSTEMS.items()
}
"""The same as methods, for the entry-point group ``rapgnn.methods``."""

METHODS = compare.METHODS | RESERVOIRS
"""All methods of the paper's tables, and the library's own."""
