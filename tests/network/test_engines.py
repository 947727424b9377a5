"""Every engine against the equation: layer by layer, the shortcut's draws, its batches, its expectation."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from operators import features, relative_error
from rapgnn import Propagation, RandomWeights
from rapgnn.graph.backbones import BACKBONES
from rapgnn.graph.operator import GraphOperator, build_operator
from rapgnn.network.mlp import ACTIVATIONS
from rapgnn.network.polynomial import PolynomialFilter
from rapgnn.network.stepwise import propagate
from strategies import edge_lists


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
    drawn = spec.draw_all(counter, h.shape[1], dtype=h.dtype)
    further = [weights for name, weights in drawn.items() if name not in spec.rule.terms]
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


CLOSE = 1e-11
ONE_NODE = (1, torch.zeros(2, 0, dtype=torch.int64), None)
ISOLATED = (5, torch.tensor([[0, 1], [1, 0]]), None)  # nodes 2, 3 and 4
LOOPS = (3, torch.tensor([[0, 1, 1, 2], [0, 1, 1, 0]]), None)
DUPLICATES = (3, torch.tensor([[0, 0, 0, 1], [1, 1, 1, 2]]), torch.tensor([1.0, 2.0, 0.5, 1.0]))
DIRECTED = (4, torch.tensor([[0, 0, 1, 2], [1, 2, 3, 3]]), None)
NO_EDGES = (4, torch.zeros(2, 0, dtype=torch.int64), None)


def graphs(test):
    """Random edge lists, and those that every run must have seen."""
    for graph in (ONE_NODE, ISOLATED, LOOPS, DUPLICATES, DIRECTED, NO_EDGES):
        test = example(graph=graph, num_layers=3, seed=1, pick=1)(test)
    given_any = given(
        graph=edge_lists(max_nodes=12, max_edges=30),
        num_layers=st.sampled_from([1, 2, 3, 5, 9]),
        seed=st.integers(0, 2**20),
        pick=st.integers(0, 2**20),
    )
    return settings(max_examples=30, deadline=None, derandomize=True)(given_any(test))


@dataclass
class Case:
    """One graph as the engines see it and as the equation does."""

    spec: Propagation
    operator: GraphOperator
    h: Tensor
    e: Tensor | None
    receive: partial[Tensor]

    def reference(self, counter: int, h: Tensor | None = None) -> list[Tensor]:
        h = self.h if h is None else h
        return layers(self.spec, self.receive, h, *at_draw(self.spec, counter, h))


def make(backbone: str, graph: tuple, num_layers: int, seed: int, pick: int, *, signed: bool, **spec) -> Case:
    """A case whose other settings follow from ``pick``."""
    n, edges, weight = graph
    own, d = BACKBONES[backbone].includes_self, 4
    self_loops, eps = bool(pick % 2) and not own, (0.0, 0.5, -1.0)[pick % 3] if own else 0.0
    shift = 0.5 if signed else 0.0
    h = features(n, d, seed) - shift
    codes = torch.randint(0, 3, (edges.shape[1],), generator=torch.Generator().manual_seed(seed))
    kinds, table = torch.eye(3, dtype=torch.float64)[codes], features(3, d, seed + 1) - shift
    operator = build_operator(h, edges, backbone, weight, kinds, None, self_loops, eps)
    weight = torch.ones(edges.shape[1], dtype=torch.float64) if weight is None else weight.double()
    if BACKBONES[backbone].edges:
        e = operator.edges.features @ table
        receive = partial(gine_messages, edges=edges, weight=weight, e=kinds @ table, eps=eps)
    else:
        e, receive = None, partial(torch.matmul, dense_operator(backbone, n, edges, weight, self_loops, eps))
    settings = {"residual": (None, True, False)[pick // 3 % 3], "rescale": bool(pick // 9 % 2)}
    settings |= {"factors": 1 + pick // 18 % 3 if len(BACKBONES[backbone].terms) == 1 else 1} | spec
    weights = settings.pop("weights", RandomWeights(seed=seed))
    layered = Propagation(backbone, num_layers, **vars(weights), **settings)
    return Case(replace(layered, operator_scale=operator.growth_rate if own else 1.0), operator, h, e, receive)


def agree(ours: Tensor, equation: Tensor) -> None:
    assert torch.isfinite(equation).all()
    assert relative_error(ours, equation) < CLOSE


@pytest.mark.parametrize("structure", ["diagonal", "full", "identity"])
@pytest.mark.parametrize("backbone", BACKBONES)
@graphs
def test_layer_by_layer_is_the_equation(backbone, structure, graph, num_layers, seed, pick):
    """Signs, activations and structures of all kinds, every layer, with gradients and without."""
    weights = RandomWeights(structure, distribution=("uniform", "normal")[pick // 5 % 2], params=(0.1, 1.0), seed=seed)
    activation = list(ACTIVATIONS)[pick % len(ACTIVATIONS)]
    case = make(backbone, graph, num_layers, seed, pick, signed=True, weights=weights, activation=activation)
    every = propagate(case.spec, case.operator, case.h, 11, e=case.e, every_layer=True)
    assert len(every) == num_layers + 1
    for ours, equation in zip(every, case.reference(11), strict=True):
        agree(ours, equation)
    a, b = (case.h.clone().requires_grad_() for _ in range(2))
    followed = propagate(case.spec, case.operator, a, 11, e=case.e)
    agree(followed.detach(), every[-1])
    followed.square().sum().backward()
    case.reference(11, b)[-1].square().sum().backward()
    agree(a.grad, b.grad)


@pytest.mark.parametrize("jumping", ["last", "cat"])
@pytest.mark.parametrize("backbone", BACKBONES)
@graphs
def test_every_draw_of_the_shortcut_is_the_equation(backbone, jumping, graph, num_layers, seed, pick):
    case = make(backbone, graph, num_layers, seed, pick, signed=False, jumping=jumping)
    assert case.spec.obstacle(case.operator, case.h, case.e) is None
    kept = PolynomialFilter(case.spec, case.operator, case.h, e=case.e)
    drawn = kept.draw([11, 12])
    some = torch.arange(graph[0]).flip(0)[: 1 + pick % 4]
    for position, counter in enumerate((11, 12)):
        every = case.reference(counter)
        equation = torch.cat(every, dim=1) if jumping == "cat" else every[-1]
        agree(drawn[position], equation)
        agree(kept.draw_batch(some, kept.coefficients([counter])[0]), equation[some])


@pytest.mark.parametrize("jumping", ["last", "cat"])
@pytest.mark.parametrize("backbone", BACKBONES)
@graphs
def test_the_expectation_is_the_equation_with_weights_at_their_mean(backbone, jumping, graph, num_layers, seed, pick):
    case = make(backbone, graph, num_layers, seed, pick, signed=False, jumping=jumping)
    every = layers(case.spec, case.receive, case.h, *at_mean(case.spec, case.h))
    equation = torch.cat(every, dim=1) if jumping == "cat" else every[-1]
    some = torch.arange(graph[0]).flip(0)[: 1 + pick % 4]
    kept = PolynomialFilter(case.spec, case.operator, case.h, expect=some, e=case.e)
    agree(kept.expectation(), equation)
    agree(kept.expected, equation[some])


@pytest.mark.parametrize("backbone", [name for name, rule in BACKBONES.items() if not rule.edges])
@graphs
def test_linear_layers_with_weights_of_any_sign_have_draws_and_expectation_too(backbone, graph, num_layers, seed, pick):
    weights = RandomWeights(distribution="normal", params=(0.25, 1.0), seed=seed)
    case = make(backbone, graph, num_layers, seed, pick, signed=True, weights=weights, activation="identity")
    assert case.spec.obstacle(case.operator, case.h) is None
    equation = layers(case.spec, case.receive, case.h, *at_mean(case.spec, case.h))[-1]
    size = layers(case.spec, case.receive, case.h.abs(), *at_mean(case.spec, case.h))[-1]
    stored = PolynomialFilter(case.spec, case.operator, case.h)
    assert float((stored.expectation() - equation).norm()) <= CLOSE * max(1e-300, float(size.norm()))  # terms cancel
    drawn, further = at_draw(case.spec, 1, case.h)
    drawn, further = {term: w.abs() for term, w in drawn.items()}, [w.abs() for w in further]
    largest = layers(case.spec, case.receive, case.h.abs(), drawn, further)[-1]
    apart = stored.draw([1])[0] - case.reference(1)[-1]
    assert float(apart.norm()) <= CLOSE * max(1e-300, float(largest.norm()))
