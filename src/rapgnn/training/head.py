"""Phase 2 by gradient descent: batches of drawn representations, validation rows, and the loop over both."""

from collections.abc import Iterator
from itertools import islice, repeat, tee
from typing import Any

import torch
from torch import Tensor

from rapgnn.device import threads_for
from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph
from rapgnn.network.config import Config
from rapgnn.network.heads import Head, TargetScale
from rapgnn.network.mlp import Noise
from rapgnn.network.rapgnn import RAPGNN
from rapgnn.network.representation import EmbeddedGraph, Representation
from rapgnn.network.weights import EVALUATION
from rapgnn.prng import Stream, seeded
from rapgnn.training.blocks import Phase2, head_dropout, train_in_blocks
from rapgnn.training.loop import Loop, OnEpoch, optimise, schedule, shuffled


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
