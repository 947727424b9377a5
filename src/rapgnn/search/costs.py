"""What candidates cost, by counted operations and not by the clock, so that a search is the same on any machine."""

from contextlib import AbstractContextManager

import torch

from rapgnn.device import threads
from rapgnn.graph.graph import Graph
from rapgnn.graph.relations import walks_of
from rapgnn.network.config import Config
from rapgnn.network.encode import DEGREE_COLUMNS, EMBEDDINGS
from rapgnn.network.heads import DECOMPOSED, PENALTIES, same_gaps
from rapgnn.network.typed import TypeColumns
from rapgnn.search.preset import PRESET
from rapgnn.sparse import SparseMatrix

DENSE, SPARSE = 2e10, 1e9  # multiply-adds per second of a matrix product, of a sparse one: a laptop's two cores
STEP, CANDIDATE = 8e-4, 0.01  # seconds around every optimiser step, around every candidate
MASKED = 5e-9  # seconds that dropout takes for every entry of features that are not sparse
THIN = 0.05  # share of the features that are not 0 below which a GNN gains by sparse products
SMALL_COST = 0.1  # seconds below which a second thread costs more than it saves
SOLVES = 4  # penalties tried per ridge head on random coefficients
VISITED = 5  # penalties on the way downhill to the best


def threads_by_cost(cost: float) -> AbstractContextManager[None]:
    """The threads that a candidate of so many nominal seconds gains by."""
    return threads(1 if cost < SMALL_COST else torch.get_num_threads())


def training_cost(graph: Graph) -> float:
    """What a search may cost: less than the seconds, by counted operations, of 200 epochs of a GNN with 64 channels."""
    n, c, m = graph.num_nodes, graph.num_features, graph.edge_index.shape[1] + graph.num_nodes
    if graph.typed is not None:
        n, m = graph.typed.num_nodes, graph.typed.num_edges + graph.typed.num_nodes
        c = max(16, *graph.typed.widths.values())
    passes = 3 * (n * c * 64 / DENSE + m * (64 + min(64, graph.num_outputs)) / SPARSE)
    if not isinstance(graph.x, SparseMatrix):
        passes += n * c * MASKED
    batches = 1 if graph.ptr is None else max(1, len(graph.train) // 128)
    # Batches of graphs are put together anew in every epoch, which is not counted; of sparse features 0 is skipped.
    few = isinstance(graph.x, SparseMatrix) and graph.x.nnz < THIN * n * c
    share = 2.0 if graph.ptr is not None else 0.55 if few else 0.8
    return share * 200 * (passes + 2.5 * STEP * batches)


def cost(graph: Graph, config: Config) -> float:
    """Seconds, by counted operations, that a candidate takes."""
    return _random_cost(graph, config) if config.coefficients == "random" else _hop_cost(graph, config)


def typed_widths(graph: Graph, config: Config) -> tuple[int, int]:
    """Of a walk over relations: the columns that are walked with, and those that are joined."""
    assert graph.typed is not None
    with torch.device("meta"):
        columns = TypeColumns(graph.typed.described(), config, 0)
    return columns.width, sum(one.width for _, _, one in columns.blocks(config))


def fits(graph: Graph, config: Config) -> bool:
    """Whether a candidate's hops may be stored."""
    return config.coefficients == "random" or hop_bytes(graph, config) <= PRESET.most_bytes


def _random_cost(graph: Graph, config: Config) -> float:
    c, m = config.components or graph.num_features, graph.edge_index.shape[1]
    rows, depth, kind = len(graph.train), config.num_layers, EMBEDDINGS[config.embedding]
    width = config.hidden_channels * (2 if config.embedding_output == "split" else 1) if kind.mlp else c
    seconds = CANDIDATE + depth * m * width / SPARSE
    if kind.mlp:
        seconds += graph.num_nodes * c * config.hidden_channels / DENSE
    if kind.trained == "before":
        seconds += config.pretrain_epochs * (3 * rows * c * config.hidden_channels / DENSE + STEP)
    seen = width * (depth + 1 if config.jumping == "cat" else 1)
    if config.head == "ridge":
        if 2 * rows <= seen:
            return seconds + SOLVES * rows * rows * (seen + rows / 3) / DENSE
        return seconds + (rows * seen * seen + SOLVES * seen**3 / 3) / DENSE
    inner = config.hidden_channels if config.head == "mlp" else graph.num_outputs
    batches = -(-rows // (config.batch_size or max(1, rows)))
    epoch = 3 * rows * seen * inner / DENSE + rows * (depth + 1) * width / SPARSE + STEP * batches
    return seconds + config.epochs * epoch


def _base_width(graph: Graph, config: Config) -> int:
    base = config.node_columns or (config.components or graph.num_features) + graph.num_edge_features
    return base + (DEGREE_COLUMNS if config.degree_columns else 0)


def hop_bytes(graph: Graph, config: Config) -> int:
    """What a candidate with fixed hops stores: hops of all nodes, rows beside landmarks; of sets of graphs little."""
    compared = 12 * config.landmarks * (len(graph.train) + len(graph.val))
    if graph.ptr is not None:
        return 4 * graph.num_nodes * _base_width(graph, config) + compared
    if config.relations:
        assert graph.typed is not None
        walked, joined = typed_widths(graph, config)
        return 4 * (graph.num_nodes * joined + 2 * max(graph.typed.counts.values()) * walked) + compared
    hops = 1 + {"last": 1, "cat": config.num_layers, "ppr": 2}[config.jumping]
    hops += 2 * config.known_labels * graph.num_outputs // max(1, _base_width(graph, config))  # both ways
    further = config.unit_hops * config.units * len(graph.train) // max(1, graph.num_nodes)
    return 4 * graph.num_nodes * (_base_width(graph, config) * hops + further) + compared


def joined_width(graph: Graph, config: Config) -> int:
    """Columns of the hops that are joined."""
    if config.relations:
        return typed_widths(graph, config)[1]
    ways = 2 if config.edges == "both" else 1
    return _base_width(graph, config) * (config.num_layers * ways + 1 if config.jumping == "cat" else 1)


def _hop_cost(graph: Graph, config: Config) -> float:
    n, m, base = graph.num_nodes, graph.edge_index.shape[1] + graph.num_nodes, _base_width(graph, config)
    train, rows, depth = len(graph.train), len(graph.train) + len(graph.val), config.num_layers
    seconds, times = CANDIDATE, 1
    if config.relations:
        assert graph.typed is not None
        walks, times = walks_of(config.relations), max(1, len(graph.typed.cuts))
        m = sum(graph.typed.relation(key).edge_index.shape[1] for walk in walks for key in walk)
        base = typed_widths(graph, config)[0] // (1 if config.anchors else max(1, len(graph.typed.features)))
        seconds += times * m / SPARSE * 20  # to sort edges
    elif config.components and isinstance(graph.x, SparseMatrix):
        # Shared by the candidates with the same features.
        entries = min(graph.x.nnz / SPARSE, n * graph.num_features / DENSE)
        seconds += entries * config.components / 4
    joined = joined_width(graph, config)
    if config.coefficients == "colours":
        seconds += depth * m * 4 / SPARSE
        joined = config.width * (1 + depth)
    elif config.coefficients == "layers":
        seconds += n * config.width * (base + (depth - 1) * config.width) / DENSE + m * depth * config.width / SPARSE
        joined = base + depth * config.width
    else:
        seconds += times * m * depth * base / SPARSE / (2 if graph.ptr is None else 1)
    beside = (2 if config.edges == "both" else 1) * config.known_labels * graph.num_outputs
    joined, seconds = joined + beside, seconds + m * beside / SPARSE
    width = joined
    if config.units:
        of = n if graph.ptr is not None or config.unit_hops else rows
        seconds += of * joined * config.units / DENSE + config.unit_hops * m * config.units / SPARSE
        width = joined + config.units * (1 + config.unit_hops) if config.unit_hops else config.units
    if config.head != "ridge":
        inner = config.hidden_channels if config.head == "mlp" else graph.num_outputs
        each = (3 * train + len(graph.val)) * inner * (width + graph.num_outputs) / DENSE
        return seconds + config.epochs * (each + STEP * -(-train // (config.batch_size or max(1, train)))) / 2
    if config.landmarks:
        marks = config.landmarks
        seconds += (rows * marks * (width + marks) + marks**3) / DENSE
        width = marks
    least = min(train, width)
    solves = 9 * least**3 if least <= DECOMPOSED else VISITED * least**3 / 3
    each = train * width * least + solves
    apart = 1  # labels with other gaps are solved apart
    if graph.y.dim() == 2 and graph.y.is_floating_point():
        apart = max(1, sum(1 for _ in same_gaps(graph.y[graph.train])))
    return seconds + (apart * each + len(PENALTIES) * rows * width * graph.num_outputs) / DENSE
