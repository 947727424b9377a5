"""Training and prediction from a hop store give what they give in memory."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from disk_cases import ROOM, blocks, fit_both, hostile, largest_difference
from operators import relative_error
from rapgnn import Config, InputError
from rapgnn.graph.rows import with_goal
from rapgnn.scale import fit as training
from rapgnn.scale import hops
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.fit import fit, labelled_graph, predict
from rapgnn.scale.hops import Budget, DiskHops, untrained
from rapgnn.training.fit import fit_rap
from rapgnn.training.predict import model_on

RIDGE = {"head": "ridge", "embedding": "identity", "activation": "identity", "num_layers": 3}
KINDS = {
    "gcn, all layers": RIDGE | {"jumping": "cat", "ridge": None},
    "gcn with loops": RIDGE | {"self_loops": True},
    "sage, all layers": RIDGE | {"backbone": "sage", "jumping": "cat"},
    "gin": RIDGE | {"backbone": "gin", "eps": 0.3},
    "normalised": RIDGE | {"normalize_features": True, "ridge": None},
    "one draw": RIDGE | {"schedule": "fixed", "jumping": "cat"},
    "no draw": RIDGE | {"structure": "identity"},
    "pretrained": {"hidden_channels": 16, "epochs": 10, "pretrain_epochs": 10, "num_layers": 3},
    "pretrained, ridge": {"hidden_channels": 16, "pretrain_epochs": 10, "head": "ridge", "backbone": "sage"},
    "mlp": {
        "head": "mlp",
        "embedding": "fixed-random",
        "embedding_output": "split",
        "hidden_channels": 8,
        "epochs": 8,
        "batch_size": 32,
        "jumping": "cat",
        "num_layers": 2,
        "standardize": True,
    },
    "batch norm": {"head": "mlp", "embedding": "identity", "activation": "identity", "batch_norm": True, "epochs": 5},
}


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    """Small graphs come in several parts."""
    monkeypatch.setattr(training, "PART_BYTES", 1 << 12)
    monkeypatch.setattr(hops, "ROW_BYTES", 1 << 12)
    monkeypatch.setattr(hops, "PART_ROWS", 37)


def together(parts, field="scores"):
    return torch.cat([getattr(found, field) for _, found in parts])


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_and_its_predictions_are_those_in_memory(tmp_path, kind):
    graph, config = blocks(), Config(**KINDS[kind])
    wanted = fit_rap(graph, config, 0)
    disk, found = fit_both(graph, tmp_path / "g", config)
    assert largest_difference(found.model, wanted.model) < 1e-5
    assert found.best == pytest.approx(wanted.loop.best, rel=1e-5, abs=1e-6)
    every = torch.arange(graph.num_nodes)
    scores = together(predict(found.model, disk, graph.objective, ROOM))
    assert relative_error(scores, wanted.predict(every).scores) < 1e-5
    exact = model_on(wanted.model, graph, inference="expected", error_bars=True)(every)
    bars = list(predict(found.model, disk, graph.objective, ROOM, error_bars=True))
    assert relative_error(together(bars), exact.scores) < 1e-5
    assert relative_error(together(bars, "spread"), exact.spread) < 1e-4  # a difference of squares
    assert np.concatenate([nodes for nodes, _ in bars]).tolist() == every.tolist()


@pytest.mark.parametrize("name", hostile())
@pytest.mark.parametrize("backbone", ["gcn", "sage", "gin"])
def test_hostile_graphs_too(tmp_path, name, backbone):
    graph, config = hostile()[name], Config(**RIDGE, backbone=backbone, jumping="cat", normalize_features=False)
    wanted = fit_rap(graph, config, 0)
    disk, found = fit_both(graph, tmp_path / "g", config)
    scores = together(predict(found.model, disk, graph.objective, ROOM))
    assert relative_error(scores, wanted.predict(torch.arange(graph.num_nodes)).scores) < 1e-5


def test_labels_that_are_partly_unknown_and_classes_that_count_more(tmp_path):
    rng = np.random.default_rng(0)
    graph = blocks()
    labels = torch.from_numpy(rng.integers(0, 2, (graph.num_nodes, 3)).astype(np.float32))
    labels[rng.random(labels.shape) < 0.3] = float("nan")
    labels[:, 0] = (graph.y == 0).float()
    many = replace(graph, y=labels, task="node-multilabel")
    config = Config(**RIDGE, ridge=None)
    _, found = fit_both(many, tmp_path / "many", config)
    assert largest_difference(found.model, fit_rap(many, config, 0).model) < 1e-5
    disk = DiskGraph.write(tmp_path / "weighed", graph)
    goal = {"scoring": "f1_macro", "class_weight": {0: 5.0}}
    again = fit(disk, *labelled_graph(disk, **goal), config, 0, ROOM)
    assert largest_difference(again.model, fit_rap(with_goal(graph, **goal), config, 0).model) < 1e-5


def test_a_store_of_all_rows_and_more_layers_serves(tmp_path):
    disk = DiskGraph.write(tmp_path / "g", blocks())
    config = Config(**RIDGE)
    DiskHops(disk, untrained(disk, config.update(num_layers=5)), ROOM).store(tmp_path / "s", np.arange(disk.num_nodes))
    told: list[int] = []
    how = {"store": tmp_path / "s", "on_hop": lambda done, of: told.append(done)}
    found = fit(disk, *labelled_graph(disk), config, 0, ROOM, **how)
    assert told == []  # nothing was computed again
    assert largest_difference(found.model, fit_rap(blocks(), config, 0).model) < 1e-5
    deeper = config.update(num_layers=6)
    with pytest.raises(InputError, match="holds other hops"):
        fit(disk, *labelled_graph(disk), deeper, 0, ROOM, **how)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"activation": "relu"}, "the embedded features have negative entries"),
        ({"embedding": "learnable"}, "the embedding learnable"),
        ({"structure": "full"}, "full weight matrices"),
        ({"layer_dropout": 0.5}, "layer dropout"),
        ({"engine": "stepwise"}, "the engine stepwise"),
        ({"inference": "sample"}, "the inference sample"),
        ({"random_features": 2}, "random node features"),
    ],
)
def test_what_cannot_be_streamed_is_refused(tmp_path, settings, words):
    with pytest.raises(InputError, match=words):
        fit_both(hostile()["directed"], tmp_path / "g", Config(**(RIDGE | settings)))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (RIDGE, "for a ridge head on 12 columns"),
        ({"embedding": "identity", "activation": "identity"}, "to train on 120 rows at once"),
        ({"head": "ridge"}, "for a ridge head on 256 columns"),
    ],
)
def test_a_limit_that_is_too_small_names_the_least_that_works(tmp_path, settings, words):
    disk = DiskGraph.write(tmp_path / "g", blocks())
    with pytest.raises(InputError, match=rf"{words}.*: \d+MiB is the least that works\.$"):
        fit(disk, *labelled_graph(disk), Config(**settings), 0, Budget(100 << 20))
    assert [path.name for path in tmp_path.iterdir()] == ["g"]
