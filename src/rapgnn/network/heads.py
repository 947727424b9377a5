"""The stage head: c_θ trained by gradient descent, or solved by ridge regression."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rapgnn.graph.tasks import Objective
from rapgnn.network.encode import SMALLEST, inverse
from rapgnn.network.mlp import MLP, Noise
from rapgnn.network.trees import TreeHead
from rapgnn.plugins import Extensible
from rapgnn.prng import Stream, seeded


class Head(nn.Module):
    """A linear layer or an MLP on the representation, shifted and scaled first by constants that training rows fix.

    ``solved`` says of every kind of head whether it is solved for; otherwise gradient descent trains it.

    Args:
        num_layers: 1 (linear) to 4.
    """

    solved = False
    input_scale: Tensor
    input_offset: Tensor

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 1,
        *,
        dropout: float = 0.0,
        batch_norm: bool = False,
        generator: torch.Generator,
    ):
        super().__init__()
        self.out_channels = out_channels
        self.inverse_temperature = 1.0  # what the trained scores were multiplied with
        widths = [in_channels] + [hidden_channels] * (num_layers - 1) + [out_channels]
        self.mlp = MLP(widths, generator, dropout, batch_norm=batch_norm)
        self.register_buffer("input_scale", torch.ones(in_channels, dtype=torch.float32))
        self.register_buffer("input_offset", torch.zeros(in_channels, dtype=torch.float32))

    @property
    def linear(self) -> bool:
        return len(self.mlp.linears()) == 1

    def first_map(self) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """The first linear map W ``[channels, t]`` of the representation, and the rest: products with W -> scores."""
        first, *others = self.mlp.linears()
        bias = first.bias + first.weight @ self.input_offset

        def finish(products: Tensor) -> Tensor:
            h = products + bias
            for i, layer in enumerate(others):
                h = layer(torch.relu(self.mlp.normed(i, h)))
            return h

        return (first.weight * self.input_scale).T.contiguous(), finish

    def fit_input_scale(self, mean: Tensor, square: Tensor, channelwise: bool = False) -> None:
        """Make the inputs' root mean square one, so that one learning rate fits every depth and feature scale.

        Args:
            mean, square: of every channel ``[in_channels]``.
            channelwise: give every channel mean zero and variance one instead; a channel that is constant stays out.
        """
        if not channelwise:
            size = float(square.double().mean().sqrt())
            self.input_scale.fill_(1.0 / size if size > torch.finfo(torch.float32).tiny else 1.0)
            return
        mean, square = mean.double(), square.double()
        std = (square - mean.square()).clamp(min=0).sqrt()
        scale = inverse(std, SMALLEST * square.sqrt())
        self.input_scale.copy_(scale)
        self.input_offset.copy_(-mean * scale)

    @torch.no_grad()
    def multiply(self, factor: float) -> None:
        last = self.mlp.linears()[-1]
        last.weight.mul_(factor)
        last.bias.mul_(factor)
        self.inverse_temperature *= factor

    def scaled(self, h: Tensor) -> Tensor:
        return torch.addcmul(self.input_offset, h, self.input_scale)

    def forward(self, h: Tensor, generator: Noise | None = None) -> Tensor:
        return self.mlp(self.scaled(h), generator)


# The scale of targets that are numbers.


class TargetScale(nn.Module):
    """Targets that are numbers are learned with mean 0 and variance 1, and given back as they were."""

    shift: Tensor
    scale: Tensor
    plain: Tensor

    def __init__(self, out_channels: int):
        super().__init__()
        self.register_buffer("shift", torch.zeros(out_channels, dtype=torch.float32))
        self.register_buffer("scale", torch.ones(out_channels, dtype=torch.float32))
        self.register_buffer("plain", torch.ones((), dtype=torch.bool))

    def fit(self, y: Tensor) -> None:
        """Take mean and standard deviation of the known training targets ``[r, t]``."""
        for column, values in enumerate(y.T):
            known = values[~values.isnan()].double()
            if len(known):
                std = float(known.std(correction=0))
                self.shift[column], self.scale[column] = float(known.mean()), std if std > 0 else 1.0
        self.plain.fill_(False)

    def standardise(self, y: Tensor) -> Tensor:
        return y if self.plain else (y - self.shift) / self.scale

    def forward(self, scores: Tensor) -> Tensor:
        return scores if self.plain else torch.addcmul(self.shift, scores, self.scale)

    def scale_spread(self, spread: Tensor) -> Tensor:
        """The standard deviation ``[..., t]`` of raw scores as that of what they are given back as."""
        return spread if self.plain else spread * self.scale


# Ridge regression: the linear head in closed form, for any penalty, with every training row left out once.


PENALTIES = tuple(10.0**k for k in range(-5, 4))
"""The λ that validation chooses from."""
INVERSE_TEMPERATURES = tuple(10.0 ** (k / 10) for k in range(-5, 21))
# Unknowns up to which one eigendecomposition is cheaper than a factorisation per penalty: rows left out, or not.
DECOMPOSED, DECOMPOSED_ONCE = 1200, 256


def best_from_middle(values: Sequence[float], at: Callable[[float], Any], better: Callable[[Any, Any], bool]) -> Any:
    """The best of what ``at`` gives for some values, if it gets better and then worse along them.

    From the middle to the end as long as it gets better; where the first step does not, from the middle to the start.

    Args:
        at: a value -> what it gives; None: nothing.
        better: whether the first is to be preferred to the second.
    """
    middle = len(values) // 2
    best = first = at(values[middle])
    for way in (values[middle + 1 :], values[:middle][::-1]):
        for value in way:
            one = at(value)
            if one is None or (best is not None and not better(one, best)):
                break
            best = one
        if best is not first:
            break
    return best


def inverse_temperature(objective: Objective, loss: Callable[[float], float]) -> float:
    """The number that scores are multiplied with so that held-out labels are likeliest; 1 for numbers."""
    if objective.metric == "rmse":
        return 1.0
    losses: dict[int, float] = {}

    def at(i: int) -> float:
        if i not in losses:
            losses[i] = loss(INVERSE_TEMPERATURES[i])
        return losses[i]

    low, high = 0, len(INVERSE_TEMPERATURES) - 1
    while low < high:  # of one network the loss is convex in the factor, of an average nearly: it falls, then it rises
        middle = (low + high) // 2
        low, high = (low, middle) if at(middle) <= at(middle + 1) else (middle + 1, high)
    return INVERSE_TEMPERATURES[low]


@dataclass(frozen=True)
class RidgeSolution:
    """The linear map for one penalty: weight ``[J·d, t]``, bias ``[t]``."""

    penalty: float
    weight: Tensor
    bias: Tensor


SKETCH = 64  # columns of a root that stands for a larger one: what it gives is off by 1 / sqrt(2 · 64), 9 %, on average


@dataclass(frozen=True)
class Posterior:
    """How uncertain a solution is: scores of a row h have the covariance N Nᵀ (1/n + ‖(h − center) R‖²).

    Args:
        center: the mean of the training rows ``[J·d]``.
        root: R ``[J·d, k]``, R Rᵀ = (MᵀM + Σ + λI)⁻¹; of more than 64 columns a random projection of it.
        noise: N ``[t, k]``, N Nᵀ what is left of the targets, the minimised objective divided by n; likewise.
        level: 1/n.
    """

    center: Tensor
    root: Tensor
    noise: Tensor
    level: float


class RidgeHead(nn.Module):
    r"""The linear head that minimises the expected squared error over all draws, in one solve.

    .. math:: E‖h^L W - Y‖² + λ‖W‖² = ‖E[h^L] W - Y‖² + \sum_i \Bigl(λ + \sum_v \mathrm{Var}[h^L_{vi}]\Bigr) ‖W_i‖²

    Channels are independent, so the variance enters as a diagonal penalty: training on infinitely many draws. Where a
    channel has several outputs (jumping knowledge) these depend on one another, and the penalty is one block each.

    λ is a normal prior of W, and the solution the middle of its posterior, whose width is stored beside it.
    """

    solved = linear = True
    weight: Tensor
    bias: Tensor
    center: Tensor
    root: Tensor
    noise: Tensor
    level: Tensor

    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        self.penalty: float | None = None  # the λ that was solved for
        self.inverse_temperature = 1.0  # what the solution was multiplied with, to turn its scores into logits
        self.register_buffer("weight", torch.zeros(in_channels, out_channels, dtype=torch.float32))
        self.register_buffer("bias", torch.zeros(out_channels, dtype=torch.float32))
        self.register_buffer("center", torch.zeros(in_channels, dtype=torch.float32))
        self.register_buffer("root", torch.zeros(in_channels, min(in_channels, SKETCH), dtype=torch.float32))
        self.register_buffer("noise", torch.zeros(out_channels, min(out_channels, SKETCH), dtype=torch.float32))
        self.register_buffer("level", torch.zeros((), dtype=torch.float32))  # 0: there is no posterior

    @torch.no_grad()
    def take(self, solution: RidgeSolution, posterior: Posterior | None = None) -> None:
        """Make a solution this head's."""
        self.weight.copy_(solution.weight)
        self.bias.copy_(solution.bias)
        self.penalty, self.inverse_temperature = solution.penalty, 1.0
        for name in ("center", "root", "noise", "level"):
            getattr(self, name).copy_(0.0 if posterior is None else torch.as_tensor(getattr(posterior, name)))

    def variance(self, h: Tensor) -> Tensor:
        """1/n + x̃ᵀ(MᵀM + Σ + λI)⁻¹x̃ of every row ``[r]``: what ``noise`` is multiplied with."""
        return self.level + ((h - self.center) @ self.root).square().sum(1)

    def first_map(self) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """As that of ``Head``."""
        return self.weight, lambda products: products + self.bias

    def forward(self, h: Tensor, generator: Noise | None = None) -> Tensor:
        return h @ self.weight + self.bias

    @torch.no_grad()
    def multiply(self, factor: float) -> None:
        for part in (self.weight, self.bias, self.noise):
            part.mul_(factor)
        self.inverse_temperature *= factor

    @torch.no_grad()
    def fit_temperature(self, objective: Objective, scores: Tensor, y: Tensor) -> None:
        self.multiply(inverse_temperature(objective, lambda factor: float(objective.loss(scores * factor, y))))


def _linear(*sizes: int, num_layers: int, **how: Any) -> Head:
    return Head(*sizes, num_layers=1, **how)


def _ridge(in_channels: int, hidden_channels: int, out_channels: int, **how: Any) -> RidgeHead:
    return RidgeHead(in_channels, out_channels)


def _trees(in_channels: int, hidden_channels: int, out_channels: int, **how: Any) -> TreeHead:
    return TreeHead(in_channels, out_channels)


HEADS = Extensible("rapgnn.heads", {"linear": _linear, "mlp": Head, "ridge": _ridge, "trees": _trees})
"""What makes a head, by name: it takes ``Head``'s arguments. A package adds its own by the entry-point group
``rapgnn.heads``."""


def make_head(config: Any, in_channels: int, out_channels: int, generator: torch.Generator) -> Any:
    """The head that settings describe, untrained, for random and for trained layers alike."""
    how = {"num_layers": config.head_layers, "dropout": config.dropout, "batch_norm": config.batch_norm}
    return HEADS[config.head](in_channels, config.hidden_channels, out_channels, **how, generator=generator)


class RidgeRegression:
    """The solutions for one penalty after another; what does not depend on the penalty is computed once.

    Args:
        mean: the representation, or its expectation ``[r, J·d]``; products are in its precision, sums in double.
        targets: ``[r, t]``; NaN is unknown and left out label by label.
        scatter: for each group of labels known for the same rows, as ``same_gaps`` lists them, the covariance of each
            channel's J outputs summed over these rows, ``[d, J, J]``; with weights the weighted sum. None: nothing
            about the representation is random.
        weights: how much each row's squared error counts, ``[r]``; None: all the same.
        many: whether many penalties are solved for, or rows are left out in turn.
    """

    def __init__(
        self,
        mean: Tensor,
        targets: Tensor,
        scatter: Sequence[Tensor] | None = None,
        weights: Tensor | None = None,
        many: bool = False,
    ):
        self.shape, self.rows = (mean.shape[1], targets.shape[1]), len(mean)
        self._groups, self._device, self._targets = list[NormalEquations](), mean.device, targets
        groups = list(same_gaps(targets))
        for (columns, known), covariance in zip(groups, scatter or [None] * len(groups), strict=True):
            m, t = mean if bool(known.all()) else mean[known], targets[known][:, columns].double()
            w = t.new_ones(len(t)) if weights is None else weights[known].double()
            share = w / w.sum()
            center, level = (share.to(m.dtype) @ m).double(), share @ t
            m, t = m - center.to(m.dtype), t - level
            if weights is not None:  # weighted least squares: rows times the root of their weight
                m, t = m * w.sqrt()[:, None].to(m.dtype), t * w.sqrt()[:, None]
            equations = NormalEquations(m, t, None, None, covariance, DECOMPOSED if many else DECOMPOSED_ONCE)
            if equations.size < (4 * torch.finfo(torch.float32).eps) ** 2 * float(w.sum() * center.square().mean()):
                equations.size = 0.0  # constant columns: what is left of them is rounding, which λ is not relative to
            equations.known, equations.weights = known, w
            self._groups.append(equations.about(columns, center, level, float(w.sum())))

    @classmethod
    def of_sums(cls, shape: tuple[int, int], groups: Sequence["NormalEquations"]) -> "RidgeRegression":
        """From sums over rows that were too many to be kept; ``shape`` is (J·d, t)."""
        regression = cls.__new__(cls)
        regression.shape, regression.rows = shape, 0
        regression._groups = list(groups)
        regression._device = groups[0].center.device if groups else torch.device("cpu")
        return regression

    def with_targets(self, targets: Tensor) -> "RidgeRegression":
        """The same rows with other targets, all known; the rows had the same weight."""
        (equations,), twin = self._groups, copy.copy(self)
        level, columns = targets.double().mean(0), list(range(targets.shape[1]))
        other = equations.with_targets(targets.double() - level)
        twin._groups = [other.about(columns, equations.center, level, equations.rows)]
        twin.shape, twin._targets = (self.shape[0], targets.shape[1]), targets
        return twin

    def solve(self, penalty: float) -> RidgeSolution:
        weight = torch.zeros(self.shape, dtype=torch.float64, device=self._device)
        bias = torch.zeros(self.shape[1], dtype=torch.float64, device=self._device)
        for labels in self._groups:
            found = labels.solve(penalty)
            weight[:, labels.columns], bias[labels.columns] = found, labels.level - labels.center @ found
        return RidgeSolution(float(penalty), weight, bias)

    def posterior(self, penalty: float) -> Posterior | None:
        """That of the solution for λ; None where labels are known for different rows: one root would not do for all."""
        if len(self._groups) != 1:
            return None
        labels, generator = self._groups[0], seeded(0, Stream.POSTERIOR)
        left = labels.left_over(penalty) / labels.rows
        most = float(left.diagonal().amax())
        noise = left.new_zeros(self.shape[1], min(self.shape[1], SKETCH))
        if most > 0:
            factor = factored((left + left.T) / 2, 1e-9 * most)
            factor = factor @ _identity_root(len(factor), generator, left.device)
            noise[labels.columns, : factor.shape[1]] = factor
        return Posterior(labels.center, labels.root(penalty, generator), noise, 1 / labels.rows)

    def left_out(self, penalty: float) -> Tensor:
        """The scores ``[r, t]`` of the training rows, each by the solution without it; NaN where the label is unknown.

        Exact but for the row's own variance, which stays part of the penalty.
        """
        scores = torch.full((self.rows, self.shape[1]), float("nan"), dtype=torch.float64, device=self._device)
        for labels in self._groups:
            known, w = labels.known, labels.weights
            fitted, leverage = labels.fitted(penalty)
            # The level is a mean over the rows as well, so every row has its share in it.
            leverage = (leverage + w / w.sum()).clamp(max=1 - 1e-6)[:, None]
            place, mine = known.nonzero()[:, 0][:, None], torch.tensor(labels.columns, device=scores.device)
            whole = fitted / w.sqrt()[:, None] + labels.level
            scores[place, mine] = (whole - leverage * self._targets[place, mine].double()) / (1 - leverage)
        return scores


def same_gaps(targets: Tensor) -> Iterator[tuple[list[int], Tensor]]:
    """Groups of label columns that are known for the same rows: (columns, rows)."""
    known = ~targets.isnan()
    groups: dict[bytes, list[int]] = {}
    for column in range(targets.shape[1]):
        groups.setdefault(known[:, column].cpu().numpy().tobytes(), []).append(column)
    for columns in groups.values():
        rows = known[:, columns[0]]
        if bool(rows.any()):
            yield columns, rows


class NormalEquations:
    """(MᵀM + Σ + λI) W = MᵀT, Σ the covariance that the draws add; or its dual, with one unknown per row.

    Args:
        m: centred rows ``[r, J·d]``; t: centred targets ``[r, t]``; None where only their products are there.
        gram, right, square: MᵀM, MᵀT and TᵀT, centred and weighted, in double precision, where only they are there.
        scatter: ``[d, J, J]``; None: nothing is random.
        decomposed: unknowns up to which one eigendecomposition serves all penalties.
    """

    def __init__(
        self, m: Any, t: Any, gram: Any, right: Any, scatter: Tensor | None, decomposed: int, square: Any = None
    ):
        self.m, self.t, self.squared = m, t, square
        self.known: Any = None  # of all rows, those whose labels these are, and how much each counts
        self.weights: Any = None
        self.gram: Any
        self.scatter: Any = None if scatter is None else scatter.double()
        channels = len(gram) if m is None else m.shape[1]
        # In the order of the representation: outputs outermost.
        self.variance: Any = None if self.scatter is None else self.scatter.diagonal(dim1=1, dim2=2).T.flatten()
        # With a covariance the dual is built anew for every penalty.
        self.dual = m is not None and (len(m) <= channels if scatter is None else 2 * len(m) <= channels)
        if m is not None and self.dual:
            gram, right = (m @ m.T).double() if scatter is None else None, t
        elif m is not None:
            gram, right = (m.T @ m).double(), (m.T @ t.to(m.dtype)).double()
        square = self.m.square().sum(dtype=torch.float64) if gram is None else gram.diagonal().sum()
        self.size = float(square if self.variance is None else square + self.variance.sum()) / max(1, channels)
        self.gram, self.right = gram, right
        if self.scatter is not None and not self.dual:
            d, outputs = self.scatter.shape[:2]
            blocks = self.gram.view(outputs, d, outputs, d).diagonal(dim1=1, dim2=3)
            blocks.add_(self.scatter.permute(1, 2, 0))
        self._factor: tuple[float, Tensor] | None = None
        self.values = None
        if self.gram is not None and len(self.gram) <= decomposed and m is not None:
            values, self.vectors = torch.linalg.eigh(self.gram)
            self.values, self.turned = values.clamp(min=0), self.vectors.mT @ self.right

    def about(self, columns: list[int], center: Tensor, level: Tensor, rows: float) -> "NormalEquations":
        """Of which labels these are, and what was taken from both sides.

        Args:
            columns: the labels, known for the same rows.
            center, level: the (weighted) means of the representation ``[J·d]`` and of the targets ``[t]``.
            rows: how many there are, or the sum of their weights.
        """
        self.columns, self.center, self.level, self.rows = columns, center, level, rows
        return self

    def with_targets(self, t: Tensor) -> "NormalEquations":
        twin = copy.copy(self)
        twin.t, twin.right = t, t if self.dual else (self.m.T @ t.to(self.m.dtype)).double()
        if self.values is not None:
            twin.turned = self.vectors.mT @ twin.right
        return twin

    def solve(self, penalty: float) -> Tensor:
        floor = self._floor(penalty)
        if self.values is not None:
            found = self.vectors @ (self.turned / (self.values + floor)[:, None])
            return _product(self.m.T, found) if self.dual else found
        factor, _, left = self._factored(floor)
        found = torch.cholesky_solve(self.right, factor)
        return found if left is None else _product(left, found)

    def left_over(self, penalty: float) -> Tensor:
        """The minimised objective ``[t, t]``: TᵀT - TᵀMW."""
        weight, square = self.solve(penalty), self.t.T @ self.t if self.squared is None else self.squared
        return square - (self.t.T @ _product(self.m, weight) if self.dual else self.right.T @ weight)

    def root(self, penalty: float, generator: torch.Generator) -> Tensor:
        """R ``[J·d, k]`` of R Rᵀ = (MᵀM + Σ + λI)⁻¹, in expectation where there are more than 64 columns."""
        floor, size = self._floor(penalty), self.m.shape[1] if self.dual else len(self.gram)
        if self.dual and size <= SKETCH:
            m = self.m.double()
            return NormalEquations(None, None, m.T @ m, m.T @ self.t, self.scatter, 0).root(penalty, generator)
        noise = _identity_root(size, generator, self.right.device)
        factor, _, left = self._factored(floor)
        if left is None:
            return torch.linalg.solve_triangular(factor.mT, noise, upper=True)
        # A⁻¹(Mᵀε + P^½ε') has the covariance A⁻¹(MᵀM + P)A⁻¹ = A⁻¹, for A = MᵀM + P, P = Σ + λI.
        m = self.m.double()
        drawn = m.T @ _normal(len(m), generator, m.device) + self._of_penalty(floor, noise, root=True)
        drawn = self._of_penalty(floor, drawn)
        return drawn - left.double() @ torch.cholesky_solve(m @ drawn, factor)

    def fitted(self, penalty: float) -> tuple[Tensor, Tensor]:
        """What the solution gives for its own rows ``[r, t]``, and how much each of them counts in its own."""
        floor = self._floor(penalty)
        if self.values is not None:
            shrunk = 1 / (self.values + floor)
            if self.dual:
                share = self.values * shrunk
                return self.vectors @ (share[:, None] * self.turned), self.vectors.square() @ share
            rows = self.m.double() @ self.vectors
            return rows @ (shrunk[:, None] * self.turned), rows.square() @ shrunk
        factor, added, left = self._factored(floor)
        if left is not None:
            inverse = torch.cholesky_inverse(factor)
            return self.t - added * (inverse @ self.t), 1 - added * inverse.diagonal()
        half = torch.linalg.solve_triangular(factor, self.m.T.double(), upper=False)
        return self.m.double() @ torch.cholesky_solve(self.right, factor), half.square().sum(0)

    def _factored(self, floor: float) -> tuple[Tensor, float, Tensor | None]:
        """(C, a, L): C Cᵀ is the matrix of the equations, a what was added to its diagonal, L turns duals into W."""
        if self.dual and self.scatter is not None:  # (M P⁻¹ Mᵀ + I) duals, P = Σ + λI
            left = self._of_penalty(floor, self.m.double().T)
            return factored(self.m.double() @ left, 1.0), 1.0, left
        if self._factor is None or self._factor[0] != floor:
            self._factor = floor, factored(self.gram, floor)
        return self._factor[1], floor, self.m.T if self.dual else None

    def _floor(self, penalty: float) -> float:
        if not self.size > 0:
            return 1.0
        return max(penalty, 1e-12) * self.size

    def _of_penalty(self, floor: float, x: Tensor, root: bool = False) -> Tensor:
        """P⁻¹x ``[J·d, r]``, P = Σ + λI one J × J block per channel; or P^½x."""
        if self.scatter is None:
            return x * floor**0.5 if root else x / floor
        d, outputs = self.scatter.shape[:2]
        if outputs == 1:
            diagonal = (self.variance + floor)[:, None]
            return x * diagonal.sqrt() if root else x / diagonal
        blocks = self.scatter + floor * torch.eye(outputs, dtype=x.dtype, device=x.device)
        by_channel = x.reshape(outputs, d, x.shape[1]).transpose(0, 1)
        found = torch.linalg.cholesky(blocks) @ by_channel if root else torch.linalg.solve(blocks, by_channel)
        return found.transpose(0, 1).reshape(-1, x.shape[1])


def _product(rows: Tensor, x: Tensor) -> Tensor:
    return (rows @ x.to(rows.dtype)).to(x.dtype)


def _identity_root(rows: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """E ``[rows, k]`` with E Eᵀ the identity: itself, or its random projection where it has many columns."""
    if rows <= SKETCH:
        return torch.eye(rows, dtype=torch.float64, device=device)
    return _normal(rows, generator, device)


def _normal(rows: int, generator: torch.Generator, device: torch.device) -> Tensor:
    drawn = torch.randn(rows, SKETCH, generator=generator, dtype=torch.float64, device="cpu")
    return drawn.to(device) / SKETCH**0.5


def factored(product: Tensor, added: float, most: float = float("inf")) -> Tensor:
    """C of C Cᵀ = product + a · identity, with the first a of ``added``, ten times that and so on that gives one.

    Args:
        most: an a from which no larger one is tried.
    """
    while True:
        matrix = product.clone()
        matrix.diagonal().add_(added)
        factor, info = torch.linalg.cholesky_ex(matrix)
        if not bool(info) or added >= most:
            return factor
        added *= 10
