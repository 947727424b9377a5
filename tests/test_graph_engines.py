"""GIN and GINE, pooling and jumping knowledge: the shortcut against the layer-by-layer engine on batches of graphs."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs import edge_lists, relative_error
from rapgnn import Propagation, RandomWeights
from rapgnn.graph.operator import GraphOperator, build_operator, distinct_rows
from rapgnn.propagation.polynomial import PolynomialFilter, expectation
from rapgnn.propagation.stepwise import pooled, propagate

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}


@st.composite
def batches(draw, max_graphs: int = 5):
    """(node counts, edge_index, edge_weight or None, edge codes): graphs without nodes or edges among them."""
    sizes, edges, weights, codes = [], [], [], []
    weighted = draw(st.booleans())
    for _ in range(draw(st.integers(1, max_graphs))):
        if draw(st.integers(0, 4)) == 0:
            sizes.append(0)
            continue
        n, edge_index, _ = draw(edge_lists(max_nodes=8, max_edges=12))
        edges.append(edge_index + sum(sizes))
        sizes.append(n)
    edge_index = torch.cat([torch.zeros(2, 0, dtype=torch.int64), *edges], dim=1)
    m = edge_index.shape[1]
    codes = draw(st.lists(st.integers(0, 2), min_size=m, max_size=m))
    if weighted:
        weights = draw(st.lists(st.floats(0.0, 2.0, width=32), min_size=m, max_size=m))
    return sizes, edge_index, torch.tensor(weights) if weighted else None, torch.tensor(codes, dtype=torch.int64)


def build(backbone, batch, dtype=torch.float64, eps=0.0, seed=0, channels=4):
    """(operator, h⁰, e), all non-negative."""
    sizes, edge_index, weight, codes = batch
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(sum(sizes), channels, generator=g, dtype=dtype)
    ptr = torch.tensor([0, *np.cumsum(sizes)])
    edge_attr = torch.eye(3, dtype=dtype)[codes] if backbone == "gine" else None
    operator = build_operator(x, edge_index, backbone, weight, edge_attr, ptr, eps=eps)
    e = None
    if operator.edges is not None:
        e = operator.edges.features @ torch.rand(3, channels, generator=g, dtype=dtype)
    return operator, x, e


def adapted(spec: Propagation, operator: GraphOperator) -> Propagation:
    return replace(spec, operator_scale=operator.growth_rate)


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("backbone", ["gin", "gine"])
@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    batch=batches(),
    num_layers=st.sampled_from([1, 2, 3, 5, 8, 16]),
    seed=st.integers(0, 2**40),
    how=st.sampled_from(["sum", "mean"]),
    jumping=st.sampled_from(["last", "cat"]),
    flags=st.tuples(st.booleans(), st.sampled_from([None, True]), st.sampled_from([0.0, 0.5, -1.0])),
    factors=st.integers(1, 3),
)
def test_shortcut_equals_layer_by_layer(backbone, dtype, batch, num_layers, seed, how, jumping, flags, factors):
    rescale, residual, eps = flags
    operator, h, e = build(backbone, batch, dtype, eps, seed % 1000)
    spec = Propagation(
        backbone,
        num_layers,
        RandomWeights(seed=seed),
        residual=residual,
        rescale=rescale,
        factors=factors,
        jumping=jumping,
        pooling=how,
    )
    spec = adapted(spec, operator)
    assert spec.obstacle(operator, h, e) is None
    kept = PolynomialFilter(spec, operator, h, e=e)
    drawn = kept.draw([11, 12])
    rows = torch.arange(operator.num_rows).flip(0)
    for position, counter in enumerate([11, 12]):
        reference = pooled(spec, operator, h, counter, e=e)
        assert torch.isfinite(reference).all()
        assert relative_error(drawn[position], reference) < TOLERANCE[dtype]
        one = kept.draw_batch(rows, kept.coefficients([counter])[0])
        assert relative_error(one, reference[rows]) < TOLERANCE[dtype]


@pytest.mark.parametrize("jumping", ["last", "cat"])
@settings(max_examples=30, deadline=None, derandomize=True)
@given(batch=batches(), num_layers=st.integers(1, 6), seed=st.integers(0, 1000))
def test_the_maximum_commutes_with_a_single_hop(jumping, batch, num_layers, seed):
    operator, h, _ = build("gin", batch, seed=seed)
    spec = Propagation("gin", num_layers, RandomWeights(seed=seed), jumping=jumping, pooling="max")
    spec = adapted(spec, operator)
    assert spec.obstacle(operator, h) is None
    drawn = PolynomialFilter(spec, operator, h).draw([3])[0]
    assert relative_error(drawn, pooled(spec, operator, h, 3)) < 1e-12


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


@pytest.mark.parametrize("backbone", ["gin", "gine"])
@pytest.mark.parametrize("jumping", ["last", "cat"])
def test_exact_moments_agree_with_20000_draws(backbone, jumping):
    g = torch.Generator().manual_seed(3)
    edges = torch.cat([torch.randint(0, 6, (2, 14), generator=g), torch.randint(6, 11, (2, 9), generator=g)], dim=1)
    codes = torch.randint(0, 3, (23,), generator=g)
    operator, h, e = build(backbone, ([6, 5], edges, None, codes), channels=3)
    spec = Propagation(backbone, 3, RandomWeights(seed=5, params=(0.2, 1.0)), factors=2, jumping=jumping)
    spec = adapted(spec, operator)
    kept = PolynomialFilter(spec, operator, h, e=e)
    drawn = kept.draw(range(20_000))
    torch.testing.assert_close(drawn.mean(0), kept.expectation(), rtol=0.03, atol=0)
    torch.testing.assert_close(drawn.std(0), kept.variance().sqrt(), rtol=0.04, atol=1e-12)
    torch.testing.assert_close(expectation(spec, operator, h, torch.tensor([1]), e), kept.expectation()[1:])
    # Covariances between the outputs of one channel, summed over the rows.
    outputs = len(spec.outputs)
    apart = (drawn - drawn.mean(0)).view(20_000, 2, outputs, 3)
    sampled = torch.einsum("trjd,trmd->djm", apart, apart) / 20_000
    torch.testing.assert_close(kept.scatter(torch.arange(2)), sampled, rtol=0.06, atol=1e-3 * float(sampled.max()))


@pytest.mark.parametrize("backbone", ["gin", "gine"])
def test_sixty_four_layers_neither_overflow_nor_vanish(backbone):
    star = torch.stack([torch.arange(1, 400), torch.zeros(399, dtype=torch.int64)])
    edges = torch.cat([star, star.flip(0)], dim=1)
    operator, h, e = build(backbone, ([400], edges, None, torch.zeros(798, dtype=torch.int64)), torch.float32)
    spec = adapted(Propagation(backbone, 64, RandomWeights(seed=1)), operator)
    reference = pooled(spec, operator, h * 1e6, 0, e=e)
    assert torch.isfinite(reference).all()
    assert float(reference.max()) > 1e-3
    assert relative_error(PolynomialFilter(spec, operator, h * 1e6, e=e).draw([0])[0], reference) < 1e-5


@settings(max_examples=40, deadline=None, derandomize=True)
@given(batch=batches(), seed=st.integers(0, 1000), data=st.data())
def test_graphs_taken_out_of_a_batch_keep_their_rows(batch, seed, data):
    """Any choice of graphs, in any order and repeated, gives the rows they have in the whole batch."""
    operator, h, e = build("gine", batch, seed=seed)
    chosen = torch.tensor(data.draw(st.lists(st.integers(0, len(batch[0]) - 1), max_size=6)), dtype=torch.int64)
    spec = adapted(Propagation("gine", 2, RandomWeights(seed=seed), jumping="cat"), operator)
    whole = pooled(spec, operator, h, 5, e=e)
    part, nodes = operator.select(chosen)
    alone = pooled(spec, part, h[nodes], 5, e=e)
    torch.testing.assert_close(alone, whole[chosen], rtol=1e-12, atol=0)


@pytest.mark.parametrize("how", ["sum", "mean", "max"])
def test_pooling_by_hand(how):
    h = torch.tensor([[1.0, -2.0], [3.0, -4.0], [5.0, 6.0]], dtype=torch.float64)
    operator, _, _ = build("gin", ([2, 0, 1], torch.zeros(2, 0, dtype=torch.int64), None, None))
    by_hand = {"sum": [[4.0, -6.0]], "mean": [[2.0, -3.0]], "max": [[3.0, -2.0]]}[how]
    assert operator.pool(h, how).tolist() == [*by_hand, [0.0, 0.0], [5.0, 6.0]]


@pytest.mark.parametrize("sparse", [False, True])
def test_distinct_rows(sparse):
    from rapgnn.sparse import SparseMatrix

    rows = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 0.0], [0.0, 0.0], [0.0, 2.0]])
    first, index = distinct_rows(SparseMatrix(rows.numpy()) if sparse else rows)
    assert len(first) == 3
    assert torch.equal(rows[first][index], rows)


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
