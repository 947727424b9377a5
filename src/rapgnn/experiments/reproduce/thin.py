"""Fewer graphs of a large set, for a quick run."""

from dataclasses import replace

import torch

from rapgnn.graph.graph import Graph
from rapgnn.sparse import row_block


def thinned(graph: Graph, every: int) -> Graph:
    """Of the training and validation graphs every so many, and all test graphs; the others are gone."""
    assert graph.ptr is not None
    train, val, test = (rows.cpu().contiguous() for rows in (graph.train[::every], graph.val[::every], graph.test))
    kept, ptr = torch.cat([train, val, test]).unique(), graph.ptr.cpu()
    there = torch.zeros(graph.num_rows, dtype=torch.bool)
    there[kept] = True
    nodes = torch.repeat_interleave(there, ptr.diff())
    edges = nodes[graph.edge_index[0]]
    number = nodes.cumsum(0) - 1  # of a node, among those that are kept
    device = graph.y.device
    return replace(
        graph,
        x=row_block(graph.x, nodes.nonzero()[:, 0].to(device)),
        edge_index=number[graph.edge_index[:, edges]],
        edge_weight=None if graph.edge_weight is None else graph.edge_weight[edges],
        edge_attr=None if graph.edge_attr is None else row_block(graph.edge_attr, edges.nonzero()[:, 0].to(device)),
        y=graph.y[kept.to(device)],
        ptr=torch.cat([ptr[:1], ptr.diff()[kept].cumsum(0)]).to(device),
        ids=None,
        **{
            split: torch.searchsorted(kept, rows).to(device)
            for split, rows in (("train", train), ("val", val), ("test", test))
        },
    )
