"""Notices of the library: once, and at the user's own line."""

import pandas as pd
import pytest

from folders import write
from rapgnn import InputNotice, RAPNodeClassifier


def test_a_notice_comes_once_and_points_at_the_users_line(plants):
    model, nodes = RAPNodeClassifier(search=False), pd.read_csv(plants / "nodes.csv")
    table, ends = nodes[["height", "leaves"]], (nodes.index, nodes.index[::-1])
    calls = {
        "no split was given": [
            lambda: RAPNodeClassifier(search=False).fit(table, nodes["label"], edge_index=ends),
            lambda: RAPNodeClassifier(search=False).fit_transform(table, nodes["label"], edge_index=ends),
            lambda: model.fit(plants),
        ],
        "never saw": [
            lambda: model.predict(plants),
            lambda: model.predict_proba(plants, return_std=True),
            lambda: model.transform(plants),
            lambda: model.explain(plants, ["plant 3"]),
        ],
    }
    for sentence, lines in calls.items():
        for line in lines:
            with pytest.warns(InputNotice) as said:
                line()
            assert [(sentence in str(one.message), one.filename) for one in said] == [(True, __file__)]
        write(plants, nodes=nodes.assign(colour=nodes["colour"].replace("red", "violet")))
