"""The metrics of collapse."""

import numpy as np
import pytest
import torch

from networks import EDGES, X, model
from rapgnn import RandomWeights, collapse_by_layer, collapse_metrics, randomize


def test_collapse_metrics_by_hand():
    edges = torch.tensor([[0, 1], [1, 0]])
    same = collapse_metrics(torch.ones(2, 3), edges)
    assert (same["rank"], same["variance"]) == (1.0, 0.0)
    assert same["effective_rank"] == pytest.approx(1.0)
    assert same["dirichlet_energy"] == pytest.approx(0.0)
    assert same["mad"] == pytest.approx(0.0)
    apart = collapse_metrics(torch.eye(2), edges)
    assert apart["rank"] == 2
    assert apart["effective_rank"] == pytest.approx(2.0)
    assert apart["mad"] == pytest.approx(1.0)
    assert apart["variance"] == pytest.approx(0.25)
    # Both degrees are 1, so h is divided by √2: two directed edges of squared length 1, halved, over two nodes.
    assert apart["dirichlet_energy"] == pytest.approx(0.5)
    nothing = collapse_metrics(torch.zeros(3, 2), edges)
    assert nothing["effective_rank"] == 0.0
    assert all(np.isfinite(list(nothing.values())))


def test_mean_average_distance_is_that_of_all_pairs():
    h = torch.randn(9, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    unit = h / h.norm(dim=1, keepdim=True)
    cosine = unit @ unit.T
    pairs = [1 - float(cosine[i, j]) for i in range(9) for j in range(9) if i != j]
    assert collapse_metrics(h, EDGES[:, :0])["mad"] == pytest.approx(np.mean(pairs))


def test_layers_of_any_model_are_watched():
    records = collapse_by_layer(model("gat").eval(), X, EDGES, edge_index=EDGES)
    assert [r["layer"] for r in records] == ["convs.0", "convs.1"]
    random = randomize(model("own")).eval()
    assert len(collapse_by_layer(random, X, EDGES, edge_index=EDGES)) == 2


def test_full_random_matrices_collapse_and_diagonals_do_not():
    """The paper's observations on rank, on the raw layers."""
    from rapgnn import Propagation
    from rapgnn.graph.operator import build_operator
    from rapgnn.propagation.stepwise import propagate

    g = torch.Generator().manual_seed(0)
    x, edges = torch.rand(60, 16, generator=g), torch.randint(0, 60, (2, 300), generator=g)
    operator = build_operator(x, edges, "gcn")
    ranks = {}
    for kind in ("diagonal", "full"):
        layers = propagate(Propagation("gcn", 8, RandomWeights(kind)), operator, x, 0, every_layer=True)
        ranks[kind] = collapse_metrics(layers[-1], edges)["effective_rank"]
    assert ranks["full"] < 2
    assert ranks["diagonal"] > 2 * ranks["full"]
