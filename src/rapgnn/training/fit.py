"""Training a network with random layers: phase 1, where the embedding is pretrained, then phase 2, the head."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.layers.ridge import RidgeHead
from rapgnn.models.config import Config
from rapgnn.models.inputs import model_inputs
from rapgnn.models.rapgnn import RAPGNN
from rapgnn.training.head import train_head
from rapgnn.training.loop import Loop, OnEpoch
from rapgnn.training.predict import Prediction, predictor
from rapgnn.training.pretrain import pretrain
from rapgnn.training.reuse import Reuse
from rapgnn.training.solve import solve_head


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


@torch.inference_mode(False)  # also where a user has switched it on
def fit_rap(
    graph: Graph, config: Config, seed: int, on_epoch: OnEpoch | None = None, reuse: Reuse | None = None
) -> Fitted:
    """Phase 1, where the embedding is pretrained, then phase 2: train the head on a new draw per forward pass.

    Args:
        reuse: what other trainings on this graph have built already.
    """
    cache = None if reuse is None else reuse.hops(graph, config)
    graph, operator = model_inputs(graph, config) if reuse is None else reuse.inputs(graph, config)
    model = build_rapgnn(graph, operator, config, seed)
    trained = model.embedding.kind.trained
    if trained == "before":
        pretrain(model, graph, operator)
    labelled = len(graph.train) + len(graph.val)
    embedded = model.embed(graph.x, operator, trainable=trained == "with", cache=cache, rows=labelled)
    if trained != "with":
        embedded.choose_inference(config.inference)  # refuse what cannot be done before training for it
    engine, reason = embedded.engine, embedded.reason
    if isinstance(model.head, RidgeHead):
        loop = solve_head(model, model.head, graph, embedded, on_epoch)
    else:
        loop = train_head(model, model.head, graph, embedded, on_epoch)
    if trained == "with":
        model.embedding.requires_grad_(False)
        embedded = model.embed(graph.x, operator)  # frozen now: inference may be exact where training was not
    inference = embedded.choose_inference(config.inference)
    if config.keep_draw and len(graph.val):
        model.draw_counter.fill_(loop.best_epoch)  # validation draws count epochs, see ``ValidationRows``
    predict = predictor(model.eval(), embedded, graph.objective, inference, config.num_samples)
    return Fitted(model, predict, loop, engine, reason, inference)


def build_rapgnn(graph: Graph, operator: GraphOperator, config: Config, seed: int) -> RAPGNN:
    """The untrained network for a graph, on its device."""
    channels = {"out_channels": graph.num_outputs, "edge_channels": graph.num_edge_features}
    model = RAPGNN(graph.num_features, **channels, seed=seed, config=config).to(graph.y.device)
    prepare_rapgnn(model, graph, operator)
    return model


def prepare_rapgnn(model: RAPGNN, graph: Graph, operator: GraphOperator) -> None:
    """What a network takes from its training graph before any training: the sizes of the operator and the targets."""
    model.fit_operator_scale(operator if operator.ptr is None else operator.select(graph.train)[0])
    if graph.objective.metric == "rmse":
        model.output.fit(graph.y[graph.train])
