"""What describes a pair: exact counts, walks against dense powers, and links that are left out."""

import numpy as np
import pytest
import torch

from rapgnn.pairs.features import Described, PairFeatures
from rapgnn.pairs.links import Links
from rapgnn.pairs.model import LinkSettings, fit_links
from rapgnn.pairs.ridge import PairRidge
from rapgnn.pairs.splits import NEGATIVES, folds, held_out, negatives


def graph(n: int = 40, m: int = 90, directed: bool = False, seed: int = 0, weighted: bool = False) -> Links:
    draw = np.random.default_rng(seed)
    ends = torch.from_numpy(draw.integers(n - 2, size=(m, 2)))  # the last two nodes have no link
    return Links.of(n, ends, torch.from_numpy(draw.random(m)) + 0.1 if weighted else None, directed)


def some_pairs(n: int, count: int = 60) -> torch.Tensor:
    pairs = torch.from_numpy(np.random.default_rng(9).integers(n, size=(count, 2)))
    return pairs[pairs[:, 0] != pairs[:, 1]]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("most_steps", [0.0, 1e9], ids=["from both ends", "from one end"])
@pytest.mark.parametrize("border", [None, 10, 30])
def test_walks_are_powers_of_the_operator(most_steps, border, weighted, monkeypatch):
    links, pairs = graph(weighted=weighted), some_pairs(40)
    if border:  # users and items, more of the one or of the other
        ends, pairs = (torch.stack([each[:, 0] % border, border + each[:, 1] % 10], 1) for each in (links.ends, pairs))
        links = Links.of(40, ends, links.weight, False)
        assert links.bipartite
    monkeypatch.setattr("rapgnn.pairs.features.WALKED", 7)
    how = Described(hops=3, most_ends=1e9, most_steps=most_steps)
    S = links.operator().matrix.scipy().toarray()
    found = PairFeatures(links, None, how).walks(links.ordered(pairs))
    power, powers = S.astype(np.float64), []
    for _ in how.lengths:
        power = power @ S
        powers.append(power)
    u, v = pairs.T.numpy()
    np.testing.assert_allclose(found[: len(powers)].numpy(), [power[u, v] for power in powers], atol=1e-5)
    for power, cosines in zip(powers[::2], found[len(powers) :].numpy(), strict=True):
        root = np.sqrt(np.maximum(power[u, u] * power[v, v], 1e-12))
        np.testing.assert_allclose(cosines, power[u, v] / root, atol=1e-5)


def test_random_columns_estimate_walks_without_bias():
    links, pairs = graph(), some_pairs(40)
    exact = PairFeatures(links, None, Described(hops=2, most_ends=1e9)).walks(pairs)[:3]
    estimates = [
        PairFeatures(links, None, Described(hops=2, most_ends=0, most_steps=0, columns=32, seed=s)).walks(pairs)[:3]
        for s in range(40)
    ]
    mean, error = torch.stack(estimates).mean(0), torch.stack(estimates).std(0) / 40**0.5
    assert ((mean - exact).abs() < 4.5 * error + 1e-6).all()


@pytest.mark.parametrize("directed", [False, True])
def test_neighbours_are_counted_exactly(directed):
    import networkx as nx

    links, pairs = graph(directed=directed), some_pairs(40)
    features = PairFeatures(links, None, Described(hops=2))
    columns = features.columns(pairs)
    names = features.how.names(directed, False)
    assert columns.shape == (len(pairs), len(names))
    whole = nx.Graph()
    whole.add_nodes_from(range(40))
    whole.add_edges_from(links.ends.tolist())
    at = {name: columns[:, place].tolist() for place, name in enumerate(names)}
    listed = [tuple(pair) for pair in pairs.tolist()]
    assert at["common neighbours"] == [len(list(nx.common_neighbors(whole, *pair))) for pair in listed]
    expected = [value for *_, value in nx.resource_allocation_index(whole, listed)]
    np.testing.assert_allclose(at["resource allocation"], expected, rtol=1e-5)
    expected = [value for *_, value in nx.adamic_adar_index(whole, listed)]
    np.testing.assert_allclose(at["Adamic-Adar"], expected, rtol=1e-5)
    within = {node: part for part in nx.connected_components(whole) for node in part}
    assert at["the same component"] == [float(v in within[u]) for u, v in listed]
    assert 0 < sum(at["the same component"]) < len(listed)
    for name, pick in (("smaller component", min), ("larger component", max)):
        sizes = [pick(len(within[u]), len(within[v])) for u, v in listed]
        np.testing.assert_allclose(np.exp(at[name]), sizes, rtol=1e-5)
    if directed:
        one_way = nx.DiGraph(links.ends.tolist())
        assert at["reverse link"] == [float(one_way.has_edge(v, u)) for u, v in listed]


def test_blocks_change_nothing(monkeypatch):
    links, pairs = graph(), some_pairs(40)
    x = torch.randn(40, 5, generator=torch.Generator().manual_seed(0))
    how = Described(hops=3, most_ends=3.0, columns=48)
    whole = PairFeatures(links, x, how).columns(pairs)
    for name in ("PAIR_BLOCK", "COUNT_BLOCK"):
        monkeypatch.setattr(f"rapgnn.pairs.features.{name}", 7)
    torch.testing.assert_close(PairFeatures(links, x, how).columns(pairs), whole, atol=1e-5, rtol=1e-4)


def test_without_direction_a_pair_has_no_order():
    links, pairs = graph(), some_pairs(40)
    features = PairFeatures(links, torch.eye(40)[:, :6].contiguous(), Described(hops=2))
    assert torch.equal(features.columns(pairs), features.columns(pairs.flip(1)))


def test_the_bilinear_form_is_the_ridge_regression_of_all_pairs():
    links = graph(30, 70)
    h = torch.randn(30, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    ridge = PairRidge(4)
    parts = [links.ends[::2], links.ends[1::2]]
    factors = ridge.fit([h.float()] * 2, parts, [torch.ones(len(part)) for part in parts], both=True)
    A = torch.zeros(30, 30, dtype=torch.float64)
    A[links.ends[:, 0], links.ends[:, 1]] = 1
    z, pairs = h - h.mean(0), some_pairs(30)
    for place, penalty in enumerate((0.01, 0.1, 1.0, 10.0)):
        gram = 2 * z.T @ z
        inverse = torch.linalg.inv(gram + penalty * torch.linalg.eigvalsh(gram).mean() * torch.eye(4))
        expected = (z @ inverse @ z.T @ (A + A.T) @ z @ inverse @ z.T)[pairs[:, 0], pairs[:, 1]]
        found = ridge.scores(h.float(), pairs)[:, place].double()
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-6)
    alone = PairRidge(4)  # a fold's factors know the other fold alone
    alone.fit([h.float()] * 2, [parts[1], parts[1][:0]], [torch.ones(len(parts[1])), torch.ones(0)], both=True)
    torch.testing.assert_close(ridge.scores(h.float(), pairs, factors[0]), alone.scores(h.float(), pairs))


@pytest.mark.parametrize("kind", list(NEGATIVES))
@pytest.mark.parametrize("directed", [False, True])
def test_pairs_without_a_link_are_different_and_no_links(kind, directed):
    links = graph(directed=directed)
    drawn = negatives(links, 100, kind, 0)
    assert len(drawn) > 60
    assert not links.contains(drawn).any()
    assert (drawn[:, 0] != drawn[:, 1]).all()
    assert torch.equal(drawn, negatives(links, 100, kind, 0))
    users = Links.of(9, torch.tensor([[u, 4 + (u + step) % 5] for u in range(4) for step in (0, 1)]), None, False)
    assert users.bipartite
    drawn = negatives(users, 8, kind, 0)
    assert len(drawn)
    assert bool(((drawn[:, 0] < 4) & (drawn[:, 1] >= 4)).all())


def test_a_complete_graph_has_no_pair_without_a_link():
    assert not len(negatives(Links.of(4, torch.combinations(torch.arange(4)), None, False), 10, "mixed", 0))


def test_links_are_held_out_by_time_and_in_folds():
    time = np.array([3.0, 1, 2, 5, 4, 0, 6, 7, 8, 9])
    assert held_out(10, 0.3, time, 0).nonzero()[0].tolist() == [7, 8, 9]
    assert held_out(10, 0.3, None, 0).sum() == 3
    assert sorted(folds(10, 3, 6, 0).tolist()).count(-1) == 4


def test_of_many_links_that_are_given_to_judge_a_sample_does() -> None:
    draw = np.random.default_rng(0)
    ends = torch.from_numpy(np.unique(np.sort(draw.integers(0, 60, (900, 2)), 1), axis=0))
    ends = ends[ends[:, 0] != ends[:, 1]]
    ends = ends[torch.from_numpy(draw.permutation(len(ends)))]
    known, given = Links.of(60, ends[:300], None, False), ends[300:400]
    few, all_of_them = LinkSettings(most_held_out=20), LinkSettings(most_held_out=100)
    sampled, whole = (fit_links(known, None, how, validation=given, search=False) for how in (few, all_of_them))
    assert sampled.trials[-1] != whole.trials[-1]
    assert torch.equal(sampled.judges, whole.judges)  # all of them are found again
