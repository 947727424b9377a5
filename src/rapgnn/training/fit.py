"""Training a network with random layers: phase 1, where the embedding is pretrained, then phase 2, the head."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, repeat, tee
from typing import Any

import torch
from torch import Tensor, nn

from rapgnn.device import own_settings, threads, threads_for
from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.graph.rows import row_weights
from rapgnn.network.config import Config
from rapgnn.network.heads import (
    PENALTIES,
    Head,
    RidgeHead,
    RidgeRegression,
    RidgeSolution,
    TargetScale,
    best_from_middle,
    same_gaps,
)
from rapgnn.network.hops import Hops
from rapgnn.network.mlp import Noise
from rapgnn.network.rapgnn import RAPGNN
from rapgnn.network.representation import EmbeddedGraph, PolynomialRepresentation, Representation
from rapgnn.network.weights import EVALUATION
from rapgnn.prng import Stream, seeded
from rapgnn.training.blocks import Phase2, head_dropout, train_in_blocks
from rapgnn.training.loop import Loop, OnEpoch, optimise, schedule, shuffled
from rapgnn.training.predict import Prediction, predictor
from rapgnn.training.pretrain import pretrain


def train_head(model: RAPGNN, head: Head, graph: Graph, embedded: EmbeddedGraph, on_epoch: OnEpoch | None) -> Loop:
    """Train the head; with a learnable embedding the gradient goes on through the layers into it."""
    refuse_weights(graph)
    learnable = model.embedding.kind.trained == "with"
    exact = embedded.has_expectation and model.config.inference != "sample"
    representation = embedded.rows(graph.train, expect=graph.val if exact else None)
    validation = ValidationRows(model, graph, embedded, representation.expected if exact else None)
    fit_input_scale(head, representation, model.config, nodes=graph.ptr is None)
    lower_unseen(head, graph)
    if in_blocks(model, embedded):
        data = Phase2(model, head, graph, representation, validation.expected, validation.rows)
        loop = train_in_blocks(data, on_epoch)
        model.draw_counter.fill_(model.config.epochs * len(data.sizes))
        return loop
    batches = TrainingBatches(model, head, graph, representation)
    shortcut = embedded.engine == "polynomial" or embedded.constant
    with threads_for(batches.work if shortcut else 1 << 62):
        loop = optimise(
            [model] if learnable else [head],
            batches,
            graph,
            lambda epoch: model.output(head(validation(epoch))),
            **schedule(model.config),
            on_epoch=on_epoch,
        )
    model.draw_counter.fill_(batches.steps)
    return loop


def in_blocks(model: RAPGNN, embedded: EmbeddedGraph) -> bool:
    """Whether phase 2 runs in blocks of epochs: on a GPU, at one rate, where only the head is trained or drops out."""
    fixed = model.embedding.kind.trained != "with" and not model.spec.layer_dropout
    return fixed and not model.config.lr_decay and embedded.operator.matrix.values.is_cuda


class TrainingBatches:
    """epoch -> (scores, labels) of one batch after another, each with a draw of its own.

    Draws of many steps, even of many epochs, are made together, so the epochs must be asked for in order.
    """

    def __init__(self, model: RAPGNN, head: Head, graph: Graph, representation: Representation):
        config, weights, rows = model.config, model.spec.weights, len(graph.train)
        y = model.output.standardise(graph.y[graph.train])
        size, epochs = config.batch_size or rows, range(config.epochs)
        self.steps_per_epoch = -(-rows // size)
        self.steps = config.epochs * self.steps_per_epoch
        self.head, self.generator = head, head_dropout(model, head, min(size, rows), y.device)
        # Layer dropout is part of a training pass even where the embedding is frozen.
        inside = self.generator if model.embedding.kind.trained == "with" or model.spec.layer_dropout else None
        per_epoch = self.steps_per_epoch
        counters = [weights.counter(e * per_epoch + i, e) for e in epochs for i in range(per_epoch)]
        self._drawn: Iterator[tuple[Tensor, Tensor]]
        if per_epoch == 1:
            self._drawn = zip(representation.draws(counters, inside, epochs), repeat(y), strict=False)
        else:
            order = seeded(model.seed, Stream.BATCHES)
            batches, same = tee(batch for _ in epochs for batch in shuffled(rows, size, order, y.device))
            drawn = representation.draws(counters, inside, range(self.steps), batches)
            self._drawn = zip(drawn, (y[batch] for batch in same), strict=False)
        per_row = model.embedding.out_channels * (config.num_layers + 1) + sum(p.numel() for p in head.parameters())
        self.work = min(size, rows) * per_row  # multiply-adds of a step, roughly

    def __call__(self, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        for h, y in islice(self._drawn, self.steps_per_epoch):
            yield self.head(h, self.generator), y


class ValidationRows:
    """epoch -> the representation of the validation rows: the expectation where it is exact, else a fresh draw."""

    def __init__(self, model: RAPGNN, graph: Graph, embedded: EmbeddedGraph, expected: Tensor | None):
        self.model, self.graph, self.operator, self.expected = model, graph, embedded.operator, expected
        frozen = model.embedding.kind.trained != "with"
        self.rows = embedded.rows(graph.val) if expected is None and frozen else None
        self._drawn: Iterator[Tensor] | None = None

    def __call__(self, epoch: int) -> Tensor:
        if self.expected is not None:
            return self.expected
        if self.rows is None:  # the embedding as it is after this epoch
            now = self.model.embed(self.graph.x, self.operator)
            if now.has_expectation and self.model.config.inference != "sample":
                return now.expectation(self.graph.val)
            return next(self._draws(now.rows(self.graph.val), range(epoch, epoch + 1)))
        if self._drawn is None:  # of all epochs, in order: the shortcut makes many of them together
            self._drawn = self._draws(self.rows, range(epoch, self.model.config.epochs))
        return next(self._drawn)

    def _draws(self, rows: Representation, epochs: range) -> Iterator[Tensor]:
        weights = self.model.spec.weights
        return rows.draws([weights.evaluation_counter(e) for e in epochs], steps=[EVALUATION + e for e in epochs])


def refuse_weights(graph: Graph) -> None:
    """Rows that count differently are part of the equations of a head, and of no loss."""
    if graph.sample_weight is not None:
        raise InputError('sample_weight is for heads that are solved: leave `head` out, or set it to "ridge".')


@torch.no_grad()
def lower_unseen(head: Head, graph: Graph, logit: float = -5.0) -> None:
    """Let classes that no training row has begin, and so end, as unlikely ones, however early training stops."""
    if graph.objective.metric == "accuracy":
        unseen = torch.bincount(graph.y[graph.train], minlength=graph.num_outputs) == 0
        head.mlp.linears()[-1].bias.masked_fill_(unseen, logit)


@torch.no_grad()
def fit_input_scale(head: Head, representation: Representation, config: Config, nodes: bool) -> None:
    if not (config.rescale or config.standardize):
        return
    if nodes and not config.standardize:
        weights = representation.embedded.spec.weights
        mean, square = representation.draw_moments(weights.counter(0, 0))
    else:
        mean, square = representation.channel_moments()
    head.fit_input_scale(mean, square, config.standardize)


def train_on_features(
    head: Head,
    graph: Graph,
    train: Tensor,
    val: Tensor,
    output: TargetScale,
    seed: int,
    noise: Noise,
    batch_size: int,
    **how: Any,
) -> Loop:
    """Train a head on features that never change; validation chooses the epoch."""
    refuse_weights(graph)
    y, order = output.standardise(graph.y[graph.train]), seeded(seed, Stream.BATCHES)

    def passes(epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        for batch in shuffled(len(train), batch_size, order, train.device):
            yield head(train.index_select(0, batch), noise), y[batch]

    return optimise([head], passes, graph, lambda epoch: output(head(val)), **how)


@dataclass(frozen=True)
class Equations:
    """The equations of a ridge head.

    Args:
        regression: solves them for one penalty after another.
        held_out: a head -> its scores of the validation rows.
        threads: that solving them deserves.
    """

    regression: RidgeRegression
    held_out: Callable[[nn.Module], Tensor]
    threads: int


def equations_of(model: RAPGNN, graph: Graph, embedded: EmbeddedGraph, many: bool = False) -> tuple[Equations, Tensor]:
    """The equations from the representation of the training rows, and the expectation of the validation rows.

    Args:
        many: as in ``RidgeRegression``.
    """
    if not embedded.has_expectation:
        raise InputError(f"the ridge head needs the exact mean and variance, which are not at hand: {embedded.reason}.")
    representation = embedded.rows(graph.train, expect=graph.val)
    mean, expected = _expectation(representation), representation.expected
    assert expected is not None
    with threads_for(mean.numel() * min(mean.shape)):
        targets, weights = ridge_targets(model.output, graph, mean.dtype), row_weights(graph)
        scatter = _scatter(representation, mean, targets, weights)
        regression = RidgeRegression(mean, targets, scatter, weights, many)
        return Equations(regression, lambda head: head(expected), torch.get_num_threads()), expected


@torch.no_grad()
def solve_head(
    model: RAPGNN, head: RidgeHead, graph: Graph, equations: Callable[[], Equations], on_epoch: OnEpoch | None
) -> Loop:
    start = time.perf_counter()
    problem, objective = equations(), graph.objective
    regression, held_out, y_val, ridge = problem.regression, problem.held_out, graph.y[graph.val], model.config.ridge
    # Rows of a class that was never seen say nothing about the temperature of the others.
    seen = torch.isin(y_val, graph.y[graph.train]) if y_val.dim() == 1 else torch.ones_like(graph.val, dtype=torch.bool)

    def fit_temperature() -> None:
        if bool(seen.any()):
            head.fit_temperature(objective, held_out(head)[seen], y_val[seen])

    def at(penalty: float) -> tuple[tuple[float, float], RidgeSolution]:
        solution = regression.solve(penalty)
        return merit(solution), solution

    def merit(solution: RidgeSolution) -> tuple[float, float]:
        head.take(solution)
        if objective.scoring is not None and objective.metric != "rmse":  # probabilities count, not only their order
            fit_temperature()
        scores = model.output(held_out(head))
        return objective.merit(objective.score(scores, y_val)), -float(objective.loss(scores, y_val))

    with threads(problem.threads):
        if ridge is None and len(graph.val):
            # Of equally good ones the smaller penalty.
            solution = best_from_middle(PENALTIES[::-1], at, lambda one, other: one[0] >= other[0])[1]
        else:
            solution = regression.solve(1.0 if ridge is None else ridge)
    history, best = [], None
    if len(graph.val):
        best = merit(solution)
        history = [objective.merit(best[0])]
    head.take(solution, regression.posterior(solution.penalty))
    if objective.metric != "rmse":
        fit_temperature()
    if on_epoch:
        on_epoch()
    return Loop(0, 1, 1e3 * (time.perf_counter() - start), 0.0, history, best=best)


def _expectation(representation: Representation) -> Tensor:
    if isinstance(representation, PolynomialRepresentation) and not representation.embedded.constant:
        return representation.filter.expectation()
    return next(representation.draws([0]))


def _scatter(
    representation: Representation, mean: Tensor, targets: Tensor, weights: Tensor | None = None
) -> list[Tensor]:
    """The summed covariance of each group of labels that are known for the same rows; none where nothing is random."""
    known = [rows for _, rows in same_gaps(targets)]
    if not isinstance(representation, PolynomialRepresentation) or representation.embedded.constant:
        return [mean.new_zeros(mean.shape[1], 1, 1) for _ in known]
    scatter = representation.filter.scatter
    return [scatter(rows.nonzero()[:, 0], None if weights is None else weights[rows]) for rows in known]


def ridge_targets(output: TargetScale, graph: Graph, dtype: torch.dtype, unseen: float = -10.0) -> Tensor:
    """What the squared error is measured against: standardised numbers, or -1 and 1 for labels.

    Args:
        unseen: the score of a class that no training row has.
    """
    y = output.standardise(graph.y[graph.train])
    if graph.objective.metric == "rmse":
        return y
    if y.dim() == 2:
        return 2 * y - 1
    ones = nn.functional.one_hot(y, graph.num_outputs).to(dtype)
    return (2 * ones - 1).masked_fill(ones.sum(0) == 0, unseen)


# Both phases.


@dataclass(frozen=True)
class Fitted:
    """A trained model on its graph, how it predicts, and what training it cost.

    ``chosen``: the settings that validation chose, where a method has settings of its own.
    """

    model: nn.Module
    predict: Callable[[Tensor], Prediction]
    loop: Loop
    engine: str
    reason: str
    inference: str
    chosen: dict[str, Any] | None = None


@own_settings()
def fit_rap(graph: Graph, config: Config, seed: int, on_epoch: OnEpoch | None = None) -> Fitted:
    """Phase 1, where the embedding is pretrained, then phase 2: train the head on a new draw per forward pass."""
    model, graph, operator = build_rapgnn(graph, config, seed)
    return fit_head(model, graph, operator, embed_trained(model, graph, operator), on_epoch)


def embed_trained(model: RAPGNN, graph: Graph, operator: GraphOperator, cache: Hops | None = None) -> EmbeddedGraph:
    """Phase 1, where the embedding is pretrained, and the graph as it embeds it.

    Args:
        cache: hops of these features that other networks have walked.
    """
    trained = model.embedding.kind.trained
    if trained == "before":
        pretrain(model, graph, operator)
    embedded = model.embed(graph.x, operator, trainable=trained == "with", cache=cache)
    if trained != "with":
        embedded.choose_inference(model.config.inference)  # refuse what cannot be done before training for it
    return embedded


def fit_head(
    model: RAPGNN, graph: Graph, operator: GraphOperator, embedded: EmbeddedGraph, on_epoch: OnEpoch | None = None
) -> Fitted:
    """Phase 2: the head is solved, or trained; a learnable embedding with it."""
    config, engine, reason = model.config, embedded.engine, embedded.reason
    if isinstance(model.head, RidgeHead):
        loop = solve_head(model, model.head, graph, lambda: equations_of(model, graph, embedded)[0], on_epoch)
    else:
        loop = train_head(model, model.head, graph, embedded, on_epoch)
    if model.embedding.kind.trained == "with":
        model.embedding.requires_grad_(False)
        embedded = model.embed(graph.x, operator)  # frozen now: inference may be exact where training was not
    inference = embedded.choose_inference(config.inference)
    if config.keep_draw and len(graph.val):
        model.draw_counter.fill_(loop.best_epoch)  # validation draws count epochs, see ``ValidationRows``
    predict = predictor(model.eval(), embedded, graph.objective, inference, config.num_samples)
    return Fitted(model, predict, loop, engine, reason, inference)


def build_rapgnn(graph: Graph, config: Config, seed: int) -> tuple[RAPGNN, Graph, GraphOperator]:
    """The untrained network on the graph's device, the graph as it sees it, and the operator."""
    channels = {"out_channels": graph.num_outputs, "edge_channels": graph.num_edge_features}
    model = RAPGNN(graph.num_features, **channels, seed=seed, config=config).to(graph.y.device)
    return model, *model.inputs(graph, learn=True)
