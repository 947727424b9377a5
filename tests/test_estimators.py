"""scikit-learn's contract, kept on graphs, and every way to hand a graph in."""

import copy
import io
import warnings

import joblib
import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.model_selection import GridSearchCV, cross_val_score
from torch_geometric.data import Data

from rapgnn import InputError, InputNotice, RAPGraphClassifier, RAPGraphRegressor, RAPNodeClassifier
from rapgnn.datasets.synthetic import BlockModel
from rapgnn.estimators.select import choose, nominal_cost, training_cost
from rapgnn.models.config import Config
from rapgnn.sparse import dense

ESTIMATORS = (RAPNodeClassifier, RAPGraphClassifier, RAPGraphRegressor)
FAST = {"search": False, "settings": {"embedding": "identity", "head": "ridge", "activation": "identity"}}


def node_data(seed: int = 0, masks: bool = True, **changes) -> Data:
    model = BlockModel(nodes=300, classes=3, features=12, signal=3.0, train=10, val=60, test=100, seed=seed)
    graph = model.generate()
    given = {}
    if masks:
        for split in ("train", "val", "test"):
            mask = torch.zeros(300, dtype=torch.bool)
            mask[graph.rows(split)] = True
            given[f"{split}_mask"] = mask
    data = Data(x=dense(graph.x), edge_index=graph.edge_index, y=graph.y, **given)
    for key, value in changes.items():
        setattr(data, key, value)
    return data


def graph_list(count: int = 60, seed: int = 0, regression: bool = False) -> list[Data]:
    """Rings and stars: what they are can be told from the degrees, the target is their size."""
    rng = np.random.default_rng(seed)
    graphs = []
    for i in range(count):
        n = int(rng.integers(4, 12))
        pairs = [(0, v) for v in range(1, n)] if i % 2 else [(v, (v + 1) % n) for v in range(n)]
        edges = torch.tensor(pairs + [(v, u) for u, v in pairs]).T
        x = torch.tensor(1 + 0.1 * rng.random((n, 3)), dtype=torch.float32)
        y = torch.tensor([float(n)]) if regression else torch.tensor([i % 2])
        graphs.append(Data(x=x, edge_index=edges, y=y))
    return graphs


# The contract


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_params_round_trip_clone_and_joblib(cls):
    estimator = cls(num_layers=3, dropout=0.1, settings={"factors": 2}, seed=7)
    params = estimator.get_params()
    assert set(params) == set(vars(estimator))  # __init__ stores its arguments and does nothing else
    twin = clone(estimator)
    assert twin.get_params() == params
    assert twin is not estimator
    assert cls().set_params(**params).get_params() == params
    with pytest.raises(ValueError, match="Invalid parameter"):
        estimator.set_params(nonsense=1)
    buffer = io.BytesIO()
    joblib.dump(estimator, buffer)
    buffer.seek(0)
    assert joblib.load(buffer).get_params() == params
    assert "num_layers=3" in repr(estimator)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_a_setting_is_refused_at_fit_and_not_before(cls):
    data = node_data() if cls is RAPNodeClassifier else graph_list(20, regression=cls is RAPGraphRegressor)
    for wrong in ({"num_layers": 0}, {"backbone": "nonsense"}, {"settings": {"nonsense": 1}}, {"device": "tpu"}):
        estimator = cls(**wrong)
        with pytest.raises(InputError):
            estimator.fit(data)
        assert not hasattr(estimator, "model_")


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_unfitted_estimators_say_so(cls, tmp_path):
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    data = node_data() if cls is RAPNodeClassifier else graph_list(4)
    estimator = cls()
    for use in (estimator.predict, estimator.transform, estimator.score):
        with pytest.raises(NotFittedError, match="call fit first"):
            use(data)
    with pytest.raises(InputError, match="call fit first"):
        estimator.save(tmp_path / "model")
    with pytest.raises(NotFittedError):
        check_is_fitted(estimator)


def test_fit_returns_self_leaves_params_and_data_alone_and_repeats(fresh_random_state):
    data = node_data()
    before = {key: copy.deepcopy(value) for key, value in data.to_dict().items()}
    estimator = RAPNodeClassifier(seed=3)
    params = estimator.get_params()
    assert estimator.fit(data) is estimator
    assert estimator.get_params() == params
    for key, value in data.to_dict().items():
        assert torch.equal(value, before[key])
    again = clone(estimator).fit(data)
    np.testing.assert_array_equal(estimator.predict_proba(data), again.predict_proba(data))
    assert [t.settings for t in estimator.trials_] == [t.settings for t in again.trials_]
    refitted = estimator.fit(node_data(seed=1))  # a second fit forgets the first
    np.testing.assert_array_equal(
        refitted.predict_proba(node_data(seed=1)),
        RAPNodeClassifier(seed=3).fit(node_data(seed=1)).predict_proba(node_data(seed=1)),
    )


def test_kinds():
    assert is_classifier(RAPNodeClassifier())
    assert is_classifier(RAPGraphClassifier())
    assert is_regressor(RAPGraphRegressor())


def test_node_classifier_end_to_end(tmp_path):
    data = node_data()
    model = RAPNodeClassifier(backbone="gcn", num_layers=4, hidden_channels=32, seed=0).fit(data)
    labels = model.predict(data)
    assert labels.shape == (300,)
    assert set(labels) <= set(model.classes_.tolist()) == {0, 1, 2}
    probabilities = model.predict_proba(data)
    assert probabilities.shape == (300, 3)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(1)], labels)
    test = data.test_mask.numpy()
    assert model.score(data, split="test") == pytest.approx((labels[test] == data.y.numpy()[test]).mean())
    assert model.score(data, split="test") > 0.85
    assert model.score(data) == pytest.approx((labels == data.y.numpy()).mean())
    assert model.n_features_in_ == 12
    assert model.config_.num_layers == 4
    assert model.validation_score_ > 0.8
    assert model.transform(data).shape == (300, model.model_.embedding.out_channels * len(model.model_.spec.outputs))
    model.save(tmp_path / "model")
    loaded = RAPNodeClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(data), probabilities)
    np.testing.assert_array_equal(loaded.predict(data), labels)
    assert loaded.classes_.tolist() == [0, 1, 2]
    assert loaded.fit(data).score(data, split="test") > 0.85  # it can be trained again
    with pytest.raises(InputError, match="is for node-classification, not for graph-classification"):
        RAPGraphClassifier.load(tmp_path / "model")


# Ways to hand a graph in


def test_every_way_in_gives_the_same_predictions():
    data = node_data()
    x, edges, y = data.x.numpy(), data.edge_index.numpy(), data.y.numpy()
    masks = {f"{s}_mask": data[f"{s}_mask"].numpy() for s in ("train", "val", "test")}
    wanted = RAPNodeClassifier(**FAST).fit(data).predict_proba(data)
    unique = np.unique(edges, axis=1)
    A = sp.csr_matrix((np.ones(edges.shape[1]), edges), shape=(300, 300))
    numbers = {key.removesuffix("_mask"): np.flatnonzero(mask) for key, mask in masks.items()}

    def agree(model, *args, **given):
        np.testing.assert_allclose(model.predict_proba(*args, **given), wanted, atol=2e-4)

    agree(RAPNodeClassifier(**FAST).fit(x, y, edge_index=edges, **masks), x, edge_index=edges)
    agree(
        RAPNodeClassifier(**FAST).fit(x.tolist(), y.tolist(), edge_index=edges.tolist(), **numbers), x, edge_index=edges
    )
    agree(RAPNodeClassifier(**FAST).fit(sp.csr_matrix(x), y, adjacency=A, **masks), x, adjacency=A)
    table = pd.DataFrame(x * 0.1 + 0.5).clip(0, 1)
    with pytest.raises(InputError, match="give edge_index or adjacency, not both"):
        RAPNodeClassifier(**FAST).fit(x, y, edge_index=edges, adjacency=A, **masks)
    assert RAPNodeClassifier(**FAST).fit(table, y, edge_index=edges, **masks).score(table, y, edge_index=edges) > 0.5
    G = nx.Graph()
    for i in range(300):
        split = next(s for s in ("train", "val", "test", "") if not s or masks[f"{s}_mask"][i])
        G.add_node(f"n{i}", x=x[i], y=int(y[i]), **({"split": split} if split else {}))
    for u, v in unique.T:
        G.add_edge(f"n{u}", f"n{v}", weight=float(A[u, v]))
    agree(RAPNodeClassifier(**FAST).fit(G), G)
    named = {f"n{i}": int(y[i]) for i in range(300)}
    for node in G.nodes:
        del G.nodes[node]["y"]
    agree(RAPNodeClassifier(**FAST).fit(G, named), G)
    with pytest.raises(InputError, match="there are no labels"):
        RAPNodeClassifier(**FAST).fit(G)


@pytest.mark.parametrize("labels", ["words", "strange", "gaps", "minus", "far", "none", "bools"])
def test_labels_of_any_kind(labels):
    data = node_data()
    y = data.y.numpy().copy()
    names = {
        "words": np.array(["ant", "bee", "cat"])[y],
        "strange": np.array([10, -7, 3000])[y],
        "gaps": np.where(data.train_mask | data.val_mask | data.test_mask, y.astype(float), np.nan),
        "minus": np.where(data.train_mask | data.val_mask | data.test_mask, y, -1),
        "far": np.where(data.train_mask | data.val_mask | data.test_mask, 2**60 + y, -1),  # no float tells them apart
        "none": [
            f"c{v}" if known else None
            for v, known in zip(y, data.train_mask | data.val_mask | data.test_mask, strict=True)
        ],
        "bools": y > 0,
    }[labels]
    model = RAPNodeClassifier(**FAST).fit(data, names)
    found = model.predict(data)
    rows = np.flatnonzero(data.test_mask.numpy())
    agreement = np.mean([found[i] == names[i] for i in rows])
    assert agreement > 0.85
    assert model.score(data, names, split="test") == pytest.approx(agreement)
    wanted = {
        "words": ["ant", "bee", "cat"],
        "strange": [-7, 10, 3000],
        "far": [2**60, 2**60 + 1, 2**60 + 2],
        "bools": [False, True],
        "none": ["c0", "c1", "c2"],
    }
    assert model.classes_.tolist() == wanted.get(labels, [0, 1, 2])


def test_labels_and_features_survive_a_save(tmp_path):
    data = node_data()
    names = np.array(["ant", "bee", "cat"])[data.y.numpy()]
    table = pd.DataFrame({"size": data.x[:, 0] * 1000, "kind": np.array(["p", "q"])[(data.x[:, 1] > 0).int()]})
    edges, masks = data.edge_index, {"train": data.train_mask, "val": data.val_mask, "test": data.test_mask}
    model = RAPNodeClassifier(**FAST).fit(table, names, edge_index=edges, **masks)
    model.save(tmp_path)
    loaded = RAPNodeClassifier.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict(table, edge_index=edges), model.predict(table, edge_index=edges))
    with pytest.raises(InputError, match="no column 'kind'"):
        loaded.predict(table[["size"]], edge_index=edges)


def test_no_split_is_made_seeded_and_reported():
    data = node_data(masks=False)
    with pytest.warns(InputNotice, match="divided 180 / 60 / 60"):
        model = RAPNodeClassifier(**FAST).fit(data)
    assert [len(model.split_[s]) for s in ("train", "val", "test")] == [180, 60, 60]
    shares = [np.bincount(data.y.numpy()[model.split_[s]]) / len(model.split_[s]) for s in model.split_]
    np.testing.assert_allclose(shares[0], shares[2], atol=0.02)  # stratified
    assert model.score(data, split="test") > 0.85
    with pytest.warns(InputNotice):
        other = RAPNodeClassifier(**FAST, seed=1).fit(data)
    assert set(other.split_["test"]) != set(model.split_["test"])


def test_no_validation_rows_are_held_out_of_training():
    data = node_data()
    del data.val_mask
    model = RAPNodeClassifier(**FAST).fit(data)
    assert len(model.split_["train"]) == 30  # used again once the penalty was chosen
    assert any("6 of the 30 training rows serve" in note for note in model.notes_)
    kept = RAPNodeClassifier(search=False, head="linear", embedding="identity", epochs=5).fit(data)
    assert [len(kept.split_[s]) for s in ("train", "val")] == [24, 6]  # this head needs them to know when to stop


def test_no_features_are_made_of_the_structure_and_reported(tmp_path):
    hub = nx.barbell_graph(12, 40)
    labels = {node: "end" if hub.degree(node) > 5 else "path" for node in hub}
    everyone = {"train": range(0, 64, 2), "val": range(1, 64, 2)}
    with pytest.warns(InputNotice, match="no node features"):
        model = RAPNodeClassifier().fit(hub, labels, **everyone)
    assert model.score(hub, labels) > 0.95
    model.save(tmp_path)
    other = nx.barbell_graph(15, 20)
    truth = ["end" if other.degree(node) > 5 else "path" for node in other]
    found = RAPNodeClassifier.load(tmp_path).predict(other)  # another graph, other sizes
    assert np.mean(found == np.array(truth)) > 0.9


def test_inductive_prediction_on_a_graph_without_labels():
    model = RAPNodeClassifier(**FAST).fit(node_data())
    new = BlockModel(nodes=90, classes=3, features=12, signal=3.0, train=1, val=1, test=1, seed=0).generate()
    assert model.predict(Data(x=dense(new.x), edge_index=new.edge_index)).shape == (90,)
    with pytest.raises(InputError, match="trained with 12 node features, the data have 5"):
        model.predict(Data(x=torch.rand(9, 5), edge_index=new.edge_index[:, :0]))
    with pytest.raises(InputError, match="this graph has none"):
        model.predict(Data(edge_index=new.edge_index, num_nodes=90))


def test_unequal_columns_are_scaled():
    data = node_data()
    skewed = data.x * torch.tensor([1e5] + [1.0] * 11)
    with pytest.warns(InputNotice, match="differ in scale"):
        model = RAPNodeClassifier(**FAST).fit(node_data(x=skewed))
    assert model.score(node_data(x=skewed), split="test") > 0.85


def test_many_labels_per_node():
    graph = BlockModel(nodes=300, classes=4, labels=3, features=12, signal=3.0, train=20, val=60, test=100).generate()
    data = Data(x=dense(graph.x), edge_index=graph.edge_index, y=graph.y)
    model = RAPNodeClassifier(**FAST).fit(data, train=graph.train, val=graph.val, test=graph.test)
    assert model.predict(data).shape == (300, 3)
    assert set(np.unique(model.predict(data))) <= {0, 1}
    assert model.score(data, split="test") > 0.7


# Refusals


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"x": torch.full((300, 12), float("nan"))}, "NaN or infinite"),
        ({"edge_index": torch.tensor([[0], [300]])}, "names node 300"),
        ({"edge_index": torch.tensor([[-1], [3]])}, "names node -1"),
        ({"y": torch.zeros(7, dtype=torch.long)}, "300 nodes but 7 labels"),
        ({"y": torch.full((300,), -1)}, "no label|have no label"),
        ({"y": torch.rand(300)}, "regression targets"),
        ({"train_mask": torch.zeros(5, dtype=torch.bool)}, "mask has 5 entries"),
        ({"y": torch.zeros(300, dtype=torch.long)}, "nothing to tell apart"),
    ],
)
def test_bad_graphs_are_refused(change, sentence):
    with pytest.raises(InputError, match=sentence):
        RAPNodeClassifier(**FAST).fit(node_data(**change))


def test_other_refusals():
    data = node_data()
    with pytest.raises(InputError, match="-1 means unknown"):
        RAPNodeClassifier(**FAST).fit(data, np.where(data.y.numpy() > 0, 1, -1))
    with pytest.raises(InputError, match="mix words and numbers"):
        RAPNodeClassifier(**FAST).fit(data, [1, "two"] * 150)
    with pytest.raises(InputError, match="there are no edges"):
        RAPNodeClassifier(**FAST).fit(data.x, data.y)
    with pytest.raises(InputError, match="nonsense is unknown"):
        RAPNodeClassifier(**FAST).fit(data, nonsense=3)
    rare = data.y.clone()
    rare[data.test_mask.nonzero()[0]] = 9
    with pytest.raises(InputError, match="class 9 of the test split does not occur in training"):
        RAPNodeClassifier(**FAST).fit(data, rare)
    model = RAPNodeClassifier(**FAST).fit(data)
    with pytest.raises(InputError, match="label 9 is not one of the model's classes: 0, 1, 2"):
        model.score(data, rare)
    with pytest.raises(InputError, match="one draw has no spread"):
        model.predict_proba(data, n_samples=1, return_std=True)
    with pytest.raises(InputError, match="n_samples must be a whole number from 1"):
        model.predict_proba(data, n_samples=0)
    with pytest.raises(InputError, match="method 'guess' is unknown"):
        model.predict_proba(data, method="guess")


# Error bars


@pytest.mark.parametrize("head", ["ridge", "linear", "mlp"])
@pytest.mark.parametrize("jumping", ["last", "cat"])
def test_exact_error_bars_are_those_of_many_draws(head, jumping):
    data = node_data(x=torch.rand(300, 12, generator=torch.Generator().manual_seed(0)))
    settings = {"embedding": "fixed-random", "embedding_output": "split", "rescale": True}
    model = RAPNodeClassifier(
        num_layers=3, hidden_channels=64, head=head, jumping=jumping, epochs=50, settings=settings, search=False
    ).fit(data)
    mean, exact = model.predict_proba(data, method="exact", return_std=True)
    sampled, spread = model.predict_proba(data, n_samples=600, return_std=True)
    assert spread.max() > 1e-3
    large = spread > 0.2 * spread.max()
    ratio = exact[large] / spread[large]
    assert abs(np.median(ratio) - 1) < 0.05
    assert 0.75 < np.quantile(ratio, 0.02) < np.quantile(ratio, 0.98) < 1.3
    np.testing.assert_allclose(mean, sampled, atol=0.02)
    np.testing.assert_array_equal(model.predict_proba(data, method="exact", return_std=True)[1], exact)  # no sampling
    # Calibrated: of the draws of a probability, about 68 and 95 percent lie within one and two error bars.
    draws = np.stack([_draw(model, data, i) for i in range(200)])
    z = (np.abs(draws - mean) / np.maximum(exact, 1e-9))[:, large]
    assert 0.60 < (z < 1).mean() < 0.78
    assert (z < 2).mean() > 0.90


def _draw(model, data, number):
    model.model_.draw_counter.fill_(10_000 + number)
    return model.predict_proba(data, n_samples=1)


def test_exact_error_bars_are_refused_where_they_are_not_exact():
    data = node_data()
    model = RAPNodeClassifier(search=False, head="linear", embedding="identity", epochs=5).fit(
        data
    )  # signed: no shortcut
    assert model.engine_ == "stepwise"
    with pytest.raises(InputError, match="no exact form"):
        model.predict_proba(data, method="exact")
    assert model.predict_proba(data, return_std=True)[1].max() > 0  # by draws instead
    fixed = RAPNodeClassifier(**FAST).set_params(settings=FAST["settings"] | {"schedule": "fixed"}).fit(data)
    assert fixed.predict_proba(data, method="exact", return_std=True)[1].max() == 0


# Many graphs


def test_graph_classifier():
    graphs = graph_list()
    model = RAPGraphClassifier().fit(graphs[:40])
    assert model.score(graphs[40:]) >= 0.9
    assert model.predict_proba(graphs[40:]).shape == (20, 2)
    words = np.array(["ring", "star"])[np.arange(60) % 2]
    named = RAPGraphClassifier().fit(graphs[:40], words[:40])
    assert (named.predict(graphs[40:]) == words[40:]).mean() >= 0.9
    assert named.predict([Data(x=graphs[41].x, edge_index=graphs[41].edge_index)]).tolist() == [
        "star"
    ]  # no label needed
    mean, spread = named.predict_proba(graphs[40:], return_std=True)
    assert mean.shape == spread.shape == (20, 2)


def test_graphs_without_features_and_as_networkx_or_pairs():
    graphs = graph_list()
    bare = [Data(edge_index=g.edge_index, num_nodes=g.num_nodes, y=g.y) for g in graphs]
    with pytest.warns(InputNotice, match="no node features"):
        assert RAPGraphClassifier().fit(bare[:40]).score(bare[40:]) == 1.0
    pairs = [(g.x.numpy(), g.edge_index.numpy()) for g in graphs]
    y = [int(g.y) for g in graphs]
    assert RAPGraphClassifier().fit(pairs[:40], y[:40]).score(pairs[40:], y[40:]) >= 0.9
    nets = [nx.cycle_graph(5) if i % 2 else nx.star_graph(6) for i in range(30)]
    with pytest.warns(InputNotice):
        assert RAPGraphClassifier().fit(nets, ["ring" if i % 2 else "star" for i in range(30)]).predict(
            nets[:2]
        ).tolist() == [
            "star",
            "ring",
        ]


def test_graph_regressor(tmp_path):
    graphs = graph_list(80, regression=True)
    model = RAPGraphRegressor().fit(graphs[:60])
    assert model.score(graphs[60:]) > 0.95
    values, spread = model.predict(graphs[60:], return_std=True)
    assert values.shape == spread.shape == (20,)
    drawn, drawn_spread = model.predict(graphs[60:], n_samples=400, return_std=True)
    np.testing.assert_allclose(values, drawn, atol=4 * spread.max() / 20 + 1e-4)
    np.testing.assert_allclose(spread, drawn_spread, rtol=0.3, atol=1e-3)
    model.save(tmp_path)
    np.testing.assert_array_equal(RAPGraphRegressor.load(tmp_path).predict(graphs), model.predict(graphs))


def test_grid_search_and_cross_validation_over_graph_lists():
    graphs = graph_list(48)
    y = [int(g.y) for g in graphs]
    grid = {"num_layers": [1, 2], "pooling": ["sum", "mean"]}
    base = RAPGraphClassifier(embedding="identity", head="ridge", search=False, settings={"batch_size": None})
    search = GridSearchCV(base, grid, cv=3).fit(graphs, y)
    assert search.best_score_ > 0.75
    assert search.best_params_["num_layers"] in (1, 2)
    assert (search.predict(graphs) == y).mean() > 0.75
    scores = cross_val_score(base, graphs, y, cv=3, n_jobs=2)
    assert scores.shape == (3,)
    assert scores.mean() > 0.75
    fitted = base.fit(graphs, y)
    assert fitted.split_["train"].size == 48  # a fifth chose the penalty, then all were used
    assert fitted.split_["val"].size == 0
    with pytest.raises(InputError, match="validation_score_"):
        fitted.score(graphs, y, split="val")
    numbers = [float(len(g.x)) for g in graphs]
    assert cross_val_score(RAPGraphRegressor(head="ridge", embedding="identity"), graphs, numbers, cv=3).mean() > 0.8


@pytest.mark.parametrize(
    ("graphs", "sentence"),
    [
        ([], "is empty"),
        (node_data(), "must be a list of graphs"),
        ("folder", "must be a list of graphs"),
        (
            [Data(x=torch.rand(2, 3), edge_index=torch.tensor([[0], [5]]), y=torch.tensor([0]))],
            "graph 0: edge_index names",
        ),
        (
            [*graph_list(3), Data(edge_index=torch.zeros(2, 0, dtype=torch.long), num_nodes=2, y=torch.tensor([0]))],
            "has none",
        ),
        (
            [
                *graph_list(3),
                Data(x=torch.rand(2, 9), edge_index=torch.zeros(2, 0, dtype=torch.long), y=torch.tensor([0])),
            ],
            "graph 3",
        ),
        ([Data(x=torch.rand(2, 3), edge_index=torch.zeros(2, 0, dtype=torch.long))], "graph 0 has no label"),
        ([(np.ones((2, 2)),)], "graph 0 must be"),
        ([7], "graph 0"),
    ],
)
def test_bad_lists_are_refused(graphs, sentence):
    with pytest.raises(InputError, match=sentence):
        RAPGraphClassifier(**FAST).fit(graphs)


# The search


def test_fixed_settings_stay_fixed_and_the_rest_is_chosen():
    data = node_data()
    model = RAPNodeClassifier(backbone="sage", num_layers=5).fit(data)
    assert (model.config_.backbone, model.config_.num_layers) == ("sage", 5)
    assert len(model.trials_) > 1
    assert max(t.value for t in model.trials_) == pytest.approx(model.validation_score_)


def test_the_search_never_looks_at_the_test_rows(small_graph):
    from dataclasses import replace

    spoiled = small_graph.y.clone()
    spoiled[small_graph.test] = (spoiled[small_graph.test] + 1) % 3
    base = Config()
    one = choose(small_graph, base, {}, 0)
    other = choose(replace(small_graph, y=spoiled), base, {}, 0)
    assert one.config == other.config
    assert [t.value for t in one.trials] == [t.value for t in other.trials]


def test_a_time_budget_stops_the_search(small_graph):
    assert len(choose(small_graph, Config(), {}, 0, time_budget=1e-9).trials) == 1


def test_costs_grow_with_the_work(small_graph):
    shallow, deep = (nominal_cost(small_graph, Config(num_layers=n)) for n in (1, 16))
    assert 0 < shallow < deep
    big = BlockModel(nodes=3000, train=20).generate()
    assert training_cost(big) > training_cost(small_graph) > 0


def test_no_labelled_row_to_spare_for_validation():
    data = Data(x=torch.eye(4), edge_index=torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), y=torch.tensor([0, -1, 1, -1]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputNotice)
        model = RAPNodeClassifier().fit(data, train=[0, 2])
    assert model.predict(data)[[0, 2]].tolist() == [0, 1]
    assert np.isnan(model.validation_score_)
