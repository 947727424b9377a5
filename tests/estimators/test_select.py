"""The search for what a user left open."""

import warnings

import pytest
import torch
from torch_geometric.data import Data

from rapgnn import InputNotice, RAPNodeClassifier
from rapgnn.datasets.synthetic import BlockModel
from rapgnn.estimators.select import choose, nominal_cost, training_cost
from rapgnn.models.config import Config
from samples import node_data


def test_fixed_settings_stay_fixed_and_the_rest_is_chosen():
    data = node_data()
    model = RAPNodeClassifier(backbone="sage", num_layers=5).fit(data)
    assert (model.config_.backbone, model.config_.num_layers) == ("sage", 5)
    assert len(model.trials_) > 1
    assert max(t.value for t in model.trials_) == pytest.approx(model.validation_score_)


def test_the_search_never_looks_at_the_test_rows(small_graph):
    from dataclasses import replace

    spoiled = small_graph.y.clone()
    spoiled[small_graph.test] = (spoiled[small_graph.test] + 1) % 3
    base = Config()
    one = choose(small_graph, base, {}, 0)
    other = choose(replace(small_graph, y=spoiled), base, {}, 0)
    assert one.config == other.config
    assert [t.value for t in one.trials] == [t.value for t in other.trials]


def test_a_time_budget_stops_the_search(small_graph):
    assert len(choose(small_graph, Config(), {}, 0, time_budget=1e-9).trials) == 1


def test_costs_grow_with_the_work(small_graph):
    shallow, deep = (nominal_cost(small_graph, Config(num_layers=n)) for n in (1, 16))
    assert 0 < shallow < deep
    big = BlockModel(nodes=3000, train=20).generate()
    assert training_cost(big) > training_cost(small_graph) > 0


def test_no_labelled_row_to_spare_for_validation():
    data = Data(x=torch.eye(4), edge_index=torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), y=torch.tensor([0, -1, 1, -1]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputNotice)
        model = RAPNodeClassifier().fit(data, train=[0, 2])
    assert model.predict(data)[[0, 2]].tolist() == [0, 1]
    assert 0 <= model.validation_score_ <= 1  # each training row was left out in turn
