"""Explanations: contributions of linear networks add up to the score, and what decides is named first."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import shortest_path

from rapgnn import InputError, RAPGraphClassifier, RAPNodeClassifier, make_graph
from rapgnn.estimators import explain
from rapgnn.estimators.explain import Explainer
from rapgnn.network.config import Config
from rapgnn.network.network import Average
from rapgnn.search.candidate import Candidate
from rapgnn.search.start import HOPS
from rapgnn.sparse import SparseMatrix
from rapgnn.training.predict import model_on
from samples import FAST, collection, node_data

SHAPE = HOPS.update(num_layers=2, self_loops=True, scaling="standard", ridge=1.0)
RANDOM = Config(num_layers=3, head="ridge", embedding="identity", activation="identity", normalize_features=True)
LINEAR = {
    "last": SHAPE,
    "components": SHAPE.update(scaling="length", components=4),
    "both": SHAPE.update(jumping="cat", edges="both", degree_columns=True, known_labels=2),
    "undirected": SHAPE.update(edges="undirected", jumping="ppr", backbone="sage", self_loops=False),
    "places": SHAPE.update(node_columns=4, known_labels=1, jumping="cat"),
    "random": RANDOM,
    "random side by side": RANDOM.update(backbone="sage", jumping="cat", self_loops=False),
    "random once": RANDOM.update(schedule="fixed", backbone="gin", self_loops=False),
}


def graph_of(nodes: int = 200, numbers: bool = False):
    """A directed graph with weights, where neighbours in the ring are alike."""
    rng = np.random.default_rng(1)
    around = np.arange(nodes)
    edges = np.concatenate([[around, (around + 1) % nodes], rng.integers(0, nodes, (2, nodes // 2))], axis=1)
    y = np.sin(around / 9) + 0.1 * rng.normal(size=nodes)
    x = (rng.normal(size=(nodes, 6)) + y[:, None] + np.arange(6)).astype(np.float32)
    given = {"task": "regression"} if numbers else {}
    labels = 100 * y[:, None] if numbers else np.digitize(y, [-0.5, 0.5])
    weight = rng.random(edges.shape[1]).astype(np.float32)
    return make_graph(x, edges, labels, rng.random(nodes) < 0.5, [], [], weight, **given)


def network(graph, config: Config):
    return Candidate(graph, config, 0, {}).finished(config.ridge or 1.0, 2.0)


def sums(one):
    return [
        one.base + one.labels.contribution.sum() + table.contribution.sum()
        for table in (one.columns, one.hops, one.neighbours)
    ]


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("numbers", [False, True])
def test_contributions_of_a_linear_network_add_up_to_its_score(name, numbers):
    graph = graph_of(numbers=numbers)
    net, row = network(graph, LINEAR[name]), 17
    one = Explainer(net, graph, range(graph.num_outputs), None).of(row)
    scores = model_on(net, graph)(torch.tensor([row])).scores[0]
    wanted = float(scores[one.label] - (0 if numbers else scores.mean()))
    assert one.exact == 1
    assert one.score == pytest.approx(wanted, rel=1e-5, abs=1e-5)
    assert sums(one) == pytest.approx([one.score] * 3, rel=1e-5, abs=1e-5)
    assert {0, 1, 2} <= set(one.hops.steps)


def test_the_average_of_networks_has_the_mean_of_their_scores():
    graph = graph_of()
    model = Average([network(graph, LINEAR["both"]), network(graph, LINEAR["random"])], weights=[1.0, 0.5])
    one = Explainer(model, graph, "abc", None).of(30)
    assert sums(one) == pytest.approx([one.score] * 3, rel=1e-5, abs=1e-5)
    assert len(one.labels)


def typed(kinds: int = 4, nodes: int = 400):
    """A node is what it is because of one neighbour of the kind "seller"; all others are of other kinds."""
    rng = np.random.default_rng(0)
    kind = rng.choice(["buyer", "shop", "agent"], nodes)
    y = np.arange(nodes) % 2
    centres = np.arange(nodes // 2)
    senders = rng.integers(nodes // 2, nodes, (nodes // 2, kinds))
    sellers = np.arange(nodes // 2, nodes // 2 + 20)
    kind[: nodes // 2], kind[sellers] = "buyer", "seller"
    senders[np.isin(senders, sellers)] = nodes - 1
    senders[y[: nodes // 2] == 1, 0] = rng.choice(sellers, (y[: nodes // 2] == 1).sum())
    edges = np.stack([senders.ravel(), np.repeat(centres, kinds)])
    frame = pd.DataFrame({"kind": kind, "age": rng.normal(40, 9, nodes), "size": rng.normal(size=nodes)})
    labels = np.where(np.arange(nodes) < nodes // 2, y, -1)
    return frame, edges, labels, sellers


@pytest.mark.parametrize(
    "more", [{"settings": {"units": 64, "coefficients": "fixed"}}, {"settings": {"coefficients": "fixed"}}, {}]
)
def test_the_neighbour_whose_kind_decides_is_named_first(more):
    frame, edges, labels, sellers = typed()
    settings = {"num_layers": 1, "head": "ridge", "jumping": "cat"} if more else {}
    how = {"search": False, "settings": more.get("settings", {}) | settings | {"embedding": "identity"}} if more else {}
    model = RAPNodeClassifier(**how).fit(frame, labels, edge_index=edges)
    right = 0
    for one in model.explain(frame, [1, 21, 41], label=1, edge_index=edges):
        right += one.columns.column[0] == "kind" and one.neighbours.id[0] in sellers
        assert one.neighbours.steps[0] == 1
        assert "kind" in str(one)
    assert right == 3


def test_what_a_removal_changes_is_measured_where_a_network_is_not_linear():
    graph = graph_of()
    net = network(graph, SHAPE.update(units=64, jumping="cat", known_labels=2))
    one = Explainer(net, graph, "abc", 1).of(17)
    assert one.exact == 0
    outputs = torch.eye(3)[1] - 1 / 3
    before = float(model_on(net, graph)(torch.tensor([17])).scores[0] @ outputs)
    assert one.score == pytest.approx(before, abs=1e-5)
    u, v = graph.edge_index.numpy()
    far = shortest_path(csr_matrix((np.ones(len(u)), (v, u))), unweighted=True, indices=17)
    for steps, moved in one.hops.values:
        x = graph.x.clone()
        x[far == steps] = graph.x.mean(0)
        after = float(model_on(net, replace(graph, x=x))(torch.tensor([17])).scores[0] @ outputs)
        assert before - after == pytest.approx(moved, abs=1e-4)


BEFORE = SHAPE.update(scaling="length", components=4, jumping="ppr", num_layers=5)
NOT_LINEAR = {
    "units": SHAPE.update(units=64, jumping="cat", known_labels=2, edges="both"),
    "kernel": SHAPE.update(scaling="tfidf", kernel="gauss", landmarks=20, bandwidth=2.0, degree_columns=True),
    "mlp": SHAPE.update(head="mlp", epochs=3, hidden_channels=8, components=3, scaling="none", jumping="ppr"),
    "trees": SHAPE.update(head="trees", jumping="cat"),
    "previous": SHAPE.update(scaling="length", components=4, jumping="cat", num_layers=1, previous=BEFORE),
    "two inputs": SHAPE.update(jumping="cat", num_layers=1, previous=BEFORE, known_labels=2),
    "units on previous": SHAPE.update(units=32, num_layers=1, previous=BEFORE.update(components=0)),
    "layers": SHAPE.update(coefficients="layers", width=8, jumping="cat"),
}


@pytest.mark.parametrize("wide", [0, 40, 600])
@pytest.mark.parametrize("name", NOT_LINEAR)
def test_removals_are_those_in_copies_of_the_features(name, wide, monkeypatch):
    """Networks that ask for hops alone are measured without copies; one of many columns is all that some rows have."""
    graph = graph_of()
    if wide:
        rng = np.random.default_rng(3)
        x = np.where(rng.random((200, wide)) < 6 / wide, rng.random((200, wide)), 0.0)
        x[::7], x[::7, 1] = 0.0, 1.0
        x[20:25] = 0.0
        graph = replace(graph, x=SparseMatrix(csr_matrix(x)) if wide > 512 else torch.from_numpy(x).float())
    net = network(graph, NOT_LINEAR[name])
    found = [Explainer(net, graph, "abc", 1).of(row) for row in (17, 21)]
    assert explain.is_walked(net) == (name != "layers")
    monkeypatch.setattr(explain, "is_walked", lambda network: False)
    for one, row in zip(found, (17, 21), strict=True):
        wanted = Explainer(net, graph, "abc", 1).of(row)
        scale = max(1.0, abs(wanted.score))
        assert one.base == pytest.approx(wanted.base, abs=2e-4 * scale)
        for table in ("columns", "hops", "neighbours", "labels"):
            a, b = (getattr(e, table).set_index(getattr(e, table).columns[0]).contribution for e in (one, wanted))
            assert set(a.index) == set(b.index)
            np.testing.assert_allclose(a, b[a.index], atol=2e-4 * scale)
        assert wanted.columns.contribution.abs().max() > 1e-3 * scale


def test_graphs_are_explained_by_their_nodes_and_columns():
    graphs = collection()
    model = RAPGraphClassifier(search=False).fit(graphs)
    one, other = model.explain(graphs, [100, 3])
    ptr = graphs.ptr.tolist()
    assert set(one.neighbours.id) <= set(range(ptr[100], ptr[101]))
    assert len(one.columns)
    assert not len(one.hops)
    (alone,) = model.explain(graphs, [3])
    assert alone.score == pytest.approx(other.score, abs=1e-5)


def test_labels_that_are_unknown_are_refused():
    model = RAPNodeClassifier(**FAST).fit(node_data())
    with pytest.raises(InputError, match="label"):
        model.explain(node_data(), [0], label="none such")
