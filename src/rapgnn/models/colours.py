"""Colours of nodes by Weisfeiler and Leman: after k steps two nodes share one where their k-hop surroundings agree.

A colour is a hash of 64 bits: of a node's features at first, then of its colour and of the sum of hashes of its
neighbours' colours (and of the edges between). Whole numbers add up to the same in any order, so that colours are the
same on any device. Counts of them in a graph are the features of the Weisfeiler-Leman subtree kernel (Shervashidze et
al., JMLR 2011), here in a fixed number of buckets.
"""

import torch
from torch import Tensor

from rapgnn.graph.graph import Graph
from rapgnn.sparse import Features, dense, row_block

# The constants of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), as signed numbers.
_GOLDEN, _FIRST, _SECOND = -7046029254386353131, -4658895280553007687, -7723592293110705685
_POSITIVE = (1 << 63) - 1
_ROWS = 1 << 15  # hashed at a time


def node_colours(graph: Graph, steps: int) -> list[Tensor]:
    """The colours of all nodes at first and after every step, ``[n]`` each.

    Features that were made of the edges do not count: colours see those by themselves.
    """
    made = graph.encoding is not None and graph.encoding.kind == "structural"
    now = torch.zeros(graph.num_nodes, dtype=torch.int64, device=graph.y.device) if made else row_hash(graph.x)
    source, target = graph.edge_index
    between = torch.zeros_like(source) if graph.edge_attr is None else row_hash(graph.edge_attr)
    found = [now]
    for _ in range(steps):
        heard = torch.zeros_like(now).index_add_(0, target, _mixed(3 * now[source] + between))
        now = _mixed(_GOLDEN * now + heard)
        found.append(now)
    return found


def colour_counts(colours: list[Tensor], ptr: Tensor, rows: Tensor, buckets: int) -> Tensor:
    """How often each colour occurs in some graphs, ``[rows, len(colours) · buckets]``; colours share buckets by chance.

    Args:
        ptr: where the nodes of each graph begin.
    """
    sizes = ptr.diff()[rows]
    owner = torch.repeat_interleave(torch.arange(len(rows), device=ptr.device), sizes)
    before = sizes.cumsum(0) - sizes
    nodes = torch.arange(len(owner), device=ptr.device) - before[owner] + ptr[rows][owner]
    found = []
    for colour in colours:
        place = owner * buckets + (colour[nodes] & _POSITIVE) % buckets
        found.append(torch.bincount(place, minlength=len(rows) * buckets).view(len(rows), buckets))
    return torch.cat(found, dim=1).to(torch.float32)


def row_hash(x: Features) -> Tensor:
    """A hash of every row; rows with the same numbers have the same one."""
    salt = _mixed(_GOLDEN * torch.arange(1, x.shape[1] + 1, device=x.device))
    found = []
    for start in range(0, x.shape[0], _ROWS):
        rows = torch.arange(start, min(start + _ROWS, x.shape[0]), device=x.device)
        bits = (dense(row_block(x, rows)).to(torch.float32) + 0.0).view(torch.int32).long()  # -0 is 0
        found.append(_mixed(_mixed(_GOLDEN * bits + salt).sum(dim=1)))
    return torch.cat(found) if found else salt.new_zeros(0)


def _mixed(z: Tensor) -> Tensor:
    """SplitMix64's last step."""
    z = (z ^ _shifted(z, 30)) * _FIRST
    z = (z ^ _shifted(z, 27)) * _SECOND
    return z ^ _shifted(z, 31)


def _shifted(z: Tensor, by: int) -> Tensor:
    """To the right, with zeros from the left."""
    return (z >> by) & ((1 << (64 - by)) - 1)
