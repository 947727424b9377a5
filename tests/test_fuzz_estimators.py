"""Malformed arrays, labels, splits, lists of graphs and settings at the estimators' door."""

import datetime
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch_geometric.data import Data

from fuzzing import REFUSED, examples, finite, outcome
from rapgnn import Config, RAPGraphClassifier, RAPGraphRegressor, RAPNodeClassifier
from test_estimators import FAST, graph_list

N, M = 30, 80
_RNG = np.random.default_rng(0)
Y = np.arange(N) % 3
NODES: dict[str, Any] = {
    "data": _RNG.normal(size=(N, 4)) + Y[:, None],
    "y": Y,
    "edge_index": _RNG.integers(N, size=(2, M)),
    "edge_weight": _RNG.random(M),
    "train": np.arange(N) < 18,
    "val": (np.arange(N) >= 18) & (np.arange(N) < 24),
    "test": np.arange(N) >= 24,
}
QUICK = {**FAST, "num_layers": 2}


def put(array: np.ndarray, value: Any, at: int = 3) -> np.ndarray:
    """A copy with one value changed."""
    new = np.array(array, dtype=np.result_type(array, type(value)) if not isinstance(value, str) else object)
    new.ravel()[at] = value
    return new


def dates(n: int) -> list[datetime.date]:
    return [datetime.date(2020, 1, 1 + i % 3) for i in range(n)]


X, E, W = NODES["data"], NODES["edge_index"], NODES["edge_weight"]
ZEROS, FEWER = np.zeros(N), X[:-1]  # one class is enough to score with; fewer nodes are enough to predict
NOTHING = [
    "abc", b"abc", 5, 2.5, object(), {}, {1, 2}, {"a": 1}, [[1.0, 2.0], [3.0]], [None], lambda: 0, nx.Graph, np.nan,
    np.array(3), [[[]]], "", [{}], torch.zeros(()), np.array(["a", "b"]), [10**400], iter([1]), 1j, dates(2),
]  # fmt: skip
BAD_FEATURES = [
    *NOTHING, [], np.zeros((0, 4)), np.zeros((N, 0)), X[..., None], put(X, np.nan), put(X, np.inf), X * 1j,
    X.astype(str), FEWER, X.astype(object) + 0j, np.full((N, 4), 10**30).tolist() * 2, sp.csr_matrix(X * 1j),
    sp.csr_matrix(put(X, np.nan)), torch.tensor(put(X, np.inf)), torch.tensor(X).to(torch.complex64),
    torch.tensor(put(X, np.nan)).to_sparse(), pd.DataFrame(), pd.DataFrame(put(X, np.inf)),
    pd.DataFrame({"a": [[1]] * N}), pd.DataFrame(X, columns=list("aabc")), X.T, X.tolist()[1:],
    pd.DataFrame({"a": [None] * N}), pd.DataFrame({"a": X[:, 0] * 1j}),
    pd.DataFrame({"a": [1.5, "b"] * 15, "b": dates(N)}), X * 1e39, np.arange(N).astype("M8[D]"),
    torch.zeros(N, 4, device="meta"), X[None],
]  # fmt: skip
BAD_EDGES = [
    *NOTHING, put(E, N), put(E, -1), put(E, 2**62), E.astype(float), E + 0.5, put(E, np.nan), E[:1], E[0], E.T,
    [*E.tolist(), [0]], [E[0].tolist(), E[1].tolist()[1:]], E.astype(str), E > 3, E * 1j, np.stack([E, E]),
    E.astype(object), E.astype(np.uint64) - 30, torch.tensor(E).to_sparse(), torch.tensor(E).float(),
    pd.DataFrame(E.T), {"source": E[0], "target": E[1]}, [], [[], []][:1],
]  # fmt: skip
BAD_LABELS = [
    *NOTHING, Y[:-1], np.full(N, np.nan), np.full(N, -1), Y + 0.5, put(Y, np.inf), Y * 1j, Y.astype("S1"), dates(N),
    Y * 1e300, [[int(v)] * (1 + i % 2) for i, v in enumerate(Y)], dict(enumerate(Y)), set(Y.tolist()), [{1}] * N,
    [1, "two", None] * 10, ZEROS, ["same"] * N, Y.reshape(N, 1, 1), pd.DataFrame({"y": Y}), Y.astype("m8[s]"),
    [True, 2, 3] * 10, [None] * N, np.eye(3)[Y] * 2, np.eye(3)[Y] + 0j, np.full((N, 3), np.nan), [[1, 2]] * N,
    [1.5, "a", "b"] * 10, [object()] * N, [""] * N, np.where(Y > 0, 1, -1), ["a" * 3000] * N, ["a\n\x00\u2028"] * N,
    pd.Series([pd.Timestamp(0)] * N), [np.zeros(2)] * (N - 1) + [np.zeros(3)], [b"a", b"b", b"c"] * 10,
    torch.tensor(Y).to(torch.cfloat),
]  # fmt: skip
BAD_ROWS = [
    *NOTHING, np.ones(N - 1, dtype=bool), np.ones(N + 1, dtype=bool), [N], [-1], [0.5, 1.0], [1, 1, 2.0],
    np.ones((N, 2), bool), ["train"] * N, Y % 2, [np.nan], [[0], [1, 2]], [2**63], pd.DataFrame({"a": [1]}),
    [None, 1], np.array([1 + 0j]), dates(3),
]  # fmt: skip
BAD_WEIGHTS = [
    *NOTHING, W[:-1], put(W, np.nan), put(W, -np.inf), W.astype(str), W * 1j, W.reshape(2, -1), put(W, 1e39), [1.0],
    np.ones(M + 1), [[1.0]] * (M - 1) + [[1.0, 2.0]], dates(M), torch.full((M,), float("inf")), np.ones((M, 2)),
]  # fmt: skip
SQUARE = np.ones((N, N))
BAD_ADJACENCY = [
    *NOTHING, SQUARE[:-1], SQUARE[:-1, :-1], np.ones((N + 1, N + 1)), put(SQUARE, np.nan), put(SQUARE, np.inf),
    SQUARE[0], SQUARE[None], sp.csr_matrix(SQUARE[:, :3]), sp.csr_matrix(SQUARE * 1j * 2), SQUARE.astype(str),
    torch.ones(N, N - 1).to_sparse(), [],
]  # fmt: skip
BAD = {"data": BAD_FEATURES, "y": BAD_LABELS, "edge_index": BAD_EDGES, "edge_weight": BAD_WEIGHTS}
BAD |= dict.fromkeys(("train", "val", "test"), BAD_ROWS)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.binary(max_size=3) | st.dates(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=8,
)


def as_data(given: dict[str, Any]) -> Data:
    names = {"data": "x", "train": "train_mask", "val": "val_mask", "test": "test_mask"}
    return Data(**{names.get(key, key): value for key, value in given.items()})


def fit_nodes(given: dict[str, Any], pyg: bool = False, **settings: Any) -> RAPNodeClassifier:
    estimator = RAPNodeClassifier(**QUICK | settings)
    return estimator.fit(as_data(given)) if pyg else estimator.fit(**given)


def checked(fitted: Any, given: dict[str, Any]) -> None:
    """What a fit that was not refused must be good for."""
    known = {key: given[key] for key in ("edge_index", "edge_weight") if key in given}
    found = outcome(lambda: fitted.predict_proba(given["data"], **known))
    assert found is not REFUSED
    finite(found, N)
    assert set(np.ravel(fitted.predict(given["data"], **known)).tolist()) <= {*fitted.classes_.tolist(), 0, 1}


@pytest.mark.parametrize("pyg", [False, True])
def test_the_unspoiled_graph_is_learned(pyg):
    given = {key: torch.tensor(value) for key, value in NODES.items()} if pyg else NODES
    checked(fit_nodes(given, pyg), NODES)


@examples("node fit")
@given(data=st.data())
def test_fit_refuses_spoiled_graphs(data):
    field = data.draw(st.sampled_from(sorted(BAD)))
    wrong = data.draw(st.sampled_from(BAD[field]))
    spoiled = NODES | {field: wrong}
    way = data.draw(st.sampled_from(["arrays", "arrays", "pyg", "two", "fewer", "overlap", "junk"]))
    if way == "two":
        other = data.draw(st.sampled_from(sorted(BAD)))
        spoiled = spoiled | {other: data.draw(st.sampled_from(BAD[other]))}
    elif way == "fewer":  # without what could give the fault away
        spoiled = {key: value for key, value in spoiled.items() if key in ("data", "y", "edge_index", field)}
    elif way == "overlap":
        one, two = data.draw(st.permutations(["train", "val", "test"]))[:2]
        spoiled = NODES | {one: NODES[one] | (np.arange(N) == data.draw(st.integers(0, N - 1))), two: np.arange(N) >= 0}
    elif way == "junk":
        spoiled = NODES | {field: data.draw(JUNK)}
    fitted = outcome(lambda: fit_nodes(spoiled, pyg=way == "pyg"))
    if way != "junk":
        assert fitted is REFUSED
    elif fitted is not REFUSED:  # None is no weight, no split, no features; a short list may name a row
        assert spoiled[field] is None or field in ("train", "val", "test")
        checked(fitted, spoiled)


NODE_MODEL = fit_nodes(NODES)


@examples("node use")
@given(data=st.data())
def test_predicting_and_scoring_refuse_what_fit_refuses(data):
    field = data.draw(
        st.sampled_from(["data", "edge_index", "edge_weight", "adjacency", "y", "split", "n_samples", "method"])
    )
    given = {key: NODES[key] for key in ("data", "edge_index", "edge_weight")}
    if field == "adjacency":
        given = {"data": X, "adjacency": data.draw(st.sampled_from(BAD_ADJACENCY))}
        use = data.draw(st.sampled_from([NODE_MODEL.predict, NODE_MODEL.transform, NODE_MODEL.predict_proba]))
    elif field in ("n_samples", "method"):
        odd = [0, -1, 2.5, "3", [2], np.nan, 10**12, True, {}, b"x", 10**400] if field == "n_samples" else NOTHING
        given[field], use = data.draw(st.sampled_from(odd)), NODE_MODEL.predict_proba
    elif field == "split":
        given |= {"y": Y, "split": data.draw(st.sampled_from(NOTHING))}
        use = NODE_MODEL.score
    elif field == "y":
        given["y"], use = data.draw(st.sampled_from([y for y in BAD_LABELS if y is not ZEROS])), NODE_MODEL.score
    else:
        given[field] = data.draw(st.sampled_from([v for v in BAD[field] if v is not FEWER]))
        use = data.draw(st.sampled_from([NODE_MODEL.predict, NODE_MODEL.transform, NODE_MODEL.predict_proba]))
    features = given.pop("data")
    assert outcome(lambda: use(features, **given)) is REFUSED


# Lists of graphs

GRAPHS = {
    kind: graph_list(12, regression=kind is RAPGraphRegressor) for kind in (RAPGraphClassifier, RAPGraphRegressor)
}
G = GRAPHS[RAPGraphClassifier][0]
GX, GE = G.x.numpy(), G.edge_index.numpy()
GN = len(GX)
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
    Data(edge_index=torch.tensor([[0], [2**60]]), y=G.y),
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


@examples("graph lists")
@given(data=st.data())
def test_lists_of_graphs(data):
    kind = data.draw(st.sampled_from([RAPGraphClassifier, RAPGraphRegressor]))
    regression = kind is RAPGraphRegressor
    graphs, given = list(GRAPHS[kind]), {}
    way = data.draw(st.sampled_from(["member", "member", "list", "y", "rows", "name", "pairs"]))
    if way == "member":
        wrong = data.draw(st.sampled_from(BAD_MEMBERS))
        graphs[data.draw(st.integers(0, 11))] = wrong
    elif way == "pairs":
        graphs = [(g.x.numpy(), g.edge_index.numpy()) for g in graphs]
        wrong = data.draw(
            st.sampled_from([m for m in BAD_MEMBERS if getattr(m, "y", None) is None and m is not UNLABELLED])
        )
        graphs[data.draw(st.integers(0, 11))] = wrong
        given["y"] = Z
    elif way == "list":
        graphs = data.draw(st.sampled_from(NO_LIST))
    elif way == "y":
        given["y"] = data.draw(st.sampled_from(BAD_TARGETS if regression else BAD_CLASSES))
    elif way == "rows":
        given = {"train": [0, 1, 2, 3], "val": [4, 5]}
        given[data.draw(st.sampled_from(["train", "val", "test"]))] = data.draw(
            st.sampled_from([*BAD_GRAPH_ROWS, range(12)])
        )
    else:
        given[
            data.draw(st.sampled_from(["edge_index", "adjacency", "edge_weight", "labelled", "training", "mask"]))
        ] = Z
    model = kind(**QUICK)
    use = model.fit
    if way in ("list", "name") and data.draw(st.booleans()):
        use = data.draw(st.sampled_from([FITTED[kind].predict, FITTED[kind].score, FITTED[kind].transform]))
    assert outcome(lambda: use(graphs, **given)) is REFUSED


FITTED = {kind: kind(**QUICK).fit(GRAPHS[kind]) for kind in GRAPHS}


@pytest.mark.parametrize("kind", GRAPHS)
def test_the_unspoiled_lists_are_learned(kind):
    finite(FITTED[kind].predict(GRAPHS[kind]), 12)


# Numbers at the edge of what 32 bits hold

EXTREMES = st.sampled_from([0.0, 1.0, -1.0, 1e-300, 1e-40, 1e-20, -1e5, 1e10, 1e19, -1e25, 3e38, -3.4e38])
SHAPES = {"backbone": ["gcn", "sage", "gin"], "jumping": ["last", "cat"], "head": ["ridge", "linear"]}
SHAPES |= {
    "embedding": ["identity", "fixed-random", "pretrained"],
    "activation": ["identity", "relu"],
    "ridge": [0.0, 1.0, None],
}


@examples("extremes")
@given(data=st.data())
def test_extreme_numbers_give_finite_predictions_or_a_refusal(data):
    shape = {name: data.draw(st.sampled_from(values)) for name, values in SHAPES.items()}
    shape |= {"hidden_channels": 4, "epochs": 2, "pretrain_epochs": 2, "normalize_features": data.draw(st.booleans())}
    quick = {"search": False, "num_layers": data.draw(st.sampled_from([1, 3, 40])), "settings": shape}
    at = [data.draw(st.integers(0, 20)) for _ in range(3)]
    value = [data.draw(EXTREMES) for _ in range(3)]
    everywhere = data.draw(st.booleans())
    if data.draw(st.booleans()):
        x, w = (X * value[0] if everywhere else put(X, value[0], at[0])), put(W, value[1], at[1])
        w = w * value[2] if data.draw(st.booleans()) else w
        given = NODES | {"data": x, "edge_weight": w}
        fitted = outcome(lambda: RAPNodeClassifier(**quick).fit(**given))
        found = REFUSED if fitted is REFUSED else outcome(lambda: fitted.predict_proba(x, edge_index=E, edge_weight=w))
        rows = N
    else:
        graphs = [(g.x.numpy().astype(float), g.edge_index.numpy()) for g in GRAPHS[RAPGraphRegressor]]
        graphs = [(x * value[0] if everywhere else put(x, value[0], at[0] % x.size), e) for x, e in graphs]
        y = put(np.linspace(1, 2, 12), value[1], at[1] % 12) * (value[2] or 1.0)
        fitted = outcome(lambda: RAPGraphRegressor(**quick).fit(graphs, y))
        found = REFUSED if fitted is REFUSED else outcome(lambda: fitted.predict(graphs))
        rows = 12
    if found is not REFUSED:
        finite(found, rows)


# Settings

NEVER = [
    object(), b"x", [], {}, np.nan, np.inf, -np.inf, 10**40, -(10**40), 10**5000, "nonsense", 1j, np.zeros(3),
    ["relu"], lambda: 0,
]  # fmt: skip
OTHERS = {
    "seed": [-1, 2**64, None],
    "search": [None, 1],
    "time_budget": [-1, True],
    "device": ["tpu", None],
    "settings": [5, {1: 2}],
}
NO_SETTINGS = [
    [], "abc", {"nonsense": 1}, {"": 1}, {"num_layers": "2"}, {"w" * 3000: 1}, {"head": None},
]  # fmt: skip


@examples("settings")
@given(data=st.data())
def test_settings_of_the_wrong_kind(data):
    estimator = RAPNodeClassifier(**QUICK)
    own = estimator.get_params()
    name = data.draw(st.sampled_from([*Config.__dataclass_fields__, *OTHERS]))
    value = data.draw(st.sampled_from([*NEVER, *OTHERS.get(name, [])]))
    if name == "settings":
        value = data.draw(st.sampled_from([*NO_SETTINGS, *OTHERS[name]]))
    assume(not (name == "time_budget" and isinstance(value, int | float) and value > 0))
    if (name in own and data.draw(st.booleans())) or name in OTHERS:
        estimator.set_params(**{name: value})
    else:
        estimator.set_params(settings=FAST["settings"] | {name: value})
    assert outcome(lambda: estimator.fit(**NODES)) is REFUSED
