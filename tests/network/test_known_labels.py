"""Labels of neighbours as inputs: no row sees its own, on any graph; and the model keeps them."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from disk_cases import blocks, hostile
from operators import relative_error
from rapgnn import RAPNodeClassifier, RAPNodeRegressor
from rapgnn.errors import InputError, InputNotice
from rapgnn.graph.graph import Graph, make_graph
from rapgnn.network.known_labels import KnownLabels
from rapgnn.network.network import Average, HopNetwork, is_bound
from rapgnn.search.candidate import Candidate
from rapgnn.search.portfolio import knows_labels
from rapgnn.search.start import HOPS
from rapgnn.training.checkpoint import load_checkpoint
from rapgnn.training.predict import members_on, model_on

BACKBONES = (("gcn", True), ("gcn", False), ("sage", False), ("gin", False))
ZERO = torch.zeros(0)


def by_hand(graph: Graph, backbone: str, loops: bool) -> list[torch.Tensor]:
    """S Y and S² Y with the label of each row taken out of Y before its own row is computed."""
    matrix = graph.operator(backbone, loops).matrix.scipy().toarray().astype(np.float64)
    y = np.zeros((graph.num_nodes, graph.num_outputs))
    y[graph.train, graph.y[graph.train]] = 1.0
    found = np.zeros((2, *y.shape))
    for node in range(graph.num_nodes):
        others = y.copy()
        others[node] = 0.0
        found[0, node] = matrix[node] @ others
        found[1, node] = matrix[node] @ (matrix @ others)
    return [torch.from_numpy(hop) for hop in found]


@pytest.mark.parametrize("name", hostile())
@pytest.mark.parametrize(("backbone", "loops"), BACKBONES)
def test_every_row_sees_the_labels_of_others_alone(name, backbone, loops):
    graph = hostile()[name]
    found = KnownLabels.of(graph).hops(graph, graph.operator(backbone, loops), ZERO, 2)
    for hop, wanted in zip(found, by_hand(graph, backbone, loops), strict=True):
        assert float((hop - wanted).abs().max()) < 1e-5 * max(1.0, float(wanted.abs().max()))


@pytest.mark.parametrize("edges", ["given", "undirected", "both"])
@pytest.mark.parametrize(
    "more", [{}, {"units": 9}, {"units": 16, "unit_inputs": 2, "unit_hops": 1}, {"head": "mlp", "hidden_channels": 8}]
)
def test_another_own_label_changes_nothing_in_a_row(edges, more):
    graph = hostile()["directed"]
    config = HOPS.update(scaling="standard", backbone="sage", edges=edges, known_labels=2, **more)
    row = int(graph.train[0])
    net = Candidate(graph, config, 0, {}).network
    here = net.represent(graph, torch.tensor([row]))
    assert net.known is not None
    net.known.y[0, 0] = (net.known.y[0, 0] + 1) % 3
    torch.testing.assert_close(net.represent(graph, torch.tensor([row])), here, rtol=0, atol=1e-6)
    assert float((net.represent(graph) - Candidate(graph, config, 0, {}).network.represent(graph)).abs().max()) > 1e-3


def test_gaps_and_numbers_count_less_their_mean():
    y = np.array([[1.0, np.nan], [3.0, 0.0], [np.nan, 1.0], [0.0, 0.0]])
    edges = np.array([[0, 1, 2, 0], [3, 3, 3, 1]])
    graph = make_graph(np.ones((4, 1)), edges, y, [0, 1, 2], [3], [], task="regression")
    hop, _ = KnownLabels.of(graph).hops(graph, graph.operator("sage", False), ZERO, 2)
    torch.testing.assert_close(hop[3], torch.tensor([(-1.0 + 1.0) / 3, (-0.5 + 0.5) / 3]))
    torch.testing.assert_close(hop[1], torch.tensor([-1.0, 0.0]))


def labelled(seed=0, nodes=900) -> Graph:
    """Classes that only the neighbours' classes tell, most of them known."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, nodes)
    ends = rng.integers(0, nodes, (2, 40 * nodes))
    ends = ends[:, (y[ends[0]] + 1) % 3 == y[ends[1]]][:, : 5 * nodes]
    order = rng.permutation(nodes)
    return make_graph(
        rng.standard_normal((nodes, 4)), np.concatenate([ends, ends[::-1]], 1), y, *np.split(order, [500, 700])
    )


@pytest.fixture(scope="module")
def chosen():
    graph = labelled()
    return graph, RAPNodeClassifier(seed=0).fit_graph(graph)


def test_the_search_uses_them_and_says_what_suits_another_graph(chosen):
    graph, model = chosen
    assert isinstance(model.model_, Average)
    assert any(member.config.known_labels for member in model.model_.members)
    assert model.score(graph, split="test") > 0.6  # features alone: a third
    other = labelled(seed=1)
    members = members_on(model.model_, other)
    assert members
    assert not any(is_bound(m.config) for m in members)
    assert model.predict(other).shape == (900,)
    assert model.transform(other).shape[0] == 900
    fewer = replace(graph, x=graph.x[:10], y=graph.y[:10], edge_index=graph.edge_index[:, :0], train=graph.train[:0])
    empty = {"val": graph.train[:0], "test": graph.train[:0]}
    assert model.predict(replace(fewer, **empty)).shape == (10,)


def named(graph: Graph) -> Graph:
    return replace(graph, ids=np.array([f"node {i}" for i in range(graph.num_nodes)], dtype=object))


@pytest.fixture(scope="module")
def by_id():
    graph = named(labelled())
    return graph, RAPNodeClassifier(seed=0).fit_graph(graph)


def extended(graph: Graph, count: int) -> Graph:
    """The same graph and so many nodes more, without labels; the first of them has edges."""
    first, more = graph.num_nodes, torch.randn(count, graph.num_features, generator=torch.Generator().manual_seed(0))
    ends = torch.tensor([[first, 3], [3, first]])
    y = torch.cat([graph.y, graph.y.new_full((count,), -1)])
    ids = None if graph.ids is None else np.concatenate([graph.ids, [f"new {i}" for i in range(count)]])
    edges = torch.cat([graph.edge_index, ends], dim=1)
    return replace(graph, x=torch.cat([graph.x, more]), y=y, edge_index=edges, ids=ids)


@pytest.mark.parametrize("which", ["chosen", "by_id"])
def test_labels_stay_known_where_the_graph_changes(which, request):
    """A feature that moves and nodes that are new change predictions near them, not the members that answer."""
    graph, model = request.getfixturevalue(which)
    before, members = model.predict_proba(graph), members_on(model.model_, graph)
    assert any(m.config.known_labels for m in members)
    x = graph.x.clone()
    x[graph.train[0], 0] += 1e-4
    moved, larger = replace(graph, x=x), extended(graph, 10)
    assert members_on(model.model_, moved) == members_on(model.model_, larger) == members
    np.testing.assert_allclose(model.predict_proba(moved), before, atol=1e-3)
    later = model.predict_proba(larger)
    assert (np.abs(later[:900] - before).max(axis=1) > 1e-4).mean() < 0.5  # who is far from the new node sees nothing
    assert (later[:900].argmax(1) == before.argmax(1)).mean() > 0.99
    alone = replace(larger, edge_index=graph.edge_index)
    np.testing.assert_allclose(model.predict_proba(alone)[:900], before, atol=1e-5)


def test_where_no_node_is_known_others_answer_and_it_is_said(by_id):
    graph, model = by_id
    other = replace(graph, ids=np.array([f"another {i}" for i in range(900)], dtype=object))
    with pytest.warns(InputNotice, match="none of the nodes"):
        answers = model.predict_proba(other)
    assert np.isfinite(answers).all()
    assert not any(is_bound(m.config) for m in members_on(model.model_, other))
    hidden = replace(graph, y=torch.where(torch.isin(torch.arange(900), graph.test), (graph.y + 1) % 3, graph.y))
    assert np.array_equal(
        model.predict_proba(hidden), model.predict_proba(graph)
    )  # only what it was trained on is known


@pytest.mark.parametrize("change", [{"use": "never"}, {"known": [1]}, {"known": [True, 1]}, {"known": [7, 1]}])
def test_an_index_that_says_other_things_is_refused(chosen, tmp_path, change):
    _, model = chosen
    model.save(tmp_path / "m")
    path = tmp_path / "m" / "checkpoint.json"
    index = json.loads(path.read_text())
    index["members"][0] |= change
    path.write_text(json.dumps(index))
    with pytest.raises(InputError, match="damaged"):
        load_checkpoint(tmp_path / "m")


def test_few_labels_are_no_inputs():
    assert knows_labels(labelled())
    assert not knows_labels(blocks())  # 40 training rows


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same_labels():
    graph = hostile()["directed"]
    config = HOPS.update(scaling="standard", backbone="sage", edges="both", known_labels=2)
    cpu = Candidate(graph, config, 0, {}).network.represent(graph)
    gpu = Candidate(graph.to("cuda"), config, 0, {}).network.represent(graph.to("cuda"))
    assert relative_error(gpu.cpu(), cpu) < 1e-4


def test_an_average_needs_a_use_for_every_member():
    net = HopNetwork(3, 2, config=HOPS)
    for members, uses in (([], None), ([net], ["elsewhere"]), ([net], ["both", "here"]), ([net], ["never"])):
        with pytest.raises(InputError, match="member"):
            Average(members, uses)
    graph = hostile()["directed"]
    bound = Candidate(graph, HOPS.update(known_labels=1), 0, {}).finished(1.0, 1.0)
    with pytest.raises(InputError, match="nothing to say about another one"):
        model_on(Average([bound]), replace(graph, x=graph.x.flip(0)))


@pytest.mark.parametrize("kind", [RAPNodeClassifier, RAPNodeRegressor])
def test_labels_with_gaps_are_kept_and_saved(kind, tmp_path):
    """Several labels, or numbers, of which some are not known: what is not known counts as nothing."""
    rng = np.random.default_rng(0)
    x, edges = rng.random((300, 4)), rng.integers(0, 300, (2, 1500))
    y = (x[:, :2] > 0.5).astype(float) if kind is RAPNodeClassifier else x[:, :2] + 5
    y[rng.random(y.shape) < 0.3] = np.nan
    rows = {"train": np.arange(150), "val": np.arange(150, 220), "test": np.arange(220, 300)}
    task = "classification" if kind is RAPNodeClassifier else "regression"
    graph = make_graph(x, edges, y, **rows, task=task)
    known = KnownLabels.of(graph)
    columns = known.columns(graph, ZERO)
    gaps = np.isnan(y[:150])
    mean = np.nanmean(y[:150], axis=0)
    wanted = np.where(gaps, 0.0, np.where(gaps, 0.0, y[:150]) - mean)
    assert np.allclose(columns[:150].numpy(), wanted, atol=1e-5)
    assert not columns[150:].any()
    model = kind(search=False, known_labels=2).fit_graph(graph)
    predict = model.predict_proba if kind is RAPNodeClassifier else model.predict
    model.save(tmp_path)
    loaded = kind.load(tmp_path)
    again = loaded.predict_proba if kind is RAPNodeClassifier else loaded.predict
    assert np.isfinite(predict(graph)).all()
    assert np.array_equal(again(graph), predict(graph))
