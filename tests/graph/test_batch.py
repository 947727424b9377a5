"""Collections of graphs: every mistake is named."""

import numpy as np
import pytest

from rapgnn import InputError, make_graphs


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sizes": [3, 4]}, "add up to the 6 nodes"),
        ({"edge_index": [[0, 2], [1, 3]]}, r"\(2, 3\) joins two different graphs"),
        ({"y": [0, 1, 1]}, "2 graphs but labels"),
        ({"y": [0.5, 1.5]}, "regression targets"),
        ({"train": [0, 5]}, "must name graphs 0 to 1"),
        ({"edge_attr": np.ones((3, 1))}, "2 edges but edge features"),
        ({"task": "ranking"}, "graph task 'ranking' is unknown"),
        ({"y": [np.inf, 1.0], "task": "regression"}, "infinite"),
        ({"y": [[0.0], [2.0]], "task": "multilabel"}, "only 0, 1 and NaN"),
    ],
)
def test_bad_graph_collections_are_refused(changes, words):
    given_ = {"x": np.ones((6, 2)), "edge_index": [[0, 3], [1, 4]], "sizes": [3, 3], "y": [0, 1]}
    given_ |= {"train": [0, 1], "val": [], "test": []} | changes
    with pytest.raises(InputError, match=words):
        make_graphs(**given_)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"y": [[1.0, np.nan], [0.0, np.nan], [1.0, 1.0]], "task": "multilabel"}, "label 1 is unknown"),
        ({"y": [1e39, 1.0, 2.0], "task": "regression"}, "too large"),
        ({"train": 5}, "train split"),
        ({"y": np.zeros((3, 2, 2)), "task": "multilabel"}, "labels of shape"),
    ],
)
def test_more_bad_collections_are_refused(changes, words):
    given_ = {"x": np.ones((3, 2)), "edge_index": np.zeros((2, 0), dtype=int), "sizes": [1, 1, 1], "y": [0, 1, 1]}
    with pytest.raises(InputError, match=words):
        make_graphs(**(given_ | {"train": [0, 1], "val": [2], "test": []} | changes))
