"""The model of links: columns that describe a pair, heads that were chosen on held-out links, their average."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from math import ceil
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rapgnn.errors import InputError
from rapgnn.graph.tasks import TASKS, rocauc
from rapgnn.network.encode import FeatureScaling
from rapgnn.network.heads import inverse_temperature
from rapgnn.network.trees import TreeHead
from rapgnn.pairs.features import Described, PairFeatures, short_hops
from rapgnn.pairs.links import Links
from rapgnn.pairs.ridge import PENALTIES, Factors, PairRidge
from rapgnn.pairs.splits import folds, held_out, negatives
from rapgnn.sparse import Features, SparseMatrix, dense

ROW_BLOCK = 1 << 20  # pairs that are described and scored at once
BLOCK = 1 << 16  # pairs whose expanded columns live at once
PENALTY, STEPS = 1e-5, 8  # of logistic regression, relative to its rows; Newton's
CLASSES = TASKS["node-classification"]  # the loss and the reading of two scores: no link, link


@dataclass(frozen=True)
class LinkSettings:
    """How a model of links is made.

    Args:
        described: the columns of a pair.
        components: of the features, at most; fewer on a graph with many nodes.
        entries: of the components, at most, unless ``least_components`` are more.
        products: of entries of S with random columns, at most, unless ``least_columns`` are more.
        far: hops that are looked at, at most, where so few nodes are ``near`` that walks are long before they meet.
        folds: parts of the links, of which one at a time is out of the graph that describes it: the more, the more it
            is like the whole graph. Where not all links teach, as few parts as leave no more out at once, two at least.
        links: that heads learn from, at most.
        held_out: share of the links that heads are chosen on; of ``most_held_out`` at most.
    """

    described: Described = field(default_factory=Described)
    components: int = 256
    least_components: int = 32
    entries: int = 1 << 22
    products: float = 4e9
    least_columns: int = 64
    far: int = 8
    near: float = 150.0
    folds: int = 10
    links: int = 40_000
    per_link: int = 5
    negatives: str = "random"
    held_out: float = 0.1
    most_held_out: int = 10_000


TREES = {
    "trees": {"max_iter": 120, "learning_rate": 0.08},
    "small trees": {"max_iter": 240, "learning_rate": 0.05, "max_leaf_nodes": 12, "max_features": 0.3},
    "additive trees": {"max_iter": 240, "learning_rate": 0.08, "max_depth": 2},
}
"""Settings of ``TreeHead`` that are tried; logistic regression is tried beside them."""


@dataclass(frozen=True)
class Examples:
    """Pairs for a head: their columns, their labels, and how much each counts."""

    columns: Tensor
    y: Tensor
    weights: Tensor

    @classmethod
    def of(cls, columns: Tensor, count: int) -> "Examples":
        """The first ``count`` are links; both kinds count the same in sum."""
        y = (torch.arange(len(columns)) < count).long()
        share = torch.where(y == 1, 1 / max(1, count), 1 / max(1, len(y) - count))
        return cls(columns, y, share * len(y) / 2)


@dataclass(frozen=True)
class LinkConfig:
    """What a model is built from, apart from its numbers.

    Args:
        heads: what each is, with the sizes that it needs.
        judges: links that the heads were chosen on.
    """

    in_channels: int
    directed: bool = False
    scaling: str = "none"
    components: int = 0
    judges: int = 0
    heads: tuple[dict[str, Any], ...] = ()
    described: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"heads": list(self.heads)}


class LinkModel(nn.Module):
    """P(link) of pairs of nodes, where as many pairs have a link as have none."""

    temperature: Tensor
    share: Tensor
    judges: Tensor

    def __init__(self, config: LinkConfig, seed: int = 0):
        super().__init__()
        self.seed, self._config, self.trials = seed, config, list[dict[str, Any]]()
        self.described, channels = Described(**config.described), config.in_channels
        self.scaling = FeatureScaling(config.scaling, channels, config.components, seed) if channels else None
        width = 0 if self.scaling is None else self.scaling.width * (self.described.feature_hops + 1)
        self.ridge = PairRidge(width) if width else None
        names = self.described.names(config.directed, bool(width))
        self.columns = [*names, *(f"bilinear {penalty:g}" for penalty in PENALTIES if width)]
        self.heads = nn.ModuleList(_head(len(self.columns), **head) for head in config.heads)
        self.register_buffer("share", torch.full((len(self.heads),), 1 / max(1, len(self.heads))))
        self.register_buffer("temperature", torch.ones(()))
        self.register_buffer("judges", torch.zeros(config.judges, dtype=torch.int64))

    @property
    def config(self) -> LinkConfig:
        """With the heads and judges that there are now."""
        return replace(self._config, heads=tuple(_sizes(head) for head in self.heads), judges=len(self.judges))

    def remember(self, links: Tensor, names: Tensor) -> None:
        """Keep hashes of the links that judged ``[m, 2]``, so that they are found again."""
        self.judges = _pair_names(links, names).unique()

    def judged_in(self, links: Links, names: Tensor) -> Tensor:
        """Those of the links that judged."""
        return links.ends[torch.isin(_pair_names(links.ends, names), self.judges)]

    def inputs(self, x: Features | None) -> Tensor | None:
        """The features that hops are taken of."""
        return None if self.scaling is None or x is None else dense(self.scaling(x)).float()

    def on(self, links: Links, x: Features | None) -> "LinksOn":
        """The model with the links of a graph."""
        return LinksOn(self, links, self.inputs(x))

    def average(self, columns: Tensor) -> Tensor:
        """The mean probability of the heads, as logits of no link and link ``[m, 2]``."""
        probability = sum(
            share * head(columns).softmax(1)[:, 1] for share, head in zip(self.share.tolist(), self.heads, strict=True)
        )
        logit = torch.logit(torch.as_tensor(probability).double().clamp(1e-9, 1 - 1e-9))
        return torch.stack([-logit, logit], 1) / 2

    def forward(self, columns: Tensor) -> Tensor:
        """P(link) of pairs by their columns ``[m]``, in double precision."""
        return torch.softmax(self.average(columns) * self.temperature.double(), 1)[:, 1]


def _pair_names(pairs: Tensor, names: Tensor) -> Tensor:
    low, high = names[pairs].sort(1).values.T
    return low * 1_000_003 + high  # overflows, as hashes may


class LinksOn:
    """A model with one graph: its links, its features, what was computed of them."""

    def __init__(self, model: LinkModel, links: Links, inputs: Tensor | None):
        self.model, self.links, self.inputs = model, links, inputs

    @cached_property
    def features(self) -> PairFeatures:
        """Of pairs, all links of the graph given."""
        return PairFeatures(self.links, self.inputs, self.model.described)

    @cached_property
    def bilinear(self) -> tuple[Tensor, Tensor]:
        """Of the features: ``maps``."""
        assert self.model.ridge is not None
        return self.model.ridge.maps(self.features.hops)

    def probabilities(self, pairs: Tensor) -> Tensor:
        """P(link) of every pair ``[m]``."""
        parts = [torch.zeros(0, dtype=torch.float64)]
        for block in pairs.split(ROW_BLOCK):
            parts.append(self.model(described(self.features, self.model.ridge, block)))
        return torch.cat(parts)


def described(features: PairFeatures, ridge: PairRidge | None, pairs: Tensor, factors: Factors | None = None) -> Tensor:
    """All columns of some pairs: what the graph says of them, and the bilinear scores of their features."""
    columns = features.columns(pairs)
    if ridge is None:
        return columns
    return torch.cat([columns, ridge.scores(features.hops, features.links.ordered(pairs), factors)], 1)


class LogisticHead(nn.Module):
    """Logistic regression of columns and of their logarithms, as good features of links are powers of each other."""

    scale: Tensor
    weight: Tensor
    bias: Tensor

    def __init__(self, in_channels: int):
        super().__init__()
        self.register_buffer("scale", torch.ones(in_channels))
        self.register_buffer("weight", torch.zeros(2 * in_channels, dtype=torch.float64))
        self.register_buffer("bias", torch.zeros((), dtype=torch.float64))

    def fit(self, examples: Examples) -> "LogisticHead":
        """By Newton's method."""
        self.scale = examples.columns.abs().mean(0).clamp(min=1e-9)
        A, weights = self._expanded(examples.columns), examples.weights.double()
        center, size = A.mean(0), A.std(0).clamp(min=1e-9)
        A, y = (A - center) / size, examples.y.double()
        A = torch.cat([A, torch.ones(len(A), 1, dtype=A.dtype)], 1)
        w, penalty = A.new_zeros(A.shape[1]), PENALTY * float(weights.sum()) * torch.eye(A.shape[1], dtype=A.dtype)
        for _ in range(STEPS):
            p = torch.sigmoid(A @ w)
            curvature = (p * (1 - p)).clamp(min=1e-4) * weights
            w += torch.linalg.solve((A.T * curvature) @ A + penalty, A.T @ (weights * (y - p)) - penalty @ w)
        self.weight = w[:-1] / size
        self.bias = w[-1] - self.weight @ center
        return self

    def _expanded(self, columns: Tensor) -> Tensor:
        x = columns / self.scale
        return torch.cat([x, x.sign() * torch.log1p(10 * x.abs())], 1).double()

    def forward(self, columns: Tensor) -> Tensor:
        """Logits of no link and link ``[m, 2]``."""
        score = torch.cat([self._expanded(rows) @ self.weight for rows in columns.split(BLOCK)]) + self.bias
        return torch.stack([-score, score], 1).float() / 2

    def multiply(self, factor: float) -> None:
        """Make all scores so many times larger."""
        self.weight *= factor
        self.bias *= factor


def _head(in_channels: int, kind: str, **sizes: Any) -> nn.Module:
    return LogisticHead(in_channels) if kind == "logistic" else TreeHead(in_channels, 2, **sizes)


def _sizes(head: nn.Module) -> dict[str, Any]:
    if isinstance(head, TreeHead):
        return {"kind": "trees", "nodes": len(head.feature), "trees": len(head.root)}
    return {"kind": "logistic"}


def _grown(how: dict[str, Any], examples: Examples, seed: int) -> TreeHead:
    """Boosted trees; that pairs without a link count less is made up for afterwards, which is the same and faster."""
    head = TreeHead(examples.columns.shape[1], 2).fit(examples.columns, examples.y, seed=seed, **how)
    count = int(examples.y.sum())
    head.base[1] += float(np.log(max(1, len(examples.y) - count) / max(1, count)))
    return head


HEADS: dict[str, Callable[[Examples, int], nn.Module]] = {
    **{name: partial(_grown, how) for name, how in TREES.items()},
    "logistic regression": lambda examples, seed: LogisticHead(examples.columns.shape[1]).fit(examples),
}
"""The heads that are tried, by name."""


def fit_links(
    links: Links,
    x: Features | None,
    settings: LinkSettings | None = None,
    time: np.ndarray | None = None,
    validation: Tensor | None = None,
    seed: int = 0,
    search: bool = True,
    say: Callable[[str], None] = lambda line: None,
    names: Tensor | None = None,
) -> LinkModel:
    """Train on the links of a graph.

    Args:
        names: a number for every node, by which the links that judge are found again; None: their places.
        time: of every link; those that heads are chosen on are then the latest.
        validation: links to choose on instead ``[m, 2]``, which are none of the graph; of many a sample judges.
        search: False trains the first head alone.
    """
    how = settings or LinkSettings()
    if not len(links.ends):
        raise InputError("the graph has no links to learn from: give edges between different nodes.")
    mask = held_out(len(links.ends), how.held_out * (validation is None), time, seed, how.most_held_out)
    chosen_on = links.ends[torch.from_numpy(mask)] if validation is None else links.ordered(validation)
    known = links.select(torch.from_numpy(~mask).nonzero()[:, 0])
    everything = Links.of(links.n, torch.cat([links.ends, chosen_on]), None, links.directed)
    model = _start(links, x, how, seed)
    inputs = model.inputs(x)
    examples = _examples(model, known, everything, inputs, how, seed)
    judging = chosen_on[torch.from_numpy(held_out(len(chosen_on), 1.0, None, seed, how.most_held_out))]
    judged = _judged(model, PairFeatures(known, inputs, model.described), judging, everything, how.negatives, seed)
    fitted = []
    for name in list(HEADS)[: None if search else 1]:
        head = HEADS[name](examples, seed)
        scores = [head(one.columns) for one in judged]
        factor = inverse_temperature(CLASSES, lambda k: _loss(scores[0] * k, judged[0]))  # noqa: B023 (used at once)
        aucs = [_auc(score, one) for score, one in zip(scores, judged, strict=True)]
        fitted.append((head, (scores[0] * factor).softmax(1)[:, 1], factor))
        model.trials.append({"head": name, "loss": _loss(scores[0] * factor, judged[0])} | _named(aucs))
        say(f"{name}: ROC-AUC {aucs[1]:.4f} against random pairs, {aucs[2]:.4f} against near ones")
    _choose(model, fitted, judged[0])
    model.remember(chosen_on, torch.arange(links.n) if names is None else names)
    scores = [model.average(one.columns) for one in judged]
    model.trials.append({"head": "average"} | _named([_auc(s, one) for s, one in zip(scores, judged, strict=True)]))
    return model.eval()


def _named(aucs: Sequence[float]) -> dict[str, float]:
    return {"rocauc_random": aucs[1], "rocauc_hard": aucs[2]}


def _start(links: Links, x: Features | None, how: LinkSettings, seed: int) -> LinkModel:
    hops = max(how.described.hops, len(short_hops(links, how.near, how.far)))
    columns = int(how.products / max(1, 2 * len(links.ends) * hops))
    columns = max(how.least_columns, min(how.described.columns, columns))
    described = asdict(how.described) | {"seed": seed, "columns": columns, "hops": hops}
    if x is None:
        return LinkModel(LinkConfig(0, links.directed, described=described), seed)
    most = min(how.components, max(how.least_components, how.entries // max(1, x.shape[0])))
    scaling, components = scaling_for(x, most)
    model = LinkModel(LinkConfig(x.shape[1], links.directed, scaling, components, described=described), seed)
    assert model.scaling is not None
    model.scaling.fit(x)
    return model


def scaling_for(x: Features, most: int) -> tuple[str, int]:
    """The scaling of the nodes' features, and how many components of them are kept; 0: all columns."""
    counts = isinstance(x, SparseMatrix) and x.nonnegative
    return "tfidf" if counts else "standard", 0 if most >= x.shape[1] else most


def _examples(
    model: LinkModel, known: Links, everything: Links, inputs: Tensor | None, how: LinkSettings, seed: int
) -> Examples:
    count = len(known.ends)
    parts = min(count, max(2, ceil(how.folds * min(1, how.links / count))))
    fold = torch.from_numpy(folds(count, parts, how.links, seed))
    graphs = [PairFeatures(known.select((fold != f).nonzero()[:, 0]), inputs, model.described) for f in range(parts)]
    ends = [known.ends[fold == f] for f in range(parts)]
    factors: list[Factors | None] = [None] * parts
    if model.ridge is not None:
        degree = torch.bincount(known.ends.flatten(), minlength=known.n) + 1.0
        weights = [(degree[pairs[:, 0]] * degree[pairs[:, 1]]).rsqrt() for pairs in ends]
        factors = list(model.ridge.fit([graph.hops for graph in graphs], ends, weights, both=not known.directed))
    columns, labels = [], []
    for f, (graph, pairs) in enumerate(zip(graphs, ends, strict=True)):
        others = negatives(everything, how.per_link * len(pairs), how.negatives, seed + f)
        columns.append(described(graph, model.ridge, torch.cat([pairs, others]), factors[f]))
        labels.append(torch.arange(len(pairs) + len(others)) < len(pairs))
        graphs[f] = None  # type: ignore[call-overload]
    joined, y = torch.cat(columns), torch.cat(labels)
    order = torch.cat([y.nonzero()[:, 0], (~y).nonzero()[:, 0]])
    return Examples.of(joined[order], int(y.sum()))


def _judged(
    model: LinkModel, features: PairFeatures, pairs: Tensor, everything: Links, kind: str, seed: int
) -> list[Examples]:
    """The links that judge, beside pairs as the heads saw them, random ones and hard ones."""
    others = [negatives(everything, 2 * len(pairs), each, seed + 1000) for each in (kind, "random", "hard")]
    columns = described(features, model.ridge, torch.cat([pairs, *others]))
    parts = columns[len(pairs) :].split([len(part) for part in others])
    return [Examples.of(torch.cat([columns[: len(pairs)], part]), len(pairs)) for part in parts]


def _loss(scores: Tensor, examples: Examples) -> float:
    """The mean loss; as if a pair of each kind had been seen wrong, so that few that are told apart prove no certainty.

    These are the targets of Platt (1999).
    """
    wrong = 1 / (torch.bincount(examples.y, minlength=2) + 2.0)
    targets = nn.functional.one_hot(examples.y, 2) * (1 - 2 * wrong[examples.y, None]) + wrong[examples.y, None]
    each = nn.functional.cross_entropy(scores, targets.to(scores.dtype), reduction="none")
    return float((each * examples.weights).sum() / examples.weights.sum().clamp(min=1e-9))


def _auc(scores: Tensor, examples: Examples) -> float:
    return rocauc(scores[:, 1:] - scores[:, :1], examples.y[:, None].float())


def _choose(model: LinkModel, fitted: list[tuple[nn.Module, Tensor, float]], judged: Examples) -> None:
    """Take heads into the average one by one, each time the one that the average gains most by (Caruana, 2004)."""

    def loss(probability: Tensor) -> float:
        logit = torch.logit(probability.double().clamp(1e-9, 1 - 1e-9))
        return _loss(torch.stack([-logit, logit], 1) / 2, judged)

    chosen, total, best = list[int](), torch.zeros(len(judged.y)), float("inf")
    for size in range(1, 2 * len(fitted) + 1):  # with replacement: a head may count twice
        losses = [loss((total + probability) / size) for _, probability, _ in fitted]
        place = int(np.argmin(losses))
        if len(judged.y) and losses[place] >= best:
            break
        best, total = losses[place], total + fitted[place][1]
        chosen.append(place)
    members = sorted(set(chosen))
    for place in members:
        fitted[place][0].multiply(fitted[place][2])  # type: ignore[operator]
    model.heads = nn.ModuleList(fitted[place][0] for place in members)
    model.share = torch.tensor([chosen.count(place) / len(chosen) for place in members])
    scores = model.average(judged.columns)
    model.temperature.fill_(inverse_temperature(CLASSES, lambda k: _loss(scores * k, judged)))
