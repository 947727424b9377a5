"""Ranks of known matrices, the layers of the networks against the engine's, and one network behind many records."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rapgnn import Config, fit
from rapgnn.network.rapgnn import model_inputs
from rapgnn.network.stepwise import propagate
from rapgnn.prng import seeded
from rapgnn_lab.paper.cells import Graphs, Scale
from rapgnn_lab.paper.collapse import collapse_metrics
from rapgnn_lab.paper.layers import (
    LAYERS,
    QUICK_LAYERS,
    STRATEGIES,
    TRAINED,
    describe_matrix,
    diagonal_share,
    diagonal_size,
    layer_cells,
    layer_figures,
    matrix_cells,
    pack,
    random_network,
    tolerance,
    trained_network,
    whole_of,
)
from rapgnn_lab.paper.plots import unpack

TINY = "sbm:nodes=90,classes=3,features=12,train=5,val=20,test=20"
CONFIG = Config(num_layers=4, hidden_channels=8, epochs=4, pretrain_epochs=4, rescale=False, dropout=0.0)
FULL = {"structure": "full", "distribution": "glorot"}


@pytest.fixture(scope="module")
def graph():
    return Graphs().get(TINY)


def gaussian(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, columns, generator=seeded(seed, 0), dtype=torch.float64)


@pytest.mark.parametrize(("rank", "scale"), [(1, 1e120), (3, 1.0), (7, 1e-120)])
def test_the_rank_is_that_of_the_factors_at_any_scale(rank, scale):
    h = scale * gaussian(50, rank) @ gaussian(rank, 10, seed=1)
    found, reference = layer_figures(h), collapse_metrics(h, torch.zeros(2, 0, dtype=torch.int64))
    assert found["rank"] == found["rank_float64"] == rank
    assert 1 <= found["effective_rank"] <= rank + 1e-6
    assert (found["effective_rank"], found["variance"]) == pytest.approx(
        (reference["effective_rank"], reference["variance"])
    )


def test_what_float32_cannot_tell_from_zero_is_no_direction():
    left = torch.linalg.qr(gaussian(40, 3)).Q
    for share, rank in ((2.0, 3), (0.5, 2)):
        h = left @ torch.diag(torch.tensor([1.0, 1.0, share * tolerance(40, 3)], dtype=torch.float64))
        assert layer_figures(h)["rank"] == rank
        assert layer_figures(h)["rank_float64"] == 3


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
    whole, small = (
        trained_network(graph, CONFIG.update(lr=1e-9, epochs=1), 0, start).weights for start in (1.0, 0.125)
    )
    torch.testing.assert_close(small["neighbour"], 0.125 * whole["neighbour"], rtol=0, atol=1e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("method", [name for name in STRATEGIES if name not in TRAINED])
def test_a_gpu_gives_the_same_layers(method, graph):
    strategy = STRATEGIES[method]
    config = CONFIG.update(**strategy.changes)
    here, there = (random_network(graph.to(device), config, 0, strategy.method) for device in ("cpu", "cuda"))
    there = replace(there, start=here.start.to("cuda"))
    for first, second in zip(here.outputs(), there.outputs(), strict=True):
        torch.testing.assert_close(second.cpu(), first, rtol=1e-9, atol=0)
        assert layer_figures(second)["rank"] == layer_figures(first)["rank"]


@pytest.mark.parametrize("quick", [True, False])
def test_one_network_is_behind_all_layers_and_matrices_of_a_strategy(quick):
    layers, matrices = (cells(Scale(quick=quick), Graphs()) for cells in (layer_cells, matrix_cells))
    assert len(layers) == len(STRATEGIES) * (len(QUICK_LAYERS) if quick else LAYERS + 1)
    wholes = {str(whole_of(cell, Graphs())): cell.spec["method"] for cell in layers}
    assert sorted(wholes.values()) == sorted(STRATEGIES)
    assert {wholes[str(whole_of(cell, Graphs()))] for cell in matrices} == set(TRAINED)
    assert [cell.spec["layer"] for cell in matrices] == [1, 64, 1, 64]


def test_shares_of_known_matrices():
    assert diagonal_share(torch.diag(torch.tensor([1.0, -2.0, 3.0]))) == 1
    assert diagonal_share(torch.ones(4, 4)) == pytest.approx(1 / 4)
    assert diagonal_share(torch.zeros(4, 4)) == 0
    assert diagonal_size(torch.ones(5, 5)) == pytest.approx(1)
    assert diagonal_size(torch.eye(5)) == float("inf")
    start = gaussian(16, 16).float()
    found = describe_matrix(start, start + torch.eye(16))
    assert found["moved"] == pytest.approx(4 / float(start.norm()))
    assert found["diagonal_share"] != found["start_diagonal_share"] == diagonal_share(start)
    assert found["random_diagonal_share"] == 1 / 16


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
def test_a_packed_matrix_is_off_by_half_a_step(scale):
    matrix = scale * gaussian(32, 32).float()
    packed = pack(matrix)
    error = np.abs(unpack(packed) - matrix.double().numpy())
    assert error.max() <= 0.5000001 * packed["step"]
    assert packed["step"] == pytest.approx(float(matrix.abs().max()) / 127)
    assert len(packed["levels"]) < 1.4 * matrix.numel()
    assert (unpack(pack(torch.zeros(3, 3))) == 0).all()


def test_collapse_metrics_by_hand():
    edges = torch.tensor([[0, 1], [1, 0]])
    same = collapse_metrics(torch.ones(2, 3), edges)
    assert (same["rank"], same["variance"]) == (1.0, 0.0)
    assert same["effective_rank"] == pytest.approx(1.0)
    assert same["dirichlet_energy"] == pytest.approx(0.0)
    assert same["mad"] == pytest.approx(0.0)
    apart = collapse_metrics(torch.eye(2), edges)
    assert apart["rank"] == 2
    assert apart["effective_rank"] == pytest.approx(2.0)
    assert apart["mad"] == pytest.approx(1.0)
    assert apart["variance"] == pytest.approx(0.25)
    # Both degrees are 1, so h is divided by √2: two directed edges of squared length 1, halved, over two nodes.
    assert apart["dirichlet_energy"] == pytest.approx(0.5)
    nothing = collapse_metrics(torch.zeros(3, 2), edges)
    assert nothing["effective_rank"] == 0.0
    assert all(np.isfinite(list(nothing.values())))
