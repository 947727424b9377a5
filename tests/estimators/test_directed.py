"""Edges one way or both ways at the estimators' door, and what is said about edges."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

from rapgnn import InputError, InputNotice, RAPGraphClassifier, RAPNodeClassifier, load_dataset

N = 60
RNG = np.random.default_rng(0)
Y = np.arange(N) % 2
X = RNG.normal(size=(N, 3)) + Y[:, None]
EDGES = RNG.integers(N, size=(2, 200))
EDGES = np.unique(EDGES[:, EDGES[0] < EDGES[1]], axis=1)
BOTH = np.concatenate([EDGES, EDGES[::-1]], axis=1)
MASKS = {"train": np.arange(30), "val": np.arange(30, 45), "test": np.arange(45, 60)}
FAST = {"search": False, "head": "ridge"}


def nodes() -> RAPNodeClassifier:
    return RAPNodeClassifier(**FAST, embedding="identity", num_layers=2)


def test_edges_of_a_node_classifier():
    with pytest.warns(InputNotice, match="one way: directed=False adds the reverse"):
        nodes().fit(X, Y, edge_index=EDGES, **MASKS)
    nodes().fit(X, Y, edge_index=EDGES, directed=True, **MASKS)  # nothing to say
    one = nodes().fit(X, Y, edge_index=EDGES, directed=False, **MASKS)
    two = nodes().fit(X, Y, edge_index=BOTH, **MASKS)
    found, wanted = one.predict_proba(X, edge_index=EDGES, directed=False), two.predict_proba(X, edge_index=BOTH)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    nodes().fit_transform(X, Y, edge_index=EDGES, directed=False, **MASKS)


def test_edges_of_many_graphs():
    edges = torch.tensor([[0, 1], [1, 2]])
    graphs = [Data(x=torch.rand(4, 2) + i % 2, edge_index=edges, y=torch.tensor([i % 2])) for i in range(30)]
    splits = {"train": range(20), "val": range(20, 30)}
    with pytest.warns(InputNotice, match="one way"):
        RAPGraphClassifier(**FAST).fit(graphs, **splits)
    model = RAPGraphClassifier(**FAST).fit(graphs, directed=False, **splits)
    assert model.score(graphs, directed=False) > 0.5


def test_what_is_said_and_refused(tmp_path):
    edge_attr = torch.ones(BOTH.shape[1], 2)
    data = Data(x=torch.tensor(X), y=torch.tensor(Y), edge_index=torch.tensor(BOTH), edge_attr=edge_attr)
    with pytest.warns(InputNotice, match="edge_attr is left out"):
        nodes().fit(data, **MASKS)
    with pytest.raises(InputError, match="HeteroData"):
        nodes().fit(HeteroData(), Y)
    with pytest.raises(InputError, match="list of 2 graphs"):
        nodes().fit([data, data])
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    with pytest.raises(InputError, match="there are no labels"):
        nodes().fit(load_dataset(tmp_path / "edges.csv"))
