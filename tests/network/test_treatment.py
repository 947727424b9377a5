"""What is done to features before they are propagated, and channels that are standardised."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.feature_extraction.text import TfidfTransformer

from rapgnn.network.hop_network import RandomUnits
from rapgnn.network.scaling import DEGREE_COLUMNS, FeatureScaling, Standard, Standardize, degree_columns
from rapgnn.sparse import SparseMatrix, dense


def words(seed=0, rows=60, columns=25):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(0.4, (rows, columns)).astype(np.float32)
    counts[3] = 0
    return counts


def treated(kind, x, sketch=0):
    treatment = FeatureScaling(kind, x.shape[1], sketch)
    treatment.fit(x)
    return treatment(x)


@pytest.mark.parametrize("kind", ["none", "length", "tfidf", "standard"])
def test_sparse_features_are_treated_as_dense_ones(kind):
    x = words()
    flat = treated(kind, torch.from_numpy(x))
    sparse = treated(kind, SparseMatrix(sp.csr_matrix(x)))
    torch.testing.assert_close(dense(sparse), flat)


def test_tfidf_is_scikit_learns():
    x = words()
    expected = TfidfTransformer().fit_transform(x).toarray()
    np.testing.assert_allclose(treated("tfidf", torch.from_numpy(x)).numpy(), expected, atol=1e-6)


def test_rows_of_zeros_and_constant_columns_stay_finite():
    x = torch.from_numpy(words())
    x[:, 2] = 7.0
    assert not treated("length", torch.zeros(3, 4)).any()
    standard = treated("standard", x)
    assert not standard[:, 2].any()
    torch.testing.assert_close(standard.std(0, correction=0)[:2], torch.ones(2))


def test_a_sketch_as_wide_as_the_rank_loses_nothing():
    rng = np.random.default_rng(1)
    x = torch.from_numpy((rng.random((50, 6)) @ rng.random((6, 40))).astype(np.float32))
    found = treated("none", x, sketch=6)
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


def test_place_columns_count_both_directions():
    edges = torch.tensor([[0, 0, 0, 1], [1, 2, 2, 2]])
    found = degree_columns(edges, 4, torch.zeros(1))
    assert found.shape == (4, DEGREE_COLUMNS)
    torch.testing.assert_close(found[:, 0], torch.tensor([0.0, 1.0, 3.0, 0.0]).log1p())
    torch.testing.assert_close(found[:, 1], torch.tensor([3.0, 1.0, 0.0, 0.0]).log1p())
    assert found[:, 2:].argmax(1).tolist() == [0, 1, 3, 0]


@pytest.mark.parametrize("inputs", [0, 2, 99])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_lifted_features(inputs, activation):
    z = 5 + 3 * torch.randn(200, 6, generator=torch.Generator().manual_seed(0))
    lift = RandomUnits(6, 300, torch.Generator().manual_seed(1), inputs, activation)
    lift.fit(z)
    found = lift(z)
    assert found.shape == (200, 300)
    assert ((lift.weight != 0).sum(0) == (6 if inputs in (0, 99) else inputs)).all()
    assert (found >= (0 if activation == "relu" else -1)).all()
    same = RandomUnits(6, 300, torch.Generator().manual_seed(1), inputs, activation)
    assert torch.equal(same.weight, lift.weight)
    lift.after = True  # means and variances of the products instead
    assert torch.linalg.matrix_rank(found - found.mean(0)) > 20  # no linear map of six columns


@pytest.mark.parametrize("sizes", [[200], [1, 199], [50, 0, 150], [3] * 66 + [2]])
def test_blocks_give_what_all_rows_give(sizes):
    generator = torch.Generator().manual_seed(0)
    rows = 5 * torch.rand(200, 4, generator=generator) + torch.tensor([0.0, 100.0, -3.0, 1e4])
    found = Standardize(4).fit(rows.split(sizes))
    expected = (rows.double() - rows.double().mean(0)) / rows.double().std(0, correction=0)
    torch.testing.assert_close(found(rows).double(), expected, atol=2e-3, rtol=0)
    other = torch.zeros(1, 4)
    torch.testing.assert_close(found(other), -found.mean * found.scale[None])


def test_a_constant_channel_becomes_zero_and_no_rows_change_nothing():
    rows = torch.stack([torch.full((10,), 0.1), torch.arange(10.0)], dim=1)
    assert float(Standardize(2).fit([rows])(rows)[:, 0].abs().max()) == 0
    assert torch.equal(Standardize(2).fit([rows[:0]])(rows), rows)


def test_it_is_saved_with_the_model():
    rows = torch.rand(20, 3, generator=torch.Generator().manual_seed(1))
    one, other = Standardize(3).fit([rows]), Standardize(3)
    other.load_state_dict(one.state_dict())
    assert torch.equal(one(rows), other(rows))


def test_columns_together_keep_their_sizes():
    z = torch.randn(100, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 10.0])
    each, together = Standard(2), Standard(2, together=True)
    each.fit(z)
    together.fit(z)
    torch.testing.assert_close(each(z).std(0, correction=0), torch.ones(2))
    ratio = together(z).std(0)
    assert float(ratio[1] / ratio[0]) == pytest.approx(float(z[:, 1].std() / z[:, 0].std()))


def test_a_column_that_hardly_varies_beside_the_others_is_constant_for_one_and_not_for_the_other():
    rows = torch.randn(100, 2, generator=torch.Generator().manual_seed(2)) * torch.tensor([1.0, 1e-8])
    beside = Standard(2)
    beside.fit(rows)
    assert not beside(rows)[:, 1].any()
    torch.testing.assert_close(Standardize(2).fit([rows])(rows).std(0, correction=0), torch.ones(2))
