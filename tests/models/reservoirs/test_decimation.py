"""Node decimation: fewer nodes, the same resistances and parts, at least half of the weight cut, any numbering."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from rapgnn.errors import InputError
from rapgnn.models.reservoirs.decimation import LARGEST, cut_share, decimate, greedy_cut, kept_side, kron_reduction


def connected(n: int, seed: int, density: float = 0.2) -> np.ndarray:
    """A tree with further edges, and weights of its own for each."""
    rng = np.random.default_rng(seed)
    A = np.triu(rng.random((n, n)) * (rng.random((n, n)) < density), 1)
    for v in range(1, n):
        A[rng.integers(v), v] = 0.5 + rng.random()
    return A + A.T


def resistances(A: np.ndarray) -> np.ndarray:
    inverse = np.linalg.pinv(np.diag(A.sum(1)) - A)
    d = inverse.diagonal()
    return d[:, None] + d - 2 * inverse


@pytest.mark.parametrize("n", [2, 3, 8, 30])
@pytest.mark.parametrize("seed", range(4))
def test_nodes_go_and_resistances_stay(n, seed):
    A = connected(n, seed)
    stays = kept_side(A)
    assert 0 < stays.sum() < n
    reduced = kron_reduction(A, stays)
    np.testing.assert_allclose(reduced, reduced.T)
    assert (reduced >= 0).all()
    np.testing.assert_allclose(resistances(reduced), resistances(A)[np.ix_(stays, stays)], atol=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_at_least_half_of_the_weight_is_cut(seed):
    A = connected(25, seed, density=0.6)
    assert cut_share(A, greedy_cut(A)) >= 0.5
    assert cut_share(A, kept_side(A)) >= 0.5


def test_a_path_keeps_every_other_node_and_a_star_its_hub():
    path = np.diag(np.ones(6), 1) + np.diag(np.ones(6), -1)
    assert kept_side(path).tolist() in ([True, False] * 3 + [True], [False, True] * 3 + [False])
    star = np.zeros((6, 6))
    star[0, 1:] = star[1:, 0] = np.arange(1.0, 6.0)
    assert kept_side(star).sum() in (1, 5)


def test_parts_stay_apart_and_lone_nodes_stay():
    blocks = [connected(7, 1), np.zeros((1, 1)), connected(4, 2), np.zeros((2, 2))]
    A = sp.csr_matrix(sp.block_diag(blocks).toarray())
    kept, smaller = decimate(A)
    assert (np.diff(kept) > 0).all()
    assert {7, 12, 13} <= set(kept.tolist())  # the lone ones
    assert connected_components(smaller, directed=False)[0] == connected_components(A, directed=False)[0]
    for (a, b), block in zip(((0, 7), (8, 12)), (blocks[0], blocks[2]), strict=True):
        mine = (kept >= a) & (kept < b)
        expected = kron_reduction(block, np.isin(np.arange(b - a), kept[mine] - a))
        np.testing.assert_allclose(smaller[mine][:, mine].toarray(), expected, atol=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_another_numbering_keeps_the_same_nodes(seed):
    """Where edge weights differ: the last eigenvalue is simple, and so is the choice of a side."""
    A = connected(12, seed)
    order = np.random.default_rng(seed).permutation(12)
    kept, smaller = decimate(sp.csr_matrix(A))
    again, other = decimate(sp.csr_matrix(A[np.ix_(order, order)]))
    assert set(order[again].tolist()) == set(kept.tolist())
    where = np.argsort(order[again])
    np.testing.assert_allclose(other.toarray()[np.ix_(where, where)], smaller.toarray(), atol=1e-9)


def test_weak_edges_can_be_left_out():
    A = sp.csr_matrix(connected(20, 0))
    whole, thin = decimate(A)[1], decimate(A, 0.2)[1]
    assert 0 < thin.nnz < whole.nnz
    assert thin.data.min() > 0.2


def test_nothing_and_too_much():
    kept, smaller = decimate(sp.csr_matrix((0, 0)))
    assert (len(kept), smaller.shape) == (0, (0, 0))
    n = LARGEST + 1
    path = sp.diags([np.ones(n - 1), np.ones(n - 1)], [1, -1], format="csr")
    with pytest.raises(InputError, match="node decimation is for graphs of up to"):
        decimate(path)
