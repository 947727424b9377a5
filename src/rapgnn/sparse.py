"""The one sparse-dense product: CSR with 32-bit indices, used by both engines, by end-to-end training and by sparse
features, on CPU and GPU, with its gradient."""

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from rapgnn.fused import FusedProduct, available

LARGE_PRODUCT = 1 << 26  # multiply-adds below which launching the GPU kernels of ``fused`` takes longer than their work

INT32_MAX = int(np.iinfo(np.int32).max)


def matrix_shape(matrix: Any) -> tuple[int, int]:
    """(rows, columns) of anything with a two-dimensional shape."""
    rows, columns = matrix.shape
    return int(rows), int(columns)


class _Pattern:
    """Where the non-zeros are; shared by matrices that differ only in their values."""

    def __init__(self, crow: Tensor, col: Tensor, shape: tuple[int, int]):
        index = torch.int32 if max(col.numel(), *shape) <= INT32_MAX else torch.int64
        self.crow, self.col, self.shape = crow.to(index), col.to(index), shape
        self._transpose: tuple[_Pattern, Tensor] | None = None

    def transpose(self) -> "tuple[_Pattern, Tensor]":
        """The transposed pattern, and the order in which it takes the values; made once."""
        if self._transpose is None:
            crow, col, order = _transposed(self.crow, self.col, self.shape)
            self._transpose = _Pattern(crow, col, (self.shape[1], self.shape[0])), order
        return self._transpose

    def to(self, device: torch.device) -> "_Pattern":
        """On another device; itself where it lies there."""
        if device == self.col.device:
            return self
        return _Pattern(self.crow.to(device), self.col.to(device), self.shape)


def _transposed(crow: Tensor, col: Tensor, shape: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor]:
    """The transposed pattern's two arrays, and which entry each of its entries is."""
    if col.device.type == "cpu":  # a counting sort that carries the entries' numbers as values
        number = np.arange(col.numel(), dtype=np.int32 if col.dtype == torch.int32 else np.int64)
        csc = sp.csr_matrix((number, col.numpy(), crow.numpy()), shape=shape).tocsc()
        by_column = csc.indptr, csc.indices, csc.data
        return tuple(torch.from_numpy(part) for part in by_column)  # type: ignore[return-value]
    order = torch.sort(col, stable=True).indices.to(col.dtype)
    row = row_of_entry(crow, col).index_select(0, order)
    return bounds_of(torch.bincount(col, minlength=shape[1])), row, order


def row_of_entry(crow: Tensor, col: Tensor) -> Tensor:
    """The row of each entry, as wide as the columns' numbers."""
    rows = torch.arange(len(crow) - 1, dtype=col.dtype, device=col.device)
    if col.device.type == "cpu":
        return torch.from_numpy(np.repeat(rows.numpy(), np.diff(crow.numpy())))
    return torch.repeat_interleave(rows, crow.diff(), output_size=col.numel())


def row_sums(crow: Tensor, values: Tensor) -> Tensor:
    """The sum of each row's entries, always added in the same order; zero for a row without entries."""
    if not values.numel():
        return values.new_zeros(len(crow) - 1)
    if values.device.type != "cpu":
        return torch.segment_reduce(values, "sum", lengths=crow.diff().long())
    total, starts = np.zeros(len(crow) - 1, dtype=values.numpy().dtype), crow.numpy()
    filled = np.flatnonzero(np.diff(starts))
    total[filled] = np.add.reduceat(values.numpy(), starts[filled])
    return torch.from_numpy(total)


def without_zeros(crow: Tensor, col: Tensor, values: Tensor, filled: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The three arrays of a CSR matrix with only the entries that ``filled`` marks."""
    if bool(filled.all()):
        return crow, col, values
    before = bounds_of(filled)
    return before[crow.long()], col[filled], values[filled]


def _zeros(shape: tuple[int, int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros; on the CPU of memory that the system hands out as zeros, which nobody has to write."""
    if device.type != "cpu" or 0 in shape:
        return torch.zeros(shape, dtype=dtype, device=device)
    return torch.from_numpy(np.zeros(shape[0] * shape[1] * dtype.itemsize, dtype=np.uint8)).view(dtype).view(shape)


def _places(row: Tensor, column: Tensor, width: int) -> Tensor:
    """row · width + column, the places in a dense matrix; numpy's one thread is the faster where cores are busy."""
    if row.device.type != "cpu":
        return row.long().mul_(width).add_(column)
    place = row.numpy().astype(np.int64)
    place *= width
    place += column.numpy()
    return torch.from_numpy(place)


def bounds_of(sizes: Tensor) -> Tensor:
    """Where each of some ranges, one after another, begins, and the end of the last one."""
    bounds = torch.zeros(len(sizes) + 1, dtype=torch.int64, device=sizes.device)
    torch.cumsum(sizes, 0, out=bounds[1:])
    return bounds


def ranges(starts: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers start, start + 1, ... of one range after another, and where each range begins among them."""
    bounds = bounds_of(sizes)
    shift = torch.repeat_interleave(starts - bounds[:-1], sizes)
    return bounds, torch.arange(len(shift), device=sizes.device) + shift


class SparseMatrix:
    """A constant sparse matrix A that multiplies dense matrices: ``A @ x``.

    Args:
        matrix: any scipy sparse matrix; duplicates are summed.
        dtype: of the values.
        device: where the product runs.
    """

    def __init__(self, matrix: object, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"):
        csr = sp.csr_matrix(matrix)
        csr.sum_duplicates()
        values = torch.from_numpy(np.ascontiguousarray(csr.data)).to(device=device, dtype=dtype)
        crow, col = (torch.from_numpy(part).to(device) for part in (csr.indptr, csr.indices))
        self._set(_Pattern(crow, col, matrix_shape(csr)), values)

    @classmethod
    def from_csr(cls, crow: Tensor, col: Tensor, values: Tensor, shape: tuple[int, int]) -> "SparseMatrix":
        """From the three arrays of a CSR matrix, rows in order, on their device."""
        matrix = cls.__new__(cls)
        matrix._set(_Pattern(crow, col, shape), values)
        return matrix

    @property
    def crow(self) -> Tensor:
        """Where each row's entries begin, and the end of the last one's."""
        return self._pattern.crow

    @property
    def col(self) -> Tensor:
        """The column of each entry."""
        return self._pattern.col

    def _set(self, pattern: _Pattern, values: Tensor) -> None:
        self._pattern, self.values = pattern, values
        self.shape, self.dtype, self.device = pattern.shape, values.dtype, values.device
        with warnings.catch_warnings():
            # torch announces both once per process, whatever check_invariants says.
            warnings.filterwarnings("ignore", message=".*Sparse (CSR tensor support is in beta|invariant checks).*")
            self._csr = torch.sparse_csr_tensor(
                pattern.crow, pattern.col, values, size=pattern.shape, check_invariants=False
            )
        self._transpose: SparseMatrix | None = None
        self._fused: FusedProduct | None = None

    def with_values(self, values: Tensor, pattern: "_Pattern | None" = None) -> "SparseMatrix":
        """The same pattern with other values."""
        other = SparseMatrix.__new__(SparseMatrix)
        other._set(pattern or self._pattern, values)
        return other

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return self.values.numel()

    @property
    def nbytes(self) -> int:
        """Of the entries and where they are."""
        return self.values.nbytes + self.col.nbytes + self.crow.nbytes

    @property
    def nonnegative(self) -> bool:
        """Whether no entry is below zero."""
        return bool((self.values >= 0).all())

    @property
    def T(self) -> "SparseMatrix":  # noqa: N802 (numpy's and torch's name)
        """The transpose, made once, when the first gradient asks for it."""
        if self._transpose is None:
            pattern, order = self._pattern.transpose()
            self._transpose = self.with_values(self.values.index_select(0, order), pattern)
        return self._transpose

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "SparseMatrix":
        """On another device or in another type; itself where nothing changes."""
        dtype = dtype or self.dtype
        # As a tensor would: "cuda" is the current GPU, which may not be the one the matrix lies on.
        device = self.values.new_empty(0).to(device).device if device is not None else self.device
        if device == self.device and dtype == self.dtype:
            return self
        return self.with_values(self.values.to(device=device, dtype=dtype), self._pattern.to(device))

    def scipy(self) -> sp.csr_matrix:
        """As a scipy matrix, on the CPU."""
        parts = (t.cpu().numpy() for t in (self.values, self._pattern.col, self._pattern.crow))
        return sp.csr_matrix(tuple(parts), shape=self.shape)

    def rows(self, rows: Tensor) -> "SparseMatrix":
        """The given rows, still sparse."""
        starts = self.crow[rows].long()
        bounds, entries = ranges(starts, self.crow[rows + 1].long() - starts)
        return SparseMatrix.from_csr(bounds, self.col[entries], self.values[entries], (len(rows), self.shape[1]))

    def columns(self, start: int, stop: int) -> Tensor:
        """Dense ``[rows, stop - start]``. The first part of a matrix sorts it by columns, once for all parts."""
        block = _zeros((self.shape[0], stop - start), self.dtype, self.device)
        if stop - start == self.shape[1]:
            row, column, values = row_of_entry(self.crow, self.col), self.col, self.values
        else:
            crow = self.T.crow[start : stop + 1]
            first, last = crow[[0, -1]].tolist()
            column, row = row_of_entry(crow, self.T.col[first:last]), self.T.col[first:last]
            values = self.T.values[first:last]
        block.view(-1).scatter_(0, _places(row, column, stop - start), values)
        return block

    def __matmul__(self, x: Tensor) -> Tensor:
        if x.shape[0] != self.shape[1]:
            raise ValueError(f"cannot multiply a {self.shape} matrix with {tuple(x.shape)}")
        if x.requires_grad and torch.is_grad_enabled():
            return _Product.apply(x, self)  # type: ignore[no-any-return]
        return self._product(x)

    def _product(self, x: Tensor) -> Tensor:
        if x.device.type == "cpu":
            if x.dtype == self.dtype == torch.float32 and self.nnz and x.numel():
                # Each row is a bag of rows of x. In single precision this takes a third to a tenth of the time below.
                bags = {"offsets": self.crow, "per_sample_weights": self.values, "include_last_offset": True}
                return nn.functional.embedding_bag(self.col, x.contiguous(), mode="sum", **bags)
            # The reducing kernel is several times faster here than the default product.
            return torch.sparse.mm(self._csr, x.contiguous(), "sum")
        own = self.fused(x) if self.nnz * x.shape[1] >= LARGE_PRODUCT else None
        return self._csr @ x if own is None else own.layer(x)

    def fused(self, x: Tensor) -> FusedProduct | None:
        """This matrix for the library's own GPU kernel, made once; None where that cannot multiply x."""
        if not available(x):
            return None
        if self._fused is None:
            self._fused = FusedProduct(self.crow, self.col, self.values)
        return self._fused

    def __repr__(self) -> str:
        return f"SparseMatrix({self.shape[0]}x{self.shape[1]}, nnz={self.nnz}, {self.dtype}, {self.device})"


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, matrix: SparseMatrix) -> Tensor:
        ctx.matrix = matrix
        return matrix._product(x)

    @staticmethod
    def backward(ctx, *grads: Tensor):
        return ctx.matrix.T._product(grads[0]), None


Features = Tensor | SparseMatrix  # what a graph's node features may be: dense, or sparse and kept so


def indicator(index: Tensor, columns: int, value: float = 1.0) -> sp.csr_matrix:
    """The matrix ``[len(index), columns]`` whose row i has ``value`` at column index[i] and nothing else."""
    n = len(index)
    return sp.csr_matrix((np.full(n, value), index.cpu().numpy(), np.arange(n + 1)), shape=(n, columns))


def nonnegative(x: Features) -> bool:
    """Whether no entry is below zero."""
    return x.nonnegative if isinstance(x, SparseMatrix) else bool((x >= 0).all())


def dense(x: Features) -> Tensor:
    """The features as a dense tensor."""
    return x.columns(0, x.shape[1]) if isinstance(x, SparseMatrix) else x


def row_block(x: Features, rows: Tensor) -> Features:
    """The given rows, sparse where x is."""
    # index_select: the gradient of plain indexing adds up in an order that changes with the threads.
    return x.rows(rows) if isinstance(x, SparseMatrix) else x.index_select(0, rows)


def column_block(x: Features, start: int, stop: int) -> Tensor:
    """The given columns, dense and contiguous."""
    return x.columns(start, stop) if isinstance(x, SparseMatrix) else x[:, start:stop].contiguous()
