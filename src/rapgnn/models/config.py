"""Everything that decides what is trained and how: one flat record, every field with its own line."""

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
# Whole numbers and their bounds: beyond the upper ones time or memory runs out.
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
    """A model and its training. Settings that do not apply to a model have no effect on it."""

    # The layers
    backbone: str = "gcn"
    """The message-passing layer, a name from ``BACKBONES``: ``gcn``, ``sage``, ``gin``, ``gine``."""
    num_layers: int = 8
    """L, the number of message-passing layers."""
    hidden_channels: int = 256
    """d, the width of the embedding, of trained layers and of an MLP head."""
    residual: bool | None = None
    """Whether a layer's input is added to its output; None takes the backbone's own."""
    self_loops: bool = False
    """Add a self-loop to every node that has none, where the backbone does not include the node itself."""
    activation: str = "relu"
    """σ: ``relu``, ``leaky_relu``, ``tanh`` or ``identity`` (linear layers)."""
    layer_dropout: float = 0.0
    """Dropout between random layers, in training."""
    rescale: bool = True
    """Divide every layer by its expected growth, a constant; False is the paper's raw equation."""
    factors: int = 1
    """Number of weights in the MLP of a GIN or GINE layer, random or trained."""
    jumping: str = "last"
    """What the head sees: ``last``, h^L; ``cat``, h⁰ … h^L side by side (jumping knowledge)."""
    pooling: str = "sum"
    """How the nodes of a graph become one row: ``sum``, ``mean`` or ``max``."""
    eps: float = 0.0
    """ε of GIN and GINE: a node counts itself with weight 1 + ε."""
    train_eps: bool = False
    """Learn ε, in trained layers."""
    batch_norm: bool = False
    """Batch normalisation, in trained layers and in an MLP head."""

    # The random weights
    structure: str = "diagonal"
    """``diagonal``, ``full`` or ``identity``."""
    schedule: str = "forward"
    """When weights are drawn anew: every ``forward`` pass, every ``epoch``, or never: ``fixed``."""
    distribution: str = "uniform"
    """``uniform`` or ``normal``; for full matrices also ``glorot`` or ``linear`` (as ``nn.Linear``), by their width."""
    params: tuple[float, float] = (0.0, 1.0)
    """(low, high) of the uniform, (mean, standard deviation) of the normal distribution."""

    # Features and their embedding
    normalize_features: bool = True
    """Divide each node's features by the sum of their magnitudes."""
    embedding: str = "pretrained"
    """How h⁰ is made of the features, a name from ``EMBEDDINGS``."""
    embedding_layers: int = 1
    """Linear maps in the embedding's MLP, 1 to 3."""
    embedding_output: str = "relu"
    """What follows the embedding: ``relu``, ``split`` (positive and negative parts side by side) or ``none``."""
    random_features: int = 0
    """Random node features (RNF) appended to the features, new in every forward pass."""
    pretrain_lr: float = 0.01
    """Phase 1: learning rate."""
    pretrain_weight_decay: float = 5e-4
    """Phase 1: weight decay."""
    pretrain_dropout: float = 0.5
    """Phase 1: dropout in the embedding's MLP."""
    pretrain_epochs: int = 200
    """Phase 1: epochs."""

    # The head and its training
    head: str = "linear"
    """``linear`` or ``mlp``, trained by gradient descent, or ``ridge``, solved in closed form."""
    head_layers: int = 2
    """Linear maps in an MLP head, 1 to 4."""
    standardize: bool = False
    """Give every channel that the head sees mean 0 and variance 1."""
    ridge: float | None = 1.0
    """λ of the ridge head, relative to the size of the representation; None chooses it on validation."""
    dropout: float = 0.5
    """Dropout in the head and in trained layers."""
    lr: float = 0.01
    """Learning rate of the head, and of end-to-end training."""
    weight_decay: float = 5e-4
    """Weight decay of the head, and of end-to-end training."""
    epochs: int = 300
    """Epochs of phase 2, and of end-to-end training."""
    batch_size: int | None = None
    """Rows per step; None takes all training rows at once."""
    patience: int | None = None
    """Stop after so many epochs without a better validation metric; None never stops early."""

    # Engine and inference
    engine: str = "auto"
    """``auto`` takes the polynomial shortcut where it is exact; ``polynomial`` or ``stepwise`` insists on one."""
    hop_precision: str = "float32"
    """What the shortcut stores the hops in: ``float32``, or ``bfloat16``, half the memory; sums are in float32."""
    inference: str = "auto"
    """``expected`` (exact), ``mean`` over draws, one ``sample`` as in the paper; ``auto``: expected where it exists."""
    keep_draw: bool = False
    """With the inference ``sample``: predict by the draw that the best epoch was validated with, not by a new one."""
    num_samples: int = 32
    """Draws of the inference ``mean``."""

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
        if self.self_loops and BACKBONES[self.backbone].includes_self:
            raise InputError(f"self_loops has no place in {self.backbone}, which includes the node itself: use eps.")
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
            self.hop_precision,
        )

    def trained_head(self, in_channels: int, out_channels: int, generator: torch.Generator) -> Head:
        """The head that gradient descent trains, for random and for trained layers alike."""
        return Head(
            in_channels,
            self.hidden_channels,
            out_channels,
            self.head_layers if self.head == "mlp" else 1,
            dropout=self.dropout,
            batch_norm=self.batch_norm,
            generator=generator,
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
        """Every field by name, as JSON holds it."""
        return {**asdict(self), "params": list(self.params)}


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
