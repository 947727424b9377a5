"""Students: heads that are solved on all nodes of a graph for what the average so far, their teacher, says of them.

Few training rows tell little about the features of the many nodes that have no label; their propagated predictions do.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from rapgnn.estimators.judge import ENOUGH
from rapgnn.estimators.net_costs import LARGE, joined_width
from rapgnn.estimators.node_filters import scarce_labels
from rapgnn.graph.graph import Graph
from rapgnn.models.net_config import NetConfig
from rapgnn.models.rapgnn import RAPGNN
from rapgnn.training.averaged import HopsOf, model_on

SHARPER = 2.0  # power of the teacher's probabilities
STUDENTS = 6  # of one teacher
ROUNDS = 3  # in which students become teachers


def can_teach(graph: Graph) -> bool:
    """Whether most nodes of a single graph have no label that counts, and validation rows can judge."""
    classes = graph.ptr is None and graph.y.dim() == 1 and graph.objective.metric == "accuracy"
    return classes and len(graph.val) >= ENOUGH and scarce_labels(graph)


def student_configs(graph: Graph, nets: Sequence[NetConfig]) -> Iterator[NetConfig]:
    """Linear filters: personalised PageRank on every kind of features, and those that were best.

    Args:
        nets: the random networks so far, best first.
    """
    linear = [n for n in nets if not (n.bound or n.hidden or n.lift or n.first is not None)]
    far = [net for net in linear if net.jumping == "ppr"]
    kinds = {(net.features, net.sketch, net.num_layers): net for net in reversed(far)}
    small = [n for n in [*kinds.values(), *linear] if 8 * graph.num_nodes * joined_width(graph, n) <= LARGE]
    yield from list(dict.fromkeys(small))[:STUDENTS]


def all_nodes(graph: Graph) -> Graph:
    """The graph with every node as a training row."""
    return replace(graph, train=torch.arange(graph.num_nodes, device=graph.y.device))


@torch.no_grad()
def lesson(teacher: nn.Module, graph: Graph, kept: HopsOf) -> Tensor:
    """What is taught of every node: its label where that is known, the teacher's sharpened probabilities elsewhere.

    Args:
        kept: hops of the graph that its networks have walked.
    """
    how = {} if isinstance(teacher, RAPGNN) else {"kept": kept}
    found = model_on(teacher, graph, **how)(torch.arange(graph.num_nodes)).probabilities.double().pow(SHARPER)
    found = found / found.sum(dim=1, keepdim=True).clamp(min=torch.finfo(found.dtype).tiny)
    found[graph.train] = nn.functional.one_hot(graph.y[graph.train], graph.num_outputs).to(found)
    return found
