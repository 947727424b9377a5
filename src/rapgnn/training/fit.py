"""Phase 2 of the paper's algorithms, end-to-end training beside it, and inference."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor, nn

from rapgnn.device import threads_for
from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import Structure
from rapgnn.layers.heads import Head, RidgeHead
from rapgnn.layers.mlp import seeded
from rapgnn.layers.weights import EVALUATION
from rapgnn.models.config import Config
from rapgnn.models.endtoend import EndToEnd
from rapgnn.models.rapgnn import RAPGNN
from rapgnn.propagation.engine import GRAPHS_AT_ONCE, PolynomialRepresentation, Source
from rapgnn.sparse import row_block
from rapgnn.training.loop import Loop, OnEpoch, optimise, shuffled, validator
from rapgnn.training.predict import Prediction, as_prediction, choose_inference, predictor, prepare
from rapgnn.training.pretrain import pretrain

RIDGES = tuple(10.0**k for k in range(-4, 3))  # penalties to choose from on validation


@dataclass(frozen=True)
class Fitted:
    """A trained model on its graph, how it predicts, and what training it cost."""

    model: nn.Module
    predict: Callable[[Tensor], Prediction]
    loop: Loop
    engine: str
    reason: str
    inference: str


def fit_rap(graph: Graph, config: Config, seed: int, on_epoch: OnEpoch | None = None) -> Fitted:
    """Phase 1, where the embedding is pretrained, then phase 2: train the head on a new draw per forward pass."""
    graph, structure = prepare(graph, config)
    model = _rapgnn(graph, structure, config, seed)
    kind = model.embedding.kind
    if kind.trained == "before":
        pretrain(model, graph, structure)
    source = model.source(graph.x, structure, trainable=kind.trained == "with")
    if kind.trained != "with":
        choose_inference(config.inference, source)  # refuse what cannot be done before training for it
    engine, reason = source.engine, source.reason
    if isinstance(model.head, RidgeHead):
        loop = _solve_ridge(model, model.head, graph, source, on_epoch)
    else:
        loop = _train_head(model, model.head, graph, source, on_epoch)
    if kind.trained == "with":
        model.embedding.requires_grad_(False)
        source = model.source(graph.x, structure)  # frozen now: inference may be exact where training was not
    inference = choose_inference(config.inference, source)
    model.eval()
    predict = predictor(model, source, graph.rule, inference, config.num_samples)
    return Fitted(model, predict, loop, engine, reason, inference)


def fit_embedding(graph: Graph, config: Config, seed: int, on_epoch: OnEpoch | None = None) -> Fitted:
    """Phase 1 alone: the pretrained embedding with the classifier it was trained with."""
    graph, structure = prepare(graph, config)
    model = _rapgnn(graph, structure, config, seed)
    if config.pretrain_epochs < 1:
        raise InputError("the pretrained embedding needs at least one epoch of phase 1: set pretrain_epochs.")
    if model.embedding.kind.trained != "before":
        raise InputError(f"the {config.embedding} embedding is not pretrained, so it cannot be evaluated on its own.")
    classifier, embedded, loop = pretrain(model, graph, structure, on_epoch)

    @torch.no_grad()
    def predict(rows: Tensor) -> Prediction:
        return as_prediction(classifier(embedded(rows, 2 * EVALUATION)), graph.rule, model.output)

    return Fitted(model, predict, loop, "none", "no propagation after the embedding", "expected")


def fit_end_to_end(graph: Graph, config: Config, seed: int, on_epoch: OnEpoch | None = None) -> Fitted:
    """The baseline: the same architecture, every weight trained."""
    graph, structure = prepare(graph, config)
    device = graph.y.device
    model = EndToEnd(graph.num_features, graph.num_outputs, config, graph.num_edge_features, seed).to(device)
    if graph.rule.metric == "rmse":
        model.output.adapt(graph.y[graph.train])
    generator, order = seeded(seed, 2, device), seeded(seed, 4)
    train, y = graph.train, model.output.standardise(graph.y[graph.train])

    def scores(rows: Tensor, generator: torch.Generator | None = None) -> Tensor:
        if structure.ptr is None:
            return model(graph.x, structure, generator)[rows]
        part, nodes = structure.select(rows)
        return model(row_block(graph.x, nodes), part, generator)

    def passes(epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        batches = shuffled(len(train), config.batch_size, order, device)
        for batch in batches:
            yield scores(train[batch], generator), y[batch]

    def in_parts(rows: Tensor) -> Tensor:
        parts = [rows] if structure.ptr is None else rows.split(GRAPHS_AT_ONCE)
        return torch.cat([scores(part) for part in parts])

    validate = validator(graph.rule, graph.y[graph.val], lambda epoch: model.output(in_parts(graph.val)))
    loop = optimise([model], passes, graph.rule, **_schedule(config), validate=validate, on_epoch=on_epoch)
    model.eval()

    @torch.no_grad()
    def predict(rows: Tensor) -> Prediction:
        return as_prediction(in_parts(rows), graph.rule, model.output)

    return Fitted(model, predict, loop, "stepwise", "trained weights", "expected")


def _train_head(model: RAPGNN, head: Head, graph: Graph, source: Source, on_epoch: OnEpoch | None) -> Loop:
    """Phase 2 by gradient descent; with a learnable embedding the gradient goes on through the layers into it."""
    config, weights = model.config, model.spec.weights
    y = model.output.standardise(graph.y[graph.train])
    trainable = model.embedding.kind.trained == "with"
    exact = source.has_expectation and config.inference != "sample"
    representation = source.rows(graph.train, average=graph.val if exact else None)
    held_out = None if exact or trainable else source.rows(graph.val)
    generator, order = seeded(model.seed, 2, y.device), seeded(model.seed, 4)
    size = config.batch_size or len(graph.train)
    steps_per_epoch = -(-len(graph.train) // size)
    # Layer dropout is part of a training pass even where the embedding is frozen.
    inside = generator if trainable or model.spec.dropout else None
    if config.rescale or config.standardize:
        with torch.no_grad():
            if graph.ptr is None and not config.standardize:
                first = next(representation.draws([weights.counter(0, 0)], steps=[0]))
                mean, square = first.mean(0), first.double().square().mean(0)
            else:
                mean, square = representation.moments()
            head.calibrate(mean, square, config.standardize)

    def whole() -> Iterator[tuple[Tensor, Tensor]]:
        counters = [weights.counter(epoch, epoch) for epoch in range(config.epochs)]
        for h in representation.draws(counters, inside, range(config.epochs)):
            yield head(h, generator), y

    def in_batches() -> Iterator[tuple[Tensor, Tensor]]:
        epochs = range(config.epochs)
        counters = [weights.counter(e * steps_per_epoch + i, e) for e in epochs for i in range(steps_per_epoch)]
        rows = (batch for _ in epochs for batch in shuffled(len(graph.train), size, order, y.device))
        for batch, h in representation.batches(rows, counters, inside, range(len(counters))):
            yield head(h, generator), y[batch]

    steps = whole() if steps_per_epoch == 1 else in_batches()  # draws of many steps, even epochs, are made together

    def passes(epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        return islice(steps, steps_per_epoch)

    def val_scores(epoch: int) -> Tensor:
        if exact:
            assert representation.averaged is not None
            return head(representation.averaged)
        counter, step = weights.evaluation_counter(epoch), EVALUATION + epoch
        if held_out is not None:
            return head(next(held_out.draws([counter], steps=[step])))
        now = model.source(graph.x, source.structure)  # the embedding as it is after this epoch
        if now.has_expectation and config.inference != "sample":
            return head(now.expected(graph.val))
        return head(next(now.rows(graph.val).draws([counter], steps=[step])))

    polynomial = source.engine == "polynomial" or source.constant
    per_row = model.embedding.out_channels * (config.num_layers + 1) + sum(p.numel() for p in head.parameters())
    work = min(size, len(graph.train)) * per_row
    with threads_for(work if polynomial else 1 << 62):
        loop = optimise(
            [model] if trainable else [head],
            passes,
            graph.rule,
            **_schedule(config),
            validate=validator(graph.rule, graph.y[graph.val], lambda epoch: model.output(val_scores(epoch))),
            on_epoch=on_epoch,
        )
    model.draw_counter.fill_(config.epochs * steps_per_epoch)
    return loop


def _solve_ridge(model: RAPGNN, head: RidgeHead, graph: Graph, source: Source, on_epoch: OnEpoch | None) -> Loop:
    """Phase 2 in closed form, on the exact mean and variance of the representation."""
    if not source.has_expectation:
        raise InputError(f"the ridge head needs the exact mean and variance, which are not at hand: {source.reason}.")
    start = time.perf_counter()
    representation = source.rows(graph.train, average=graph.val)
    if source.constant:
        mean = next(representation.draws([0]))
        nothing = mean.new_zeros(mean.shape[1], 1, 1)

        def scatter(rows: Tensor) -> Tensor:
            return nothing
    else:
        assert isinstance(representation, PolynomialRepresentation)
        mean, scatter = representation.filter.mean(), representation.filter.scatter
    y = model.output.standardise(graph.y[graph.train])
    if graph.rule.metric == "rmse":
        targets = y
    else:
        targets = 2 * (nn.functional.one_hot(y, graph.num_outputs).to(mean.dtype) if y.dim() == 1 else y) - 1
    averaged, rule = representation.averaged, graph.rule
    assert averaged is not None

    def judge() -> tuple[float, float]:
        scores = model.output(head(averaged))
        return rule.merit(rule.score(scores, graph.y[graph.val])), -float(rule.loss(scores, graph.y[graph.val]))

    ridge = model.config.ridge
    with threads_for(mean.numel() * min(mean.shape)):
        if ridge is None and len(graph.val):
            head.fit(mean, scatter, targets, RIDGES, judge)
        else:
            head.fit(mean, scatter, targets, 1.0 if ridge is None else ridge)
    history = []
    if len(graph.val):
        if graph.rule.metric != "rmse":
            head.sharpen(rule, averaged, graph.y[graph.val])
        history = [rule.score(model.output(head(averaged)), graph.y[graph.val])]
    if on_epoch:
        on_epoch()
    best = judge() if len(graph.val) else None
    return Loop(0, 1, 1e3 * (time.perf_counter() - start), 0.0, history, best=best)


def _rapgnn(graph: Graph, structure: Structure, config: Config, seed: int) -> RAPGNN:
    channels = {"out_channels": graph.num_outputs, "edge_channels": graph.num_edge_features}
    model = RAPGNN(graph.num_features, seed=seed, **channels, **config.to_dict()).to(graph.y.device)
    model.adapt(structure if structure.ptr is None else structure.select(graph.train)[0])
    if graph.rule.metric == "rmse":
        model.output.adapt(graph.y[graph.train])
    return model


def _schedule(config: Config) -> dict:
    return {
        "lr": config.lr,
        "weight_decay": config.weight_decay,
        "epochs": config.epochs,
        "patience": config.patience,
    }
