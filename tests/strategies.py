"""Random inputs: edge lists with everything that real ones hold, batches of graphs, files with damage."""

import torch
from hypothesis import strategies as st


@st.composite
def edge_lists(draw, max_nodes: int = 24, max_edges: int = 60):
    """(number of nodes, edge_index, edge_weight or None)."""
    n = draw(st.integers(1, max_nodes))
    node = st.integers(0, n - 1)
    pairs = draw(st.lists(st.tuples(node, node), max_size=max_edges))
    if draw(st.booleans()):
        pairs = pairs + [(v, u) for u, v in pairs]  # undirected, with loops listed twice
    edge_index = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T
    weight = None
    if draw(st.booleans()):
        values = draw(st.lists(st.floats(0.0, 4.0, width=32), min_size=len(pairs), max_size=len(pairs)))
        weight = torch.tensor(values, dtype=torch.float32)
    return n, edge_index, weight


@st.composite
def batches(draw, max_graphs: int = 5):
    """(node counts, edge_index, edge_weight or None, edge codes): graphs without nodes or edges among them."""
    sizes, edges, weights, codes = [], [], [], []
    weighted = draw(st.booleans())
    for _ in range(draw(st.integers(1, max_graphs))):
        if draw(st.integers(0, 4)) == 0:
            sizes.append(0)
            continue
        n, edge_index, _ = draw(edge_lists(max_nodes=8, max_edges=12))
        edges.append(edge_index + sum(sizes))
        sizes.append(n)
    edge_index = torch.cat([torch.zeros(2, 0, dtype=torch.int64), *edges], dim=1)
    m = edge_index.shape[1]
    codes = draw(st.lists(st.integers(0, 2), min_size=m, max_size=m))
    if weighted:
        weights = draw(st.lists(st.just(0.0) | st.floats(2.0**-20, 2.0, width=32), min_size=m, max_size=m))
    return sizes, edge_index, torch.tensor(weights) if weighted else None, torch.tensor(codes, dtype=torch.int64)


@st.composite
def damaged(draw: st.DrawFn, whole: bytes, other: bytes = b"") -> bytes:
    """A file that lost its end, had bytes changed, moved or put in, or is another file altogether."""
    way = draw(st.sampled_from(["cut", "flip", "flip", "insert", "replace", "drop", "repeat", "other", "garbage"]))
    at = draw(st.integers(0, len(whole) - 1))
    end = min(len(whole), at + draw(st.integers(1, 40)))
    if way == "cut":
        return whole[:at]
    if way == "flip":
        new = bytearray(whole)
        for place in [at, *draw(st.lists(st.integers(0, len(whole) - 1), max_size=3))]:
            new[place] ^= 1 << draw(st.integers(0, 7))
        return bytes(new)
    if way == "other":
        return other
    if way == "garbage":
        return draw(st.binary(max_size=200))
    middle = {
        "insert": draw(st.binary(min_size=1, max_size=8)) + whole[at:end],
        "drop": b"",
        "repeat": whole[at:end] * 2,
    }
    return whole[:at] + middle.get(way, draw(st.binary(min_size=1, max_size=8))) + whole[end:]
