"""What docs/architecture.md says of adding things: one row in one place, and estimators and files know it."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch

from rapgnn import InputError, RAPGraphClassifier, RAPNodeClassifier, load_dataset, load_model
from rapgnn.datasets.catalog import READERS
from rapgnn.graph.backbones import BACKBONES, Backbone, Scaling
from rapgnn.network.encode import SCALINGS
from rapgnn.network.encode import Scaling as FeatureScaling
from rapgnn.network.expand import KERNELS
from rapgnn.network.heads import HEADS
from rapgnn.scale.homes import HOMES, Home
from rapgnn.scale.hops import DiskHops
from rapgnn.search import portfolio
from rapgnn.search.portfolio import HOPS, PORTFOLIO, Stage
from samples import collection


@pytest.fixture
def tables(monkeypatch):
    """The tables that rows are added to, as they were afterwards."""
    monkeypatch.setitem(BACKBONES, "receiver", Backbone(Scaling(-1.0, 0.0), ("neighbour",), residual=True))
    monkeypatch.setitem(SCALINGS, "loud", FeatureScaling(weights=lambda x: torch.full((x.shape[1],), 3.0)))
    monkeypatch.setitem(KERNELS, "cauchy", lambda squared: 1 / (1 + squared))


def same_after_saving(model, data, folder):
    model.save(folder)
    np.testing.assert_array_equal(load_model(folder).predict_proba(data), model.predict_proba(data))


def test_a_backbone_is_a_row(tables, small_graph, tmp_path):
    model = RAPNodeClassifier(backbone="receiver").fit(small_graph)
    assert {trial.settings["backbone"] for trial in model.trials_} == {"receiver"}
    assert {trial.settings["coefficients"] for trial in model.trials_} >= {"random", "fixed"}
    same_after_saving(model, small_graph, tmp_path / "m")


@pytest.mark.parametrize("coefficients", ["random", "fixed"])
def test_a_scaling_is_a_row(tables, small_graph, tmp_path, coefficients):
    model = RAPNodeClassifier(scaling="loud", coefficients=coefficients, search=False).fit(small_graph)
    assert model.config_.scaling == "loud"
    (network,) = getattr(model.model_, "members", [model.model_])
    torch.testing.assert_close(network.scaling(small_graph.x), 3 * small_graph.x)
    same_after_saving(model, small_graph, tmp_path / "m")


def test_a_kernel_is_a_row(tables, tmp_path):
    graphs = collection("classification")
    model = RAPGraphClassifier(kernel="cauchy", landmarks=20, search=False).fit(graphs)
    assert model.config_.kernel == "cauchy"
    same_after_saving(model, graphs, tmp_path / "m")


def test_a_home_for_hops_is_a_row(monkeypatch, small_graph, tmp_path):
    addresses = []

    class Backwards(DiskHops):
        """The last block first."""

        def blocks(self, store, missing, on_hop):
            return super().blocks(store, missing[::-1], on_hop)

    def home(address, device):
        addresses.append(address)
        return nullcontext(Home(lambda graph, model, budget: Backwards(graph, model, budget, width=5)))

    monkeypatch.setitem(HOMES, "backwards", home)
    model = RAPNodeClassifier(num_layers=2, hops="backwards://there").fit(small_graph)
    right = RAPNodeClassifier(num_layers=2, hops=tmp_path / "s").fit(small_graph)
    assert addresses
    assert set(addresses) == {"there"}
    assert (model.blocks_, right.blocks_) == (3, 1)
    np.testing.assert_array_equal(model.predict_proba(small_graph), right.predict_proba(small_graph))
    with pytest.raises(InputError, match='did you mean "backwards"'):
        RAPNodeClassifier(hops="backward").fit(small_graph)


MEADOW = """
import torch
from rapgnn import make_graph
from rapgnn.network.heads import Head

def read(words):
    draw = torch.Generator().manual_seed(int(words))
    y = torch.arange(60) % 2
    x = torch.randn(60, 3, generator=draw) + 2 * y[:, None]
    return make_graph(x, torch.randint(60, (2, 200), generator=draw), y, range(20), range(20, 40), range(40, 60))

class Cosine(Head):
    def forward(self, h, generator=None):
        return super().forward(torch.nn.functional.normalize(h), generator)
"""
ENTRIES = "[rapgnn.readers]\nmeadow = meadow:read\n[rapgnn.heads]\ncosine = meadow:Cosine\n"


def test_an_installed_package_adds_a_reader_and_a_head(tmp_path, monkeypatch):
    about = tmp_path / "meadow-1.dist-info"
    about.mkdir()
    (tmp_path / "meadow.py").write_text(MEADOW)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: meadow\nVersion: 1\n")
    (about / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(tmp_path)
    for table in (READERS, HEADS):
        monkeypatch.setattr(table, "_installed", type(table)._installed.func(table))  # as a new process sees it
    graph = load_dataset("meadow:3")
    model = RAPNodeClassifier(head="cosine", num_layers=2, search=False, epochs=60, device="cpu").fit(graph)
    assert type(model.model_.head).__name__ == "Cosine"
    assert model.score(graph, split="test") > 0.6
    same_after_saving(model, graph, tmp_path / "m")
    with pytest.raises(InputError, match="cosine"):
        RAPNodeClassifier(head="cosin", num_layers=2, search=False).fit(graph)


def test_a_candidate_is_a_point_of_a_stage(monkeypatch, small_graph):
    point = HOPS.update(units=48, unit_inputs=2, activation="tanh")
    stage = Stage(lambda graph, base, best: iter([point]), "filters", single=True)
    monkeypatch.setattr("rapgnn.search.search.PORTFOLIO", (stage, *PORTFOLIO))
    model = RAPNodeClassifier().fit(small_graph)
    assert model.trials_[0].settings == point.to_dict()
    assert len(model.trials_) > 10
    assert portfolio.PORTFOLIO is PORTFOLIO
