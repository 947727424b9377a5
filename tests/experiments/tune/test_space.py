"""Spaces hold what a graph admits, and nothing else."""

from dataclasses import replace

import pytest
import torch

from rapgnn.errors import InputError
from rapgnn.estimators.start import start_config
from rapgnn.experiments.tune.general import WIDEST
from rapgnn.experiments.tune.space import SPACES, default_space, suggest
from rapgnn.graph.graph import Graph
from rapgnn.layers.embedding import EMBEDDINGS
from rapgnn.training.methods import METHODS, STRATEGIES, fit
from samples import KINDS

optuna = pytest.importorskip("optuna")


@pytest.mark.parametrize("method", STRATEGIES)
@pytest.mark.parametrize("space", SPACES)
def test_every_strategy_has_a_space(method, space, small_graph):
    many = replace(small_graph, ptr=torch.arange(301), task="graph-classification")
    graphs = [(small_graph, d) for d in ("cora", "citeseer", "pubmed", "sbm")]
    graphs += [(many, d) for d in ("mutag", "ptc", "proteins", "molesol", "moltox21", "molhiv", "molbace", "own")]
    for graph, dataset in graphs:
        for embedding in ("pretrained", "pretrained-gnn", "learnable", "fixed-random", "random", "identity"):
            trial = optuna.create_study().ask()
            if space == "faithful" and dataset in ("sbm", "own"):
                with pytest.raises(InputError, match="the paper has no search space"):
                    suggest(trial, method, embedding, space, replace(graph, name=dataset))
                continue
            settings = suggest(trial, method, embedding, space, replace(graph, name=dataset))
            start_config(graph, METHODS[method].trained).update(**settings)


@pytest.mark.parametrize("method", STRATEGIES)
def test_the_faithful_space_is_the_papers(method, small_graph):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    for _ in range(10):
        found = suggest(study.ask(), method, None, "faithful", replace(small_graph, name="cora"))
        assert (found["embedding"], found["inference"], found["jumping"]) == ("pretrained", "sample", "last")
        assert found["hidden_channels"] in (16, 32)
        assert found["epochs"] == 700
        if method != "pretrained-embedding":
            assert found["num_layers"] in (2, 4, 8, 16)
            assert 0.001 <= found["lr"] <= 0.01
            assert 0.0 <= found["dropout"] <= 0.5
            assert found["head"] == "linear"
        assert (found.get("distribution") in ("glorot", "linear")) == method.endswith("-full")
    many = replace(small_graph, ptr=torch.arange(301), task="graph-classification")
    for name, embedding, factors, head in (
        ("mutag", "pretrained", 2, "mlp"),
        ("molhiv", "pretrained-gnn", 3, "linear"),
    ):
        found = suggest(optuna.create_study().ask(), "rap", None, "faithful", replace(many, name=name))
        assert (found["embedding"], found["head"]) == (embedding, head)
        assert found["factors"] in (1, factors)
        trained = suggest(optuna.create_study().ask(), "end-to-end", None, "faithful", replace(many, name=name))
        assert trained["factors"] == factors


def _draws(graph: Graph, method: str, embedding: str | None, count: int) -> list[dict]:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=count))
    return [suggest(study.ask(), method, embedding, "any", graph) for _ in range(count)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_space_for_any_graph_holds_what_the_graph_admits(kind):
    graph = KINDS[kind]
    assert default_space(graph) == "any"
    for method in STRATEGIES:
        for embedding in (None, *EMBEDDINGS):
            for s in _draws(graph, method, embedding, 15):
                c = METHODS[method].configure(start_config(graph, METHODS[method].trained).update(**s))
                assert embedding in (None, c.embedding)
                assert (c.backbone in ("gin", "gine")) == (graph.ptr is not None) or "backbone" not in s
                assert c.backbone != "gine" or graph.edge_attr is not None
                before = EMBEDDINGS[c.embedding].trained == "before"
                assert any(name.startswith("pretrain") for name in s) == (before and method != "end-to-end")
                assert ("lr" in s) == (c.head != "ridge" and method != "pretrained-embedding")
                if c.jumping == "cat" and c.embedding != "identity" and "num_layers" in s:
                    assert c.hidden_channels * (c.num_layers + 1) <= WIDEST
    drawn = _draws(graph, "rap", None, 60)
    assert {s["embedding"] for s in drawn} == {"pretrained", "pretrained-gnn", "fixed-random", "identity"}
    assert {s["head"] for s in drawn} == {"linear", "mlp", "ridge"}
    assert {s["jumping"] for s in drawn} == {"last", "cat"}
    assert any(s.get("activation") == "identity" for s in drawn) == ("signed" in kind or kind == "negative edges")
    assert any(s["backbone"] == "gine" for s in drawn) == kind.endswith("with edges")


@pytest.mark.parametrize("kind", KINDS)
def test_every_point_for_any_graph_has_the_exact_shortcut(kind):
    graph = replace(KINDS[kind], folds=False)
    quick = {"epochs": 2, "pretrain_epochs": 2}
    for settings in _draws(graph, "rap", None, 6):
        fitted = fit("rap", graph, start_config(graph).update(**settings | quick), 0)
        assert fitted.engine == "polynomial", settings
        assert fitted.predict(graph.val).scores.isfinite().all()
    for method in ("end-to-end", "fixed-full"):
        for settings in _draws(graph, method, None, 1):
            fit(method, graph, start_config(graph, METHODS[method].trained).update(**settings | quick), 0)
