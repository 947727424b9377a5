"""Edge weights of many graphs: every way in, the layer-by-layer engine as the judge, and no matter of order."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from folders import many, write
from fuzzing import examples
from operators import adapted, relative_error
from rapgnn import (
    Propagation,
    load_dataset,
    make_graphs,
)
from rapgnn.datasets.tables import read_networks
from rapgnn.graph.graph import graph_set
from rapgnn.network.polynomial import PolynomialFilter
from rapgnn.network.stepwise import pooled
from rapgnn.sparse import dense
from strategies import batches

GRAPHS = 40
FIXED = {"search": False, "embedding": "identity", "head": "ridge", "ridge": 1e-3}


def weighted(seed: int = 0, signed: bool = False) -> list[Data]:
    """Rings that differ in their edges' weights alone; the number to predict is the weights' sum."""
    rng = np.random.default_rng(seed)
    graphs = []
    for i in range(GRAPHS):
        n = int(rng.integers(4, 9))
        ends = torch.tensor([[v, (v + 1) % n] for v in range(n)]).T
        weight = rng.random(n) + (i % 2)
        if signed:
            weight = weight - 1.0
        weight = torch.tensor(np.tile(weight, 2), dtype=torch.float32)
        graphs.append(
            Data(
                x=torch.tensor(1 + 0.1 * rng.random((n, 2)), dtype=torch.float32),
                edge_index=torch.cat([ends, ends.flip(0)], dim=1),
                edge_weight=weight,
                y=torch.tensor([i % 2]),
                total=float(weight.sum()),
            )
        )
    return graphs


def as_networkx(data: Data) -> nx.Graph:
    graph = nx.DiGraph()
    graph.add_nodes_from((v, {"x": x.numpy()}) for v, x in enumerate(data.x))
    for (u, v), w in zip(data.edge_index.T.tolist(), data.edge_weight.tolist(), strict=True):
        graph.add_edge(u, v, weight=w)
    return graph


def test_every_way_in_is_the_same():
    graphs = weighted()
    y = [int(g.y) for g in graphs]
    wanted = graph_set(graphs, task="classification")
    assert wanted.edge_weight is not None
    torch.testing.assert_close(wanted.edge_weight, torch.cat([g.edge_weight for g in graphs]))
    tuples = [(g.x.numpy(), g.edge_index.numpy(), g.edge_weight.numpy()) for g in graphs]
    with_features = [(*t[:2], np.ones((t[1].shape[1], 3)), t[2]) for t in tuples]
    for found in (
        graph_set(tuples, y, task="classification", directed=True),
        graph_set([tuple(map(np.ndarray.tolist, t)) for t in tuples], y, task="classification", directed=True),
        read_networks(list(map(as_networkx, graphs)), y=y),
    ):
        assert relative_error(dense_operator(found), dense_operator(wanted)) < 1e-6
    found = graph_set(with_features, y, task="classification")
    torch.testing.assert_close(found.edge_weight, wanted.edge_weight)
    assert found.num_edge_features == 3
    listed = graph_set(graphs, as_given=True)
    torch.testing.assert_close(listed.edge_weight, wanted.edge_weight)
    one = graph_set([(*t[:2], t[2][:, None]) for t in tuples], y, task="classification")
    assert one.edge_weight is None  # a table is of features, also with one column
    assert one.num_edge_features == 1


def dense_operator(graph, backbone: str = "gin"):
    return torch.from_numpy(graph.operator(backbone).matrix.scipy().toarray())


@pytest.mark.parametrize("backbone", ["gin", "gcn", "sage"])
@examples(25)
@given(batch=batches(), seed=st.integers(0, 1000), how=st.sampled_from(["sum", "mean"]))
def test_lists_propagate_as_layer_by_layer_on_each_graph_alone(backbone, batch, seed, how):
    """The shortcut on all graphs at once is what the layers make of one weighted graph after another."""
    sizes, edges, weight, _ = batch
    weight = torch.ones(edges.shape[1]) if weight is None else weight
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(sum(sizes), 3, generator=g)
    if not sum(sizes):
        return
    order = torch.randperm(edges.shape[1], generator=g)  # edges in any order: weights go with them
    graph = make_graphs(
        x, edges[:, order], sizes, np.zeros(len(sizes)), range(len(sizes)), edge_weight=weight[order], task="regression"
    )
    operator = graph.operator(backbone)
    spec = adapted(Propagation(backbone, 3, seed=seed, pooling=how), operator)
    found = PolynomialFilter(spec, operator, dense(graph.x)).draw([5])[0]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    for i, (low, high) in enumerate(pairwise(starts)):
        if low == high:
            assert not found[i].any()
            continue
        inside = (edges[0] >= low) & (edges[0] < high)
        alone = make_graphs(
            x[low:high], edges[:, inside] - low, [high - low], [0.0], [0], edge_weight=weight[inside], task="regression"
        )
        reference = pooled(spec, alone.operator(backbone), dense(alone.x), 5)
        torch.testing.assert_close(found[i : i + 1], reference, rtol=1e-4, atol=1e-5)


def test_a_folder_of_graphs_with_weights(tmp_path):
    frames = many()
    rng = np.random.default_rng(0)
    frames["edges"] = frames["edges"].drop(columns="bond").assign(weight=rng.random(len(frames["edges"])))
    order = rng.permutation(len(frames["edges"]))
    graph = load_dataset(write(tmp_path / "a", **frames))
    other = load_dataset(write(tmp_path / "b", **(frames | {"edges": frames["edges"].iloc[order]})))
    assert graph.edge_weight is not None
    assert graph.edge_attr is None
    torch.testing.assert_close(dense_operator(graph), dense_operator(other))
    both = dict(zip(map(tuple, graph.edge_index.T.tolist()), graph.edge_weight.tolist(), strict=True))
    assert all(both[v, u] == w for (u, v), w in both.items())
    assert sum(both.values()) / 2 == pytest.approx(frames["edges"]["weight"].sum(), rel=1e-5)
    assert [use.read_as for use in graph.encoding.uses if use.column == "weight"] == ["weight"]
    unknown = frames["edges"].copy()
    unknown.loc[3, "target"] = 77
    dropped = load_dataset(write(tmp_path / "c", **(frames | {"edges": unknown})), drop_unknown_edges=True)
    assert dropped.edge_weight is not None
    assert len(dropped.edge_weight) == dropped.edge_index.shape[1] == len(both) - 2
