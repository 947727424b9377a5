"""A served model answers by id, and after an update as if the whole graph had been predicted anew."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from folders import tables, write
from nearby_cases import NETWORKS, network, ring
from rapgnn import InputError, RAPNodeClassifier
from rapgnn.estimators.serving import Served
from rapgnn.network.network import Average
from rapgnn.training.predict import model_on
from rapgnn.training.schema import Schema
from samples import FAST, collection


def served(graph, model, **how) -> Served:
    estimator = RAPNodeClassifier()
    estimator._adopt(model.requires_grad_(False), Schema.of(graph))
    return Served(estimator, graph, **how)


def whole(graph, model, extra, edges, weight=None, names=()):
    """The graph with these nodes and edges from the start."""
    count = len(extra)
    y = torch.cat([graph.y, torch.full((count,), -1)])
    more = {} if graph.edge_weight is None else {"edge_weight": torch.cat([graph.edge_weight, weight])}
    ids = None if graph.ids is None else np.array([*graph.ids, *names], dtype=object)
    edges = torch.cat([graph.edge_index, edges], dim=1)
    return replace(graph, x=torch.cat([graph.x, extra]), edge_index=edges, y=y, ids=ids, **more)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("names", [True, False])
def test_answers_after_updates_are_those_of_a_full_walk(name, names):
    graph = ring(weights=name in ("last", "both", "labels"), names=names)
    model, rng = network(graph, NETWORKS[name]), torch.Generator().manual_seed(0)
    ready, n = served(graph, model), graph.num_nodes
    extra = torch.randn(3, graph.num_features, generator=rng)
    edges = torch.tensor([[400, 401, 5, 400, 7, 7], [5, 400, 401, 9, 401, 90]])  # node 402 stays alone
    weight = torch.rand(6, generator=rng)
    given, new = {}, [f"new{i}" for i in range(3)] if names else []
    said = np.array([*graph.ids, *new], dtype=object)[edges.numpy()] if names else edges
    if graph.edge_weight is not None:
        given["edge_weight"] = weight
    ready.update(extra, said[:, :4], ids=new or None, **({"edge_weight": weight[:4]} if given else {}))
    ready.predict([*new, "n5", "n4"] if names else [400, 401, 402, 5, 4])
    ready.update(None, said[:, 4:], **({"edge_weight": weight[4:]} if given else {}))
    changed = whole(graph, model, extra, edges, weight, new)
    wanted = model_on(model, changed)(torch.arange(n + 3)).probabilities.numpy()
    walked = ready._walk
    ready._walk = None  # every answer comes from its surroundings, or was kept
    rows = np.arange(n + 3)[::-1]
    found = np.concatenate([ready.predict_proba(changed.ids[part] if names else part) for part in np.split(rows, 31)])
    np.testing.assert_allclose(found, wanted[rows], atol=1e-6)
    walked()
    np.testing.assert_allclose(ready.predict_proba(changed.ids if names else np.sort(rows)), wanted, atol=1e-6)


def test_only_what_lies_near_a_change_is_predicted_anew():
    graph = ring()
    ready = served(graph, network(graph, NETWORKS["both"]))
    ready.update(graph.x[:1], [["new"], ["n200"]], ids=["new"])
    stale = np.flatnonzero(ready._stale[: len(ready)])
    assert {198, 199, 200, 201, 202, 400} <= set(stale)
    assert len(stale) < 30


def test_a_new_node_whose_id_is_known_brings_its_label_and_the_members_that_know_it():
    graph = ring()
    model = Average([network(graph, NETWORKS["labels"]), network(graph, NETWORKS["last"])], ["here", "elsewhere"])
    row, others = int(graph.train.max()), np.array([f"stranger{i}" for i in range(60)], dtype=object)
    path = torch.stack([torch.arange(59), torch.arange(1, 60)])
    part = replace(graph, x=graph.x[:60] + 9, y=graph.y[:60], ids=others, edge_index=path, train=graph.train[:0])
    ready = served(part, model)
    ready.update(graph.x[[row]], [[f"n{row}"], ["stranger1"]], ids=[f"n{row}"])
    wanted = model_on(model, ready.graph())(torch.arange(61)).probabilities
    for name, values in zip([*others, f"n{row}"], wanted, strict=True):
        np.testing.assert_allclose(ready.predict_proba([name])[0], values, atol=1e-6)
    assert model.weighted_for(ready.graph()) == [(model.members[0], model.weights[0])]


def test_tables_with_ids_are_served_and_updated():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(40, 9, 120), "kind": rng.choice(["a", "b"], 120)})
    labels, edges = (frame.kind == "b").astype(int), rng.integers(0, 120, (2, 200))
    model = RAPNodeClassifier(**FAST, num_layers=1).fit(frame, labels, edge_index=edges)
    ready = model.serve(frame, edge_index=edges, walk=False)
    new = pd.DataFrame({"age": [30.0, 50.0], "kind": ["b", "a"]})
    ready.update(new, [[120], [3]], directed=False)
    both = pd.concat([frame, new], ignore_index=True)
    wanted = model.predict(both, edge_index=np.concatenate([edges, [[120, 3], [3, 120]]], axis=1))
    assert (ready.predict([120, 121, 3, 0]) == wanted[[120, 121, 3, 0]]).all()


def test_what_cannot_be_is_refused_and_changes_nothing():
    graph = ring()
    ready = served(graph, network(graph, NETWORKS["last"]))
    x = graph.x[:1].numpy()
    wrong = [
        {"nodes": x},
        {"nodes": x, "ids": ["n3"]},
        {"nodes": x[:, :2], "ids": ["new"]},
        {"nodes": x, "ids": ["new"], "edges": [["new"], ["nobody"]]},
        {"edges": [["n1", "n2"]]},
        {"edges": [["n1"], ["n2"]], "edge_weight": [1.0]},
    ]
    for given in wrong:
        with pytest.raises(InputError):
            ready.update(**given)
    with pytest.raises(InputError, match="id"):
        ready.predict(["new"])
    assert len(ready) == 400
    assert not ready._stale[:400].any()
    with pytest.raises(InputError, match="one graph"):
        served(collection(), network(graph, NETWORKS["last"]))


def test_a_folder_is_updated_as_if_its_files_had_grown(tmp_path):
    nodes, edges = tables()
    folder = write(tmp_path / "garden", nodes=nodes, edges=edges)
    model = RAPNodeClassifier(**FAST, num_layers=1).fit(folder)
    ready = model.serve(folder)
    new = nodes.iloc[:2].assign(id=["late", "later"], label=None)
    links = pd.DataFrame({"source": ["late", "plant 3"], "target": ["plant 3", "later"]})
    ready.update(new.drop(columns="label"), links)
    grown = write(tmp_path / "grown", nodes=pd.concat([nodes, new]), edges=pd.concat([edges, links]))
    names = ["late", "later", *nodes["id"]]
    wanted = model.predict_proba(grown, rows=names)
    np.testing.assert_allclose(ready.predict_proba(names), wanted, atol=1e-6)


def test_nodes_that_a_reader_has_numbered_are_numbered_on():
    graph = replace(ring(names=False), ids=np.arange(400))
    model = network(graph, NETWORKS["labels"])
    ready = served(graph, model)
    ready.update(graph.x[:1], [["400"], ["3"]], ids=[400])
    assert ready.graph().ids is None
    wanted = model_on(model, ready.graph())(torch.tensor([400, 3])).probabilities
    np.testing.assert_allclose(ready.predict_proba(["400", "3"]), wanted.numpy(), atol=1e-6)
    for wrong in ({"ids": [7]}, {"edges": [["402"], ["3"]]}, {"edges": [["x"], ["3"]]}):
        with pytest.raises(InputError, match="number"):
            ready.update(graph.x[:1], **wrong)


def test_updates_take_tables_of_other_libraries():
    pa = pytest.importorskip("pyarrow")
    nodes, edges = tables()
    model = RAPNodeClassifier(num_layers=1, **FAST).fit(nodes, edges=edges)
    new = nodes.head(1).assign(id="new").drop(columns="label")
    ends = pd.DataFrame({"source": ["new"], "target": ["plant 3"]})
    answers = [
        model.serve(nodes, edges=edges).update(convert(new), convert(ends)).predict_proba(["new"])
        for convert in (lambda table: table, lambda table: pa.Table.from_pandas(table, preserve_index=False))
    ]
    assert (answers[0] == answers[1]).all()
