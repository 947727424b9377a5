"""A trained model's predictions, on the graph it was trained on or another."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from rapgnn.errors import InputError, notice
from rapgnn.graph.graph import Graph
from rapgnn.graph.part import Parts
from rapgnn.graph.tasks import Objective
from rapgnn.network.config import Config
from rapgnn.network.heads import RidgeHead, TargetScale
from rapgnn.network.hops import Hops
from rapgnn.network.network import PREVIOUS_HOPS, Average, HopNetwork, Network, Shared, is_bound, once, walk_of
from rapgnn.network.polynomial import OnHop, expected_product
from rapgnn.network.rapgnn import RAPGNN
from rapgnn.network.representation import EmbeddedGraph
from rapgnn.network.weights import EVALUATION
from rapgnn.training.uncertainty import head_spread, spread_of

HOP_BYTES = 512 << 20  # of the hops stored for the rows that are predicted together
MOMENT_BYTES = 1 << 30  # of the expectations and variances of rows that get error bars together, features being wide


IMPOSSIBLE = -100.0  # score of a class that no training row has
PARTS = ("draws", "head", "members")
"""Of the spread: over draws of the weights, of the solved head's posterior, between the members of an average."""


@dataclass(frozen=True)
class Prediction:
    """Scores (higher: likelier), probabilities, and how sure these are, if asked for.

    Args:
        parts: the standard deviation of the probabilities by what it comes from, names from ``PARTS``.
        missing: why the other parts are not there.
    """

    scores: Tensor
    probabilities: Tensor
    parts: dict[str, Tensor] | None = None
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def spread(self) -> Tensor | None:
        """The root of the parts' sum of squares; NaN where there is no part, None where it was not asked for."""
        if self.parts is None:
            return None
        if not self.parts:
            return torch.full_like(self.probabilities, float("nan"))
        return torch.stack([part.square() for part in self.parts.values()]).sum(0).sqrt()

    def each(self, change: Callable[[Tensor], Tensor]) -> "Prediction":
        parts = None if self.parts is None else {name: change(part) for name, part in self.parts.items()}
        return replace(self, scores=change(self.scores), probabilities=change(self.probabilities), parts=parts)

    @classmethod
    def joined(cls, predictions: Sequence["Prediction"]) -> "Prediction":
        """Of all rows, from those of some rows at a time by one model."""
        first = predictions[0]
        parts = first.parts and {
            name: torch.cat([(one.parts or {})[name] for one in predictions]) for name in first.parts
        }
        scores, p = (torch.cat([getattr(one, n) for one in predictions]) for n in ("scores", "probabilities"))
        return cls(scores, p, parts, first.missing)


def no_error_bars(prediction: Prediction) -> str:
    return f"there are no error bars: {'; '.join(prediction.missing.values())}."


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
        return Prediction.joined(
            [drawn(list(embedded.rows(part).draws(counters, steps=steps))) for part in rows.split(size)]
        )

    def drawn(h: list[Tensor]) -> Prediction:
        each = as_prediction(torch.stack([model.head(one) for one in h]), objective, model.output)
        if count == 1:
            one = each.each(lambda t: t[0])
            return with_parts(one, model, objective, h[0], None) if error_bars or inference == "mean" else one
        mean = each.probabilities.mean(0)
        return with_parts(Prediction(mean, mean), model, objective, torch.stack(h).mean(0), each.probabilities.std(0))

    return predict


def _expected_scores(model: RAPGNN, embedded: EmbeddedGraph, rows: Tensor) -> Tensor:
    """The head's scores of the exact expectation; on wide features by products alone, which take no room."""
    head, h = model.head, embedded.h
    nodes = embedded.operator.ptr is None and not embedded.spec.rule.edges
    exact = embedded.engine == "polynomial" and not embedded.constant
    if head.solved and nodes and exact and h is not None:
        weight, finish = head.first_map()
        if h.shape[1] > weight.shape[1]:  # wide enough: the head goes before the hops
            return finish(expected_product(embedded.spec, embedded.operator, h, weight, embedded.on_hop)[rows])
    return head(embedded.expectation(rows))


def _with_exact_spread(model: RAPGNN, embedded: EmbeddedGraph, objective: Objective, rows: Tensor) -> Prediction:
    """The exact expectation's prediction, with the spread that follows from the exact variance; nothing is drawn."""
    prediction = as_prediction(_expected_scores(model, embedded, rows), objective, model.output)
    if embedded.constant:
        return with_parts(prediction, model, objective, embedded.expectation(rows), None)
    # Some rows at a time, so that this stays small, each time over all hops.
    outputs = len(embedded.spec.outputs)
    row_bytes = 2 * model.embedding.out_channels * outputs * (outputs + 3)
    parts = []
    for places in torch.arange(len(rows), device=rows.device).split(max(1, MOMENT_BYTES // row_bytes)):
        expectation, covariance = embedded.expectation_and_covariance(rows[places])
        draws = model.output.scale_spread(spread_of(model.head, objective, expectation, covariance))
        parts.append(with_parts(prediction.each(lambda t, at=places: t[at]), model, objective, expectation, draws))
    return Prediction.joined(parts)


def with_parts(
    prediction: Prediction, network: Any, objective: Objective, h: Tensor, draws: Tensor | None
) -> Prediction:
    """A prediction with the parts of its spread: over draws, where that is known, and of the head's posterior."""
    parts, missing = dict[str, Tensor](), dict[str, str]()
    if draws is None:
        missing["draws"] = "the weights are drawn once and stay"
    else:
        parts["draws"] = draws
    head = network.head
    if not isinstance(head, RidgeHead):
        missing["head"] = "a head that is trained has no posterior in closed form"
    elif not float(head.level):
        missing["head"] = "the labels have gaps in different rows, or the model was fitted without a posterior"
    else:
        parts["head"] = network.output.scale_spread(head_spread(head, objective, h))
    return replace(prediction, parts=parts, missing=missing | {"members": "the model is one network"})


def check_finite(prediction: Prediction) -> Prediction:
    if not bool(torch.isfinite(prediction.scores).all()):
        raise InputError("the predictions are not finite: the features or edge weights are too large, rescale them.")
    return prediction


def as_prediction(scores: Tensor, objective: Objective, output: TargetScale) -> Prediction:
    scores = output(scores)
    return Prediction(scores, objective.read(scores))


# Predictions of networks with fixed hops, and of averages of several models.


Predict = Callable[[Tensor], Prediction]


def hops_for(network: Network, graph: Graph, shared: Shared, rows: Tensor | None = None) -> Hops | None:
    """The hops that a network needs of a graph's nodes, shared with others that need the same; None: its own."""
    config = network.config
    alone = config.coefficients == "random" and (config.normalize_features or config.eps != 0)
    if graph.ptr is not None or alone or not isinstance(network, HopNetwork | RAPGNN):
        return None
    hops = once(shared, walk_of(config), lambda: network.hops(graph, rows, shared))
    if isinstance(network, HopNetwork) and network.previous is not None:
        network.predictions_before(graph, hops, hops_for(network.previous, graph, shared, rows))
    return hops


def model_on(
    model: Any,
    graph: Graph,
    shared: Shared | None = None,
    *,
    inference: str | None = None,
    num_samples: int | None = None,
    error_bars: bool = False,
    device: str | None = None,
    on_hop: OnHop = lambda: None,
) -> Predict:
    """rows -> predictions of any trained model for any graph with its features: of one network, or of an average.

    Args:
        shared: what other networks have made of this graph.
        inference, num_samples: as in ``Config``; None takes the model's own.
        error_bars: whether predictions shall have a spread: from the exact variance, or over draws.
        device: move model and graph there, and give predictions back on the CPU; None: where they are.
    """
    if device is not None:
        model, graph = model.to(device), graph.to(device)
    shared, spread = {} if shared is None else shared, error_bars or inference == "mean"
    if isinstance(model, Average):
        how = {"inference": inference, "num_samples": num_samples, "error_bars": error_bars, "on_hop": on_hop}
        predict = _average_on(model, graph, spread, lambda member: model_on(member, graph, shared, **how))
    elif isinstance(model, HopNetwork):
        predict = _hop_predictor(model, graph, shared, spread)
    else:
        seen, operator = model.inputs(graph, hops=hops_for(model, graph, shared) if device is None else None)
        embedded = replace(model.embed(seen.x, operator), on_hop=on_hop)
        chosen = embedded.choose_inference(inference or model.config.inference, error_bars)
        samples = num_samples or model.config.num_samples
        predict = predictor(model, embedded, graph.objective, chosen, samples, error_bars)

    def checked(rows: Tensor) -> Prediction:
        prediction = check_finite(predict(rows.to(graph.y.device)))
        return prediction if device is None else prediction.each(Tensor.cpu)

    return checked


def _hop_predictor(network: HopNetwork, graph: Graph, shared: Shared, error_bars: bool) -> Predict:
    hops = hops_for(network, graph, shared)
    whole: list[Tensor] = []  # the scores of all nodes

    @torch.no_grad()
    def predict(rows: Tensor) -> Prediction:
        if hops is not None and network.goes_first(hops):
            whole[:] = whole or [network.scores_by_products(graph, hops)]
        if whole and not error_bars:
            return Prediction(whole[0][rows], graph.objective.read(whole[0][rows]))
        size = max(1, min(1 << 16, (1 << 28) // (4 * network.channels)))  # some rows at a time
        size = max(1, len(rows)) if network.config.unit_hops else size  # which go through the graph as a whole
        parts = []
        for part in rows.split(size):  # of no rows there is one part, which is empty
            h = network.represent(graph, part, hops)
            scores = whole[0][part] if whole else network.scores(h)
            one = Prediction(scores, graph.objective.read(scores))
            parts.append(with_parts(one, network, graph.objective, h, None) if error_bars else one)
        return Prediction.joined(parts)

    return predict


@torch.no_grad()
def represented_by(model: Any, graph: Graph, rows: Tensor | None = None) -> Tensor:
    """What the head of the best member that suits any graph sees of these rows, or of all: the expectation, or, where
    there is none, the draw it predicts by."""
    best: Any = model.widest if isinstance(model, Average) else model
    if isinstance(best, HopNetwork):
        Average([best]).weighted_for(graph)  # which refuses a graph that it has nothing to say about
        return best.represent(graph, rows)
    graph, operator = best.inputs(graph)
    embedded = best.embed(graph.x, operator)
    rows = torch.arange(graph.num_rows, device=graph.y.device) if rows is None else rows
    if embedded.has_expectation:
        return embedded.expectation(rows)
    first = int(best.draw_counter)
    counter = best.spec.weights.evaluation_counter(first)
    return next(embedded.rows(rows).draws([counter], steps=[EVALUATION + first]))


def _average_on(average: Average, graph: Graph, spread: bool, on: Callable[[Network], Predict]) -> Predict:
    members = average.weighted_for(graph)
    if "here" in average.uses and not any(is_bound(member.config) for member, _ in members):
        notice("none of the nodes that the model knows by their ids are in these data: members that know none answer")
    predictors, weights = [on(member) for member, _ in members], [weight for _, weight in members]

    def predict(rows: Tensor) -> Prediction:
        mean = mean_prediction([predict(rows) for predict in predictors], weights, graph.objective, spread)
        parts = mean.parts and {name: average.of_all(part, 0.0) for name, part in mean.parts.items()}
        p, scores = average.of_all(mean.probabilities, 0.0), average.of_all(mean.scores, IMPOSSIBLE)
        return replace(mean, scores=scores, probabilities=p, parts=parts)

    return predict


def mean_prediction(
    predictions: list[Prediction], weights: Sequence[float], objective: Objective, spread: bool
) -> Prediction:
    """The weighted mean of several predictions, and the parts of its spread.

    Members draw on their own, so the variance over draws is the sum of theirs by the squares of their shares; members
    whose weights are fixed add nothing. Their heads were solved for the same labels, so the head's spread is the mean
    of those that have one. Beside them stands how far the members' predictions lie apart.
    """
    if len(predictions) == 1:
        return predictions[0]
    mean = weighted_mean([one.probabilities for one in predictions], weights)
    mean = mean if objective.metric == "rmse" else mean.clamp(max=1.0)  # of ones it may be 1 and a rounding
    whole = Prediction(scores_of(mean, objective), mean)
    if not spread:
        return whole
    parts, missing = {}, {}
    for name in ("draws", "head"):
        have = [
            (one.parts[name], w) for one, w in zip(predictions, weights, strict=True) if one.parts and name in one.parts
        ]
        mine = [part for part, _ in have]
        if not have:
            missing[name] = predictions[0].missing[name]
        elif name == "head":
            parts[name] = weighted_mean(mine, [weight for _, weight in have])
        else:
            squares = [(weight * part).square() for part, weight in have]
            parts[name] = torch.stack(squares).sum(0).sqrt() / sum(weights)
    apart = [(one.probabilities - mean).square() for one in predictions]
    parts["members"] = weighted_mean(apart, weights).sqrt()
    return replace(whole, parts=parts, missing=missing)


def weighted_mean(parts: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    return torch.stack([weight * part for weight, part in zip(weights, parts, strict=True)]).sum(0) / sum(weights)


def scores_of(probabilities: Tensor, objective: Objective) -> Tensor:
    """Scores that are read as these probabilities."""
    if objective.metric == "rmse":
        return probabilities
    p = probabilities.clamp(torch.finfo(probabilities.dtype).tiny, 1.0)
    return p.log() if objective.metric == "accuracy" else torch.logit(probabilities, eps=1e-7)


# Exact predictions of a few rows from their surroundings alone.


class Nearby:
    """The parts of a graph that a model's predictions depend on."""

    def __init__(self, model: Any, graph: Graph):
        members = members_on(model, graph)
        self.graph, self.local = graph, graph.typed is None and all(is_local(member, graph) for member in members)
        self.parts = Parts(graph, *span_of(members))

    def part(self, rows: Tensor) -> tuple[Graph, Tensor]:
        """What is enough for these rows, and their places in it.

        The graph itself where they depend on most of it, or on what only the whole graph tells.
        """
        return self.parts.around(rows) if self.local and len(rows) else (self.graph, rows)


def members_on(model: Any, graph: Graph) -> list[Any]:
    return [member for member, _ in model.weighted_for(graph)] if isinstance(model, Average) else [model]


def span_of(members: list[Any]) -> tuple[int, bool]:
    """How many steps far predictions look, and whether against the edges, too."""
    configs = [member.config for member in members]
    return max(map(reach_of, configs)), any(looks_back(config) for config in configs)


def reach_of(config: Config) -> int:
    """How many steps far what a network says of a node depends on others."""
    if config.coefficients == "random":
        return config.num_layers + (config.embedding == "pretrained-gnn")
    before = 0 if config.previous is None else PREVIOUS_HOPS + reach_of(config.previous)
    return max(max(config.num_layers, before) + config.unit_hops, config.known_labels)


def looks_back(config: Config) -> bool:
    return config.edges != "given" or (config.previous is not None and looks_back(config.previous))


def is_local(member: Any, graph: Graph) -> bool:
    """Whether what a network says of a row depends on its surroundings alone.

    Random features of nodes are drawn for all nodes at once, and whether random layers have an exact expectation may
    depend on the signs of all features and weights.
    """
    if isinstance(member, HopNetwork):
        return True
    assert isinstance(member, RAPGNN)
    config, embedding = member.config, member.embedding
    if embedding.varies:
        return False
    if config.inference in ("sample", "mean") or (config.activation == "identity" and not member.spec.rule.edges):
        return True
    positive = graph.edge_weight is None or bool((graph.edge_weight >= 0).all())
    return positive and embedding.mlp is not None and not embedding.unchanged_output
