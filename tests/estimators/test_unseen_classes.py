"""A class that only validation or test rows have is a notice: it is a class like others, and never learned."""

import json
import warnings
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from sklearn.metrics import balanced_accuracy_score, f1_score
from sklearn.model_selection import cross_val_score

from rapgnn import InputError, InputNotice, RAPGraphClassifier, RAPNodeClassifier, from_pyg
from rapgnn.graph.graph import graph_set
from rapgnn.graph.rows import make_folds
from rapgnn.graph.scores import CLASS_METRICS
from rapgnn.training.checkpoint import index_digest
from samples import FAST, graph_list, node_data

SAID = "classes 1, 3 occur in validation or test rows only: not learned, and such rows count as errors."


def rare():
    """Classes 0, 2 and 4, and in validation two rows of class 1, in test five of class 3."""
    data = node_data()
    data.y = 2 * data.y
    data.y[data.val_mask.nonzero()[:2, 0]] = 1
    data.y[data.test_mask.nonzero()[:5, 0]] = 3
    return data


def test_every_way_in_gives_the_notice_and_the_class():
    data = rare()
    masks = {s: data[f"{s}_mask"] for s in ("train", "val", "test")}
    labels = np.array(list("abcde"))[data.y]
    G = nx.Graph()
    for i in range(300):
        split = next((s for s in masks if masks[s][i]), None)
        G.add_node(i, x=data.x[i].numpy(), y=labels[i], **({"split": split} if split else {}))
    G.add_edges_from(data.edge_index.T.tolist())
    ways = {
        "pyg": (data,),
        "networkx": (G,),
        "graph by hand": (replace(from_pyg(node_data()), y=data.y, num_outputs=5),),
    }
    for way, arguments in ways.items():
        said = SAID.replace("1, 3", "'b', 'd'") if way == "networkx" else SAID
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = RAPNodeClassifier(**FAST).fit(*arguments)
        assert [str(w.message) for w in caught if "validation or test rows only" in str(w.message)] == [said], way
        assert all(w.category is InputNotice for w in caught)
        assert model.classes_.tolist() == (list("abcde") if way == "networkx" else [0, 1, 2, 3, 4])


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {**FAST, "class_weight": "balanced"},
        {"scoring": "log_loss"},
        {"scoring": "balanced_accuracy", "time_budget": 1.0},
        {"head": "mlp", "search": False, "epochs": 20},
        {"embedding": "learnable", "search": False, "epochs": 20, "hidden_channels": 16},
    ],
    ids=str,
)
def test_the_class_is_as_good_as_impossible_and_its_rows_are_errors(settings, tmp_path):
    data = rare()
    model = RAPNodeClassifier(**settings).fit(data)
    p = model.predict_proba(data)
    assert p.shape == (300, 5)
    assert p[:, [1, 3]].max() < 0.05
    assert np.isfinite(model.validation_score_)
    answer, test = model.predict(data), data.test_mask.numpy()
    assert set(answer) <= {0, 2, 4}
    y = data.y.numpy()
    assert model.score(data, split="test", scoring="accuracy") == pytest.approx((answer[test] == y[test]).mean())
    wanted = balanced_accuracy_score(y[test], answer[test])
    assert model.score(data, split="test", scoring="balanced_accuracy") == pytest.approx(wanted)
    wanted = f1_score(y[test], answer[test], average="macro")
    assert model.score(data, split="test", scoring="f1_macro") == pytest.approx(wanted)
    for name in CLASS_METRICS:
        for split in ("train", "val", "test"):
            assert np.isfinite(model.score(data, split=split, scoring=name))
    model.save(tmp_path)
    np.testing.assert_array_equal(RAPNodeClassifier.load(tmp_path).predict_proba(data), p)
    _, spread = model.predict_proba(data, return_std=True)
    assert np.isfinite(spread).all()


@pytest.mark.parametrize(
    "settings", [{}, {"search": False}, {"search": False, "head": "linear", "epochs": 20}], ids=str
)
def test_the_other_classes_are_learned_as_if_it_were_not_there(settings, tmp_path):
    """Hidden labels move nothing, whatever they are."""
    data, plain = rare(), rare()
    seen = ~torch.isin(data.y, torch.tensor([1, 3]))
    plain.val_mask, plain.test_mask = plain.val_mask & seen, plain.test_mask & seen
    model, other = (RAPNodeClassifier(**settings).fit(d) for d in (data, plain))
    assert other.classes_.tolist() == [0, 2, 4]
    np.testing.assert_array_equal(model.predict_proba(data)[:, [0, 2, 4]], other.predict_proba(data))
    np.testing.assert_array_equal(model.error_bars(data)["spread"], other.error_bars(data)["spread"])
    one, two = model.explain(data, rows=[0])[0], other.explain(plain, rows=[0])[0]
    assert (one.label, one.score) == (two.label, two.score)
    with pytest.raises(InputError, match="label 3 is none"):
        model.explain(data, rows=[0], label=3)
    model.save(tmp_path)
    index = json.loads((tmp_path / "checkpoint.json").read_text())
    for wrong in ([0], [0, 7], [2, 0], "all"):
        changed = index | {"answers": wrong}
        (tmp_path / "checkpoint.json").write_text(json.dumps(changed | {"digest": index_digest(changed)}))
        with pytest.raises(InputError, match="damaged"):
            RAPNodeClassifier.load(tmp_path)


def test_lists_of_graphs():
    graphs, splits = graph_list(40), {"train": range(20), "val": range(20, 30), "test": range(30, 40)}
    labels = [["ring", "star"][i % 2] for i in range(40)]
    labels[22] = labels[35] = "knot"
    with pytest.warns(InputNotice, match="class 'knot' occurs in validation or test rows only"):
        model = RAPGraphClassifier().fit(graphs, labels, **splits)
    assert model.classes_.tolist() == ["knot", "ring", "star"]
    assert model.predict_proba(graphs)[:, 0].max() < 0.05
    assert model.score(graphs, labels, **splits, split="test") == pytest.approx(0.9)
    assert model.score(graphs[:20:2], labels[:20:2]) == 1.0  # graphs of one class can be scored
    for i, data in enumerate(graphs):
        data.y = torch.tensor([2 if i in (22, 35) else i % 2])
    listed = graph_set(graphs, splits=splits, as_given=True)
    assert any("class 2 occurs" in note for note in listed.notes)
    with pytest.warns(InputNotice, match="class 2 occurs in validation or test rows only"):
        assert RAPGraphClassifier(**FAST).fit(listed).classes_.tolist() == [0, 1, 2]
    parts = make_folds(replace(listed, y=listed.y * 2 % 4, num_outputs=3), 0, 4)  # class 1 of three is no graph's
    assert sorted(torch.cat(parts).tolist()) == list(range(40))


def test_folds_without_a_class_are_scored():
    graphs = graph_list(30)
    labels = [i % 2 for i in range(29)] + [7]
    base = RAPGraphClassifier(embedding="identity", head="ridge", search=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class in y has only 1 members")
        scores = cross_val_score(base, graphs, labels, cv=3, error_score="raise")
    assert scores.shape == (3,)
    assert scores.mean() > 0.7
    model = base.fit(graphs[:29], labels[:29])
    with pytest.warns(InputNotice, match="label 7 is none of the model's classes: such rows count as errors"):
        found = model.score(graphs, labels)
    assert found == pytest.approx((model.predict(graphs) == np.array(labels)).mean())
    for name in CLASS_METRICS:
        assert np.isfinite(model.score(graphs, labels, scoring=name))
    with pytest.raises(InputError, match="label 7 is not one of the model's classes: 0, 1"):
        model.score(graphs, [7] * 30)
    with pytest.raises(InputError, match="mix words and numbers"):
        model.score(graphs, [0, "seven"] * 15)
