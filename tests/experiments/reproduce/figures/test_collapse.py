"""Ranks of known matrices, the layers of the networks against the engine's, and one measurement behind many records."""

from dataclasses import replace

import pytest
import torch

from rapgnn.experiments.reproduce.cells import Cell
from rapgnn.experiments.reproduce.figures.by_layer import (
    FIGURES,
    layer_figures,
    random_network,
    tolerance,
    trained_network,
)
from rapgnn.experiments.reproduce.figures.collapse import (
    LAYERS,
    QUICK_LAYERS,
    STRATEGIES,
    TRAINED,
    cells,
    show,
    whole_of,
)
from rapgnn.experiments.reproduce.item import Graphs, Scale
from rapgnn.experiments.reproduce.measure import measured
from rapgnn.experiments.reproduce.store import Store
from rapgnn.models.collapse import collapse_metrics
from rapgnn.models.config import Config
from rapgnn.models.inputs import model_inputs
from rapgnn.prng import seeded
from rapgnn.propagation.stepwise import propagate
from rapgnn.training.methods import fit

TINY = "sbm:nodes=90,classes=3,features=12,train=5,val=20,test=20"
CONFIG = Config(num_layers=4, hidden_channels=8, epochs=4, pretrain_epochs=4, rescale=False, dropout=0.0)
FULL = {"structure": "full", "distribution": "glorot"}


@pytest.fixture(scope="module")
def graph():
    return Graphs().get(TINY)


def gaussian(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, columns, generator=seeded(seed, 0), dtype=torch.float64)


@pytest.mark.parametrize("rank", [1, 3, 7])
@pytest.mark.parametrize("scale", [1.0, 1e120, 1e-120])
def test_the_rank_is_that_of_the_factors_at_any_scale(rank, scale):
    found = layer_figures(scale * gaussian(50, rank) @ gaussian(rank, 10, seed=1))
    assert found["rank"] == found["rank_float64"] == rank
    assert 1 <= found["effective_rank"] <= rank + 1e-6


def test_the_figures_are_those_of_the_whole_matrix():
    h = gaussian(60, 9)
    found, reference = layer_figures(h), collapse_metrics(h, torch.zeros(2, 0, dtype=torch.int64))
    assert found["rank"] == int(torch.linalg.matrix_rank(h.float())) == 9
    assert found["effective_rank"] == pytest.approx(reference["effective_rank"])
    assert found["variance"] == pytest.approx(reference["variance"])


def test_what_float32_cannot_tell_from_zero_is_no_direction():
    left = torch.linalg.qr(gaussian(40, 3)).Q
    for share, rank in ((2.0, 3), (0.5, 2)):
        h = left @ torch.diag(torch.tensor([1.0, 1.0, share * tolerance(40, 3)], dtype=torch.float64))
        assert layer_figures(h)["rank"] == rank
        assert layer_figures(h)["rank_float64"] == 3


def test_orthonormal_columns_have_the_full_effective_rank():
    assert layer_figures(torch.linalg.qr(gaussian(30, 6)).Q)["effective_rank"] == pytest.approx(6)


def test_no_numbers_have_no_rank():
    assert layer_figures(torch.zeros(5, 2)) == dict.fromkeys(FIGURES, 0)
    assert layer_figures(torch.full((5, 2), float("inf"))) == dict.fromkeys(FIGURES)


@pytest.mark.parametrize(
    ("method", "changes"), [("rap", {}), ("fixed-diagonal", {}), ("random-full", FULL), ("identity", {})]
)
def test_random_layers_are_those_of_the_engine(method, changes, graph):
    network = random_network(graph, CONFIG.update(**changes), 0, method)
    outputs = torch.stack(list(network.outputs()))
    operator = replace(network.operator, matrix=network.operator.matrix.to(dtype=torch.float64))
    counter = network.spec.weights.evaluation_counter(0)
    whole = propagate(network.spec, operator, network.start.double(), counter, every_layer=True)
    torch.testing.assert_close(outputs, whole, rtol=1e-12, atol=0)
    assert len(outputs) == 5


def test_trained_layers_are_those_of_the_trained_network(graph):
    """And training is the library's own, epoch by epoch."""
    network = trained_network(graph, CONFIG, 0)
    fitted = fit("end-to-end", graph, CONFIG, 0)
    model = fitted.model
    assert torch.equal(network.weights["neighbour"], model.weights[:, 0])
    inputs, operator = model_inputs(graph, CONFIG)
    *_, last = network.outputs()
    with torch.no_grad():
        torch.testing.assert_close(last.float(), model.represent(inputs.x, operator), rtol=1e-4, atol=1e-5)
    correct = fitted.predict(graph.test).scores.argmax(1) == graph.y[graph.test]
    assert network.about["test"] == pytest.approx(float(correct.double().mean()))
    assert (network.about["epochs"], network.about["best_epoch"]) == (4, fitted.loop.best_epoch)


def test_small_start_values_are_small(graph):
    slow = CONFIG.update(lr=1e-9, epochs=1)
    whole, small = (trained_network(graph, slow, 0, start).weights["neighbour"] for start in (1.0, 0.125))
    torch.testing.assert_close(small, 0.125 * whole, rtol=0, atol=1e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("method", [name for name in STRATEGIES if name not in TRAINED])
def test_a_gpu_gives_the_same_layers(method, graph):
    strategy = STRATEGIES[method]
    config = CONFIG.update(**strategy.settings)
    here, there = (random_network(graph.to(device), config, 0, strategy.base_method) for device in ("cpu", "cuda"))
    there = replace(there, start=here.start.to("cuda"))
    for first, second in zip(here.outputs(), there.outputs(), strict=True):
        torch.testing.assert_close(second.cpu(), first, rtol=1e-9, atol=0)
        assert layer_figures(second)["rank"] == layer_figures(first)["rank"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_network_is_trained_on_a_gpu(graph):
    network = trained_network(graph.to("cuda"), CONFIG, 0)
    assert all(h.is_cuda and h.isfinite().all() for h in network.outputs())
    assert len(network.about["matrices"]) == 2


def small(scale: Scale) -> list[Cell]:
    """The item's cells on a small graph, with small networks."""
    layers = [0, 1, 4, 16]
    changed = {"layers": layers, "config": None}
    found = []
    for cell in cells(scale, Graphs()):
        if cell.spec["layer"] in layers:
            config = cell.spec["config"] | {"num_layers": 16, "hidden_channels": 8, "epochs": 3, "pretrain_epochs": 3}
            found.append(replace(cell, dataset=TINY, spec=cell.spec | changed | {"config": config}))
    return found


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    out = tmp_path_factory.mktemp("collapse")
    graphs, store = Graphs(), Store(out)
    found = [measured(cell, graphs, store) | {"quick": True} for cell in small(Scale(quick=True))]
    assert len(list((out / "cells").iterdir())) == len(STRATEGIES)  # each strategy was measured once
    return found


def test_every_layer_has_a_flat_record(records):
    assert {(r["method"], r["layer"]) for r in records} == {(m, n) for m in STRATEGIES for n in (0, 1, 4, 16)}
    for r in records:
        assert 0 < r["rank"] <= r["rank_float64"] <= 8
        assert 1 <= r["effective_rank"] <= 8
        assert r["variance"] > 0
        assert ("epochs" in r) == (r["method"] in TRAINED)
    starts = {r["variance"] for r in records if r["layer"] == 0 and r["method"] not in TRAINED}
    assert len(starts) == 1  # all random layers see the same embedding


def test_uniform_full_matrices_leave_one_direction(records):
    last = {r["method"]: r for r in records if r["layer"] == 16}
    assert last["random-full-uniform"]["rank"] < last["rap"]["rank"]
    assert last["random-full-uniform"]["effective_rank"] < 1.01
    assert last["rap"]["effective_rank"] > last["random-full-uniform"]["effective_rank"]
    assert last["random-full-uniform"]["variance"] > last["rap"]["variance"]


def test_the_page(records):
    text = show(records)
    for strategy in STRATEGIES.values():
        assert text.count(f"| {strategy.title} ") + text.count(f"| **{strategy.title}** ") == 4
    at = {r["layer"]: r for r in records if r["method"] == "rap"}
    assert "| **RAP-GNN** | " + " | ".join(str(at[n]["rank"]) for n in (0, 1, 4, 16)) in text
    assert text.count("of 3, the best on validation") == len(TRAINED)
    assert "Quick run, cut: 32 of 256 channels" in text
    assert "Quick run" not in show([r | {"quick": False} for r in records])


def test_the_full_run_has_every_layer():
    quick, full = (cells(Scale(quick=quick), Graphs()) for quick in (True, False))
    assert len(full) == len(STRATEGIES) * (LAYERS + 1)
    assert len(quick) == len(STRATEGIES) * len(QUICK_LAYERS)
    assert {cell.spec["config"]["hidden_channels"] for cell in full} == {256}
    wholes = {str(whole_of(cell, Graphs())[0].spec) for cell in full}
    assert len(wholes) == len(STRATEGIES)
