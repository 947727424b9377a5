"""Phase 1: which rows it sees, equal nodes embedded once, slices that are kept."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from rapgnn import RAPGNN, fit
from rapgnn.compare import paper_folds
from rapgnn.training.pretrain import PooledEmbedding
from samples import GRAPH_CONFIG as CONFIG
from samples import NODE_CONFIG


def test_pretraining_touches_labelled_rows_only(small_graph):
    """Garbage in the features of unlabelled nodes cannot change the embedding."""
    known = torch.cat([small_graph.train, small_graph.val])
    garbage = torch.full_like(small_graph.x, 1e3)
    garbage[known] = small_graph.x[known]
    models = [
        fit("pretrained-embedding", g, NODE_CONFIG, 0).model for g in (small_graph, replace(small_graph, x=garbage))
    ]
    for a, b in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("embedding", ["pretrained", "pretrained-gnn"])
@pytest.mark.parametrize("pooling", ["sum", "mean", "max"])
def test_embedding_equal_nodes_once_changes_nothing(embedding, pooling, molecules):
    """Phase 1's counting of equal nodes against embedding every node and pooling."""
    settings = CONFIG.update(embedding=embedding, pooling=pooling).to_dict()
    model = RAPGNN(molecules.num_features, out_channels=2, edge_channels=3, **settings)
    operator = molecules.operator("gine")
    embedded = PooledEmbedding(model, molecules, operator)
    rows = molecules.train[:7]
    h = model.embedding.embed(model.embedding.inputs(molecules.x, operator))
    whole = operator.pool(h, pooling)
    if embedding == "pretrained":
        # The classifier of phase 1 sees the edges too, so that their embedding is trained with the nodes'.
        how = "sum" if pooling == "max" else pooling
        whole = whole + operator.pool(operator.edges.counts @ model.embedding.edges(operator), how)
    torch.testing.assert_close(embedded(rows, 0), whole[rows], rtol=1e-4, atol=1e-5)


def test_phase_one_does_not_choose_its_epoch_on_the_judged_fold(molecules):
    """With the fold's labels turned around the embedding stays the same."""
    graph = next(paper_folds(replace(molecules, folds=True), 0))
    y = graph.y.clone()
    y[graph.val] = 1 - y[graph.val]
    config = CONFIG.update(pretrain_epochs=15, epochs=1)
    a, b = (fit("rap", g, config, 0).model.embedding for g in (graph, replace(graph, y=y)))
    assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


def embedded_by(graph, config, **settings) -> PooledEmbedding:
    given = config.update(**settings)
    edges = graph.num_edge_features
    model = RAPGNN(graph.num_features, out_channels=graph.num_outputs, edge_channels=edges, **given.to_dict())
    return PooledEmbedding(model, graph, graph.operator(given.backbone))


@pytest.mark.parametrize("pooling", ["sum", "mean", "max"])
@pytest.mark.parametrize("embedding", ["pretrained", "pretrained-gnn"])
@pytest.mark.parametrize("many", [False, True])
def test_rows_never_get_the_slices_of_other_rows(many, embedding, pooling, small_graph, molecules, monkeypatch):
    """Rows kept under a name, rows kept under another, and rows that are not kept: all as if nothing were kept."""
    graph, config = (molecules, CONFIG) if many else (small_graph, NODE_CONFIG)
    make = partial(embedded_by, graph, config, embedding=embedding, pooling=pooling)
    fresh = {name: make()(graph.rows(name), 0) for name in ("train", "val", "test")}
    assert not torch.equal(*(fresh[name][:10] for name in ("train", "val")))
    keeping, sliced, genuine = make(), [], PooledEmbedding._choose
    monkeypatch.setattr(PooledEmbedding, "_choose", lambda *given: (sliced.append(len(given[-1])), genuine(*given))[1])
    for _ in range(2):
        for name in ("train", "val"):
            assert torch.equal(keeping(graph.rows(name), 0, keep=name), fresh[name])
        assert torch.equal(keeping(graph.test, 0), fresh["test"])
    lengths = {name: len(graph.rows(name)) for name in fresh}
    assert sliced == [*lengths.values(), lengths["test"]]  # the second time round what was kept is there
    keeping.forget()
    assert torch.equal(keeping(graph.val, 0, keep="train"), fresh["val"])  # the name is free again


def test_nothing_is_kept_where_features_are_new_in_every_pass(small_graph):
    keeping = embedded_by(small_graph, NODE_CONFIG, random_features=3)
    a, b = (keeping(small_graph.train, step, keep="train") for step in (0, 1))
    assert not torch.equal(a, b)
    again = embedded_by(small_graph, NODE_CONFIG, random_features=3)
    assert torch.equal(again(small_graph.train, 1), b)
