"""The rivals: the fast way of computing a layer gives PyG's numbers, and every rival learns what it should."""

from functools import partial

import pytest
import torch

from rapgnn.datasets.synthetic import BlockModel
from rapgnn.experiments.bench.suite.blocks import directed, useless
from rapgnn.experiments.bench.suite.documents import documents
from rapgnn.experiments.bench.suite.ego import circles, cycles
from rapgnn.experiments.bench.suite.inputs import rival_features
from rapgnn.experiments.bench.suite.node_rivals import NodeTrainer
from rapgnn.experiments.bench.suite.set_rivals import SetTrainer
from rapgnn.experiments.bench.suite.training import train_rival
from rapgnn.experiments.run import Record
from rapgnn.graph.batch import make_graphs
from rapgnn.graph.graph import make_graph
from rapgnn.sparse import SparseMatrix, dense

PLAIN: Record = {
    "hidden_channels": 16,
    "num_layers": 2,
    "dropout": 0.0,
    "lr": 0.03,
    "weight_decay": 0.0,
    "scale": "columns",
    "residual": False,
    "alpha": 0.1,
    "batch_size": 16,
}
BLOCKS = BlockModel(nodes=300, classes=3, features=12, signal=3.0, train=20, val=60, test=100, seed=1)


def awkward():
    """Self-loops, repeated edges, isolated nodes."""
    edges = [[0, 1, 1, 2, 2, 3, 3], [1, 0, 0, 2, 3, 2, 2]]
    return make_graph(torch.eye(6)[:, :3] + 1, edges, [0, 1, 0, 1, 0, 1], [0, 1], [2, 3], [4, 5], sparse=False)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("rival", ["gcn", "sage", "appnp"])
@pytest.mark.parametrize("make", [BLOCKS.generate, partial(documents, 200, 300, 4), partial(directed, 300)])
def test_the_fast_way_gives_the_layers_numbers(rival, residual, make, fresh_random_state):
    graph, scores, slopes = make(), [], []
    for own in (True, False):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            trainer = NodeTrainer(rival, graph, PLAIN | {"residual": residual}, own)
        out = trainer.scores()["test"]
        out.square().sum().backward()
        scores.append(out.detach())
        slopes.append(next(trainer.module.parameters()).grad)
    torch.testing.assert_close(*scores, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(*slopes, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("rival", ["gcn", "sage", "appnp"])
def test_awkward_edges(rival):
    scores = []
    for own in (True, False):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            scores.append(NodeTrainer(rival, awkward(), PLAIN | {"scale": "none"}, own).scores()["test"].detach())
    torch.testing.assert_close(*scores)


def test_the_fast_way_on_sets_of_graphs():
    plain = circles(40)
    assert plain.ptr is not None
    edges, sizes = plain.edge_index, plain.ptr.diff()
    kinds = torch.rand(edges.shape[1], 3)
    typed = make_graphs(dense(plain.x), edges, sizes, plain.y, plain.train, plain.val, plain.test, edge_attr=kinds)
    for graph in (plain, typed):
        scores = []
        for own in (True, False):
            with torch.random.fork_rng():
                torch.manual_seed(0)
                trainer = SetTrainer("gin", graph, PLAIN, own)
            trainer.module.eval()
            scores.append(trainer.scores()["val"].detach())
        torch.testing.assert_close(*scores, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rival", ["gcn", "sage", "appnp"])
def test_rivals_learn_and_repeat(rival, fresh_random_state):
    graph = BLOCKS.generate()
    first, again = (train_rival(rival, graph, "accuracy", PLAIN, 0, epochs=30, own=True) for _ in range(2))
    assert (first.val, first.test, first.curve) == (again.val, again.test, again.curve)
    assert first.test > 0.9
    assert first.epochs == 30
    assert list(first.curve) == sorted(first.curve)


def test_gin_learns_classes_and_numbers():
    graph = circles(100)
    assert train_rival("gin", graph, "accuracy", PLAIN | {"lr": 0.01}, 0, epochs=12, own=True).test > 0.6
    graph = cycles(100)
    run = train_rival("gin", graph, "rmse", PLAIN | {"lr": 0.01}, 0, epochs=15, own=True)
    spread = float(graph.y[graph.test].std())
    assert run.test < 0.7 * spread
    assert run.curve[-1] == pytest.approx(-run.val)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("rival", ["gcn", "sage", "appnp", "gin"])
def test_a_gpu_finds_the_same(rival):
    graph = circles(60) if rival == "gin" else documents(300, 400, 4)
    settings = PLAIN | {"lr": 1e-3}
    here, there = (
        train_rival(rival, graph, "accuracy", settings, 0, epochs=2, own=rival != "gin", device=device)
        for device in ("cpu", "cuda")
    )
    assert there.val_loss == pytest.approx(here.val_loss, rel=0.05)


def test_a_run_ends_with_patience_or_when_told():
    graph = useless(300)
    assert train_rival("gcn", graph, "rocauc", PLAIN | {"lr": 1e-9}, 0, epochs=50, patience=3).epochs < 50
    assert train_rival("gcn", graph, "rocauc", PLAIN, 0, epochs=50, stop=lambda curve: len(curve) == 4).epochs == 4


def test_features_are_scaled():
    graph = BLOCKS.generate()
    columns = rival_features(graph, "columns")
    assert isinstance(columns, torch.Tensor)
    torch.testing.assert_close(columns.mean(0), torch.zeros(12), atol=1e-5, rtol=0)
    torch.testing.assert_close(columns.std(0), torch.ones(12))
    torch.testing.assert_close(dense(rival_features(graph, "rows")).abs().sum(1), torch.ones(300))
    assert rival_features(graph, "none") is graph.x
    wide = documents(200, 300, 4)
    scaled = rival_features(wide, "columns")
    assert isinstance(scaled, SparseMatrix)
    assert dense(scaled).square().mean(0).max() == pytest.approx(1.0, rel=1e-4)
    assert torch.equal(dense(rival_features(wide, "none", ids=True)), torch.eye(200))
