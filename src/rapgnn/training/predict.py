"""A trained model's predictions, on the graph it was trained on or another."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from rapgnn.errors import InputError, InputNotice
from rapgnn.graph.graph import Graph
from rapgnn.graph.tasks import Objective
from rapgnn.network.heads import RidgeHead, TargetScale
from rapgnn.network.hop_network import HopNetwork, walk_of
from rapgnn.network.hops import Hops
from rapgnn.network.network import Average, Network
from rapgnn.network.polynomial import OnHop, expected_product
from rapgnn.network.rapgnn import RAPGNN
from rapgnn.network.representation import EmbeddedGraph
from rapgnn.network.weights import EVALUATION
from rapgnn.training.uncertainty import spread_of

HOP_BYTES = 512 << 20  # of the hops stored for the rows that are predicted together
MOMENT_BYTES = 1 << 30  # of the expectations and variances of rows that get error bars together, features being wide


@dataclass(frozen=True)
class Prediction:
    """Scores (higher: likelier), probabilities, and the probabilities' standard deviation over draws, if asked for."""

    scores: Tensor
    probabilities: Tensor
    spread: Tensor | None = None


def predictor_on(
    model: RAPGNN,
    graph: Graph,
    inference: str | None = None,
    num_samples: int | None = None,
    error_bars: bool = False,
    device: str | None = None,
    on_hop: OnHop = lambda: None,
    hops: Hops | None = None,
) -> Callable[[Tensor], Prediction]:
    """A trained model's predictions for the rows of any graph with its features, the training graph or another.

    Args:
        inference, num_samples: as in ``Config``; None takes the model's own.
        error_bars: whether predictions shall have a spread: from the exact variance, or over draws.
        device: move model and graph there, and give predictions back on the CPU; None: where they are.
        on_hop: called after every hop of an exact expectation.
        hops: of this graph, where other networks share them: their inputs are this one's.
    """
    if device is not None:
        model, graph = model.to(device), graph.to(device)
    graph, operator = model.inputs(graph, hops=hops)
    embedded = replace(model.embed(graph.x, operator), on_hop=on_hop)
    chosen = embedded.choose_inference(inference or model.config.inference, error_bars)
    samples = num_samples or model.config.num_samples
    predict = predictor(model, embedded, graph.objective, chosen, samples, error_bars)

    def checked(rows: Tensor) -> Prediction:
        found = predict(rows.to(graph.y.device))
        if not bool(torch.isfinite(found.scores).all()):
            raise InputError(
                "the predictions are not finite: the features or edge weights are too large, rescale them."
            )
        if device is None:
            return found
        parts = (found.scores, found.probabilities, found.spread)
        return Prediction(*(None if part is None else part.cpu() for part in parts))  # type: ignore[arg-type]

    return checked


@torch.no_grad()
def represented(model: RAPGNN, graph: Graph, rows: Tensor | None = None) -> Tensor:
    """What the head sees of some rows, or of all: the expectation, or, where there is none, the draw it predicts by."""
    graph, operator = model.inputs(graph)
    embedded = model.embed(graph.x, operator)
    rows = torch.arange(graph.num_rows, device=graph.y.device) if rows is None else rows
    if embedded.has_expectation:
        return embedded.expectation(rows)
    first = int(model.draw_counter)
    counter = model.spec.weights.evaluation_counter(first)
    return next(embedded.rows(rows).draws([counter], steps=[EVALUATION + first]))


def predictor(
    model: RAPGNN,
    embedded: EmbeddedGraph,
    objective: Objective,
    inference: str,
    num_samples: int,
    error_bars: bool = False,
) -> Callable[[Tensor], Prediction]:
    """rows -> prediction.

    Args:
        inference: ``"sample"``, a fresh draw; ``"mean"`` over draws, with their spread; ``"expected"``, the exact
            expectation, and with ``error_bars`` the spread that follows from the exact variance.
    """
    first = int(model.draw_counter)  # the draws of inference are chosen now, so that predicting twice agrees
    count = num_samples if inference == "mean" and not embedded.constant else 1
    counters = [model.spec.weights.evaluation_counter(first + i) for i in range(count)]
    steps = [EVALUATION + first + i for i in range(count)]
    hop_size = 4 * model.embedding.out_channels * (model.spec.num_layers + 1)

    @torch.no_grad()
    def predict(rows: Tensor) -> Prediction:
        if inference == "expected" and error_bars:
            return _with_exact_spread(model, embedded, objective, rows)
        if inference == "expected":
            return as_prediction(_expected_scores(model, embedded, rows), objective, model.output)
        # The shortcut stores hops of what it predicts: some rows at a time, so that this stays small on any graph.
        size = max(1, HOP_BYTES // max(1, hop_size)) if embedded.engine == "polynomial" else max(1, len(rows))
        parts = [
            torch.stack([model.head(h) for h in embedded.rows(part).draws(counters, steps=steps)])
            for part in rows.split(size)
        ]
        scores = torch.cat(parts, dim=1)
        if count == 1:
            return as_prediction(scores[0], objective, model.output)
        drawn = as_prediction(scores, objective, model.output).probabilities
        return Prediction(drawn.mean(0), drawn.mean(0), drawn.std(0))

    return predict


def _expected_scores(model: RAPGNN, embedded: EmbeddedGraph, rows: Tensor) -> Tensor:
    """The head's scores of the exact expectation; on wide features by products alone, which take no room."""
    head, h = model.head, embedded.h
    if not isinstance(head, RidgeHead) or h is None or not _commutes(embedded, head.weight.shape[1]):
        return head(embedded.expectation(rows))
    product = expected_product(embedded.spec, embedded.operator, h, head.weight, embedded.on_hop)
    return product[rows] + head.bias


def _commutes(embedded: EmbeddedGraph, outputs: int) -> bool:
    """Whether a linear head may go before the hops, and these are wide enough to want it."""
    nodes = embedded.operator.ptr is None and not embedded.spec.rule.edges
    exact = embedded.engine == "polynomial" and not embedded.constant
    return nodes and exact and embedded.h is not None and embedded.h.shape[1] > outputs


def _with_exact_spread(model: RAPGNN, embedded: EmbeddedGraph, objective: Objective, rows: Tensor) -> Prediction:
    """The exact expectation's prediction, with the spread that follows from the exact variance; nothing is drawn."""
    if embedded.constant:
        certain = as_prediction(model.head(embedded.expectation(rows)), objective, model.output)
        return replace(certain, spread=torch.zeros_like(certain.probabilities))
    if not (isinstance(model.head, RidgeHead) and _commutes(embedded, model.head.weight.shape[1]) and len(rows)):
        expectation, covariance = embedded.expectation_and_covariance(rows)
        found = as_prediction(model.head(expectation), objective, model.output)
        spread = spread_of(model.head, objective, expectation, covariance)
        return replace(found, spread=model.output.scale_spread(spread))
    # Wide: some rows at a time, so that this stays small, each time over all hops.
    found = as_prediction(_expected_scores(model, embedded, rows), objective, model.output)
    outputs = len(embedded.spec.outputs)
    row_bytes = 2 * model.embedding.out_channels * outputs * (outputs + 3)
    parts = rows.split(max(1, MOMENT_BYTES // row_bytes))
    spread = [spread_of(model.head, objective, *embedded.expectation_and_covariance(part)) for part in parts]
    return replace(found, spread=model.output.scale_spread(torch.cat(spread)))


def as_prediction(scores: Tensor, objective: Objective, output: TargetScale) -> Prediction:
    """Raw scores of a head, read."""
    scores = output(scores)
    return Prediction(scores, objective.read(scores))


# Predictions of networks with fixed hops, and of averages of several models.


NEW_NODES = "none of the nodes that the model knows by their ids are in these data: members that know none answer"
ROWS, BLOCK_BYTES = 1 << 16, 1 << 28  # predicted at a time, at most
Predict = Callable[[Tensor], Prediction]
Shared = dict[Any, Any]
"""What networks on one graph share, its hops above all."""


def once(shared: Shared, key: Any, make: Callable[[], Any]) -> Any:
    """What is shared under a key; made where it is not there yet."""
    if key not in shared:
        shared[key] = make()
    return shared[key]


def hops_for(network: Network, graph: Graph, shared: Shared, rows: Tensor | None = None) -> Hops | None:
    """The hops that a network needs of a graph's nodes, shared with other networks that need the same; None: its own.

    Args:
        rows: as in ``Hops``.
    """
    config = network.config
    alone = config.coefficients == "random" and (config.normalize_features or config.eps != 0)
    if graph.ptr is not None or alone or not isinstance(network, HopNetwork | RAPGNN):
        return None
    hops = once(shared, walk_of(config), lambda: network.hops(graph, rows))
    if isinstance(network, HopNetwork) and network.previous is not None:
        network.predictions_before(graph, hops, hops_for(network.previous, graph, shared, rows))
    return hops


def model_on(model: Any, graph: Graph, shared: Shared | None = None, **how: Any) -> Predict:
    """rows -> predictions of any model of this library: one network, or an average.

    Args:
        shared: what other networks have made of this graph.
        how: as in ``predictor_on``.
    """
    shared = {} if shared is None else shared
    if isinstance(model, RAPGNN):
        hops = None if how.get("device") is not None else hops_for(model, graph, shared)
        return predictor_on(model, graph, hops=hops, **how)
    if isinstance(model, HopNetwork):
        return _hop_predictor(model, graph, shared)
    return average_on(model, graph, shared=shared, **how)


def _hop_predictor(network: HopNetwork, graph: Graph, shared: Shared) -> Predict:
    hops = hops_for(network, graph, shared)
    whole: list[Tensor] = []  # the scores of all nodes

    @torch.no_grad()
    def predict(rows: Tensor) -> Prediction:
        if hops is not None and network.goes_first(hops):
            whole[:] = whole or [network.scores_by_products(graph, hops)]
            return Prediction(whole[0][rows], graph.objective.read(whole[0][rows]))
        size = max(1, min(ROWS, BLOCK_BYTES // (4 * network.channels)))
        size = max(1, len(rows)) if network.config.unit_hops else size  # which go through the graph as a whole
        parts = [network.scores(network.represent(graph, part, hops)) for part in rows.split(size)]
        scores = torch.cat(parts) if parts else network.output.shift.new_zeros(0, len(network.output.shift))
        return Prediction(scores, graph.objective.read(scores))

    return predict


@torch.no_grad()
def represented_by(model: Any, graph: Graph, rows: Tensor | None = None) -> Tensor:
    """What the head of the best member that suits any graph sees of these rows, or of all."""
    best: Any = model.widest if isinstance(model, Average) else model
    if isinstance(best, HopNetwork):
        Average([best]).weighted_for(graph)  # which refuses a graph that it has nothing to say about
        return best.represent(graph, rows)
    return represented(best, graph, rows)


def average_on(
    average: Average, graph: Graph, device: str | None = None, shared: Shared | None = None, **how: Any
) -> Predict:
    """rows -> the mean over the members; as ``predictor_on`` for one model.

    Members draw on their own, so the variance of the mean is the sum of theirs by the squares of their shares. Networks
    whose weights are fixed have none.
    """
    if device is not None:
        average, graph = average.to(device), graph.to(device)
    members = average.weighted_for(graph)
    if "here" in average.uses and not any(member.bound for member, _ in members):
        warnings.warn(NEW_NODES, InputNotice, stacklevel=2)
    shared = {} if shared is None else shared
    predictors = [model_on(member, graph, shared, **how) for member, _ in members]
    spread, weights = bool(how.get("error_bars")) or how.get("inference") == "mean", [weight for _, weight in members]

    def predict(rows: Tensor) -> Prediction:
        rows = rows.to(graph.y.device)
        mean = mean_prediction([predict(rows) for predict in predictors], weights, graph.objective, spread)
        if device is None:
            return mean
        parts = (mean.scores, mean.probabilities, mean.spread)
        return Prediction(*(None if part is None else part.cpu() for part in parts))  # type: ignore[arg-type]

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
