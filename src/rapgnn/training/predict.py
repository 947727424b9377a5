"""A trained model's predictions, on the graph it was trained on or another."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import Structure
from rapgnn.graph.tasks import Task
from rapgnn.layers.heads import Output
from rapgnn.layers.weights import EVALUATION
from rapgnn.models.config import Config
from rapgnn.models.rapgnn import RAPGNN
from rapgnn.propagation.engine import PolynomialRepresentation, Source
from rapgnn.training.uncertainty import read_moments, score_moments

HOP_BYTES = 512 << 20  # of the hops kept for the rows that are predicted together


@dataclass(frozen=True)
class Prediction:
    """Scores (higher: likelier), probabilities, and the probabilities' standard deviation over draws, if drawn."""

    scores: Tensor
    probabilities: Tensor
    spread: Tensor | None = None


def predictor_on(
    model: RAPGNN, graph: Graph, inference: str | None = None, num_samples: int | None = None
) -> Callable[[Tensor], Prediction]:
    """A trained model's predictions for the rows of any graph with its features, the training graph or another.

    Args:
        inference, num_samples: as in ``Config``; None takes the model's own.
    """
    graph, structure = prepare(graph, model.config)
    source = model.source(graph.x, structure)
    chosen = choose_inference(inference or model.config.inference, source)
    return predictor(model, source, graph.rule, chosen, num_samples or model.config.num_samples)


@torch.no_grad()
def represented(model: RAPGNN, graph: Graph) -> Tensor:
    """What the head sees of every row: the expectation, or, where that has no exact form, the draw it predicts by."""
    graph, structure = prepare(graph, model.config)
    source = model.source(graph.x, structure)
    rows = torch.arange(graph.num_rows)
    if source.has_expectation:
        return source.expected(rows)
    first = int(model.draw_counter)
    return next(source.rows(rows).draws([model.spec.weights.evaluation_counter(first)], steps=[EVALUATION + first]))


def choose_inference(wanted: str, source: Source) -> str:
    """``"auto"`` is the exact expectation where there is one, else a fresh draw as in the paper; ``"spread"`` asks for
    error bars, exact where they can be, else over draws."""
    if wanted == "auto":
        return "expected" if source.has_expectation else "sample"
    if wanted == "spread":
        return "exact" if source.has_expectation else "mean"
    if wanted in ("expected", "exact") and not source.has_expectation:
        raise InputError(source.no_expectation)
    return wanted


def predictor(
    model: RAPGNN, source: Source, task: Task, inference: str, num_samples: int
) -> Callable[[Tensor], Prediction]:
    """rows -> prediction by a fresh draw (``"sample"``), by the mean over draws with its spread (``"mean"``), by the
    exact expectation (``"expected"``), or with the spread that follows from the exact variance (``"exact"``)."""
    first = int(model.draw_counter)  # the draws of inference are chosen now, so that predicting twice agrees
    count = num_samples if inference == "mean" and not source.constant else 1
    counters = [model.spec.weights.evaluation_counter(first + i) for i in range(count)]
    steps = [EVALUATION + first + i for i in range(count)]
    hop_size = 4 * model.embedding.out_channels * (model.spec.num_layers + 1)

    @torch.no_grad()
    def predict(rows: Tensor) -> Prediction:
        if inference == "expected":
            return as_prediction(model.head(source.expected(rows)), task, model.output)
        # The shortcut keeps hops of what it predicts: some rows at a time, so that this stays small on any graph.
        size = max(1, HOP_BYTES // max(1, hop_size)) if source.engine == "polynomial" else max(1, len(rows))
        if inference == "exact":
            return _with_exact_spread(model, source, task, rows, size)
        parts = [
            torch.stack([model.head(h) for h in source.rows(part).draws(counters, steps=steps)])
            for part in rows.split(size)
        ]
        scores = torch.cat(parts, dim=1)
        if count == 1:
            return as_prediction(scores[0], task, model.output)
        drawn = as_prediction(scores, task, model.output).probabilities
        return Prediction(drawn.mean(0), drawn.mean(0), drawn.std(0))

    return predict


def _with_exact_spread(model: RAPGNN, source: Source, task: Task, rows: Tensor, size: int) -> Prediction:
    """The prediction whose spread follows from the exact variance; nothing is drawn."""
    if source.constant:
        certain = as_prediction(model.head(source.expected(rows)), task, model.output)
        return replace(certain, spread=torch.zeros_like(certain.probabilities))
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    for part in rows.split(size) if len(rows) else [rows]:
        kept = source.rows(part)
        assert isinstance(kept, PolynomialRepresentation)
        mean, covariance = score_moments(model, kept.filter)
        mean, covariance = model.output(mean), model.output.scale_covariance(covariance)
        found.append((mean, *read_moments(task, mean, covariance)))
    scores, probabilities, spread = (torch.cat(parts) for parts in zip(*found, strict=True))
    return Prediction(scores, probabilities, spread)


def prepare(graph: Graph, config: Config) -> tuple[Graph, Structure]:
    """The graph as the settings want its features, and as the backbone's layers see it."""
    graph = graph.normalized_features() if config.normalize_features else graph
    return graph, graph.structure(config.backbone, config.self_loops, config.eps)


def as_prediction(scores: Tensor, task: Task, output: Output) -> Prediction:
    """Raw scores of a head, read."""
    scores = output(scores)
    return Prediction(scores, task.read(scores))
