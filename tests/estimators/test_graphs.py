"""Estimators of many graphs."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from torch_geometric.data import Data

from rapgnn import InputNotice, RAPGraphClassifier, RAPGraphRegressor
from samples import graph_list, rings


def test_graph_classifier():
    graphs = graph_list()
    model = RAPGraphClassifier().fit(graphs[:40])
    assert model.score(graphs[40:]) >= 0.9
    assert model.predict_proba(graphs[40:]).shape == (20, 2)
    words = np.array(["ring", "star"])[np.arange(60) % 2]
    named = RAPGraphClassifier().fit(graphs[:40], words[:40])
    assert (named.predict(graphs[40:]) == words[40:]).mean() >= 0.9
    bare = Data(x=graphs[41].x, edge_index=graphs[41].edge_index)  # no label needed
    assert named.predict([bare]).tolist() == ["star"]
    mean, spread = named.predict_proba(graphs[40:], return_std=True)
    assert mean.shape == spread.shape == (20, 2)


def test_graphs_without_features_and_as_networkx():
    graphs = graph_list()
    bare = [Data(edge_index=g.edge_index, num_nodes=g.num_nodes, y=g.y) for g in graphs]
    with pytest.warns(InputNotice, match="no node features"):
        assert RAPGraphClassifier().fit(bare[:40]).score(bare[40:]) == 1.0
    nets = [nx.cycle_graph(5) if i % 2 else nx.star_graph(6) for i in range(30)]
    with pytest.warns(InputNotice):
        model = RAPGraphClassifier().fit(nets, ["ring" if i % 2 else "star" for i in range(30)])
    assert model.predict(nets[:2]).tolist() == ["star", "ring"]


def test_graph_regressor(tmp_path):
    graphs = graph_list(80, regression=True)
    model = RAPGraphRegressor().fit(graphs[:60])
    assert model.score(graphs[60:]) > 0.95
    values, spread = model.predict(graphs[60:], return_std=True)
    assert values.shape == spread.shape == (20,)
    drawn, drawn_spread = model.predict(graphs[60:], n_samples=400, return_std=True)
    np.testing.assert_allclose(values, drawn, atol=4 * spread.max() / 20 + 1e-4)
    np.testing.assert_allclose(spread, drawn_spread, rtol=0.3, atol=1e-3)
    model.save(tmp_path)
    np.testing.assert_array_equal(RAPGraphRegressor.load(tmp_path).predict(graphs), model.predict(graphs))


@pytest.mark.parametrize("numbers", [False, True])
def test_a_model_with_kernels_is_saved_as_it_is(tmp_path, numbers):
    graphs = rings(numbers=numbers)
    model = (RAPGraphRegressor if numbers else RAPGraphClassifier)(seed=1).fit(graphs)
    assert any(trial.settings["landmarks"] for trial in model.trials_)
    assert any(member.config.landmarks for member in model.model_.members)
    model.save(tmp_path / "model")
    again = type(model).load(tmp_path / "model")
    one, other = ((m.predict if numbers else m.predict_proba)(graphs) for m in (model, again))
    np.testing.assert_array_equal(one, other)
    some = replace(graphs, train=graphs.train[:5], val=graphs.val[:0], test=graphs.test[:0])
    np.testing.assert_array_equal((again.predict if numbers else again.predict_proba)(some), one)
