"""A graph in numbers, as ``rapgnn data info`` prints it and the page shows it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rapgnn import make_graph
from rapgnn.estimators.card import describe_graph


def test_a_graph_in_numbers(small_graph, molecules):
    row = describe_graph(small_graph)
    assert (row["nodes"], row["edges"], row["features"]) == (300, small_graph.edge_index.shape[1], 12)
    assert (row["classes"], sum(row["class sizes"])) == (3, 300)
    assert (row["train"], row["val"], row["test"]) == (30, 60, 100)
    many = describe_graph(replace(molecules, folds=True))
    assert (many["graphs"], many["nodes"], many["edge features"]) == (120, molecules.num_nodes, 3)
    assert "10-fold" in many["protocol"]
    y = np.array([[0.0, 1.0], [1.0, np.nan], [0.0, 0.0]])
    labels = describe_graph(make_graph(np.ones((3, 2)), torch.zeros(2, 0, dtype=torch.int64), y, [0, 1], [], [2]))
    assert (labels["labels"], labels["positive share"], labels["unknown"]) == (2, pytest.approx(0.4), 1)
