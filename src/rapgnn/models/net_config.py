"""The settings of a random network, whose head is solved or trained: one flat record."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from rapgnn.errors import InputError, check_choice
from rapgnn.graph.backbones import BACKBONES
from rapgnn.layers.kernel import KERNELS
from rapgnn.layers.standardize import TREATMENTS
from rapgnn.models.config import Config
from rapgnn.models.known_labels import MOST_HOPS

JOINED = ("last", "cat", "ppr")
POOLED = ("sum", "mean", "log")
DIRECTIONS = ("given", "undirected", "both")
MOST = 1 << 14
NONLINEARITIES = {"tanh": torch.tanh, "relu": torch.relu, "identity": lambda z: z}
"""What follows the matrix of a random layer, by name."""
COUNTS = (
    *("identity", "hidden", "sketch", "width", "lift", "lift_inputs", "num_layers", "lift_hops", "known", "colours"),
    "landmarks",
)


@dataclass(frozen=True)
class NetConfig:
    """Hops of treated features and of known labels, random non-linear features of them, a head."""

    features: str = "none"
    """What is done to the features first, a name from ``TREATMENTS``."""
    sketch: int = 0
    """Keep only so many directions of the features, those in which they vary most; 0: all columns."""
    places: bool = False
    """Add columns that tell a node's degrees."""
    backbone: str = "gcn"
    """Whose propagation matrix S is taken: ``gcn`` symmetric, ``sage`` the random walk, ``gin`` the sum."""
    self_loops: bool = False
    """Add a self-loop to every node that has none (``gcn``, ``sage``)."""
    edges: str = "given"
    """``given``; ``undirected``: with the reverse of every edge; ``both``: hops along and against the edges."""
    identity: int = 0
    """Random columns that tell nodes apart, instead of their features: for the graph that was trained on alone."""
    num_layers: int = 2
    """Number of hops, or of random layers."""
    jumping: str = "cat"
    """``last`` hop; ``cat``: all side by side; ``ppr``: their sum with the weights of personalised PageRank."""
    teleport: float = 0.15
    """α of personalised PageRank: hop k counts α (1 - α)^k."""
    width: int = 0
    """Channels of random layers h ← σ(standardised S h W + b); 0: linear hops."""
    logarithm: bool = False
    """Take sign(z) log(1 + |z|) of the hops before the lift."""
    lift: int = 0
    """Random non-linear features of the joined hops; 0: none."""
    lift_inputs: int = 0
    """How many columns each random feature looks at (of one hop, unless hops of the lift follow); 0: all columns."""
    lift_hops: int = 0
    """Hops of the random features that stand beside them and beside the hops."""
    activation: str = "relu"
    """σ, a name from ``NONLINEARITIES``."""
    pooling: str = "sum"
    """How the nodes of a graph become one row: ``sum``, ``mean``, or ``log``: sign(s) log(1 + |s|) of the sum s."""
    whiten: bool = True
    """Give each column that the head sees variance 1; False: all of them together."""
    hidden: int = 0
    """Hidden channels of a head that is trained by gradient descent; 0: the head is solved."""
    dropout: float = 0.0
    """In a head that is trained."""
    first: "NetConfig | None" = None
    """Another network, whose predictions for the neighbours stand beside the hops (single graphs alone)."""
    known: int = 0
    """Hops of the training rows' labels, 0 to 2, without each row's own: for the graph that was trained on alone."""
    colours: int = 0
    """Buckets for the nodes' colours by Weisfeiler and Leman, whose counts stand for a graph; 0: no colours."""
    kernel: str = "none"
    """The head sees how alike a row is to others, a name from ``KERNELS``; ``none``: it sees the row itself."""
    landmarks: int = 0
    """How many training rows others are compared with, where there is a kernel."""
    reach: float = 1.0
    """The distance at which rows are no longer alike, by the mean distance of two rows."""
    trend: bool = False
    """Add the inner product to the kernel, so that what is linear goes on beyond the training rows."""

    def __post_init__(self) -> None:
        if isinstance(self.first, dict):
            object.__setattr__(self, "first", NetConfig(**self.first))
        if self.first is not None and (not isinstance(self.first, NetConfig) or self.first.first is not None):
            raise InputError("first must be the settings of a network that has none before it.")
        if self.first is not None and self.first.known:
            raise InputError("first must not see labels: what it predicts for its neighbours would tell a row its own.")
        check_choice("treatment of the features", self.features, TREATMENTS)
        check_choice("backbone", self.backbone, [name for name, rule in BACKBONES.items() if not rule.edges])
        check_choice("jumping knowledge", self.jumping, JOINED)
        check_choice("activation", self.activation, NONLINEARITIES)
        check_choice("pooling", self.pooling, POOLED)
        check_choice("direction of the edges", self.edges, DIRECTIONS)
        if not isinstance(self.dropout, float) or not 0 <= self.dropout < 1:
            raise InputError(f"dropout must lie in [0, 1), got {self.dropout!r}.")
        for name in COUNTS:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
                raise InputError(f"{name} must be a whole number from 0 to {MOST}, got {value!r}.")
        if self.known > MOST_HOPS:
            raise InputError(f"known must be a whole number from 0 to {MOST_HOPS}, got {self.known!r}.")
        for name in ("places", "self_loops", "logarithm", "whiten", "trend"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} must be true or false, got {getattr(self, name)!r}.")
        if not isinstance(self.teleport, float) or not 0 < self.teleport < 1:
            raise InputError(f"teleport must lie between 0 and 1, got {self.teleport!r}.")
        if self.colours and (self.width or self.lift or self.pooling == "mean"):
            raise InputError("colours are counted as they are: without random layers or features, and not as means.")
        check_choice("kernel", self.kernel, ("none", *KERNELS))
        if (self.kernel == "none") != (self.landmarks == 0):
            raise InputError("a kernel needs landmarks, and landmarks a kernel.")
        if not isinstance(self.reach, float) or not 0 < self.reach < float("inf"):
            raise InputError(f"reach must be a number above 0, got {self.reach!r}.")
        if self.kernel != "none" and self.hidden:
            raise InputError("a kernel is for a head that is solved: hidden must be 0.")
        if self.width and self.jumping != "cat":
            raise InputError("random layers are joined side by side: jumping must be cat.")

    @property
    def walk(self) -> tuple[Any, ...]:
        """What decides the hops of a graph's nodes: networks that agree in it have the same ones."""
        inputs = self.features, self.sketch, self.places, self.identity
        return *inputs, self.backbone, self.self_loops, self.edges

    @property
    def bound(self) -> bool:
        """Whether it speaks of the nodes of one graph alone: it tells them apart, or knows labels of theirs."""
        return bool(self.identity or self.known)

    @property
    def rows_seen(self) -> "NetConfig":
        """The same without what comes after pooling: networks that agree in it have the same pooled rows."""
        return replace(self, pooling="sum", whiten=True, kernel="none", landmarks=0, reach=1.0, trend=False)

    @property
    def pools(self) -> str:
        """What is taken of the nodes of a graph: their ``mean`` or their ``sum``."""
        return "mean" if self.pooling == "mean" else "sum"

    @property
    def network(self) -> Config:
        """What of it a RAP network's settings can say: the propagation, and the kind of head."""
        return Config(
            backbone=self.backbone,
            num_layers=max(1, self.num_layers),
            self_loops=self.self_loops and self.backbone != "gin",
            jumping="cat" if self.jumping == "cat" else "last",
            pooling=self.pools,
            structure="identity",
            activation="identity",
            normalize_features=False,
            embedding="identity",
            head="mlp" if self.hidden else "ridge",
            standardize=self.whiten,
        )

    def to_dict(self) -> dict[str, Any]:
        """Every field by name, as JSON holds it."""
        return asdict(self)
