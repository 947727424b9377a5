"""Layer by layer: written out by hand, against PyTorch Geometric, and its symmetries."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from operators import PLAIN, build, features, operator
from rapgnn import Propagation, RandomWeights
from rapgnn.propagation.polynomial import PolynomialFilter
from rapgnn.propagation.stepwise import propagate
from strategies import edge_lists


@settings(max_examples=20, deadline=None, derandomize=True)
@given(graph=edge_lists(), seed=st.integers(0, 1000))
def test_permuting_nodes_permutes_the_output(graph, seed):
    n, edge_index, weight = graph
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    place = torch.argsort(order)  # node v becomes number place[v]
    spec, h = Propagation("sage", 3, RandomWeights(seed=seed)), features(n, 4, seed)
    out = propagate(spec, operator("sage", graph), h, 5)
    moved = propagate(spec, operator("sage", (n, place[edge_index], weight)), h[order], 5)
    torch.testing.assert_close(moved, out[order], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("backbone", PLAIN)
def test_sixty_four_layers_neither_overflow_nor_vanish(backbone):
    star = torch.stack([torch.arange(1, 400), torch.zeros(399, dtype=torch.int64)])
    graph = (400, torch.cat([star, star.flip(0)], dim=1), None)
    S, h = operator(backbone, graph, dtype=torch.float32), features(400, 8, 0, torch.float32) * 1e6
    for structure in ("diagonal", "full"):
        spec = Propagation(backbone, 64, RandomWeights(structure, seed=1))
        out = propagate(spec, S, h, 0)
        assert torch.isfinite(out).all()
        assert float(out.abs().max()) > 1e-3


def test_one_node_and_no_edges():
    none = torch.zeros(2, 0, dtype=torch.int64)
    spec, h = Propagation("gcn", 3, rescale=False), torch.tensor([[2.0, 5.0]], dtype=torch.float64)
    S = operator("gcn", (1, none, None))
    assert torch.equal(propagate(spec, S, h, 0), h)  # the residual alone is left
    assert torch.equal(PolynomialFilter(spec, S, h).draw([0])[0], h)


def test_the_paper_equation_by_hand():
    """h ← h + ReLU(D^-½ A D^-½ h diag(α)), written out densely."""
    edges = torch.tensor([[0, 1, 1, 2, 2, 3, 0, 3], [1, 0, 2, 1, 3, 2, 3, 0]])
    spec, h = Propagation("gcn", 2, RandomWeights(seed=9), rescale=False), features(4, 3, 0)
    A = torch.zeros(4, 4, dtype=torch.float64)
    A[edges[1], edges[0]] = 1
    scale = torch.diag(A.sum(1) ** -0.5)
    by_hand = h
    for layer in range(2):
        alpha = spec.weights.draw(6, [layer], 3, dtype=torch.float64)[0, 0]
        by_hand = by_hand + torch.relu(scale @ A @ scale @ by_hand @ torch.diag(alpha))
    torch.testing.assert_close(propagate(spec, operator("gcn", (4, edges, None)), h, 6), by_hand)


def test_every_layer_ends_in_the_output():
    edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    spec, S, h = Propagation("sage", 4), operator("sage", (3, edges, None)), features(3, 2, 0)
    layers = propagate(spec, S, h, 2, every_layer=True)
    assert layers.shape == (5, 3, 2)
    assert torch.equal(layers[0], h)
    assert torch.equal(layers[-1], propagate(spec, S, h, 2))


def test_gradients_flow_layer_by_layer():
    edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    S, h = operator("gcn", (3, edges, None)), features(3, 2, 0).requires_grad_()
    spec = Propagation("gcn", 3, RandomWeights(seed=1))
    assert torch.autograd.gradcheck(lambda t: propagate(spec, S, t, 0), (h,))


@pytest.mark.parametrize("full", [False, True])
def test_gine_by_hand(full):
    """h ← ReLU(ReLU(((1 + ε) h_v + Σ_u w_uv ReLU(h_u + e_uv)) · w₁) · w₂), written out edge by edge, signs and all."""
    edges = torch.tensor([[0, 1, 2, 0, 0], [1, 0, 1, 1, 0]])  # a duplicate and a self-loop
    weight = torch.tensor([1.0, 2.0, 0.5, 1.0, 3.0])
    codes = torch.tensor([0, 1, 2, 1, 0])
    operator, h, e = build("gine", ([3], edges, weight, codes), eps=0.25)
    h, e = h - 0.5, e - 0.5
    weights = RandomWeights("full" if full else "diagonal", seed=4)
    spec = Propagation("gine", 2, weights, rescale=False, factors=2)
    per_edge = e[operator.edges.kind]
    by_hand = h
    for layer in range(2):
        z = 1.25 * by_hand
        for i, (u, v) in enumerate(edges.T.tolist()):
            z[v] = z[v] + weight[i] * torch.relu(by_hand[u] + per_edge[i])
        for slot in range(2):
            w = weights.draw(6, [layer], 4, slot, dtype=torch.float64)[0, 0]
            z = torch.relu(z @ w if full else z * w)
        by_hand = z
    torch.testing.assert_close(propagate(spec, operator, h, 6, e=e), by_hand)


def test_gin_and_gine_match_pytorch_geometric():
    """With the weights at one, a layer is PyG's convolution with the identity as its network."""
    from torch_geometric.nn import GINConv, GINEConv

    g = torch.Generator().manual_seed(0)
    edges = torch.randint(0, 7, (2, 20), generator=g)
    codes = torch.randint(0, 3, (20,), generator=g)
    identity = torch.nn.Identity()
    identity.in_channels = 4  # GINEConv asks its network for its width
    for backbone in ("gin", "gine"):
        operator, h, e = build(backbone, ([7], edges, None, codes), eps=0.3)
        spec = Propagation(backbone, 1, RandomWeights("identity"), activation="identity", rescale=False)
        ours = propagate(spec, operator, h, 0, e=e)
        if backbone == "gin":
            theirs = GINConv(identity, eps=0.3)(h, edges)
        else:
            theirs = GINEConv(identity, eps=0.3)(h, edges, e[operator.edges.kind])
        torch.testing.assert_close(ours, theirs)
