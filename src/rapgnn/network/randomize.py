"""Any PyTorch Geometric message-passing model as a random-weight one: drawn matrices inside its convolutions."""

import copy
import math
from collections.abc import Iterator
from typing import Any

import torch
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
        self._drawn: list[tuple[nn.Module, str]] = []  # who holds each matrix, and under which name

    def take(self, path: str, owner: nn.Module, name: str) -> None:
        """Draw a matrix that was a parameter; what it is called is its path."""
        value: Tensor = getattr(owner, name)
        if isinstance(value, nn.parameter.UninitializedParameter):
            raise InputError(f"{path} has no size yet: call the model once before it is randomized.")
        a, b = value.shape
        delattr(owner, name)
        owner.register_buffer(name, value.detach().clone())
        self._drawn.append((owner, name))
        self.summary[path] = f"{a} × {b}, {'diagonal' if a == b else 'full'}, drawn in every call"

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Draw the next weights and call the model."""
        step = int(self.draw_counter)
        for stream, (owner, name) in enumerate(self._drawn):
            setattr(owner, name, self._draw(self.weights.counter(step, step), stream, getattr(owner, name)))
        self.draw_counter += 1
        return self.module(*args, **kwargs)

    def _draw(self, counter: int, stream: int, like: Tensor) -> Tensor:
        """A matrix: diagonal where it is square, full otherwise."""
        a, b = like.shape
        at, key = (torch.tensor([value], device=like.device) for value in (counter, stream))
        words = random_words(int(self.seed), at, key, a if a == b else a * b)[0, 0]
        if a == b:
            return torch.diag(
                DISTRIBUTIONS[self.weights.distribution].sample(words, *self.weights.params).to(like.dtype)
            )
        # A full matrix of non-negative entries has rank one on average: this one is centred, in Glorot's range.
        bound = math.sqrt(6.0 / (a + b))
        return DISTRIBUTIONS["uniform"].sample(words, -bound, bound).to(like.dtype).view(a, b)

    def __repr__(self) -> str:
        lines = [f"  ({name}): {what}" for name, what in self.summary.items()]
        return "\n".join([f"Randomized({type(self.module).__name__}, seed={int(self.seed)}", *lines, ")"])


def randomize(module: nn.Module, weights: RandomWeights | None = None, *, seed: int = 0) -> Randomized:
    """A copy of a message-passing model whose convolutions have random weights, drawn anew in every call.

    Inside every convolution (a ``torch_geometric.nn.MessagePassing``) the matrices of linear maps, and those held as
    bare parameters, are drawn: a diagonal of ``weights`` where they are square, a full centred matrix otherwise.
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
        for inner, owner in convolution.named_modules():
            if id(owner) not in seen:
                seen.add(id(owner))
                for path, holder, matrix in list(_matrices(owner, ".".join(filter(None, (name, inner))))):
                    outer.take(path, holder, matrix)
    if not outer.summary:
        raise InputError(f"the convolutions of {type(module).__name__} have no linear map to draw.")
    for parameter in outer.parameters():
        parameter.requires_grad_(False)
    return outer


def _matrices(owner: nn.Module, path: str) -> Iterator[tuple[str, nn.Module, str]]:
    """(path, who holds it, its name) of the linear maps right below a module, and of its own matrices."""
    from torch_geometric.nn.dense.linear import Linear

    linear = (nn.Linear, Linear)
    for name, child in owner.named_children():
        if isinstance(child, linear) and isinstance(child.weight, nn.Parameter):
            yield ".".join(filter(None, (path, name))), child, "weight"
    for name, own in owner.named_parameters(recurse=False) if not isinstance(owner, linear) else ():
        if own.dim() == 2 and min(own.shape) > 1:
            yield ".".join(filter(None, (path, name))), owner, name
