"""What the random layers are, said once for both engines: the layer rule, its draws, and when the shortcut is exact."""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from functools import cached_property

import torch
from torch import Tensor

from rapgnn.errors import check_choice
from rapgnn.graph.backbones import BACKBONES, Backbone
from rapgnn.graph.operator import POOLINGS, GraphOperator
from rapgnn.network.config import Config, Propagate, check_layers, checked
from rapgnn.network.weights import RandomWeights
from rapgnn.sparse import Features, nonnegative

# These are the identity on non-negative numbers, and f(c·z) = c·f(z) for c > 0.
HOMOGENEOUS = ("relu", "leaky_relu", "identity")


@dataclass(frozen=True)
class Propagation(Propagate):
    r"""L layers :math:`h ← s·h + σ(a ⊙ h + b ⊙ (S h))` with drawn a and b, and the pooling of graphs into rows.

    Args:
        backbone, num_layers: and the other settings of ``Propagate``, which say how a and b are drawn.
        pooling: how a graph's nodes become one row, a name from ``POOLINGS``; only where rows are graphs.
        operator_scale: how much S typically enlarges what it multiplies: 1 where it is normalised.
        seed: of the draws.
    """

    _: KW_ONLY
    pooling: str = "sum"
    operator_scale: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        checked({about.name: getattr(self, about.name) for about in fields(Propagate)})
        check_choice("pooling", self.pooling, POOLINGS)
        check_choice("jumping knowledge", self.jumping, ("last", "cat"))
        check_layers(self)

    @classmethod
    def of(cls, config: Config, seed: int) -> "Propagation":
        return cls(**vars(config.propagate), pooling=config.pooling, seed=seed)

    @cached_property
    def weights(self) -> RandomWeights:
        return self.drawn(self.seed)

    @property
    def rule(self) -> Backbone:
        return BACKBONES[self.backbone]

    @property
    def skip(self) -> float:
        """s: 1 with the residual, 0 without."""
        return float(self.rule.residual if self.residual is None else self.residual)

    @property
    def outputs(self) -> range:
        """The layers whose output is part of the representation."""
        return range(self.num_layers + 1) if self.jumping == "cat" else range(self.num_layers, self.num_layers + 1)

    def draw_all(self, counters: int | Sequence[int] | Tensor, channels: int, **to) -> dict[str, Tensor]:
        """Every weight of every layer by name, ``[T, L, d]`` or, for full matrices, ``[T, L, d, d]``.

        The first factor of each term by the term's name, then ``factor 1``, ``factor 2`` … that follow in every layer;
        ``to`` names device and dtype.
        """
        slots = enumerate([*self.rule.terms, *(f"factor {i}" for i in range(1, self.factors))])
        return {name: self.weights.draw(counters, self.num_layers, channels, slot, **to) for slot, name in slots}

    def growth(self, channels: int) -> float:
        """The constant each layer's output is divided by: s plus what the weights add up to on average."""
        if not self.rescale or self.activation not in HOMOGENEOUS:
            return 1.0
        fan_in = channels if self.weights.structure == "full" else 1
        w = self.weights.at(channels)
        typical = (w.mean * fan_in if w.nonnegative else math.sqrt(w.second_moment * fan_in)) ** self.factors
        sizes = {"root": 1.0, "neighbour": self.operator_scale}
        growth = self.skip + sum(sizes[term] for term in self.rule.terms) * typical
        return growth if growth > 0 else 1.0

    def obstacle(self, operator: GraphOperator, h: Features, e: Tensor | None = None) -> str | None:
        """Why the polynomial shortcut would not be exact here; None where it is.

        Args:
            h: h⁰.
            e: the embedded edge types, where messages have edge features.
        """
        if self.weights.structure == "full":
            return "full weight matrices mix channels"
        if self.layer_dropout > 0:
            return "dropout acts between the layers"
        if operator.ptr is not None and self.pooling == "max" and not self.one_hop:
            return "the maximum over nodes does not commute with a sum of several hops"
        if self.activation == "identity" and not self.rule.edges:
            if operator.ptr is not None and self.pooling == "max" and not self.weights.nonnegative:
                return "the maximum over nodes does not commute with negative weights"
            return None  # linear: signs do not matter
        if self.activation not in HOMOGENEOUS:
            return f"the activation {self.activation} is not the identity on non-negative numbers"
        if not self.weights.nonnegative:
            return f"the {self.weights.distribution}{self.weights.params} weights can be negative"
        if operator.edges is not None and not operator.edges.receiver.nonnegative:
            return "the graph has negative edge weights"
        if not operator.matrix.nonnegative:
            return "the graph has negative edge weights" if operator.eps >= -1 else "eps is below -1"
        if not nonnegative(h):
            return "the embedded features have negative entries"
        if e is not None and not nonnegative(e):
            return "the embedded edge features have negative entries"
        return None

    @property
    def bare(self) -> bool:
        """Whether layer l's output holds, of h⁰'s family, S^l h⁰ alone."""
        return not self.skip and "root" not in self.rule.terms

    @property
    def one_hop(self) -> bool:
        """Whether layer l's output is a multiple, channel by channel, of the one matrix S^l h⁰."""
        return self.bare and not self.rule.edges


# The coefficients of the random polynomial: which hops there are, and c for any number of draws at once.


def stored_hops(spec: Propagation) -> list[int]:
    """Which entries of the coefficient vector can be other than zero: S^k h⁰ is number k, S^k E number L + 1 + k."""
    L = spec.num_layers
    first = list(spec.outputs) if spec.bare else list(range(L + 1))
    return first + (list(range(L + 1, 2 * L + 1)) if spec.rule.edges else [])


def coefficients(spec: Propagation, counters: Sequence[int] | Tensor, channels: int, **to) -> Tensor:
    """c for T draws at once, ``[T, J, K, d]``: J outputs, K stored hops; ``to`` names device and dtype."""
    drawn = spec.draw_all(counters, channels, **to)
    product = {term: drawn.pop(term) for term in spec.rule.terms}
    for weights in drawn.values():
        product = {term: first * weights for term, first in product.items()}
    return multiply_out(spec, product)


def multiply_out(spec: Propagation, weights: dict[str, Tensor]) -> Tensor:
    """The layers' first-order polynomials multiplied, ``[T, J, K, d]``, for {term: weights ``[T, L, d]``}."""
    drawn, any_term = weights, next(iter(weights.values()))
    channels = any_term.shape[-1]
    shrink, L = 1.0 / spec.growth(channels), spec.num_layers
    if spec.one_hop:  # a product of weights: no recurrence over hops
        raised = torch.cumprod(drawn["neighbour"] * (shrink * spec.operator_scale), dim=1)
        if spec.jumping == "last":
            return raised[:, -1, None, None]
        return torch.diag_embed(torch.cat([torch.ones_like(raised[:, :1]), raised], 1).mT).permute(0, 2, 3, 1)
    size = L + 1 + (L if spec.rule.edges else 0)
    c = any_term.new_zeros(len(any_term), size, channels)
    c[:, 0] = 1.0
    every = [c.clone()] if spec.jumping == "cat" else []
    for layer in range(L):
        keep: Tensor | float = spec.skip * shrink
        if "root" in drawn:
            keep = drawn["root"][:, layer, None] * shrink + keep
        weight = drawn["neighbour"][:, layer, None] * shrink
        raised = c[:, : layer + 1] * (weight * spec.operator_scale)
        raised_edges = c[:, L + 1 : L + 1 + layer] * (weight * spec.operator_scale)
        c *= keep
        c[:, 1 : layer + 2] += raised
        if spec.rule.edges:
            c[:, L + 2 : L + 2 + layer] += raised_edges
            c[:, L + 1] += weight[:, 0] * shrink**layer
        if spec.jumping == "cat":
            every.append(c.clone())
    outputs = torch.stack(every, dim=1) if spec.jumping == "cat" else c[:, None]
    stored = stored_hops(spec)
    return outputs[:, :, stored[0] : stored[-1] + 1]  # they follow one another


# The exact first and second moments of the coefficients: what no number of draws improves.


def expected_coefficients(spec: Propagation) -> Tensor:
    """E[c] ``[J, K]``, float64: the polynomial with every weight at its mean."""
    mean = torch.tensor(spec.weights.mean, dtype=torch.float32).double()  # as draws are: rounded to 32 bits first
    mean = torch.stack([mean] * spec.factors).prod()
    weights = {term: mean.expand(1, spec.num_layers, 1) for term in spec.rule.terms}
    return multiply_out(spec, weights)[0, :, :, 0]


def coefficient_covariance(spec: Propagation) -> Tensor:
    """Cov[c] ``[J, K, J, K]``, float64, the same for every channel.

    One layer maps c to c' = u·c + b·(ω N c + γ δ) with u = s + a and b independent of c; N raises each family by one
    hop and γ δ brings E in. So first and second moments follow linear recurrences in E[u], E[b], E[u²], E[ub], E[b²].
    """
    shrink, L = 1.0 / spec.growth(1), spec.num_layers
    b = spec.weights.mean**spec.factors * shrink
    variance = (spec.weights.second_moment**spec.factors - spec.weights.mean ** (2 * spec.factors)) * shrink * shrink
    u = spec.skip * shrink + (b if "root" in spec.rule.terms else 0.0)
    uu, ub, bb = u * u + (variance if "root" in spec.rule.terms else 0.0), u * b, b * b + variance
    size = 2 * L + 1
    raises = torch.zeros(size, size, dtype=torch.float64)
    for k in [*range(L), *range(L + 1, 2 * L)]:
        raises[k + 1, k] = spec.operator_scale
    enters = torch.zeros(size, dtype=torch.float64)
    mean, second = torch.zeros(size, dtype=torch.float64), torch.zeros(size, size, dtype=torch.float64)
    mean[0] = second[0, 0] = 1.0
    means, seconds = [mean], {(0, 0): second}
    for layer in range(L):
        if spec.rule.edges:
            enters[L + 1] = shrink**layer
        step = u * torch.eye(size, dtype=torch.float64) + b * raises
        new_mean = step @ mean + b * enters
        raised_mean = raises @ mean
        entering = torch.outer(raised_mean, enters)
        cross = second @ raises.T + torch.outer(mean, enters)  # E[c y'], y what the weight b multiplies
        square = raises @ second @ raises.T + entering + entering.T + torch.outer(enters, enters)
        for j in range(layer + 1) if spec.jumping == "cat" else ():
            seconds[layer + 1, j] = step @ seconds[layer, j] + b * torch.outer(enters, means[j])
        second = uu * second + ub * (cross + cross.T) + bb * square
        mean = new_mean
        means.append(mean)
        seconds[layer + 1, layer + 1] = second
    stored, outputs = stored_hops(spec), list(spec.outputs)
    covariance = torch.empty(len(outputs), len(stored), len(outputs), len(stored), dtype=torch.float64)
    for p, i in enumerate(outputs):
        for q, j in enumerate(outputs):
            both = seconds[i, j] if i >= j else seconds[j, i].T
            covariance[p, :, q] = (both - torch.outer(means[i], means[j]))[stored][:, stored]
    return covariance


def coefficient_root(spec: Propagation) -> Tensor:
    """F ``[J, K, f]`` with F Fᵀ = Cov[c], float64; directions too small for 32-bit hops are left out."""
    covariance = coefficient_covariance(spec)
    outputs, hops = covariance.shape[:2]
    values, vectors = torch.linalg.eigh(covariance.reshape(outputs * hops, outputs * hops))
    large = values > 1e-9 * values.abs().max().clamp(min=1e-300)
    return (vectors[:, large] * values[large].sqrt()).reshape(outputs, hops, -1)
