"""Every way to hand a graph in: labels, splits and features of any kind, edges one way or both, refusals, notices."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data, HeteroData

from folders import write
from rapgnn import InputError, InputNotice, RAPNodeClassifier, load_dataset
from rapgnn.datasets.catalog import BlockModel
from rapgnn.sparse import dense
from samples import FAST, node_data


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
    with pytest.raises(InputError, match="there is no label column"):
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


@pytest.mark.parametrize("classes", [1100, 2200])
def test_many_classes_of_two_rows_or_of_one(classes):
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(2200) % classes)
    x, edges = rng.normal(size=(classes, 8))[y], rng.integers(0, 2200, (2, 3000))
    if classes == 2200:
        with pytest.raises(InputError, match="one row of each class"):
            RAPNodeClassifier(num_layers=2).fit(x, y, edge_index=edges)
        return
    with pytest.warns(InputNotice, match="divided 1320 / 440 / 440"):
        model = RAPNodeClassifier(num_layers=2).fit(x, y, edge_index=edges)
    assert len(np.unique(y[model.split_["train"]])) == 1100
    assert np.isfinite(model.validation_score_)


def test_no_validation_rows_are_held_out_of_training():
    data = node_data()
    del data.val_mask
    model = RAPNodeClassifier(**FAST).fit(data)
    assert len(model.split_["train"]) == 30  # used again once the penalty was chosen
    assert any("6 of the 30 training rows serve" in note for note in model.notes_)
    with pytest.raises(InputError, match="validation_score_"):
        model.score(data, split="val")
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


def test_other_refusals():
    data, new = node_data(), RAPNodeClassifier(**FAST)
    model = RAPNodeClassifier(**FAST).fit(data)
    for call, words in {
        lambda: new.fit(data, np.where(data.y.numpy() > 0, 1, -1)): "-1 means unknown",
        lambda: new.fit(data, [1, "two"] * 150): "words and numbers",
        lambda: new.fit(data.x, data.y): "no edges",
        lambda: new.fit(data, nonsense=3): "nonsense",
        lambda: model.score(data, torch.full_like(data.y, 9)): "label 9",
        lambda: model.predict_proba(data, n_samples=1, return_std=True): "one draw has no spread",
    }.items():
        with pytest.raises(InputError, match=words):
            call()


ROWS = 60
RNG = np.random.default_rng(0)
LABELS = np.arange(ROWS) % 2
TABLE = RNG.normal(size=(ROWS, 3)) + LABELS[:, None]
EDGES = RNG.integers(ROWS, size=(2, 200))
EDGES = np.unique(EDGES[:, EDGES[0] < EDGES[1]], axis=1)
BOTH = np.concatenate([EDGES, EDGES[::-1]], axis=1)
MASKS = {"train": np.arange(30), "val": np.arange(30, 45), "test": np.arange(45, 60)}
RIDGE = {"search": False, "head": "ridge"}


def nodes() -> RAPNodeClassifier:
    return RAPNodeClassifier(**RIDGE, embedding="identity", num_layers=2)


def test_edges_of_a_node_classifier():
    with pytest.warns(InputNotice, match="one way: directed=False adds the reverse"):
        nodes().fit(TABLE, LABELS, edge_index=EDGES, **MASKS)
    nodes().fit(TABLE, LABELS, edge_index=EDGES, directed=True, **MASKS)  # nothing to say
    one = nodes().fit(TABLE, LABELS, edge_index=EDGES, directed=False, **MASKS)
    two = nodes().fit(TABLE, LABELS, edge_index=BOTH, **MASKS)
    found, wanted = (
        one.predict_proba(TABLE, edge_index=EDGES, directed=False),
        two.predict_proba(TABLE, edge_index=BOTH),
    )
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    nodes().fit_transform(TABLE, LABELS, edge_index=EDGES, directed=False, **MASKS)


def test_what_is_said_and_refused(tmp_path):
    edge_attr = torch.ones(BOTH.shape[1], 2)
    data = Data(x=torch.tensor(TABLE), y=torch.tensor(LABELS), edge_index=torch.tensor(BOTH), edge_attr=edge_attr)
    with pytest.warns(InputNotice, match="edge_attr is left out"):
        nodes().fit(data, **MASKS)
    with pytest.raises(InputError, match="this HeteroData has no nodes"):
        nodes().fit(HeteroData(), LABELS)
    with pytest.raises(InputError, match="list of 2 graphs"):
        nodes().fit([data, data])
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    with pytest.raises(InputError, match="there are no labels"):
        nodes().fit(load_dataset(tmp_path / "edges.csv"))


def test_a_notice_comes_once_and_points_at_the_users_line(plants):
    model, nodes = RAPNodeClassifier(search=False), pd.read_csv(plants / "nodes.csv")
    table, ends = nodes[["height", "leaves"]], (nodes.index, nodes.index[::-1])
    calls = {
        "no split was given": [
            lambda: RAPNodeClassifier(search=False).fit(table, nodes["label"], edge_index=ends),
            lambda: RAPNodeClassifier(search=False).fit_transform(table, nodes["label"], edge_index=ends),
            lambda: model.fit(plants),
        ],
        "never saw": [
            lambda: model.predict(plants),
            lambda: model.predict_proba(plants, return_std=True),
            lambda: model.transform(plants),
            lambda: model.explain(plants, ["plant 3"]),
        ],
    }
    for sentence, lines in calls.items():
        for line in lines:
            with pytest.warns(InputNotice) as said:
                line()
            assert [(sentence in str(one.message), one.filename) for one in said] == [(True, __file__)]
        write(plants, nodes=nodes.assign(colour=nodes["colour"].replace("red", "violet")))
