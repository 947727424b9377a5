"""Every way to hand edges and graphs in; the reason where something is missing or wrong."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data, HeteroData

from rapgnn import InputError, from_pyg, make_graph
from rapgnn.datasets.columns import Reading
from rapgnn.datasets.tables import read_networks
from rapgnn.graph.convert import unpack
from rapgnn.graph.graph import build_graph, graph_set
from samples import pyg

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
    graph = build_graph(unpack(data, **MASKS))
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
    graph = nx.DiGraph([(0, 1), (1, 2)])
    read = read_networks(graph, reading=Reading(labelled=None))
    assert pairs(read) == {(0, 1), (1, 2)}
    assert not any("one way" in note for note in read.notes)  # it says itself what it is
    both = read_networks(graph, reading=Reading(labelled=None), directed=False)
    assert pairs(both) == {(0, 1), (1, 0), (1, 2), (2, 1)}
    with pytest.raises(InputError, match="directed must be True or False"):
        unpack(X, directed="no", edge_index=ONE_WAY)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="3 edges but edge_weight of shape"):
        unpack(X, directed=False, edge_index=ONE_WAY, edge_weight=[1.0])


def test_blanks_around_labels_in_python():
    labels = ["p ", "q", "p", " q"]
    graph = build_graph(unpack(X, y=labels, edge_index=ONE_WAY, directed=True, **MASKS))
    assert graph.classes == ("p", "q")
    assert any("blanks around 2 labels" in note for note in graph.notes)


@pytest.mark.parametrize(
    ("graphs", "words"),
    [
        ([pyg(), pyg(width=3)], "graph 0 has 2 node features but graph 1 has 3"),
        ([pyg(edge_attr=torch.ones(2, 1)), pyg()], "graph 0 has edge features but graph 1 has none"),
        ([pyg(y=0.25), pyg(y=1.5)], "regression targets"),
        ([pyg(), pyg(edge_index=torch.tensor([[0], [7]]))], "names node 7"),
        ([pyg(x=torch.tensor([[float("nan"), 0.0]] * 3)), pyg()], "NaN or infinite"),
        ([pyg(y=0), pyg(x=None)], "graph 0 has node features but graph 1 has none"),
        ([], "empty"),
    ],
)
def test_bad_graph_lists_are_refused(graphs, words):
    with pytest.raises(InputError, match=words):
        graph_set(graphs, splits={"train": [0, 1], "val": [], "test": []}, as_given=True)


def test_minus_one_is_unknown_whatever_the_column_holds():
    words = np.array(["p", "q", -1, "q"], dtype=object)
    graph = build_graph(unpack(X, y=words, edge_index=ONE_WAY, directed=True, train=[0, 1], val=[3], test=[]))
    assert graph.classes == ("p", "q")
    assert graph.y.tolist() == [0, 1, -1, 1]
    with pytest.raises(InputError, match="-1 means unknown"):
        build_graph(unpack(X, y=np.array([1, -1, 1, -1], dtype=object), edge_index=ONE_WAY))


def test_one_of_several_masks():
    table = np.zeros((4, 3), dtype=bool)
    table[[0, 1], 1] = True
    data = Data(x=torch.tensor(X), y=torch.tensor(Y), edge_index=torch.tensor(ONE_WAY))
    data.train_mask = torch.tensor(table)
    assert from_pyg(data, mask_column=1).train.tolist() == [0, 1]
    with pytest.raises(InputError, match="mask_column"):
        from_pyg(data)
    with pytest.raises(InputError, match="mask_column must be a whole number from 0 to 2"):
        from_pyg(data, mask_column=3)
    assert build_graph(unpack(data), classes=(0, 1), trained=True).num_rows == 4  # scored without the masks


def test_negative_weights_are_announced():
    for weights, said in ((np.array([1.0, -1.0, 1.0]), True), (np.ones(3), False)):
        graph = build_graph(unpack(X, y=Y, edge_index=ONE_WAY, edge_weight=weights, directed=True, **MASKS))
        assert any("negative" in note for note in graph.notes) == said


@pytest.mark.parametrize("size", [1e-19, 1e-30, 1e-42])
def test_tiny_features_are_scaled_or_refused(size):
    data = unpack(X * size, y=Y, edge_index=ONE_WAY, directed=True, **MASKS)
    graph = build_graph(data)
    np.testing.assert_allclose(graph.x, (X - X.mean(0)) / X.std(0), atol=1e-3)
    with pytest.raises(InputError, match="no number beyond"):
        make_graph(X * size, ONE_WAY, Y, **MASKS)
    column = build_graph(replace(data, x=pd.DataFrame(X * size)))
    np.testing.assert_allclose(column.x, graph.x, atol=1e-3)


def test_targets_beyond_32_bits_are_refused():
    with pytest.raises(InputError, match="targets hold numbers beyond"):
        build_graph(unpack(X, y=Y * 1e30, edge_index=ONE_WAY), task="regression")


def test_numbers_of_other_machines():
    graph = build_graph(unpack(X.astype(">f4"), y=Y.astype(">i8"), edge_index=ONE_WAY.astype(">i4"), **MASKS))
    assert graph.y.tolist() == Y.tolist()
    assert build_graph(unpack(X, y=Y.astype("f2"), edge_index=ONE_WAY, **MASKS)).classes == (0, 1)
