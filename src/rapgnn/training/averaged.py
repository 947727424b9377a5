"""Predictions of random networks, and of averages of several models."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from rapgnn.graph.graph import Graph
from rapgnn.graph.tasks import Objective
from rapgnn.models.average import Average
from rapgnn.models.net_hops import Hops
from rapgnn.models.random_net import RandomNet
from rapgnn.models.rapgnn import RAPGNN
from rapgnn.models.treated import TreatedRAP
from rapgnn.training.predict import Prediction, predictor_on, represented

ROWS, BLOCK_BYTES = 1 << 16, 1 << 28  # predicted at a time, at most
Predict = Callable[[Tensor], Prediction]
HopsOf = dict[Any, Any]


def hops_for(net: RandomNet, graph: Graph, kept: HopsOf) -> Hops | None:
    """The hops that a network needs of a graph's nodes, shared with other networks that need the same."""
    if graph.ptr is not None:
        return None
    if net.config.walk not in kept:
        kept[net.config.walk] = net.hops(graph)
    hops = kept[net.config.walk]
    if net.first is not None:
        net.said(graph, hops, hops_for(net.first, graph, kept))
    return hops


@torch.no_grad()
def net_scores(net: RandomNet, graph: Graph, rows: Tensor, hops: Hops | None = None) -> Tensor:
    """The scores of these rows, some at a time."""
    size = max(1, min(ROWS, BLOCK_BYTES // (4 * net.channels))) if not net.config.lift_hops else max(1, len(rows))
    parts = [net.output(net.scores(net.represent(graph, part, hops))) for part in rows.split(size)]
    return torch.cat(parts) if parts else net.output.shift.new_zeros(0, len(net.output.shift))


def model_on(model: Any, graph: Graph, **how: Any) -> Predict:
    """rows -> predictions of any model of this library: one RAP network, a random network, or an average."""
    return predictor_on(model, graph, **how) if isinstance(model, RAPGNN) else average_on(model, graph, **how)


@torch.no_grad()
def represented_by(model: Any, graph: Graph, rows: Tensor | None = None) -> Tensor:
    """What the head of the best member that suits any graph sees of these rows, or of all."""
    best: Any = model.widest if isinstance(model, Average) else model
    if isinstance(best, RandomNet):
        Average([best]).members_for(graph)  # which refuses a graph that it has nothing to say about
        return best.represent(graph, rows)
    if isinstance(best, TreatedRAP):
        return represented(best.network, best.inputs(graph), rows)
    return represented(best, graph, rows)


def average_on(
    model: Average | TreatedRAP | RandomNet,
    graph: Graph,
    device: str | None = None,
    kept: HopsOf | None = None,
    **how: Any,
) -> Predict:
    """rows -> the mean over the members; as ``predictor_on`` for one model.

    Members draw on their own, so the variance of the mean is the sum of theirs by the squares of their shares. Networks
    whose weights are fixed have none.

    Args:
        kept: hops of this graph that other networks have walked.
    """
    if device is not None:
        model, graph = model.to(device), graph.to(device)
    members = (model if isinstance(model, Average) else Average([model])).weighted_for(graph)
    kept = {} if kept is None else kept
    predictors: list[Predict] = []
    for member, _ in members:
        if isinstance(member, RandomNet):
            predictors.append(_net_predictor(member, graph, hops_for(member, graph, kept)))
        elif isinstance(member, TreatedRAP):
            predictors.append(predictor_on(member.network, member.inputs(graph), **how))
        else:
            predictors.append(predictor_on(member, graph, **how))
    spread, weights = bool(how.get("error_bars")) or how.get("inference") == "mean", [weight for _, weight in members]

    def predict(rows: Tensor) -> Prediction:
        rows = rows.to(graph.y.device)
        found = mean_prediction([predict(rows) for predict in predictors], weights, graph.objective, spread)
        if device is None:
            return found
        parts = (found.scores, found.probabilities, found.spread)
        return Prediction(*(None if part is None else part.cpu() for part in parts))  # type: ignore[arg-type]

    return predict


def _net_predictor(net: RandomNet, graph: Graph, hops: Hops | None) -> Predict:
    def predict(rows: Tensor) -> Prediction:
        scores = net_scores(net, graph, rows, hops)
        return Prediction(scores, graph.objective.read(scores))

    return predict


def mean_prediction(
    found: list[Prediction], weights: Sequence[float], objective: Objective, spread: bool
) -> Prediction:
    """The weighted mean of several predictions, and the standard deviation that independent members give it."""
    if len(found) == 1:
        one = found[0]
        return replace(one, spread=torch.zeros_like(one.probabilities)) if spread and one.spread is None else one
    mean = weighted_mean([one.probabilities for one in found], weights)
    deviation = None
    if spread:
        squares = [
            torch.zeros_like(mean) if one.spread is None else (weight * one.spread).square()
            for one, weight in zip(found, weights, strict=True)
        ]
        deviation = torch.stack(squares).sum(0).sqrt() / sum(weights)
    return Prediction(scores_of(mean, objective), mean, deviation)


def weighted_mean(parts: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    """The mean of tensors of one shape, each with its weight."""
    return torch.stack([weight * part for weight, part in zip(weights, parts, strict=True)]).sum(0) / sum(weights)


def scores_of(probabilities: Tensor, objective: Objective) -> Tensor:
    """Scores that are read as these probabilities."""
    if objective.metric == "rmse":
        return probabilities
    p = probabilities.clamp(torch.finfo(probabilities.dtype).tiny, 1.0)
    return p.log() if objective.metric == "accuracy" else torch.logit(probabilities, eps=1e-7)
