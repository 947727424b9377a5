"""Training on many graphs: tasks, methods, heads, poolings, batches."""

import numpy as np
import pytest
import torch

from rapgnn import InputError, fit, make_graphs
from rapgnn.compare import STRATEGIES
from rapgnn.network.encode import EMBEDDINGS
from samples import GRAPH_CONFIG as CONFIG
from samples import collection, on_test


@pytest.mark.parametrize("task", ["classification", "multilabel", "regression"])
@pytest.mark.parametrize("method", STRATEGIES)
def test_every_method_learns_every_task(method, task, fresh_random_state):
    graph = collection(task)
    config = CONFIG.update(factors=2, batch_norm=True) if method == "end-to-end" else CONFIG
    if method == "random-full":
        config = config.update(epochs=5)
    a, b = (fit(method, graph, config, seed=3) for _ in range(2))
    scores = a.predict(graph.test).scores
    assert torch.equal(scores, b.predict(graph.test).scores)
    assert torch.isfinite(scores).all()
    if method in ("rap", "fixed-diagonal", "identity", "end-to-end"):
        plain = float(graph.y[graph.test].std()) if task == "regression" else 0.5
        assert graph.objective.merit(on_test(graph, a)) > graph.objective.merit(
            plain * (0.75 if task == "regression" else 1.3)
        )


@pytest.mark.parametrize("backbone", ["gcn", "sage", "gin", "gine"])
@pytest.mark.parametrize("embedding", list(EMBEDDINGS))
def test_engines_train_the_same_model(backbone, embedding, molecules):
    """The whole training by the shortcut, in batches, equals the whole training layer by layer."""
    config = CONFIG.update(backbone=backbone, embedding=embedding, epochs=5, jumping="cat")
    auto = fit("rap", molecules, config.update(inference="sample"), 0)
    steps = fit("rap", molecules, config.update(engine="stepwise", inference="sample"), 0)
    assert auto.engine == ("stepwise" if embedding in ("learnable", "random") else "polynomial")
    # The exact moments fix the head's input scale in one case, a sample of draws in the other.
    if auto.engine == "polynomial":
        steps.model.head.load_state_dict(auto.model.head.state_dict())
    rows = molecules.test
    torch.testing.assert_close(auto.predict(rows).scores, steps.predict(rows).scores, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("pooling", ["sum", "mean", "max"])
@pytest.mark.parametrize("head", ["linear", "mlp", "ridge"])
@pytest.mark.parametrize("jumping", ["last", "cat"])
def test_heads_poolings_and_jumping_knowledge(pooling, head, jumping, molecules):
    config = CONFIG.update(backbone="gin", pooling=pooling, head=head, jumping=jumping, ridge=1e-2)
    fitted = fit("rap", molecules, config, 0)
    assert fitted.engine == "polynomial"
    assert torch.isfinite(fitted.predict(molecules.test).scores).all()
    if pooling == "sum":  # the label is a matter of counts, which a mean or a maximum hides
        assert molecules.objective.score(fitted.predict(molecules.train).scores, molecules.y[molecules.train]) > 0.6


def test_gine_without_edge_features_is_refused():
    graph = make_graphs(np.ones((4, 2)), [[0, 2], [1, 3]], [2, 2], [0, 1], [0, 1], [], [])
    with pytest.raises(InputError, match="needs edge features"):
        fit("rap", graph, CONFIG, 0)


def test_test_graphs_do_not_move_the_scale_of_training(molecules):
    edges = torch.tensor([[0, 1], [1, 0]])
    ring = torch.cat([edges + 2 * i for i in range(6)], dim=1)
    small = make_graphs(np.ones((12, 2)), ring, np.full(6, 2), [0, 1] * 3, [0, 1, 2, 3], [], [4, 5])
    star = torch.stack([torch.arange(13, 60), torch.full((47,), 12)])
    big = make_graphs(
        np.ones((60, 2)), torch.cat([ring, star], dim=1), [2] * 6 + [48], [0, 1] * 3 + [0], [0, 1, 2, 3], [], [4, 5, 6]
    )
    config = CONFIG.update(backbone="gin", epochs=2)
    scales = {float(fit("rap", g, config, 0).model.operator_scale) for g in (small, big)}
    assert len(scales) == 1


def test_layer_by_layer_in_parts_changes_nothing(molecules, monkeypatch):
    import rapgnn.network.representation as representation

    config = CONFIG.update(epochs=3, embedding="fixed-random", engine="stepwise", inference="sample")
    whole = fit("fixed-full", molecules, config, 0).predict(molecules.test).scores
    monkeypatch.setattr(representation, "GRAPHS_AT_ONCE", 7)
    parts = fit("fixed-full", molecules, config, 0).predict(molecules.test).scores
    torch.testing.assert_close(whole, parts, rtol=1e-4, atol=1e-5)


def test_two_threads_give_bitwise_the_same(molecules):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        graph = collection(graphs=300)
        config = CONFIG.update(epochs=3, hidden_channels=32)
        for method, embedding in (("end-to-end", "pretrained"), ("rap", "learnable"), ("rap", "pretrained-gnn")):
            a, b = (fit(method, graph, config.update(embedding=embedding), 0) for _ in range(2))
            assert torch.equal(a.predict(graph.test).scores, b.predict(graph.test).scores)
    finally:
        torch.set_num_threads(before)
