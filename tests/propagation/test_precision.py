"""Hops in half the memory: what is stored is rounded, sums are not."""

import pytest
import torch

from rapgnn import Config, RAPNodeClassifier
from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph
from rapgnn.models.inputs import model_inputs
from rapgnn.propagation.engine import PolynomialRepresentation
from rapgnn.training.fit import build_rapgnn, fit_rap
from samples import collection

CONFIG = Config(num_layers=5, hidden_channels=16, embedding="fixed-random", normalize_features=False, epochs=20)


def _stored(graph: Graph, config: Config) -> PolynomialRepresentation:
    graph, operator = model_inputs(graph, config)
    found = build_rapgnn(graph, operator, config, 0).embed(graph.x, operator).rows(graph.train)
    assert isinstance(found, PolynomialRepresentation)
    return found


@pytest.mark.parametrize("kind", ["nodes", "graphs"])
@pytest.mark.parametrize("jumping", ["last", "cat"])
def test_half_the_memory_and_nearly_the_same_numbers(kind: str, jumping: str, small_graph: Graph) -> None:
    graph = small_graph if kind == "nodes" else collection()
    config = CONFIG.update(jumping=jumping, backbone="gcn" if kind == "nodes" else "gine")
    full, half = _stored(graph, config), _stored(graph, config.update(hop_precision="bfloat16"))
    assert half.filter.hops.nbytes * 2 == full.filter.hops.nbytes
    batch = torch.arange(5)
    pairs = [
        (full.filter.draw(range(3)), half.filter.draw(range(3))),
        (full.filter.expectation(), half.filter.expectation()),
        (full.filter.variance(), half.filter.variance()),
        (full.filter.scatter(batch), half.filter.scatter(batch)),
        (next(full.batches([batch], [7]))[1], next(half.batches([batch], [7]))[1]),
    ]
    for wanted, found in pairs:
        assert found.dtype == wanted.dtype
        error = float((found - wanted).norm() / wanted.norm())
        assert 0 < error < 2**-8  # rounding of the hops alone: bfloat16 has eight bits


def test_sums_are_those_of_the_rounded_hops(small_graph: Graph) -> None:
    """Exactly: nothing but the hops themselves is rounded."""
    half = _stored(small_graph, CONFIG.update(hop_precision="bfloat16")).filter
    c = half.coefficients([4])[0, 0].double()  # [K, d]
    wanted = torch.einsum("kd,dkr->rd", c, half.hops.double())
    torch.testing.assert_close(half.draw([4])[0].double(), wanted, rtol=1e-5, atol=1e-6)


def test_training_is_nearly_the_same(small_graph: Graph) -> None:
    full, half = (fit_rap(small_graph, CONFIG.update(hop_precision=p), 0) for p in ("float32", "bfloat16"))
    rows = small_graph.test
    torch.testing.assert_close(full.predict(rows).probabilities, half.predict(rows).probabilities, atol=0.02, rtol=0.0)


def test_other_precisions_are_refused() -> None:
    with pytest.raises(InputError, match="bfloat16"):
        Config(hop_precision="float16")


def test_a_scorer_takes_rounded_hops(small_graph: Graph) -> None:
    config = CONFIG.update(hop_precision="bfloat16")
    graph, operator = model_inputs(small_graph, config)
    model = build_rapgnn(graph, operator, config, 0).eval()
    prepared = model.prepare(graph.x, graph.edge_index)
    torch.testing.assert_close(model.scorer()(prepared.hops), model(prepared), atol=0.02, rtol=0.02)


def test_it_is_no_wish_for_another_model(small_graph: Graph) -> None:
    plain = RAPNodeClassifier(search=False).fit(small_graph)
    half = RAPNodeClassifier(search=False, settings={"hop_precision": "bfloat16"}).fit(small_graph)
    assert half.config_ == plain.config_.update(hop_precision="bfloat16")
