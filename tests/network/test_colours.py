"""Colours by Weisfeiler and Leman: what they tell apart and what they do not, whatever the order of nodes and edges."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from hostile_graphs import hostile_graphs
from rapgnn import RAPGraphClassifier
from rapgnn.graph.graph import Graph, make_graphs
from rapgnn.network.expand import colour_counts, node_colours
from rapgnn.network.known_labels import row_hash
from rapgnn.search.candidate import Candidate
from rapgnn.search.start import HOPS
from rapgnn.sparse import SparseMatrix


def both_ways(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return pairs + [(v, u) for u, v in pairs]


def graphs_of(shapes: list[tuple[int, list[tuple[int, int]]]], x=None) -> Graph:
    sizes = np.array([n for n, _ in shapes])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    edges = [(u + s, v + s) for (_, pairs), s in zip(shapes, starts, strict=True) for u, v in pairs]
    x = np.ones((int(sizes.sum()), 1)) if x is None else x
    return make_graphs(x, np.array(edges, dtype=int).reshape(-1, 2).T, sizes, np.arange(len(shapes)) % 2)


def counted(graph: Graph, steps: int, buckets: int = 997) -> torch.Tensor:
    assert graph.ptr is not None
    return colour_counts(node_colours(graph, steps), graph.ptr, torch.arange(graph.num_rows), buckets)


def ring(n: int) -> list[tuple[int, int]]:
    return both_ways([(v, (v + 1) % n) for v in range(n)])


def by_refinement(graph: Graph, steps: int) -> list[list[int]]:
    """Colours as numbers, refined by sorted lists of neighbours' colours: the textbook's way."""
    names: dict[object, int] = {}

    def name(what: object) -> int:
        return names.setdefault(what, len(names))

    now = [name(tuple(row)) for row in graph.x.tolist()]
    found = [now]
    for _ in range(steps):
        heard: list[list[int]] = [[] for _ in now]
        for u, v in graph.edge_index.T.tolist():
            heard[v].append(now[u])
        now = [name((own, tuple(sorted(others)))) for own, others in zip(now, heard, strict=True)]
        found.append(now)
    return found


@pytest.mark.parametrize("steps", [0, 1, 2, 4])
def test_nodes_share_a_colour_where_the_textbook_says_so(steps):
    graph = replace(hostile_graphs(), x=(hostile_graphs().x > 0).float())
    found, wanted = node_colours(graph, steps), by_refinement(graph, steps)
    assert len(found) == steps + 1
    for mine, theirs in zip(found, wanted, strict=True):
        same = mine[:, None] == mine[None, :]
        book = torch.tensor(theirs)
        assert torch.equal(same, book[:, None] == book[None, :])


def test_what_refinement_tells_apart_and_what_it_cannot():
    path = both_ways([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)])
    star = both_ways([(0, v) for v in range(1, 6)])
    two_triangles = both_ways([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)])
    counts = counted(graphs_of([(6, path), (6, star), (6, ring(6)), (6, two_triangles)]), 3)
    assert not torch.equal(counts[0], counts[1])
    assert not torch.equal(counts[0], counts[2])
    assert torch.equal(counts[2], counts[3])  # both are regular: no refinement sees a difference
    assert (counts.sum(1) == 4 * 6).all()


def test_edge_features_count():
    pairs = ring(4)
    graph = graphs_of([(4, pairs), (4, pairs)])
    kinds = torch.ones(16, 1)
    assert torch.equal(*counted(replace(graph, edge_attr=kinds), 2))
    kinds[12] = 2.0
    assert not torch.equal(*counted(replace(graph, edge_attr=kinds), 2))


def test_rows_of_any_kind_are_hashed_alike():
    x = torch.tensor([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    one = row_hash(x)
    assert one[0] == one[1] == one[3] != one[2]
    assert torch.equal(row_hash(SparseMatrix(x)), one)
    assert torch.equal(row_hash(x.double()), one)
    assert row_hash(x[:0]).shape == (0,)


def test_counts_of_some_graphs_are_those_of_all():
    graph = hostile_graphs()
    colours = node_colours(graph, 2)
    assert graph.ptr is not None
    rows = torch.tensor([9, 3, 0, 3])
    every = counted(graph, 2, 16)
    assert torch.equal(colour_counts(colours, graph.ptr, rows, 16), every[rows])
    assert colour_counts(colours, graph.ptr, rows[:0], 16).shape == (0, 48)


def squares_or_not(count: int = 300) -> Graph:
    """Rings of four with a tail, or rings of five: no features, the same mean degree."""
    one = (6, both_ways([(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 5)]))
    other = (6, both_ways([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (4, 5)]))
    graph = graphs_of([one if i % 2 else other for i in range(count)])
    order = torch.from_numpy(np.random.default_rng(0).permutation(count))
    return replace(graph, train=order[:200], val=order[200:240], test=order[240:])


def test_a_head_on_counts_tells_shapes_apart(tmp_path):
    graph = squares_or_not()
    config = HOPS.update(coefficients="colours", width=64, num_layers=3, standardize=False)
    candidate = Candidate(graph, config, 0, {})
    found = candidate.scores(1.0, False).argmax(1)
    assert (found == graph.y[graph.val]).all()
    model = RAPGraphClassifier(seed=0).fit_graph(graph)
    assert any(trial.settings["coefficients"] == "colours" for trial in model.trials_)
    assert model.score(graph, split="test") == 1.0
    model.save(tmp_path / "m")
    loaded = RAPGraphClassifier.load(tmp_path / "m")
    assert np.array_equal(loaded.predict_proba(graph), model.predict_proba(graph))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same_colours():
    graph = hostile_graphs()
    for mine, theirs in zip(node_colours(graph.to("cuda"), 3), node_colours(graph, 3), strict=True):
        assert torch.equal(mine.cpu(), theirs)
