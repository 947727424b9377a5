"""What comes before the hops where these are computed by several workers or on Ray: the rows, and the network."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.models.config import Config
from rapgnn.models.rapgnn import RAPGNN
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.fit import labelled_graph
from rapgnn.scale.hops import check_config, exact, one_by_one
from rapgnn.scale.start import FirstHop
from rapgnn.training.pretrain import pretrain


def labelled_rows(graph: DiskGraph, scoring: str | None = None, class_weight: Any = None) -> tuple[Graph, np.ndarray]:
    """``labelled_graph`` without a look at all features and weights, which no single worker has to read."""
    return labelled_graph(replace(graph, features=graph.features[:0], weights=None), scoring, class_weight)


def begin(graph: DiskGraph, small: Graph, nodes: np.ndarray, config: Config, seed: int, phase1: bool = True) -> RAPGNN:
    """The network as it is before the hops: with its embedding trained, where the settings want that.

    Args:
        small, nodes: what ``labelled_rows`` gives.
        phase1: False leaves the embedding as it starts, for a worker that gets it from another one.
    """
    check_config(config)
    model = RAPGNN(graph.num_features, out_channels=graph.num_outputs, seed=seed, config=config)
    if small.objective.metric == "rmse":
        model.output.fit(small.y[small.train])
    if phase1 and model.embedding.kind.trained == "before":
        x = FirstHop(graph, None, config.normalize_features).pick(nodes)
        pretrain(model, replace(small, x=x), GraphOperator(one_by_one(1.0)))
    return model


@dataclass(frozen=True)
class Sign:
    """Stands for a matrix of which only this is known."""

    nonnegative: bool


def exact_with(model: RAPGNN, matrix: bool, h: bool) -> str:
    """Why the shortcut is exact, or a refusal, given whether S and h⁰ are free of negative entries."""
    return exact(model, Sign(matrix), Sign(h))  # type: ignore[arg-type]
