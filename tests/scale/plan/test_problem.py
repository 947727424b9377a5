"""The halo by counting, by sampling and by formula."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from rapgnn.datasets.synthetic import BlockModel
from rapgnn.graph.graph import make_graph
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.distributed.ranges import row_bounds
from rapgnn.scale.plan import problem
from rapgnn.scale.plan.problem import Problem, halo_rows, random_halo


def counted(graph: DiskGraph, workers: int) -> list[int]:
    """Every worker's halo, one edge at a time."""
    bounds = row_bounds(graph.indptr, workers)
    found = []
    for first, last in pairwise(bounds):
        senders = {int(u) for v in range(first, last) for u in graph.indices[graph.indptr[v] : graph.indptr[v + 1]]}
        found.append(len([u for u in senders if not first <= u < last]))
    return found


@pytest.fixture
def graph(tmp_path):
    return DiskGraph.write(tmp_path / "g", BlockModel(nodes=1500, degree=12.0, features=3, seed=1).generate())


def test_the_halo_of_a_given_graph(graph, monkeypatch):
    monkeypatch.setattr(problem, "SAMPLED", 4)
    assert halo_rows(graph, 4) == max(counted(graph, 4))


def test_a_part_of_the_edges_tells_about_the_rest(graph, monkeypatch):
    whole = halo_rows(graph, 3)
    monkeypatch.setattr(problem, "MOST_ENTRIES", 2000)
    assert halo_rows(graph, 3) == pytest.approx(whole, rel=0.1)


def test_a_random_graph_by_formula(graph):
    assert random_halo(graph.num_nodes, graph.num_edges, 4) == pytest.approx(max(counted(graph, 4)), rel=0.1)
    assert random_halo(100, 1000, 1) == 0


def test_the_sizes_of_a_graph_on_disk(graph):
    found = Problem.of(graph, layers=3, machines=4)
    assert (found.nodes, found.edges, found.features) == (1500, graph.num_edges, 3)
    assert found.rows == len(graph.train) + len(graph.val)
    assert found.halo_of(4) == halo_rows(graph, 4)
    files = [(graph.folder / f"{name}.npy").stat().st_size for name in ("indptr", "indices", "features")]
    assert found.graph_bytes + found.feature_bytes == pytest.approx(sum(files), rel=0.01)


def test_edges_that_stay_in_their_rows_have_no_halo(tmp_path):
    n = 40
    ring = np.array([np.arange(n), np.arange(n)])
    graph = make_graph(torch.ones(n, 2), ring, np.arange(n) % 2, np.arange(n), [], [])
    assert halo_rows(DiskGraph.write(tmp_path / "g", graph), 4) == 0
