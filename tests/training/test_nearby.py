"""A few rows are predicted from their surroundings alone, and come out as in the whole graph."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from nearby_cases import NETWORKS, network, ring
from rapgnn import InputError, RAPGraphClassifier, RAPNodeClassifier
from rapgnn.network.network import Average
from rapgnn.training.predict import Nearby, model_on
from samples import FAST, collection, node_data


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("names", [True, False])
def test_some_rows_are_as_in_the_whole_graph(name, names):
    graph = ring(weights=name in ("last", "both", "labels"), names=names)
    model, rows = network(graph, NETWORKS[name]), torch.tensor([5, 390, 5, 0])
    part, places = Nearby(model, graph).part(rows)
    assert part.num_nodes < 120
    found, wanted = (model_on(model, g)(at).probabilities for g, at in ((part, places), (graph, rows)))
    torch.testing.assert_close(found, wanted, atol=1e-6, rtol=0)


def test_what_a_model_knows_of_the_whole_graph_counts_for_a_part_without_training_rows():
    graph = ring(names=False)
    model = Average([network(graph, NETWORKS["labels"]), network(graph, NETWORKS["last"])], ["here", "elsewhere"])
    alone = torch.tensor([r for r in range(5, 395) if not np.isin(range(r - 4, r + 5), graph.train).all()][:2])
    for other in (graph, replace(graph, x=graph.x + 1)):  # nodes that are not the ones it knows
        part, places = Nearby(model, other).part(alone)
        wanted = model_on(model, other)(alone).probabilities
        torch.testing.assert_close(model_on(model, part)(places).probabilities, wanted, atol=1e-6, rtol=0)


def test_rows_are_named_as_the_user_names_them():
    graph = ring()
    model = RAPNodeClassifier(**FAST, num_layers=1).fit(graph)
    every = model.predict_proba(graph)
    mask = np.arange(400) == 7
    for rows, numbers in ((["n7", "n3"], [7, 3]), ([7, 3], [7, 3]), ("n7", [7]), (mask, [7])):
        np.testing.assert_allclose(model.predict_proba(graph, rows=rows), every[numbers], atol=1e-6)
        assert (model.predict(graph, rows=rows) == model.predict(graph)[numbers]).all()
    for wrong in (["n400"], [400], [-1], [0.5], [[1]]):
        with pytest.raises(InputError, match="row"):
            model.predict(graph, rows=wrong)


def test_some_graphs_of_a_set_are_as_among_all():
    graphs = collection()
    model = RAPGraphClassifier(search=False, backbone="gine").fit(graphs)
    rows = [100, 3, 3]
    np.testing.assert_allclose(model.predict_proba(graphs, rows=rows), model.predict_proba(graphs)[rows], atol=1e-6)


def test_rows_that_need_most_of_the_graph_get_all_of_it():
    model, data = RAPNodeClassifier(**FAST, num_layers=8).fit(node_data()), node_data()
    np.testing.assert_allclose(model.predict_proba(data, rows=[3]), model.predict_proba(data)[[3]], atol=1e-6)
