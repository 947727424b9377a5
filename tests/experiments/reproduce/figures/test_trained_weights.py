"""How diagonal a matrix is, a matrix in few bytes, and the network that is shared with the item of ranks."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rapgnn.experiments.reproduce.figures import collapse
from rapgnn.experiments.reproduce.figures.matrices import describe_matrix, diagonal_share, diagonal_size, pack, unpack
from rapgnn.experiments.reproduce.figures.trained_weights import cells, show
from rapgnn.experiments.reproduce.item import Graphs, Scale
from rapgnn.experiments.reproduce.measure import measured
from rapgnn.experiments.reproduce.store import Store
from rapgnn.models.config import Config
from rapgnn.models.endtoend import EndToEnd
from rapgnn.prng import seeded
from rapgnn.training.methods import fit

TINY = "sbm:nodes=90,classes=3,features=12,train=5,val=20,test=20"


def gaussian(d: int) -> torch.Tensor:
    return torch.randn(d, d, generator=seeded(0, 0))


def test_shares_of_known_matrices():
    assert diagonal_share(torch.diag(torch.tensor([1.0, -2.0, 3.0]))) == 1
    assert diagonal_share(torch.ones(4, 4)) == pytest.approx(1 / 4)
    assert diagonal_share(torch.zeros(4, 4)) == 0
    assert 256 * diagonal_share(gaussian(256)) == pytest.approx(1, abs=0.4)
    assert diagonal_size(torch.ones(5, 5)) == pytest.approx(1)
    assert diagonal_size(torch.ones(5, 5) + 2 * torch.eye(5)) == pytest.approx(3)
    assert diagonal_size(torch.eye(5)) == float("inf")


def test_a_matrix_beside_its_start():
    start = gaussian(16)
    found = describe_matrix(start, start + torch.eye(16))
    assert found["moved"] == pytest.approx(4 / float(start.norm()))
    assert found["diagonal_share"] != found["start_diagonal_share"] == diagonal_share(start)
    assert found["random_diagonal_share"] == 1 / 16


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
def test_a_packed_matrix_is_off_by_half_a_step(scale):
    matrix = scale * gaussian(32)
    packed = pack(matrix)
    error = np.abs(unpack(packed) - matrix.double().numpy())
    assert error.max() <= 0.5000001 * packed["step"]
    assert packed["step"] == pytest.approx(float(matrix.abs().max()) / 127)
    assert len(packed["levels"]) < 1.4 * matrix.numel()
    assert (unpack(pack(torch.zeros(3, 3))) == 0).all()


@pytest.fixture(scope="module")
def small():
    """Two of the item's cells on a small graph, with a small network of two layers."""
    config = Config(num_layers=2, hidden_channels=8, epochs=5, dropout=0.0, rescale=False)
    changed = {"config": config.to_dict(), "layers": [0, 2]}
    first, last = (replace(c, dataset=TINY, spec=c.spec | changed) for c in cells(Scale(quick=True), Graphs())[:2])
    return config, [first, replace(last, spec=last.spec | {"layer": 2}, labels={"title": "End-to-End, layer 2"})]


def test_the_matrices_are_those_of_the_trained_network(small, tmp_path):
    config, both = small
    graphs = Graphs()
    records = [measured(cell, graphs, Store(tmp_path)) for cell in both]
    assert len(list((tmp_path / "cells").iterdir())) == 1  # one training
    graph = graphs.get(TINY)
    model = fit("end-to-end", graph, config, 0).model
    start = EndToEnd(graph.num_features, graph.num_outputs, config, 0, 0)
    for layer, record in enumerate(records):
        matrix = model.weights[layer, 0].detach()
        assert record["diagonal_share"] == pytest.approx(diagonal_share(matrix))
        assert record["start_diagonal_share"] == pytest.approx(diagonal_share(start.weights[layer, 0].detach()))
        assert np.abs(unpack(record["matrix"]) - matrix.double().numpy()).max() <= 0.5000001 * record["matrix"]["step"]
        assert record["moved"] > 0
    text = show([r | {"quick": True} for r in records])
    for r in records:
        start, after = (f"{100 * r[name]:.2f}" for name in ("start_diagonal_share", "diagonal_share"))
        assert f"| End-to-End, layer {r['layer']} | {start} | {after} |" in text
    assert "12.50 % for a random one" in text
    assert "Quick run, cut" in text


@pytest.mark.parametrize("quick", [True, False])
def test_the_networks_are_those_of_the_ranks(quick):
    scale, graphs = Scale(quick=quick), Graphs()
    ranks = [c for c in collapse.cells(scale, graphs) if c.spec["method"] in collapse.TRAINED]
    mine = cells(scale, graphs)
    assert {str(collapse.whole_of(c, graphs)) for c in mine} == {str(collapse.whole_of(c, graphs)) for c in ranks}
    assert [cell.spec["layer"] for cell in mine] == [1, 64, 1, 64]
