"""What every network is: encode → propagate → expand → readout → head, with the settings of one ``Config``."""

from typing import Any

from torch import Tensor, nn

from rapgnn.graph.graph import Graph
from rapgnn.network.config import Config
from rapgnn.network.heads import Head, TargetScale
from rapgnn.network.ridge import RidgeHead
from rapgnn.network.scaling import FeatureScaling


class Network(nn.Module):
    """The stages that all networks share; ``RAPGNN`` (random coefficients) and ``HopNetwork`` (fixed ones) add theirs.

    Args:
        in_channels: width of the features.
        out_channels: number of classes, labels or targets.
        seed: of everything random in here.
        config: all settings.
    """

    head: Head | RidgeHead
    seed: Any

    def __init__(self, in_channels: int, out_channels: int, seed: int, config: Config):
        super().__init__()
        self.config = config
        self.scaling = FeatureScaling(config.scaling, in_channels, config.components, seed)
        self.output = TargetScale(out_channels)

    def learn_targets(self, graph: Graph) -> None:
        """Take from the training rows how large targets are that are numbers."""
        if graph.objective.metric == "rmse":
            self.output.fit(graph.y[graph.train])

    def suits(self, graph: Graph) -> bool:
        """Whether this is a graph that it can say something about."""
        return True

    @property
    def bound(self) -> bool:
        """Whether it speaks of the nodes of one graph alone: it tells them apart, or knows labels of theirs."""
        return is_bound(self.config)

    def scores(self, h: Tensor) -> Tensor:
        """Of a representation: class scores, or numbers in the size that the targets have."""
        return self.output(self.head(h))


def is_bound(config: Config) -> bool:
    """Whether such a network speaks of the nodes of one graph alone."""
    return bool(config.node_columns or config.known_labels)


def describe(config: Config) -> str:
    """The field's words: "gcn, 8 hops by personalised PageRank, 256 components of tf-idf features, ridge"."""
    c, depth = config, config.num_layers
    hops = f"{depth} hop{'s' * (depth != 1)}"
    if c.coefficients == "random":
        parts = [c.backbone, f"{depth} random layer{'s' * (depth != 1)}"]
        parts += ["all layers side by side"] if c.jumping == "cat" else []
    elif c.coefficients == "layers":
        parts = [c.backbone, f"{depth} random {c.activation} layers of {c.width} channels"]
    elif c.coefficients == "colours":
        parts = [f"counts of node colours after {depth} steps"]
    else:
        how = {"last": "", "cat": " side by side", "ppr": " by personalised PageRank"}[c.jumping]
        parts = [c.backbone, hops + how] if depth else ["no hops"]
    parts += {"undirected": ["edges both ways as one"], "both": ["along and against the edges"]}.get(c.edges, [])
    parts += [_features(c)] if _features(c) else []
    parts += [f"{c.embedding} embedding of {c.hidden_channels} channels"] if c.embedding != "identity" else []
    if c.known_labels:
        parts.append(f"labels of neighbours over {c.known_labels} hops")
    if c.previous is not None:
        parts.append("another network's predictions for the neighbours")
    if c.units:
        parts.append(f"{c.units} random features")
    if c.landmarks:
        parts.append(f"{c.kernel} kernel with {c.landmarks} landmarks")
    if c.pooling != "sum":
        parts.append(f"{c.pooling} pooling")
    return ", ".join([*parts, {"ridge": "ridge", "linear": "linear head", "mlp": "mlp head"}[c.head]])


def _features(c: Config) -> str:
    scaled = {"none": "", "length": "length-scaled ", "tfidf": "tf-idf ", "standard": "standardised "}[c.scaling]
    if c.node_columns:
        return f"{c.node_columns} random columns"
    if c.components:
        return f"{c.components} components of {scaled}features"
    return f"{scaled}features" if scaled else ""
