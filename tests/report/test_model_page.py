"""The page about a model: written for every kind of label, its numbers are the model's, a user's words stay words."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix

from html_pages import ReadPage
from rapgnn import InputError, RAPNodeClassifier
from rapgnn.datasets.catalog import BlockModel
from rapgnn.estimators import estimator_for
from rapgnn.estimators.predictions import UnfittedError
from rapgnn.report import page as library
from rapgnn.report.model import SECTIONS, write_model_report
from samples import FAST, collection, node_data

pytest.importorskip("plotly")
BLOCKS = BlockModel(nodes=300, classes=3, features=6, signal=3.0, train=10, val=60, test=100, seed=1)


def read(path: Path) -> ReadPage:
    return ReadPage(path.read_text())


@pytest.fixture(scope="module")
def fitted(small_graph):
    return RAPNodeClassifier(seed=0).fit(small_graph)


@pytest.fixture(scope="module")
def page(fitted, small_graph, tmp_path_factory) -> ReadPage:
    path = tmp_path_factory.mktemp("model") / "model.html"
    fitted.report(path, data=small_graph)
    assert path.stat().st_size < 5_000_000
    return read(path)


def facts(page: ReadPage, section: str) -> str:
    return " ".join(page.words[section].split())


def test_the_page_has_every_section(page):
    assert len(page.sections) == len(SECTIONS)
    assert "Not shown" not in " ".join(page.words.values())
    assert len(page.plots) == 13


def test_the_score_is_the_estimators(fitted, small_graph, page):
    score = fitted.score(small_graph, split="test")
    assert json.loads(page.scripts["page-data"])["score"] == score
    assert f"{100 * score:.2f} %" in facts(page, "how-good-it-is")
    assert page.table("right-and-wrong", "Every metric").cell("accuracy", "test") == f"{100 * score:.2f} %"


def test_the_confusion_matrix_counts_the_test_rows(fitted, small_graph, page):
    rows = small_graph.test.numpy()
    wanted = confusion_matrix(small_graph.y.numpy()[rows], fitted.predict(small_graph)[rows])
    table = page.table("right-and-wrong", "Confusion matrix")
    assert np.array_equal(np.array([row[1:] for row in table.rows], dtype=int), wanted)
    per_class = page.table("right-and-wrong", "Precision and recall")
    assert per_class.cell("0", "recall") == f"{100 * wanted[0, 0] / wanted[0].sum():.1f} %"


def test_the_least_sure_rows_are_those_with_the_lowest_probability(fitted, small_graph, page):
    p = fitted.predict_proba(small_graph).max(1)
    p[small_graph.train.numpy()] = 2
    table = page.table("least-sure-rows", "The 20 least sure rows")
    shown = [float(row[2].rstrip(" %")) for row in table.rows]
    assert shown == pytest.approx(100 * np.sort(p)[:20], abs=0.051)


def test_single_rows_are_explained(fitted, small_graph, page):
    table, p = page.table("what-moved-single-rows", "Reasons"), fitted.predict_proba(small_graph)
    test = small_graph.test.numpy()
    shown = sorted({int(row[0]) for row in table.rows})
    assert int(test[p[test].max(1).argmin()]) in shown
    (first, *_) = fitted.explain(small_graph, [shown[0]])
    moved = {row[2]: float(row[3]) for row in table.rows if row[:2] == [str(shown[0]), "column"]}
    wanted = first.columns.iloc[: len(moved)]
    assert moved == pytest.approx(dict(zip(wanted["column"], wanted["contribution"], strict=True)), abs=1e-4)


@pytest.mark.parametrize("task", ["graph-classification", "graph-regression", "graph-multilabel", "node-multilabel"])
def test_every_kind_of_label_has_its_page(task, tmp_path):
    level, kind = task.split("-")
    labels = BlockModel(nodes=200, labels=3, features=6, train=20, val=30, test=50, seed=2)
    graph = collection(kind, graphs=60) if level == "graph" else labels.generate()
    path = tmp_path / "page.html"
    estimator_for(task)(**(FAST if level == "node" else {"search": False})).fit(graph).report(path, graph)
    found = read(path)
    assert len(found.sections) == len(SECTIONS)
    missing = re.findall(r"Not shown: [^.]*", " ".join(found.words.values()))
    assert all("whole graphs" in sentence for sentence in missing)
    assert len(missing) == (level == "graph")


def test_a_graph_that_does_not_help_is_warned_of(tmp_path):
    graph = BlockModel(nodes=900, classes=2, homophily=0.5, signal=0.6, train=100, val=100, test=600, seed=1).generate()
    RAPNodeClassifier(**FAST).fit(graph).report(tmp_path / "page.html", graph)
    assert "The graph does not help" in read(tmp_path / "page.html").words["how-good-it-is"]


def test_a_users_words_stay_words(tmp_path):
    bad = "</script><img src=x onerror=alert(1)>"
    graph = replace(
        BLOCKS.generate(), classes=(bad, "b", "c"), ids=np.array([f"{bad}{i}" for i in range(300)]), name=bad
    )
    model = RAPNodeClassifier(**FAST).fit(graph)
    model.report(tmp_path / "page.html", graph)
    found = read(tmp_path / "page.html")  # refuses a page whose elements do not close
    assert "img" not in [tag for tag, _ in found.tags]
    assert bad in found.words["right-and-wrong"]


def test_the_same_model_gives_the_same_page(fitted, small_graph, tmp_path, fresh_random_state):
    texts = []
    for name in ("a.html", "b.html"):
        fitted.report(tmp_path / name, small_graph)
        texts.append(re.sub(r'"seconds.*?"', "", (tmp_path / name).read_text()))
    assert texts[0] == texts[1]


def test_data_without_splits_are_judged_by_those_of_the_fit(tmp_path):
    data = node_data(masks=False)
    model = RAPNodeClassifier(**FAST).fit(data)
    model.report(tmp_path / "page.html", data)
    found = read(tmp_path / "page.html")
    assert f"{len(model.split_['test'])} test rows" in found.words[""]
    assert json.loads(found.scripts["page-data"])["score"] == model.score(data, split="test")


def test_a_page_says_what_is_known_of_the_search(fitted, small_graph, tmp_path):
    alone = RAPNodeClassifier(search=False).fit(small_graph)
    fitted.save(tmp_path / "model")
    loaded = RAPNodeClassifier.load(tmp_path / "model")
    said = {"alone": "There was no search", "fitted": f"by {fitted.ranked_by_} on", "loaded": "A search chose these"}
    for name, model in {"alone": alone, "fitted": fitted, "loaded": loaded}.items():
        model.report(tmp_path / "page.html", small_graph)
        chosen = read(tmp_path / "page.html").words["what-was-chosen"]
        assert {key for key, words in said.items() if words in chosen} == {name}


def test_what_cannot_be_reported_is_refused(fitted, small_graph, tmp_path, monkeypatch):
    with pytest.raises(UnfittedError):
        RAPNodeClassifier().report(tmp_path / "page.html", small_graph)
    bare = replace(small_graph, y=small_graph.y.new_full((300,), -1))
    with pytest.raises(InputError, match="needs labels"):
        write_model_report(fitted, bare, tmp_path / "page.html")
    monkeypatch.setattr(library, "NEEDED", ("a_package_that_nobody_has",))
    with pytest.raises(InputError, match=r"pip install 'rapgnn\[report\]'"):
        fitted.report(tmp_path / "page.html", small_graph)
    assert not list(tmp_path.iterdir())
