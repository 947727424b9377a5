"""Graphs with types: what a user may hand in, and what is refused."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import HeteroData

from rapgnn import InputError
from rapgnn.graph.typed import NodeType, Relation, Types, read_typed, typed_graph

PAPERS = pd.DataFrame({"pages": [3.0, 9.0, 4.0, 7.0], "venue": ["a", "b", "a", None]})
WRITES = np.array([[0, 1, 1, 2, 2], [0, 1, 2, 2, 3]])
Y = ["x", "y", "x", "y"]
TYPES = {"paper": NodeType(columns=PAPERS), "author": NodeType(count=4)}


def types_of(graph) -> Types:
    assert graph.typed is not None
    return graph.typed


def test_a_relation_without_its_reverse_gets_it():
    cites = np.array([[0, 1], [1, 2]])
    relations = [Relation("author", "writes", "paper", WRITES), Relation("paper", "cites", "paper", cites)]
    kept = types_of(typed_graph(TYPES, relations, "paper", y=Y))
    keys = ["author writes paper", "paper cites paper", "paper rev_writes author", "paper rev_cites paper"]
    assert [one.key for one in kept.relations] == keys
    assert np.array_equal(kept.relation("paper rev_writes author").edge_index, WRITES[::-1])
    both = [*relations, Relation("paper", "by", "author", WRITES[::-1])]
    both[1] = Relation("paper", "cites", "paper", np.concatenate([cites, cites[::-1]], axis=1))
    assert len(types_of(typed_graph(TYPES, both, "paper", y=Y)).relations) == 3


def hetero(sparse: bool = False) -> HeteroData:
    data = HeteroData()
    data["paper"].x = torch.tensor(PAPERS[["pages"]].to_numpy())
    data["paper"].y = torch.tensor([0, 1, 0, 1])
    data["paper"].train_mask = torch.tensor([True, True, False, False])
    data["author"].num_nodes = 4
    if sparse:  # its rows are receivers
        ones = torch.ones(WRITES.shape[1])
        with torch.sparse.check_sparse_tensor_invariants():
            adj_t = torch.sparse_coo_tensor(torch.from_numpy(WRITES[::-1].copy()), ones, (4, 4))
        data["author", "writes", "paper"].adj_t = adj_t
    else:
        data["author", "writes", "paper"].edge_index = torch.from_numpy(WRITES)
    return data


def test_ways_in_agree():
    pages = PAPERS[["pages"]].to_numpy()
    edges = {("author", "writes", "paper"): WRITES}
    ways = [
        read_typed(hetero()),
        read_typed(hetero(sparse=True)),
        read_typed(({"paper": pages, "author": 4}, edges), Y, target="paper", train=[0, 1]),
        read_typed({"paper": NodeType(x=pages), "author": NodeType(count=4), **edges}, Y, target="paper", train=[0, 1]),
    ]
    graphs = [typed_graph(types, relations, target, **rows) for types, relations, target, rows in ways]
    for graph in graphs:
        assert torch.equal(graph.x, graphs[0].x)
        assert torch.equal(graph.y[:2], torch.tensor([0, 1]))
        assert graph.train.tolist() == [0, 1]
        assert types_of(graph).counts == {"paper": 4, "author": 4}
        wrote = [types_of(one).adjacency("author writes paper").toarray() for one in (graph, graphs[0])]
        assert np.array_equal(*wrote)


def test_tables_are_encoded_and_gaps_filled():
    graph = typed_graph(TYPES, [Relation("author", "writes", "paper", WRITES)], "paper", y=Y)
    assert types_of(graph).widths == {"paper": 3, "author": 0}
    assert torch.isfinite(torch.as_tensor(graph.x)).all()
    bare = typed_graph(
        {"paper": NodeType(count=4), "author": NodeType(x=np.eye(4))}, graph.typed.relations[:1], "paper", y=Y
    )
    assert np.allclose(bare.x[:, 0], np.log1p([1, 1, 2, 1]))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"relations": [Relation("author", "writes", "book", WRITES)]}, "'book'"),
        ({"relations": [Relation("author", "writes", "paper", WRITES + 9)]}, "node"),
        ({"relations": [Relation("author", "writes", "paper", WRITES)] * 2}, "two relations"),
        ({"relations": [Relation("author", "a + b", "paper", WRITES)]}, "must not hold"),
        ({"target": "book"}, "'book'"),
        ({"time": [1.0]}, "times"),
    ],
)
def test_what_is_refused(change, reason):
    given = {"types": TYPES, "relations": [Relation("author", "writes", "paper", WRITES)], "target": "paper", "y": Y}
    with pytest.raises(InputError, match=reason):
        typed_graph(**given | change)


def test_rows_are_divided_by_time_where_no_split_is_given():
    time, y = np.arange(20.0)[::-1].copy(), np.arange(20) % 2
    types = {"paper": NodeType(count=20, time=time), "author": NodeType(count=4)}
    graph = typed_graph(types, [Relation("author", "writes", "paper", WRITES)], "paper", y=y)
    assert time[graph.train].max() < time[graph.val].min() < time[graph.val].max() < time[graph.test].min()
    assert any("by time" in note for note in graph.notes)


def test_walks_that_bring_rows_together():
    """Every order is of one customer: what leads on to products joins customers, the orders alone do not."""
    ends = {"orders": np.array([[0, 1, 2, 3], [0, 0, 1, 2]]), "lines": np.array([[0, 1, 2, 3], [0, 1, 1, 2]])}
    relations = [Relation("order", "of", "customer", ends["orders"]), Relation("order", "has", "thing", ends["lines"])]
    types = {"customer": NodeType(count=3), "order": NodeType(count=4), "thing": NodeType(count=3)}
    given = types_of(typed_graph(types, relations, "customer", y=["a", "b", "a"]))
    orders, things = given.chains
    assert not given.joins(orders)
    assert given.joins(things)
