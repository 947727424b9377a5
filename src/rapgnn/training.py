"""The two phases of the paper's algorithms, end-to-end training beside them, and inference."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rapgnn.config import Config
from rapgnn.errors import InputError
from rapgnn.graph import Graph
from rapgnn.heads import Head, RidgeHead
from rapgnn.metrics import probabilities
from rapgnn.mlp import seeded_linear
from rapgnn.model import RAPGNN, EndToEnd, seeded
from rapgnn.optimise import Loop, OnEpoch, optimise, validator
from rapgnn.representation import PolynomialRepresentation, Source
from rapgnn.spmm import Features, SparseMatrix, row_block
from rapgnn.threads import threads_for
from rapgnn.weights import EVALUATION

HOP_BYTES = 512 << 20  # of the hops kept for the rows that are predicted together


@dataclass(frozen=True)
class Prediction:
    """Scores (higher: likelier), probabilities, and the probabilities' standard deviation over draws, if drawn."""

    scores: Tensor
    probabilities: Tensor
    spread: Tensor | None = None


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
    graph, operator = _prepare(graph, config)
    model = _rapgnn(graph, config, seed)
    kind = model.embedding.kind
    if kind.trained == "before":
        pretrain(model, graph, operator)
    source = model.source(graph.x, operator, trainable=kind.trained == "with")
    if kind.trained != "with":
        choose_inference(config.inference, source)  # refuse what cannot be done before training for it
    engine, reason = source.engine, source.reason
    if isinstance(model.head, RidgeHead):
        loop = _solve_ridge(model, model.head, graph, source, on_epoch)
    else:
        loop = _train_head(model, model.head, graph, source, on_epoch)
    if kind.trained == "with":
        model.embedding.requires_grad_(False)
        source = model.source(graph.x, operator)  # frozen now: inference may be exact where training was not
    inference = choose_inference(config.inference, source)
    model.eval()
    predict = predictor(model, source, graph.task, inference, config.num_samples)
    return Fitted(model, predict, loop, engine, reason, inference)


def fit_embedding(graph: Graph, config: Config, seed: int, on_epoch: OnEpoch | None = None) -> Fitted:
    """Phase 1 alone: the pretrained embedding with the classifier it was trained with."""
    graph, operator = _prepare(graph, config)
    model = _rapgnn(graph, config, seed)
    if model.embedding.kind.trained != "before":
        raise InputError(f"the {config.embedding} embedding is not pretrained, so it cannot be evaluated on its own.")
    classifier, loop = pretrain(model, graph, operator, on_epoch)
    inputs = model.embedding.inputs(graph.x, operator, 2 * EVALUATION)

    @torch.no_grad()
    def predict(rows: Tensor) -> Prediction:
        return _prediction(classifier(model.embedding(row_block(inputs, rows))), graph.task)

    return Fitted(model, predict, loop, "none", "no propagation after the embedding", "expected")


def fit_end_to_end(graph: Graph, config: Config, seed: int, on_epoch: OnEpoch | None = None) -> Fitted:
    """The baseline: the same architecture, every weight trained."""
    graph, operator = _prepare(graph, config)
    device = graph.y.device
    model = EndToEnd(graph.num_features, graph.num_outputs, config, seed).to(device)
    generator = seeded(seed, 2, device)

    def scores() -> Iterator[Tensor]:
        while True:
            yield model(graph.x, operator, generator)[graph.train]

    validate = validator(graph.task, graph.y[graph.val], lambda epoch: model(graph.x, operator)[graph.val])
    loop = optimise(
        list(model.parameters()),
        scores(),
        graph.y[graph.train],
        **_schedule(config),
        validate=validate,
        on_epoch=on_epoch,
    )
    model.eval()

    @torch.no_grad()
    def predict(rows: Tensor) -> Prediction:
        return _prediction(model(graph.x, operator)[rows], graph.task)

    return Fitted(model, predict, loop, "stepwise", "trained weights", "expected")


def pretrain(
    model: RAPGNN, graph: Graph, operator: SparseMatrix, on_epoch: OnEpoch | None = None
) -> tuple[nn.Linear, Loop]:
    """Phase 1: train c' ∘ f_φ, touching the labelled rows only, then freeze f_φ. Returns c' and the loop."""
    config, embedding, device = model.config, model.embedding, graph.y.device
    classifier = seeded_linear(embedding.out_channels, graph.num_outputs, seeded(model.seed, 1)).to(device)
    generator = seeded(model.seed, 3, device)
    kept = None if embedding.random_features else embedding.inputs(graph.x, operator)

    def rows_at(rows: Tensor) -> Callable[[int], Features]:
        if kept is not None:
            fixed = row_block(kept, rows)
            return lambda epoch: fixed
        return lambda epoch: row_block(embedding.inputs(graph.x, operator, epoch), rows)  # new random node features

    train, val = rows_at(graph.train), rows_at(graph.val)

    def scores() -> Iterator[Tensor]:
        for epoch in range(config.pretrain_epochs):
            yield classifier(embedding(train(epoch), epoch, generator))

    validate = validator(
        graph.task, graph.y[graph.val], lambda epoch: classifier(embedding(val(EVALUATION + epoch), epoch))
    )
    first = train(0)
    entries = first.nnz if isinstance(first, SparseMatrix) else first.numel()
    with threads_for(entries * embedding.out_channels):
        loop = optimise(
            [*embedding.parameters(), *classifier.parameters()],
            scores(),
            graph.y[graph.train],
            lr=config.pretrain_lr,
            weight_decay=config.pretrain_weight_decay,
            epochs=config.pretrain_epochs,
            validate=validate,
            on_epoch=on_epoch,
        )
    embedding.requires_grad_(False)
    classifier.requires_grad_(False)
    return classifier, loop


def choose_inference(wanted: str, source: Source) -> str:
    """``"auto"`` is the exact expectation where there is one, else a fresh draw as in the paper."""
    if wanted == "auto":
        return "expected" if source.has_expectation else "sample"
    if wanted == "expected" and not source.has_expectation:
        raise InputError(source.no_expectation)
    return wanted


def predictor(
    model: RAPGNN, source: Source, task: str, inference: str, num_samples: int
) -> Callable[[Tensor], Prediction]:
    """rows -> prediction by a fresh draw, by the mean over draws with its spread, or by the exact expectation."""
    first = int(model.draw_counter)  # the draws of inference are chosen now, so that predicting twice agrees
    count = num_samples if inference == "mean" and not source.constant else 1
    counters = [model.spec.weights.evaluation_counter(first + i) for i in range(count)]
    steps = [EVALUATION + first + i for i in range(count)]
    hop_size = 4 * model.embedding.out_channels * (model.spec.num_layers + 1)

    @torch.no_grad()
    def predict(rows: Tensor) -> Prediction:
        if inference == "expected":
            return _prediction(model.head(source.expected(rows)), task)
        # The shortcut keeps hops of what it predicts: some rows at a time, so that this stays small on any graph.
        size = max(1, HOP_BYTES // max(1, hop_size)) if source.engine == "polynomial" else max(1, len(rows))
        parts = [
            torch.stack([model.head(h) for h in source.rows(part).draws(counters, steps=steps)])
            for part in rows.split(size)
        ]
        scores = torch.cat(parts, dim=1)
        if count == 1:
            return _prediction(scores[0], task)
        drawn = _prediction(scores, task).probabilities
        return Prediction(drawn.mean(0), drawn.mean(0), drawn.std(0))

    return predict


def _train_head(model: RAPGNN, head: Head, graph: Graph, source: Source, on_epoch: OnEpoch | None) -> Loop:
    """Phase 2 by gradient descent; with a learnable embedding the gradient goes on through the layers into it."""
    config, weights, y = model.config, model.spec.weights, graph.y
    trainable = model.embedding.kind.trained == "with"
    exact = source.has_expectation and config.inference != "sample"
    representation = source.rows(graph.train, average=graph.val if exact else None)
    held_out = None if exact or trainable else source.rows(graph.val)
    generator = seeded(model.seed, 2, y.device)
    counters = [weights.counter(epoch, epoch) for epoch in range(config.epochs)]
    if config.rescale:
        with torch.no_grad():
            head.calibrate(next(representation.draws(counters[:1])))

    def scores() -> Iterator[Tensor]:
        # Layer dropout is part of a training pass even where the embedding is frozen.
        inside = generator if trainable or model.spec.dropout else None
        for h in representation.draws(counters, inside, range(config.epochs)):
            yield head(h, generator)

    def val_scores(epoch: int) -> Tensor:
        if exact:
            assert representation.averaged is not None
            return head(representation.averaged)
        counter, step = weights.evaluation_counter(epoch), EVALUATION + epoch
        if held_out is not None:
            return head(next(held_out.draws([counter], steps=[step])))
        now = model.source(graph.x, source.operator)  # the embedding as it is after this epoch
        if now.has_expectation and config.inference != "sample":
            return head(now.expected(graph.val))
        return head(next(now.rows(graph.val).draws([counter], steps=[step])))

    parameters = [p for p in model.parameters() if p.requires_grad] if trainable else list(head.parameters())
    polynomial = source.engine == "polynomial" or source.constant
    work = len(graph.train) * model.embedding.out_channels * (config.num_layers + 1)
    with threads_for(work if polynomial else 1 << 62):
        loop = optimise(
            parameters,
            scores(),
            y[graph.train],
            **_schedule(config),
            validate=validator(graph.task, y[graph.val], val_scores),
            on_epoch=on_epoch,
        )
    model.draw_counter.fill_(config.epochs)
    return loop


def _solve_ridge(model: RAPGNN, head: RidgeHead, graph: Graph, source: Source, on_epoch: OnEpoch | None) -> Loop:
    """Phase 2 in closed form, on the exact mean and variance of the representation."""
    if not source.has_expectation:
        raise InputError(f"the ridge head needs the exact mean and variance, which are not at hand: {source.reason}.")
    start = time.perf_counter()
    representation = source.rows(graph.train, average=graph.val)
    if source.constant:
        mean = next(representation.draws([0]))
        variance = torch.zeros_like(mean)
    else:
        assert isinstance(representation, PolynomialRepresentation)
        mean, variance = representation.filter.mean(), representation.filter.variance()
    y = graph.y[graph.train]
    targets = nn.functional.one_hot(y, graph.num_outputs).to(mean.dtype) if y.dim() == 1 else y
    head.fit(mean, variance, targets * 2 - 1, model.config.ridge)
    if len(graph.val):
        assert representation.averaged is not None
        head.sharpen(representation.averaged, graph.y[graph.val])
    if on_epoch:
        on_epoch()
    return Loop(0, 1, 1e3 * (time.perf_counter() - start), 0.0)


def _prepare(graph: Graph, config: Config) -> tuple[Graph, SparseMatrix]:
    graph = graph.normalized_features() if config.normalize_features else graph
    return graph, graph.operator(config.backbone, config.self_loops)


def _rapgnn(graph: Graph, config: Config, seed: int) -> RAPGNN:
    model = RAPGNN(graph.num_features, out_channels=graph.num_outputs, seed=seed, **config.to_dict())
    return model.to(graph.y.device)


def _schedule(config: Config) -> dict:
    return {
        "lr": config.lr,
        "weight_decay": config.weight_decay,
        "epochs": config.epochs,
        "patience": config.patience,
    }


def _prediction(scores: Tensor, task: str) -> Prediction:
    return Prediction(scores, probabilities(scores, multilabel=task == "node-multilabel"))
