"""What is done to features before they are propagated: scaling, embeddings and MLPs by hand, standardised channels."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.feature_extraction.text import TfidfTransformer

from rapgnn import RAPGNN, Config
from rapgnn.datasets.published import one_hot
from rapgnn.network.encode import DEGREE_COLUMNS, SCALINGS, FeatureScaling, Standard, degree_columns
from rapgnn.network.heads import Head, make_head
from rapgnn.network.mlp import MLP, Encoder, Masks, dropout_dense
from rapgnn.prng import Stream, seeded
from rapgnn.sparse import SparseMatrix, dense
from samples import GRAPH_CONFIG as CONFIG


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


def test_one_gine_layer_by_counting_equals_the_layer(molecules):
    model = RAPGNN(4, out_channels=2, edge_channels=3, **CONFIG.update(embedding="pretrained-gnn", eps=0.5).to_dict())
    operator, embedding = molecules.operator("gine", eps=0.5), model.embedding
    x = embedding.node_encoder(molecules.x)
    e = torch.relu(embedding.edge_encoder(operator.edges.features))
    z = 1.5 * x
    for (u, v), kind in zip(molecules.edge_index.T.tolist(), operator.edges.kind.tolist(), strict=True):
        z = z.index_add(0, torch.tensor([v]), torch.relu(x[u] + e[kind])[None])
    by_hand = torch.relu(embedding.mlp(z))
    h = embedding.embed(embedding.inputs(molecules.x, operator))
    torch.testing.assert_close(h, by_hand, rtol=1e-4, atol=1e-5)


def test_features_near_zero_have_a_finite_scale():
    head = Head(3, 4, 2, 1, generator=seeded(0, Stream.START_VALUES))
    head.fit_input_scale(torch.zeros(3), torch.full((3,), 1e-80, dtype=torch.float64))
    assert torch.isfinite(head.input_scale).all()


@pytest.mark.parametrize("p", [0.0, 1e-4, 0.1, 0.5, 0.999])
def test_dropout_keeps_the_mean(p):
    x = torch.ones(400, 1000)
    out = dropout_dense(x, p, torch.Generator().manual_seed(0))
    assert float(out.mean()) == pytest.approx(1, abs=0.05)
    assert float((out == 0).double().mean()) == pytest.approx(p, abs=0.005)


def test_masks_are_the_generators() -> None:
    mlp = MLP([13, 7, 5], seeded(0, 0), dropout=0.4)
    h, generator = torch.randn(9, 13), seeded(3, Stream.DROPOUT)
    words = 2 * mlp.mask_words(9)
    masks = Masks(seeded(3, Stream.DROPOUT), words, torch.device("cpu"))
    for _ in range(2):
        masks.refill(words)
        masks.restart()
        for _ in range(2):
            assert torch.equal(mlp(h, masks), mlp(h, generator))


def test_the_encoder_is_a_sum_of_lookups():
    codes = np.array([[1, 0], [2, 1]])
    encoder = Encoder(5, 3, seeded(0, 0))
    table = encoder.table.weight
    by_hand = torch.stack([table[1] + table[3], table[2] + table[4]])
    torch.testing.assert_close(encoder(one_hot(codes, (3, 2), "atom")), by_hand)


@pytest.mark.parametrize("name", ["linear", "mlp", "ridge"])
def test_a_head_is_its_first_map_and_the_rest(name):
    generator = torch.Generator().manual_seed(0)
    config = Config(head=name, head_layers=3, hidden_channels=7, batch_norm=True, dropout=0.0)
    head = make_head(config, 5, 3, generator).requires_grad_(False)
    for value in head.state_dict().values():
        if value.is_floating_point():
            value.copy_(torch.rand(value.shape, generator=generator))
    h = torch.randn(11, 5, generator=generator)
    weight, finish = head.first_map()
    torch.testing.assert_close(finish(h @ weight), head(h))
    assert (head.solved, head.linear) == (name == "ridge", name != "mlp")
