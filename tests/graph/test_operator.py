"""Many graphs as one operator: parts taken out of it, pooling, distinct rows."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from operators import adapted, build
from rapgnn import Propagation, RandomWeights
from rapgnn.graph.operator import distinct_rows
from rapgnn.propagation.stepwise import pooled
from strategies import batches


@settings(max_examples=40, deadline=None, derandomize=True)
@given(batch=batches(), seed=st.integers(0, 1000), data=st.data())
def test_graphs_taken_out_of_a_batch_keep_their_rows(batch, seed, data):
    """Any choice of graphs, in any order and repeated, gives the rows they have in the whole batch."""
    operator, h, e = build("gine", batch, seed=seed)
    chosen = torch.tensor(data.draw(st.lists(st.integers(0, len(batch[0]) - 1), max_size=6)), dtype=torch.int64)
    spec = adapted(Propagation("gine", 2, RandomWeights(seed=seed), jumping="cat"), operator)
    whole = pooled(spec, operator, h, 5, e=e)
    part, nodes = operator.select(chosen)
    alone = pooled(spec, part, h[nodes], 5, e=e)
    torch.testing.assert_close(alone, whole[chosen], rtol=1e-12, atol=0)


@pytest.mark.parametrize("how", ["sum", "mean", "max"])
def test_pooling_by_hand(how):
    h = torch.tensor([[1.0, -2.0], [3.0, -4.0], [5.0, 6.0]], dtype=torch.float64)
    operator, _, _ = build("gin", ([2, 0, 1], torch.zeros(2, 0, dtype=torch.int64), None, None))
    by_hand = {"sum": [[4.0, -6.0]], "mean": [[2.0, -3.0]], "max": [[3.0, -2.0]]}[how]
    assert operator.pool(h, how).tolist() == [*by_hand, [0.0, 0.0], [5.0, 6.0]]


@pytest.mark.parametrize("sparse", [False, True])
def test_distinct_rows(sparse):
    from rapgnn.sparse import SparseMatrix

    rows = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 0.0], [0.0, 0.0], [0.0, 2.0]])
    first, index = distinct_rows(SparseMatrix(rows.numpy()) if sparse else rows)
    assert len(first) == 3
    assert torch.equal(rows[first][index], rows)
