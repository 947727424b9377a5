"""What is done to features before they are propagated, and channels that are standardised."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.feature_extraction.text import TfidfTransformer

from rapgnn.network.encode import DEGREE_COLUMNS, SCALINGS, FeatureScaling, Standard, degree_columns
from rapgnn.sparse import SparseMatrix, dense


def words(seed=0, rows=60, columns=25):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(0.4, (rows, columns)).astype(np.float32)
    counts[3] = 0
    return counts


def scaled(kind, x, components=0):
    scaling = FeatureScaling(kind, x.shape[1], components)
    scaling.fit(x)
    return scaling(x)


@pytest.mark.parametrize("kind", SCALINGS)
def test_sparse_features_are_scaled_as_dense_ones(kind):
    x = words()
    flat = scaled(kind, torch.from_numpy(x))
    sparse = scaled(kind, SparseMatrix(sp.csr_matrix(x)))
    torch.testing.assert_close(dense(sparse), flat)


def test_tfidf_is_scikit_learns():
    x = words()
    expected = TfidfTransformer().fit_transform(x).toarray()
    np.testing.assert_allclose(scaled("tfidf", torch.from_numpy(x)).numpy(), expected, atol=1e-6)


def test_rows_of_zeros_and_constant_columns_stay_finite():
    x = torch.from_numpy(words())
    x[:, 2] = 7.0
    assert not scaled("length", torch.zeros(3, 4)).any()
    standard = scaled("standard", x)
    assert not standard[:, 2].any()
    torch.testing.assert_close(standard.std(0, correction=0)[:2], torch.ones(2))


def test_as_many_components_as_the_rank_lose_nothing():
    rng = np.random.default_rng(1)
    x = torch.from_numpy((rng.random((50, 6)) @ rng.random((6, 40))).astype(np.float32))
    found = scaled("none", x, components=6)
    torch.testing.assert_close(found @ found.T, x @ x.T, rtol=1e-3, atol=1e-3)
    share = found.square().sum(0) / found.square().sum()
    assert share.max() < 0.9  # turned at random: no column has nearly all of it


def test_what_was_learned_is_kept_for_other_graphs():
    x = torch.from_numpy(words())
    first = FeatureScaling("tfidf", 25, 8)
    first.fit(x)
    again = FeatureScaling("tfidf", 25, 8)
    again.load_state_dict(first.state_dict())
    assert torch.equal(again(x[:5]), first(x)[:5])


def test_degree_columns_count_both_directions():
    edges = torch.tensor([[0, 0, 0, 1], [1, 2, 2, 2]])
    found = degree_columns(edges, 4, torch.zeros(1))
    assert found.shape == (4, DEGREE_COLUMNS)
    torch.testing.assert_close(found[:, 0], torch.tensor([0.0, 1.0, 3.0, 0.0]).log1p())
    torch.testing.assert_close(found[:, 1], torch.tensor([3.0, 1.0, 0.0, 0.0]).log1p())
    assert found[:, 2:].argmax(1).tolist() == [0, 1, 3, 0]


def test_standardised_columns_and_none_without_rows():
    rows = 5 * torch.rand(200, 4, generator=torch.Generator().manual_seed(0)) + torch.tensor([0.0, 100.0, -3.0, 1e4])
    each = Standard(4)
    each.fit(rows[:0])
    assert torch.equal(each(rows), rows)
    each.fit(rows)
    expected = (rows.double() - rows.double().mean(0)) / rows.double().std(0, correction=0)
    torch.testing.assert_close(each(rows).double(), expected, atol=2e-3, rtol=0)


def test_columns_together_keep_their_sizes():
    z = torch.randn(100, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 10.0])
    each, together = Standard(2), Standard(2, together=True)
    each.fit(z)
    together.fit(z)
    torch.testing.assert_close(each(z).std(0, correction=0), torch.ones(2))
    ratio = together(z).std(0)
    assert float(ratio[1] / ratio[0]) == pytest.approx(float(z[:, 1].std() / z[:, 0].std()))


def test_a_column_that_hardly_varies_beside_the_others_is_constant():
    rows = torch.randn(100, 2, generator=torch.Generator().manual_seed(2)) * torch.tensor([1.0, 1e-8])
    beside = Standard(2)
    beside.fit(rows)
    assert not beside(rows)[:, 1].any()
