"""Links from the shell: ``rapgnn fit --links``, and what follows."""

import json

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from commands import refused
from html_pages import ReadPage


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A folder of friendships with times, and a table of later ones."""
    folder = tmp_path_factory.mktemp("friends")
    ends = np.random.default_rng(0).permutation(np.array(nx.planted_partition_graph(3, 30, 0.4, 0.01, seed=0).edges))
    table = pd.DataFrame(ends, columns=["source", "target"]).map(lambda i: f"n{i}")
    table.assign(when=np.arange(len(table)))[40:].to_csv(folder / "edges.csv", index=False)
    table[:40].to_csv(folder / "pairs.csv", index=False)
    return folder


def test_from_a_table_to_recommendations(rapgnn, tables, tmp_path):
    edges, pairs, model = tables / "edges.csv", tables / "pairs.csv", tmp_path / "model"
    words = ("fit", edges, "--links", "--time", "when", "--no-search", "--out", model, "--json", tmp_path / "fit.json")
    code, _, err = rapgnn(*words)
    assert code == 0, err
    record = json.loads((tmp_path / "fit.json").read_text())[0]
    assert record["task"] == "link-classification"
    assert record["scored_split"] == "val"
    assert record["score"] == record["rocauc"] > record["popularity"]
    assert rapgnn("predict", model, edges, "--pairs", pairs, "--out", tmp_path / "p.csv")[0] == 0
    predicted = pd.read_csv(tmp_path / "p.csv")
    assert list(predicted) == ["source", "target", "probability", "known"]
    assert set(predicted["known"]) == {"no"}
    assert rapgnn("predict", model, edges, "--top", "3", "--out", tmp_path / "r.csv")[0] == 0
    assert pd.read_csv(tmp_path / "r.csv").groupby("node").size().eq(3).all()
    assert rapgnn("evaluate", model, edges, "--json", tmp_path / "e.json")[0] == 0
    again = json.loads((tmp_path / "e.json").read_text())[0]
    assert again["score"] == pytest.approx(record["score"])
    assert rapgnn("evaluate", model, edges, "--pairs", pairs, "--json", tmp_path / "e.json")[0] == 0
    assert json.loads((tmp_path / "e.json").read_text())[0]["scored_rows"] == 40


def test_links_of_one_relation_of_tables(rapgnn, tmp_path):
    """People of two tastes buy things of two kinds; both are numbered from 0."""
    rng, shop = np.random.default_rng(0), tmp_path / "shop"
    shop.mkdir()
    who, kind = np.repeat(np.arange(40), 5), rng.integers(0, 5, 200)
    pd.DataFrame({"id": range(40), "age": rng.random(40)}).to_csv(shop / "people.csv", index=False)
    pd.DataFrame({"id": range(10), "price": rng.random(10)}).to_csv(shop / "things.csv", index=False)
    bought = pd.DataFrame({"people_id": who, "things_id": 2 * kind + who % 2}).drop_duplicates()
    bought.to_csv(shop / "buys.csv", index=False)
    model, words = tmp_path / "model", ("--links", "--relation", "people,buys,things", "--no-search")
    code, _, err = rapgnn("fit", shop, *words, "--out", model)
    assert code == 0, err
    assert rapgnn("predict", model, shop, "--top", "2", "--out", tmp_path / "r.csv")[0] == 0
    best = pd.read_csv(tmp_path / "r.csv")
    assert set(best.node) == set(range(40))
    assert (best.neighbour < 10).all()
    assert not best.merge(bought, left_on=["node", "neighbour"], right_on=["people_id", "things_id"]).size
    pd.DataFrame({"source": [0, 0], "target": [8, 9]}).to_csv(tmp_path / "pairs.csv", index=False)
    assert rapgnn("predict", model, shop, "--pairs", tmp_path / "pairs.csv", "--out", tmp_path / "p.csv")[0] == 0
    same, other = pd.read_csv(tmp_path / "p.csv").probability
    assert same > other
    timed = ("--relation", "people,buys,things", "--time", "when")
    refused(rapgnn("fit", shop, "--links", *timed, "--out", tmp_path / "no"), "relation", "--time")
    for wrong in (("--relation", "people,buys"), ("--relation", "people,eats,things"), ()):
        refused(rapgnn("fit", shop, "--links", *wrong, "--out", tmp_path / "no"), "relation")
    refused(rapgnn("fit", shop, "--relation", "people,buys,things", "--out", tmp_path / "no"), "--links")


def test_a_split_hides_its_test_links(rapgnn, tables, tmp_path):
    table = pd.read_csv(tables / "edges.csv")[["source", "target"]].map(lambda name: int(name[1:]))
    table["split"] = np.where(np.arange(len(table)) % 5 == 0, "test", "train")
    table.to_csv(tmp_path / "edges.csv", index=False)
    rapgnn("fit", tmp_path / "edges.csv", "--links", "--no-search", "--out", tmp_path / "m", "--json", tmp_path / "a")
    table[table["split"] == "train"].to_csv(tmp_path / "train.csv", index=False)
    rapgnn("fit", tmp_path / "train.csv", "--links", "--no-search", "--out", tmp_path / "n", "--json", tmp_path / "b")
    hidden, apart = (json.loads((tmp_path / name).read_text())[0] for name in "ab")
    assert hidden["scored_split"] == "test"
    assert hidden["trials"] == apart["trials"]  # the test links moved nothing


def test_a_page_about_links(rapgnn, tables, tmp_path):
    pytest.importorskip("plotly")
    page = tmp_path / "page.html"
    words = ("fit", tables / "edges.csv", "--links", "--no-search", "--out", tmp_path / "model", "--report", page)
    code, _, err = rapgnn(*words)
    assert code == 0, err
    methods = ReadPage(page.read_text()).table("how-good-it-is", "Held-out").rows
    assert methods[0][0] == "this model"
    assert "common neighbours" in [row[0] for row in methods]


def test_refusals(rapgnn, tables, tmp_path):
    edges, model = tables / "edges.csv", tmp_path / "model"
    refused(rapgnn("fit", edges, "--links", "--out", model, "--label", "when"), "--label")
    refused(rapgnn("fit", edges, "--links", "--out", model, "--metric", "f1"), "--metric")
    refused(rapgnn("fit", edges, "--links", "--out", model, "--time", "never"), "never")
    assert rapgnn("fit", edges, "--links", "--no-search", "--out", model)[0] == 0
    refused(rapgnn("predict", model, edges, "--out", tmp_path / "p.csv"), "--top")
    refused(rapgnn("predict", model, edges, "--top", "0", "--out", tmp_path / "p.csv"), "--top")
    refused(rapgnn("predict", model, edges, "--pairs", tmp_path / "no.csv", "--out", tmp_path / "p.csv"), "no.csv")
    (tmp_path / "none.csv").write_text("source,target\n")
    refused(rapgnn("predict", model, edges, "--pairs", tmp_path / "none.csv", "--out", tmp_path / "p.csv"), "no pairs")
    assert not (tmp_path / "p.csv").exists()
    (tmp_path / "plain.csv").write_text("source,target\na,b\nb,c\n")
    words = ("fit", tmp_path / "plain.csv", "--edge-label", "nowhere", "--out", tmp_path / "m")
    refused(rapgnn(*words), "'nowhere'; it has no other column")


def test_a_column_of_the_edges_is_learned(rapgnn, tables, tmp_path):
    table = pd.read_csv(tables / "edges.csv").assign(cost=np.arange(len(pd.read_csv(tables / "edges.csv"))) % 7)
    table["kind"] = np.where(table["cost"] > 3, "dear", "cheap")
    table.drop(columns="when").to_csv(tmp_path / "edges.csv", index=False)
    words = ("--edge-label", "kind", "--no-search", "--out", tmp_path / "model", "--json", tmp_path / "fit.json")
    code, _, err = rapgnn("fit", tmp_path / "edges.csv", *words)
    assert code == 0, err
    record = json.loads((tmp_path / "fit.json").read_text())[0]
    assert record["task"] == "edge-classification"
    assert record["score"] > 0.9
    assert rapgnn("predict", tmp_path / "model", tmp_path / "edges.csv", "--out", tmp_path / "p.csv")[0] == 0
    predicted = pd.read_csv(tmp_path / "p.csv")
    assert predicted["id"][0] == f"{table['source'][0]} -> {table['target'][0]}"
    assert (predicted["label"] == table["kind"]).mean() > 0.9
    refused(rapgnn("fit", tmp_path / "edges.csv", "--edge-label", "cost", "--label", "kind", "--out", "m"), "--label")
