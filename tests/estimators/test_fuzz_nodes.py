"""Malformed arrays, labels and splits of one graph at the estimators' door."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from fuzzing import REFUSED, Tally, examples, finite, outcome
from rapgnn import RAPNodeClassifier
from spoiled import BAD, BAD_ADJACENCY, BAD_LABELS, FEWER, JUNK, NODES, NOTHING, QUICK, SQUARE, ZEROS, E, N, W, X, Y


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
    fitted = fit_nodes(given, pyg)
    checked(fitted, NODES)
    assert fitted.classes_.tolist() == [0, 1, 2]
    assert fitted.score(X, Y, edge_index=E, edge_weight=W) > 0.6


# The same graph as other people would hand it in.
SOUND: dict[str, list[Any]] = {
    "data": [X.tolist(), torch.tensor(X), sp.csr_matrix(X), X.astype(np.float32), np.asfortranarray(X)],
    "y": [Y.tolist(), torch.tensor(Y), Y.astype(float), np.array(["a", "b", "c"])[Y], pd.Series(Y), Y - 7 * (Y == 2)],
    "edge_index": [E.tolist(), torch.tensor(E), E.astype(np.int32), tuple(E)],
    "edge_weight": [W.tolist(), torch.tensor(W), W.astype(np.float32), -W, None],
}
SOUND |= {
    split: [NODES[split].tolist(), np.flatnonzero(NODES[split]), torch.tensor(NODES[split])]
    for split in ("train", "val", "test")
}


def test_fit_refuses_spoiled_graphs():
    """And takes sound ones, whatever their form."""
    tally = Tally()

    @examples("node fit")
    @given(data=st.data())
    def one(data):
        field = data.draw(st.sampled_from(sorted(BAD)))
        wrong = data.draw(st.sampled_from(BAD[field]))
        spoiled = NODES | {field: wrong}
        way = data.draw(st.sampled_from(["arrays", "arrays", "pyg", "two", "fewer", "overlap", "junk", "sound"]))
        if way == "two":
            other = data.draw(st.sampled_from(sorted(BAD)))
            spoiled = spoiled | {other: data.draw(st.sampled_from(BAD[other]))}
        elif way == "fewer":  # without what could give the fault away
            spoiled = {key: value for key, value in spoiled.items() if key in ("data", "y", "edge_index", field)}
        elif way == "overlap":
            first, second = data.draw(st.permutations(["train", "val", "test"]))[:2]
            more = NODES[first] | (np.arange(N) == data.draw(st.integers(0, N - 1)))
            spoiled = NODES | {first: more, second: np.arange(N) >= 0}
        elif way == "junk":
            spoiled = NODES | {field: data.draw(JUNK)}
        elif way == "sound":
            spoiled = NODES | {key: data.draw(st.sampled_from(SOUND[key])) for key in {field, "y"}}
        fitted = tally.count(outcome(lambda: fit_nodes(spoiled, pyg=way == "pyg")))
        if way == "sound":
            assert fitted is not REFUSED
            assert len(fitted.classes_) == 3
            checked(fitted, spoiled)
        elif way != "junk":
            assert fitted is REFUSED
        elif fitted is not REFUSED:  # None is no weight, no split, no features; a short list may name a row
            assert spoiled[field] is None or field in ("train", "val", "test")
            checked(fitted, spoiled)

    one()
    tally.check(accepted=0.08, refused=0.5)


NODE_MODEL = fit_nodes(NODES)
# What may stand where the others must not.
GOOD_USES: dict[str, list[Any]] = {
    "data": SOUND["data"],
    "edge_index": SOUND["edge_index"],
    "edge_weight": [None, W, W.tolist()],
    "adjacency": [SQUARE, sp.csr_matrix(SQUARE), torch.ones(N, N).to_sparse()],
    "y": [Y, Y.tolist(), Y[::-1].copy(), ZEROS.astype(int)],
    "split": ["train", "val", "test", None],
    "n_samples": [1, 7, np.int64(3), None],
    "method": ["auto", "sample", "exact"],
}


def test_predicting_and_scoring_refuse_what_fit_refuses():
    """And answer everything else."""
    tally = Tally()

    @examples("node use")
    @given(data=st.data())
    def one(data):
        field, good = data.draw(st.sampled_from(sorted(GOOD_USES))), data.draw(st.integers(0, 3)) == 0
        given = {key: NODES[key] for key in ("data", "edge_index", "edge_weight")}
        use = data.draw(st.sampled_from([NODE_MODEL.predict, NODE_MODEL.transform, NODE_MODEL.predict_proba]))
        if field == "adjacency":
            given, bad = {"data": X}, BAD_ADJACENCY
        elif field == "n_samples":
            bad = [0, -1, 2.5, "3", [2], np.nan, 10**12, True, {}, b"x", 10**400]
            use = NODE_MODEL.predict_proba
        elif field == "method":
            bad, use = NOTHING, NODE_MODEL.predict_proba
        elif field == "split":
            bad, use = NOTHING, NODE_MODEL.score
            given |= {"y": Y} | ({split: NODES[split] for split in ("train", "val", "test")} if good else {})
        elif field == "y":
            bad, use = [y for y in BAD_LABELS if y is not ZEROS], NODE_MODEL.score
        else:
            bad = [v for v in BAD[field] if v is not FEWER]
        given[field] = data.draw(st.sampled_from(GOOD_USES[field] if good else bad))
        features = given.pop("data")
        found = tally.count(outcome(lambda: use(features, **given)))
        assert (found is not REFUSED) == good
        if good:
            finite(np.atleast_1d(found), 1 if use == NODE_MODEL.score else N)

    one()
    tally.check(accepted=0.1, refused=0.5)
