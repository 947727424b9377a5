"""Colours of nodes by Weisfeiler and Leman: after k steps two nodes share one where their k-hop surroundings agree.

A colour is a hash of 64 bits: of a node's features at first, then of its colour and of the sum of hashes of its
neighbours' colours (and of the edges between). Whole numbers add up to the same in any order, so that colours are the
same on any device. Counts of them in a graph are the features of the Weisfeiler-Leman subtree kernel (Shervashidze et
al., JMLR 2011), here in a fixed number of buckets.
"""

import torch
from torch import Tensor

from rapgnn.graph.graph import Graph
from rapgnn.models.hashing import GOLDEN, mixed, row_hash

_POSITIVE = (1 << 63) - 1


def node_colours(graph: Graph, steps: int) -> list[Tensor]:
    """The colours of all nodes at first and after every step, ``[n]`` each.

    Features that were made of the edges do not count: colours see those by themselves.
    """
    made = graph.encoding is not None and graph.encoding.kind == "structural"
    now = torch.zeros(graph.num_nodes, dtype=torch.int64, device=graph.y.device) if made else row_hash(graph.x)
    source, target = graph.edge_index.to(now.device)
    between = torch.zeros_like(source) if graph.edge_attr is None else row_hash(graph.edge_attr).to(now.device)
    found = [now]
    for _ in range(steps):
        heard = torch.zeros_like(now).index_add_(0, target, mixed(3 * now[source] + between))
        now = mixed(GOLDEN * now + heard)
        found.append(now)
    return found


def colour_counts(colours: list[Tensor], ptr: Tensor, rows: Tensor, buckets: int) -> Tensor:
    """How often each colour occurs in some graphs, ``[rows, len(colours) · buckets]``; colours share buckets by chance.

    Args:
        ptr: where the nodes of each graph begin.
    """
    device = colours[0].device
    ptr, rows = ptr.to(device), rows.to(device)
    sizes = ptr.diff()[rows]
    owner = torch.repeat_interleave(torch.arange(len(rows), device=device), sizes)
    before = sizes.cumsum(0) - sizes
    nodes = torch.arange(len(owner), device=device) - before[owner] + ptr[rows][owner]
    found = []
    for colour in colours:
        place = owner * buckets + (colour[nodes] & _POSITIVE) % buckets
        found.append(torch.bincount(place, minlength=len(rows) * buckets).view(len(rows), buckets))
    return torch.cat(found, dim=1).to(torch.float32)
