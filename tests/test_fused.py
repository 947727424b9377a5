"""The GPU kernels against plain dense arithmetic; how rows are cut into pieces is tested without a GPU too."""

import pytest
import torch
from torch import Tensor

from rapgnn.fused import FusedProduct, available, mix, mixes

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


def _matrix(rows: int, columns: int, share: float, seed: int = 0) -> Tensor:
    """With a row that is full, one that is empty, and negative entries."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(rows, columns, generator=generator)
    values[torch.rand(rows, columns, generator=generator) > share] = 0.0
    if rows > 2:
        values[1], values[2] = 1.0, 0.0
    return values


def _product(dense: Tensor, entries: int) -> FusedProduct:
    csr = dense.to_sparse_csr()
    return FusedProduct(csr.crow_indices().int(), csr.col_indices().int(), csr.values(), entries)


@pytest.mark.parametrize("entries", [1, 4, 64])
def test_pieces_cover_every_entry_once(entries: int) -> None:
    dense = _matrix(30, 40, 0.2)
    found = _product(dense, entries)
    row, start, slot = (part.tolist() for part in found.pieces)
    per_row = (dense != 0).sum(1).tolist()
    for piece, (mine, first, last) in enumerate(zip(row, start[:-1], start[1:], strict=True)):
        assert 0 <= last - first <= entries
        assert (slot[piece] >= 0) == (per_row[mine] > entries)
    covered = [sum(b - a for r, a, b in zip(row, start[:-1], start[1:], strict=True) if r == i) for i in range(30)]
    assert covered == per_row
    long, bounds = (part.tolist() for part in found.long)
    assert long == [i for i, count in enumerate(per_row) if count > entries]
    assert [s for s in slot if s >= 0] == list(range(found.sums)) == list(range(bounds[-1]))


def test_a_cpu_has_no_kernel() -> None:
    assert not available(torch.ones(3, 64))
    assert not mixes(torch.ones(3))


@GPU
@pytest.mark.parametrize("shape", [(1, 1), (5, 9), (70, 70), (300, 300)])
@pytest.mark.parametrize("channels", [8, 16, 100, 256, 300])
def test_a_layer_is_its_formula(shape: tuple[int, int], channels: int) -> None:
    dense, generator = _matrix(*shape, 0.3), torch.Generator().manual_seed(1)
    h = torch.randn(shape[1], channels, generator=generator)
    a, b = torch.randn(2, channels, generator=generator)
    fused = _product(dense.cuda(), 16)
    plain = dense.double() @ h.double()
    torch.testing.assert_close(fused.layer(h.cuda()).cpu().double(), plain, rtol=1e-5, atol=1e-4)
    if shape[0] != shape[1]:
        return
    for activation, sigma in (("relu", torch.relu), ("leaky_relu", torch.nn.functional.leaky_relu)):
        wanted = 0.5 * h.double() + sigma(a * h.double() + b * plain)
        found = fused.layer(h.cuda(), b.cuda(), a.cuda(), 0.5, activation)
        torch.testing.assert_close(found.cpu().double(), wanted, rtol=1e-5, atol=1e-4)
        wanted = sigma(b * plain)
        found = fused.layer(h.cuda(), b.cuda(), activation=activation)
        torch.testing.assert_close(found.cpu().double(), wanted, rtol=1e-5, atol=1e-4)


@GPU
def test_a_layer_is_the_same_every_time() -> None:
    fused = _product(_matrix(500, 500, 0.5).cuda(), 16)
    h = torch.randn(500, 64, device="cuda")
    assert torch.equal(fused.layer(h), fused.layer(h))


@GPU
@pytest.mark.parametrize(("rows", "channels", "outputs"), [(1, 1, 1), (50, 7, 3), (3000, 130, 1), (0, 4, 2)])
def test_mixing_is_a_weighted_sum(rows: int, channels: int, outputs: int) -> None:
    generator = torch.Generator().manual_seed(0)
    c = torch.randn(5, outputs, 6, channels, generator=generator).cuda()
    hops = torch.randn(rows, 6, channels, generator=generator).cuda()
    wanted = torch.einsum("tjkd,rkd->trjd", c, hops).flatten(2)
    torch.testing.assert_close(mix(c, hops), wanted, rtol=1e-4, atol=1e-4)
    if rows:
        index = torch.randint(rows, (5, 4), generator=generator).cuda()
        wanted = torch.einsum("tjkd,tbkd->tbjd", c, hops[index]).flatten(2)
        torch.testing.assert_close(mix(c, hops, index), wanted, rtol=1e-4, atol=1e-4)
