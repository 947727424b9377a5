"""Malformed lists of graphs at the estimators' door."""

from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from fuzzing import REFUSED, Tally, examples, finite, outcome
from rapgnn import RAPGraphClassifier, RAPGraphRegressor
from samples import graph_list
from spoiled import QUICK, X, dates, put

GRAPHS = {
    kind: graph_list(12, regression=kind is RAPGraphRegressor) for kind in (RAPGraphClassifier, RAPGraphRegressor)
}
G = GRAPHS[RAPGraphClassifier][0]
GX, GE = G.x.numpy(), G.edge_index.numpy()
GN, GM = len(GX), GE.shape[1]
UNLABELLED = Data(x=G.x, edge_index=G.edge_index)
BAD_MEMBERS = [
    None, 5, "abc", b"x", object(), {}, [], (), (GX,), (GX, GE, None, 1), [GX, "e"], Data(), Data(x=G.x),
    (GX[:, :2], GE), (GX * np.nan, GE), (GX, GE + GN), (GX, GE - 1), (GX, GE.astype(float)), (GX, GE.T),
    (GX * 1j, GE), (GX.astype(str), GE), (GX[:-1], GE), (None, GE), ([[1.0], [1.0, 2.0]], GE), (GX[None], GE),
    (GX, [[0], [1, 2]]), (GX, None), ("abc", GE), (GX, GE, [[1.0]]), ({}, GE), nx.Graph,
    Data(x=G.x, edge_index=G.edge_index, y=torch.tensor([float("inf")])),
    Data(x=G.x, edge_index=G.edge_index, y="one"), Data(x=G.x, edge_index=G.edge_index, y=torch.tensor([0, 1])),
    UNLABELLED, nx.path_graph(3), Data(x=G.x, edge_index=G.edge_index, y=[[1], [1, 2]]),
    Data(edge_index=G.edge_index, num_nodes=-3, y=G.y), Data, float("nan"),
    Data(x=G.x, edge_index=G.edge_index, y=torch.zeros(0)),
    Data(x=G.x, edge_index=G.edge_index, y=torch.tensor([1j])),
    Data(x=G.x, edge_index=G.edge_index, y=G.y, num_nodes=99),
    Data(x=torch.zeros(()), edge_index=G.edge_index, y=G.y),
    Data(x=G.x, edge_index=G.edge_index, y=G.y, edge_attr=torch.ones(1)),
    Data(edge_index=torch.tensor([[0], [2**60]]), y=G.y), (GX, GE, np.ones(1)), (GX, GE, None, np.full(GM, np.nan)),
    (GX, GE, np.full(GM, np.inf)), (GX, GE, [1j] * GM), (GX, GE, ["a"] * GM),
    *(Data(x=G.x, edge_index=G.edge_index, y=G.y, edge_weight=w) for w in (
        torch.ones(1), torch.full((GM,), float("nan")), torch.ones(GM, 2), torch.tensor(1.0), "abc", 1.0,
    )),
]  # fmt: skip
NO_LIST = [
    None, 5, "abc", b"abc", {}, {1: G}, {1, 2}, set(), [], (), object(), G, iter([G]), pd.DataFrame({"a": [1]}),
    np.zeros((3, 3)), X, torch.zeros(()), torch.zeros(3, 2), nx.path_graph(3), Data, np.array(["a"]), [[]], [None],
    [[G]], pd.Series([1.0]), 1j, np.nan,
]  # fmt: skip
Z = np.arange(12) % 2
BAD_CLASSES = [
    "abc", 5, {}, object(), Z[:-1], Z + 0.5, np.full(12, np.nan), np.full(12, -1), Z * 1j, Z.astype("S1"), dates(12),
    [1, "a"] * 6, {0, 1}, [[0], [0, 1]] * 6, np.zeros(12), ["x"] * 12, [[]] * 12, [None] * 12, [{1}] * 12,
    np.zeros((12, 2, 2)), np.full((12, 2), 3), put(Z, np.inf), np.where(Z > 0, 1, -1), Z * 1e300, lambda: 0,
    dict(enumerate(Z)), [True, 2] * 6,
]  # fmt: skip
BAD_TARGETS = [
    "abc", 5, {}, object(), Z[:-1], np.full(12, np.nan), Z * 1j, Z.astype("S1"), dates(12), ["a"] * 12, {0, 1},
    [[0], [0, 1]] * 6, [[]] * 12, [None] * 12, np.zeros((12, 2, 2)), put(Z, np.inf), Z * 1e300 + 1e300,
    np.full(12, 1e39), [1.0, None] * 6, [[1, "a"]] * 12,
]  # fmt: skip
BAD_GRAPH_ROWS = [
    "abc", 5, {}, object(), [12], [-1], [0.5], np.ones(11, bool), ["a"], [[0], [1, 2]], [np.nan], Z, [None], dates(2),
]  # fmt: skip


FITTED = {kind: kind(**QUICK).fit(GRAPHS[kind]) for kind in GRAPHS}


def sound(data: st.DataObject, kind: type) -> tuple[Any, dict[str, Any]]:
    """The same graphs as other people would hand them in."""
    graphs, given = [GRAPHS[kind][i] for i in data.draw(st.permutations(range(12)))], {}
    how = data.draw(st.sampled_from(["list", "tuple", "pairs", "weights", "without features", "rows"]))
    if how == "tuple":
        return tuple(graphs), given
    if how == "pairs":
        graphs, given["y"] = [(g.x.numpy(), g.edge_index.numpy()) for g in graphs], [float(g.y) for g in graphs]
    elif how == "weights":
        weights = [np.linspace(data.draw(st.sampled_from([-1, 0, 1])), 2, g.edge_index.shape[1]) for g in graphs]
        given["y"] = [float(g.y) for g in graphs]
        graphs = [(g.x.numpy(), g.edge_index.numpy(), w) for g, w in zip(graphs, weights, strict=True)]
    elif how == "without features":
        graphs = [Data(edge_index=g.edge_index, num_nodes=g.num_nodes, y=g.y) for g in graphs]
    elif how == "rows":
        graphs, given = list(GRAPHS[kind]), {"train": np.arange(12) < 8, "val": [8, 9], "test": torch.tensor([10, 11])}
    return graphs, given


def test_lists_of_graphs():
    """Bad ones are refused, sound ones learned."""
    tally = Tally()

    @examples("graph lists")
    @given(data=st.data())
    def one(data):
        kind = data.draw(st.sampled_from([RAPGraphClassifier, RAPGraphRegressor]))
        regression = kind is RAPGraphRegressor
        graphs, given = list(GRAPHS[kind]), {}
        way = data.draw(st.sampled_from(["member", "member", "list", "y", "rows", "name", "pairs", "sound", "sound"]))
        if way == "member":
            wrong = data.draw(st.sampled_from(BAD_MEMBERS))
            graphs[data.draw(st.integers(0, 11))] = wrong
        elif way == "pairs":
            graphs = [(g.x.numpy(), g.edge_index.numpy()) for g in graphs]
            unlabelled = [m for m in BAD_MEMBERS if getattr(m, "y", None) is None and m is not UNLABELLED]
            graphs[data.draw(st.integers(0, 11))] = data.draw(st.sampled_from(unlabelled))
            given["y"] = Z
        elif way == "list":
            graphs = data.draw(st.sampled_from(NO_LIST))
        elif way == "y":
            given["y"] = data.draw(st.sampled_from(BAD_TARGETS if regression else BAD_CLASSES))
        elif way == "rows":
            given = {"train": [0, 1, 2, 3], "val": [4, 5]}
            split = data.draw(st.sampled_from(["train", "val", "test"]))
            given[split] = data.draw(st.sampled_from([*BAD_GRAPH_ROWS, range(12)]))
        elif way == "sound":
            graphs, given = sound(data, kind)
        else:
            names = ["edge_index", "adjacency", "edge_weight", "labelled", "training", "mask"]
            given[data.draw(st.sampled_from(names))] = Z
        model = kind(**QUICK)
        use = model.fit
        if way in ("list", "name") and data.draw(st.booleans()):
            use = data.draw(st.sampled_from([FITTED[kind].predict, FITTED[kind].score, FITTED[kind].transform]))
        found = tally.count(outcome(lambda: use(graphs, **given)))
        assert (found is not REFUSED) == (way == "sound")
        if way == "sound":
            finite(model.predict(graphs), 12)

    one()
    tally.check(accepted=0.05, refused=0.5)


@pytest.mark.parametrize("kind", GRAPHS)
def test_the_unspoiled_lists_are_learned(kind):
    finite(FITTED[kind].predict(GRAPHS[kind]), 12)
    assert FITTED[kind].score(GRAPHS[kind]) > 0.6  # accuracy, or R²
