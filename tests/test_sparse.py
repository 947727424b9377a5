"""The sparse product and its gradient against the dense one, where a matrix lies; random numbers."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from operators import operator
from rapgnn.network.weights import EVALUATION, PROBE
from rapgnn.prng import DRAWN_EMBEDDING, RANDOM_NODE_FEATURES, Stream, philox, random_words, seeded
from rapgnn.sparse import SparseMatrix, row_sums
from strategies import edge_lists


@settings(max_examples=40, deadline=None, derandomize=True)
@given(edge_lists())
def test_the_product_and_its_gradient_match_dense(graph):
    S = operator("gcn", graph).matrix
    dense = torch.from_numpy(S.scipy().toarray())
    x = torch.rand(graph[0], 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(S @ x, dense @ x)
    torch.testing.assert_close(S.T @ x, dense.T @ x)
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    (S @ a).square().sum().backward()
    (dense @ b).square().sum().backward()
    torch.testing.assert_close(a.grad, b.grad)


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="cannot multiply"):
        SparseMatrix(np.eye(3)) @ torch.ones(4, 1)


def matrix(dtype: torch.dtype = torch.float32) -> SparseMatrix:
    return SparseMatrix(np.array([[0.0, 1.5, 0.0], [-2.0, 0.0, 0.25]]), dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_another_type_keeps_pattern_and_values(dtype):
    one, other = matrix(), matrix().to(dtype=dtype)
    assert (other.dtype, other.shape, other.nnz) == (dtype, (2, 3), 3)
    assert other.values.dtype == dtype
    assert torch.equal(other.values.float(), one.values)
    assert torch.equal(other.crow, one.crow)
    assert torch.equal(other.col, one.col)
    if dtype == torch.float64:
        x = torch.rand(3, 2, dtype=dtype, generator=torch.Generator().manual_seed(0))
        dense = torch.from_numpy(one.scipy().toarray()).double()
        torch.testing.assert_close(other @ x, dense @ x)
        torch.testing.assert_close(other.T @ x[:2], dense.T @ x[:2])


def test_another_device_takes_everything_along():
    """The device that has no memory stands for any that is not the CPU."""
    one = matrix()
    for other, dtype in ((one.to("meta"), torch.float32), (one.to("meta", torch.float64), torch.float64)):
        assert (other.shape, other.nnz, other.dtype) == (one.shape, one.nnz, dtype)
        for part in (other.values, other.crow, other.col):
            assert part.device.type == "meta"
        assert other.device.type == "meta"
        assert "meta" in repr(other)
    assert one.values.device.type == one.device.type == "cpu"  # the matrix itself stays where it was


def test_the_transpose_is_made_once_and_back_again():
    one = matrix()
    assert one.T is one.T
    np.testing.assert_array_equal(one.T.scipy().toarray(), one.scipy().toarray().T)
    np.testing.assert_array_equal(one.T.T.scipy().toarray(), one.scipy().toarray())


def test_rows_and_columns_are_those_of_the_dense_matrix():
    one, rows = matrix(), torch.tensor([1, 0, 1])
    np.testing.assert_array_equal(one.rows(rows).scipy().toarray(), one.scipy().toarray()[rows.numpy()])
    np.testing.assert_array_equal(one.columns(1, 3).numpy(), one.scipy().toarray()[:, 1:3])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("width", [1, 3, 7, 20])
def test_blocks_of_columns_side_by_side_are_the_dense_matrix(dtype, width):
    drawn = torch.Generator().manual_seed(4)
    table = torch.randint(-3, 4, (30, 20), generator=drawn) * (torch.rand(30, 20, generator=drawn) < 0.2)
    one = SparseMatrix(table.numpy()).to(dtype=dtype)
    blocks = [one.columns(start, min(20, start + width)) for start in range(0, 20, width)]
    assert all(block.is_contiguous() and block.dtype == dtype for block in blocks)
    assert torch.equal(torch.cat(blocks, dim=1), table.to(dtype))
    assert one.columns(5, 5).shape == (30, 0)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (3, 4)])
def test_matrices_without_entries(shape):
    one = SparseMatrix(np.zeros(shape))
    assert one.T.shape == shape[::-1]
    assert torch.equal(one.columns(0, shape[1]), torch.zeros(shape))
    assert torch.equal(row_sums(one.crow, one.values), torch.zeros(shape[0]))


FORWARD_PASSES = [Stream.FORWARD + n for n in range(60)]


def test_philox_matches_the_published_test_vectors():
    """Known answers of the Random123 distribution for philox4x32-10."""
    cases = [
        (0, (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (0xFFFFFFFFFFFFFFFF, (0xFFFFFFFF,) * 4, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            0x299F31D0A4093822,
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ]
    for key, counter, expected in cases:
        words = philox(key, tuple(torch.tensor([c]) for c in counter))
        assert tuple(int(w) for w in words) == expected


@pytest.mark.parametrize("seed", [0, 1, -1, 2**63 - 1])
def test_no_two_streams_of_a_seed_share_numbers(seed, fresh_random_state):
    """A thousand numbers of 62 bits each: by chance two would be equal once in 10^9 tries."""
    streams = [*(s for s in Stream.__members__.values() if s != Stream.FORWARD), *FORWARD_PASSES]
    drawn = [torch.randint(0, 1 << 62, (1000,), generator=seeded(seed, stream)) for stream in streams]
    assert len(torch.cat(drawn).unique()) == 1000 * len(streams)
    assert torch.equal(torch.randint(0, 1 << 62, (1000,), generator=seeded(seed, streams[0])), drawn[0])


def test_forward_passes_of_a_module_meet_no_other_stream():
    assert max(set(Stream) - {Stream.FORWARD}) < Stream.FORWARD


def test_random_words_of_every_place_in_a_draw_differ():
    """Layers and slots, random node features, drawn embeddings: no four words that follow one another occur twice."""
    layers = [layer + (slot << 20) for slot in range(5) for layer in (0, 1, 63, 99_999)]
    places = [*layers, RANDOM_NODE_FEATURES, *(DRAWN_EMBEDDING - 2 * i for i in range(3))]
    counters = torch.tensor([0, 1, 1 << 32, EVALUATION, PROBE])
    words = random_words(7, counters, torch.tensor(places), 64)
    blocks = words.view(-1, 4)
    assert len(blocks.unique(dim=0)) == len(blocks) == len(places) * len(counters) * 16
    assert torch.equal(random_words(7, counters, torch.tensor(places), 10), words[..., :10])  # fewer are the first
