r"""Predictions for the nodes of a graph on disk, without their representation.

.. math:: E[h^L] W = \sum_k S^k h^0 V_k, \qquad V_k = \sum_j E[c_{jk}] W_j

The head's first linear map commutes with the hops, so that these run over as many columns as it has outputs. Error bars
need the hops themselves: they go to a hop store, and are read some rows at a time.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rapgnn.graph.tasks import Objective
from rapgnn.memory import blocks
from rapgnn.network.polynomial import HopMoments
from rapgnn.network.propagation import stored_hops
from rapgnn.network.rapgnn import RAPGNN
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.homes import HERE, Home
from rapgnn.scale.hops import Budget, DiskHops, Hop, OnHop, block_width, check_config, hop_folder, picked_parts, silent
from rapgnn.scale.rows import StoredRows, is_random, mean_coefficients
from rapgnn.scale.store import Columns
from rapgnn.training.predict import Prediction, as_prediction, check_finite, with_parts
from rapgnn.training.uncertainty import spread_of

MOMENT_BYTES = 64 << 20  # of the covariances of the rows that get error bars together

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
