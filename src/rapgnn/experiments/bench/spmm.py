"""The sparse product S @ x by itself: every kernel at hand, on real and generated graphs, nodes in several orders.

How far a kernel is from the machine's limit is told by the least it must move (matrix, input and output once each)
against the bandwidth of a copy, measured in the same run.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import reverse_cuthill_mckee
from torch import Tensor

from rapgnn.experiments.bench.rows import Row, machine
from rapgnn.experiments.bench.timing import copy_bandwidth, median_ms
from rapgnn.experiments.run import Record
from rapgnn.graph.graph import Graph
from rapgnn.sparse import SparseMatrix

ORDERS = ("given", "degree", "rcm")
ORDER_TITLES = {"given": "as given", "degree": "by degree", "rcm": "reverse Cuthill-McKee"}
Product = Callable[[Tensor], Any]


def _torch_csr(matrix: SparseMatrix) -> Product:
    csr = _csr_tensor(matrix)
    return lambda x: csr @ x


def _torch_reduce(matrix: SparseMatrix) -> Product:
    csr = _csr_tensor(matrix)
    return lambda x: torch.sparse.mm(csr, x, "sum")


def _ours(matrix: SparseMatrix) -> Product:
    return lambda x: matrix @ x


def _scipy(matrix: SparseMatrix) -> Product:
    csr = matrix.scipy()
    return lambda x: csr @ x.numpy()


def _numba(matrix: SparseMatrix) -> Product:
    """Rows in parallel, a row's entries one after another."""
    import numba  # type: ignore[import-not-found]

    @numba.njit(parallel=True, fastmath=True)
    def product(crow, col, values, x, out):
        for row in numba.prange(len(crow) - 1):
            out[row] = 0.0
            for entry in range(crow[row], crow[row + 1]):
                value, source = values[entry], col[entry]
                for channel in range(x.shape[1]):
                    out[row, channel] += value * x[source, channel]

    crow, col, values = (part.numpy() for part in (matrix.crow, matrix.col, matrix.values))

    def run(x: Tensor) -> np.ndarray:
        out = np.empty((len(crow) - 1, x.shape[1]), dtype=np.float32)
        product(crow, col, values, x.numpy(), out)
        return out

    return run


def _csr_tensor(matrix: SparseMatrix) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch calls its sparse matrices a beta
        return torch.sparse_csr_tensor(matrix.crow, matrix.col, matrix.values, size=matrix.shape)


KERNELS: dict[str, tuple[str, Callable[[SparseMatrix], Product], tuple[str, ...]]] = {
    "rapgnn": ("rapgnn", _ours, ("cpu", "cuda")),
    "torch-csr": ("torch CSR @", _torch_csr, ("cpu", "cuda")),
    "torch-reduce": ("torch.sparse.mm sum", _torch_reduce, ("cpu",)),
    "scipy": ("scipy, one thread", _scipy, ("cpu",)),
    "numba": ("numba, parallel", _numba, ("cpu",)),
}
"""Title, how the product is made of a matrix, and the devices it runs on; on a GPU torch's is cuSPARSE."""


def plan(
    graphs: Sequence[Graph],
    widths: Sequence[int],
    orders: Sequence[str],
    device: str,
    repeats: int,
    kernels: Sequence[str] = tuple(KERNELS),
) -> list[Row]:
    """A row per graph, order, width and kernel; numba's where it is installed."""
    rows = []
    chosen = [k for k in KERNELS if k in kernels and device in KERNELS[k][2] and (k != "numba" or has_numba())]
    bandwidth: list[float] = []
    last: list[tuple[str, SparseMatrix]] = []

    def matrix_of(graph: Graph, order: str) -> SparseMatrix:
        key = f"{graph.name} {order}"
        if not last or last[0][0] != key:
            last[:] = [(key, reordered(graph.operator("gcn").matrix, order).to(device))]
        return last[0][1]

    def measured(graph: Graph, order: str, width: int, kernel: str) -> Record:
        if not bandwidth:
            bandwidth.append(copy_bandwidth(device))
        return measure(kernel, matrix_of(graph, order), width, repeats, bandwidth[0])

    for graph in graphs:
        for order in orders:
            for width in widths:
                for kernel in chosen:
                    settings = {
                        "dataset": graph.name,
                        "nodes": graph.num_nodes,
                        "edges": graph.edge_index.shape[1],
                        "order": order,
                        "width": width,
                        "method": kernel,
                        "title": kernel_title(kernel, device),
                        "repeats": repeats,
                    } | machine(device)
                    rows.append(Row(settings, lambda g=graph, o=order, w=width, k=kernel: measured(g, o, w, k)))
    return rows


def kernel_title(kernel: str, device: str) -> str:
    """What a kernel is called on a device."""
    return "cuSPARSE (torch CSR @)" if (kernel, device) == ("torch-csr", "cuda") else KERNELS[kernel][0]


def measure(kernel: str, matrix: SparseMatrix, width: int, repeats: int, bandwidth: float) -> Record:
    """One product: milliseconds, and the bandwidths they mean."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(matrix.shape[1], width, generator=generator).to(matrix.device)
    product = KERNELS[kernel][1](matrix)
    ms = median_ms(lambda: product(x), matrix.device, repeats)
    entries = sum(part.element_size() * part.numel() for part in (matrix.values, matrix.col, matrix.crow))
    dense_in, out = 4 * width * matrix.shape[1], 4 * width * matrix.shape[0]
    least, gathered = entries + dense_in + out, entries + 4 * width * matrix.nnz + out
    return {
        "nnz": matrix.nnz,
        "ms": ms,
        "least_megabytes": least / 2**20,
        "gb_per_s": least / ms / 1e6,
        "gather_gb_per_s": gathered / ms / 1e6,
        "copy_gb_per_s": bandwidth,
        "copy_share": least / ms / 1e6 / bandwidth,
    }


def reordered(matrix: SparseMatrix, order: str) -> SparseMatrix:
    """The same graph with its nodes as given, by falling degree, or in reverse Cuthill-McKee order."""
    if order == "given":
        return matrix
    csr = matrix.scipy()
    if order == "degree":
        nodes = np.argsort(-np.diff(csr.indptr), kind="stable")
    else:
        nodes = reverse_cuthill_mckee(csr, symmetric_mode=False)
    moved: Any = csr[nodes][:, nodes]
    return SparseMatrix(sp.csr_matrix(moved), dtype=matrix.dtype)


def has_numba() -> bool:
    """Whether numba can be imported; it is no dependency of this package."""
    from importlib.util import find_spec

    return find_spec("numba") is not None
