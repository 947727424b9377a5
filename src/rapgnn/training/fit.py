"""Training a network with random layers: phase 1, where the embedding is pretrained, then phase 2, the head."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.network.config import Config
from rapgnn.network.engine import EmbeddedGraph
from rapgnn.network.hops import Hops
from rapgnn.network.rapgnn import RAPGNN
from rapgnn.network.ridge import RidgeHead
from rapgnn.training.head import train_head
from rapgnn.training.loop import Loop, OnEpoch
from rapgnn.training.predict import Prediction, predictor
from rapgnn.training.pretrain import pretrain
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
    labelled = len(graph.train) + len(graph.val)
    embedded = model.embed(graph.x, operator, trainable=trained == "with", cache=cache, rows=labelled)
    if trained != "with":
        embedded.choose_inference(model.config.inference)  # refuse what cannot be done before training for it
    return embedded


def fit_head(
    model: RAPGNN, graph: Graph, operator: GraphOperator, embedded: EmbeddedGraph, on_epoch: OnEpoch | None = None
) -> Fitted:
    """Phase 2: the head is solved, or trained; a learnable embedding with it."""
    config, engine, reason = model.config, embedded.engine, embedded.reason
    if isinstance(model.head, RidgeHead):
        loop = solve_head(model, model.head, graph, embedded, on_epoch)
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
