"""A trained model's predictions, on the graph it was trained on or another."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rapgnn.graph.graph import Graph
from rapgnn.graph.tasks import Objective
from rapgnn.layers.targets import TargetScale
from rapgnn.layers.weights import EVALUATION
from rapgnn.models.prepare import prepare
from rapgnn.models.rapgnn import RAPGNN
from rapgnn.propagation.engine import EmbeddedGraph, PolynomialRepresentation
from rapgnn.training.uncertainty import read_moments, score_moments

HOP_BYTES = 512 << 20  # of the hops stored for the rows that are predicted together


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
) -> Callable[[Tensor], Prediction]:
    """A trained model's predictions for the rows of any graph with its features, the training graph or another.

    Args:
        inference, num_samples: as in ``Config``; None takes the model's own.
        error_bars: whether predictions shall have a spread: from the exact variance, or over draws.
    """
    graph, operator = prepare(graph, model.config)
    embedded = model.embed(graph.x, operator)
    chosen = embedded.choose_inference(inference or model.config.inference, error_bars)
    samples = num_samples or model.config.num_samples
    return predictor(model, embedded, graph.objective, chosen, samples, error_bars)


@torch.no_grad()
def represented(model: RAPGNN, graph: Graph) -> Tensor:
    """What the head sees of every row: the expectation, or, where that has no exact form, the draw it predicts by."""
    graph, operator = prepare(graph, model.config)
    embedded = model.embed(graph.x, operator)
    rows = torch.arange(graph.num_rows)
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
        # The shortcut stores hops of what it predicts: some rows at a time, so that this stays small on any graph.
        size = max(1, HOP_BYTES // max(1, hop_size)) if embedded.engine == "polynomial" else max(1, len(rows))
        if inference == "expected" and error_bars:
            return _with_exact_spread(model, embedded, objective, rows, size)
        if inference == "expected":
            return as_prediction(model.head(embedded.expectation(rows)), objective, model.output)
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


def _with_exact_spread(
    model: RAPGNN, embedded: EmbeddedGraph, objective: Objective, rows: Tensor, size: int
) -> Prediction:
    """The prediction whose spread follows from the exact variance; nothing is drawn."""
    if embedded.constant:
        certain = as_prediction(model.head(embedded.expectation(rows)), objective, model.output)
        return replace(certain, spread=torch.zeros_like(certain.probabilities))
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    for part in rows.split(size) if len(rows) else [rows]:
        representation = embedded.rows(part)
        assert isinstance(representation, PolynomialRepresentation)
        mean, covariance = score_moments(model, representation.filter)
        mean, covariance = model.output(mean), model.output.scale_covariance(covariance)
        found.append((mean, *read_moments(objective, mean, covariance)))
    scores, probabilities, spread = (torch.cat(parts) for parts in zip(*found, strict=True))
    return Prediction(scores, probabilities, spread)


def as_prediction(scores: Tensor, objective: Objective, output: TargetScale) -> Prediction:
    """Raw scores of a head, read."""
    scores = output(scores)
    return Prediction(scores, objective.read(scores))
