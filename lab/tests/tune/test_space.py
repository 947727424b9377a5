"""Spaces hold what a graph admits, and nothing else."""

from dataclasses import replace
from pathlib import Path

import optuna
import pytest
import torch

from rapgnn import Graph, InputError
from rapgnn.compare import STRATEGIES, fit
from rapgnn.network.encode import EMBEDDINGS
from rapgnn.search.start import start_config
from rapgnn_lab.baselines.systems import METHODS
from rapgnn_lab.store import read_records
from rapgnn_lab.tune.space import PATIENCE, SPACES, WIDEST, suggest
from samples import KINDS

TUNE = Path(__file__).resolve().parents[3] / "results" / "tune"


@pytest.mark.parametrize("method", STRATEGIES)
@pytest.mark.parametrize("space", SPACES)
def test_every_strategy_has_a_space(method, space, small_graph):
    many = replace(small_graph, ptr=torch.arange(301), task="graph-classification")
    graphs = [replace(small_graph, name=d) for d in ("cora", "citeseer", "pubmed", "sbm")]
    names = ("mutag", "ptc", "proteins", "molesol", "moltox21", "molhiv", "molbace", "own")
    for graph in (*graphs, *(replace(many, name=name) for name in names)):
        for embedding in EMBEDDINGS:
            trial = optuna.create_study().ask()
            if space == "faithful" and graph.name in ("sbm", "own"):
                with pytest.raises(InputError):
                    suggest(trial, method, embedding, space, graph)
            else:
                settings = suggest(trial, method, embedding, space, graph)
                start_config(graph, METHODS[method].trained).update(**settings)


@pytest.mark.parametrize("method", STRATEGIES)
def test_the_faithful_space_is_the_papers(method, small_graph):
    study, embeddings = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1)), set()
    for _ in range(10):
        s = suggest(study.ask(), method, None, "faithful", replace(small_graph, name="cora"))
        assert (s["inference"], s["jumping"], s["pooling"], s["epochs"]) == ("sample", "last", "sum", 700)
        assert ("embedding_layers" in s) == (s["embedding"] == "pretrained")  # one layer of GCN has one weight
        embeddings.add(s["embedding"])
        if method != "pretrained-embedding":
            assert s["num_layers"] in (2, 4, 8, 16)
            assert 0.001 <= s["lr"] <= 0.01
            assert 0.0 <= s["dropout"] <= 0.5
            assert s["head"] == "linear"
        assert (s.get("distribution") in ("glorot", "linear")) == method.endswith("-full")
    trained = METHODS[method].trained
    assert embeddings == ({"pretrained"} if trained else {"pretrained", "pretrained-gnn"})
    many = replace(small_graph, ptr=torch.arange(301), task="graph-classification")
    for name, *expected, factors in (("mutag", "pretrained", "mlp", 2), ("molhiv", "pretrained-gnn", "linear", 3)):
        s = suggest(optuna.create_study().ask(), "rap", None, "faithful", replace(many, name=name))
        assert [s["embedding"], s["head"]] == expected
        assert s["factors"] in (1, factors)
        s = suggest(optuna.create_study().ask(), "end-to-end", None, "faithful", replace(many, name=name))
        assert s["factors"] == factors


def test_on_molecules_pooling_the_embeddings_layer_and_dropout_of_the_head_are_searched(small_graph):
    molecules = replace(small_graph, ptr=torch.arange(301), task="graph-classification", name="molbace")
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=2))
    drawn = [suggest(study.ask(), "rap", None, "faithful", molecules) for _ in range(20)]
    assert {s["pooling"] for s in drawn} == {"sum", "mean"}
    assert {s["embedding_layers"] for s in drawn} == {1, 3}
    assert all(s["dropout"] == 0 or 0.4 <= s["dropout"] <= 0.6 for s in drawn)
    assert 0 < sum(s["dropout"] == 0 for s in drawn) < len(drawn)
    trained = [suggest(study.ask(), "end-to-end", None, "faithful", molecules) for _ in range(10)]
    assert {s["pooling"] for s in trained} == {"sum", "mean"}
    assert all(s["dropout"] >= 0.4 and "embedding_layers" not in s for s in trained)
    assert {s["patience"] for s in drawn} == {None}  # every epoch of the table, unless layers are trained
    assert {s["patience"] for s in trained} == {PATIENCE}


def test_what_was_searched_before_is_still_in_the_space(small_graph):
    """Every recorded choice of the methods that are compared is a point of its space, which may have grown since."""
    choices = [c for c in read_records(TUNE / "faithful.json") if c["method"] in ("rap", "end-to-end")]
    assert len(choices) > 20
    for choice in choices:
        many = choice["dataset"] not in ("cora", "citeseer", "pubmed")
        graph = replace(small_graph, name=choice["dataset"], ptr=torch.arange(301) if many else None)
        graph = replace(graph, task="graph-classification") if many else graph
        recorded = {key: round(v, 12) if isinstance(v, float) else v for key, v in choice["settings"].items()}
        asked = recorded | {"embedding_factors": recorded.get("embedding_layers", 1), "head_dropout": True}
        point = suggest(optuna.trial.FixedTrial(asked), choice["method"], choice["embedding"], "faithful", graph)
        asked = [key for key in recorded if key in point and key not in ("keep_draw", "patience")]
        assert {key: point[key] for key in asked} == {key: recorded[key] for key in asked}
        assert set(recorded) - set(point) <= {"embedding_output", "embedding_layers"}


def _draws(graph: Graph, method: str, embedding: str | None, count: int) -> list[dict]:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=count))
    return [suggest(study.ask(), method, embedding, "any", graph) for _ in range(count)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_space_for_any_graph_holds_what_the_graph_admits(kind):
    graph = KINDS[kind]
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
