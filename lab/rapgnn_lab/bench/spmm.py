"""The sparse product S @ x by itself: every kernel at hand, on real and generated graphs.

How far a kernel is from the machine's limit is told by the least it must move (matrix, input and output once each)
against the bandwidth of a copy, measured in the same run.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from itertools import product
from typing import Any

import torch
from torch import Tensor

from rapgnn.graph.graph import Graph
from rapgnn.sparse import SparseMatrix
from rapgnn_lab.bench.generated import PowerLaw
from rapgnn_lab.bench.timing import copy_bandwidth, median_ms
from rapgnn_lab.store import Record, Row, machine

GENERATED = PowerLaw(100_000, 2_000_000, features=1, train=1, val=0, test=0)


def _torch_csr(matrix: SparseMatrix) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch calls its sparse matrices a beta
        return torch.sparse_csr_tensor(matrix.crow, matrix.col, matrix.values, size=matrix.shape)


def _scipy(matrix: SparseMatrix) -> Callable[[Tensor], Any]:
    csr: Any = matrix.scipy()
    return lambda x: csr @ x.numpy()


KERNELS: dict[str, tuple[str, Callable[[SparseMatrix], Callable[[Tensor], Any]], tuple[str, ...]]] = {
    "rapgnn": ("rapgnn", lambda matrix: matrix.__matmul__, ("cpu", "cuda")),
    "torch-csr": ("torch CSR @", lambda matrix: _torch_csr(matrix).__matmul__, ("cpu", "cuda")),
    "torch-reduce": ("torch.sparse.mm sum", lambda m: partial(torch.sparse.mm, _torch_csr(m), reduce="sum"), ("cpu",)),
    "scipy": ("scipy, one thread", _scipy, ("cpu",)),
}
"""Title, how the product is made of a matrix, and the devices it runs on."""


def plan(graphs: Sequence[Graph], widths: Sequence[int], device: str, repeats: int) -> list[Row]:
    """A row per graph, width and kernel; nodes are in the order given (there are records of other orders)."""
    bandwidth = cache(lambda: copy_bandwidth(device))
    matrix_of = lru_cache(maxsize=1)(lambda i: graphs[i].operator("gcn").matrix.to(device))

    def row(i: int, width: int, kernel: str) -> Row:
        title = "cuSPARSE (torch CSR @)" if (kernel, device) == ("torch-csr", "cuda") else KERNELS[kernel][0]
        settings = {"dataset": graphs[i].name, "nodes": graphs[i].num_nodes, "edges": graphs[i].edge_index.shape[1]}
        settings |= {"order": "given", "width": width, "method": kernel, "title": title, "repeats": repeats}
        measured = lambda: measure(kernel, matrix_of(i), width, repeats, bandwidth())  # noqa: E731
        return Row(settings | machine(device), measured)

    kernels = [name for name in KERNELS if device in KERNELS[name][2]]
    return [row(*place) for place in product(range(len(graphs)), widths, kernels)]


def measure(kernel: str, matrix: SparseMatrix, width: int, repeats: int, bandwidth: float) -> Record:
    """One product: milliseconds, and the bandwidths they mean."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(matrix.shape[1], width, generator=generator).to(matrix.device)
    multiply = KERNELS[kernel][1](matrix)
    ms = median_ms(lambda: multiply(x), matrix.device, repeats)
    entries = sum(part.element_size() * part.numel() for part in (matrix.values, matrix.col, matrix.crow))
    dense_in, out = 4 * width * matrix.shape[1], 4 * width * matrix.shape[0]
    least, gathered = entries + dense_in + out, entries + 4 * width * matrix.nnz + out
    speeds = {"gb_per_s": least / ms / 1e6, "gather_gb_per_s": gathered / ms / 1e6, "copy_gb_per_s": bandwidth}
    share = least / ms / 1e6 / bandwidth
    return {"nnz": matrix.nnz, "ms": ms, "least_megabytes": least / 2**20} | speeds | {"copy_share": share}
