"""What a random network keeps in memory and what it costs, by counted operations."""

from rapgnn.estimators.costs import CANDIDATE, STEP
from rapgnn.estimators.members import BATCH, trained_epochs
from rapgnn.graph.graph import Graph
from rapgnn.layers.ridge import same_gaps
from rapgnn.layers.ridge_path import DECOMPOSED, PENALTIES
from rapgnn.layers.treatment import PLACES
from rapgnn.models.net_config import NetConfig
from rapgnn.models.net_hops import NEAR
from rapgnn.sparse import SparseMatrix
from rapgnn.training.wide import DENSE, SPARSE, feature_cost

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
