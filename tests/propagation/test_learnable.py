"""A linear embedding trained after the hops: the same representations, gradients and trainings as layer by layer."""

import pytest
import torch

from rapgnn import Config
from rapgnn.graph.graph import Graph
from rapgnn.models.inputs import model_inputs
from rapgnn.propagation.learnable import LearnableRepresentation
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
    graph, operator = model_inputs(graph, config)
    model = build_rapgnn(graph, operator, config, 1)
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
    torch.testing.assert_close(next(fast.batches([batch], [5]))[1], next(fast.draws([5]))[batch])


def test_the_expectation_follows_the_embedding(small_graph: Graph) -> None:
    graph, operator = model_inputs(small_graph, CONFIG)
    model = build_rapgnn(graph, operator, CONFIG, 1)
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
    from dataclasses import replace

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
    graph, operator = model_inputs(small_graph, CONFIG)
    model = build_rapgnn(graph, operator, CONFIG, 1)
    assert model.embed(graph.x, operator, trainable=True, rows=100).engine == "polynomial"
    assert model.embed(graph.x, operator, trainable=True, rows=1 << 30).engine == "stepwise"
