"""The kind "collapse": what is left of the differences between nodes after every layer of one strategy.

Spec of a cell: ``method`` (a name of a strategy), ``base_method`` (the training method it is), ``config``, ``start``
(what the start values of trained layers are multiplied by), ``seed`` and ``layers``, those that are measured.
Everything after the embedding is computed in float64 by the raw equation, whose values outgrow float32.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rapgnn.experiments.reproduce.cells import Cell
from rapgnn.experiments.reproduce.figures.matrices import describe_matrix
from rapgnn.experiments.reproduce.item import Graphs
from rapgnn.experiments.reproduce.kinds import KINDS
from rapgnn.experiments.run import OnEpoch, Record
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.models.collapse import collapse_metrics
from rapgnn.models.config import Config
from rapgnn.models.endtoend import EndToEnd
from rapgnn.models.inputs import model_inputs
from rapgnn.propagation.spec import Propagation
from rapgnn.propagation.stepwise import Layers, propagate
from rapgnn.sparse import dense
from rapgnn.training.fit import build_rapgnn
from rapgnn.training.loop import optimise, schedule, validator
from rapgnn.training.methods import METHODS
from rapgnn.training.pretrain import pretrain

FIGURES = ("rank", "rank_float64", "effective_rank", "variance")


@dataclass(frozen=True)
class Network:
    """L layers with their weights, and what goes into the first one.

    Args:
        spec: the layers.
        operator: the graph.
        start: h⁰.
        weights: of every layer, as ``Propagation.draw_all`` names them.
        about: what else is recorded of it.
    """

    spec: Propagation
    operator: GraphOperator
    start: Tensor
    weights: Layers
    about: Record

    @torch.no_grad()
    def outputs(self) -> Iterator[Tensor]:
        """h⁰, h¹ … h^L in float64, one at a time."""
        one = replace(self.spec, num_layers=1, rescale=False, dropout=0.0)
        operator = replace(self.operator, matrix=self.operator.matrix.to(dtype=torch.float64))
        h = self.start.double()
        yield h
        for layer in range(self.spec.num_layers):
            h = propagate(one, operator, h, {name: w[layer : layer + 1].double() for name, w in self.weights.items()})
            yield h


def measure_collapse(cell: Cell, graphs: Graphs, on_epoch: OnEpoch) -> Record:
    """Lists of figures, one entry per measured layer."""
    spec, graph = cell.spec, graphs.get(cell.dataset)
    config = Config(**spec["config"])
    if METHODS[spec["base_method"]].trained:
        network = trained_network(graph, config, spec["seed"], spec["start"], on_epoch)
    else:
        network = random_network(graph, config, spec["seed"], spec["base_method"], on_epoch)
    found: Record = {name: [] for name in FIGURES}
    for layer, h in enumerate(network.outputs()):
        if layer in spec["layers"]:
            for name, value in layer_figures(h).items():
                found[name].append(value)
    sizes: Record = {
        "num_layers": config.num_layers,
        "hidden_channels": config.hidden_channels,
        "nodes": graph.num_nodes,
    }
    sizes["rank_tolerance"] = tolerance(graph.num_nodes, config.hidden_channels)
    return spec | sizes | network.about | found


def random_network(graph: Graph, config: Config, seed: int, method: str, on_epoch: OnEpoch = None) -> Network:
    """The pretrained embedding, and one draw of the weights as at inference."""
    config = METHODS[method].configure(config)
    graph, operator = model_inputs(graph, config)
    model = build_rapgnn(graph, operator, config, seed)
    pretrain(model, graph, operator, on_epoch)
    h = model.embed(graph.x, operator, engine="stepwise").h
    assert h is not None
    counter = model.spec.weights.evaluation_counter(0)
    drawn = model.spec.draw_all(counter, config.hidden_channels, device=h.device, dtype=torch.float64)
    return Network(model.spec, operator, dense(h), {name: w[0] for name, w in drawn.items()}, {})


def trained_network(graph: Graph, config: Config, seed: int, start: float = 1.0, on_epoch: OnEpoch = None) -> Network:
    """End-to-end training without dropout; how well it did, and the first and the last weights beside their start."""
    graph, operator = model_inputs(graph, config)
    model = EndToEnd(graph.num_features, graph.num_outputs, config, graph.num_edge_features, seed).to(graph.y.device)
    model.weights.data.mul_(start)
    before = model.weights.detach().clone()

    def scores(split: str) -> Tensor:
        return model(graph.x, operator)[graph.rows(split)]

    rule, y = graph.objective, graph.y
    validate = validator(rule, y[graph.val], lambda epoch: scores("val"))
    passes = lambda epoch: [(scores("train"), y[graph.train])]  # noqa: E731
    loop = optimise([model], passes, rule, **schedule(config), validate=validate, on_epoch=on_epoch)
    with torch.no_grad():
        found = {split: rule.score(scores(split), y[graph.rows(split)]) for split in ("val", "test")}
        h = model.embedding(graph.x)
    after = model.weights.detach()
    ends = [describe_matrix(before[i, 0], after[i, 0]) | {"layer": i + 1} for i in (0, config.num_layers - 1)]
    about = {"epochs": loop.epochs, "best_epoch": loop.best_epoch, **found, "matrices": ends}
    return Network(model.spec, operator, h, {t: after[:, i] for i, t in enumerate(model.spec.rule.terms)}, about)


def layer_figures(h: Tensor) -> Record:
    """Numerical ranks, effective rank, and the variance over the nodes, averaged over the channels.

    h = QR with orthonormal columns in Q, so the small matrix R has the singular values of h.
    """
    scale = float(h.abs().max())
    if not 0 < scale < float("inf"):
        none = 0 if scale == 0 else None
        return dict.fromkeys(FIGURES, none)
    h, (n, d) = h.double() / scale, h.shape
    R = torch.linalg.qr(h, mode="r").R
    singular = torch.linalg.svdvals(R)
    no_edges = torch.zeros(2, 0, dtype=torch.int64)
    return {
        "rank": int((singular > tolerance(n, d) * singular[0]).sum()),
        "rank_float64": int((singular > tolerance(n, d, torch.float64) * singular[0]).sum()),
        "effective_rank": collapse_metrics(R, no_edges)["effective_rank"],
        "variance": float(h.var(0, correction=0).mean()) * scale * scale,
    }


def tolerance(rows: int, channels: int, dtype: torch.dtype = torch.float32) -> float:
    """Singular values below this share of the largest count as zero, as ``torch.linalg.matrix_rank`` has it."""
    return max(rows, channels) * torch.finfo(dtype).eps


KINDS["collapse"] = measure_collapse
