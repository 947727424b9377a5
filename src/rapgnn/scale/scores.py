r"""Predictions for the nodes of a graph on disk, without their representation.

.. math:: E[h^L] W = \sum_k S^k h^0 V_k, \qquad V_k = \sum_j E[c_{jk}] W_j

The head's first linear map commutes with the hops, so that these run over as many columns as it has outputs. Error bars
need the hops themselves: they go to a hop store, and are read some rows at a time.
"""

import hashlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rapgnn.errors import InputError
from rapgnn.graph.tasks import Objective
from rapgnn.network.heads import Head
from rapgnn.network.polynomial import HopMoments
from rapgnn.network.propagation import stored_hops
from rapgnn.network.rapgnn import RAPGNN
from rapgnn.network.ridge import RidgeHead
from rapgnn.scale.blocks import Budget, FirstHop, OnHop, block_width, counted, narrower, picked_parts
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.hops import check_config, description, exact, hop_folder, hops_of, streamed_matrix
from rapgnn.scale.store import HopStore
from rapgnn.scale.stored import StoredRows, mean_coefficients
from rapgnn.scale.streamed import StreamedMatrix
from rapgnn.training.predict import Prediction, as_prediction
from rapgnn.training.uncertainty import spread_of

MOMENT_BYTES = 64 << 20  # of the covariances of the rows that get error bars together
READ_BYTES = 16 << 20  # of the scores that are read together

Predicted = Iterator[tuple[np.ndarray, Prediction]]


def predict_on_disk(
    model: RAPGNN,
    graph: DiskGraph,
    objective: Objective,
    budget: Budget,
    nodes: np.ndarray | None = None,
    error_bars: bool = False,
    store: Path | None = None,
    on_hop: OnHop = lambda done, of: None,
) -> Predicted:
    """(nodes, their prediction), some nodes at a time, in ascending order.

    Args:
        nodes: ascending; None: all.
        error_bars: whether predictions have a spread, from the exact variance.
        store: a folder for the hops that error bars need, or one that has them; None: a temporary one.
    """
    check_config(model.config)
    nodes = np.arange(graph.num_nodes) if nodes is None else nodes
    model = model.to(budget.device).eval()
    predict = _with_spread if error_bars and not _constant(model) else _without
    for found_nodes, found in predict(model, graph, objective, budget, nodes, store, on_hop):
        if not bool(torch.isfinite(found.scores).all()):
            raise InputError(
                "the predictions are not finite: the features or edge weights are too large, rescale them."
            )
        if error_bars and found.spread is None:
            found = Prediction(found.scores, found.probabilities, torch.zeros_like(found.probabilities))
        yield found_nodes, found


def _constant(model: RAPGNN) -> bool:
    weights = model.spec.weights
    return weights.schedule == "fixed" or weights.structure == "identity"


@torch.no_grad()
def _without(
    model: RAPGNN,
    graph: DiskGraph,
    objective: Objective,
    budget: Budget,
    nodes: np.ndarray,
    store: Path | None,
    on_hop: OnHop,
) -> Predicted:
    weight, finish = first_map(model.head)
    first = FirstHop(graph, model.embedding, model.config.normalize_features)
    width = block_width(graph, weight.shape[1], budget, self_loops=model.config.self_loops)
    matrix = streamed_matrix(graph, model.config, budget)
    exact(model, matrix, first)
    of = description(graph, model, first)
    mark = hashlib.sha256(weight.cpu().numpy().tobytes()).hexdigest()[:16]
    with hop_folder(graph, None) as folder:
        of = type(of)(**{**vars(of), "hops": (0,), "embedding": mark, "channels": weight.shape[1]})
        scores = HopStore.create(folder, of, nodes)
        tell = counted(on_hop, len(scores.missing(width)) * (model.spec.num_layers + 1))
        while scores.missing():
            columns = scores.missing(width)[0]
            hops = _scores(model, matrix, first, weight[:, slice(*columns)], nodes, tell)
            try:
                scores.write_block(*columns, hops)
            except torch.OutOfMemoryError:
                hops.close()
                width = narrower(columns[1] - columns[0])
        step = max(1, READ_BYTES // (4 * weight.shape[1]))
        for start in range(0, len(nodes), step):
            part = slice(start, start + step)
            products = scores.read(part)[:, 0].to(weight.device)
            yield nodes[part], _on_cpu(as_prediction(finish(products), objective, model.output))


def _scores(
    model: RAPGNN,
    matrix: StreamedMatrix,
    first: FirstHop,
    weight: Tensor,
    nodes: np.ndarray,
    on_hop: Callable[[], None],
) -> Generator[Iterator[Tensor], None, None]:
    """The products of all nodes' expectation with some columns of the head's first map, by Horner's rule."""
    spec, columns, device = model.spec, weight.shape[1], weight.device
    mean = mean_coefficients(spec, first.channels, _constant(model)).to(device)  # [J, K, d]
    by_hop = torch.einsum("jkd,jdt->kdt", mean, weight.view(len(spec.outputs), first.channels, columns))
    places = {k: i for i, k in enumerate(stored_hops(spec))}
    now = torch.zeros(matrix.shape[0], columns, device=device)
    other = torch.empty_like(now)
    for k in range(spec.num_layers, -1, -1):
        if k < spec.num_layers:
            now, other = matrix.product(now, other), now
            if spec.operator_scale != 1.0:
                now.div_(spec.operator_scale)
        if k in places:
            for rows in first.row_blocks():
                now[rows].addmm_(first.rows(rows, device), by_hop[places[k]])
        on_hop()
    yield picked_parts(now, nodes)


@torch.no_grad()
def _with_spread(
    model: RAPGNN,
    graph: DiskGraph,
    objective: Objective,
    budget: Budget,
    nodes: np.ndarray,
    store: Path | None,
    on_hop: OnHop,
) -> Predicted:
    with hop_folder(graph, store) as folder:
        filled, _ = hops_of(graph, nodes, model, budget, folder, on_hop)
        rows = StoredRows(filled, model.spec, nodes)
        moments = HopMoments(model.spec, torch.empty(0, device=budget.device))
        pairs = rows.outputs * (rows.outputs + 1) // 2
        per_row = 4 * rows.channels * (len(rows.hops) + pairs * (2 + moments.factors) + rows.outputs)
        for part in rows.parts_of(max(1, MOMENT_BYTES // per_row)):
            hops = rows.read(part).to(budget.device).permute(1, 0, 2).contiguous()
            mean, covariance = moments(hops)
            expectation = mean.flatten(1)
            found = as_prediction(model.head(expectation), objective, model.output)
            spread = model.output.scale_spread(spread_of(model.head, objective, expectation, covariance))
            yield nodes[part], _on_cpu(Prediction(found.scores, found.probabilities, spread))


def first_map(head: Head | RidgeHead) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """The head's first linear map W ``[J·d, t]``, and the rest: products with W -> scores."""
    if isinstance(head, RidgeHead):
        return head.weight, head.on_products
    first, *others = head.mlp.linears()
    bias = first.bias + first.weight @ head.input_offset

    def finish(products: Tensor) -> Tensor:
        h = products + bias
        for i, layer in enumerate(others):
            h = layer(torch.relu(head.mlp.normed(i, h)))
        return h

    return (first.weight * head.input_scale).T.contiguous(), finish


def _on_cpu(found: Prediction) -> Prediction:
    spread = None if found.spread is None else found.spread.cpu()
    return Prediction(found.scores.cpu(), found.probabilities.cpu(), spread)
