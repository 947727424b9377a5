"""The reader of TU's text files."""

import pytest

from folders import tu
from rapgnn import InputError
from rapgnn.datasets.tu import read_tu


def test_tu_graphs_without_any_edge(tmp_path):
    graph = read_tu("tiny", tu(tmp_path / "t", A="", edge_labels=""))
    assert graph.edge_index.shape == (2, 0)


def test_tu_files(tmp_path):
    graph = read_tu("tiny", tu(tmp_path / "t"))
    assert graph.ptr.tolist() == [0, 2, 4, 5]
    assert graph.y.tolist() == [1, 0, 1]
    assert graph.x.scipy().toarray().argmax(1).tolist() == [0, 2, 0, 0, 1]
    assert graph.num_edge_features == 2
    assert graph.folds
    wide = read_tu("tiny", tmp_path / "t", attributes=True)
    assert wide.num_features == 4
    assert float(wide.x[:, 3].mean()) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"A": "1, 2\n2, 9\n3, 4\n4, 3\n"}, "names node 8"),
        ({"A": "1, 3\n2, 1\n3, 4\n4, 3\n"}, "joins two different graphs"),
        ({"node_labels": "3\n5\n"}, "5 nodes but 2 node labels"),
        ({"graph_indicator": "1\n2\n1\n2\n3\n"}, "graph by graph"),
        ({"graph_labels": "1\n0\n"}, "2 graph labels but a node of graph 3"),
        ({"graph_labels": "1\nx\n1\n"}, "cannot read"),
    ],
)
def test_bad_tu_files_are_refused(tmp_path, changes, words):
    with pytest.raises(InputError, match=words):
        read_tu("tiny", tu(tmp_path / "t", **changes))
