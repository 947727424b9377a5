"""The graph type: what it copies, where it lies, folds, wide tables; collections of graphs, every mistake named."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from rapgnn import InputError, make_graph, make_graphs
from rapgnn.graph.rows import make_folds
from rapgnn.graph.table import Column, Encoding, Numbers
from rapgnn.graph.validate import check_features
from rapgnn.sparse import SparseMatrix, dense


def test_the_callers_matrix_is_left_alone():
    data = np.array([1.0, 2.0, 3.0], dtype=np.float32)
    x = sp.csr_matrix((data, np.array([2, 0, 1]), np.array([0, 2, 3, 3])), shape=(3, 9))
    before = x.toarray().copy(), x.indices.copy()
    graph = make_graph(x, np.zeros((2, 0), dtype=int), [0, 1, 0], [0, 1], [], [2])
    np.testing.assert_array_equal(x.toarray(), before[0])
    np.testing.assert_array_equal(x.indices, before[1])
    x.data[:] = 7
    np.testing.assert_array_equal(graph.x.columns(0, 9).numpy(), before[0])


def test_another_feature_makes_another_fingerprint(molecules):
    other = replace(molecules, x=molecules.x.with_values(molecules.x.values * 2))
    kinds = replace(molecules, edge_attr=molecules.edge_attr.with_values(molecules.edge_attr.values * 2))
    assert len({g.fingerprint() for g in (molecules, other, kinds)}) == 3


@pytest.mark.parametrize("many", [False, True])
def test_a_graph_on_another_device_keeps_its_edges_on_the_cpu(many, small_graph, molecules):
    """The device that has no memory stands for any that is not the CPU."""
    graph = molecules if many else replace(small_graph, edge_weight=torch.ones(small_graph.edge_index.shape[1]))
    moved = graph.to("meta")
    for name in ("x", "y", "train", "val", "test", "ptr", "edge_attr"):
        before, after = getattr(graph, name), getattr(moved, name)
        assert (after is None) == (before is None)
        if after is not None:
            assert after.device.type == "meta"
            assert tuple(after.shape) == tuple(before.shape)
            assert before.device.type == "cpu"  # the graph itself stays where it was
    assert moved.edge_index is graph.edge_index
    assert moved.edge_weight is graph.edge_weight
    assert (moved.name, moved.task, moved.num_outputs) == (graph.name, graph.task, graph.num_outputs)
    assert (moved.num_rows, moved.num_nodes) == (graph.num_rows, graph.num_nodes)


def test_normalised_features_sum_to_one_and_zeros_stay():
    edges = torch.zeros(2, 0, dtype=torch.int64)
    x = np.array([[1.0, -3.0], [0.0, 0.0], [2.0, 2.0]])
    by_hand = [[0.25, -0.75], [0.0, 0.0], [0.5, 0.5]]
    for sparse in (False, True):
        graph = make_graph(x, edges, [0, 1, 0], [0, 1], [], [2], sparse=sparse).normalized_features()
        np.testing.assert_allclose(dense(graph.x).numpy(), by_hand)


def test_sparse_features_are_normalised_as_scipy_does_it_bit_for_bit():
    """Sums in single precision, of magnitudes; zeros that are stored go."""
    rng = np.random.default_rng(5)
    x = sp.random(200, 90, density=0.3, format="csr", random_state=5, dtype=np.float32)
    x.data[:] = rng.standard_normal(x.nnz)
    x.data[::7] = 0
    rows = np.arange(200)
    graph = make_graph(x, np.zeros((2, 0), dtype=int), rows % 2, rows[:100], [], rows[100:], sparse=True)
    total = np.asarray(abs(graph.x.scipy()).sum(axis=1)).ravel()
    total[total == 0] = 1.0
    expected = SparseMatrix(sp.diags(1.0 / total) @ graph.x.scipy())
    found = graph.normalized_features().x
    for name in ("crow", "col", "values"):
        assert torch.equal(getattr(found, name), getattr(expected, name))


def test_folds_are_stratified_and_cover_everything(molecules):
    folds = make_folds(molecules, 0)
    assert sorted(torch.cat(folds).tolist()) == list(range(120))
    for fold in folds:
        assert abs(float(molecules.y[fold].double().mean()) - float(molecules.y.double().mean())) < 0.1
    assert not all(torch.equal(a, b) for a, b in zip(folds, make_folds(molecules, 1), strict=True))


GAPS = [[1.0, np.nan], [0.0, np.nan], [1.0, 1.0]]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sizes": [3, 4]}, "add up to the 6 nodes"),
        ({"edge_index": [[0, 2], [1, 3]]}, r"\(2, 3\) joins two different graphs"),
        ({"y": [0, 1, 1]}, "2 graphs but labels"),
        ({"y": [0.5, 1.5]}, "regression targets"),
        ({"train": [0, 5]}, "must name graphs 0 to 1"),
        ({"edge_attr": np.ones((3, 1))}, "2 edges but edge features"),
        ({"task": "ranking"}, "task 'ranking' is unknown"),
        ({"y": [np.inf, 1.0], "task": "regression"}, "infinite"),
        ({"y": [[0.0], [2.0]], "task": "multilabel"}, "only 0, 1 and NaN"),
        ({"y": GAPS, "task": "multilabel", "sizes": [3, 2, 1], "val": [2]}, "label 1 is unknown"),
        ({"y": [1e39, 1.0], "task": "regression"}, "too large"),
        ({"train": 5}, "train split"),
        ({"y": np.zeros((2, 2, 2)), "task": "multilabel"}, "labels of shape"),
    ],
)
def test_bad_graph_collections_are_refused(changes, words):
    given_ = {"x": np.ones((6, 2)), "edge_index": [[0, 3], [1, 4]], "sizes": [3, 3], "y": [0, 1]}
    given_ |= {"train": [0, 1], "val": [], "test": []} | changes
    with pytest.raises(InputError, match=words):
        make_graphs(**given_)


def table(density: float = 0.1) -> np.ndarray:
    return 9 * sp.random(40, 13, density=density, random_state=0, format="csr").toarray()


@pytest.mark.parametrize("kind", [np.float32, np.int64, np.bool_])
def test_tables_of_zeros_are_kept_sparse(kind):
    x = table().astype(kind).T
    features = check_features(x)
    assert isinstance(features, SparseMatrix)
    np.testing.assert_array_equal(features.scipy().toarray(), x.astype(np.float32))
    assert not isinstance(check_features(table(density=0.6)), SparseMatrix)


@pytest.mark.parametrize("at_once", [50, 1 << 23])
def test_columns_of_different_size_are_scaled_whole_or_in_parts(at_once, monkeypatch):
    x = table()
    assert Encoding.for_array(x) is None
    x[:, 2] *= 1e4
    encoding = Encoding.for_array(x)
    monkeypatch.setattr("rapgnn.graph.table.AT_ONCE", at_once)
    parts = Encoding.for_array(x)
    assert encoding is not None
    assert parts is not None
    np.testing.assert_allclose(encoding.encode_array(x), (x - x.mean(0)) / x.std(0), atol=1e-5)
    np.testing.assert_allclose(encoding.encode_array(x), parts.encode_array(x), atol=1e-6)


def test_columns_of_numbers_are_learned_in_blocks_as_at_once():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(1e3, 5, 50), rng.random(50), np.arange(50.0), np.full(50, np.nan)])
    x[rng.random(50) < 0.3, 0] = np.nan
    whole, parts = Numbers(4), Numbers(4)
    whole.add(x)
    for block in np.split(x, [0, 7, 8, 31]):
        parts.add(block)
    height = whole.column(0, "height")
    assert (height.shift, height.scale) == pytest.approx((np.nanmean(x[:, 0]), np.nanstd(x[:, 0])))
    again = parts.column(0, "height")
    assert (again.shift, again.scale) == pytest.approx((height.shift, height.scale), rel=1e-12)
    for numbers in (whole, parts):
        assert numbers.column(1, "share") == Column("share")
        assert numbers.column(2, "row") == "it numbers the rows"
        assert numbers.column(3, "nothing") == "it is empty"
