"""A folder of tables gives the same graph on disk as the reader of small files, and the same faults."""

import gzip
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import folders
from big_folders import MEMORY, both, plain, same
from disk_cases import full_disk
from rapgnn.datasets.columns import Reading
from rapgnn.datasets.tables import read_folder
from rapgnn.errors import InputError, OutputError
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.scale.tables import arrays, convert
from rapgnn.scale.tables.convert import convert_folder
from strategies import edge_lists


def numbered(nodes, edges):
    row = pd.Series(range(len(nodes)), index=nodes["id"])
    return nodes.drop(columns="id"), edges.apply(lambda ends: ends.map(row))


def labelled(nodes, edges):
    rng = np.random.default_rng(2)
    for i, name in enumerate("pqr"):
        nodes[f"label_{name}"] = np.where(np.arange(90) % 3 == i, np.nan, rng.integers(2, size=90))
    return nodes.drop(columns="label"), edges


def everything(nodes, edges):
    """Dates, categories, gaps and names."""
    n, rng = len(nodes), np.random.default_rng(3)
    nodes["born"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(900, size=n), "D")
    nodes["day"] = pd.date_range("2024-01-01", periods=n).date
    nodes["price"] = [Decimal(i * i) / 4 for i in range(n)]
    nodes["written"] = [f"2021-0{1 + i % 9}-1{i % 10}" for i in range(n)]
    nodes["town"] = [f"town {i % 130}" for i in range(n)]
    nodes["name"] = [f"name {i}" for i in range(n)]
    nodes["colour"] = np.where(rng.random(n) < 0.3, None, rng.choice(["red", "blue"], size=n))
    nodes["empty"] = np.nan
    nodes["seen"] = pd.array(rng.choice([True, False], size=n), dtype="boolean")
    nodes.loc[::7, "a"] = np.nan
    return nodes, edges


PART, ROW = np.random.default_rng(2).integers(4, size=90), np.arange(90)
NAMED = {split: i == PART for i, split in enumerate(("train_mask", "val_mask", "test_mask"))}
KINDS = {
    "words and numbers": (lambda n, e: folders.tables(), "csv csv.gz parquet", {}),
    "directed": (lambda n, e: folders.tables(), "csv parquet", {"directed": True}),
    "numbered rows": (numbered, "parquet", {}),
    "ids that are words": (lambda n, e: (n.astype({"id": str}), e), "parquet", {}),
    "leading zeros": (lambda n, e: (n.assign(id=[f"0{i}" for i in n["id"]]), e.map(lambda i: f"0{i}")), "csv", {}),
    "a split": (lambda n, e: (n.assign(split=np.array(["train", "valid", "test", ""])[PART]), e), "parquet", {}),
    "masks": (lambda n, e: (n.assign(**NAMED), e), "parquet", {}),
    "two splits": (
        lambda n, e: (
            n.assign(val_mask=ROW < 20, test_mask=(ROW > 30) & (ROW < 45), label=n["label"].where(ROW < 60)),
            e,
        ),
        "parquet",
        {},
    ),
    "unknown labels": (lambda n, e: (n.assign(label=n["label"].where(PART > 2, -1)), e), "parquet", {}),
    "several labels": (labelled, "parquet", {}),
    "everything": (everything, "parquet", {"impute": True}),
    "unknown edges": (lambda n, e: (n, _set(e, 3, "source", 5000)), "parquet", {"drop_unknown_edges": True}),
    "run[12]": (lambda n, e: (n, e), "csv parquet", {}),  # marks in a folder's name stand for themselves
    "run*": (lambda n, e: (n, e), "csv parquet", {}),
    "run?": (lambda n, e: (n, e), "csv", {}),
    "a'b": (lambda n, e: (n, e), "csv parquet", {}),
}


@pytest.mark.parametrize(
    ("kind", "ending"), [(k, ending) for k, (_, endings, _) in KINDS.items() for ending in endings.split()]
)
def test_both_readers_give_the_same_graph(tmp_path, kind, ending):
    change, _, options = KINDS[kind]
    folders.write(tmp_path / "run1", ending, nodes=plain()[0], edges=plain()[1])
    nodes, edge_table = change(*plain(90))
    folder = folders.write(tmp_path / kind, ending, nodes=nodes, edges=edge_table)
    same(*both(folder, tmp_path, Reading(**options)), 1e-6 if kind == "everything" else 0.0)


@pytest.mark.parametrize("size", [300, 6_000, 40_000])
def test_a_full_disk_is_the_disks_fault_and_the_next_run_goes_on(tmp_path, size):
    """It fills up in the database, or in the arrays."""
    nodes, edge_table = plain(3000)
    folder = folders.write(tmp_path / "g", "parquet", nodes=nodes, edges=edge_table)
    with full_disk(size), pytest.raises(OutputError):
        convert_folder(folder, tmp_path / "out", memory=MEMORY)
    assert convert_folder(folder, tmp_path / "out", memory=MEMORY).num_nodes == 3000


def test_many_files_in_the_order_of_their_names(tmp_path):
    nodes, edge_table = plain(60)
    whole = folders.write(tmp_path / "whole", "parquet", nodes=nodes, edges=edge_table)
    folder = tmp_path / "parts"
    folders.write(folder / "edges", "parquet", **{f"part{i}": edge_table[i::3] for i in range(3)})
    folders.write(folder, "parquet", **{"nodes-0": nodes[:25], "nodes-1": nodes[25:]})
    expected = convert_folder(whole, tmp_path / "one", memory=MEMORY)
    found = convert_folder(folder, tmp_path / "two", memory=MEMORY)
    assert found.fingerprint == expected.fingerprint


@pytest.mark.parametrize("unequal", [False, True])
def test_features_in_an_array(tmp_path, unequal):
    nodes, edge_table = plain(60)
    x = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    x[:, 2] *= 1000 if unequal else 1
    folder = folders.write(tmp_path / "g", "parquet", nodes=nodes[["id", "label"]], edges=edge_table)
    np.save(folder / "features.npy", x)
    found, expected = both(folder, tmp_path)
    same(found, expected, 1e-6 if unequal else 0.0)
    assert np.allclose(found.features, x) != unequal


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_small_batches_change_nothing(tmp_path, monkeypatch, ending):
    nodes, edge_table = plain(300)
    nodes["town"] = [f"town {i * i % 130}" for i in range(300)]
    nodes["written"] = [f"2021-0{1 + i % 9}-1{i % 10}" for i in range(300)]
    nodes["flag"] = [i % 3 == 0 for i in range(300)]
    edge_table["weight"] = np.arange(len(edge_table)) % 5 / 8
    folder = folders.write(tmp_path / "g", ending, nodes=nodes, edges=edge_table)
    expected = DiskGraph.write(tmp_path / "expected", read_folder(folder, "g"))
    for module, name, value in ((arrays, "BATCH", 64), (convert, "BATCH", 64), (arrays, "AT_ONCE", 700)):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(convert, "FIRST", 100)
    monkeypatch.setattr(convert, "LEAST", 30)
    same(convert_folder(folder, tmp_path / "found", memory=MEMORY, threads=2), expected, 1e-6)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edge_lists(max_nodes=12, max_edges=30), st.booleans())
def test_any_edges(tmp_path_factory, listed, directed):
    n, edge_index, weight = listed
    out = tmp_path_factory.mktemp("any")
    n = max(n, 6)
    nodes = pd.DataFrame({"id": np.arange(n)[::-1] * 7, "a": np.arange(n) / n, "label": np.arange(n) % 2})
    nodes["split"] = ["train"] * n
    source, target = nodes["id"].to_numpy()[edge_index.numpy()]
    frame = pd.DataFrame({"source": source, "target": target})
    if weight is not None:
        frame["weight"] = weight.numpy()
    folder = folders.write(out / "g", "parquet", nodes=nodes, edges=frame)
    same(*both(folder, out, Reading(directed=directed)))


def test_a_folder_is_converted_once(tmp_path, monkeypatch):
    monkeypatch.setenv("RAPGNN_CACHE", str(tmp_path / "cache"))
    nodes, edge_table = plain()
    folder = folders.write(tmp_path / "g", "parquet", nodes=nodes, edges=edge_table)
    first = convert_folder(folder, memory=MEMORY)
    changed = (first.folder / "graph.json").stat().st_mtime_ns
    again = convert_folder(folder, memory=MEMORY)
    assert (again.folder / "graph.json").stat().st_mtime_ns == changed
    assert first.folder.is_relative_to(tmp_path / "cache")
    assert convert_folder(folder, reading=Reading(directed=True), memory=MEMORY).folder != first.folder
    nodes["a"] += 1
    folders.write(folder, "parquet", nodes=nodes)
    assert convert_folder(folder, memory=MEMORY).folder != first.folder


class Stop:
    """Ends the work when a stage begins, as a user may; notes the stages."""

    def __init__(self, stage: str | None):
        self.stage, self.begun = stage, []

    def start(self, title, total):
        if title not in self.begun:
            self.begun.append(title)
        if title == self.stage:
            raise KeyboardInterrupt

    def set(self, done, title): ...


@pytest.mark.parametrize("stage", ["labels", "joining", "sorting", "features", "checksums"])
def test_a_conversion_goes_on_where_it_was_stopped(tmp_path, stage):
    nodes, edge_table = plain()
    folder = folders.write(tmp_path / "g", "csv", nodes=nodes, edges=edge_table)
    with pytest.raises(KeyboardInterrupt):
        convert_folder(folder, tmp_path / "found", memory=MEMORY, track=Stop(stage))
    with pytest.raises(InputError, match="no graph on disk"):
        DiskGraph.open(tmp_path / "found")
    second = Stop(None)
    found = convert_folder(folder, tmp_path / "found", memory=MEMORY, track=second)
    assert second.begun[0] == stage
    assert found.fingerprint == convert_folder(folder, tmp_path / "other", memory=MEMORY).fingerprint
    assert not (tmp_path / "found" / "work").exists()


@pytest.mark.parametrize("name", ["run?", "run[1]", b"bad\xff".decode(errors="surrogateescape")])
def test_the_cache_has_plain_names_and_others_are_refused(tmp_path, monkeypatch, name):
    monkeypatch.setenv("RAPGNN_CACHE", str(tmp_path / "cache"))
    nodes, edge_table = plain()
    folder = folders.write(tmp_path / name, nodes=nodes, edges=edge_table)
    if name.isprintable():
        same(convert_folder(folder), both(folder, tmp_path)[1])
        assert convert_folder(folder).name == name
    else:
        with pytest.raises(InputError, match="no text in UTF-8"):
            convert_folder(folder)
    if name == "run?":
        with pytest.raises(InputError, match=r"without \? in its name"):
            convert_folder(folder, tmp_path / "out?")


def test_a_packed_file_that_would_fill_the_disk_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("rapgnn.files.UNPACKED", 1 << 20)
    nodes, edge_table = plain()
    folder = folders.write(tmp_path / "data", nodes=nodes, edges=edge_table)
    (folder / "edges.csv").unlink()
    (folder / "edges.csv.gz").write_bytes(gzip.compress(b"source,target\n" + b"0,0\n" * (1 << 20)))
    with pytest.raises(InputError, match="unpack it first"):
        convert_folder(folder, tmp_path / "out")


def test_files_that_are_something_else_are_not_written_over(tmp_path):
    nodes, edge_table = plain()
    folder = folders.write(tmp_path / "g", "csv", nodes=nodes, edges=edge_table)
    with pytest.raises(InputError, match="no graph on disk"):
        convert_folder(folder, folder, memory=MEMORY)


def test_without_duckdb_the_extra_is_named(tmp_path, monkeypatch):
    nodes, edge_table = plain()
    folder = folders.write(tmp_path / "g", "csv", nodes=nodes, edges=edge_table)
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(InputError, match=r"pip install .rapgnn\[big\]"):
        convert_folder(folder, tmp_path / "found")


def _set(table, row, column, value):
    table = table.astype({column: object}) if value is None or isinstance(value, str) else table
    table.loc[row, column] = value
    return table


SPOILED = {
    "an unknown end": lambda n, e: (n, _set(e, 7, "source", 5000)),
    "two unknown ends": lambda n, e: (n, _set(_set(e, 7, "source", 5000), 9, "target", 6000)),
    "an end is missing": lambda n, e: (n, _set(e.astype(float), 7, "target", np.nan)),
    "an id is missing": lambda n, e: (_set(n.astype({"id": float}), 3, "id", np.nan), e),
    "an id twice": lambda n, e: (_set(n, 5, "id", n.loc[2, "id"]), e),
    "no target": lambda n, e: (n, e.rename(columns={"target": "goal"})),
    "no label": lambda n, e: (n.rename(columns={"label": "kind"}), e),
    "gaps": lambda n, e: (_set(n, [3, 4], "a", np.nan), e),
    "infinite": lambda n, e: (_set(n, 3, "a", np.inf), e),
    "huge after scaling": lambda n, e: (_set(n, 3, "a", 1e300), e),
    "weights that are words": lambda n, e: (n, e.assign(weight="heavy")),
    "infinite weights": lambda n, e: (n, e.assign(weight=np.inf)),
    "weights with gaps": lambda n, e: (n, e.assign(weight=np.where(np.arange(len(e)) % 2, 1.0, np.nan))),
    "huge weights": lambda n, e: (n, e.assign(weight=1e20)),
    "no row": lambda n, e: (n.iloc[:0], e),
    "a split that is none": lambda n, e: (n.assign(split="perhaps"), e),
    "overlapping masks": lambda n, e: (n.assign(train_mask=n.index > 3, test_mask=n.index > 30), e),
    "one class": lambda n, e: (n.assign(label=1), e),
    "no label at all": lambda n, e: (n.assign(label=-1), e),
    "a name as the only feature": lambda n, e: (n.drop(columns=["a", "b"]).assign(name=[f"n{i}" for i in n.index]), e),
}


@pytest.mark.parametrize(
    ("fault", "ending"), [*((fault, "parquet") for fault in SPOILED), ("gaps", "csv"), ("an id twice", "csv")]
)
def test_the_same_sentence(tmp_path, fault, ending):
    nodes, edges = SPOILED[fault](*plain(60))
    folder = folders.write(tmp_path / "g", ending, nodes=nodes, edges=edges)
    with pytest.raises(InputError) as expected:
        read_folder(folder, "g")
    with pytest.raises(InputError) as found:
        convert_folder(folder, tmp_path / "out", memory=MEMORY, threads=1)
    assert str(found.value) == str(expected.value)
    assert not (tmp_path / "out" / "graph.json").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: (folder / "edges.parquet").unlink(), "edges.csv .or .parquet. is missing"),
        (lambda folder: (folder / "edges.parquet").write_bytes(b""), "cannot read .*edges.parquet"),
        (lambda folder: (folder / "edges.parquet").write_bytes(b"PAR1 garbage PAR1"), "cannot read .*edges.parquet"),
        (lambda folder: (folder / "graphs.csv").write_text("id,label\n"), "many graphs"),
        (lambda folder: (folder / "edges.csv").write_text("source,target\n"), "keep one of them"),
        (lambda folder: np.save(folder / "features.npy", np.ones((60, 2))), "holds x and also a"),
    ],
)
def test_files_that_are_not_as_they_should_be(tmp_path, change, said):
    nodes, edges = plain(60)
    folder = folders.write(tmp_path / "g", "parquet", nodes=nodes, edges=edges)
    change(folder)
    with pytest.raises(InputError, match=said):
        convert_folder(folder, tmp_path / "out", memory=MEMORY)


MESSY = {
    "names that differ in case": lambda n: n.assign(w=n["a"], W=n["b"] * 2.5),
    "money and shares": lambda n: n.assign(
        price=[f"${1000 * a:,.2f}" for a in n["a"].abs()],
        euro=[f"{b + 0.5} €" for b in n["b"]],
        share=[f"{100 * a:.1f} %" for a in n["a"]],
    ),
    "several units": lambda n: n.assign(price=[f"{'$€'[i % 2]}{i % 3}" for i in range(len(n))]),
    "a number of the row": lambda n: n.assign(position=range(len(n)), line=range(1, len(n) + 1)),
    "a comma among many": lambda n: n.assign(size=[*range(10, len(n) + 9), "1,5"]),
    "a word among many": lambda n: n.assign(size=[*range(10, len(n) + 9), "tall"]),
    "tiny": lambda n: n.assign(size=n["b"] * 1e-30),
}


@pytest.mark.parametrize("way", MESSY)
@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_both_readers_read_messy_columns_alike(tmp_path, monkeypatch, way, ending):
    monkeypatch.setattr(convert, "FIRST", 100)
    monkeypatch.setattr(convert, "LEAST", 30)
    nodes, edge_table = plain(60)
    nodes = MESSY[way](nodes)
    folder = tmp_path / "g"
    if ending == "tsv":
        folder.mkdir()
        for stem, frame in (("nodes", nodes), ("edges", edge_table)):
            frame.to_csv(folder / f"{stem}.tsv", sep="\t", index=False)
    else:
        nodes = nodes.map(str) if ending == "parquet" and "among" in way else nodes
        folders.write(folder, ending, nodes=nodes, edges=edge_table)
    if "among" in way and (way, ending) != (
        "a comma among many",
        "tsv",
    ):  # there the first lines tell of decimal commas
        with pytest.raises(InputError) as expected:
            read_folder(folder, "g")
        with pytest.raises(InputError) as found:
            convert_folder(folder, tmp_path / "found", memory=MEMORY)
        assert str(found.value) == str(expected.value)
        return
    found, expected = both(folder, tmp_path)
    same(found, expected, 1e-6)
    if ending == "csv":
        wide = {"money and shares": 5, "a number of the row": 2, "names that differ in case": 4}.get(way)
        assert wide in (None, expected.num_features)
