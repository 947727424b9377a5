"""Stored hops in half the memory, and moments of many rows: nearly the same numbers, or the same."""

import pytest
import torch

from rapgnn import Config
from rapgnn.graph.graph import Graph
from rapgnn.network import representation
from rapgnn.network.representation import PolynomialRepresentation
from rapgnn.training.fit import build_rapgnn
from samples import collection

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
