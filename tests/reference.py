"""The random layers straight from their equation, dense and node by node: what every engine must agree with."""

from collections.abc import Callable

import torch
from torch import Tensor

from rapgnn import Propagation
from rapgnn.propagation.spec import ACTIVATIONS


def layers(
    spec: Propagation, receive: Callable[[Tensor], Tensor], h: Tensor, drawn: dict[str, Tensor], further: list[Tensor]
) -> list[Tensor]:
    """h⁰ … h^L with h ← s·h + σ(a ⊙ h + b ⊙ (S h)), further weights one after another, divided by the growth."""
    sigma, every = ACTIVATIONS[spec.activation], [h]
    for layer in range(spec.num_layers):
        z = weigh(receive(h), drawn["neighbour"][layer])
        if "root" in drawn:
            z = weigh(h, drawn["root"][layer]) + z
        z = sigma(z)
        for weights in further:
            z = sigma(weigh(z, weights[layer]))
        h = spec.skip * h + z
        every.append(h)
    return [h / spec.growth(h.shape[1]) ** layer for layer, h in enumerate(every)]


def weigh(h: Tensor, w: Tensor) -> Tensor:
    """h diag(w), or h w for a full matrix."""
    return h @ w if w.dim() == 2 else h * w


def at_draw(spec: Propagation, counter: int, h: Tensor) -> tuple[dict[str, Tensor], list[Tensor]]:
    """The weights of one draw."""
    drawn = spec.draw(counter, h.shape[1], dtype=h.dtype)
    further = spec.further_factors(counter, h.shape[1], dtype=h.dtype)
    return {term: weights[0] for term, weights in drawn.items()}, [weights[0] for weights in further]


def at_mean(spec: Propagation, h: Tensor) -> tuple[dict[str, Tensor], list[Tensor]]:
    """Every weight at its mean."""
    mean = torch.full((spec.num_layers, h.shape[1]), spec.weights.mean, dtype=h.dtype)
    return dict.fromkeys(spec.rule.terms, mean), [mean] * (spec.factors - 1)


def dense_operator(backbone: str, n: int, edges: Tensor, weight: Tensor, self_loops: bool, eps: float) -> Tensor:
    """S ``[n, n]``, an edge (u, v) in row v and column u."""
    A = torch.zeros(n, n, dtype=torch.float64)
    for (u, v), w in zip(edges.T.tolist(), weight.tolist(), strict=True):
        A[v, u] += w
    if self_loops:
        A += torch.diag((~torch.isin(torch.arange(n), edges[0][edges[0] == edges[1]])).double())
    received, sent = A.abs().sum(1), A.abs().sum(0)
    if backbone == "gcn":
        return _power(received, -0.5)[:, None] * A * _power(sent, -0.5)
    return _power(received, -1.0)[:, None] * A if backbone == "sage" else (1 + eps) * torch.eye(n) + A


def _power(degree: Tensor, exponent: float) -> Tensor:
    return torch.where(degree > 0, degree.clamp(min=torch.finfo(degree.dtype).tiny) ** exponent, 0.0)


def gine_messages(h: Tensor, edges: Tensor, weight: Tensor, e: Tensor, eps: float) -> Tensor:
    """(1 + ε) h_v + Σ_u w_uv ReLU(h_u + e_uv), one edge after another."""
    z = [(1 + eps) * row for row in h]
    for i, (u, v) in enumerate(edges.T.tolist()):
        z[v] = z[v] + weight[i] * torch.relu(h[u] + e[i])
    return torch.stack(z)
