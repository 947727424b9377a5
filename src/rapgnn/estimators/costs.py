"""What trainings cost, by counted operations and not by the clock, so that a search is the same on any machine."""

from contextlib import AbstractContextManager

import torch

from rapgnn.device import threads
from rapgnn.estimators.members import BATCH, trained_epochs
from rapgnn.graph.graph import Graph
from rapgnn.layers.embedding import EMBEDDINGS
from rapgnn.layers.ridge import same_gaps
from rapgnn.layers.ridge_path import DECOMPOSED, PENALTIES
from rapgnn.layers.standardize import PLACES
from rapgnn.models.config import Config
from rapgnn.models.net_config import NetConfig
from rapgnn.models.net_hops import NEAR
from rapgnn.sparse import SparseMatrix
from rapgnn.training.wide import DENSE, SPARSE, direct_cost, feature_cost, matrix_free_cost, too_wide

STEP, CANDIDATE = 8e-4, 0.01  # seconds around every optimiser step, around every candidate
MASKED = 5e-9  # seconds that dropout takes for every entry of features that are not sparse
THIN = 0.05  # share of the features that are not 0 below which a GNN gains by sparse products
SMALL_COST = 0.1  # seconds below which a second thread costs more than it saves


def threads_by_cost(cost: float) -> AbstractContextManager[None]:
    """The threads that a candidate of so many nominal seconds gains by."""
    return threads(1 if cost < SMALL_COST else torch.get_num_threads())


def training_cost(graph: Graph) -> float:
    """What a search may cost: less than the seconds, by counted operations, of 200 epochs of a GNN with 64 channels."""
    n, c, m = graph.num_nodes, graph.num_features, graph.edge_index.shape[1] + graph.num_nodes
    passes = 3 * (n * c * 64 / DENSE + m * (64 + min(64, graph.num_outputs)) / SPARSE)
    if not isinstance(graph.x, SparseMatrix):
        passes += n * c * MASKED
    batches = 1 if graph.ptr is None else max(1, len(graph.train) // 128)
    # Batches of graphs are put together anew in every epoch, which is not counted; of sparse features 0 is skipped.
    few = isinstance(graph.x, SparseMatrix) and graph.x.nnz < THIN * n * c
    share = 2.0 if graph.ptr is not None else 0.55 if few else 0.8
    return share * 200 * (passes + 2.5 * STEP * batches)


def sparse_training_cost(graph: Graph) -> float:
    """The same with features that are kept sparse."""
    edges = (graph.edge_index.shape[1] + graph.num_nodes) * (16 + min(16, graph.num_outputs)) / SPARSE
    return 0.5 * 200 * (3 * (feature_cost(graph, 16) + edges) + 2.5 * STEP)


def nominal_cost(graph: Graph, config: Config) -> float:
    """Seconds, by counted operations, that a candidate takes."""
    n, c, m = graph.num_nodes, graph.num_features, graph.edge_index.shape[1]
    rows, L = len(graph.train), config.num_layers
    kind = EMBEDDINGS[config.embedding]
    hidden = config.hidden_channels * (2 if config.embedding_output == "split" else 1)
    d = hidden if kind.mlp else c
    if too_wide(graph, config):
        return CANDIDATE + matrix_free_cost(graph, config)
    seconds = CANDIDATE
    if kind.mlp:
        seconds += n * c * config.hidden_channels / DENSE
    if kind.trained == "before":
        seconds += config.pretrain_epochs * (3 * rows * c * config.hidden_channels / DENSE + STEP)
    if config.head == "ridge":
        return seconds + direct_cost(graph, config, d)
    seconds += L * m * d / SPARSE
    width = d * (L + 1 if config.jumping == "cat" else 1)
    inner = config.hidden_channels if config.head == "mlp" else graph.num_outputs
    batches = -(-rows // (config.batch_size or max(1, rows)))
    return seconds + config.epochs * (3 * rows * width * inner / DENSE + rows * (L + 1) * d / SPARSE + STEP * batches)


# What a random network keeps in memory and what it costs, by counted operations.


VISITED = 5  # penalties on the way downhill to the best
LARGE = 1 << 30  # bytes of the hops of all nodes beyond which a candidate is not tried


def fits(graph: Graph, config: NetConfig) -> bool:
    """Whether a candidate's hops may be kept in memory."""
    return net_bytes(graph, config) <= LARGE


def _base_width(graph: Graph, config: NetConfig) -> int:
    base = config.identity or (config.sketch or graph.num_features) + graph.num_edge_features
    return base + (PLACES if config.places else 0)


def net_bytes(graph: Graph, config: NetConfig) -> int:
    """What a candidate keeps: hops of all nodes, rows beside landmarks; batches of graphs keep little."""
    compared = 12 * config.landmarks * (len(graph.train) + len(graph.val))
    if graph.ptr is not None:
        return 4 * graph.num_nodes * _base_width(graph, config) + compared
    hops = 1 + {"last": 1, "cat": config.num_layers, "ppr": 1 + min(config.num_layers, NEAR)}[config.jumping]
    hops += 2 * config.known * graph.num_outputs // max(1, _base_width(graph, config))  # of labels, both ways
    further = config.lift_hops * config.lift * len(graph.train) // max(1, graph.num_nodes)
    return 4 * graph.num_nodes * (_base_width(graph, config) * hops + further) + compared


def joined_width(graph: Graph, config: NetConfig) -> int:
    """Columns of the hops that are joined."""
    ways = 2 if config.edges == "both" else 1
    return _base_width(graph, config) * (config.num_layers * ways + 1 if config.jumping == "cat" else 1)


def net_cost(graph: Graph, config: NetConfig) -> float:
    """Seconds, by counted operations, that a candidate takes."""
    n, m, base = graph.num_nodes, graph.edge_index.shape[1] + graph.num_nodes, _base_width(graph, config)
    rows, depth = len(graph.train) + len(graph.val), config.num_layers
    seconds = CANDIDATE
    if config.sketch and isinstance(graph.x, SparseMatrix):
        seconds += feature_cost(graph, config.sketch) / 4  # shared by the candidates with the same features
    joined = joined_width(graph, config)
    if config.colours:
        seconds += depth * m * 4 / SPARSE
        joined = config.colours * (1 + depth)
    elif config.width:
        seconds += n * config.width * (base + (depth - 1) * config.width) / DENSE + m * depth * config.width / SPARSE
        joined = base + depth * config.width
    else:
        seconds += m * depth * base / SPARSE / (2 if graph.ptr is None else 1)
    beside = (2 if config.edges == "both" else 1) * config.known * graph.num_outputs
    joined, seconds = joined + beside, seconds + m * beside / SPARSE
    width = joined
    if config.lift:
        of = n if graph.ptr is not None or config.lift_hops else rows
        seconds += of * joined * config.lift / DENSE + config.lift_hops * m * config.lift / SPARSE
        width = joined + config.lift * (1 + config.lift_hops) if config.lift_hops else config.lift
    train = len(graph.train)
    if config.hidden:
        epochs = trained_epochs(train)
        each = (3 * train + len(graph.val)) * config.hidden * (width + graph.num_outputs) / DENSE
        return seconds + epochs * (each + STEP * -(-train // BATCH)) / 2
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
