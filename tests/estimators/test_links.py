"""Links by scikit-learn's contract: what goes in, what comes out, and that nothing hidden is seen."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from torch_geometric.data import Data

from rapgnn import InputError, RAPLinkPredictor, load_model
from rapgnn.graph.typed import NodeType
from rapgnn.pairs.links import Links
from rapgnn.pairs.measures import hits, measured
from rapgnn.pairs.model import LinkSettings, _examples, _start

FAST = {"search": False}


def communities(n: int = 120, seed: int = 0) -> nx.Graph:
    return nx.planted_partition_graph(4, n // 4, 0.4, 0.01, seed=seed)


def both_ways(ends: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([ends, ends[:, ::-1]]).T.copy())


@pytest.fixture(scope="module")
def fitted() -> tuple[RAPLinkPredictor, Data, np.ndarray]:
    """A model of most links of a graph with communities, its graph, and the links that it does not know."""
    graph = communities()
    ends = np.random.default_rng(0).permutation(np.array(graph.edges))
    x = np.eye(4, dtype=np.float32)[np.arange(120) // 30] + np.random.default_rng(1).normal(size=(120, 4)) * 0.3
    data = Data(x=torch.tensor(x, dtype=torch.float32), edge_index=both_ways(ends[60:]))
    return RAPLinkPredictor().fit(data), data, ends[:60]


def test_hidden_links_are_likelier_than_other_pairs(fitted):
    model, _, hidden = fitted
    found = model.evaluate(hidden, k=10)
    assert found["rocauc"] > 0.75
    assert found["recall@10"] > 0.15
    assert set(model.classes_) == {0, 1}
    assert model.trials_[-1]["head"] == "average"


def test_scores_are_symmetric_and_the_same_in_parts(fitted):
    model, _, hidden = fitted
    whole = model.predict_proba(hidden)
    assert (whole == model.predict_proba(hidden[:, ::-1].copy())).all()
    np.testing.assert_allclose(whole.sum(1), 1)
    np.testing.assert_allclose(whole[7:20], model.predict_proba(hidden[7:20]), rtol=1e-6)
    assert model.predict_proba(hidden[:0]).shape == (0, 2)
    assert (model.predict(hidden) == (whole[:, 1] > 0.5)).all()


def test_a_saved_model_gives_the_same(fitted, tmp_path):
    model, data, hidden = fitted
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert isinstance(again, RAPLinkPredictor)
    assert (again.predict_proba(hidden, data) == model.predict_proba(hidden)).all()
    assert not list((tmp_path / "model").glob("*.pkl"))
    with pytest.raises(InputError, match="data"):
        again.predict_proba(hidden)


def test_recommendations_are_new_and_ordered(fitted):
    model, data, hidden = fitted
    table = model.recommend([3, 50], k=5)
    assert list(table) == ["node", "rank", "neighbour", "score"]
    assert table["rank"].tolist() == [1, 2, 3, 4, 5] * 2
    known = set(map(tuple, data.edge_index.T.tolist()))
    assert not known & set(zip(table["node"], table["neighbour"], strict=True))
    assert (table["node"] != table["neighbour"]).all()
    assert table.groupby("node")["score"].apply(lambda s: s.is_monotonic_decreasing).all()
    pairs = table[["node", "neighbour"]].to_numpy()
    np.testing.assert_allclose(model.predict_proba(pairs)[:, 1], table["score"], rtol=1e-5)
    rest = [v for v in range(120) if v != 3 and (3, v) not in known]
    best = max(model.predict_proba(np.array([[3, v] for v in rest]))[:, 1])
    assert table["score"][0] == pytest.approx(best, rel=1e-5)
    assert set(hidden[:, 0]) - {3, 50}


def test_a_graph_without_signal_stays_at_chance():
    links = np.array(nx.gnm_random_graph(150, 700, seed=3).edges)
    hidden, rest = links[::4], np.delete(links, np.s_[::4], axis=0)
    x = np.random.default_rng(0).normal(size=(150, 6))
    model = RAPLinkPredictor(negatives="random").fit(x, edge_index=both_ways(rest))
    found = model.evaluate(hidden)
    assert abs(found["rocauc"] - 0.5) < 0.08
    assert abs(model.validation_score_ - 0.5) < 0.15


def test_no_pair_is_described_by_its_own_link():
    """Disjoint links: with its own link a pair would stand out at once, without it all pairs look alike."""
    ends = torch.arange(200).view(-1, 2)
    links, how = Links.of(200, ends, None, False), LinkSettings(negatives="random")
    model = _start(links, None, how, 0)
    examples = _examples(model, links, links, None, how, 0)
    mine, others = examples.columns[examples.y == 1], examples.columns[examples.y == 0]
    walks = [place for place, name in enumerate(model.columns) if name.startswith(("walks", "common", "cosine of w"))]
    assert not mine[:, walks].any()
    assert others[:, walks].abs().sum() == 0
    leak = model.on(links, None).features.columns(ends)  # planted: the graph has the links that it describes
    assert leak[:, walks].any()


def test_later_and_judging_links_move_nothing_that_teaches():
    graph = np.array(communities(80).edges)
    order = np.random.default_rng(1).permutation(len(graph))
    times = np.arange(len(graph), dtype=float)[order]
    table = pd.DataFrame({"source": graph[:, 0], "target": graph[:, 1], "when": times})
    model = RAPLinkPredictor(**FAST).fit(None, edges=table, time="when")
    late = table["when"] >= table["when"].quantile(0.9)
    moved = table.copy()
    moved.loc[late, "target"] = np.random.default_rng(2).permutation(moved.loc[late, "target"])
    other = RAPLinkPredictor(**FAST).fit(None, edges=moved, time="when")
    assert model.trials_[0] != other.trials_[0]
    days = table.assign(when=pd.to_datetime("2024-01-01") + pd.to_timedelta(table["when"], unit="D"))
    same = RAPLinkPredictor(**FAST).fit(None, edges=days, time="when")
    assert same.trials_ == model.trials_


@pytest.mark.parametrize("numbered", [True, False])
def test_users_and_items_are_recommended_to_each_other(numbered):
    draw = np.random.default_rng(0)
    user = np.repeat(np.arange(40), 8)
    item = (user % 4) * 6 + draw.integers(6, size=len(user))
    table = (
        pd.DataFrame({"source": user, "target": 100 + item})
        if numbered
        else pd.DataFrame({"source": [f"a{u}" for u in user], "target": [f"b{i}" for i in item]})
    )
    model = RAPLinkPredictor(**FAST).fit(None, edges=table)
    assert model.on_.links.bipartite
    node = table["source"][0]
    found = model.recommend([node], k=30)
    assert set(found["neighbour"]) <= set(table["target"])
    assert not set(found["neighbour"]) & set(table.loc[table["source"] == node, "target"])


def test_directed_links_may_differ_by_direction():
    ends = np.array([(i, j) for i in range(60) for j in (i + 1, i + 2, i + 5) if j < 60])
    model = RAPLinkPredictor(**FAST).fit(None, edge_index=ends.T, directed=True)
    assert model.model_.config.directed
    hidden = np.array([[i, i + 3] for i in range(0, 56, 3)])
    there, back = model.predict_proba(hidden)[:, 1], model.predict_proba(hidden[:, ::-1].copy())[:, 1]
    assert there.mean() > back.mean()
    assert (there != back).any()


def test_what_a_graph_may_lack():
    ring = np.array([(i, (i + 1) % 9) for i in range(9)])
    isolated = RAPLinkPredictor(**FAST).fit(Data(edge_index=both_ways(ring), num_nodes=12))
    assert np.isfinite(isolated.predict_proba([[0, 11], [10, 11], [0, 4]])).all()
    assert len(isolated.recommend([11], k=3)) == 3
    two = RAPLinkPredictor(**FAST).fit(Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2))
    assert np.isfinite(two.predict_proba([[0, 1]])).all()
    weighted = RAPLinkPredictor(**FAST).fit(
        Data(edge_index=both_ways(ring), edge_weight=torch.rand(18, generator=torch.Generator().manual_seed(0)))
    )
    assert np.isfinite(weighted.predict_proba(ring)).all()
    for data in (Data(edge_index=torch.zeros(2, 0, dtype=torch.int64), num_nodes=1), nx.empty_graph(5)):
        with pytest.raises(InputError, match="no links"):
            RAPLinkPredictor().fit(data)


def test_new_nodes_and_ids_at_prediction():
    graph = nx.relabel_nodes(communities(80), lambda i: f"n{i}")
    model = RAPLinkPredictor(**FAST).fit(graph)
    larger = graph.copy()
    larger.add_edges_from([("new", f"n{i}") for i in range(5)])
    pairs = pd.DataFrame({"from": ["new", "new"], "to": ["n10", "n70"]})
    near, far = model.predict_proba(pairs, larger)[:, 1]
    assert near > far
    assert model.recommend(["new"], 3, larger)["node"].tolist() == ["new"] * 3


def test_nodes_may_be_numbered_anew():
    graph = np.array(communities(80).edges)
    hidden, rest = graph[:30], graph[30:]
    order = np.random.default_rng(3).permutation(80)
    model = RAPLinkPredictor(**FAST).fit(Data(edge_index=both_ways(rest), num_nodes=80))
    renamed = Data(edge_index=both_ways(order[rest]), num_nodes=80)
    np.testing.assert_allclose(
        model.predict_proba(order[hidden], renamed)[:, 1], model.predict_proba(hidden)[:, 1], atol=0.02
    )


def test_refusals(fitted):
    model, data, hidden = fitted
    for pairs, word in (([[0, 500]], "node numbers"), ([0, 1], "shape"), ([[0.5, 1.0]], "whole")):
        with pytest.raises(InputError, match=word):
            model.predict_proba(pairs)
    with pytest.raises(InputError, match="no node"):
        model.recommend([999])
    with pytest.raises(InputError, match="features"):
        model.predict_proba(hidden, Data(x=torch.ones(5, 2), edge_index=torch.tensor([[0], [1]])))
    with pytest.raises(InputError, match="leave it out"):
        model.evaluate(data.edge_index.T[:3])
    with pytest.raises(InputError, match="0 or 1"):
        model.evaluate(hidden, np.full(len(hidden), 2))
    with pytest.raises(InputError, match="negatives"):
        RAPLinkPredictor(negatives="easy").fit(data)
    with pytest.raises(InputError, match="not fitted"):
        RAPLinkPredictor().predict_proba(hidden)
    assert clone(RAPLinkPredictor(seed=3)).get_params()["seed"] == 3


def test_measures():
    assert hits(np.array([3.0, 1.0]), np.array([0.0, 2.0, 2.5]), 1) == 0.5
    found = measured(
        torch.tensor([0, 4]), torch.tensor([[0, 7], [4, 2], [4, 3]]), np.array([0, 0, 4, 4]), np.array([5, 7, 2, 9]), 2
    )
    assert found["mrr"] == pytest.approx(0.75)
    assert found["recall@2"] == pytest.approx(0.75)


def test_links_that_judged_are_found_again_and_are_in_no_hop(fitted, tmp_path):
    model, data, _ = fitted
    split, on, links = model.hidden()
    assert split == "val"
    assert len(links) == int(0.1 * len(model.on_.links.ends))
    assert not on.links.contains(links).any()
    assert len(on.links.ends) + len(links) == len(model.on_.links.ends)
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert torch.equal(again.hidden(data)[2], links)
    assert again.evaluate(data=data) == model.evaluate()
    with pytest.raises(InputError, match="no link that judged"):
        again.hidden(Data(x=data.x, edge_index=torch.tensor([[0, 119], [119, 0]])))


def test_links_to_judge_by_teach_nothing():
    ends = np.random.default_rng(0).permutation(np.array(communities(80).edges))
    data = Data(edge_index=both_ways(ends[60:]), num_nodes=80)
    one, other = (RAPLinkPredictor(**FAST).fit(data, validation=ends[part]) for part in (np.s_[:30], np.s_[30:60]))
    pairs = ends[:60]
    scores = [model.on_.features.columns(torch.from_numpy(pairs)) for model in (one, other)]
    assert torch.equal(*scores)
    assert not one.on_.links.contains(torch.from_numpy(pairs)).any()


def shop(seed: int = 0):
    """Users who buy what suits their taste, and know each other by taste; a fifth of what they buy is hidden."""
    rng, users, items = np.random.default_rng(seed), 200, 80
    taste, kind = rng.integers(0, 4, users), rng.integers(0, 4, items)
    buys = [(u, rng.choice(np.flatnonzero(kind == taste[u]))) for u in range(users)]
    knows = [(u, rng.choice(np.flatnonzero(taste == taste[u]))) for u in range(users) for _ in range(4)]
    pairs = np.unique(buys, axis=0)
    hidden = rng.random(len(pairs)) < 0.2
    nodes = {
        "user": NodeType(count=users, ids=np.arange(users) + 5),
        "item": NodeType(count=items, ids=np.array([f"i{i}" for i in range(items)])),
    }
    edges = {("user", "buys", "item"): pairs[~hidden].T, ("user", "knows", "user"): np.array(knows).T}
    names = pd.DataFrame({"user": pairs[hidden, 0] + 5, "item": [f"i{i}" for i in pairs[hidden, 1]]})
    return nodes | edges, names


def test_other_relations_tell_which_links_are_missing(tmp_path):
    data, hidden = shop()
    buys = ("user", "buys", "item")
    model = RAPLinkPredictor(relation=buys, **FAST).fit(data)
    alone = RAPLinkPredictor(relation=buys, **FAST).fit({k: v for k, v in data.items() if k[1] != "knows"})
    assert model.evaluate(hidden)["rocauc"] > alone.evaluate(hidden)["rocauc"] + 0.03
    table = model.recommend([5, 7], k=3)
    assert table.node.tolist() == [5, 5, 5, 7, 7, 7]
    assert table.neighbour.str.startswith("i").all()
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    np.testing.assert_allclose(again.predict_proba(hidden, data), model.predict_proba(hidden), rtol=1e-5)
    assert RAPLinkPredictor(relation=("user", "knows", "user"), **FAST).fit(data).graph_.num_nodes == 200


def test_the_links_themselves_describe_no_node():
    data, _ = shop()
    buys = ("user", "buys", "item")
    fewer = data | {buys: data[buys][:, ::2]}
    one, other = (RAPLinkPredictor(relation=buys, **FAST).fit(given).graph_ for given in (data, fewer))
    assert torch.equal(one.x, other.x)


def test_relations_that_are_none_are_refused():
    data, _ = shop()
    with pytest.raises(InputError, match="no relation 'user eats item'"):
        RAPLinkPredictor(relation=("user", "eats", "item"), **FAST).fit(data)
    with pytest.raises(InputError, match="relation is for graphs with types"):
        RAPLinkPredictor(relation=("n", "to", "n"), **FAST).fit(communities())
    with pytest.raises(InputError, match="relation="):
        RAPLinkPredictor(**FAST).fit(data)
