"""Stored hops of an embedding that is trained after them, and in half the memory: the layers' numbers."""

from dataclasses import replace

import pytest
import torch

from rapgnn import Config, RAPNodeClassifier
from rapgnn.graph.graph import Graph
from rapgnn.network import representation
from rapgnn.network.representation import LearnableRepresentation, PolynomialRepresentation
from rapgnn.training.fit import build_rapgnn, fit_rap
from samples import collection

CONFIG = Config(
    num_layers=3,
    hidden_channels=8,
    embedding="learnable",
    embedding_output="none",
    activation="identity",
    pretrain_dropout=0.0,
    dropout=0.0,
    epochs=15,
    lr=0.02,
)


def _representations(graph: Graph, config: Config, rows: torch.Tensor, expect: torch.Tensor | None = None) -> list:
    model, graph, operator = build_rapgnn(graph, config, 1)
    found = []
    for engine in ("auto", "stepwise"):
        embedded = model.embed(graph.x, operator, trainable=True, engine=engine)
        found.append((model, embedded.rows(rows, expect if engine == "auto" else None)))
    return found


@pytest.mark.parametrize("jumping", ["last", "cat"])
@pytest.mark.parametrize("backbone", ["gcn", "sage", "gin"])
@pytest.mark.parametrize("kind", ["nodes", "graphs"])
def test_values_and_gradients_are_those_of_the_layers(
    kind: str, backbone: str, jumping: str, small_graph: Graph
) -> None:
    graph = small_graph if kind == "nodes" else collection()
    config = CONFIG.update(backbone=backbone, jumping=jumping)
    (model, fast), (_, slow) = _representations(graph, config, graph.train)
    assert isinstance(fast, LearnableRepresentation)
    weights = list(model.embedding.mlp.parameters())  # type: ignore[union-attr]
    for counter in (0, 5):
        one, other = next(fast.draws([counter])), next(slow.draws([counter]))
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
        seed = torch.randn(one.shape, generator=torch.Generator().manual_seed(counter))
        wanted, found = (torch.autograd.grad((h * seed).sum(), weights) for h in (other, one))
        for a, b in zip(wanted, found, strict=True):
            torch.testing.assert_close(b, a, rtol=1e-3, atol=1e-4)
    batch = torch.tensor([3, 0, 7])
    torch.testing.assert_close(next(fast.draws([5], batches=[batch])), next(fast.draws([5]))[batch])


def test_the_expectation_follows_the_embedding(small_graph: Graph) -> None:
    model, graph, operator = build_rapgnn(small_graph, CONFIG, 1)
    fast = model.embed(graph.x, operator, trainable=True).rows(graph.train, graph.val)
    for _ in range(2):
        frozen = model.embed(graph.x, operator).expectation(graph.val)
        assert fast.expected is not None
        torch.testing.assert_close(fast.expected, frozen, rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            for p in model.embedding.parameters():
                p.mul_(1.5).add_(0.1)


@pytest.mark.parametrize("batch_size", [None, 8])
def test_training_is_that_of_the_layers(batch_size: int | None, small_graph: Graph) -> None:
    config = CONFIG.update(batch_size=batch_size)
    fast = fit_rap(small_graph, config, 0)
    slow = fit_rap(small_graph, config.update(engine="stepwise"), 0)
    assert (fast.engine, fast.reason) == ("polynomial", "embedding and layers are linear")
    assert slow.engine == "stepwise"
    # Validation differs (the expectation, a fresh draw), so the states of the last epoch are compared.
    fast, slow = (fit_rap(_without_validation(small_graph), c, 0) for c in (config, config.update(engine="stepwise")))
    for name, value in slow.model.state_dict().items():
        torch.testing.assert_close(fast.model.state_dict()[name], value, rtol=1e-2, atol=1e-3)


def _without_validation(graph: Graph) -> Graph:
    return replace(graph, val=graph.val[:0])


@pytest.mark.parametrize(
    "change",
    [
        {"embedding_output": "relu"},
        {"activation": "relu"},
        {"embedding_layers": 2},
        {"pretrain_dropout": 0.5},
        {"layer_dropout": 0.1},
        {"schedule": "fixed"},
        {"structure": "full"},
        {"random_features": 1},
    ],
)
def test_elsewhere_layer_by_layer(change: dict, small_graph: Graph) -> None:
    assert fit_rap(small_graph, CONFIG.update(epochs=1, **change), 0).engine == "stepwise"


def test_where_raw_hops_would_cost_more_the_layers_run(small_graph: Graph) -> None:
    model, graph, operator = build_rapgnn(small_graph, CONFIG, 1)
    assert model.embed(graph.x, operator, trainable=True, rows=100).engine == "polynomial"
    assert model.embed(graph.x, operator, trainable=True, rows=1 << 30).engine == "stepwise"


FIXED = Config(num_layers=5, hidden_channels=16, embedding="fixed-random", normalize_features=False, epochs=20)


def _stored(graph: Graph, config: Config) -> PolynomialRepresentation:
    model, graph, operator = build_rapgnn(graph, config, 0)
    found = model.embed(graph.x, operator).rows(graph.train)
    assert isinstance(found, PolynomialRepresentation)
    return found


@pytest.mark.parametrize("kind", ["nodes", "graphs"])
@pytest.mark.parametrize("jumping", ["last", "cat"])
def test_half_the_memory_and_nearly_the_same_numbers(kind: str, jumping: str, small_graph: Graph) -> None:
    graph = small_graph if kind == "nodes" else collection()
    config = FIXED.update(jumping=jumping, backbone="gcn" if kind == "nodes" else "gine")
    full, half = _stored(graph, config), _stored(graph, config.update(hop_precision="bfloat16"))
    assert half.filter.hops.nbytes * 2 == full.filter.hops.nbytes
    batch = torch.arange(5)
    pairs = [
        (full.filter.draw(range(3)), half.filter.draw(range(3))),
        (full.filter.expectation(), half.filter.expectation()),
        (full.filter.variance(), half.filter.variance()),
        (full.filter.scatter(batch), half.filter.scatter(batch)),
        (next(full.draws([7], batches=[batch])), next(half.draws([7], batches=[batch]))),
    ]
    for wanted, found in pairs:
        assert found.dtype == wanted.dtype
        error = float((found - wanted).norm() / wanted.norm())
        assert 0 < error < 2**-8  # rounding of the hops alone: bfloat16 has eight bits


@pytest.mark.parametrize("jumping", ["last", "cat"])
def test_moments_of_many_rows_are_taken_part_by_part(jumping: str, small_graph: Graph, monkeypatch) -> None:
    found = []
    for size in (1 << 30, 4096):
        monkeypatch.setattr(representation, "MOMENT_BYTES", size)
        rows = _stored(small_graph, FIXED.update(jumping=jumping))
        found.append((*rows.channel_moments(), *rows.draw_moments(3)))
    for whole, parts in zip(*found, strict=True):
        torch.testing.assert_close(parts.double(), whole.double(), rtol=1e-5, atol=1e-7)


def test_sums_are_those_of_the_rounded_hops(small_graph: Graph) -> None:
    """Exactly: nothing but the hops themselves is rounded."""
    half = _stored(small_graph, FIXED.update(hop_precision="bfloat16")).filter
    c = half.coefficients([4])[0, 0].double()  # [K, d]
    wanted = torch.einsum("kd,dkr->rd", c, half.hops.double())
    torch.testing.assert_close(half.draw([4])[0].double(), wanted, rtol=1e-5, atol=1e-6)


def test_it_is_no_wish_for_another_model(small_graph: Graph) -> None:
    plain = RAPNodeClassifier(search=False).fit(small_graph)
    half = RAPNodeClassifier(search=False, settings={"hop_precision": "bfloat16"}).fit(small_graph)
    assert half.config_ == plain.config_.update(hop_precision="bfloat16")
