"""Blocks of epochs against the plain loop: the same training, plain calls on a CPU, captured graphs on a GPU."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from rapgnn import Config
from rapgnn.graph.graph import Graph
from rapgnn.graph.rows import with_goal
from rapgnn.network.heads import Head
from rapgnn.training import blocks
from rapgnn.training.fit import ValidationRows, build_rapgnn, fit_input_scale, train_head
from rapgnn.training.loop import Loop
from samples import collection

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
NODES = Config(num_layers=3, hidden_channels=8, epochs=21, embedding="fixed-random", normalize_features=False, lr=0.05)
GRAPHS = NODES.update(backbone="gine", batch_size=32, dropout=0.0, num_layers=2, epochs=9)

CASES: dict[str, tuple[str, Config]] = {
    "linear": ("nodes", NODES),
    "mlp": ("nodes", NODES.update(head="mlp", batch_norm=True)),
    "standardised": ("nodes", NODES.update(standardize=True, jumping="cat")),
    "fresh draws": ("nodes", NODES.update(inference="sample")),
    "layer by layer": ("nodes", NODES.update(engine="stepwise", backbone="sage")),
    "full": ("nodes", NODES.update(structure="full")),
    "random features": ("nodes", NODES.update(random_features=2)),
    "fixed": ("nodes", NODES.update(schedule="fixed")),
    "per epoch": ("nodes", NODES.update(schedule="epoch", batch_size=7)),
    "node batches": ("nodes", NODES.update(batch_size=7, head="mlp")),
    "graphs": ("classification", GRAPHS),
    "graphs, gin": ("classification", GRAPHS.update(backbone="gin", factors=2, jumping="cat", dropout=0.5)),
    "graphs, fixed": ("classification", GRAPHS.update(schedule="fixed")),
    "graphs, layer by layer": ("classification", GRAPHS.update(engine="stepwise")),
    "labels": ("multilabel", GRAPHS),
    "numbers": ("regression", GRAPHS.update(head="mlp", batch_size=None)),
    "patience": ("nodes", NODES.update(patience=2, epochs=40, lr=0.3)),
}


def _graph(kind: str, small_graph: Graph) -> Graph:
    return small_graph if kind == "nodes" else collection(kind)


def _prepared(graph: Graph, config: Config) -> tuple[Any, Head, Graph, Any]:
    model, graph, operator = build_rapgnn(graph, config, 3)
    assert isinstance(model.head, Head)
    return model, model.head, graph, model.embed(graph.x, operator)


def _plain(graph: Graph, config: Config, monkeypatch: pytest.MonkeyPatch) -> tuple[Loop, Head]:
    """By the plain loop, whatever the device."""
    model, head, graph, embedded = _prepared(graph, config)

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("blocks were used")

    monkeypatch.setattr("rapgnn.training.fit.in_blocks", lambda *_: False)
    monkeypatch.setattr("rapgnn.training.fit.train_in_blocks", never)
    loop = train_head(model, head, graph, embedded, None)
    monkeypatch.undo()
    return loop, head


def _blocked(graph: Graph, config: Config, most: int, on_epoch: Callable[[], None] | None = None) -> tuple[Loop, Head]:
    model, head, graph, embedded = _prepared(graph, config)
    exact = embedded.has_expectation and config.inference != "sample"
    representation = embedded.rows(graph.train, expect=graph.val if exact else None)
    validation = ValidationRows(model, graph, embedded, representation.expected if exact else None)
    fit_input_scale(head, representation, config, nodes=graph.ptr is None)
    data = blocks.Phase2(model, head, graph, representation, validation.expected, validation.rows)
    return blocks.train_in_blocks(data, on_epoch, most), head


def _same(one: tuple[Loop, Head], other: tuple[Loop, Head], tolerance: float = 1e-5) -> None:
    (plain, head), (blocked, trained) = one, other
    assert (plain.epochs, plain.best_epoch) == (blocked.epochs, blocked.best_epoch)
    assert plain.history == pytest.approx(blocked.history, abs=tolerance, nan_ok=True)
    for name, value in head.state_dict().items():
        torch.testing.assert_close(trained.state_dict()[name], value, rtol=20 * tolerance, atol=20 * tolerance)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", CASES)
def test_blocks_are_the_plain_loop(case: str, device: str, small_graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, config = CASES[case]
    graph = _graph(kind, small_graph).to(device)
    plain = _plain(graph, config, monkeypatch)
    _same(plain, _blocked(graph, config, 8))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("most", [1, 5, 64])
def test_a_block_of_any_length(most: int, device: str, small_graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, seen = small_graph.to(device), []
    plain = _plain(graph, NODES, monkeypatch)
    _same(plain, _blocked(graph, NODES, most, lambda: seen.append(1)))
    assert len(seen) == NODES.epochs


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("steps", [2, 3, 100])
def test_an_epoch_longer_than_a_captured_graph(
    steps: int, device: str, small_graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, config = small_graph.to(device), NODES.update(batch_size=4, epochs=5)
    plain = _plain(graph, config, monkeypatch)
    monkeypatch.setattr(blocks, "STEPS", steps)
    _same(plain, _blocked(graph, config, 8))


@pytest.mark.parametrize("device", DEVICES)
def test_without_validation_the_last_epoch_stays(
    device: str, small_graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = replace(small_graph, val=small_graph.val[:0]).to(device)
    plain = _plain(graph, NODES, monkeypatch)
    found = _blocked(graph, NODES, 8)
    _same(plain, found)
    assert found[0].history == []
    assert found[0].best is None


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("scoring", ["balanced_accuracy", "log_loss"])
def test_other_goals(scoring: str, device: str, small_graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = with_goal(small_graph, scoring, "balanced").to(device)
    _same(_plain(graph, NODES, monkeypatch), _blocked(graph, NODES, 8))


def test_random_streams_stay_apart_from_torchs(small_graph: Graph) -> None:
    before = torch.random.get_rng_state()
    _blocked(small_graph, NODES, 8)
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(p.grad is None for p in _blocked(small_graph, NODES, 8)[1].parameters())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_gpu_trains_in_blocks(small_graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, used = small_graph.to("cuda"), []
    real = blocks.train_in_blocks
    monkeypatch.setattr("rapgnn.training.fit.train_in_blocks", lambda *a, **k: used.append(1) or real(*a, **k))
    train_head(*_prepared(graph, NODES), None)
    assert used


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", ["layer by layer", "full", "linear", "graphs", "fixed", "graphs, layer by layer"])
def test_draws_may_be_made_a_few_at_a_time(
    case: str, device: str, small_graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, config = CASES[case]
    graph = _graph(kind, small_graph).to(device)
    plain = _plain(graph, config, monkeypatch)
    monkeypatch.setattr(blocks, "DRAWN", 70)
    _same(plain, _blocked(graph, config, 8))
