"""The options of a user's folder, as a user types them, and the table of columns that is printed."""

import json
import re
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from commands import refused
from folders import tables, write
from rapgnn import load_dataset

N = 60


def frames() -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=N)
    nodes = pd.DataFrame(
        {
            "nummer": [f"{i:03d}" for i in range(N)],
            "höhe": 20 + 5.0 * kind + rng.normal(size=N),
            "gepflanzt": [f"{1 + i % 28:02d}.{1 + i % 12:02d}.2024" for i in range(N)],
            "boden": np.array(["Lehm", "Sand"])[kind],
            "name": [f"Pflanze Nr. {i}" for i in range(N)],
            "art": np.array(["Rose", "Farn"])[kind],
        }
    )
    ends = [(u, int(rng.choice(np.flatnonzero(kind == kind[u])))) for u in rng.integers(N, size=200).tolist()]
    edges = pd.DataFrame([(f"{u:03d}", f"{v:03d}") for u, v in ends], columns=["von", "nach"])
    return nodes, edges


OPTIONS = ("--id", "nummer", "--label", "art", "--source", "von", "--target", "nach")


@pytest.fixture
def garten(tmp_path):
    """A folder as a German spreadsheet writes it."""
    folder = tmp_path / "garten"
    folder.mkdir()
    for stem, table in zip(("nodes", "edges"), frames(), strict=True):
        table.to_csv(folder / f"{stem}.csv", index=False, sep=";", decimal=",", encoding="cp1252")
    return folder


def test_fit_predict_and_evaluate_remember_the_columns(rapgnn, garten, tmp_path):
    model = tmp_path / "model"
    code, out, err = rapgnn("fit", garten, "--out", model, *OPTIONS)
    assert code == 0, err
    assert "semicolons between cells, decimal commas and encoding cp1252" in err
    assert err.count("--encoding") == 1
    assert "columns left out: name" in err
    lines = out.splitlines()
    table = lines[: next(i for i, line in enumerate(lines) if line.startswith("saved"))]
    assert [line.split()[0] for line in table[:7]] == [
        *("nodes.csv", "nummer", "höhe", "gepflanzt", "boden", "name", "art")
    ]
    assert [line.split()[1] for line in table[1:5]] == ["id", "number", "date", "category,"]
    assert all(len(line) <= 80 for line in table)
    assert len({line.index("read as") for line in table if "read as" in line}) == 1
    code, _, err = rapgnn("predict", model, garten, "--out", tmp_path / "p.csv")
    assert code == 0, err
    found = pd.read_csv(tmp_path / "p.csv", dtype={"id": str})
    assert list(found["id"]) == [f"{i:03d}" for i in range(N)]
    assert rapgnn("evaluate", model, garten)[0] == 0


def test_data_info_takes_the_same_options(rapgnn, garten, tmp_path):
    code, out, err = rapgnn("data", "info", garten, *OPTIONS, "--ignore", "boden,name", "--json", tmp_path / "i.json")
    assert code == 0, err
    assert "left out: --ignore" in out
    assert all(len(line) <= 80 for line in out.splitlines())
    columns = json.loads((tmp_path / "i.json").read_text())[0]["columns"]
    assert {"file": "nodes.csv", "column": "gepflanzt", "read_as": "date", "features": 1} in columns
    code, _, err = rapgnn("data", "info", garten)
    assert code == 2
    (line,) = err.splitlines()
    for option in ("--label", "--source", "--target"):
        assert option in line


def test_tables_that_lie_in_no_folder_together(rapgnn, plants, tmp_path):
    nodes, edges = tmp_path / "species.csv", tmp_path / "seen together.csv"
    for path, stem in ((nodes, "nodes"), (edges, "edges")):
        (plants / f"{stem}.csv").rename(path)
    files, model = ("--nodes", nodes, "--edges", edges), tmp_path / "model"
    code, out, err = rapgnn("fit", *files, "--out", model, "--no-search")
    assert (code, f"--nodes {nodes} --edges '{edges}' --out predictions.csv" in out) == (0, True), err
    assert rapgnn("predict", model, *files, "--out", tmp_path / "p.csv")[0] == 0
    assert len(pd.read_csv(tmp_path / "p.csv")) == 90
    assert rapgnn("evaluate", model, *files)[0] == 0
    assert rapgnn("compare", *files, "--methods", "no-edges", "--seeds", 1)[0] == 0
    assert "nodes            90" in rapgnn("data", "info", *files)[1]
    refused(rapgnn("fit", *files[:2], "--out", model), "the file of edges is not named")
    refused(rapgnn("fit", plants, *files, "--out", model), "give a folder or a dataset, or else the files")
    refused(rapgnn("fit", "--out", model), "give a folder or a dataset, or else the files")
    (plants / "nodes.csv").touch()
    refused(rapgnn("fit", plants, *files, "--memory", "1GiB", "--out", model), "is for graphs in memory")


def test_rows_are_divided_by_group_or_by_time(rapgnn, tmp_path):
    nodes, edges = tables()
    nodes = nodes.assign(field=np.arange(90) % 11, seen=pd.date_range("2024-01-30", periods=90).strftime("%d.%m.%Y"))
    folder = write(tmp_path / "fields", nodes=nodes, edges=edges)
    graph = load_dataset(folder, group="field")
    fields = [set(nodes["field"].iloc[graph.rows(split)]) for split in ("train", "val", "test")]
    assert [a & b for a, b in combinations(fields, 2)] == [set()] * 3
    assert min(map(len, fields)) > 0
    graph = load_dataset(folder, time="seen")
    assert np.concatenate([graph.rows(split) for split in ("train", "val", "test")]).tolist() == list(range(90))
    code, out, err = rapgnn("fit", folder, "--out", tmp_path / "m", "--no-search", "--time", "seen")
    assert (code, "54 / 18 / 18 (train / val / test), the earliest by seen first" in err) == (0, True), err
    assert re.search(r"seen +time", out)
    refused(rapgnn("fit", folder, "--out", tmp_path / "m", "--group", "field", "--time", "seen"), "not by both")
    refused(rapgnn("fit", folder, "--out", tmp_path / "m", "--time", "colour"), "must hold numbers or dates")
    refused(rapgnn("fit", folder, "--out", tmp_path / "m", "--group", "farm"), "no column named 'farm'")
    write(folder, nodes=nodes.assign(split="train"))
    refused(rapgnn("fit", folder, "--out", tmp_path / "m", "--group", "field"), "names a split already", "--ignore")


def test_a_wide_table_is_cut(rapgnn, tmp_path):
    nodes, edges = frames()
    wide = pd.concat([nodes, pd.DataFrame(np.random.default_rng(0).random((N, 200))).add_prefix("x")], axis=1)
    wide = wide.rename(columns={"boden": "b" * 100})
    wide.to_csv(tmp_path / "nodes.csv", index=False)
    edges.to_csv(tmp_path / "edges.csv", index=False)
    code, out, err = rapgnn("data", "info", tmp_path, *OPTIONS)
    assert code == 0, err
    assert len(out.splitlines()) < 70
    assert "x0 ... x199" in out
    assert "200 columns, each: number" in out
    assert all(len(line) <= 80 for line in out.splitlines())
    mixed = {f"x{i}": [("a", "b")[i % 2], "c"] * (N // 2) if i % 2 else range(N) for i in range(100)}
    pd.concat([nodes, pd.DataFrame(mixed)], axis=1).to_csv(tmp_path / "nodes.csv", index=False)
    code, out, err = rapgnn("data", "info", tmp_path, *OPTIONS)
    assert code == 0, err
    assert "more lines with" in out
    assert len(out.splitlines()) < 70
