"""What candidates cost, by counted operations and not by the clock, so that a search is the same on any machine."""

from contextlib import AbstractContextManager

import torch

from rapgnn.device import threads
from rapgnn.graph.graph import Graph
from rapgnn.graph.relations import walks_of
from rapgnn.network.config import Config
from rapgnn.network.encode import DEGREE_COLUMNS, EMBEDDINGS
from rapgnn.network.heads import DECOMPOSED, same_gaps
from rapgnn.network.typed import AT_ONCE, BESIDE_WANTED, DEGREE, ROUNDS, TypeColumns
from rapgnn.search.candidate import judged_by_left_out
from rapgnn.search.preset import PRESET
from rapgnn.sparse import SparseMatrix

# Multiply-adds per second of two cores: of a matrix product, of a sparse one, of a factorisation in double precision.
DENSE, SPARSE, SOLVED = 1e11, 1e10, 4e10
TOUCHED, JUDGED = 2e8, 4e6  # numbers per second: of a representation, scaled and centred; of scores, for all penalties
STEP, CANDIDATE = 7e-4, 0.004  # seconds around every optimiser step, around every candidate
# Seconds of an epoch of a GNN with 64 channels: around it, for every node, for every edge, score and edge, feature.
EPOCH, OF_NODE, OF_EDGE, OF_SCORE, OF_ENTRY, OF_SPARSE = 2e-3, 7e-7, 8.5e-8, 1.3e-9, 1.1e-8, 2.2e-8
# Seconds around a walk over relations at every point in time, for every edge of its steps; multiply-adds per second.
SNAPSHOT, STEPPED, WALKED = 2e-3, 1e-8, 3e9
SHARERS = 16  # candidates with the same components
TREES, TREE, BINNED = 100, 1.5e-3, 1e8  # trees of a class, seconds around each, numbers that each sorts per second
SMALL_COST = 0.05  # seconds below which a second thread costs more than it saves
SOLVES = 4  # penalties tried per ridge head on random coefficients
VISITED = 5  # penalties on the way downhill to the best


def threads_by_cost(cost: float) -> AbstractContextManager[None]:
    """The threads that a candidate of so many nominal seconds gains by."""
    return threads(1 if cost < SMALL_COST else torch.get_num_threads())


def training_cost(graph: Graph) -> float:
    """What a search may cost: a share of 200 epochs of a GNN with two layers of 64 channels, zeros skipped."""
    n, m = graph.num_nodes, graph.edge_index.shape[1]
    entries = graph.x.nnz * OF_SPARSE if isinstance(graph.x, SparseMatrix) else graph.x.numel() * OF_ENTRY
    if graph.typed is not None:
        n, m = graph.typed.num_nodes, 2 * graph.typed.num_edges  # both ways
        entries = n * max(16, *graph.typed.widths.values()) * OF_ENTRY
    steps = EPOCH if graph.typed is None else EPOCH * (1 + len(graph.typed.cuts) / 6)
    epoch = n * OF_NODE + m * (OF_EDGE + OF_SCORE * min(64, graph.num_outputs)) + entries
    batches = 1 if graph.ptr is None else max(1, len(graph.train) // 128)
    share = PRESET.of_training if graph.ptr is None and graph.typed is None else PRESET.of_sets
    most = PRESET.most_seconds if graph.typed is not None else float("inf")
    return min(most, share * 200 * (epoch + steps * batches))


def cost(graph: Graph, config: Config) -> float:
    """Seconds, by counted operations, that a candidate takes."""
    return _random_cost(graph, config) if config.of_layers else _hop_cost(graph, config)


def typed_widths(graph: Graph, config: Config) -> tuple[int, int]:
    """Of a walk over relations: the columns that are walked with, and those that are joined."""
    assert graph.typed is not None
    with torch.device("meta"):
        columns = TypeColumns(graph.typed.described(), config, 0)
    return columns.width, sum(one.width for _, _, one in columns.blocks(config))


def fits(graph: Graph, config: Config) -> bool:
    """Whether a candidate's hops may be stored."""
    return config.of_layers or hop_bytes(graph, config) <= PRESET.most_bytes


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
        seconds += rows * width * (depth + 1) / TOUCHED + len(graph.val) * graph.num_outputs / JUDGED
        if 2 * rows <= seen:
            return seconds + SOLVES * rows * rows * (seen / DENSE + rows / 3 / SOLVED)
        return seconds + rows * seen * seen / DENSE + SOLVES * seen**3 / 3 / SOLVED
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
    hops += config.num_layers if config.edges == "both" else 0
    labelled = len(graph.train) + len(graph.val)
    seen = 2 * joined_width(graph, config) + config.unit_hops * config.units
    return 4 * (graph.num_nodes * _base_width(graph, config) * hops + labelled * seen) + compared


def joined_width(graph: Graph, config: Config) -> int:
    """Columns of the hops that are joined."""
    if config.relations:
        return typed_widths(graph, config)[1]
    ways = 2 if config.edges == "both" else 1
    return _base_width(graph, config) * (config.num_layers * ways + 1 if config.jumping == "cat" else 1)


def _hop_cost(graph: Graph, config: Config) -> float:
    n, m, base = graph.num_nodes, graph.edge_index.shape[1] + graph.num_nodes, _base_width(graph, config)
    train, rows, depth = len(graph.train), len(graph.train) + len(graph.val), config.num_layers
    seconds = CANDIDATE
    if config.relations:
        assert graph.typed is not None
        walks, points = walks_of(config.relations), max(1, len(graph.typed.cuts))
        m = sum(graph.typed.relation(key).edge_index.shape[1] for walk in walks for key in walk)
        base, width = 0, typed_widths(graph, config)[0] - config.node_columns
        far = PRESET.far[0]  # up to which about three candidates read the same hops
        steps = depth if config.anchors or depth > far else min(depth, far / 3)
        again = config.known_labels or config.units or config.head != "ridge" or config.previous is not None
        walked = points * (SNAPSHOT * len(walks) * (points > 1) + m * steps * (STEPPED + width / WALKED))
        if config.node_columns:  # eigenvectors: shared, but their products are of few columns at a time, and slow
            width = AT_ONCE + BESIDE_WANTED
            walked += ROUNDS * width * (DEGREE * m / WALKED + 3 * graph.typed.num_nodes * width / DENSE)
        seconds += walked / (3 if again else 1)  # a network on the hops of one before
    elif config.components and isinstance(graph.x, SparseMatrix):
        turned = graph.x.nnz / SPARSE + graph.num_features * config.components / DENSE
        seconds += 3 * turned * config.components / SHARERS
    joined = joined_width(graph, config)
    if config.coefficients == "colours":
        seconds += depth * m * 4 / SPARSE
        joined = config.width * (1 + depth)
    elif config.coefficients == "layers":
        seconds += n * config.width * (base + (depth - 1) * config.width) / DENSE + m * depth * config.width / SPARSE
        joined = base + depth * config.width
    else:
        seconds += m * depth * base / SPARSE / (2 if graph.ptr is None else 1)
    beside = (2 if config.edges == "both" else 1) * config.known_labels * graph.num_outputs
    joined, seconds = joined + beside, seconds + m * beside / SPARSE
    width = joined
    if config.units:
        of = n if graph.ptr is not None or config.unit_hops else rows
        seconds += of * joined * config.units / DENSE + config.unit_hops * m * config.units / SPARSE
        width = joined + config.units * (1 + config.unit_hops) if config.unit_hops else config.units
    if config.head == "trees":
        grown = TREES * (1 if graph.num_outputs == 2 else graph.num_outputs)
        return seconds + grown * (train * width / BINNED + TREE)
    if config.head != "ridge":
        inner = config.hidden_channels if config.head == "mlp" else graph.num_outputs
        each = (3 * train + len(graph.val)) * inner * (width + graph.num_outputs) / DENSE
        return seconds + config.epochs * (each + STEP * -(-train // (config.batch_size or max(1, train))))
    if config.landmarks:
        marks = config.landmarks
        seconds += (rows * marks * (width + marks) + marks**3) / DENSE
        width = marks
    least = min(train, width)
    solves = 4 * least**3 if least <= DECOMPOSED else VISITED * least**3 / 3
    apart = 1  # labels with other gaps are solved apart
    if graph.y.dim() == 2 and graph.y.is_floating_point():
        apart = max(1, sum(1 for _ in same_gaps(graph.y[graph.train])))
    seconds += apart * (train * width * (least / DENSE + 1 / TOUCHED) + solves / SOLVED)
    judges = rows if judged_by_left_out(graph) else len(graph.val)
    return seconds + judges * graph.num_outputs * (VISITED * width / DENSE + 1 / JUDGED)
