"""Walks over relations against dense matrices; no row sees its own label, or the future."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from rapgnn import InputError, RAPNodeClassifier, RAPNodeRegressor
from rapgnn.graph.relations import ALSO, BESIDE, Types
from rapgnn.graph.typed import NodeType, Relation, typed_graph
from rapgnn.network.known_labels import KnownLabels
from rapgnn.network.network import HopNetwork
from rapgnn.network.typed import StoredHops, TypeColumns, TypedHops
from rapgnn.search.candidate import Candidate
from rapgnn.search.start import HOPS

COUNTS = {"paper": 30, "author": 12, "term": 9, "venue": 3}
WEIGHTED = ("cites",)


def types_of(graph) -> Types:
    assert graph.typed is not None
    return graph.typed


def random_graph(seed: int = 0, timed: bool = False, **changes):
    """Papers, authors, terms without features, venues that no edge reaches, a relation without edges."""
    rng = np.random.default_rng(seed)
    shape = {"writes": ("author", "paper", 40), "has": ("paper", "term", 50), "cites": ("paper", "paper", 45)}
    relations = [Relation("paper", "in", "venue", np.zeros((2, 0), dtype=np.int64))]
    for name, (source, target, m) in shape.items():
        ends = np.stack([rng.integers(0, COUNTS[source] - 1, m), rng.integers(0, COUNTS[target], m)])
        weight = rng.uniform(0.5, 2, m) if name in WEIGHTED else None
        time = rng.uniform(0, 10, m) if timed and name == "cites" else None
        relations.append(Relation(source, name, target, ends, weight, time))
    types = {"paper": NodeType(x=rng.standard_normal((30, 4))), "author": NodeType(x=rng.standard_normal((12, 3)))}
    types |= {"term": NodeType(count=9), "venue": NodeType(x=rng.standard_normal((3, 2)))}
    if timed:
        types = {name: replace(one, time=rng.uniform(0, 10, COUNTS[name])) for name, one in types.items()}
    split = {"train": np.arange(18), "val": np.arange(18, 24), "test": np.arange(24, 30)}
    given = {"y": rng.integers(0, 3, 30)} | (split if not timed else {}) | changes
    return typed_graph(types, relations, "paper", **given)


def dense_step(types: Types, walk: list[str], backbone: str, until: float | None = None) -> np.ndarray:
    """S of one step over all nodes of all types, by loops."""
    place, total = {}, 0
    for name, count in types.counts.items():
        place[name], total = total, total + count
    S = np.zeros((total, total))
    for key in walk:
        one = types.relation(key)
        A = np.zeros((types.counts[one.target], types.counts[one.source]))
        for i, (u, v) in enumerate(one.edge_index.T):
            if until is None or one.time is None or one.time[i] <= until:
                A[v, u] += 1 if one.weight is None else one.weight[i]
        received = sum(types.relation(other).target == one.target for other in walk)
        sent = sum(types.relation(other).source == one.source for other in walk)
        rows, columns = (np.maximum(A.sum(axis, keepdims=True), 1e-9) for axis in (1, 0))
        A = A / rows / received if backbone == "sage" else A / np.sqrt(rows * columns * received * sent)
        S[place[one.target] :, place[one.source] :][: A.shape[0], : A.shape[1]] += A
    return S


def dense_joined(graph, config) -> np.ndarray:
    """What is joined, by dense matrices over all nodes."""
    types = types_of(graph)
    columns = TypeColumns(types.described(), config, 0)
    columns.fit(types, graph.train)
    starts = np.cumsum([0, *types.counts.values()])
    first = dict(zip(types.counts, starts, strict=False))
    found = np.zeros((types.counts["paper"], columns.joined_width(config)))
    for until, rows in types.snapshots():
        parts = []
        steps = [dense_step(types, list(walk), config.backbone, until) for walk in columns.walks]
        for walk, k, one in columns.blocks(config):
            z = np.zeros((starts[-1], one.width))
            x = columns(types, until)[columns.starts.index(one)].numpy()
            z[first[one.type] : first[one.type] + len(x)] = x
            powers = [np.linalg.matrix_power(steps[walk], i) @ z for i in range(k + 1)]
            if config.jumping == "ppr":
                a = config.teleport
                powers = [sum(a * (1 - a) ** i * hop for i, hop in enumerate(powers))]
            parts.append(powers[-1][: types.counts["paper"]])
        found[rows] = np.concatenate(parts, axis=1)[rows]
    return found


EVERY = ALSO.join(one.key for one in types_of(random_graph()).relations)
WALKS = {
    "every": EVERY,
    "one": "author writes paper + paper rev_writes author",
    "beside": BESIDE.join(["author writes paper", "paper has term + term rev_has paper"]),
    "empty": "venue rev_in paper + paper in venue + paper cites paper",
}


@pytest.mark.parametrize(("timed", "backbone"), [(False, "gcn"), (False, "sage"), (True, "sage")])
@pytest.mark.parametrize("walks", WALKS)
@pytest.mark.parametrize(("jumping", "depth"), [("cat", 3), ("ppr", 4), ("last", 2)])
def test_hops_are_those_of_dense_matrices(timed, walks, backbone, jumping, depth):
    graph = random_graph(timed=timed)
    config = HOPS.update(
        relations=WALKS[walks], backbone=backbone, jumping=jumping, num_layers=depth, degree_columns=True
    )
    columns = TypeColumns(types_of(graph).described(), config, 0)
    columns.fit(types_of(graph), graph.train)
    found = TypedHops(graph, columns, config).joined(config).numpy()
    wanted = dense_joined(graph, config)
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() < 1e-5 * max(1.0, np.abs(wanted).max())


@pytest.mark.parametrize("timed", [False, True])
def test_networks_share_what_they_walk_and_nothing_else(timed):
    """Each asks after others have, for more steps and fewer, other columns, and what has gone in between."""
    graph = random_graph(timed=timed)
    base = HOPS.update(relations=EVERY, backbone="sage", jumping="ppr", num_layers=4)
    asked = [base, base.update(num_layers=2), base.update(num_layers=6, jumping="cat"), base.update(half_life=2.0)]
    asked += [base.update(degree_columns=True), base.update(relations=WALKS["one"]), base.update(num_layers=5)]
    for config in [*asked, *asked]:
        alone = random_graph(timed=timed)
        columns = TypeColumns(types_of(alone).described(), config, 0)
        columns.fit(types_of(alone), alone.train)
        wanted = TypedHops(alone, columns, config).joined(config)
        assert torch.equal(TypedHops(graph, columns, config).joined(config), wanted)
        assert torch.equal(TypedHops(graph, columns, config).joined(config, torch.tensor([3, 1])), wanted[[3, 1]])
    columns.parts[0].standard.scale.mul_(2)  # the same types, another model
    assert not torch.equal(TypedHops(graph, columns, asked[-1]).joined(asked[-1]), wanted)


def test_of_many_hops_those_that_were_asked_for_longest_ago_go(monkeypatch):
    monkeypatch.setattr("rapgnn.network.typed.STORED", 100)
    stored = StoredHops()
    for name in ("a", "b"):
        stored.put(name, [torch.zeros(10), None])
    stored.get("a")
    stored.put("c", [torch.zeros(10)])
    assert [bool(stored.get(name)) for name in ("a", "b", "c")] == [True, False, True]
    stored.put("d", [torch.zeros(1000)])
    assert [bool(stored.get(name)) for name in ("a", "c", "d")] == [False, False, True]


@pytest.mark.parametrize("backbone", ["gcn", "sage"])
def test_moments_of_random_coefficients_are_those_of_many_draws_layer_by_layer(backbone):
    graph, depth, draws = random_graph(), 3, 4000
    types, rng = types_of(graph), np.random.default_rng(0)
    walk = "author writes paper + paper rev_writes author + paper cites paper"
    config = HOPS.update(relations=walk, backbone=backbone, coefficients="random", jumping="last", num_layers=depth)
    columns = TypeColumns(types.described(), config, 0)
    columns.fit(types, graph.train)
    steps = []
    for key in walk.split(ALSO):  # S of each relation alone, as it is in the sum of all
        rest = [other for other in walk.split(ALSO) if other != key]
        steps.append(dense_step(types, walk.split(ALSO), backbone) - _rest(types, walk.split(ALSO), rest, backbone))
    z, first = np.zeros((sum(types.counts.values()), columns.width)), {"paper": 0, "author": 30}
    place = 0
    for one, x in zip(columns.starts, columns(types), strict=True):
        z[first[one.type] : first[one.type] + len(x), place : place + one.width] = x.numpy()
        place += one.width
    h = np.broadcast_to(z, (draws, *z.shape))
    for _ in range(depth):
        drawn = rng.random((len(steps), draws, 1, z.shape[1]))
        h = (h + sum(a * (S @ h) for a, S in zip(drawn, steps, strict=True))) / 1.5
    h = h[:, :30]
    hops = TypedHops(graph, columns, config)
    mean, variance = hops.joined(config).numpy(), hops.variance(config, torch.arange(30)).numpy()
    assert np.abs(mean - h.mean(0)).max() < 6 * h.std(0).max() / draws**0.5
    assert np.abs(variance - h.var(0)).max() < 0.1 * variance.max()
    model = RAPNodeClassifier(search=False, settings={"coefficients": "random", "relations": walk}).fit_graph(graph)
    assert np.isfinite(model.predict_proba(graph)).all()


def _rest(types: Types, walk: list[str], rest: list[str], backbone: str) -> np.ndarray:
    """The blocks of a step over some relations, scaled as in the step over all."""
    S, found = dense_step(types, walk, backbone), np.zeros((54, 54))
    place = dict(zip(types.counts, np.cumsum([0, *types.counts.values()]), strict=False))
    for one in map(types.relation, rest):
        block = np.ix_(place[one.target] + np.arange(types.counts[one.target]),
                       place[one.source] + np.arange(types.counts[one.source]))  # fmt: skip
        found[block] = S[block]
    return found


@pytest.mark.parametrize("walks", ["every", "beside", "one"])
@pytest.mark.parametrize("backbone", ["gcn", "sage"])
def test_no_row_sees_its_own_label(walks, backbone):
    graph = random_graph()
    types = types_of(graph)
    config = HOPS.update(relations=WALKS[walks], backbone=backbone, known_labels=2)
    columns = TypeColumns(types.described(), config, 0)
    found = TypedHops(graph, columns, config).labels(graph, KnownLabels.of(graph), 2)
    assert len(found) == columns.label_hops(2)
    wanted = []
    for walk in columns.walks:
        S = dense_step(types, list(walk), backbone)
        for k in columns.label_steps(walk, 2):
            power = np.linalg.matrix_power(S, k)[:30, :30].copy()
            np.fill_diagonal(power, 0)
            y = np.zeros((30, 3))
            y[graph.train, graph.y[graph.train]] = 1
            wanted.append(power @ y)
    for hop, by_hand in zip(found, wanted, strict=True):
        assert np.abs(hop.numpy() - by_hand).max() < 1e-5


def test_another_own_label_changes_nothing_in_a_row():
    graph = random_graph()
    net = Candidate(graph, HOPS.update(relations=EVERY, known_labels=2), 0, {}).network
    assert isinstance(net, HopNetwork)
    assert net.known is not None
    row = graph.train[:1]
    before = net.represent(graph, row)
    net.known.y[0] = (net.known.y[0] + 1) % 3
    assert torch.allclose(before, net.represent(graph, row), atol=1e-5)
    others = net.represent(graph, graph.train[1:])
    net.known.y[0] = (net.known.y[0] + 1) % 3
    assert not torch.allclose(others, net.represent(graph, graph.train[1:]), atol=1e-3)


def test_labels_come_back_from_the_farthest_type():
    """People and what they bought are three steps apart, so that labels need six."""
    rng, n, m = np.random.default_rng(0), 200, 600
    y, kind, buyer = rng.integers(0, 2, n), rng.integers(0, 2, 30), rng.integers(0, n, m)
    thing = np.array([rng.choice(np.flatnonzero(kind == y[b])) for b in buyer])
    types = {"person": NodeType(count=n), "buy": NodeType(count=m), "line": NodeType(count=m)}
    rows = np.arange(m)
    relations = [Relation("buy", "by", "person", np.stack([rows, buyer]))]
    relations += [Relation("line", "in", "buy", np.stack([rows, rows]))]
    relations += [Relation("line", "of", "thing", np.stack([rows, thing]))]
    graph = typed_graph(types | {"thing": NodeType(count=30)}, relations, "person", y=y)
    every = ALSO.join(one.key for one in types_of(graph).relations)
    config = HOPS.update(relations=every, backbone="sage", known_labels=1)
    columns = TypeColumns(types_of(graph).described(), config, 0)
    assert columns.label_steps(columns.walks[0], 1) == [2, 4, 6]
    hops = TypedHops(graph, columns, config)
    power = np.linalg.matrix_power(dense_step(types_of(graph), every.split(ALSO), "sage"), 6)[:n, :n]
    assert np.abs(hops._returns(0, 6)[6].numpy() - np.diag(power)).max() < 1e-9
    last = hops.labels(graph, KnownLabels.of(graph), 1)[2]
    test = graph.test.numpy()
    assert (last.argmax(1).numpy()[test] == y[test]).mean() > 0.9


def test_nodes_of_one_community_are_in_one_place():
    rng, n = np.random.default_rng(0), 120
    y, home = np.arange(n) % 2, np.arange(40) % 2
    ends = np.array([[i, rng.choice(np.flatnonzero(home == (y[i] if rng.random() < 0.9 else 1 - y[i])))]
                     for i in range(n) for _ in range(4)]).T  # fmt: skip
    graph = typed_graph({"a": NodeType(count=n), "b": NodeType(count=40)}, [Relation("a", "r", "b", ends)], "a", y=y)
    config = HOPS.update(relations="a r b + b rev_r a", node_columns=2, num_layers=0)
    columns = TypeColumns(types_of(graph).described(), config, 0)
    columns.fit(types_of(graph), graph.train)
    assert columns.places is not None
    place = columns.places(types_of(graph))[:, 1].numpy()
    assert np.mean((place > 0) == (y > 0)) in (pytest.approx(0.0, abs=0.1), pytest.approx(1.0, abs=0.1))
    assert not columns.knows(types_of(typed_graph(
        {"a": NodeType(count=n + 1), "b": NodeType(count=41)}, [Relation("a", "r", "b", ends)], "a", y=[*y, 0]
    )))  # fmt: skip


def test_anchors_are_the_logarithm_of_personalised_pagerank():
    graph = random_graph()
    types = types_of(graph)
    config = HOPS.update(relations=EVERY, anchors=20, backbone="sage", jumping="ppr", num_layers=5)
    columns = TypeColumns(types.described(), config, 0)
    columns.fit(types, graph.train)
    assert set(columns.anchors[: len(graph.train)].tolist()) == set(graph.train.tolist())
    S, a = dense_step(types, EVERY.split(ALSO), "sage"), config.teleport
    pagerank = sum(a * (1 - a) ** k * np.linalg.matrix_power(S, k) for k in range(6))
    wanted = np.log1p(len(S) * pagerank[:30][:, columns.anchors.numpy()])
    assert np.abs(TypedHops(graph, columns, config).joined(config).numpy() - wanted).max() < 1e-4


@pytest.mark.parametrize(
    "settings", [{"anchors": 60, "jumping": "ppr", "num_layers": 8}, {"node_columns": 20}], ids=str
)
def test_nodes_that_came_later_are_near_those_that_were_there(settings):
    rng, old, new = np.random.default_rng(3), 150, 30
    y, home = rng.integers(0, 2, old + new), np.arange(20) % 2

    def graph(first: int, last: int):
        """People, what they bought, and of what kind: the kinds alone are in both graphs."""
        rows = np.arange(last - first)
        kind = np.array([rng.choice(np.flatnonzero(home == y[i])) for i in range(first, last)])
        ids = {"person": np.arange(first, last), "buy": np.arange(first, last) + 1000, "kind": np.arange(20)}
        types = {name: NodeType(count=len(one), ids=one.astype(str)) for name, one in ids.items()}
        edges = [Relation("person", "made", "buy", np.stack([rows, rows]))]
        edges.append(Relation("buy", "of", "kind", np.stack([rows, kind])))
        return typed_graph(types, edges, "person", y=y[first:last])

    if "anchors" in settings:  # of which some must be there
        later, wanted = graph(old - 60, old + new), y[old - 60 :]
    else:
        later, wanted = graph(old, old + new), y[old:]
    walk = ALSO.join(one.key for one in types_of(later).relations)
    model = RAPNodeClassifier(search=False, settings={"relations": walk, **settings}).fit_graph(graph(0, old))
    assert (model.predict(later)[-new:] == wanted[-new:]).mean() > 0.9


def test_facts_after_a_row_move_no_prediction():
    rng, n = np.random.default_rng(1), 300
    time = np.sort(rng.uniform(0, 10, n)).round()
    customer, at = rng.integers(0, 40, n), np.sort(rng.uniform(0, 10, 600))
    about, says = rng.integers(0, 40, 600), rng.standard_normal(600)
    y = (np.bincount(about[at < 3], says[at < 3], 40) > 0)[customer].astype(int)

    def fitted(late: float):
        orders = pd.DataFrame({"price": rng0.standard_normal(n)})
        reviews = pd.DataFrame({"stars": np.where(at > 7, late * says, says)})
        whose = np.where(at > 7, about * int(late) % 40, about)
        edges = [
            Relation("order", "of", "customer", np.stack([np.arange(n), customer])),
            Relation("review", "by", "customer", np.stack([np.arange(600), whose])),
        ]
        types = {
            "order": NodeType(columns=orders, time=time),
            "customer": NodeType(count=40),
            "review": NodeType(columns=reviews, time=at),
        }
        split = {"train": time < 5, "val": (time >= 5) & (time < 6), "test": time >= 6}
        graph = typed_graph(types, edges, "order", y=y, **split)
        model = RAPNodeClassifier(settings={"jumping": "cat"}).fit_graph(graph)
        assert any(trial.settings["half_life"] for trial in model.trials_)
        return model.predict_proba(graph), graph

    rng0 = np.random.default_rng(2)
    before, graph = fitted(1.0)
    rng0 = np.random.default_rng(2)
    after, _ = fitted(5.0)
    assert np.array_equal(before[time <= 7], after[time <= 7])
    assert not np.array_equal(before[time > 7.5], after[time > 7.5])
    assert any("points in time" in note for note in graph.notes)


def test_older_facts_count_less():
    types = types_of(random_graph(timed=True))
    one = types.relation("paper cites paper")
    wanted = np.zeros((30, 30))
    for (u, v), weight, time in zip(one.edge_index.T, one.weight, one.time, strict=True):
        wanted[v, u] += weight * 2 ** (-(6.0 - time) / (1.5 * types.step)) if time <= 6.0 else 0.0
    assert np.allclose(types.adjacency(one.key, 6.0, 1.5).toarray(), wanted)
    rng, n = np.random.default_rng(0), 240  # the last fact of each shop decides
    time, shop = np.sort(rng.uniform(0, 10, n)), rng.integers(0, 8, n)
    said = rng.integers(0, 2, (8, 11))
    facts = {"fact": NodeType(columns=pd.DataFrame({"x": said.ravel() * 1.0}), time=np.tile(np.arange(11.0), 8))}
    edges = [Relation("visit", "at", "shop", np.stack([np.arange(n), shop]))]
    edges.append(Relation("fact", "of", "shop", np.stack([np.arange(88), np.repeat(np.arange(8), 11)])))
    rows = {"visit": NodeType(count=n, time=time), "shop": NodeType(count=8)}
    graph = typed_graph(rows | facts, edges, "visit", y=said[shop, time.astype(int)])
    walk, scores = ALSO.join(one.key for one in types_of(graph).relations), []
    for life in (0.0, 1.0):
        settings = {"relations": walk, "half_life": life, "jumping": "cat", "num_layers": 2}
        model = RAPNodeClassifier(search=False, settings=settings).fit_graph(graph)
        scores.append((model.predict(graph)[graph.test] == graph.y[graph.test].numpy()).mean())
    assert scores[1] > scores[0] + 0.1


def hetero(seed: int = 0, n: int = 160):
    """Labels that one relation carries, and features that say nothing."""
    rng = np.random.default_rng(seed)
    y, home = rng.integers(0, 2, n), np.arange(30) % 2
    ends = np.array([[i, rng.choice(np.flatnonzero(home == y[i]))] for i in range(n) for _ in range(3)]).T
    noise = np.stack([np.repeat(np.arange(n), 2), rng.integers(0, 25, 2 * n)])
    nodes = {"paper": rng.standard_normal((n, 5)), "author": 30, "term": 25}
    return {**nodes, ("paper", "by", "author"): ends, ("paper", "has", "term"): noise}, y


def test_estimators_take_types_and_models_keep_them(tmp_path):
    data, y = hetero()
    known = np.where(np.arange(len(y)) < 100, y, -1)
    model = RAPNodeClassifier().fit(data, known, target="paper")
    assert (model.predict(data)[100:] == y[100:]).mean() > 0.9
    model.save(tmp_path / "model")
    assert np.array_equal(RAPNodeClassifier.load(tmp_path / "model").predict_proba(data), model.predict_proba(data))
    with pytest.raises(InputError, match="features of paper"):
        model.predict({**data, "paper": 160})
    numbers = RAPNodeRegressor(time_budget=2.0).fit(data, y + 0.5, target="paper", train=np.arange(120))
    assert numbers.predict(data).shape == (160,)


def test_a_graph_of_one_type_and_relation_is_a_graph_without_types():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((80, 6)), rng.integers(0, 2, 80)
    edges, split = rng.integers(0, 80, (2, 200)), {"train": np.arange(50), "val": np.arange(50, 65)}
    typed = RAPNodeClassifier().fit({"n": x, ("n", "to", "n"): edges}, y, **split)
    plain = RAPNodeClassifier().fit(x, y, edge_index=edges, **split)
    found = typed.predict_proba({"n": x, ("n", "to", "n"): edges})
    assert np.abs(found - plain.predict_proba(x, edge_index=edges)).max() < 1e-6


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ({"relations": "paper eats author"}, "no relation"),
        ({"relations": "paper has term + term rev_has paper", "self_loops": True}, "relations are walked"),
        ({"coefficients": "random", "jumping": "cat"}, "random coefficients along relations"),
    ],
)
def test_relations_that_are_none_are_refused(setting, reason):
    data, y = hetero()
    with pytest.raises(InputError, match=reason):
        RAPNodeClassifier(settings=setting).fit(data, y, target="paper")
