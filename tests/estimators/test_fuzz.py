"""Malformed inputs at the estimators' door: refused in one sentence, or learned with finite predictions."""

import datetime
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from fuzzing import REFUSED, both_kinds, examples, finite, outcome
from rapgnn import RAPGraphClassifier, RAPGraphRegressor, RAPNodeClassifier, RAPNodeRegressor
from rapgnn.graph.scores import CLASS_METRICS
from rapgnn.network.config import SETTINGS
from samples import FAST, graph_list

N, M = 30, 80
RNG = np.random.default_rng(0)
Y = np.arange(N) % 3
Z = Y + 0.25 * np.arange(N)  # numbers
X, E, W = RNG.normal(size=(N, 4)) + Y[:, None], RNG.integers(N, size=(2, M)), RNG.random(M)
NODES: dict[str, Any] = {
    "data": X,
    "y": Y,
    "edge_index": E,
    "edge_weight": W,
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


NOTHING = [
    "abc", b"abc", 5, object(), {}, {1, 2}, {"a": 1}, [[1.0, 2.0], [3.0]], [None], lambda: 0, nx.Graph, np.nan, [[[]]],
    np.array(3), "", torch.zeros(()), np.array(["a", "b"]), [10**400], iter([1]), 1j, dates(2),
]  # fmt: skip
SQUARE = np.ones((N, N))
BAD: dict[str, list[Any]] = {
    "data": [
        [], np.zeros((0, 4)), np.zeros((N, 0)), X[..., None], put(X, np.nan), put(X, np.inf), X * 1j, X.astype(str),
        X[:-1], np.full((N, 4), 10**30).tolist() * 2, sp.csr_matrix(X * 1j), sp.csr_matrix(put(X, np.nan)),
        torch.tensor(put(X, np.inf)), torch.tensor(put(X, np.nan)).to_sparse(), pd.DataFrame(),
        pd.DataFrame(put(X, np.inf)), pd.DataFrame({"a": [[1]] * N}), pd.DataFrame(X, columns=list("aabc")), X.T,
        pd.DataFrame({"a": [None] * N}), pd.DataFrame({"a": X[:, 0] * 1j}), X * 1e39,
        pd.DataFrame({"a": [1.5, "b"] * 15, "b": dates(N)}), torch.zeros(N, 4, device="meta"),
    ],
    "edge_index": [
        put(E, N), put(E, -1), put(E, 2**62), E.astype(float), put(E, np.nan), E[:1], E[0], E.T, E.astype(str), E > 3,
        [E[0].tolist(), E[1].tolist()[1:]], E * 1j, np.stack([E, E]), E.astype(np.uint64) - 30,
        torch.tensor(E).to_sparse(), torch.tensor(E).float(), pd.DataFrame(E.T), [],
    ],
    "y": [
        Y[:-1], np.full(N, np.nan), np.full(N, -1), Y + 0.5, put(Y, np.inf), Y * 1j, Y.astype("S1"), dates(N),
        [[int(v)] * (1 + i % 2) for i, v in enumerate(Y)], dict(enumerate(Y)), [{1}] * N, [1, "two", None] * 10,
        np.zeros(N), ["same"] * N, Y.reshape(N, 1, 1), Y.astype("m8[s]"), [True, 2, 3] * 10, [None] * N,
        np.eye(3)[Y] * 2, np.full((N, 3), np.nan), [object()] * N, [""] * N, np.where(Y > 0, 1, -1), ["a" * 3000] * N,
        ["a\n\x00\u2028"] * N, [np.zeros(2)] * (N - 1) + [np.zeros(3)], torch.tensor(Y).to(torch.cfloat),
    ],
    "edge_weight": [
        W[:-1], put(W, np.nan), put(W, -np.inf), W.astype(str), W * 1j, W.reshape(2, -1), put(W, 1e39), [1.0],
        [[1.0]] * (M - 1) + [[1.0, 2.0]], dates(M), np.ones((M, 2)),
    ],
    "train": [
        np.ones(N - 1, dtype=bool), [N], [-1], [0.5, 1.0], np.ones((N, 2), bool), ["train"] * N, Y % 2, [np.nan],
        [[0], [1, 2]], [2**63], pd.DataFrame({"a": [1]}), [None, 1], np.array([1 + 0j]), dates(3),
    ],
}  # fmt: skip
BAD["val"] = BAD["test"] = BAD["train"]
BAD_NUMBERS = [
    Z[:-1], np.full(N, np.nan), put(Z, np.inf), Z * 1j, Z.astype(str), dates(N), Z * 1e300, dict(enumerate(Z)),
    ["a"] * N, [None] * N, np.zeros((N, 2, 2)), [1.0, "two"] * 15, np.full((N, 3), np.nan), np.full(N, 1e39),
    pd.DataFrame({"a": Z, "b": ["x"] * N}), Z.astype("m8[s]"), [object()] * N, [{}] * N,
]  # fmt: skip
BAD_ADJACENCY = [
    SQUARE[:-1], SQUARE[:-1, :-1], put(SQUARE, np.nan), put(SQUARE, np.inf), SQUARE[0], SQUARE[None],
    sp.csr_matrix(SQUARE[:, :3]), SQUARE.astype(str), torch.ones(N, N - 1).to_sparse(), [],
]  # fmt: skip
# The same graph as other people would hand it in.
SOUND: dict[str, list[Any]] = {
    "data": [X.tolist(), torch.tensor(X), sp.csr_matrix(X), X.astype(np.float32), np.asfortranarray(X)],
    "y": [Y.tolist(), torch.tensor(Y), Y.astype(float), np.array(["a", "b", "c"])[Y], pd.Series(Y), Y - 7 * (Y == 2)],
    "edge_index": [E.tolist(), torch.tensor(E), E.astype(np.int32), tuple(E)],
    "edge_weight": [W.tolist(), torch.tensor(W), W.astype(np.float32), -W, None],
    "train": [NODES["train"].tolist(), np.flatnonzero(NODES["train"]), torch.tensor(NODES["train"])],
}
NUMBERS = [Z, Z.tolist(), torch.tensor(Z), pd.Series(Z), put(Z, np.nan), np.stack([Z, put(-Z, np.nan)], 1), Y, Y > 0]
NUMBERS += [[None, *Z[1:]], pd.DataFrame({"a": Z, "b": Y}), np.full(N, 2.5)]
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.binary(max_size=3) | st.dates(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=8,
)


def as_data(given: dict[str, Any]) -> Data:
    names = {"data": "x", "train": "train_mask", "val": "val_mask", "test": "test_mask"}
    return Data(**{names.get(key, key): value for key, value in given.items()})


def fitted(given: dict[str, Any]) -> Any:
    return outcome(lambda: RAPNodeClassifier(**QUICK).fit(**given))


def checked(model: Any, given: dict[str, Any]) -> None:
    """What a fit that was not refused must be good for."""
    assert model is not REFUSED
    known = {key: given[key] for key in ("edge_index", "edge_weight") if key in given}
    finite(model.predict_proba(given["data"], **known), N)
    assert set(np.ravel(model.predict(given["data"], **known)).tolist()) <= {*model.classes_.tolist(), 0, 1}


@pytest.mark.parametrize("field", BAD)
def test_a_spoiled_part_of_a_graph_is_refused(field):
    for wrong in NOTHING + BAD[field]:
        spoiled = NODES | {field: wrong}
        assert fitted(spoiled) is REFUSED, wrong
        assert outcome(lambda given=spoiled: RAPNodeClassifier(**QUICK).fit(as_data(given))) is REFUSED, wrong
        # Without what could give the fault away.
        fewer = {key: value for key, value in spoiled.items() if key in ("data", "y", "edge_index", field)}
        assert fitted(fewer) is REFUSED, wrong


@pytest.mark.parametrize("field", SOUND)
def test_a_sound_graph_is_learned_whatever_its_form(field):
    for form in SOUND[field]:
        given = NODES | {field: form}
        checked(fitted(given), given)
    model = RAPNodeClassifier(**QUICK).fit(as_data({key: torch.tensor(value) for key, value in NODES.items()}))
    checked(model, NODES)
    assert model.score(X, Y, edge_index=E, edge_weight=W) > 0.6


def test_numbers_for_nodes_are_learned_or_refused():
    for wrong in NOTHING + BAD_NUMBERS:
        assert outcome(lambda y=wrong: RAPNodeRegressor(**QUICK).fit(**NODES | {"y": y})) is REFUSED, wrong
    for form in NUMBERS:
        finite(RAPNodeRegressor(**QUICK).fit(**NODES | {"y": form}).predict(X, edge_index=E, edge_weight=W), N)


@examples(60)
@given(field=st.sampled_from(sorted(BAD)), junk=JUNK)
def test_junk_is_refused_or_means_nothing(field, junk):
    """None is no weight, no split, no features; a short list may name a row."""
    given = NODES | {field: junk}
    model = fitted(given)
    if model is not REFUSED:
        assert junk is None or field in ("train", "val", "test")
        checked(model, given)


@pytest.mark.parametrize(("first", "second"), [("train", "val"), ("val", "test"), ("test", "train")])
def test_splits_that_overlap_are_refused(first, second):
    assert fitted(NODES | {first: NODES[first] | (np.arange(N) == 20), second: np.arange(N) >= 0}) is REFUSED


NODE_MODEL = RAPNodeClassifier(**QUICK).fit(**NODES)
USES = {
    "data": (SOUND["data"], [v for v in BAD["data"] if v is not BAD["data"][8]]),  # fewer nodes may be predicted
    "edge_index": (SOUND["edge_index"], BAD["edge_index"]),
    "edge_weight": ([None, W, W.tolist()], BAD["edge_weight"]),
    "adjacency": ([SQUARE, sp.csr_matrix(SQUARE), torch.ones(N, N).to_sparse()], BAD_ADJACENCY),
    "y": ([Y, Y.tolist(), Y[::-1].copy(), np.zeros(N, int)], [v for v in BAD["y"] if v is not BAD["y"][12]]),
    "split": (["train", "val", "test", None], NOTHING),
    "n_samples": ([1, 7, np.int64(3), None], [0, -1, 2.5, "3", [2], np.nan, 10**12, True, {}, b"x", 10**400]),
    "method": (["auto", "sample", "exact"], NOTHING),
}


@pytest.mark.parametrize("field", USES)
def test_predicting_and_scoring_refuse_what_fit_refuses(field):
    uses = [NODE_MODEL.predict, NODE_MODEL.transform, NODE_MODEL.predict_proba]
    uses = {"n_samples": uses[2:], "method": uses[2:], "y": [NODE_MODEL.score], "split": [NODE_MODEL.score]}.get(
        field, uses
    )
    for good, values in zip((True, False), USES[field], strict=True):
        for value in values:
            given = {} if field == "adjacency" else {"edge_index": E, "edge_weight": W}
            if field == "split":
                given |= {"y": Y} | {split: NODES[split] for split in ("train", "val", "test")}
            given = {"data": X} | given | {field: value}
            features = given.pop("data")
            for use in uses:
                found = outcome(lambda use=use, x=features, given=given: use(x, **given))
                assert (found is not REFUSED) == good, value
                if good:
                    finite(np.atleast_1d(found), 1 if use == NODE_MODEL.score else N)


KINDS = (RAPGraphClassifier, RAPGraphRegressor)
GRAPHS = {kind: graph_list(12, regression=kind is RAPGraphRegressor) for kind in KINDS}
FITTED = {kind: kind(**QUICK).fit(GRAPHS[kind]) for kind in KINDS}
G = GRAPHS[RAPGraphClassifier][0]
GX, GE = G.x.numpy(), G.edge_index.numpy()
GN, GM = len(GX), GE.shape[1]


def labelled(**changes: Any) -> Data:
    return Data(**({"x": G.x, "edge_index": G.edge_index, "y": G.y} | changes))


BAD_MEMBERS = [
    None, 5, "abc", object(), {}, [], (), (GX,), (GX, GE, None, 1), [GX, "e"], Data(), Data(x=G.x), Data, np.nan,
    (GX[:, :2], GE), (GX * np.nan, GE), (GX, GE + GN), (GX, GE - 1), (GX, GE.astype(float)), (GX, GE.T),
    (GX * 1j, GE), (GX.astype(str), GE), (GX[:-1], GE), (None, GE), ([[1.0], [1.0, 2.0]], GE), (GX[None], GE),
    (GX, [[0], [1, 2]]), (GX, None), ("abc", GE), (GX, GE, [[1.0]]), ({}, GE), nx.Graph, nx.path_graph(3),
    (GX, GE, np.ones(1)), (GX, GE, None, np.full(GM, np.nan)), (GX, GE, np.full(GM, np.inf)), (GX, GE, ["a"] * GM),
]  # fmt: skip
BAD_LABELLED = [
    *(labelled(y=y) for y in (torch.tensor([float("inf")]), "one", torch.tensor([0, 1]), [[1], [1, 2]], None)),
    labelled(y=torch.zeros(0)), labelled(y=torch.tensor([1j])), labelled(num_nodes=99), labelled(x=torch.zeros(())),
    labelled(edge_attr=torch.ones(1)), Data(edge_index=torch.tensor([[0], [2**60]]), y=G.y),
    Data(edge_index=G.edge_index, num_nodes=-3, y=G.y),
    *(labelled(edge_weight=w) for w in (torch.ones(1), torch.full((GM,), torch.nan), torch.ones(GM, 2), "abc", 1.0)),
]  # fmt: skip
NO_LIST = [
    None, 5, "abc", {}, {1: G}, {1, 2}, [], (), object(), G, iter([G]), pd.DataFrame({"a": [1]}), np.zeros((3, 3)),
    torch.zeros(()), torch.zeros(3, 2), nx.path_graph(3), Data, [[]], [None], [[G]], pd.Series([1.0]), np.nan,
]  # fmt: skip
H = np.arange(12) % 2
BAD_GRAPH_LABELS = {
    RAPGraphClassifier: [
        "abc", 5, {}, object(), H[:-1], H + 0.5, np.full(12, np.nan), np.full(12, -1), H * 1j, dates(12), [1, "a"] * 6,
        [[0], [0, 1]] * 6, np.zeros(12), ["x"] * 12, [[]] * 12, [None] * 12, np.zeros((12, 2, 2)), np.full((12, 2), 3),
        put(H, np.inf), np.where(H > 0, 1, -1), H * 1e300, dict(enumerate(H)), [True, 2] * 6,
    ],
    RAPGraphRegressor: [
        "abc", 5, {}, object(), H[:-1], np.full(12, np.nan), H * 1j, dates(12), ["a"] * 12, {0, 1}, [[0], [0, 1]] * 6,
        [[]] * 12, [None] * 12, np.zeros((12, 2, 2)), put(H, np.inf), np.full(12, 1e39), [[1, "a"]] * 12,
    ],
}  # fmt: skip
BAD_GRAPH_ROWS = [
    "abc", 5, {}, [12], [-1], [0.5], np.ones(11, bool), ["a"], [[0], [1, 2]], [np.nan], H, [None], range(12),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_lists_of_graphs_that_are_refused(kind):
    def refused(graphs: Any, use: Any = None, **given: Any) -> None:
        use = use or kind(**QUICK).fit
        assert outcome(lambda: use(graphs, **given)) is REFUSED, (graphs, given)

    graphs = GRAPHS[kind]
    pairs = [(g.x.numpy(), g.edge_index.numpy()) for g in graphs]
    for wrong in BAD_MEMBERS + BAD_LABELLED:
        refused([*graphs[:7], wrong, *graphs[8:]])
    for wrong in BAD_MEMBERS:
        refused([*pairs[:7], wrong, *pairs[8:]], y=H)
    for wrong in NO_LIST:
        for use in (None, FITTED[kind].predict, FITTED[kind].score, FITTED[kind].transform):
            refused(wrong, use)
    for wrong in BAD_GRAPH_LABELS[kind]:
        refused(graphs, y=wrong)
    for split in ("train", "val", "test"):
        for wrong in BAD_GRAPH_ROWS:
            refused(graphs, **{"train": [0, 1, 2, 3], "val": [4, 5]} | {split: wrong})
    for name in ("edge_index", "adjacency", "edge_weight", "labelled", "training", "mask"):
        refused(graphs, **{name: H})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["tuple", "pairs", "weights", "without features", "rows"])
def test_sound_lists_of_graphs_are_learned(kind, how):
    graphs, given = list(GRAPHS[kind]), {"y": [float(g.y) for g in GRAPHS[kind]]}
    if how == "tuple":
        graphs, given = tuple(graphs), {}
    elif how == "pairs":
        graphs = [(g.x.numpy(), g.edge_index.numpy()) for g in graphs]
    elif how == "weights":
        graphs = [(g.x.numpy(), g.edge_index.numpy(), np.linspace(-1, 2, g.edge_index.shape[1])) for g in graphs]
    elif how == "without features":
        graphs = [Data(edge_index=g.edge_index, num_nodes=g.num_nodes) for g in graphs]
    else:
        given = {"train": np.arange(12) < 8, "val": [8, 9], "test": torch.tensor([10, 11])}
    finite(kind(**QUICK).fit(graphs, **given).predict(graphs), 12)


EXTREMES = st.sampled_from([0.0, 1.0, -1.0, 1e-300, 1e-40, 1e-20, -1e5, 1e10, 1e19, -1e25, 3e38, -3.4e38])
SHAPES = {
    "backbone": ["gcn", "sage", "gin"],
    "jumping": ["last", "cat"],
    "head": ["ridge", "linear"],
    "embedding": ["identity", "fixed-random", "pretrained"],
    "activation": ["identity", "relu"],
    "ridge": [0.0, 1.0, None],
    "normalize_features": [False, True],
}


def test_extreme_numbers_give_finite_predictions_or_a_refusal():
    """At the edge of what 32 bits hold."""
    seen = []

    @examples(50)
    @given(data=st.data())
    def one(data):
        shape = {name: data.draw(st.sampled_from(values)) for name, values in SHAPES.items()}
        shape |= {"hidden_channels": 4, "epochs": 2, "pretrain_epochs": 2}
        quick = {"search": False, "num_layers": data.draw(st.sampled_from([1, 3, 40])), "settings": shape}
        at, value = ([data.draw(of) for _ in range(3)] for of in (st.integers(0, 20), EXTREMES))
        everywhere = data.draw(st.booleans())
        if data.draw(st.booleans()):
            x, w = (X * value[0] if everywhere else put(X, value[0], at[0])), put(W, value[1], at[1])
            w = w * value[2] if data.draw(st.booleans()) else w
            model = outcome(lambda: RAPNodeClassifier(**quick).fit(**NODES | {"data": x, "edge_weight": w}))
            use, rows = lambda: model.predict_proba(x, edge_index=E, edge_weight=w), N
        else:
            graphs = [(g.x.numpy().astype(float), g.edge_index.numpy()) for g in GRAPHS[RAPGraphRegressor]]
            graphs = [(x * value[0] if everywhere else put(x, value[0], at[0] % x.size), e) for x, e in graphs]
            y = put(np.linspace(1, 2, 12), value[1], at[1] % 12) * (value[2] or 1.0)
            model = outcome(lambda: RAPGraphRegressor(**quick).fit(graphs, y))
            use, rows = lambda: model.predict(graphs), 12
        seen.append(REFUSED if model is REFUSED else outcome(use))
        if seen[-1] is not REFUSED:
            finite(seen[-1], rows)

    one()
    both_kinds(seen, accepted=0.3, refused=0.3)


NEVER = [object(), b"x", [], {}, np.nan, np.inf, 10**40, 10**5000, "nonsense", 1j, np.zeros(3), ["relu"], lambda: 0]
OTHERS = {
    "seed": [*NEVER, -1, 2**64, None],
    "random_state": [*NEVER, -1, 2**64],
    "time_budget": ["x", -1, True, np.nan, []],
    "search": [*NEVER, None, 1],
    "device": [*NEVER, "tpu", None],
    "settings": [5, {1: 2}, "abc", {"nonsense": 1}, {"": 1}, {"eps": "2"}, {"w" * 3000: 1}],
}


@pytest.mark.parametrize("name", [*SETTINGS, *OTHERS])
def test_settings_of_the_wrong_kind_are_refused_and_its_own_value_is_taken(name):
    """As an argument, and among the ``settings``."""
    setting = name in SETTINGS

    def model(value: Any, inside: bool) -> RAPNodeClassifier:
        how = {name: None, "settings": FAST["settings"] | {name: value}} if inside else {name: value}
        return RAPNodeClassifier(**QUICK).set_params(**how)

    own = NODE_MODEL.config_.settings() if setting else RAPNodeClassifier(**QUICK).get_params()
    for inside in (False, True) if setting else (False,):
        for value in OTHERS.get(name, NEVER):
            assert outcome(lambda value=value, i=inside: model(value, i).fit(**NODES)) is REFUSED, value
        assert model(own[name], inside).fit(**NODES).config_ == NODE_MODEL.config_


@examples(40)
@given(data=st.data())
def test_any_labels_of_held_out_rows_are_learned_or_refused(data):
    """Whatever classes validation and test rows have, the fit is sound."""
    y = Y.copy()
    y[18:] = data.draw(st.lists(st.integers(0, 6), min_size=12, max_size=12))
    y[:18] = data.draw(st.sampled_from([Y[:18], Y[:18] % 2, Y[:18] * 0, Y[:18] * 3]))
    labels = np.array(list("abcdefghi"))[y] if data.draw(st.booleans()) else y
    settings = {"class_weight": data.draw(st.sampled_from([None, "balanced"]))}
    settings["scoring"] = data.draw(st.sampled_from([None, *CLASS_METRICS]))
    model = RAPNodeClassifier(**QUICK, **settings)
    found = outcome(lambda: model.fit(**NODES | {"y": labels}))
    assert (found is REFUSED) == (len(set(y[:18].tolist())) < 2)
    if found is REFUSED:
        return
    assert model.classes_.tolist() == sorted(set(labels.tolist()))
    finite(model.predict_proba(X, edge_index=E, edge_weight=W), N)
    assert set(model.predict(X, edge_index=E, edge_weight=W)) <= set(labels[:18].tolist())
    assert np.isfinite(model.score(X, labels, edge_index=E, edge_weight=W))
