"""Lists of graphs of PyTorch Geometric: they train, and mistakes are named."""

import pytest
import torch

from rapgnn import InputError, fit, from_pyg_list
from samples import GRAPH_CONFIG as CONFIG
from samples import on_test, pyg


@pytest.mark.parametrize(
    ("graphs", "words"),
    [
        ([pyg(), pyg(width=3)], "graph 0 has 2 node features but graph 1 has 3"),
        ([pyg(edge_attr=torch.ones(2, 1)), pyg()], "graph 0 has edge features but graph 1 has none"),
        ([pyg(y=0.25), pyg(y=1.5)], "regression targets"),
        ([pyg(), pyg(edge_index=torch.tensor([[0], [7]]))], "names node 7"),
        ([pyg(x=torch.tensor([[float("nan"), 0.0]] * 3)), pyg()], "NaN or infinite"),
        ([pyg(y=0), pyg(x=None)], "graph 1 has no x"),
        ([], "empty"),
    ],
)
def test_bad_graph_lists_are_refused(graphs, words):
    with pytest.raises(InputError, match=words):
        from_pyg_list(graphs, train=[0, 1], val=[], test=[])


def test_an_edge_of_a_graph_without_nodes_is_refused():
    from torch_geometric.data import Data

    empty = Data(x=torch.zeros(0, 2), edge_index=torch.tensor([[0], [0]]), y=torch.tensor([0]))
    with pytest.raises(InputError, match="there is none"):
        from_pyg_list([empty, pyg()], train=[0, 1], val=[], test=[])


def test_lists_of_pyg_graphs_train():
    graphs = [pyg(y=i % 2, x=torch.full((3, 2), float(i % 2))) for i in range(40)]
    graph = from_pyg_list(graphs)
    assert (len(graph.train), len(graph.val), len(graph.test)) == (32, 4, 4)
    fitted = fit("rap", graph, CONFIG.update(backbone="gin"), 0)
    assert on_test(graph, fitted) == 1.0
