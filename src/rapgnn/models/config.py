"""Everything that decides what is trained and how, in one flat record."""

from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from typing import Any

import torch

from rapgnn.errors import InputError, check_choice, shown
from rapgnn.graph.backbones import BACKBONES
from rapgnn.layers.embedding import EMBEDDINGS, OUTPUTS
from rapgnn.layers.heads import HEADS, Head
from rapgnn.layers.weights import RandomWeights
from rapgnn.propagation.spec import Propagation

ENGINES = ("auto", "polynomial", "stepwise")
INFERENCES = ("auto", "expected", "mean", "sample")
LARGEST = 1e30  # of a setting that is a number
# Whole numbers and their bounds: beyond the upper ones nobody can wait, or has the memory.
BOUNDS = {
    "num_layers": (1, 100_000),
    "hidden_channels": (1, 1 << 16),
    "epochs": (1, 10_000_000),
    "num_samples": (1, 1_000_000),
    "embedding_layers": (1, 3),
    "head_layers": (1, 4),
    "factors": (1, 4),
    "random_features": (0, 1 << 16),
    "pretrain_epochs": (0, 10_000_000),
    "patience": (0, 10_000_000),
    "batch_size": (1, 1 << 40),
}


@dataclass(frozen=True)
class Config:
    """A model and its training.

    ``structure`` to ``params`` describe the random weights, ``pretrain_*`` phase 1; ``head_layers`` counts for the MLP.
    ``factors`` is the number of weights in a layer's MLP, random or trained; ``pooling`` applies where rows are graphs;
    ``batch_norm`` and ``train_eps`` are for trained layers (``batch_norm`` for an MLP head too); ``batch_size`` None
    takes all training rows at once; ``ridge`` None chooses the penalty on validation; ``standardize`` gives every
    channel that the head sees mean 0 and variance 1.
    """

    backbone: str = "gcn"
    num_layers: int = 8
    hidden_channels: int = 256
    embedding: str = "pretrained"
    embedding_layers: int = 1
    embedding_output: str = "relu"
    random_features: int = 0
    head: str = "linear"
    head_layers: int = 2
    residual: bool | None = None
    self_loops: bool = False
    activation: str = "relu"
    layer_dropout: float = 0.0
    rescale: bool = True
    factors: int = 1
    jumping: str = "last"
    pooling: str = "sum"
    eps: float = 0.0
    train_eps: bool = False
    batch_norm: bool = False
    standardize: bool = False
    structure: str = "diagonal"
    schedule: str = "forward"
    distribution: str = "uniform"
    params: tuple[float, float] = (0.0, 1.0)
    normalize_features: bool = True
    dropout: float = 0.5
    lr: float = 0.01
    weight_decay: float = 5e-4
    epochs: int = 300
    batch_size: int | None = None
    patience: int | None = None
    pretrain_lr: float = 0.01
    pretrain_weight_decay: float = 5e-4
    pretrain_dropout: float = 0.5
    pretrain_epochs: int = 200
    ridge: float | None = 1.0
    engine: str = "auto"
    inference: str = "auto"
    num_samples: int = 32

    def __post_init__(self) -> None:
        self._check_types()
        object.__setattr__(self, "params", tuple(float(p) for p in self.params))
        check_choice("backbone", self.backbone, BACKBONES)
        check_choice("embedding", self.embedding, EMBEDDINGS)
        check_choice("embedding output", self.embedding_output, OUTPUTS)
        check_choice("head", self.head, HEADS)
        check_choice("engine", self.engine, ENGINES)
        check_choice("inference", self.inference, INFERENCES)
        for name, (least, most) in BOUNDS.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                bound = f"at least {least}" if value < least else f"at most {most}"
                raise InputError(f"{name} must be {bound}, got {shown(value)}.")
        for name in ("dropout", "layer_dropout", "pretrain_dropout"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise InputError(f"{name} must lie in [0, 1), got {getattr(self, name)}.")
        for name in ("lr", "pretrain_lr"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} must be above 0, got {getattr(self, name)}.")
        for name in ("weight_decay", "pretrain_weight_decay", "ridge"):
            if getattr(self, name) is not None and not getattr(self, name) >= 0:
                raise InputError(f"{name} must not be negative, got {getattr(self, name)}.")
        if self.self_loops and BACKBONES[self.backbone].itself:
            raise InputError(f"self_loops has no place in {self.backbone}, where a node hears itself: use eps.")
        self.propagation(0)

    def _check_types(self) -> None:
        for f in fields(self):
            value, kind = getattr(self, f.name), type(f.default)
            if f.default is None:
                kind = bool if f.name == "residual" else int
            if value is None and (f.default is None or f.name == "ridge"):
                continue
            if f.name == "params":
                good = isinstance(value, list | tuple) and len(value) == 2 and all(_is(p, float) for p in value)
            else:
                good = _is(value, kind)
            if not good:
                raise InputError(f"setting {f.name} cannot be {shown(value)}: it takes {_KINDS[kind]}.")

    def propagation(self, seed: int) -> Propagation:
        """The random layers, drawn with ``seed``."""
        weights = RandomWeights(self.structure, self.schedule, self.distribution, self.params, seed)
        return Propagation(
            self.backbone,
            self.num_layers,
            weights,
            self.residual,
            self.activation,
            self.layer_dropout,
            self.rescale,
            self.factors,
            self.jumping,
            self.pooling,
        )

    def update(self, **changes: Any) -> "Config":
        """A copy with some fields changed; unknown names are refused."""
        known = {f.name for f in fields(self)}
        unknown = sorted(set(changes) - known)
        if unknown:
            near = get_close_matches(unknown[0], known, n=3, cutoff=0.5)
            hint = f"like it are {', '.join(near)}" if near else "the settings are the fields of rapgnn.Config"
            raise InputError(f"unknown setting {shown(unknown[0])}: {hint}.")
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "params": list(self.params)}


def trained_head(config: Config, in_channels: int, out_channels: int, generator: torch.Generator) -> Head:
    """The head that gradient descent trains, for random and for trained layers alike."""
    return Head(
        in_channels,
        config.hidden_channels,
        out_channels,
        config.head_layers if config.head == "mlp" else 1,
        dropout=config.dropout,
        batch_norm=config.batch_norm,
        generator=generator,
    )


_KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a finite number",
    str: "a name",
    tuple: "a pair of numbers",
}


def _is(value: Any, kind: type) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
