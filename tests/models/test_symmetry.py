"""The paper's section on symmetry, statement by statement. Graphs 0 and 1 are isomorphic, nodes in another order."""

import pytest
import torch

from rapgnn import RAPGNN, make_graphs
from rapgnn.graph.graph import Graph
from samples import GRAPH_CONFIG as CONFIG


def twins() -> Graph:
    edges = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    order = torch.tensor([2, 0, 3, 1])  # node v of the first graph is node order[v] of the second
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.5, 0.0]])
    moved = torch.empty_like(x)
    moved[order] = x
    both = torch.cat([edges, order[edges] + 4], dim=1)
    return make_graphs(torch.cat([x, moved]), both, [4, 4], [0, 1], [0, 1], [], [])


def outputs(schedule: str = "forward", random_features: int = 0, **settings) -> list[torch.Tensor]:
    """The two graphs' rows: in one batch, then in two batches of one epoch, then in one batch of the next epoch."""
    graph = twins()
    config = CONFIG.update(
        backbone="gin", schedule=schedule, random_features=random_features, embedding="fixed-random", **settings
    )
    model = RAPGNN(2, out_channels=2, **config.to_dict())
    rows = model.embed(graph.x, graph.operator("gin")).rows(torch.tensor([0, 1]))
    weights = model.spec.weights
    both, one, other = torch.tensor([0, 1]), torch.tensor([0]), torch.tensor([1])
    counters = [weights.counter(*at) for at in ((0, 0), (1, 1), (2, 1), (3, 2))]
    drawn = [h for _, h in rows.batches([both, one, other, both], counters, steps=range(4))]
    return [drawn[0], torch.cat(drawn[1:3]), drawn[3]]


@pytest.mark.parametrize("engine", ["polynomial", "stepwise"])
def test_isomorphic_graphs_in_one_batch_get_equal_outputs(engine):
    together, _, later = outputs(engine=engine)
    for batch in (together, later):
        torch.testing.assert_close(batch[0], batch[1])
    assert not torch.allclose(together[0], later[0])  # and another draw in the next batch


@pytest.mark.parametrize("engine", ["polynomial", "stepwise"])
def test_isomorphic_graphs_in_two_batches_differ(engine):
    _, apart, _ = outputs(engine=engine)
    assert not torch.allclose(apart[0], apart[1])


@pytest.mark.parametrize("engine", ["polynomial", "stepwise"])
def test_drawing_once_per_epoch_makes_them_equal_within_the_epoch(engine):
    together, apart, later = outputs("epoch", engine=engine)
    torch.testing.assert_close(apart[0], apart[1])
    assert not torch.allclose(together[0], later[0])


@pytest.mark.parametrize("engine", ["polynomial", "stepwise"])
def test_fixed_weights_make_them_equal_always(engine):
    together, apart, later = outputs("fixed", engine=engine)
    for batch in (apart, later):
        torch.testing.assert_close(batch, together)


def test_random_node_features_make_them_differ_even_in_one_batch():
    together, _, _ = outputs(random_features=3)
    assert not torch.allclose(together[0], together[1])
