"""Other ways to hand edges in: adj_t, sparse tensors, one way or both ways; and the reason where there are none."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data, HeteroData

from rapgnn import InputError, from_pyg, from_pyg_list
from rapgnn.graph.convert import unpack
from rapgnn.graph.lists import graph_set
from rapgnn.graph.nodes import node_graph

X = np.random.default_rng(0).random((4, 3))
Y = np.array([0, 1, 0, 1])
ONE_WAY = np.array([[0, 1, 2], [1, 2, 3]])
MASKS = {"train": [0, 1], "val": [2], "test": [3]}


class Triples:
    """What torch_sparse's SparseTensor shows of itself."""

    def __init__(self, row, col, value=None):
        self.parts = torch.tensor(row), torch.tensor(col), value

    def coo(self):
        return self.parts

    def size(self, _):
        return 4


def pairs(raw) -> set[tuple[int, int]]:
    return set(map(tuple, np.asarray(raw.edge_index).T.tolist()))


LISTED = {(0, 1), (1, 2), (2, 3)}
BOTH = LISTED | {(v, u) for u, v in LISTED}


@pytest.mark.parametrize("layout", ["triples", "coo", "csr", "csc"])
def test_adj_t_is_read(layout):
    matrix = torch.zeros(4, 4)
    matrix[ONE_WAY[1], ONE_WAY[0]] = 1.0  # its rows are receivers
    made = {
        "triples": lambda: Triples(ONE_WAY[1], ONE_WAY[0]),
        "coo": matrix.to_sparse,
        "csr": matrix.to_sparse_csr,
        "csc": matrix.to_sparse_csc,
    }[layout]
    data = Data(x=torch.tensor(X), y=torch.tensor(Y))
    data.adj_t = made()
    raw = unpack(data)
    assert pairs(raw) == LISTED
    assert raw.edge_weight is None
    graph = node_graph(unpack(data, **MASKS))
    assert set(map(tuple, graph.edge_index.T.tolist())) == LISTED
    for split, rows in MASKS.items():
        data[f"{split}_mask"] = torch.isin(torch.arange(4), torch.tensor(rows))
    assert set(map(tuple, from_pyg(data).edge_index.T.tolist())) == LISTED


def test_weights_of_adj_t_and_of_an_adjacency():
    data = Data(x=torch.tensor(X))
    data.adj_t = Triples(ONE_WAY[1], ONE_WAY[0], torch.tensor([1.0, 2.0, 3.0]))
    assert unpack(data).edge_weight.tolist() == [1.0, 2.0, 3.0]
    raw = unpack(X, adjacency=Triples(ONE_WAY[0], ONE_WAY[1]))
    assert pairs(raw) == LISTED
    with pytest.raises(InputError, match="cannot be read as a sparse matrix"):
        unpack(X, adjacency=Triples([9], [9], torch.ones(3)))


def hetero() -> HeteroData:
    data = HeteroData()
    data["paper"].x = torch.ones(3, 2)
    data["author"].x = torch.ones(2, 2)
    data["author", "writes", "paper"].edge_index = torch.tensor([[0, 1], [0, 2]])
    return data


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (hetero(), r"this is a HeteroData.*to_homogeneous\(\)"),
        ([Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]))] * 3, "a list of 3 graphs.*RAPGraphClassifier"),
        ([nx.path_graph(3)], "a list of 1 graphs"),
        (Data(x=torch.ones(2, 1)), "this Data has no edges, neither edge_index nor adj_t"),
        ("plants", r"read it with load_dataset"),
        ({"x": X}, "this is a dictionary"),
        (X, "there are no edges: give edge_index or adjacency"),
    ],
)
def test_the_reason_why_there_are_no_edges(data, reason):
    with pytest.raises(InputError, match=reason):
        unpack(data)


def test_edges_one_way_or_both_ways():
    one = unpack(X, edge_index=ONE_WAY)
    assert pairs(one) == LISTED
    assert any("one way: directed=False adds the reverse" in note for note in one.notes)
    assert not unpack(X, directed=True, edge_index=ONE_WAY).notes
    weights = np.array([1.0, 2.0, 3.0])
    both = unpack(X, directed=False, edge_index=ONE_WAY, edge_weight=weights)
    assert pairs(both) == BOTH
    assert not both.notes
    found = dict(zip(map(tuple, both.edge_index.T.tolist()), both.edge_weight.tolist(), strict=True))
    assert all(found[u, v] == found[v, u] == weights[u] for u, v in LISTED)
    again = unpack(X, directed=False, edge_index=both.edge_index)
    assert again.edge_index.shape == both.edge_index.shape  # what is both ways already stays so
    assert not unpack(X, edge_index=both.edge_index).notes
    mixed = np.array([[0, 1, 1, 3], [1, 0, 2, 3]])
    assert not unpack(X, edge_index=mixed).notes  # some are listed both ways: on purpose
    assert not unpack(X, edge_index=np.array([[1], [1]])).notes
    assert any("one way" in note for note in unpack(X, adjacency=sp.csr_matrix((np.ones(3), ONE_WAY), (4, 4))).notes)
    assert not unpack(nx.DiGraph([(0, 1), (1, 2)])).notes  # it says itself what it is
    assert pairs(unpack(nx.DiGraph([(0, 1), (1, 2)]), directed=False)) == {(0, 1), (1, 0), (1, 2), (2, 1)}
    with pytest.raises(InputError, match="directed must be True or False"):
        unpack(X, directed="no", edge_index=ONE_WAY)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="3 edges but edge_weight of shape"):
        unpack(X, directed=False, edge_index=ONE_WAY, edge_weight=[1.0])


def test_lists_of_graphs_one_way_or_both_ways():
    def some(edges) -> list[Data]:
        return [Data(x=torch.ones(4, 1), edge_index=torch.tensor(edges), y=torch.tensor([i % 2])) for i in range(10)]

    listed = graph_set(some(ONE_WAY), task="classification")
    assert any("one way" in note for note in listed.notes)
    assert listed.edge_index.shape[1] == 30
    assert graph_set(some(ONE_WAY), task="classification", directed=False).edge_index.shape[1] == 60
    assert not graph_set(some(ONE_WAY), task="classification", directed=True).notes
    assert from_pyg_list(some(ONE_WAY), directed=False).edge_index.shape[1] == 60
    with_features = [(np.ones((4, 1)), ONE_WAY, np.arange(3.0)[:, None])] * 10
    both = graph_set(with_features, Y.tolist() * 2 + [0, 1], task="classification", directed=False)
    assert both.edge_attr[:6, 0].tolist() == [0.0, 1.0, 2.0, 0.0, 1.0, 2.0]


def test_edge_features_of_one_graph_are_left_out_and_it_is_said():
    data = Data(x=torch.tensor(X), y=torch.tensor(Y), edge_index=torch.tensor(ONE_WAY), edge_attr=torch.ones(3, 2))
    graph = node_graph(unpack(data, directed=True, **MASKS))
    assert [note for note in graph.notes if "edge_attr is left out" in note]


def test_blanks_around_labels_in_python():
    labels = ["p ", "q", "p", " q"]
    graph = node_graph(unpack(X, y=labels, edge_index=ONE_WAY, directed=True, **MASKS))
    assert graph.classes == ("p", "q")
    assert any("blanks around 2 labels" in note for note in graph.notes)
