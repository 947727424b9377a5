"""Folds trained side by side: as one after another, none with an influence on another, and without waiting."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from rapgnn import make_graphs
from rapgnn.errors import InputError
from rapgnn.graph.goals import BALANCED, with_goal
from rapgnn.graph.graph import Graph
from rapgnn.models.config import Config
from rapgnn.models.endtoend import EndToEnd
from rapgnn.sparse import SparseMatrix, dense
from rapgnn.training import baselines, orders, side_by_side
from rapgnn.training.side_by_side import SideBySide, fit_side_by_side, fits_side_by_side
from samples import collection

CONFIG = Config(
    backbone="gin",
    num_layers=2,
    hidden_channels=8,
    dropout=0.0,
    epochs=4,
    lr=0.01,
    batch_size=8,
    normalize_features=False,
)
SEEDS = [3, 4, 5]


def graphs(directed: bool = False, count: int = 37, dtype: torch.dtype = torch.float32) -> Graph:
    """Small graphs of three classes of size; one has no node, two a single one, one no edge, one an isolated node.

    There are loops, and edges listed twice.
    """
    rng = np.random.default_rng(0)
    special = {0: [], 1: [], 2: [], 3: [(0, 1), (1, 0), (0, 1), (1, 0), (2, 2)], 4: [(0, 0)]}
    sizes = np.array([0, 1, 4, 4, 1, *rng.integers(2, 9, count - 5)])
    starts = np.concatenate([[0], np.cumsum(sizes)])
    edges: list[tuple[int, int]] = []
    for i, (start, n) in enumerate(zip(starts[:-1], sizes, strict=True)):
        some = special.get(i, rng.integers(0, n, (n, 2)).tolist() if n else [])
        back = [] if directed or i in special else [(v, u) for u, v in some if u != v]
        edges += [(start + u, start + v) for u, v in [*some, *back]]
    x = rng.random((starts[-1], 3)).astype(np.float32)
    graph = make_graphs(x, np.array(edges).T, sizes, np.digitize(sizes, [4, 6]), task="classification", seed=1)
    return replace(graph, x=dense(graph.x).to(dtype))


def splits(graph: Graph, test: bool = True) -> list[Graph]:
    """Three of them; with 24, 25 and 25 graphs to train on, so that batches and numbers of batches differ."""
    rng, found = np.random.default_rng(7), []
    for rows in (24, 25, 25):
        order = torch.from_numpy(rng.permutation(graph.num_rows))
        parts = order[:rows], order[rows : rows + 6], order[rows + 6 :] if test else order[:0]
        found.append(replace(graph, train=parts[0], val=parts[1], test=parts[2]))
    return found


class DoubleEndToEnd(EndToEnd):
    def __init__(self, *args):
        super().__init__(*args)
        self.double()


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> None:
    """Double precision for folds that are trained alone; side by side the features decide.

    In single precision the gradient of a bias before batch norm is rounding alone, and Adam makes full steps of it.
    """
    monkeypatch.setattr(baselines, "EndToEnd", DoubleEndToEnd)


def assert_as_alone(folds: list[Graph], config: Config, tolerance: float) -> list[SideBySide]:
    together = fit_side_by_side(folds, config, SEEDS)
    for found, fold, seed in zip(together, folds, SEEDS, strict=True):
        alone = baselines.fit_end_to_end(fold, config, seed)
        assert found.history == alone.loop.history
        assert found.best_epoch == alone.loop.best_epoch
        assert found.test_scores is not None
        torch.testing.assert_close(found.test_scores, alone.predict(fold.test).scores, rtol=tolerance, atol=tolerance)
    return together


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"batch_norm": True},  # a last batch of one graph, which two of the folds have
        {"batch_norm": True, "batch_size": 24, "head": "mlp", "factors": 2},
        {"batch_norm": True, "batch_size": 1, "head": "mlp", "epochs": 1, "lr": 0.001},
        {"batch_norm": True, "batch_size": None, "pooling": "mean", "embedding_layers": 2},
        {"batch_size": 25, "jumping": "cat", "embedding_layers": 3, "weight_decay": 0.0},
        {"batch_norm": True, "batch_size": 100, "jumping": "cat", "pooling": "mean", "head": "mlp", "head_layers": 3},
        {"head": "mlp", "factors": 3, "residual": True, "eps": 0.5, "normalize_features": True},
        {"num_layers": 1, "hidden_channels": 5, "pooling": "mean", "weight_decay": 0.1, "batch_size": 5},
    ],
    ids=str,
)
def test_as_one_after_another(double, change) -> None:
    config, folds = CONFIG.update(**change), splits(graphs(dtype=torch.float64))
    assert fits_side_by_side(folds[0], config)
    assert_as_alone(folds, config, 1e-6)


@pytest.mark.parametrize("directed", [False, True])
def test_over_many_epochs(double, directed) -> None:
    found = assert_as_alone(splits(graphs(directed, dtype=torch.float64)), CONFIG.update(epochs=30, lr=0.01), 1e-6)
    assert len({accuracy for one in found for accuracy in one.history}) > 3
    assert len({one.best_epoch for one in found}) > 1


@pytest.mark.parametrize("change", [{"pooling": "mean"}, {"jumping": "cat", "head": "mlp", "factors": 2}], ids=str)
def test_in_single_precision(change) -> None:
    assert_as_alone(splits(graphs()), CONFIG.update(**change), 1e-4)


def test_sparse_features_and_features_of_edges(molecules) -> None:
    assert isinstance(molecules.x, SparseMatrix)
    assert molecules.edge_attr is not None
    assert_as_alone(splits(molecules), CONFIG.update(epochs=3), 1e-4)


@pytest.mark.parametrize("batch_norm", [False, True])
def test_networks_do_not_influence_one_another(batch_norm) -> None:
    config, folds = CONFIG.update(batch_norm=batch_norm, head="mlp"), splits(graphs())
    together = fit_side_by_side(folds, config, SEEDS)
    for found, fold, seed in zip(together, folds, SEEDS, strict=True):
        (alone,) = fit_side_by_side([fold], config, [seed])
        assert found.history == alone.history
        torch.testing.assert_close(found.test_scores, alone.test_scores, rtol=1e-4, atol=1e-5)


def test_one_that_diverges_leaves_the_others_alone() -> None:
    graph = graphs()
    assert graph.ptr is not None
    x, (start, stop) = dense(graph.x).clone(), graph.ptr[10:12].tolist()
    x[start:stop] = 1e38  # of a graph that only the first network sees
    rows = torch.tensor([i for i in range(37) if i != 10])
    tame = replace(graph, x=x, train=rows[:24], val=rows[24:30], test=rows[30:])
    wild = replace(tame, train=torch.cat([rows[:24], torch.tensor([10])]))
    config = CONFIG.update(batch_norm=True)
    first, second = fit_side_by_side([wild, tame], config, [0, 1])
    assert np.isnan(first.history).all()
    assert first.best_epoch == 0
    (alone,) = fit_side_by_side([tame], config, [1])
    assert second.history == alone.history
    torch.testing.assert_close(second.test_scores, alone.test_scores, rtol=1e-4, atol=1e-5)


def test_dropout_is_decided_by_the_seed() -> None:
    folds, config = splits(graphs()), CONFIG.update(dropout=0.4, batch_norm=True, head="mlp")
    one, same = (fit_side_by_side(folds, config, SEEDS) for _ in range(2))
    plain = fit_side_by_side(folds, config.update(dropout=0.0), SEEDS)
    for a, b, c in zip(one, same, plain, strict=True):
        assert a.history == b.history
        assert torch.equal(a.test_scores, b.test_scores)  # type: ignore[arg-type]
        assert not torch.allclose(a.test_scores, c.test_scores, atol=1e-3)  # type: ignore[arg-type]


@pytest.mark.parametrize("change", [{}, {"batch_norm": True, "head": "mlp", "embedding_layers": 2}], ids=str)
def test_dropout_is_where_it_is_in_one_network(double, change) -> None:
    fold = splits(graphs(dtype=torch.float64))[0]
    config = CONFIG.update(dropout=0.4, batch_size=None, **change)  # without padding both take the same random words
    (found,) = fit_side_by_side([fold], config, [6])
    alone = baselines.fit_end_to_end(fold, config, 6)
    assert found.history == alone.loop.history
    torch.testing.assert_close(found.test_scores, alone.predict(fold.test).scores, rtol=1e-6, atol=1e-6)


def test_two_networks_on_one_fold_drop_different_entries() -> None:
    fold = splits(graphs())[1]
    one, other = fit_side_by_side([fold, fold], CONFIG.update(dropout=0.5), [0, 0])
    assert not torch.allclose(one.test_scores, other.test_scores, atol=1e-4)  # type: ignore[arg-type]


def test_what_comes_back(fresh_random_state) -> None:
    folds, epochs = splits(graphs(), test=False), []
    folds[1] = replace(folds[1], test=torch.arange(3))
    with torch.inference_mode():
        found = fit_side_by_side(folds, CONFIG, SEEDS, on_epoch=lambda: epochs.append(1))
    assert len(epochs) == CONFIG.epochs
    assert [len(one.history) for one in found] == [CONFIG.epochs] * 3
    assert [one.test_scores is None for one in found] == [True, False, True]
    assert all(one.train_ms_per_epoch > 0 and one.eval_ms_per_epoch > 0 for one in found)
    assert found[0].seconds * 1e3 > CONFIG.epochs * (found[0].train_ms_per_epoch + found[0].eval_ms_per_epoch)


def test_bounds_hold_for_every_step(monkeypatch) -> None:
    graph = graphs()
    assert graph.ptr is not None
    nodes = torch.cat([graph.ptr.diff(), torch.zeros(1, dtype=torch.int64)])
    train = [fold.train for fold in splits(graph)]
    config = CONFIG.update(epochs=40)
    found = orders.Orders(train, config, SEEDS, nodes, 2 * nodes)
    used = {shape for row in found.shapes for shape in row}
    assert len({shape.nodes for shape in used if shape.graphs == 8}) == len(orders.SHARES)
    for ids, row in zip(found.ids, found.shapes, strict=True):
        for mine, shape in zip(ids, row, strict=True):
            assert shape.graphs == (mine < 37).sum(1).max()
            assert shape.nodes >= nodes[mine].sum(1).max()
            assert shape.entries >= 2 * nodes[mine].sum()
        for network, rows in enumerate(train):
            assert sorted(ids[:, network][ids[:, network] < 37].tolist()) == sorted(rows.tolist())
    monkeypatch.setattr(orders, "LARGE", 0)
    few = orders.Orders(train, config, SEEDS, nodes, 2 * nodes)
    assert len({shape for row in few.shapes for shape in row}) == 2  # a full batch, and the last one


class Watch(TorchDispatchMode):
    """What would make the processor wait for a GPU, or add up in an order of chance there."""

    waits = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "repeat_interleave", "bincount", "is_nonzero")
    by_chance = ("index_add", "scatter_add", "scatter_reduce", "index_put", "embedding_dense_backward")
    copies = ("lift_fresh", "scalar_tensor")  # a number that lies on the CPU

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        self.seen.append(name)
        assert not name.startswith((*self.waits, *self.by_chance, *self.copies)), name
        if name == "index":
            assert all(index is None or index.dtype != torch.bool for index in args[1])
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("change", [{"batch_norm": True, "head": "mlp", "dropout": 0.5}, {"pooling": "mean"}], ids=str)
def test_a_step_waits_for_nothing(change) -> None:
    run = side_by_side._Run(splits(graphs(directed=True)), CONFIG.update(**change), SEEDS)
    with Watch() as watch:
        run.step(0, 0)
        run.evaluate(0)
    assert {"bmm", "searchsorted", "segment_reduce"} <= set(watch.seen)
    run.finish()


def test_what_is_not_supported() -> None:
    graph = graphs()
    for change in (
        {"backbone": "gcn"},
        {"activation": "tanh"},
        {"pooling": "max"},
        {"train_eps": True},
        {"patience": 5},
    ):
        assert not fits_side_by_side(graph, CONFIG.update(**change))
    weighted = with_goal(graph, None, BALANCED)
    assert not fits_side_by_side(weighted, CONFIG)
    for task in ("multilabel", "regression"):
        assert not fits_side_by_side(collection(task), CONFIG)
    with pytest.raises(InputError, match="one fold after another"):
        fit_side_by_side([weighted], CONFIG, [0])


def test_bad_folds_are_refused() -> None:
    folds = splits(graphs())
    with pytest.raises(InputError, match="3 folds and 2 seeds"):
        fit_side_by_side(folds, CONFIG, [0, 1])
    with pytest.raises(InputError, match="validation graphs"):
        fit_side_by_side([replace(folds[0], val=folds[0].val[:0])], CONFIG, [0])
    with pytest.raises(InputError, match="one set of graphs"):
        fit_side_by_side([folds[0], splits(graphs(directed=True))[0]], CONFIG, [0, 1])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize(
    "change", [{"batch_norm": True, "head": "mlp", "jumping": "cat"}, {"pooling": "mean"}], ids=str
)
@pytest.mark.parametrize("directed", [False, True])
def test_a_gpu_gives_the_same(change, directed) -> None:
    folds, config = splits(graphs(directed)), CONFIG.update(hidden_channels=16, epochs=5, **change)
    here, there = (fit_side_by_side([f.to(d) for f in folds], config, SEEDS) for d in ("cpu", "cuda"))
    for a, b in zip(here, there, strict=True):
        assert b.test_scores is not None
        torch.testing.assert_close(a.test_scores, b.test_scores.cpu(), rtol=1e-3, atol=1e-3)
        assert a.history == pytest.approx(b.history, abs=0.2)  # a graph more or less of six


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_gpu_gives_the_same_every_time() -> None:
    folds = [fold.to("cuda") for fold in splits(graphs())]
    config = CONFIG.update(hidden_channels=16, dropout=0.3, batch_norm=True, epochs=10)
    one, same = (fit_side_by_side(folds, config, SEEDS) for _ in range(2))
    for a, b in zip(one, same, strict=True):
        assert a.history == b.history
        assert torch.equal(a.test_scores, b.test_scores)  # type: ignore[arg-type]
