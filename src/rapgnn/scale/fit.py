r"""Training and prediction on a graph on disk: the labelled rows' hops go to a store, and the head sees nothing else.

For predictions nobody needs the representation: the head's first linear map commutes with the hops, so that these run
over as many columns as it has outputs.

.. math:: E[h^L] W = \sum_k S^k h^0 V_k, \qquad V_k = \sum_j E[c_{jk}] W_j

Error bars need the hops themselves: they go to a hop store, and are read some rows at a time.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rapgnn.device import own_settings
from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.graph.rows import with_goal
from rapgnn.graph.tasks import Objective
from rapgnn.memory import blocks
from rapgnn.network.config import Config
from rapgnn.network.heads import NormalEquations, RidgeHead, RidgeRegression, same_gaps
from rapgnn.network.hops import Hops
from rapgnn.network.polynomial import HopMoments
from rapgnn.network.propagation import (
    Propagation,
    coefficient_covariance,
    coefficients,
    expected_coefficients,
    stored_hops,
)
from rapgnn.network.rapgnn import RAPGNN
from rapgnn.network.representation import MOMENT_BYTES, EmbeddedGraph
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.homes import HERE, Home
from rapgnn.scale.hops import (
    Budget,
    DiskHops,
    FirstHop,
    Hop,
    OnHop,
    block_width,
    check_config,
    hop_folder,
    one_by_one,
    picked_parts,
    silent,
)
from rapgnn.scale.store import Columns, HopStore
from rapgnn.training.fit import Equations, fit_head, ridge_targets, row_weights, solve_head
from rapgnn.training.loop import OnEpoch
from rapgnn.training.predict import Prediction, as_prediction, check_finite, with_parts
from rapgnn.training.pretrain import pretrain
from rapgnn.training.uncertainty import spread_of

# The hops of a store as training and prediction ask for them: a network's ``Hops``, or some rows at a time.


PART_BYTES = 8 << 20  # of the hops that are read together


def is_random(spec: Propagation) -> bool:
    """Whether draws differ from one another."""
    return spec.weights.schedule != "fixed" and spec.weights.structure != "identity"


def mean_coefficients(spec: Propagation, channels: int) -> Tensor:
    """What the hops are added up with at inference, ``[J, K, d]``: the expectation, or the one draw there is."""
    if not is_random(spec):
        return coefficients(spec, [0], channels, dtype=torch.float32)[0]
    return expected_coefficients(spec).float()[:, :, None].expand(-1, -1, channels)


class StoredHops(Hops):
    """The hops of a store, walked as those of a graph in memory.

    Args:
        store: filled.
        nodes: the node that each row is.
        device: where the hops go.
    """

    def __init__(self, store: HopStore, nodes: np.ndarray, device: torch.device):
        self.store, self.nodes, self.device = store, nodes, device

    def suits(self, spec: Propagation, h: object) -> bool:
        """The store was filled for this network."""
        return True

    def walk(self, spec: Propagation, wanted: Sequence[Tensor | None]) -> Iterator[tuple[slice, int, list[Tensor]]]:
        """As in memory, one block of columns after another."""
        numbers = [slice(None) if rows is None else rows.cpu().numpy() for rows in wanted]
        places = [self.store.places(self.nodes[rows]) for rows in numbers]
        for columns in sorted(self.store.blocks):
            for place, k in enumerate(stored_hops(spec)):
                hop = self.store.hop(columns, k)
                yield slice(*columns), place, [torch.from_numpy(hop[rows]).to(self.device) for rows in places]


def stored_graph(model: RAPGNN, store: HopStore, nodes: np.ndarray, device: torch.device) -> EmbeddedGraph:
    """The labelled rows as a graph of which only the hops are at hand."""
    nothing = torch.empty(0, model.embedding.out_channels, device=device)
    operator, hops = GraphOperator(one_by_one(1.0, device)), StoredHops(store, nodes, device)
    return EmbeddedGraph(
        model.spec, operator, nothing, model.embedding, "polynomial", "hops are stored", nothing, None, hops
    )


class StoredRows:
    """The hops of some nodes of a store, for one network.

    Args:
        store: filled.
        spec: whose hops are among the stored ones.
        nodes: any of the store's rows, in any order.
    """

    def __init__(self, store: HopStore, spec: Propagation, nodes: np.ndarray):
        self.store, self.spec, self.outputs = store, spec, len(spec.outputs)
        self.places, self.hops, self.channels = store.places(nodes), stored_hops(spec), store.of.channels
        self.mean = mean_coefficients(spec, self.channels)
        self._used = self.mean.flatten(0, 1).any(1).tolist()

    def __len__(self) -> int:
        return len(self.places)

    def read(self, rows: slice) -> Tensor:
        """``[rows, K, d]``."""
        return self.store.read(self.places[rows], self.hops)

    def parts(self, size: int | None = None) -> Iterator[slice]:
        """All rows, so many at a time, or as many as may be read together."""
        return blocks(len(self), size or PART_BYTES // max(1, 4 * len(self.hops) * self.channels))

    def expected(self, hops: Tensor) -> Tensor:
        """The expectation ``[rows, J·d]`` of the rows that have these hops, ``[rows, K, d]``."""
        out = hops.new_zeros(len(hops), self.outputs, self.channels)
        for (j, k), used in zip(product(range(self.outputs), range(len(self.hops))), self._used, strict=True):
            if used:
                out[:, j].addcmul_(hops[:, k], self.mean[j, k])
        return out.flatten(1)


# Training.


@dataclass(frozen=True)
class FittedOnDisk:
    """The trained model, its merit on validation, why the shortcut is exact, and in how many blocks the hops came.

    ``best`` is (metric, loss), both turned so that more is better; None without validation rows.
    """

    model: RAPGNN
    best: tuple[float, float] | None
    reason: str
    blocks: int


def labelled_graph(graph: DiskGraph, scoring: str | None = None, class_weight: Any = None) -> tuple[Graph, np.ndarray]:
    """The training and validation rows alone, as a graph without edges, and which node each row is, ascending.

    Its features are one number with their sign, as wide as they are; an edge weight has the sign of the edges' weights.

    Args:
        scoring, class_weight: the user's goal.
    """
    train, val = np.asarray(graph.train), np.asarray(graph.val)
    if not len(train):
        raise InputError("there are no training rows: the graph on disk needs labels and a split.")
    nodes = np.union1d(train, val)
    sign = torch.tensor(0.0 if FirstHop(graph).nonnegative else -1.0)
    weights = graph.weights
    negative = weights is not None and len(weights) > 0 and float(weights.min()) < 0
    small = Graph(
        graph.name,
        sign.expand(len(nodes), graph.num_features),
        torch.zeros(2, 0, dtype=torch.int64),
        torch.from_numpy(np.array(graph.y[nodes])),
        torch.from_numpy(np.searchsorted(nodes, train)),
        torch.from_numpy(np.searchsorted(nodes, val)),
        torch.zeros(0, dtype=torch.int64),
        num_outputs=graph.num_outputs,
        edge_weight=torch.full((1,), -1.0) if negative else None,
        task=graph.task,
        classes=graph.classes,
    )
    return with_goal(small, scoring, class_weight), nodes


@own_settings()
def fit(
    graph: DiskGraph,
    small: Graph,
    nodes: np.ndarray,
    config: Config,
    seed: int,
    budget: Budget,
    store: Path | None = None,
    on_hop: OnHop = silent,
    on_epoch: OnEpoch | None = None,
    home: Home = HERE,
) -> FittedOnDisk:
    """Phase 1 where the embedding is pretrained, the hops of the labelled rows, then the head.

    Args:
        small, nodes: what ``labelled_graph`` gives.
        budget: of each worker.
        store: a folder to keep the hops in, or one that has them; None: a temporary one beside the graph.
        home: where the hops are computed. Of several workers, all of which call this, the first trains embedding and
            head from the store, and all end with its model.
    """
    workers = home.workers
    if workers.size > 1 and store is None:
        raise InputError("several workers need a folder for the hops that all of them see: name a store.")
    check_config(config)
    device = torch.device(budget.device)
    model = RAPGNN(graph.num_features, out_channels=graph.num_outputs, seed=seed, config=config).to(device)
    if small.objective.metric == "rmse":
        model.output.fit(small.y[small.train].to(device))
    workers.at_first(lambda: check_room(small, model, budget))
    if model.embedding.kind.trained == "before":
        raw = replace(small, x=FirstHop(graph, None, config.normalize_features).pick(nodes))
        workers.at_first(lambda: pretrain(model, raw.to(device), GraphOperator(one_by_one(1.0, device))))
        workers.share(model.state_dict().values())
    # Merit, its loss, and of a ridge head the penalty and inverse temperature.
    best = torch.full((4,), float("nan"), dtype=torch.float64)
    with hop_folder(graph, store) as folder:
        hops = home.hops(graph, model, budget)
        stored = hops.store(folder, nodes, on_hop)
        workers.at_first(lambda: best.copy_(_train(model, small, nodes, stored, budget, on_epoch)))
    model = model.cpu().eval()
    workers.share([*model.state_dict().values(), best])
    if isinstance(model.head, RidgeHead):
        model.head.penalty, model.head.inverse_temperature = float(best[2]), float(best[3])
    merit = None if bool(best[0].isnan()) else (float(best[0]), float(best[1]))
    return FittedOnDisk(model, merit, hops.reason, len(stored.blocks))


def _train(
    model: RAPGNN, small: Graph, nodes: np.ndarray, store: HopStore, budget: Budget, on_epoch: OnEpoch | None
) -> Tensor:
    head, solved = model.head, isinstance(model.head, RidgeHead)
    device = torch.device("cpu" if solved else budget.device)  # sums over rows are added up where the store is read
    model, small = model.to(device), small.to(device)
    few = 2 * len(small.train) <= model.embedding.out_channels * len(model.spec.outputs)
    penalty, factor = float("nan"), 1.0
    if isinstance(head, RidgeHead) and not few:
        train, val = (StoredRows(store, model.spec, nodes[rows.numpy()]) for rows in (small.train, small.val))
        loop = solve_head(model, head, small, lambda: stored_equations(model, small, train, val), on_epoch)
    else:  # of fewer rows than unknowns the equations of the rows are the smaller ones
        embedded = stored_graph(model, store, nodes, device)
        loop = fit_head(model, small, embedded.operator, embedded, on_epoch).loop
    if isinstance(head, RidgeHead):
        penalty, factor = head.penalty, head.inverse_temperature
    return torch.tensor([*(loop.best or (float("nan"), 0.0)), penalty, factor], dtype=torch.float64)


def check_room(small: Graph, model: RAPGNN, budget: Budget) -> None:
    """Refuse a limit that the training before or after the hops would break, before any work is done."""
    width = model.embedding.out_channels * len(model.spec.outputs)
    train, val = len(small.train), len(small.val)
    if isinstance(model.head, RidgeHead):
        y = small.y[small.train]
        groups = 1 if y.dim() == 1 else len(list(same_gaps(y)))
        # The sums, and for one penalty at a time a copy and its factor; or the equations of the rows.
        equations = min(8 * width * width * (groups + 3), 40 * train * width)
        labels = 32 * train * small.num_outputs + 24 * val * small.num_outputs
        summed = 12 * PART_BYTES  # of the hops of the rows that are added up together, in double precision
        budget.room(equations + labels + summed, f"for a ridge head on {width:,} columns", 1)
    else:
        # Draws of a batch and their gradients, the validation rows, moments, and on the CPU all training rows' hops.
        hops = model.embedding.out_channels * len(stored_hops(model.spec))
        batch = min(model.config.batch_size or train, train)
        need = MOMENT_BYTES + 4 * (batch * (2 * hops + 6 * (width + model.config.hidden_channels)) + 2 * val * width)
        need += 0 if torch.device(budget.device).type == "cuda" else 8 * train * hops
        budget.room(need, f"to train on {train:,} rows at once (or set batch_size)", 1)
    if model.embedding.kind.trained == "before":
        need = 4 * (train + val) * (2 * small.num_features + 8 * model.config.hidden_channels)
        budget.room(need, "to pretrain the embedding", 1)


# The equations of a ridge head from sums over the rows of a hop store, which are never in memory together.


def stored_equations(model: RAPGNN, small: Graph, train: StoredRows, val: StoredRows) -> Equations:
    """The equations from sums over the training rows; validation rows are read part by part."""
    targets = ridge_targets(model.output, small, torch.float32)

    def held_out(head: nn.Module) -> Tensor:
        parts = [head(val.expected(val.read(part))) for part in val.parts()]
        return torch.cat([torch.zeros(0, targets.shape[1]), *parts])

    shape = train.outputs * train.channels, targets.shape[1]
    regression = RidgeRegression.of_sums(shape, ridge_sums(train, targets, row_weights(small)))
    return Equations(regression, held_out, torch.get_num_threads())


def ridge_sums(train: StoredRows, targets: Tensor, weights: Tensor | None) -> list[NormalEquations]:
    """What the equations need of all training rows, for each group of labels known for the same rows.

    Args:
        targets: ``[rows, t]``, NaN where unknown.
        weights: how much each row counts; None: all the same.
    """
    count = torch.ones(len(targets), dtype=torch.float64) if weights is None else weights.double()
    groups = [(columns, known.double() * count) for columns, known in same_gaps(targets)]
    width, zeros = train.outputs * train.channels, partial(torch.zeros, dtype=torch.float64)
    centers = [zeros(width) for _ in groups]
    for part in train.parts():
        mean = train.expected(train.read(part)).double()
        for center, (_, weight) in zip(centers, groups, strict=True):
            center += weight[part] @ mean
    for center, (_, weight) in zip(centers, groups, strict=True):
        center /= weight.sum()
    known = targets.double().nan_to_num()
    levels = [weight @ known[:, columns] / weight.sum() for columns, weight in groups]
    grams, rights = [zeros(width, width) for _ in groups], [zeros(width, len(columns)) for columns, _ in groups]
    products = [zeros(train.channels, len(train.hops), len(train.hops)) for _ in groups]
    for part in train.parts():
        stored = train.read(part)
        mean = train.expected(stored).double()
        by_channel = stored.permute(2, 1, 0).double()  # [d, K, rows]
        for i, (columns, weight) in enumerate(groups):
            here = weight[part]
            centred = (mean - centers[i]) * here.sqrt()[:, None]
            grams[i].addmm_(centred.T, centred)
            rights[i].addmm_(centred.T, (known[part][:, columns] - levels[i]) * here.sqrt()[:, None])
            products[i].baddbmm_(by_channel * here, by_channel.mT)
    # The covariance between a channel's outputs, summed over the rows; none where nothing is random.
    covariance = coefficient_covariance(train.spec) * float(is_random(train.spec))
    scatter = [torch.einsum("jkml,dkl->djm", covariance, product) for product in products]
    left = [(known[:, columns] - level, w) for (columns, w), level in zip(groups, levels, strict=True)]
    squares = [targets.T @ (w[:, None] * targets) for targets, w in left]
    sums = zip(grams, rights, scatter, squares, strict=True)
    made = [NormalEquations(None, None, gram, right, C, 0, square) for gram, right, C, square in sums]
    about = zip(made, groups, centers, levels, strict=True)
    return [one.about(columns, center, level, float(w.sum())) for one, (columns, w), center, level in about]


# Predictions.


Predicted = Iterator[tuple[np.ndarray, Prediction]]


def predict(
    model: RAPGNN,
    graph: DiskGraph,
    objective: Objective,
    budget: Budget,
    nodes: np.ndarray | None = None,
    error_bars: bool = False,
    store: Path | None = None,
    on_hop: OnHop = silent,
    home: Home = HERE,
) -> Predicted:
    """(nodes, their prediction), some nodes at a time, in ascending order.

    Args:
        nodes: ascending; None: all.
        error_bars: whether predictions have a spread, from the exact variance.
        store: a folder for the hops that error bars need, or one that has them; None: a temporary one.
        home: where these are computed.
    """
    check_config(model.config)
    nodes = np.arange(graph.num_nodes) if nodes is None else nodes
    model = model.to(budget.device).eval()
    if error_bars:
        parts = _with_spread(home.hops(graph, model, budget), objective, nodes, store, on_hop)
    else:
        parts = _without(graph, model, budget, objective, nodes, on_hop)
    for part, prediction in parts:
        yield part, check_finite(prediction.each(Tensor.cpu))


@torch.no_grad()
def _without(
    graph: DiskGraph, model: RAPGNN, budget: Budget, objective: Objective, nodes: np.ndarray, on_hop: OnHop
) -> Predicted:
    weight, finish = model.head.first_map()
    with hop_folder(graph, None) as folder:
        scores = Scores(graph, model, budget, weight).store(folder, nodes, on_hop)
        for part in blocks(len(nodes), (16 << 20) // (4 * weight.shape[1])):
            products = scores.read(part)[:, 0].to(weight.device)
            yield nodes[part], as_prediction(finish(products), objective, model.output)


class Scores(DiskHops):
    """In place of the hops the products of all nodes' expectation with the head's first map, by Horner's rule.

    Args:
        weight: W ``[J·d, t]``.
    """

    def __init__(self, graph: DiskGraph, model: RAPGNN, budget: Budget, weight: Tensor):
        channels = weight.shape[1]
        super().__init__(
            graph, model, budget, width=block_width(graph, channels, budget, self_loops=model.config.self_loops)
        )
        mark = hashlib.sha256(weight.cpu().numpy().tobytes()).hexdigest()[:16]
        self.weight, self.depth = weight, model.spec.num_layers + 1
        self.of = replace(self.of, hops=(0,), embedding=mark, channels=channels)

    @torch.no_grad()
    def walk(self, columns: Columns, rows: np.ndarray, on_hop=lambda hop: None) -> Iterator[Hop]:
        spec, first, matrix, weight = self.model.spec, self.first, self.matrix, self.weight[:, slice(*columns)]
        mean = mean_coefficients(spec, first.channels).to(weight.device)  # [J, K, d]
        by_hop = torch.einsum("jkd,jdt->kdt", mean, weight.view(len(spec.outputs), first.channels, -1))
        places = {k: i for i, k in enumerate(stored_hops(spec))}
        now = torch.zeros(matrix.shape[0], weight.shape[1], device=weight.device)
        other = torch.empty_like(now)
        for step, k in enumerate(range(spec.num_layers, -1, -1)):
            if step:
                now, other = matrix.product(now, other), now
                if spec.operator_scale != 1.0:
                    now.div_(spec.operator_scale)
            for part in first.row_blocks() if k in places else ():
                now[part].addmm_(first.rows(part, weight.device), by_hop[places[k]])
            on_hop(step)
        yield 0, picked_parts(now, rows)


@torch.no_grad()
def _with_spread(
    hops: DiskHops, objective: Objective, nodes: np.ndarray, store: Path | None, on_hop: OnHop
) -> Predicted:
    model, device = hops.model, hops.budget.device
    with hop_folder(hops.graph, store) as folder:
        rows = StoredRows(hops.store(folder, nodes, on_hop), model.spec, nodes)
        moments = HopMoments(model.spec, torch.empty(0, device=device))
        pairs = rows.outputs * (rows.outputs + 1) // 2
        per_row = 4 * rows.channels * (len(rows.hops) + pairs * (2 + moments.factors) + rows.outputs)
        for part in rows.parts(max(1, MOMENT_BYTES // per_row)):
            stored, draws = rows.read(part).to(device), None
            if is_random(model.spec):
                mean, covariance = moments(stored.permute(1, 0, 2).contiguous())
                expectation = mean.flatten(1)
                draws = model.output.scale_spread(spread_of(model.head, objective, expectation, covariance))
            else:
                expectation = rows.expected(stored)
            prediction = as_prediction(model.head(expectation), objective, model.output)
            yield nodes[part], with_parts(prediction, model, objective, expectation, draws)
