"""The two phases, every strategy, the heads and inference, on a small generated graph."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rapgnn import METHODS, RAPGNN, Config, InputError, fit, from_pyg
from rapgnn.graph.operator import GraphOperator
from rapgnn.graph.tasks import TASKS, accuracy, rocauc
from rapgnn.layers.embedding import EMBEDDINGS
from rapgnn.layers.inputs import Inputs
from rapgnn.layers.ridge import RidgeHead
from rapgnn.propagation.polynomial import PolynomialFilter
from rapgnn.propagation.stepwise import propagate
from rapgnn.sparse import SparseMatrix
from rapgnn.training.fit import fit_rap

CONFIG = Config(
    num_layers=4, hidden_channels=16, epochs=80, pretrain_epochs=40, normalize_features=False, patience=None, lr=0.05
)


def on_test(graph, fitted) -> float:
    return graph.objective.score(fitted.predict(graph.test).scores, graph.y[graph.test])


@pytest.mark.parametrize("method", list(METHODS))
def test_every_method_trains_without_touching_global_randomness(method, small_graph, fresh_random_state):
    a, b = (fit(method, small_graph, CONFIG, seed=3) for _ in range(2))
    scores = a.predict(small_graph.test).scores
    assert torch.equal(scores, b.predict(small_graph.test).scores)  # same seed, bitwise the same
    assert torch.isfinite(scores).all()
    if method in ("rap", "end-to-end", "fixed-diagonal", "identity"):
        assert on_test(small_graph, a) > 0.6
    other = fit(method, small_graph, CONFIG, seed=4)
    assert not torch.equal(scores, other.predict(small_graph.test).scores)


@pytest.mark.parametrize("embedding", list(EMBEDDINGS))
def test_engines_train_the_same_model(embedding, small_graph):
    """The whole training by the shortcut equals the whole training layer by layer."""
    graph = replace(small_graph, x=small_graph.x.abs())
    config = CONFIG.update(embedding=embedding, epochs=10, dropout=0.0, pretrain_dropout=0.0)
    auto = fit("rap", graph, config.update(inference="sample"), 0)
    steps = fit("rap", graph, config.update(engine="stepwise", inference="sample"), 0)
    assert steps.engine == "stepwise"
    assert auto.engine == ("stepwise" if embedding in ("learnable", "random") else "polynomial")
    torch.testing.assert_close(auto.predict(graph.test).scores, steps.predict(graph.test).scores, rtol=1e-3, atol=1e-3)


def test_signed_features_without_embedding_run_layer_by_layer(small_graph):
    fitted = fit("rap", small_graph, CONFIG.update(embedding="identity", epochs=3), 0)
    assert fitted.engine == "stepwise"
    assert "negative entries" in fitted.reason
    with pytest.raises(InputError, match="would not be exact"):
        fit("rap", small_graph, CONFIG.update(embedding="identity", engine="polynomial"), 0)


@pytest.mark.parametrize("settings", [{"random_features": 4}, {"layer_dropout": 0.3}, {"activation": "tanh"}])
def test_what_the_shortcut_cannot_do_is_done_step_by_step(settings, small_graph):
    fitted = fit("rap", small_graph, CONFIG.update(**settings), 0)
    assert fitted.engine == "stepwise"
    assert on_test(small_graph, fitted) > 0.5


def test_pretraining_touches_labelled_rows_only(small_graph):
    """Garbage in the features of unlabelled nodes cannot change the embedding."""
    known = torch.cat([small_graph.train, small_graph.val])
    garbage = torch.full_like(small_graph.x, 1e3)
    garbage[known] = small_graph.x[known]
    models = [fit("pretrained-embedding", g, CONFIG, 0).model for g in (small_graph, replace(small_graph, x=garbage))]
    for a, b in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(a, b)


def test_only_the_head_is_trained_in_phase_two(small_graph):
    fitted = fit("rap", small_graph, CONFIG, 0)
    alone = fit("pretrained-embedding", small_graph, CONFIG, 0)
    pairs = zip(fitted.model.embedding.parameters(), alone.model.embedding.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)  # phase 2 left the embedding as phase 1 made it
    start = RAPGNN(
        12, 16, 4, 3, **{k: v for k, v in CONFIG.to_dict().items() if k not in ("hidden_channels", "num_layers")}
    )
    assert not torch.equal(start.head.mlp.linears()[0].weight, fitted.model.head.mlp.linears()[0].weight)


@pytest.mark.parametrize("head", [{"head": "mlp", "head_layers": n} for n in (1, 2, 3, 4)] + [{"head": "ridge"}])
def test_every_head(head, small_graph):
    assert on_test(small_graph, fit("rap", small_graph, CONFIG.update(**head, epochs=120, dropout=0.0), 0)) > 0.6


def test_ridge_equals_training_on_very_many_draws():
    """The closed form is the least-squares fit to a large sample of draws with the same labels."""
    from rapgnn import Propagation, RandomWeights

    g = torch.Generator().manual_seed(0)
    rows, d = 12, 5
    edges = np.random.default_rng(0).integers(0, rows, (2, 40))
    dense = np.zeros((rows, rows))
    np.add.at(dense, (edges[1], edges[0]), 0.2)
    spec = Propagation("gcn", 3, RandomWeights(seed=1))
    kept = PolynomialFilter(
        spec, GraphOperator(SparseMatrix(dense, dtype=torch.float64)), torch.rand(rows, d, generator=g).double()
    )
    y = torch.randn(rows, 2, generator=g, dtype=torch.float64)
    head = RidgeHead(d, 2).double().fit(kept.expectation(), kept.scatter, y, ridge=0.0)
    draws = kept.draw(range(60_000))
    # The bias is fitted to the mean representation, as in the head.
    center = kept.expectation().mean(0)
    flat = (draws - center).reshape(-1, d)
    sampled = torch.linalg.lstsq(flat, (y - y.mean(0)).repeat(len(draws), 1)).solution
    torch.testing.assert_close(head.weight, sampled, rtol=0.05, atol=0.02)


@pytest.mark.parametrize("rows", [4, 40])
def test_ridge_primal_and_dual_agree_with_the_normal_equations(rows):
    g = torch.Generator().manual_seed(1)
    m, v, y = (torch.rand(rows, k, generator=g, dtype=torch.float64) for k in (7, 7, 2))
    head = RidgeHead(7, 2).double().fit(m, lambda rows: v[rows].sum(0)[:, None, None], y, ridge=0.3)
    c = m - m.mean(0)
    size = float((c.square().sum() + v.sum()) / 7)
    normal = c.T @ c + torch.diag(v.sum(0) + 0.3 * size)
    torch.testing.assert_close(head.weight, torch.linalg.solve(normal, c.T @ (y - y.mean(0))))


def test_ridge_leaves_unknown_labels_out():
    g = torch.Generator().manual_seed(1)
    m, y = torch.rand(20, 3, generator=g), torch.rand(20, 2, generator=g)
    y[5:, 1] = float("nan")

    def nothing(rows):
        return torch.zeros(3, 1, 1)

    both = RidgeHead(3, 2).fit(m, nothing, y, 0.1)
    alone = RidgeHead(3, 1).fit(m[:5], nothing, y[:5, 1:], 0.1)
    torch.testing.assert_close(both.weight[:, 1:], alone.weight)


def test_inference_modes(small_graph):
    config, rows = CONFIG.update(num_samples=400), small_graph.test
    expected, mean, sample = (
        fit("rap", small_graph, config.update(inference=i), 0) for i in ("expected", "mean", "sample")
    )
    averaged = mean.predict(rows)
    assert averaged.spread is not None
    assert float(averaged.spread.mean()) > 0
    assert expected.predict(rows).spread is None
    assert torch.equal(expected.predict(rows).scores, expected.predict(rows).scores)
    # Draws scatter around their mean, and the expectation lies near it.
    one, many = sample.predict(rows).probabilities, averaged.probabilities
    assert float((expected.predict(rows).probabilities - many).abs().mean()) < float((one - many).abs().mean())


@pytest.mark.parametrize("inference", ["mean", "sample"])
def test_predicting_in_parts_changes_nothing(inference, small_graph, monkeypatch):
    import rapgnn.training.predict as inferring

    fitted = fit("rap", small_graph, CONFIG.update(inference=inference, epochs=5, num_samples=3), 0)
    whole = fitted.predict(small_graph.test)
    monkeypatch.setattr(inferring, "HOP_BYTES", 4 * 16 * 5 * 7)  # seven rows at a time
    torch.testing.assert_close(fitted.predict(small_graph.test).probabilities, whole.probabilities)


def test_fixed_weights_predict_with_their_own_draw(small_graph):
    fitted = fit("fixed-diagonal", small_graph, CONFIG, 0)
    model, operator = fitted.model, small_graph.operator("gcn")
    h = propagate(model.spec, operator, model.embedding(Inputs(small_graph.x)), 0)[small_graph.test]
    torch.testing.assert_close(fitted.predict(small_graph.test).scores, model.head(h), rtol=1e-4, atol=1e-5)


def test_best_validation_epoch_is_kept(small_graph):
    """Training on past the best epoch does not change the result, and stopping early keeps it too."""
    long = fit("rap", small_graph, CONFIG.update(epochs=60), 0)
    short = fit("rap", small_graph, CONFIG.update(epochs=long.loop.best_epoch + 1), 0)
    assert torch.equal(long.predict(small_graph.test).scores, short.predict(small_graph.test).scores)
    stopped = fit("rap", small_graph, CONFIG.update(epochs=1000, patience=5), 0)
    assert stopped.loop.epochs < 1000


def test_threads_are_restored(small_graph):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        fit("rap", small_graph, CONFIG.update(epochs=2, pretrain_epochs=2), 0)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_the_module_draws_anew_and_can_replay(small_graph, fresh_random_state):
    model = RAPGNN(12, 16, 3, 3, embedding="fixed-random", seed=5).eval()
    first, second = (model(small_graph.x, small_graph.edge_index) for _ in range(2))
    assert first.shape == (300, 3)
    assert not torch.equal(first, second)
    model.draw_counter.fill_(0)
    assert torch.equal(model(small_graph.x, small_graph.edge_index), first)
    other = RAPGNN(12, 16, 3, 3, embedding="fixed-random", seed=6)
    other.load_state_dict(model.state_dict())
    assert int(other.draw_counter) == 1
    fixed = RAPGNN(12, 16, 3, 3, embedding="fixed-random", schedule="fixed").eval()
    assert torch.equal(*(fixed(small_graph.x, small_graph.edge_index) for _ in range(2)))


def test_random_features_are_new_in_every_pass_whatever_the_weights_schedule(small_graph):
    """Under fixed weights the random node features still change, and the embedding still learns."""
    model = fit("fixed-diagonal", small_graph, CONFIG.update(random_features=3, epochs=2), 0).model
    source = model.embed(small_graph.x, small_graph.operator("gcn"))
    a, b = source.rows(small_graph.test).draws([0, 0], steps=[1, 2])
    assert not torch.equal(a, b)
    start = RAPGNN(12, 16, 4, 3, embedding="learnable", random_features=3)
    config = CONFIG.update(embedding="learnable", random_features=3, epochs=5)
    trained = fit("rap", small_graph, config, 0).model
    pairs = zip(start.embedding.parameters(), trained.embedding.parameters(), strict=True)
    assert all(not torch.equal(a, b) for a, b in pairs)


def test_weights_drawn_once_per_epoch_still_spread_at_inference(small_graph):
    fitted = fit("rap", small_graph, CONFIG.update(schedule="epoch", inference="mean", epochs=5), 0)
    assert float(fitted.predict(small_graph.test).spread.mean()) > 0


def test_the_module_drops_out_in_training_only(small_graph):
    model = RAPGNN(12, 16, 3, 3, embedding="fixed-random", dropout=0.9, schedule="fixed")
    x, edges = small_graph.x, small_graph.edge_index
    assert not torch.equal(model(x, edges), model(x, edges))
    model.eval()
    assert torch.equal(model(x, edges), model(x, edges))


@pytest.mark.parametrize("p", [1e-4, 1e-3, 0.002, 0.1, 0.5, 0.9, 0.999])
def test_dropout_keeps_the_mean(p):
    from rapgnn.layers.dropout import dropout_dense

    x = torch.ones(400, 1000)
    out = dropout_dense(x, p, torch.Generator().manual_seed(0))
    assert float(out.mean()) == pytest.approx(1, abs=0.05)
    assert float((out == 0).double().mean()) == pytest.approx(p, abs=0.005)


def test_the_callers_matrix_is_left_alone():
    import scipy.sparse as sp

    from rapgnn import make_graph

    data = np.array([1.0, 2.0, 3.0], dtype=np.float32)
    x = sp.csr_matrix((data, np.array([2, 0, 1]), np.array([0, 2, 3, 3])), shape=(3, 9))
    before = x.toarray().copy(), x.indices.copy()
    graph = make_graph(x, np.zeros((2, 0), dtype=int), [0, 1, 0], [0, 1], [], [2])
    np.testing.assert_array_equal(x.toarray(), before[0])
    np.testing.assert_array_equal(x.indices, before[1])
    x.data[:] = 7
    np.testing.assert_array_equal(graph.x.columns(0, 9).numpy(), before[0])


def test_the_module_trains_its_embedding_through_the_layers(small_graph):
    model = RAPGNN(12, 8, 2, 3, embedding="learnable", seed=1)
    TASKS["node-classification"].loss(
        model(small_graph.x, small_graph.edge_index, rows=small_graph.train), small_graph.y[small_graph.train]
    ).backward()
    assert all(p.grad is not None and float(p.grad.abs().sum()) > 0 for p in model.embedding.parameters())


def test_pyg_data_round_trip(small_graph):
    from torch_geometric.data import Data

    masks = {f"{s}_mask": torch.zeros(300, dtype=torch.bool) for s in ("train", "val", "test")}
    for split in ("train", "val", "test"):
        masks[f"{split}_mask"][small_graph.rows(split)] = True
    data = Data(x=small_graph.x, edge_index=small_graph.edge_index, y=small_graph.y, **masks)
    ours = from_pyg(data)
    a, b = (fit("rap", g, CONFIG.update(epochs=5), 0).predict(g.test).scores for g in (small_graph, ours))
    assert torch.equal(a, b)
    with pytest.raises(InputError, match="train_mask"):
        from_pyg(Data(x=small_graph.x, edge_index=small_graph.edge_index, y=small_graph.y))


def test_sparse_and_dense_features_train_alike(small_graph):
    x = small_graph.x.relu()
    config = CONFIG.update(epochs=10, pretrain_epochs=10, dropout=0.0, pretrain_dropout=0.0)
    graphs = (replace(small_graph, x=x), replace(small_graph, x=SparseMatrix(x.numpy())))
    for method in ("rap", "end-to-end"):
        for embedding in ("pretrained", "pretrained-gnn", "identity"):
            a, b = (fit(method, g, config.update(embedding=embedding), 0).predict(g.test).scores for g in graphs)
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_metrics_by_hand():
    assert accuracy(torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, 1])) == 0.5
    scores = torch.tensor([[0.1], [0.4], [0.35], [0.8]])
    assert rocauc(scores, torch.tensor([[0.0], [0.0], [1.0], [1.0]])) == 0.75  # scikit-learn's own example
    ties = torch.tensor([[0.5], [0.5]])
    assert rocauc(ties, torch.tensor([[0.0], [1.0]])) == 0.5
    # The second label has no positive and does not count; the unknown row is left out.
    two = torch.cat([scores, scores], dim=1)
    y = torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [1.0, float("nan")]])
    assert rocauc(two, y) == 0.75
    loss = TASKS["node-multilabel"].loss
    assert loss(torch.zeros(2, 2), torch.tensor([[1.0, float("nan")], [0.0, 1.0]])) == pytest.approx(np.log(2))


def test_training_is_checked_against_a_graph_with_edge_weights(small_graph):
    weight = torch.rand(small_graph.edge_index.shape[1], generator=torch.Generator().manual_seed(0))
    fitted = fit_rap(replace(small_graph, edge_weight=weight), CONFIG, 0)
    assert fitted.engine == "polynomial"
    signed = fit_rap(replace(small_graph, edge_weight=weight - 0.5), CONFIG.update(epochs=3), 0)
    assert signed.engine == "stepwise"
    assert torch.isfinite(signed.predict(small_graph.test).scores).all()
