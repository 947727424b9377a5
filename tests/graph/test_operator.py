"""Operators made from edges: against scipy bit for bit, directions, degrees, loops, bounds, parts of a batch."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from operators import adapted, build
from rapgnn import Propagation
from rapgnn.graph import backbones as csr
from rapgnn.graph import build_operator
from rapgnn.graph.backbones import Backbone, adjacency, symmetric
from rapgnn.graph.operator import distinct_rows
from rapgnn.network.stepwise import pooled
from rapgnn.sparse import SparseMatrix
from strategies import batches


@settings(max_examples=40, deadline=None, derandomize=True)
@given(batch=batches(), seed=st.integers(0, 1000), data=st.data())
def test_graphs_taken_out_of_a_batch_keep_their_rows(batch, seed, data):
    """Any choice of graphs, in any order and repeated, gives the rows they have in the whole batch."""
    operator, h, e = build("gine", batch, seed=seed)
    chosen = torch.tensor(data.draw(st.lists(st.integers(0, len(batch[0]) - 1), max_size=6)), dtype=torch.int64)
    spec = adapted(Propagation("gine", 2, seed=seed, jumping="cat"), operator)
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
    rows = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 0.0], [0.0, 0.0], [0.0, 2.0]])
    first, index = distinct_rows(SparseMatrix(rows.numpy()) if sparse else rows)
    assert len(first) == 3
    assert torch.equal(rows[first][index], rows)


def test_undirected_graphs_match_pytorch_geometric():
    from torch_geometric.nn.conv.gcn_conv import gcn_norm
    from torch_geometric.utils import to_dense_adj

    edges = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 3], [1, 0, 2, 1, 3, 2, 3, 3]])
    weight = torch.tensor([2.0, 2.0, 0.5, 0.5, 1.0, 1.0, 3.0, 1.0])
    ours = symmetric(adjacency(edges, weight, 4)).toarray()
    index, value = gcn_norm(edges, weight, num_nodes=4, add_self_loops=False)
    theirs = to_dense_adj(index, edge_attr=value, max_num_nodes=4)[0].numpy()
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def by_scipy(backbone, n, edges, weight, self_loops=False, eps=0.0):
    """S by products and sums of scipy matrices, in double precision."""
    source, target = edges.numpy()
    values = np.ones(len(source)) if weight is None else weight.numpy().astype(np.float64)
    A = sp.csr_matrix((values, (target, source)), shape=(n, n))
    if self_loops:
        missing = np.ones(n)
        missing[source[source == target]] = 0.0
        A = sp.csr_matrix(A + sp.diags(missing))
    received, sent = (np.asarray(abs(A).sum(axis=axis)).ravel() for axis in (1, 0))
    if backbone == "gcn":
        return power(received, -0.5) @ A @ power(sent, -0.5)
    return power(received, -1.0) @ A if backbone == "sage" else A + (1.0 + eps) * sp.identity(n, format="csr")


def power(degree, exponent):
    out = np.zeros_like(degree)
    np.power(degree, exponent, out=out, where=degree > 0)
    return sp.diags(out)


def assert_same(ours, theirs):
    assert ours.shape == theirs.shape
    for name in ("crow", "col", "values"):
        assert getattr(ours, name).dtype == getattr(theirs, name).dtype
        assert torch.equal(getattr(ours, name).cpu(), getattr(theirs, name).cpu()), name


@st.composite
def graphs(draw, max_nodes=12, max_edges=60):
    """(n, edges, weight): loops, repeated edges, nodes without any, weights of both signs that can cancel."""
    n = draw(st.integers(1, max_nodes))
    node = st.integers(0, n - 1)
    pairs = draw(st.lists(st.tuples(node, node), max_size=max_edges))
    if draw(st.booleans()):
        pairs = pairs + [(v, u) for u, v in pairs]
    edges = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T
    some = draw(st.sampled_from([None, st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), st.floats(-4, 4, width=32)]))
    weight = None
    if some is not None:
        values = draw(st.lists(some, min_size=len(pairs), max_size=len(pairs)))
        weight = torch.tensor(values, dtype=draw(st.sampled_from([torch.float32, torch.float64])))
    return n, edges, weight


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    graph=graphs(),
    backbone=st.sampled_from(["gcn", "sage", "gin"]),
    self_loops=st.booleans(),
    eps=st.sampled_from([0.0, 0.3, -1.0]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    block=st.sampled_from([1, 5, 1 << 17]),
)
def test_operators_are_those_of_scipy_bit_for_bit(graph, backbone, self_loops, eps, dtype, block):
    n, edges, weight = graph
    expected = SparseMatrix(by_scipy(backbone, n, edges, weight, self_loops, eps), dtype=dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(csr.BLOCK, "cpu", block)
        made = build_operator(torch.zeros(n, 1, dtype=dtype), edges, backbone, weight, None, None, self_loops, eps)
    assert_same(made.matrix, expected)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(graph=graphs(), loops=st.sampled_from([{}, {"self_loops": True}]))
def test_sorted_keys_and_the_counting_sort_make_the_same_matrix(graph, loops):
    n, edges, weight = graph
    counted = csr.compress(edges, weight, n, **loops)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(csr.BLOCK, "cuda", 7)
        patch.setattr(csr, "_by_counting", lambda *given: csr._by_keys(*given, "cpu"))
        keyed = csr.compress(edges, weight, n, **loops)
    assert torch.equal(keyed.crow, counted.crow)
    assert torch.equal(keyed.col, counted.col)
    np.testing.assert_allclose(keyed.scipy().data, counted.scipy().data, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(keyed.sent().double(), counted.sent().double(), rtol=1e-12, atol=1e-12)


def test_degrees_of_a_layer_that_scales_and_adds_the_node_itself():
    """The node's own part is added after scaling: it counts in no degree."""
    edges, weight = torch.tensor([[0, 1, 2, 2], [1, 0, 2, 1]]), torch.tensor([1.0, -2.0, 3.0, 0.5])
    rule = Backbone(symmetric, terms=("neighbour",), residual=False, includes_self=True)
    for given_weight in (None, weight):
        made = rule.matrix(edges, given_weight, 4, eps=0.25, dtype=torch.float64)
        expected = by_scipy("gcn", 4, edges, given_weight) + 1.25 * sp.identity(4)
        np.testing.assert_array_equal(made.scipy().toarray(), expected.toarray())
        assert (rule.operator(adjacency(edges, given_weight, 4), 0.25) != made.scipy()).nnz == 0


def test_a_function_of_a_scipy_matrix_is_a_rule():
    edges = torch.tensor([[0, 1, 2], [1, 2, 2]])
    twice = Backbone(lambda A: 2 * A, terms=("neighbour",), residual=True)
    np.testing.assert_array_equal(
        twice.matrix(edges, None, 3, self_loops=True).scipy().toarray(), 2 * adjacency(edges, None, 3, True).toarray()
    )


@settings(max_examples=40, deadline=None, derandomize=True)
@given(graphs())
def test_edges_with_features_know_their_ends(graph):
    n, edges, weight = graph
    m = edges.shape[1]
    made = build_operator(torch.zeros(n, 1), edges, "gine", weight, torch.zeros(m, 1)).edges
    assert made is not None
    values = np.ones(m) if weight is None else weight.numpy()
    receiver = sp.csr_matrix((values, (edges[1].numpy(), np.arange(m))), shape=(n, m))
    sender = sp.csr_matrix((np.ones(m), (np.arange(m), edges[0].numpy())), shape=(m, n))
    assert_same(made.receiver, SparseMatrix(receiver))
    assert_same(made.sender, SparseMatrix(sender))


@gpu
@pytest.mark.parametrize("backbone", ["gcn", "sage", "gin"])
@pytest.mark.parametrize("self_loops", [False, True])
@pytest.mark.parametrize("kind", ["counts", "dyadic", "any"])
def test_a_gpu_makes_the_same_matrix(backbone, self_loops, kind):
    """The same places; the same numbers where sums are exact, nearly so elsewhere, and always the same again."""
    g = torch.Generator().manual_seed(1)
    n, m = 5000, 60_000
    edges = torch.randint(0, n - 50, (2, m), generator=g)
    edges = torch.cat([edges, edges[:, :500], edges[:, :500]], dim=1)
    weight = {
        "counts": None,
        "dyadic": torch.randint(-8, 8, (edges.shape[1],), generator=g) / 4,
        "any": torch.randn(edges.shape[1], generator=g),
    }[kind]
    x = torch.zeros(n, 1, dtype=torch.float64)
    on_cpu = build_operator(x, edges, backbone, weight, self_loops=self_loops, eps=0.1).matrix
    for index in (edges, edges.cuda(), edges.int()):
        made = [
            build_operator(x.cuda(), index, backbone, weight, self_loops=self_loops, eps=0.1).matrix for _ in range(2)
        ]
        assert made[0].device.type == "cuda"
        assert_same(*made)
        if kind == "any":
            torch.testing.assert_close(made[0].values.cpu(), on_cpu.values, rtol=1e-12, atol=1e-12)
        else:
            assert_same(made[0], on_cpu)


@gpu
def test_a_gpu_makes_edges_and_parts_of_sparse_features():
    g = torch.Generator().manual_seed(2)
    edges, weight = torch.randint(0, 40, (2, 300), generator=g), torch.rand(300, generator=g)
    kinds = torch.eye(3)[torch.randint(0, 3, (300,), generator=g)]
    ours = build_operator(torch.zeros(40, 1, device="cuda"), edges, "gine", weight, kinds.cuda()).edges
    theirs = build_operator(torch.zeros(40, 1), edges, "gine", weight, kinds).edges
    assert ours is not None
    assert theirs is not None
    assert_same(ours.receiver, theirs.receiver)
    assert_same(ours.sender, theirs.sender)
    matrix = theirs.receiver
    assert_same(matrix.to("cuda").T, matrix.T)
    for start, stop in ((0, 300), (0, 7), (7, 7), (250, 300)):
        assert torch.equal(matrix.to("cuda").columns(start, stop).cpu(), matrix.columns(start, stop))
