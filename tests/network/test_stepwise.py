"""Layer by layer: against PyTorch Geometric, its symmetries; and when the shortcut is exact, every obstacle named."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from operators import build, features, operator, relative_error
from rapgnn import Propagation
from rapgnn.graph.operator import build_operator
from rapgnn.network.polynomial import PolynomialFilter
from rapgnn.network.stepwise import pooled, propagate
from strategies import edge_lists


@settings(max_examples=20, deadline=None, derandomize=True)
@given(graph=edge_lists(), seed=st.integers(0, 1000))
def test_permuting_nodes_permutes_the_output(graph, seed):
    n, edge_index, weight = graph
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    place = torch.argsort(order)  # node v becomes number place[v]
    spec, h = Propagation("sage", 3, seed=seed), features(n, 4, seed)
    out = propagate(spec, operator("sage", graph), h, 5)
    moved = propagate(spec, operator("sage", (n, place[edge_index], weight)), h[order], 5)
    torch.testing.assert_close(moved, out[order], rtol=1e-12, atol=1e-14)


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
        spec = Propagation(backbone, 1, structure="identity", activation="identity", rescale=False)
        ours = propagate(spec, operator, h, 0, e=e)
        if backbone == "gin":
            theirs = GINConv(identity, eps=0.3)(h, edges)
        else:
            theirs = GINEConv(identity, eps=0.3)(h, edges, e[operator.edges.kind])
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"structure": "full"}, "full"),
        ({"params": (-0.5, 1.0)}, "negative"),
        ({"distribution": "normal"}, "negative"),
        ({"layer_dropout": 0.5}, "dropout"),
        ({"activation": "tanh"}, "tanh"),
    ],
)
def test_every_obstacle_is_named(change, words):
    S, h = operator("gcn", (3, torch.tensor([[0, 1], [1, 2]]), None)), torch.ones(3, 2, dtype=torch.float64)
    assert words in (Propagation(**change).obstacle(S, h) or "")


def test_signed_features_and_edges_are_obstacles_and_matter():
    graph = (4, torch.tensor([[0, 1, 2, 3, 1], [1, 0, 1, 2, 3]]), None)
    S, h = operator("gcn", graph), features(4, 3, 0) - 0.5
    spec = Propagation("gcn", 3, seed=1)
    assert "negative entries" in (spec.obstacle(S, h) or "")
    # If the shortcut were used all the same, the answer would be another one.
    assert relative_error(PolynomialFilter(spec, S, h).draw([0])[0], propagate(spec, S, h, 0)) > 1e-3
    signed = operator("gcn", (4, graph[1], torch.tensor([1.0, -1.0, 1.0, 1.0, 1.0])))
    assert "negative edge weights" in (spec.obstacle(signed, h.abs()) or "")


@pytest.mark.parametrize(("backbone", "residual"), [("gine", None), ("gin", True)])
def test_the_maximum_is_an_obstacle_elsewhere(backbone, residual):
    batch = ([3, 0], torch.tensor([[0, 1], [1, 2]]), None, torch.tensor([0, 1]))
    operator, h, e = build(backbone, batch)
    spec = Propagation(backbone, 2, residual=residual, pooling="max")
    assert "maximum" in (spec.obstacle(operator, h, e) or "")


def test_signed_edge_embeddings_are_an_obstacle_and_matter():
    batch = ([4], torch.tensor([[0, 1, 2, 3, 1], [1, 0, 1, 2, 3]]), None, torch.tensor([0, 1, 2, 0, 1]))
    operator, h, e = build("gine", batch)
    spec = Propagation("gine", 3)
    e = e - 1.5
    assert "edge features" in (spec.obstacle(operator, h, e) or "")
    wrong = PolynomialFilter(spec, operator, h, e=e).draw([0])[0]
    assert relative_error(wrong, pooled(spec, operator, h, 0, e=e)) > 1e-3


def test_negative_weights_on_parallel_edges_are_an_obstacle():
    """The operator's sum is positive, the messages of the single edges are not."""

    x, e = torch.ones(2, 3), torch.ones(2, 3)
    edges, weight = torch.tensor([[0, 0], [1, 1]]), torch.tensor([2.0, -1.0])
    operator = build_operator(x, edges, "gine", weight, torch.eye(2))
    assert operator.matrix.nonnegative
    assert "negative edge weights" in (Propagation("gine", 2).obstacle(operator, x, e) or "")
