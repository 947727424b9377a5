"""Stored hops in half the memory, and moments of many rows: nearly the same numbers, or the same."""

import pytest
import torch

from rapgnn import Config
from rapgnn.graph.graph import Graph
from rapgnn.network import representation
from rapgnn.network.representation import PolynomialRepresentation
from rapgnn.training.fit import build_rapgnn

FIXED = Config(num_layers=5, hidden_channels=16, embedding="fixed-random", normalize_features=False, epochs=20)


def _stored(graph: Graph, config: Config) -> PolynomialRepresentation:
    model, graph, operator = build_rapgnn(graph, config, 0)
    found = model.embed(graph.x, operator).rows(graph.train)
    assert isinstance(found, PolynomialRepresentation)
    return found


@pytest.mark.parametrize("jumping", ["last", "cat"])
def test_moments_of_many_rows_are_taken_part_by_part(jumping: str, small_graph: Graph, monkeypatch) -> None:
    found = []
    for size in (1 << 30, 4096):
        monkeypatch.setattr(representation, "MOMENT_BYTES", size)
        rows = _stored(small_graph, FIXED.update(jumping=jumping))
        found.append((*rows.channel_moments(), *rows.draw_moments(3)))
    for whole, parts in zip(*found, strict=True):
        torch.testing.assert_close(parts.double(), whole.double(), rtol=1e-5, atol=1e-7)
