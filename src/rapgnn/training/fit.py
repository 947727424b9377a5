"""Training a network with random layers: phase 1, where the embedding is pretrained, then phase 2, the head."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.layers.ridge import RidgeHead
from rapgnn.models.config import Config
from rapgnn.models.rapgnn import RAPGNN, model_inputs
from rapgnn.propagation.hops import HopCache
from rapgnn.sparse import Features
from rapgnn.training.head import train_head
from rapgnn.training.loop import Loop, OnEpoch
from rapgnn.training.predict import Prediction, predictor
from rapgnn.training.pretrain import pretrain
from rapgnn.training.solve import solve_head

# What trainings on one graph share, so that trying many settings does not build the same things again and again.


class Reuse:
    """Features, operators and hops by the settings that decide them; nodes, edges and splits must stay the same.

    Args:
        features: what the features are, by whether they are normalised; None: what the graph says.
        columns: of them that are propagated at a time; None: many.
    """

    def __init__(self, features: dict[bool, Features] | None = None, columns: int | None = None) -> None:
        self._features: dict[bool, Features] = features or {}
        self._columns = columns
        self._operators: dict[tuple, GraphOperator] = {}
        self._hops: dict[tuple, HopCache] = {}

    def inputs(self, graph: Graph, config: Config) -> tuple[Graph, GraphOperator]:
        """As ``model_inputs``."""
        wanted = config.normalize_features
        if wanted not in self._features:
            self._features[wanted] = graph.normalized_features().x if wanted else graph.x
        layer = config.backbone, config.self_loops, config.eps
        if layer not in self._operators:
            self._operators[layer] = graph.operator(*layer)
        return replace(graph, x=self._features[wanted]), self._operators[layer]

    def for_features_of(self, graph: Graph) -> "Reuse":
        """The same operators for a graph with other features and the same edges."""
        other = Reuse({False: graph.x})
        other._operators = self._operators
        return other

    def hops(self, graph: Graph, config: Config) -> HopCache | None:
        """The hops of the features themselves; None where rows are graphs, or where they would take too much memory."""
        graph, operator = self.inputs(graph, config)
        if graph.ptr is not None or not HopCache.fits(graph.x):
            return None
        key = config.normalize_features, config.backbone, config.self_loops, config.eps
        if key not in self._hops:
            self._hops[key] = HopCache(operator.matrix, graph.x, torch.cat([graph.train, graph.val]), self._columns)
        return self._hops[key]


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
