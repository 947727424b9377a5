"""The Triton kernels of ``fused``; importing them needs Triton."""

# Triton compiles its own dialect of Python, which a type checker does not know.
# pyright: reportMissingImports=false, reportPossiblyUnboundVariable=false, reportIndexIssue=false
# pyright: reportAttributeAccessIssue=false

import triton
import triton.language as tl
from torch import Tensor

UNROLL = 4  # entries of a row that are on their way from memory at once
TILE = 256  # numbers that one program of a product computes
PROGRAMS = 1024  # that keep a GPU busy


@triton.jit
def _finish(
    z,
    row,
    channel,
    mask,
    h,
    neighbour,
    root,
    residual,
    d,
    HAS_NEIGHBOUR: tl.constexpr,
    HAS_ROOT: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr,
    ACTIVATION: tl.constexpr,
):
    inside = channel < d
    if HAS_NEIGHBOUR:
        z *= tl.load(neighbour + channel, mask=inside, other=0.0)
    if HAS_ROOT or HAS_RESIDUAL:
        own = tl.load(h + row * d + channel, mask=mask, other=0.0)
    if HAS_ROOT:
        z += own * tl.load(root + channel, mask=inside, other=0.0)
    if ACTIVATION == 1:
        z = tl.where(z < 0, 0.0, z)  # what is no number stays so
    if ACTIVATION == 2:
        z = tl.where(z < 0, 0.01 * z, z)
    if HAS_RESIDUAL:
        z += residual * own
    return z


@triton.jit
def _pieces(
    rows,
    starts,
    slots,
    count,
    col,
    values,
    h,
    out,
    partial,
    neighbour,
    root,
    residual,
    d,
    HAS_LONG: tl.constexpr,
    HAS_NEIGHBOUR: tl.constexpr,
    HAS_ROOT: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr,
    ACTIVATION: tl.constexpr,
    UNROLL: tl.constexpr,
    ROWS: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    piece = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    alive = piece < count
    channel = (tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS))[None, :]
    inside = channel < d
    row = tl.load(rows + piece, mask=alive, other=0).to(tl.int64)
    start = tl.load(starts + piece, mask=alive, other=0).to(tl.int64)
    entries = (tl.load(starts + piece + 1, mask=alive, other=0) - start).to(tl.int32)
    z = tl.zeros([ROWS, CHANNELS], tl.float32)
    for i in range(0, tl.max(entries, 0), UNROLL):
        for j in tl.static_range(UNROLL):  # type: ignore
            there = i + j < entries
            sender = tl.load(col + start + (i + j), mask=there, other=0).to(tl.int64)
            weight = tl.load(values + start + (i + j), mask=there, other=0.0)
            block = tl.load(h + sender[:, None] * d + channel, mask=there[:, None] & inside, other=0.0)
            z += weight[:, None] * block
    whole = alive
    if HAS_LONG:  # a part of a long row: summed with the others later
        slot = tl.load(slots + piece, mask=alive, other=-1).to(tl.int64)
        whole = alive & (slot < 0)
        tl.store(partial + slot[:, None] * d + channel, z, mask=(alive & (slot >= 0))[:, None] & inside)
    mask = whole[:, None] & inside
    z = _finish(
        z,
        row[:, None],
        channel,
        mask,
        h,
        neighbour,
        root,
        residual,
        d,
        HAS_NEIGHBOUR,
        HAS_ROOT,
        HAS_RESIDUAL,
        ACTIVATION,
    )
    tl.store(out + row[:, None] * d + channel, z, mask=mask)


@triton.jit
def _long_rows(
    rows,
    bounds,
    h,
    out,
    partial,
    neighbour,
    root,
    residual,
    d,
    HAS_NEIGHBOUR: tl.constexpr,
    HAS_ROOT: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr,
    ACTIVATION: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    row = tl.load(rows + tl.program_id(0)).to(tl.int64)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    inside = channel < d
    first = tl.load(bounds + tl.program_id(0)).to(tl.int64)
    last = tl.load(bounds + tl.program_id(0) + 1).to(tl.int64)
    z = tl.zeros([CHANNELS], tl.float32)
    for slot in range(first, last):
        z += tl.load(partial + slot * d + channel, mask=inside, other=0.0)
    z = _finish(
        z,
        row,
        channel,
        inside,
        h,
        neighbour,
        root,
        residual,
        d,
        HAS_NEIGHBOUR,
        HAS_ROOT,
        HAS_RESIDUAL,
        ACTIVATION,
    )
    tl.store(out + row * d + channel, z, mask=inside)


def launch(
    pieces: tuple[Tensor, Tensor, Tensor],
    long_rows: tuple[Tensor, Tensor],
    sums: int,
    col: Tensor,
    values: Tensor,
    h: Tensor,
    out: Tensor,
    neighbour: Tensor | None,
    root: Tensor | None,
    residual: float,
    activation: int,
) -> None:
    """Run the kernels on the current stream.

    Args:
        pieces: of every piece of a row its row, its first entry (and the end of the last), and where its sum goes:
            -1 where it is the whole row.
        long_rows: the rows of several pieces, and the bounds of their sums.
        sums: how many there are.
    """
    rows, starts, slots = pieces
    long, bounds = long_rows
    count, d = len(rows), h.shape[1]
    if not count:
        return
    channels = min(TILE, triton.next_power_of_2(d))
    side_by_side = TILE // channels
    partial = h.new_empty(sums, d) if len(long) else h
    weights = (h if neighbour is None else neighbour, h if root is None else root, residual, d)
    options = {
        "HAS_NEIGHBOUR": neighbour is not None,
        "HAS_ROOT": root is not None,
        "HAS_RESIDUAL": residual != 0.0,
        "ACTIVATION": activation,
        "CHANNELS": channels,
    }
    blocks = triton.cdiv(d, channels)
    _pieces[(triton.cdiv(count, side_by_side), blocks)](
        *(rows, starts, slots, count, col, values, h, out, partial, *weights),
        **options,
        HAS_LONG=len(long) > 0,
        UNROLL=UNROLL,
        ROWS=side_by_side,
        num_warps=2,  # type: ignore
    )
    if len(long):
        _long_rows[(len(long), blocks)](long, bounds, h, out, partial, *weights, **options, num_warps=2)  # type: ignore


@triton.jit
def _mix(
    coefficients,
    hops,
    index,
    out,
    rows,
    d,
    hop_count,
    output_count,
    draws,
    together,
    GATHER: tl.constexpr,
    DRAWS: tl.constexpr,
    ROWS: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = (tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS))[None, :]
    inside = channel < d
    mask = (row < rows)[:, None] & inside
    source = row.to(tl.int64)
    first = tl.program_id(2) * together
    stop = min(first + together, draws)
    step = tl.cast(output_count, tl.int64) * hop_count * d  # from one draw's coefficients to the next one's
    ahead = tl.cast(rows, tl.int64) * output_count * d  # from one draw's sums to the next one's
    for draw in range(first, stop, DRAWS):
        if GATHER:
            source = tl.load(index + draw.to(tl.int64) * rows + row, mask=row < rows, other=0)
        for j in range(output_count):
            weights = coefficients + (draw.to(tl.int64) * output_count + j) * hop_count * d + channel
            entries = hops + source[:, None] * hop_count * d + channel
            z0 = tl.zeros([ROWS, CHANNELS], tl.float32)
            z1 = tl.zeros([ROWS, CHANNELS], tl.float32)
            z2 = tl.zeros([ROWS, CHANNELS], tl.float32)
            z3 = tl.zeros([ROWS, CHANNELS], tl.float32)
            for k in range(hop_count):
                x = tl.load(entries + k * d, mask=mask, other=0.0).to(tl.float32)
                z0 += tl.load(weights + k * d, mask=inside, other=0.0) * x
                if DRAWS == 4:  # a hop that is at hand serves four draws
                    z1 += tl.load(weights + step + k * d, mask=inside & (draw + 1 < stop), other=0.0) * x
                    z2 += tl.load(weights + 2 * step + k * d, mask=inside & (draw + 2 < stop), other=0.0) * x
                    z3 += tl.load(weights + 3 * step + k * d, mask=inside & (draw + 3 < stop), other=0.0) * x
            place = out + ((draw.to(tl.int64) * rows + row[:, None]) * output_count + j) * d + channel
            tl.store(place, z0, mask=mask)
            if DRAWS == 4:
                tl.store(place + ahead, z1, mask=mask & (draw + 1 < stop))
                tl.store(place + 2 * ahead, z2, mask=mask & (draw + 2 < stop))
                tl.store(place + 3 * ahead, z3, mask=mask & (draw + 3 < stop))


def launch_mix(coefficients: Tensor, hops: Tensor, index: Tensor | None, out: Tensor) -> None:
    """Run the kernel on the current stream; every tensor lies in memory as its shape says."""
    draws, outputs, count, d = coefficients.shape
    rows = out.shape[1]
    if not (rows and draws):
        return
    channels = min(128, triton.next_power_of_2(d))
    height = 1024 // channels
    blocks = triton.cdiv(rows, height), triton.cdiv(d, channels)
    # Where all draws have the same rows, one program makes many of them, and reads the hops from far away once.
    together = 1 if index is not None else max(4, min(draws, draws * blocks[0] * blocks[1] // PROGRAMS))
    _mix[(*blocks, triton.cdiv(draws, together))](
        *(coefficients, hops, hops if index is None else index, out, rows, d, count, outputs, draws, together),
        GATHER=index is not None,
        DRAWS=1 if index is not None else 4,
        ROWS=height,
        CHANNELS=channels,
        num_warps=4,  # type: ignore
    )
