"""The settings of a network and its training: five small records, one per stage, and ``Config``, which holds them.

``encode → propagate → expand → readout → head``: RAP-GNN as published, every other method with random weights, and
every candidate of a search are points of their product. Names are those of Python, JSON and the command line, where
the records are one flat list.
"""

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rapgnn.errors import InputError, check_choice, shown
from rapgnn.graph.backbones import BACKBONES
from rapgnn.network.encode import EMBEDDINGS, OUTPUTS, SCALINGS
from rapgnn.network.expand import KERNELS
from rapgnn.network.heads import HEADS
from rapgnn.network.mlp import ACTIVATIONS
from rapgnn.network.weights import RandomWeights

LARGEST = 1e30  # of a setting that is a number


def _one_of(default: str, names: Iterable[str], *also: str) -> Any:
    return field(default=default, metadata={"names": names, "also": also})  # rows may be added to a table of names


def _whole(default: int | None, least: int, most: int) -> Any:
    return field(default=default, metadata={"kind": int, "least": least, "most": most})


def _number(default: float | None, least: float = -LARGEST, *, open_least: bool = False, below: float = LARGEST) -> Any:
    return field(default=default, metadata={"kind": float, "least": least, "open": open_least, "below": below})


@dataclass(frozen=True)
class Encode:
    """What a network makes of the features: h⁰."""

    scaling: str = _one_of("none", SCALINGS)
    """``none``; ``length``: rows by their length; ``tfidf``: rare words count more, then length; ``standard``: columns
    with mean 0 and variance 1."""
    components: int = _whole(0, 0, 1 << 14)
    """Keep only so many components of the scaled features, those in which they vary most; 0: all columns."""
    normalize_features: bool = True
    """Divide each node's features by the sum of their magnitudes."""
    degree_columns: bool = False
    """Add columns that tell a node's degrees."""
    node_columns: int = _whole(0, 0, 1 << 14)
    """Random columns that tell nodes apart, instead of their features: for the graph that was trained on alone."""
    anchors: int = _whole(0, 0, 1 << 14)
    """Of graphs with types, instead of features: log(1 + n π), by the personalised PageRank π of so many rows."""
    embedding: str = _one_of("pretrained", EMBEDDINGS)
    """How h⁰ is made of these columns, a name from ``EMBEDDINGS``."""
    hidden_channels: int = _whole(256, 1, 1 << 16)
    """d, the width of the embedding, of trained layers and of an MLP head."""
    embedding_layers: int = _whole(1, 1, 3)
    """Linear maps in the embedding's MLP, 1 to 3."""
    embedding_output: str = _one_of("relu", OUTPUTS)
    """What follows the embedding: ``relu``, ``split`` (positive and negative parts side by side) or ``none``."""
    random_features: int = _whole(0, 0, 1 << 16)
    """Random node features (RNF) appended to the features, new in every forward pass."""
    pretrain_lr: float = _number(0.01, 0.0, open_least=True)
    """Phase 1: learning rate."""
    pretrain_weight_decay: float = _number(5e-4, 0.0)
    """Phase 1: weight decay."""
    pretrain_dropout: float = _number(0.5, 0.0, below=1.0)
    """Phase 1: dropout in the embedding's MLP."""
    pretrain_epochs: int = _whole(200, 0, 10_000_000)
    """Phase 1: epochs."""


@dataclass(frozen=True)
class Propagate:
    """How h⁰ goes through the graph, never trained."""

    backbone: str = _one_of("gcn", BACKBONES)
    """The message-passing layer, a name from ``BACKBONES``: ``gcn``, ``sage``, ``gin``, ``gine``."""
    num_layers: int = _whole(8, 0, 100_000)
    """L, the number of message-passing layers, or of hops."""
    _: KW_ONLY
    coefficients: str = _one_of("random", ("random", "fixed", "layers", "colours"))
    """``random``: of every hop and channel, RAP-GNN; ``fixed``: the hops S^k h⁰ as they are; ``layers``: random layers
    h ← σ(standardised S h W + b), drawn once; ``colours``: counts of the nodes' colours by Weisfeiler and Leman."""
    jumping: str = _one_of("last", ("last", "cat", "ppr"))
    """What is seen: ``last``, the last layer; ``cat``, all side by side (jumping knowledge); ``ppr``: the sum of fixed
    hops with the weights of personalised PageRank."""
    teleport: float = _number(0.15, 0.0, open_least=True, below=1.0)
    """α of personalised PageRank: hop k counts α (1 - α)^k."""
    edges: str = _one_of("given", ("given", "undirected", "both"))
    """``given``; ``undirected``: with the reverse of every edge; ``both``: fixed hops along and against the edges."""
    relations: str = ""
    """Of a graph with types, what a walk may take in a step: ``a writes b + b rev_writes a``; `` | `` stands between
    walks whose hops are side by side. Empty: no walk, the row's own features alone."""
    half_life: float = _number(0.0, 0.0)
    """Of rows that are predicted as of a time: after how many of the points in time that see facts a fact counts half;
    0: all facts count the same."""
    self_loops: bool = False
    """Add a self-loop to every node that has none, where the backbone does not include the node itself."""
    eps: float = _number(0.0)
    """ε of GIN and GINE: a node counts itself with weight 1 + ε."""
    train_eps: bool = False
    """Learn ε, in trained layers."""
    batch_norm: bool = False
    """Batch normalisation, in trained layers and in an MLP head."""
    residual: bool | None = None
    """Whether a layer's input is added to its output; None takes the backbone's own."""
    activation: str = _one_of("relu", ACTIVATIONS)
    """σ: ``relu``, ``leaky_relu``, ``tanh`` or ``identity`` (linear layers)."""
    layer_dropout: float = _number(0.0, 0.0, below=1.0)
    """Dropout between random layers, in training."""
    rescale: bool = True
    """Divide every layer by its expected growth, a constant; False is the paper's raw equation."""
    factors: int = _whole(1, 1, 4)
    """Number of weights in the MLP of a GIN or GINE layer, random or trained, each with its σ."""
    structure: str = "diagonal"
    """Of the random weights: ``diagonal``, ``full`` or ``identity``."""
    schedule: str = "forward"
    """When weights are drawn anew: every ``forward`` pass, every ``epoch``, or never: ``fixed``."""
    distribution: str = "uniform"
    """``uniform`` or ``normal``; for full matrices also ``glorot`` or ``linear`` (as ``nn.Linear``), by their width."""
    params: tuple[float, float] = (0.0, 1.0)
    """(low, high) of the uniform, (mean, standard deviation) of the normal distribution."""
    width: int = _whole(128, 1, 1 << 14)
    """Channels of random layers, or buckets that colours are counted in."""
    known_labels: int = _whole(0, 0, 2)
    """Hops of the training rows' labels, without each row's own: for nodes that the model knows by their ids."""
    previous: "Config | None" = None
    """Another network, whose predictions for the neighbours stand beside the hops (single graphs alone)."""
    engine: str = _one_of("auto", ("auto", "polynomial", "stepwise"))
    """``auto`` takes the polynomial shortcut where it is exact; ``polynomial`` or ``stepwise`` insists on one."""

    def drawn(self, seed: int) -> RandomWeights:
        """The weights of the random layers, drawn with ``seed``."""
        return RandomWeights(self.structure, self.schedule, self.distribution, self.params, seed)


@dataclass(frozen=True)
class Expand:
    """What is made of fixed hops before the head: random non-linear features, or a comparison with landmarks."""

    units: int = _whole(0, 0, 1 << 14)
    """Random non-linear features of the hops; 0: none."""
    unit_inputs: int = _whole(0, 0, 1 << 14)
    """How many columns each random feature looks at (of one hop, unless they are propagated too); 0: all columns."""
    unit_hops: int = _whole(0, 0, 64)
    """Hops of the random features that stand beside them and beside the hops."""
    log_hops: bool = False
    """Take sign(z) log(1 + |z|) of the hops before their random features."""
    kernel: str = _one_of("none", KERNELS, "none")
    """The head sees how alike a row is to landmarks, a name from ``KERNELS``; ``none``: it sees the row itself."""
    landmarks: int = _whole(0, 0, 1 << 14)
    """How many training rows others are compared with, where there is a kernel."""
    bandwidth: float = _number(1.0, 0.0, open_least=True)
    """The distance at which rows are no longer alike, by the mean distance of two rows."""
    trend: bool = False
    """Add the inner product to the kernel, so that what is linear goes on beyond the training rows."""


@dataclass(frozen=True)
class Readout:
    """How nodes become rows."""

    pooling: str = _one_of("sum", ("sum", "mean", "max", "log"))
    """The nodes of a graph: ``sum``, ``mean``, ``max``, or ``log``: sign(s) log(1 + |s|) of the sum s (fixed hops)."""


@dataclass(frozen=True)
class HeadSettings:
    """The head, how it is trained or solved, and how it predicts."""

    head: str = _one_of("linear", HEADS)
    """``linear`` or ``mlp``, trained by gradient descent; ``ridge``, solved in closed form; ``trees``, boosted trees on
    fixed coefficients."""
    head_layers: int = _whole(2, 1, 4)
    """Linear maps in an MLP head, 1 to 4."""
    standardize: bool = False
    """Give every channel that the head sees mean 0 and variance 1; of fixed hops False: one variance for all."""
    ridge: float | None = _number(1.0, 0.0)
    """λ of the ridge head, relative to the size of the representation; None chooses it on validation."""
    dropout: float = _number(0.5, 0.0, below=1.0)
    """Dropout in the head and in trained layers."""
    lr: float = _number(0.01, 0.0, open_least=True)
    """Learning rate of the head, and of end-to-end training."""
    lr_decay: bool = False
    """Let the learning rate fall to 0 over the epochs, by half a cosine."""
    weight_decay: float = _number(5e-4, 0.0)
    """Weight decay of the head, and of end-to-end training."""
    epochs: int = _whole(300, 1, 10_000_000)
    """Epochs of phase 2, and of end-to-end training."""
    batch_size: int | None = _whole(None, 1, 1 << 40)
    """Rows per step; None takes all training rows at once."""
    patience: int | None = _whole(None, 0, 10_000_000)
    """Stop after so many epochs without a better validation metric; None never stops early."""
    inference: str = _one_of("auto", ("auto", "expected", "mean", "sample"))
    """``expected`` (exact), ``mean`` over draws, one ``sample`` as in the paper; ``auto``: expected where it exists."""
    keep_draw: bool = False
    """With the inference ``sample``: predict by the draw that the best epoch was validated with, not by a new one."""
    num_samples: int = _whole(32, 1, 1_000_000)
    """Draws of the inference ``mean``."""


RECORDS = {"encode": Encode, "propagate": Propagate, "expand": Expand, "readout": Readout, "predict": HeadSettings}
"""The records by the stage that they are of."""
_FIELDS = {f.name: (stage, f) for stage, record in RECORDS.items() for f in fields(record)}


@dataclass(frozen=True, init=False, repr=False)
class Config:
    """A network and its training: ``Config(backbone="gcn", num_layers=8)``. Settings that do not apply have no effect.

    Every setting is an attribute by its own name; ``config.encode``, ``propagate``, ``expand``, ``readout`` and
    ``predict`` (the head) are the records of the stages.
    """

    encode: Encode
    propagate: Propagate
    expand: Expand
    readout: Readout
    predict: HeadSettings

    def __init__(self, **settings: Any):
        self._take(checked(settings))

    def _take(self, settings: dict[str, Any]) -> None:
        """Make these settings, each of them sound, this network's."""
        mine: dict[str, dict[str, Any]] = {stage: {} for stage in RECORDS}
        for name, value in settings.items():
            mine[_FIELDS[name][0]][name] = value
        for stage, record in RECORDS.items():
            vars(self)[stage] = record(**mine[stage])
        vars(self).update(self.settings())
        self._check_together()

    if TYPE_CHECKING:  # every setting is an attribute

        def __getattr__(self, name: str) -> Any: ...

    def _check_together(self) -> None:
        """Refuse settings that contradict each other."""
        one_way = self.edges == "given" and not self.unit_hops and not self.self_loops
        if self.relations and not (self.coefficients in ("fixed", "random") and one_way):
            raise InputError(
                "relations are walked as given: coefficients fixed or random, without self_loops and unit_hops."
            )
        if self.relations and self.coefficients == "random":
            more = self.units or self.landmarks or self.known_labels or self.previous is not None
            expected = self.head == "ridge" and self.inference in ("auto", "expected")
            if self.jumping != "last" or self.structure != "diagonal" or more or not expected:
                raise InputError("random coefficients along relations need diagonal weights, jumping last and a ridge.")
            return
        if self.anchors and not (self.relations and self.jumping == "ppr"):
            raise InputError("anchors need relations and jumping ppr.")
        fixed, random = self.coefficients == "fixed", self.coefficients == "random"
        rule, previous = BACKBONES[self.backbone], self.previous
        if self.self_loops and rule.includes_self:
            raise InputError(f"self_loops has no place in {self.backbone}, which includes the node itself: use eps.")
        if random:
            self.propagate.drawn(0)
            check_layers(self.propagate)
            if self.jumping == "ppr" or self.edges != "given" or self.pooling == "log":
                raise InputError("jumping ppr, edges other than given and pooling log need fixed coefficients.")
            if self.head == "trees":
                raise InputError("boosted trees are grown once, on fixed coefficients: set coefficients fixed too.")
            columns = self.degree_columns or self.node_columns
            if self.units or self.landmarks or self.known_labels or previous is not None or columns:
                raise InputError(
                    "units, landmarks, known_labels, previous, degree_columns and node_columns need fixed coefficients."
                )
            return
        if rule.edges:
            raise InputError(f"{self.backbone} needs random coefficients: its messages are not linear.")
        if not fixed and self.jumping != "cat":
            raise InputError(f"{self.coefficients} are joined side by side: jumping must be cat.")
        if self.coefficients == "colours" and (self.units or self.pooling == "mean"):
            raise InputError("colours are counted as they are: without random features, and not as means.")
        if self.unit_hops and not self.units:
            raise InputError("unit_hops are hops of random features: set units too.")
        if (self.kernel == "none") != (self.landmarks == 0):
            raise InputError("a kernel needs landmarks, and landmarks a kernel.")
        if self.landmarks and self.head != "ridge":
            raise InputError("a kernel is for a head that is solved: head must be ridge.")
        if self.embedding != "identity" or self.pooling == "max":
            raise InputError("fixed coefficients take the features as they are: embedding identity, pooling not max.")
        if self.edges == "both" and self.jumping != "cat":
            raise InputError("edges both ways stand side by side: take them with jumping cat.")
        if previous is not None and (previous.previous is not None or previous.known_labels):
            raise InputError(
                "the previous network must see no labels, or it would tell a row its own, and have none before it."
            )

    @property
    def of_layers(self) -> bool:
        """Whether it is a ``RAPGNN``; random coefficients along relations are a ``HopNetwork``'s."""
        return self.coefficients == "random" and not self.relations

    def update(self, **changes: Any) -> "Config":
        """A copy with some settings changed; unknown names are refused."""
        changed = object.__new__(Config)
        changed._take(self.settings() | checked(changes))
        return changed

    def settings(self) -> dict[str, Any]:
        """Every setting by name."""
        return {name: value for stage in RECORDS for name, value in vars(getattr(self, stage)).items()}

    def to_dict(self) -> dict[str, Any]:
        """Every setting by name, as JSON holds it."""
        previous = None if self.previous is None else self.previous.to_dict()
        return self.settings() | {"params": list(self.params), "previous": previous}

    def __repr__(self) -> str:
        changed = (f"{n}={v!r}" for n, v in self.settings().items() if v != _FIELDS[n][1].default)
        return f"Config({', '.join(changed)})"


SETTINGS = tuple(_FIELDS)
"""The names of all settings."""


def check_layers(layers: Propagate) -> None:
    """Refuse random layers that cannot be."""
    if layers.num_layers < 1:
        raise InputError(f"the number of layers must be at least 1, got {layers.num_layers}.")
    if layers.factors > 1 and len(BACKBONES[layers.backbone].terms) > 1:
        raise InputError(f"{layers.backbone} has weights side by side, so factors must be 1, got {layers.factors}.")


def checked(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings by name, each of them sound by itself; numbers of numpy are taken as Python's."""
    refuse_unknown(settings)
    return {name: _checked(_FIELDS[name][1], value) for name, value in settings.items()}


def refuse_unknown(settings: Iterable[str], also: tuple[str, ...] = ()) -> None:
    """Refuse names that no setting has; ``also`` are other names that come to mind."""
    unknown = sorted(set(settings) - set(_FIELDS))
    if unknown:
        near = get_close_matches(unknown[0], [*_FIELDS, *also], n=3, cutoff=0.5)
        hint = f"like it are {', '.join(near)}" if near else "the settings are the fields of rapgnn.Config"
        raise InputError(f"unknown setting {shown(unknown[0])}: {hint}.")


def bounds(name: str) -> tuple[int, int]:
    """The least and the largest value of a setting that is a whole number."""
    about = _FIELDS[name][1].metadata
    return about["least"], about["most"]


def _checked(about: Any, value: Any) -> Any:
    """The value of one setting; refused where it is none."""
    name, limits = about.name, about.metadata
    value = value.item() if isinstance(value, np.generic) else value
    if name == "previous":
        value = Config(**value) if isinstance(value, dict) else value
        if value is not None and not isinstance(value, Config):
            raise InputError(f"setting previous must be the settings of a network, got {shown(value)}.")
        return value
    if value is None and (about.default is None or name == "ridge"):
        return None
    value = cast(Any, value)
    kind: Any = limits.get("kind") or (bool if name == "residual" else type(about.default))
    if name == "params":
        good = isinstance(value, list | tuple) and len(value) == 2 and all(_is(p, float) for p in value)
        value = tuple(map(float, value)) if good else value
    else:
        good = _is(value, kind)
    if not good:
        takes = {bool: "true or false", int: "a whole number", float: "a finite number", str: "a name"}
        raise InputError(f"setting {name} cannot be {shown(value)}: it takes {takes.get(kind, 'a pair of numbers')}.")
    if "names" in limits:
        check_choice(name.replace("_", " "), value, (*limits["also"], *limits["names"]))
    if "least" in limits:
        value, least, most, above = kind(value), limits["least"], limits.get("most"), limits.get("open", False)
        low = value < least or (above and value == least)
        if low or (value > most if kind is int else value >= limits["below"]):
            allowed = f"above {least:g}" if above else f"at least {least:g}"
            allowed += f" and below {limits['below']:g}" if limits.get("below", LARGEST) < LARGEST else ""
            raise InputError(
                f"{name} must be {allowed if low or kind is float else f'at most {most}'}, got {shown(value)}."
            )
    return value


def _is(value: Any, kind: type) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
