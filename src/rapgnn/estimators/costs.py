"""What trainings cost, by counted operations and not by the clock, so that a search is the same on any machine."""

from contextlib import AbstractContextManager

import torch

from rapgnn.device import threads
from rapgnn.graph.graph import Graph
from rapgnn.layers.embedding import EMBEDDINGS
from rapgnn.models.config import Config
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
