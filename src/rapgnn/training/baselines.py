"""What RAP-GNN is compared with: phase 1 alone, and the same architecture with every weight trained."""

from collections.abc import Iterator

import torch
from torch import Tensor

from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph
from rapgnn.layers.dropout import dropout_generator
from rapgnn.layers.weights import EVALUATION
from rapgnn.models.config import Config
from rapgnn.models.endtoend import EndToEnd
from rapgnn.models.inputs import model_inputs
from rapgnn.prng import Stream, seeded
from rapgnn.propagation.representation import GRAPHS_AT_ONCE
from rapgnn.sparse import row_block
from rapgnn.training.fit import Fitted, build_rapgnn
from rapgnn.training.loop import OnEpoch, optimise, schedule, shuffled, validator
from rapgnn.training.predict import Prediction, as_prediction
from rapgnn.training.pretrain import pretrain


def fit_embedding(graph: Graph, config: Config, seed: int, on_epoch: OnEpoch | None = None) -> Fitted:
    """Phase 1 alone: the pretrained embedding with the classifier it was trained with."""
    graph, operator = model_inputs(graph, config)
    model = build_rapgnn(graph, operator, config, seed)
    if config.pretrain_epochs < 1:
        raise InputError("the pretrained embedding needs at least one epoch of phase 1: set pretrain_epochs.")
    if model.embedding.kind.trained != "before":
        raise InputError(f"the {config.embedding} embedding is not pretrained, so it cannot be evaluated on its own.")
    classifier, embedded, loop = pretrain(model, graph, operator, on_epoch)

    @torch.no_grad()
    def predict(rows: Tensor) -> Prediction:
        return as_prediction(classifier(embedded(rows, 2 * EVALUATION)), graph.objective, model.output)

    return Fitted(model, predict, loop, "none", "no propagation after the embedding", "expected")


def fit_end_to_end(graph: Graph, config: Config, seed: int, on_epoch: OnEpoch | None = None) -> Fitted:
    """The baseline: the same architecture, every weight trained."""
    graph, operator = model_inputs(graph, config)
    device = graph.y.device
    model = EndToEnd(graph.num_features, graph.num_outputs, config, graph.num_edge_features, seed).to(device)
    if graph.objective.metric == "rmse":
        model.output.fit(graph.y[graph.train])
    entries = graph.x.shape[0] * max(graph.num_features, config.hidden_channels)
    generator = dropout_generator(seed, Stream.DROPOUT, device, entries if config.dropout else 0)
    order = seeded(seed, Stream.BATCHES)
    train, y = graph.train, model.output.standardise(graph.y[graph.train])

    def scores(rows: Tensor, generator: torch.Generator | None = None) -> Tensor:
        if operator.ptr is None:
            return model(graph.x, operator, generator)[rows]
        part, nodes = operator.select(rows)
        return model(row_block(graph.x, nodes), part, generator)

    def passes(epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        batches = shuffled(len(train), config.batch_size, order, device)
        for batch in batches:
            yield scores(train[batch], generator), y[batch]

    def in_parts(rows: Tensor) -> Tensor:
        parts = [rows] if operator.ptr is None else rows.split(GRAPHS_AT_ONCE)
        return torch.cat([scores(part) for part in parts])

    validate = validator(graph.objective, graph.y[graph.val], lambda epoch: model.output(in_parts(graph.val)))
    loop = optimise([model], passes, graph.objective, **schedule(config), validate=validate, on_epoch=on_epoch)
    model.eval()

    @torch.no_grad()
    def predict(rows: Tensor) -> Prediction:
        return as_prediction(in_parts(rows), graph.objective, model.output)

    return Fitted(model, predict, loop, "stepwise", "trained weights", "expected")
