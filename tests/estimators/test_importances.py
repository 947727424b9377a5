"""Importances: which columns and which distances a model rests on, and how much of it may be chance."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

from rapgnn import RAPGraphClassifier, RAPNodeClassifier
from rapgnn.datasets.catalog import BlockModel
from rapgnn.estimators import importances
from rapgnn.estimators.importances import Shuffling, columns_of, ranked, rings, shuffled
from rapgnn.graph.scores import metrics_for
from rapgnn.graph.table import Encoding
from rapgnn.sparse import SparseMatrix, dense
from samples import FAST, collection


def blocks(**changes):
    given = {"nodes": 500, "classes": 3, "features": 6, "signal": 3.0, "train": 30, "val": 60, "test": 200, "seed": 3}
    return BlockModel(**given | changes).generate()


@pytest.fixture(scope="module")
def one_column():
    """Only column 4 tells the classes apart."""
    graph = blocks(homophily=0.9)
    noise = torch.from_numpy(np.random.default_rng(0).normal(size=(500, 6)).astype(np.float32))
    noise[:, 4] = graph.y + 0.1 * noise[:, 4]
    return replace(graph, x=noise)


def test_the_column_that_tells_the_classes_apart_stands_first_and_noise_is_noise(one_column):
    found = RAPNodeClassifier(**FAST).fit(one_column).importances(one_column)
    first, *others = found.columns.itertuples()
    assert (first.column, found.together) == ("feature 4", 0)
    assert first.importance > 0.2 > first.noise > 0
    assert all(abs(other.importance) <= other.noise + 0.01 for other in others)
    assert found.score > 0.9


def test_networks_that_know_nodes_by_their_features_are_held_fixed(one_column):
    """Shuffled features make other nodes of the known ones, and other networks would answer for those."""
    x = one_column.x.clone()
    x[:, 4] = 0
    graph = replace(one_column, x=x, train=torch.arange(300), val=one_column.val[:0], test=torch.arange(300, 500))
    model = RAPNodeClassifier(search=False, known_labels=2, coefficients="fixed", num_layers=2, jumping="cat").fit(
        graph
    )
    found = model.importances(graph)
    assert found.score > 0.6
    assert all(row.importance < max(row.noise, 0.1) for row in found.columns.itertuples())


def test_of_many_columns_the_strongest_are_tried_alone(one_column, monkeypatch):
    monkeypatch.setattr(importances, "MOST_GROUPS", 3)
    model = RAPNodeClassifier(**FAST).fit(one_column)
    shuffling = Shuffling(model.model_, one_column, np.arange(500))
    table, together = shuffling.columns(metrics_for(one_column.task)["accuracy"])
    assert table["column"].tolist()[::2] == ["feature 4", "the 4 other columns together"]
    assert together == 4
    assert ranked(one_column, columns_of(one_column))[0] == "feature 4"


def test_columns_of_a_table_are_shuffled_as_one():
    frame = pd.DataFrame({"height": [1.0, 2.0, 90.0], "colour": ["red", "blue", "red"]})
    encoding = Encoding.learn(frame)
    graph = replace(blocks(), x=SparseMatrix(sp.csr_matrix(encoding.encode(frame))), encoding=encoding)
    assert {name: columns.tolist() for name, columns in columns_of(graph).items()} == {"height": [0], "colour": [1, 2]}


def test_shuffling_is_the_same_on_sparse_features():
    rng = np.random.default_rng(0)
    x = torch.from_numpy((rng.random((40, 7)) * (rng.random((40, 7)) < 0.3)).astype(np.float32))
    order, columns = rng.permutation(40), np.array([1, 5])
    wanted = x.clone()
    wanted[:, columns] = x[order][:, columns]
    assert torch.equal(shuffled(x, columns, order), wanted)
    assert torch.equal(dense(shuffled(SparseMatrix(sp.csr_matrix(x.numpy())), columns, order)), wanted)


def test_rings_are_the_distances_against_the_messages():
    graph = replace(blocks(nodes=500), edge_index=torch.tensor([[0, 1, 2, 0], [1, 2, 3, 2]]))
    distances = rings(graph, np.array([3, 0]), 4)
    assert [sorted(ring[0].indices.tolist()) for ring in distances[:3]] == [[3], [2], [0, 1]]
    assert [ring[1].nnz for ring in distances] == [1, 0, 0, 0]


def test_a_model_rests_on_neighbours_where_they_tell_more_than_the_node():
    own = {}
    for name, homophily, signal in (("neighbours", 0.95, 1.0), ("itself", 1 / 3, 4.0)):
        graph = blocks(homophily=homophily, signal=signal)
        model = RAPNodeClassifier(**FAST, num_layers=2, jumping="cat").fit(graph)
        moved = model.importances(graph).hops.set_index("hop").importance
        assert list(moved.index) == ["the node itself", "1 step away", "2 steps away"]
        assert min(moved) >= 0
        own[name] = moved["the node itself"] / moved.sum()
    assert own["itself"] > 0.7
    assert own["neighbours"] < 0.5


def test_whole_graphs_have_columns_and_no_distances():
    graphs = collection()
    found = RAPGraphClassifier(search=False).fit(graphs).importances(graphs, repeats=2)
    assert len(found.columns)
    assert not len(found.hops)
