"""Labels and numbers of edges: what goes in, what comes out, and that no edge sees its own label."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

from rapgnn import InputError, RAPEdgeClassifier, RAPEdgeRegressor, load_model
from rapgnn.network.known_labels import keys_of
from rapgnn.pairs import edges as describing
from rapgnn.pairs.edges import EdgeColumns
from rapgnn.pairs.links import Links


def ratings(seed: int = 0, signal: float = 1.0) -> pd.DataFrame:
    """Users and items with tastes; every fifth rating is of the test."""
    draw = np.random.default_rng(seed)
    user, item = np.divmod(draw.choice(60 * 30, 900, replace=False), 30)
    shares = draw.normal(size=60)[user] + draw.normal(size=30)[item]
    tastes = draw.normal(size=(60, 2))[user] * draw.normal(size=(30, 2))[item]
    rating = signal * (shares + tastes.sum(1)) + 0.3 * draw.normal(size=900)
    split = np.where(np.arange(900) % 5 == 0, "test", np.where(np.arange(900) % 5 == 1, "val", "train"))
    table = pd.DataFrame({"source": user, "target": item, "rating": rating, "split": split})
    return table.assign(source="u" + table["source"].astype(str), target="i" + table["target"].astype(str))


@pytest.fixture(scope="module")
def rated() -> tuple[RAPEdgeRegressor, pd.DataFrame]:
    table = ratings()
    return RAPEdgeRegressor(search=False).fit(None, "rating", edges=table), table


def test_ratings_are_told_by_those_of_others(rated):
    model, table = rated
    assert model.score(None, "rating", edges=table, split="test") > 0.5
    hidden = table.assign(rating=table["rating"].where(table["split"] != "test"))
    np.testing.assert_array_equal(model.predict(None, edges=hidden), model.predict(None, edges=table))
    some = model.predict(None, edges=table, rows=["u5 -> i3"] if ("u5", "i3") in rated_pairs(table) else [0])
    assert some.shape == (1,)


def rated_pairs(table: pd.DataFrame) -> set[tuple[str, str]]:
    return set(zip(table["source"], table["target"], strict=True))


def test_a_saved_model_gives_the_same(rated, tmp_path):
    model, table = rated
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert isinstance(again, RAPEdgeRegressor)
    np.testing.assert_array_equal(again.predict(None, edges=table), model.predict(None, edges=table))
    new = table[:3].assign(source="u99", rating=np.nan)
    assert np.isfinite(again.predict(None, edges=pd.concat([table, new], ignore_index=True))).all()


def test_ratings_without_signal_stay_at_chance():
    table = ratings(signal=0.0)
    assert RAPEdgeRegressor(search=False).fit(None, "rating", edges=table).score(None, edges=table, split="test") < 0.05


def described(links: Links, ends: torch.Tensor, y: torch.Tensor) -> pd.DataFrame:
    names = keys_of(np.array([f"n{i}" for i in range(links.n)], dtype=object), links.n)[0]
    return EdgeColumns.of(links, None, names, ends, y[:, None]).table(
        links, None, names, ends, pd.DataFrame(index=range(len(ends)))
    )


def noise(directed: bool) -> tuple[Links, torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    ends = torch.randint(0, 40, (400, 2), generator=draw)
    ends = ends[ends[:, 0] != ends[:, 1]]
    return Links.of(40, ends, None, directed), ends, torch.randn(len(ends), generator=draw)


@pytest.mark.parametrize("directed", [True, False])
def test_no_edge_sees_its_own_label(directed):
    links, ends, y = noise(directed)
    before = described(links, ends, y)
    for row in (0, 7, 200):
        moved = y.clone()
        moved[row] += 10
        after = described(links, ends, moved)
        twins = ((ends == ends[row]).all(1) | (ends == ends[row].flip(0)).all(1)).numpy()
        pd.testing.assert_frame_equal(before[twins], after[twins])  # its reverse and repeats do not, either
        assert not before.equals(after)


def test_an_edge_without_a_label_sees_all_labels():
    links, ends, y = noise(True)
    names, own = keys_of(np.array([f"n{i}" for i in range(40)], dtype=object), 40)[0], pd.DataFrame(index=range(1))
    taught, asked = (ends != ends[0]).any(1), ends[:1]
    tables = []
    for fold in range(describing.FOLDS):  # a label of any fold moves it
        some = y.clone()
        some[torch.from_numpy(describing._folds(names[ends]) == fold)] += 1
        columns = EdgeColumns.of(links, None, names, ends[taught], some[taught, None])
        tables.append(columns.table(links, None, names, asked, own)["labels of alike, 2 factors"].item())
    assert len(set(tables)) == describing.FOLDS


@pytest.mark.parametrize("oriented", [True, False])
def test_factors_of_labels_are_those_that_made_them(oriented):
    draw = np.random.default_rng(0)
    p, q = draw.normal(size=(2, 200, 4))
    q = q if oriented else p
    u, v = draw.integers(200, size=(2, 12_000))
    y = 3 + p[u, 0] + q[v, 0] + (p[u, 1:] * q[v, 1:]).sum(1)
    hidden = np.arange(len(y)) < 2000
    known = describing.Collaborative(200, u[~hidden], v[~hidden], y[~hidden], oriented)
    columns = known.columns(np.stack([u, v], 1)[hidden], "y")
    assert np.corrcoef(columns["y of alike, 4 factors"], y[hidden])[0, 1] > 0.98


def test_a_planted_leak_shows(monkeypatch):
    links, ends, y = noise(True)
    labels = [name for name in described(links, ends, y) if name.startswith("labels")]

    def told() -> float:
        return max(abs(np.corrcoef(column, y)[0, 1]) for _, column in described(links, ends, y)[labels].items())

    assert told() < 0.25
    folds = iter([np.zeros(len(ends), dtype=int), np.ones(len(ends), dtype=int)])
    monkeypatch.setattr(describing, "_folds", lambda names: next(folds))  # no label is left out
    assert told() > 0.5


def test_undirected_edges_are_the_same_both_ways():
    links, ends, y = noise(False)
    names = keys_of(None, links.n)[0]
    columns, own = EdgeColumns.of(links, None, names, ends, y[:, None]), pd.DataFrame(index=range(len(ends)))
    pd.testing.assert_frame_equal(
        columns.table(links, None, names, ends, own), columns.table(links, None, names, ends.flip(1), own)
    )


def test_nodes_without_ids_know_no_labels_of_another_graph():
    links, ends, y = noise(True)
    names = keys_of(None, links.n)[0]
    columns, own = EdgeColumns.of(links, None, names, ends, y[:, None]), pd.DataFrame(index=range(len(ends)))
    other = torch.stack([ends[:, 0], (ends[:, 1] + 7) % links.n], 1)
    for edges, same in ((ends, True), (other, False)):
        table = columns.table(Links.of(links.n, edges, None, True), None, names, edges, own)
        assert bool(table["number of labels, from"].any()) == same


def test_classes_of_edges_with_columns_and_times():
    draw = np.random.default_rng(0)
    bad, ends = draw.random(80) < 0.2, draw.integers(80, size=(1200, 2))
    amount = draw.lognormal(size=1200)
    fraud = draw.random(1200) < 1 / (1 + np.exp(3 - 6 * bad[ends[:, 0]] - 2 * np.log(amount)))
    table = pd.DataFrame(ends, columns=["source", "target"]).assign(amount=amount, when=np.arange(1200))
    table["label"] = np.where(fraud, "fraud", "fine")
    model = RAPEdgeClassifier(search=False, scoring="rocauc").fit(None, edges=table, time="when")
    assert set(model.classes_) == {"fine", "fraud"}
    assert model.split_["train"].max() < model.split_["test"].min()
    assert model.score(None, edges=table, split="test") > 0.7
    assert not any("when" in column.name for column in model.schema_.encoding.columns)
    assert any("mean of amount" in column.name for column in model.schema_.encoding.columns)


def test_pyg_data_and_refusals():
    _, ends, _ = noise(True)
    y = (ends[:, 0] % 2).numpy()
    data = Data(edge_index=ends.T, num_nodes=40, x=torch.randn(40, 3), edge_attr=torch.randn(len(ends), 2))
    data.x[:, 0] = (torch.arange(40) % 2).float()
    model = RAPEdgeClassifier(search=False).fit(data, y)
    assert model.score(data, y) > 0.75
    assert model.predict_proba(data).shape == (len(ends), 2)
    with pytest.raises(InputError, match="labels of the edges"):
        RAPEdgeClassifier().fit(data)
    with pytest.raises(InputError, match="another number"):
        RAPEdgeClassifier().fit(data, y[1:])
    with pytest.raises(InputError, match="never"):
        RAPEdgeRegressor().fit(None, "never", edges=ratings())
