"""Categories that training never saw are told of when a table is predicted from Python too."""

import warnings

import numpy as np
import pandas as pd
import pytest

from rapgnn import InputNotice, RAPNodeClassifier


def test_unseen_categories_are_a_notice_with_counts():
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=60)
    table = pd.DataFrame({"soil": np.where(kind == 1, "clay", "sand"), "height": rng.random(60)})
    edges = rng.integers(60, size=(2, 200))
    model = RAPNodeClassifier(backbone="gcn", num_layers=1, head="ridge").fit(table, kind, edge_index=edges)
    with warnings.catch_warnings():
        warnings.simplefilter("error", InputNotice)
        model.predict(table, edge_index=edges)
    table.loc[[3, 5, 8], "soil"] = "peat"
    with pytest.warns(InputNotice, match=r"never saw .* soil \(3 of 60 nodes\)"):
        model.predict(table, edge_index=edges)
