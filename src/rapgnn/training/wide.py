"""The ridge head on features too wide to be propagated column by column: by conjugate gradients, without the matrix."""

from collections.abc import Sequence

import torch
from torch import Tensor

from rapgnn.graph.graph import Graph
from rapgnn.layers.ridge import RidgeSolution
from rapgnn.models.config import Config
from rapgnn.prng import Stream, seeded
from rapgnn.propagation.linear import ExpectedMap
from rapgnn.sparse import Features, SparseMatrix

DENSE, SPARSE = 2e10, 1e9  # multiply-adds per second of a matrix product, of a sparse one: a laptop's two cores
SOLVES = 4  # penalties tried per ridge head that is solved directly
NARROW = 1024  # features that are always propagated as they are
LONG = 1.0  # seconds up to which so are any
PROBES = 63  # random sums of rows that stand for all rows in the variance
LANES = 8  # columns that a processor multiplies at once
SMALL = 1 << 22  # entries of features and edges up to which one thread is enough
STEPS, SMALL_ERROR = 24, 1e-2  # of the conjugate gradients: at most so many, until the error has shrunk so much
USUAL_STEPS = 12
PENALTIES = (0.1, 1.0, 10.0, 100.0)  # solved side by side; below them the variance is most of the penalty


def direct_cost(graph: Graph, config: Config, width: int) -> float:
    """Seconds, by counted operations, that the hops of so many columns and the ridge head on them take."""
    rows, edges = len(graph.train), graph.edge_index.shape[1]
    hops = config.num_layers * edges * width / SPARSE
    width *= config.num_layers + 1 if config.jumping == "cat" else 1
    if 2 * rows <= width:
        return hops + SOLVES * rows * rows * (width + rows / 3) / DENSE
    return hops + (rows * width * width + SOLVES * width**3 / 3) / DENSE


def matrix_free_cost(graph: Graph, config: Config) -> float:
    """Seconds, by counted operations, that ``MatrixFreeRidge`` takes."""
    outputs = config.num_layers + 1 if config.jumping == "cat" else 1
    hop = config.num_layers * graph.edge_index.shape[1] / SPARSE
    count = len(PENALTIES) if config.ridge is None else 1
    steps = 2 * USUAL_STEPS * count * graph.num_outputs * (hop + outputs * feature_cost(graph, 1))
    return steps + PROBES * (hop + (config.num_layers + 1) * feature_cost(graph, 1))


def feature_cost(graph: Graph, width: int) -> float:
    """Seconds, by counted operations, of the features times a matrix of so many columns."""
    if isinstance(graph.x, SparseMatrix):
        return min(graph.x.nnz * width / SPARSE, graph.num_nodes * graph.num_features * width / DENSE)
    return graph.num_nodes * graph.num_features * width / DENSE


def wide_threads(x: Features, edges: int) -> int:
    """Threads for products with a few columns: one where handing them over takes longer than what it saves."""
    entries = x.nnz if isinstance(x, SparseMatrix) else x.numel()
    return 1 if max(entries, edges) < SMALL else torch.get_num_threads()


def too_wide(graph: Graph, config: Config) -> bool:
    """Whether the features are wide, a head in closed form on them takes long, and without the matrix less long."""
    plain = config.embedding == "identity" and config.head == "ridge" and not config.random_features
    random = config.structure == "diagonal" and config.schedule != "fixed" and not config.layer_dropout
    if not (plain and random) or graph.ptr is not None or config.backbone == "gine" or config.engine == "stepwise":
        return False
    if graph.num_features <= NARROW or bool(graph.y[graph.train].isnan().any()):
        return False
    direct = direct_cost(graph, config, graph.num_features)
    return direct > max(LONG, matrix_free_cost(graph, config))


class MatrixFreeRidge:
    r"""The ridge head's equations, solved by conjugate gradients on products with E[h^L] and its transpose.

    .. math:: (M^T M + \mathrm{blockdiag}(Σ_i) + λ I) W = M^T Y

    Products are exact. The summed covariances Σ_i that the draws add to the penalty, and the mean size that λ is
    relative to, come from random sums of rows, which are right on average; with few rows from all of them, exactly.

    Args:
        expected: M of all nodes, not centred.
        rows: the training rows.
        targets: ``[rows, t]``, all known.
        weights: how much each row counts; None: all the same.
        seed: of the random sums.
    """

    def __init__(self, expected: ExpectedMap, rows: Tensor, targets: Tensor, weights: Tensor | None, seed: int):
        self.expected, self.rows = expected, rows
        ones = targets.new_ones(len(rows), 1)
        self.weights = ones if weights is None else weights.to(targets)[:, None]
        self.level = (self.weights * targets).sum(0) / self.weights.sum()
        self.right = expected.transposed(rows, self.weights * (targets - self.level))
        if len(rows) <= 2 * PROBES:
            signs, count = torch.eye(len(rows)).to(targets), 1
        else:
            bits = torch.randint(2, (len(rows), PROBES), generator=seeded(seed, Stream.PROBES), device="cpu")
            signs, count = (2 * bits - 1).to(targets), PROBES
        probes = self.weights.sqrt() * signs
        sums = expected.hop_sums(rows, torch.cat([probes, self.weights], dim=1))
        self.scatter = expected.scatter(sums[:, :, :-1] @ sums[:, :, :-1].mT / count)  # [d, J, J]
        products = expected.from_hop_sums(sums)
        center = products[:, -1:] / self.weights.sum()
        self.square = (products[:, :-1] - center * probes.sum(0)).square().sum(1) / count  # the diagonal of MᵀM
        self.variance = self.scatter.diagonal(dim1=1, dim2=2).T.flatten()
        self.size = float((self.square.double().sum() + self.variance.double().sum()) / max(1, expected.width))

    def solve(self, penalties: Sequence[float]) -> list[tuple[RidgeSolution, Tensor]]:
        """For several λ, side by side: the solution, and E[h^L] W ``[n, t]`` of all nodes."""
        floor = max(1e-30, self.size) * torch.tensor(penalties).clamp(min=1e-6).to(self.right)
        count = len(penalties) * len(self.level)
        right = self.right.new_zeros(self.expected.width, count + -count % LANES)
        right[:, :count] = self.right.repeat(1, len(penalties))
        floors = floor.new_ones(right.shape[1])
        floors[:count] = floor.repeat_interleave(len(self.level))
        weight = self._conjugate_gradients(right, floors)[:, :count].contiguous()
        products = self.expected @ weight
        mean = (self.weights * products[self.rows]).sum(0) / self.weights.sum()
        outputs = len(self.level)
        parts = zip(*(part.split(outputs, -1) for part in (weight, products, mean)), penalties, strict=True)
        return [(RidgeSolution(float(p), w, self.level - m), z) for w, z, m, p in parts]

    def _conjugate_gradients(self, right: Tensor, floor: Tensor) -> Tensor:
        scale = (self.square + self.variance)[:, None] + floor
        found, rest = torch.zeros_like(right), right.clone()
        step = rest / scale
        size = first = (rest * step).sum(0)
        for _ in range(STEPS):
            product = self._times(step, floor)
            length = size / (step * product).sum(0).clamp(min=1e-30)
            found.addcmul_(step, length)
            rest.addcmul_(product, length, value=-1)
            scaled = rest / scale
            last, size = size, (rest * scaled).sum(0)
            if bool((size <= SMALL_ERROR**2 * first).all()):
                break
            step = step.mul_(size / last.clamp(min=1e-30)).add_(scaled)
        return found

    def _times(self, weight: Tensor, floor: Tensor) -> Tensor:
        scores = (self.expected @ weight)[self.rows]
        center = (self.weights * scores).sum(0) / self.weights.sum()
        product = self.expected.transposed(self.rows, self.weights * (scores - center))
        product.addcmul_(weight, floor)
        d, outputs = self.scatter.shape[:2]
        if outputs == 1:
            return product.addcmul_(self.variance[:, None], weight)
        blocks = torch.einsum("djm,mdt->jdt", self.scatter, weight.view(outputs, d, -1))
        return product.add_(blocks.reshape_as(product))
