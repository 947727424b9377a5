"""What becomes of every column: dates, names, many categories, and one table that tells it all."""

import json

import numpy as np
import pandas as pd
import pytest

from rapgnn import InputError, RAPNodeClassifier, load_dataset
from rapgnn.datasets.folder import Reading
from rapgnn.graph.table import Encoding
from rapgnn.sparse import dense

N = 120


def garden(n: int = N, **columns) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=n)
    nodes = pd.DataFrame({"id": [f"p{i}" for i in range(n)], "height": 10.0 * kind + rng.normal(size=n)} | columns)
    nodes["label"] = np.array(["rose", "fern"])[kind]
    return nodes, pd.DataFrame({"source": nodes["id"][:-1].to_numpy(), "target": nodes["id"][1:].to_numpy()})


def write(folder, nodes, edges):
    folder.mkdir(parents=True, exist_ok=True)
    nodes.to_csv(folder / "nodes.csv", index=False)
    edges.to_csv(folder / "edges.csv", index=False)
    return folder


def told(graph) -> dict[str, str]:
    return {use.column: use.read_as for use in graph.encoding.uses if use.file == "nodes.csv"}


DAYS = pd.date_range("2023-06-28", periods=N, freq="3D")
WRITTEN = {
    "ISO": [str(d.date()) for d in DAYS],
    "ISO, a time": [f"{d.date()}T12:00:00" for d in DAYS],
    "ISO, a zone": [f"{d.date()} 12:00:00+02:00" for d in DAYS],
    "German": [d.strftime("%d.%m.%Y") for d in DAYS],
    "German, short": [d.strftime("%d.%m.%y") for d in DAYS],
    "US": [d.strftime("%m/%d/%Y") for d in DAYS],
    "British": [d.strftime("%d/%m/%Y %H:%M") for d in DAYS],
}


@pytest.mark.parametrize("way", WRITTEN)
def test_dates_become_days(tmp_path, way):
    graph = load_dataset(write(tmp_path, *garden(planted=WRITTEN[way])))
    assert told(graph)["planted"] == "date"
    days = np.arange(N) * 3.0
    found = dense(graph.x)[:, 1].numpy()
    np.testing.assert_allclose(found, (days - days.mean()) / days.std(), atol=1e-4)


def test_dates_of_parquet_and_of_another_file(tmp_path):
    nodes, edges = garden(planted=WRITTEN["ISO"])
    graph = load_dataset(write(tmp_path / "a", nodes, edges))
    for planted in (WRITTEN["German"], WRITTEN["US"]):  # another file may write them another way
        again = load_dataset(
            write(tmp_path / "b", nodes.assign(planted=planted), edges),
            reading=Reading(encoding=graph.encoding, trained=True, labelled=False),
        )
        np.testing.assert_allclose(dense(again.x), dense(graph.x), atol=1e-5)
    stamps = tmp_path / "c"
    stamps.mkdir()
    nodes.assign(planted=DAYS).to_parquet(stamps / "nodes.parquet")
    edges.to_parquet(stamps / "edges.parquet")
    np.testing.assert_allclose(dense(load_dataset(stamps).x), dense(graph.x), atol=1e-4)
    with pytest.raises(InputError, match="'planted' must hold dates such as 2024-12-31"):
        load_dataset(
            write(tmp_path / "d", nodes.assign(planted="soon"), edges),
            reading=Reading(encoding=graph.encoding, trained=True, labelled=False),
        )


def test_unclear_dates_are_left_out(tmp_path):
    unclear = [f"{1 + i % 12}/{1 + (i * 5) % 12}/2024" for i in range(N)]
    graph = load_dataset(write(tmp_path, *garden(planted=unclear)))
    assert told(graph)["planted"].startswith("left out: dates")
    assert any("day or month" in note for note in graph.notes)
    versions = [f"1.{i % 5}.{i % 4}" for i in range(N)]
    assert told(load_dataset(write(tmp_path, *garden(version=versions))))["version"].startswith("category")


def test_a_slip_among_dates_is_named(tmp_path):
    wrong = [*WRITTEN["ISO"][:-1], "2024-02-30"]
    with pytest.raises(InputError, match=r"nodes.csv: column 'planted' holds dates, but '2024-02-30'.*--ignore"):
        load_dataset(write(tmp_path, *garden(planted=wrong)))


def test_names_and_empty_columns_are_left_out_with_a_notice(tmp_path):
    names = [f"plant number {i}" for i in range(N)]
    nodes, edges = garden(name=names, nothing=None)
    graph = load_dataset(write(tmp_path, nodes, edges))
    assert graph.num_features == 1
    assert told(graph)["name"] == "left out: a name, 120 different values in 120 nodes"
    assert told(graph)["nothing"] == "left out: it is empty"
    assert (
        sum("columns left out: name (a name" in note and "nothing (it is empty)" in note for note in graph.notes) == 1
    )
    with pytest.raises(InputError, match="a name rather than a feature"):  # there is nothing else to learn from
        load_dataset(write(tmp_path, nodes.drop(columns="height"), edges))


def test_a_column_that_numbers_the_rows_is_left_out(tmp_path):
    nodes, edges = garden()
    write(tmp_path, nodes, edges)
    nodes.to_csv(tmp_path / "nodes.csv")  # with its index
    graph = load_dataset(tmp_path)
    assert graph.num_features == 1
    assert told(graph)["Unnamed: 0"] == "left out: it numbers the rows"


def test_many_categories_share_a_feature(tmp_path):
    rng = np.random.default_rng(0)
    city = [f"c{i % 100}" for i in range(900)] + [f"rare {i}" for i in range(100)]
    graph = load_dataset(write(tmp_path / "a", *garden(1000, city=rng.permutation(city))))
    assert graph.num_features == 1 + 101
    assert told(graph)["city"] == "category, 100 values and other"
    assert any("100 most frequent share" in note and "city" in note for note in graph.notes)
    x = dense(graph.x).numpy()
    assert x[:, -1].sum() == 100
    assert (x[:, 1:].sum(axis=1) == 1).all()


def test_the_table_tells_every_column(tmp_path):
    nodes, edges = garden(soil=["clay", "sand", "loam"] * 40, planted=WRITTEN["ISO"], split="", note="x")
    nodes["split"] = (["train", "val", "test"] * N)[:N]
    graph = load_dataset(write(tmp_path, nodes, edges.assign(weight=1.0, kind="a")), ignore=["note"])
    rows = [(use.file, use.column, use.read_as, use.features) for use in graph.encoding.uses]
    assert rows == [
        ("nodes.csv", "id", "id", 0),
        ("nodes.csv", "height", "number", 1),
        ("nodes.csv", "soil", "category, 3 values", 3),
        ("nodes.csv", "planted", "date", 1),
        ("nodes.csv", "split", "split", 0),
        ("nodes.csv", "label", "label", 0),
        ("nodes.csv", "note", "left out: --ignore", 0),
        ("edges.csv", "source", "source", 0),
        ("edges.csv", "target", "target", 0),
        ("edges.csv", "weight", "weight", 0),
        ("edges.csv", "kind", "left out: edge features are for many graphs", 0),
    ]
    assert sum(use.features for use in graph.encoding.uses) == graph.num_features


def test_encodings_survive_a_save(tmp_path):
    rng = np.random.default_rng(0)
    columns = {"city": rng.permutation([f"c{i % 120}" for i in range(600)]), "planted": list(WRITTEN["German"]) * 5}
    nodes, edges = garden(600, **columns)
    nodes = nodes.rename(columns={"id": "plant"})
    edges = edges.rename(columns={"source": "begin", "target": "end"})
    folder = write(tmp_path / "a", nodes, edges)
    graph = load_dataset(folder, id="plant", source="begin", target="end")
    again = Encoding.from_dict(json.loads(json.dumps(graph.encoding.to_dict())))
    assert again == graph.encoding
    read = load_dataset(folder, reading=Reading(encoding=again, trained=True, labelled=False))
    np.testing.assert_array_equal(dense(read.x), dense(graph.x))
    np.testing.assert_array_equal(read.edge_index, graph.edge_index)


def test_an_earlier_encoding_is_read(tmp_path):
    columns = [
        {"name": "height", "shift": 5.0, "scale": 2.0, "categories": None},
        {"name": "soil", "shift": 0.0, "scale": 1.0, "categories": ["clay", "loam", "sand"]},
    ]
    earlier = {"kind": "table", "columns": columns, "edge_columns": []}
    earlier |= {"impute": False, "directed": False, "label": "label"}
    encoding = Encoding.from_dict(earlier)
    assert encoding.to_dict() == earlier  # so that the hash of an earlier model is still its hash
    nodes, edges = garden(soil=["clay", "sand", "loam"] * 40)
    graph = load_dataset(write(tmp_path, nodes, edges), reading=Reading(encoding=encoding, trained=True))
    np.testing.assert_allclose(dense(graph.x)[:, 0], (nodes["height"] - 5) / 2, atol=1e-5)
    for wrong in ({"colour": 1}, {"id": 3}):
        with pytest.raises(InputError, match="damaged"):
            Encoding.from_dict(earlier | wrong)
    for wrong in ({"date": "dym"}, {"other": 1}, {"other": True}):
        with pytest.raises(InputError, match="damaged"):
            Encoding.from_dict(earlier | {"columns": [columns[0] | wrong]})


def test_categories_never_seen_are_counted(tmp_path):
    nodes, edges = garden(soil=["clay", "sand", "loam"] * 40)
    graph = load_dataset(write(tmp_path / "a", nodes, edges))
    nodes.loc[:6, "soil"] = "peat"
    read = load_dataset(
        write(tmp_path / "b", nodes, edges), reading=Reading(encoding=graph.encoding, trained=True, labelled=False)
    )
    assert any("never saw" in note and "soil (7 of 120 nodes)" in note for note in read.notes)


def test_tables_in_python(tmp_path):
    nodes, _ = garden(planted=WRITTEN["US"], name=[f"n{i}" for i in range(N)])
    table, index = nodes.drop(columns=["id", "label"]), np.stack([np.arange(N - 1), np.arange(1, N)])
    both = np.concatenate([index, index[::-1]], axis=1)
    model = RAPNodeClassifier(search=False, head="ridge", embedding="identity")
    with pytest.warns(UserWarning, match="columns left out: name"):
        model.fit(table, nodes["label"], edge_index=both)
    model.save(tmp_path / "m")
    loaded = RAPNodeClassifier.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(table, edge_index=both), model.predict(table, edge_index=both))
