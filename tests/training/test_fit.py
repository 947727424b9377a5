"""Both phases, every method and every head; inference; whatever default types and gradient modes a user has set."""

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch

from rapgnn import METHODS, RAPGNN, Config, InputError, fit
from rapgnn.compare import STRATEGIES
from rapgnn.network.encode import EMBEDDINGS, Inputs
from rapgnn.network.stepwise import propagate
from rapgnn.sparse import SparseMatrix
from rapgnn.training.loop import optimise
from samples import GRAPH_CONFIG, on_test
from samples import NODE_CONFIG as CONFIG


@pytest.mark.parametrize("method", STRATEGIES)
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


def test_only_the_head_is_trained_in_phase_two(small_graph):
    fitted = fit("rap", small_graph, CONFIG, 0)
    alone = fit("pretrained-embedding", small_graph, CONFIG, 0)
    pairs = zip(fitted.model.embedding.parameters(), alone.model.embedding.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)  # phase 2 left the embedding as phase 1 made it
    start = RAPGNN(
        12, 16, 4, 3, **{k: v for k, v in CONFIG.to_dict().items() if k not in ("hidden_channels", "num_layers")}
    )
    assert not torch.equal(start.head.mlp.linears()[0].weight, fitted.model.head.mlp.linears()[0].weight)


def test_best_validation_epoch_is_kept(small_graph):
    """Training on past the best epoch does not change the result, and stopping early keeps it too."""
    long = fit("rap", small_graph, CONFIG.update(epochs=60), 0)
    short = fit("rap", small_graph, CONFIG.update(epochs=long.loop.best_epoch + 1), 0)
    assert torch.equal(long.predict(small_graph.test).scores, short.predict(small_graph.test).scores)
    stopped = fit("rap", small_graph, CONFIG.update(epochs=1000, patience=5), 0)
    assert stopped.loop.epochs < 1000


def test_the_learning_rate_falls_by_half_a_cosine(small_graph):
    """A step of Adam along a gradient that never changes is as long as the rate."""
    place, seen = torch.nn.Linear(1, 4, bias=False), []

    def passes(epoch):
        seen.append(place.weight[0].item())
        yield place.weight.T.expand(8, 4), torch.zeros(8, dtype=torch.int64)

    how = {"lr": 1e-4, "weight_decay": 0.0, "epochs": 11, "keep_best": False}
    optimise([place], passes, small_graph, lambda epoch: torch.zeros(len(small_graph.val), 4), **how, lr_decay=True)
    steps = np.diff(seen)
    np.testing.assert_allclose(steps / steps[0], (1 + np.cos(np.pi * np.arange(10) / 11)) / 2, rtol=0.02)


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


def test_sparse_and_dense_features_train_alike(small_graph):
    x = small_graph.x.relu()
    config = CONFIG.update(epochs=10, pretrain_epochs=10, dropout=0.0, pretrain_dropout=0.0)
    graphs = (replace(small_graph, x=x), replace(small_graph, x=SparseMatrix(x.numpy())))
    for method in ("rap", "end-to-end"):
        for embedding in ("pretrained", "pretrained-gnn", "identity"):
            a, b = (fit(method, g, config.update(embedding=embedding), 0).predict(g.test).scores for g in graphs)
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_every_batch_of_training_has_a_draw_of_its_own(molecules, monkeypatch):
    from rapgnn.network.polynomial import PolynomialFilter

    seen = []
    genuine = PolynomialFilter.coefficients
    monkeypatch.setattr(PolynomialFilter, "coefficients", lambda s, c: (seen.append(list(c)), genuine(s, c))[1])
    config = GRAPH_CONFIG.update(epochs=2, batch_size=40, embedding="fixed-random")
    fit("rap", molecules, config, 0)
    assert len(molecules.train) == 96
    assert seen[-1] == [0, 1, 2, 3, 4, 5]
    seen.clear()
    fit("rap", molecules, config.update(schedule="epoch"), 0)
    assert seen[-1] == [0, 0, 0, 1, 1, 1]


OWN_STRUCTURE = {"fixed-diagonal", "identity"}


def test_a_diagonal_has_no_distribution_by_width() -> None:
    """Settings of full matrices carry over to the other methods, all but what only a full matrix has."""
    full = Config(structure="full", distribution="glorot")
    for name, method in METHODS.items():
        assert method.configure(full).distribution == ("uniform" if name in OWN_STRUCTURE else "glorot")


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


@pytest.mark.parametrize("engine", ["polynomial", "stepwise"])
def test_a_kept_draw_gives_the_scores_of_the_best_epoch(small_graph, engine):
    config = CONFIG.update(epochs=40, inference="sample", engine=engine)
    new, kept = (fit("rap", small_graph, config.update(keep_draw=keep), 0) for keep in (False, True))
    assert new.loop.history == kept.loop.history
    rule, rows = small_graph.objective, small_graph.val
    again = rule.score(kept.predict(rows).scores, small_graph.y[rows])
    assert again == pytest.approx(max(kept.loop.history)) == pytest.approx(kept.loop.history[kept.loop.best_epoch])
    assert not torch.equal(new.predict(rows).scores, kept.predict(rows).scores)


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


@contextmanager
def double_by_default():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


MODES = {"float64": double_by_default, "no_grad": torch.no_grad, "inference_mode": torch.inference_mode}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", STRATEGIES)
def test_methods_train_the_same(mode, method, small_graph):
    config = Config(num_layers=2, hidden_channels=8, epochs=3, pretrain_epochs=2)
    plain = fit(method, small_graph, config, 0).predict(small_graph.test).probabilities
    with MODES[mode]():
        again = fit(method, small_graph, config, 0).predict(small_graph.test).probabilities
    np.testing.assert_allclose(again.numpy(), plain.numpy(), atol=1e-6)
