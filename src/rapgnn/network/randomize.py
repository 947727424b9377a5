"""Any PyTorch Geometric message-passing model as a random-weight one: drawn maps inside its convolutions."""

import copy
import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rapgnn.errors import InputError
from rapgnn.network.weights import DISTRIBUTIONS, RandomWeights
from rapgnn.prng import random_words


class Randomized(nn.Module):
    """What ``randomize`` gives: the model, whose every call draws the next weights.

    ``seed`` and ``draw_counter`` are part of the ``state_dict``; setting ``draw_counter`` replays a draw.
    ``summary`` says for every map what became of it.
    """

    seed: Tensor
    draw_counter: Tensor

    def __init__(self, module: nn.Module, weights: RandomWeights):
        super().__init__()
        self.module, self.weights = module, weights
        self.register_buffer("seed", torch.tensor(weights.seed & 0x7FFFFFFFFFFFFFFF, dtype=torch.int64))
        self.register_buffer("draw_counter", torch.zeros((), dtype=torch.int64))
        self.summary: dict[str, str] = {}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Draw the next weights and call the model."""
        step = int(self.draw_counter)
        counter = self.weights.counter(step, step)
        for drawn in self.maps():
            drawn.draw(int(self.seed), counter)
        self.draw_counter += 1
        return self.module(*args, **kwargs)

    def maps(self) -> "Iterator[RandomLinear | _DrawnParameter]":
        """The drawn maps, in the order of the model's modules."""
        for submodule in self.module.modules():
            if isinstance(submodule, RandomLinear):
                yield submodule
            yield from getattr(submodule, "_rapgnn_drawn", ())

    def __repr__(self) -> str:
        lines = [f"  ({name}): {what}" for name, what in self.summary.items()]
        return "\n".join([f"Randomized({type(self.module).__name__}, seed={int(self.seed)}", *lines, ")"])


class _Drawn:
    """A weight that is drawn: diagonal where it is square, full otherwise."""

    stream: int
    shape: tuple[int, int]  # (out, in) or (in, out): only whether they are equal, and the sizes, matter
    weights: RandomWeights

    def sample(self, seed: int, counter: int, like: Tensor) -> Tensor:
        """``[d]``, the diagonal, or the full matrix."""
        a, b = self.shape
        at, stream = (torch.tensor([value], device=like.device) for value in (counter, self.stream))
        if a == b:
            words = random_words(seed, at, stream, a)[0, 0]
            return DISTRIBUTIONS[self.weights.distribution].sample(words, *self.weights.params).to(like.dtype)
        # A full matrix of non-negative entries has rank one on average: this one is centred, in Glorot's range.
        bound = math.sqrt(6.0 / (a + b))
        words = random_words(seed, at, stream, a * b)[0, 0]
        return DISTRIBUTIONS["uniform"].sample(words, -bound, bound).to(like.dtype).view(a, b)


class RandomLinear(nn.Module, _Drawn):
    """Stands where a linear map stood: x ⊙ α + bias where it is square, x Wᵀ + bias otherwise."""

    drawn: Tensor
    bias: Tensor | None

    def __init__(self, linear: nn.Module, stream: int, weights: RandomWeights):
        super().__init__()
        weight: Tensor = linear.weight  # type: ignore[assignment]
        self.out_channels, self.in_channels = self.shape = (int(weight.shape[0]), int(weight.shape[1]))
        self.stream, self.weights = stream, weights
        bias = getattr(linear, "bias", None)
        self.register_buffer("bias", None if bias is None else bias.detach().clone())
        size = (self.out_channels,) if self.diagonal else self.shape
        self.register_buffer("drawn", torch.ones(size, dtype=weight.dtype, device=weight.device), persistent=False)

    @property
    def diagonal(self) -> bool:
        return self.shape[0] == self.shape[1]

    @property
    def weight(self) -> Tensor:
        """The drawn matrix ``[out, in]``."""
        return torch.diag(self.drawn) if self.diagonal else self.drawn

    def draw(self, seed: int, counter: int) -> None:
        self.drawn = self.sample(seed, counter, self.drawn)

    def reset_parameters(self) -> None:
        """Nothing to reset: weights are drawn in every call."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.diagonal:
            return F.linear(x, self.drawn, self.bias)
        return x * self.drawn if self.bias is None else torch.addcmul(self.bias, x, self.drawn)

    def __repr__(self) -> str:
        kind = "diagonal" if self.diagonal else "full"
        return f"RandomLinear({self.in_channels}, {self.out_channels}, {kind})"


class _DrawnParameter(_Drawn):
    """A matrix that a user's layer holds as a bare parameter: overwritten before every call."""

    def __init__(self, owner: nn.Module, name: str, stream: int, weights: RandomWeights):
        self.owner, self.name, self.stream, self.weights = owner, name, stream, weights
        value = getattr(owner, name).detach().clone()
        self.shape = (int(value.shape[0]), int(value.shape[1]))
        delattr(owner, name)
        owner.register_buffer(name, value, persistent=False)

    def draw(self, seed: int, counter: int) -> None:
        value = self.sample(seed, counter, getattr(self.owner, self.name))
        setattr(self.owner, self.name, torch.diag(value) if value.dim() == 1 else value)


def randomize(module: nn.Module, weights: RandomWeights | None = None, *, seed: int = 0) -> Randomized:
    """A copy of a message-passing model whose convolutions have random weights, drawn anew in every call.

    Inside every convolution (a ``torch_geometric.nn.MessagePassing``) the linear maps, and matrices held as bare
    parameters, are replaced: by a diagonal of ``weights`` where they are square, by a full centred matrix otherwise.
    Biases, attention vectors, norms and everything outside the convolutions stay as they are. Nothing requires a
    gradient.

    Args:
        module: the model, with all lazy sizes settled; it is not changed.
        weights: how diagonals are drawn, and the schedule; None is RAP-GNN's U[0, 1], every call.
        seed: of the draws, where ``weights`` is None.
    """
    from torch_geometric.nn import MessagePassing

    weights = RandomWeights(seed=seed) if weights is None else weights
    if weights.structure != "diagonal":
        raise InputError(f"randomize draws diagonals where it can, so the structure cannot be {weights.structure!r}.")
    model = copy.deepcopy(module)
    outer = Randomized(model, weights)
    convolutions = [(n, m) for n, m in model.named_modules() if isinstance(m, MessagePassing)]
    if not convolutions:
        raise InputError(f"{type(module).__name__} has no message-passing layer to randomize.")
    seen: set[int] = set()
    for name, convolution in convolutions:
        for owner_name, owner in list(convolution.named_modules()):
            if id(owner) in seen:
                continue
            seen.add(id(owner))
            _replace_in(owner, ".".join(filter(None, (name, owner_name))), outer, weights)
    if not outer.summary:
        raise InputError(f"the convolutions of {type(module).__name__} have no linear map to draw.")
    for parameter in outer.parameters():
        parameter.requires_grad_(False)
    return outer


def _replace_in(owner: nn.Module, name: str, outer: Randomized, weights: RandomWeights) -> None:
    for child_name, child in list(owner.named_children()):
        weight = getattr(child, "weight", None)
        if not _is_linear(child) or not isinstance(weight, Tensor):
            continue
        full_name = f"{name}.{child_name}" if name else child_name
        if isinstance(weight, nn.parameter.UninitializedParameter):
            raise InputError(f"{full_name} has no size yet: call the model once before it is randomized.")
        drawn = RandomLinear(child, len(outer.summary), weights)
        if isinstance(owner, nn.Sequential | nn.ModuleList):
            owner[int(child_name)] = drawn
        else:
            setattr(owner, child_name, drawn)
        outer.summary[full_name] = _described(drawn.shape)
    if _is_linear(owner) or isinstance(owner, RandomLinear):
        return
    matrices = [n for n, p in owner.named_parameters(recurse=False) if p.dim() == 2 and min(p.shape) > 1]
    parameters = []
    for parameter_name in matrices:
        drawn_parameter = _DrawnParameter(owner, parameter_name, len(outer.summary), weights)
        parameters.append(drawn_parameter)
        outer.summary[f"{name}.{parameter_name}" if name else parameter_name] = _described(drawn_parameter.shape)
    if parameters:
        owner._rapgnn_drawn = parameters  # type: ignore[assignment]


def _is_linear(module: nn.Module) -> bool:
    from torch_geometric.nn.dense.linear import Linear

    return isinstance(module, nn.Linear | Linear)


def _described(shape: tuple[int, int]) -> str:
    return f"{shape[0]} × {shape[1]}, {'diagonal' if shape[0] == shape[1] else 'full'}, drawn in every call"
