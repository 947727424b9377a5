"""Malformed tables: files that a person, a disk or a program damaged are refused in one sentence, or read sanely."""

import gzip
import io
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from folders import many, tables
from fuzzing import REFUSED, both_kinds, examples, outcome, sane
from rapgnn import Graph, load_dataset
from rapgnn.datasets.columns import Reading
from rapgnn.datasets.frames import read_file
from rapgnn.errors import InputError
from strategies import damaged

ENDINGS = ("csv", "csv.gz", "parquet", "npz")


def one_graph() -> dict[str, pd.DataFrame]:
    nodes, edges = tables(24)
    nodes["split"] = ["train", "train", "val", "test"] * 6
    return {"nodes": nodes, "edges": edges.iloc[:40].assign(weight=1.5)}


def as_bytes(frame: pd.DataFrame, ending: str) -> bytes:
    buffer = io.BytesIO()
    if ending == "npz":
        arrays = {c: frame[c].to_numpy(dtype=None if frame[c].dtype.kind in "biuf" else "U") for c in frame}
        np.savez(buffer, **arrays)
    elif ending == "parquet":
        frame.to_parquet(buffer, index=False)
    else:
        text = frame.to_csv(index=False).encode()
        return gzip.compress(text, mtime=0) if ending == "csv.gz" else text
    return buffer.getvalue()


TABLES = {"one": one_graph(), "many": many(12)}
FILES = {
    (kind, stem, ending): as_bytes(frame, ending)
    for kind, several in TABLES.items()
    for stem, frame in several.items()
    for ending in ENDINGS
}
TEXTS = {key: FILES[key].decode() for key in FILES if key[2] == "csv"}


def read(folder: Path, kind: str, changed: dict[str, bytes], ending: str = "csv") -> object:
    """The graph in a folder where some files are not as they should be."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for stem in TABLES[kind]:
        (folder / f"{stem}.{ending}").write_bytes(changed.get(stem, FILES[kind, stem, ending]))
    graph = outcome(lambda: load_dataset(str(folder), reading=Reading()))
    if graph is not REFUSED:
        sane(graph)
    return graph


def check_content(graph: Graph, kind: str) -> None:
    """The graph is that of the tables."""
    told = TABLES[kind]["nodes" if kind == "one" else "graphs"]
    assert list(map(str, graph.ids)) == list(told["id"])
    assert [graph.classes[int(y)] for y in graph.y] == list(told["label"])
    assert graph.num_nodes == len(TABLES[kind]["nodes"])
    pairs = TABLES[kind]["edges"][["source", "target"]].drop_duplicates()
    if kind == "one":
        number = {name: i for i, name in enumerate(told["id"])}
        ends = {frozenset((number[u], number[v])) for u, v in pairs.itertuples(index=False)}
        assert {frozenset(pair) for pair in graph.edge_index.T.tolist()} == ends
        assert [told["split"][i] for i in graph.val.tolist()] == ["val"] * int((told["split"] == "val").sum())
        assert (graph.task, graph.num_features) == ("node-classification", 5)  # two numbers, three colours
    else:
        assert graph.ptr.diff().tolist() == TABLES[kind]["nodes"].groupby("graph").size()[told["id"]].tolist()
        assert (graph.task, graph.num_features, graph.num_edge_features) == ("graph-classification", 3, 2)


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("ending", ENDINGS)
def test_every_format_says_the_same(tmp_path, kind, ending):
    check_content(read(tmp_path / "f", kind, {}, ending), kind)


def test_damaged_files(tmp_path):
    seen = []

    @examples(80)
    @given(data=st.data())
    def one(data):
        kind, ending = data.draw(st.sampled_from(sorted(TABLES))), data.draw(st.sampled_from(ENDINGS))
        stem = data.draw(st.sampled_from(sorted(TABLES[kind])))
        other = FILES[kind, stem, data.draw(st.sampled_from(ENDINGS))]
        seen.append(read(tmp_path / "f", kind, {stem: data.draw(damaged(FILES[kind, stem, ending], other))}, ending))

    one()
    both_kinds(seen, accepted=0.05, refused=0.5)


CELLS = [
    "inf", "nan", "", "1e400", "-1e308", "abc", "1.5", "-1", "NULL", "9" * 400, "w" * 3000, "True", "é\u2028", '"', "'",
    "\x00", "1;2", "2020-02-30", "0x1F", "1_000", "plant 3", "g1", "train", "tulip", "[1, 2]", " ",
]  # fmt: skip
WAYS = ["fitting", "fitting", "cell", "cell", "column", "shorter", "swap", "again", "quote"]
FITTING = ("height", "leaves", "colour", "weight", "atom", "bond")  # where any value of the column may stand


def test_odd_cells_rows_and_quotes(tmp_path):
    """What may be a table still: sane where it is read."""
    seen = []

    @examples(70)
    @given(data=st.data())
    def one(data):
        kind, stem, _ = key = data.draw(st.sampled_from(sorted(TEXTS)))
        rows = [line.split(",") for line in TEXTS[key].splitlines()]
        way = data.draw(st.sampled_from(WAYS))
        i = data.draw(st.integers(0, len(rows) - 1))
        j = data.draw(st.integers(0, len(rows[i]) - 1))
        if way == "fitting":  # what another row of the column has
            fits = [j for j, name in enumerate(rows[0]) if name in FITTING]
            assume(fits)
            row, other = (rows[data.draw(st.integers(1, len(rows) - 1))] for _ in range(2))
            j = data.draw(st.sampled_from(fits))
            row[j] = other[j]
        elif way == "cell":
            rows[i][j] = data.draw(st.sampled_from(CELLS) | st.text(max_size=5))
        elif way == "column":
            cell = data.draw(st.sampled_from(CELLS))
            rows = [rows[0], *([*row[:j], cell, *row[j + 1 :]] for row in rows[1:])]
        elif way == "shorter":
            rows[i] = rows[i][:j]
        elif way == "swap":
            rows[i] = rows[i][::-1]
        elif way == "again":
            rows.insert(i, list(rows[i]))
        else:
            rows[i][j] = f'"{rows[i][j]}'
        text = "\n".join(",".join(row) for row in rows) + "\n"
        assume(text != TEXTS[key])
        seen.append(read(tmp_path / "f", kind, {stem: text.encode("utf-8", "surrogatepass")}))
        assert way != "fitting" or seen[-1] is not REFUSED

    one()
    both_kinds(seen, accepted=0.1, refused=0.3)


def _without(column):
    return lambda t: t.drop(columns=column)


def _cell(column, value, row=3):
    return lambda t: t.astype({column: object}).assign(**{column: t[column].where(t.index != row, value)})


def _twice(t):
    return pd.concat([t, t.iloc[[3]]])


def _weighted(value):
    return lambda t: t.assign(weight=[value, *[1.0] * (len(t) - 1)])


WRONG = [
    ("one", "nodes", _without("label")),
    ("one", "edges", _without("source")),
    ("many", "nodes", _without("graph")),
    ("many", "graphs", _without("label")),
    ("one", "nodes", _twice),
    ("many", "graphs", _twice),
    ("many", "nodes", _twice),
    ("one", "nodes", lambda t: t.drop(index=t.index[t["id"].isin(TABLES["one"]["edges"]["source"])][3])),
    ("many", "graphs", lambda t: t.drop(index=t.index[3])),
    *(("one", "nodes", _cell("height", v)) for v in (np.inf, -np.inf, None, "tall", 1e400, "1,5", "--")),
    *(("one", "nodes", _cell("id", v)) for v in (None, "plant 1000")),
    *(("one", "nodes", _cell("split", v)) for v in ("maybe", 1, "train,val", True)),
    *(("one", "edges", _cell("source", v)) for v in (None, "weed", -1, 3.5, 10**30)),
    *(("one", "edges", _cell("weight", v)) for v in (np.inf, None, "heavy", 1e39)),
    *(("many", "edges", _cell("target", v)) for v in (None, "x", -1, 3.5, 99)),
    *(("many", stem, _cell("graph", v)) for stem in ("nodes", "edges") for v in (None, "g99", 3)),
    *(("many", "graphs", _cell("id", v)) for v in (None, "h1")),
    *(("many", "edges", _weighted(v)) for v in (np.inf, None, "x", 1e39)),
    *(("one", "nodes", lambda t, v=v: t.assign(label=v)) for v in (None, 1e300, "rose")),
    ("one", "nodes", lambda t: t.iloc[:0]),
    ("many", "graphs", lambda t: t.iloc[:0]),
    ("many", "nodes", lambda t: t.iloc[:0]),
]
SPOILED = {
    "two delimiters": lambda text: text.replace(",", ";", text.split("\n", 1)[0].count(",")),
    "no header": lambda text: text.split("\n", 1)[1],
    "a column twice": lambda text: "\n".join(f"{line.split(',')[0]},{line}" for line in text.splitlines()),
    "a longer row": lambda text: text.replace("\n", ",9\n", 5).replace(",9\n", "\n", 4),
    "longer rows": lambda text: text.split("\n", 1)[0] + "\n" + text.split("\n", 1)[1].replace("\n", ",9\n"),
    "an open quote": lambda text: text.rstrip("\n") + ',"\n',
    "nothing": lambda text: "\n\n",
}


def test_wrong_tables_are_refused(tmp_path):
    for i, (kind, stem, change) in enumerate(WRONG):
        changed = as_bytes(change(TABLES[kind][stem].reset_index(drop=True)), "csv")
        assert read(tmp_path / "f", kind, {stem: changed}) is REFUSED, WRONG[i]
    for (kind, stem, _), text in TEXTS.items():
        for way, spoil in SPOILED.items():
            assert read(tmp_path / "f", kind, {stem: spoil(text).encode()}) is REFUSED, (kind, stem, way)
        assert read(tmp_path / "f", kind, {stem: text.encode("utf-16")[:-3]}) is REFUSED, (kind, stem)


ODD_ARRAYS = [
    np.array(3.0), np.zeros((2, 3, 4)), np.zeros(0), np.full(24, np.nan), np.full(24, 1e300), np.zeros((24, 0)),
    np.arange(24) * 1j, np.array([b"a"] * 24), np.array(["x"] * 24), np.zeros(24, dtype="i4,f8"), np.arange(23),
    np.arange(24).astype("M8[D]"), np.full((24, 2), np.inf), np.arange(24) % 2 == 0, np.arange(48).reshape(24, 2),
    np.array(["a", 1] * 12, dtype=object), np.full(24, 2**63, dtype=np.uint64), np.full(24, -1), np.ones(24, "f2"),
]  # fmt: skip
GOOD = {"height": np.linspace(0, 1, 24), "width": np.arange(24) * 2.0, "label": np.array(["a", "b", "c"] * 8)}
ODD_CELLS = [
    [1, 2], {"a": 1}, b"\xff\x00", pd.Timestamp("2020-01-01", tz="UTC"), pd.Timedelta(days=1), 1e300, np.nan, None,
    True, 2**62, "", "w" * 2000, "\n\t", np.inf, -1, 0.5, [], "train",
]  # fmt: skip


def test_odd_arrays_in_npz_files(tmp_path):
    seen, arrays = [], dict(np.load(io.BytesIO(FILES["one", "nodes", "npz"])))

    def one(**changes: np.ndarray) -> object:
        buffer = io.BytesIO()
        np.savez(buffer, **arrays | changes)
        return read(tmp_path / "f", "one", {"nodes": buffer.getvalue()}, "npz")

    for name in ("height", "colour", "label", "id", "split", "x", "label_0", "train_mask"):
        seen += [one(**{name: odd}) for odd in ODD_ARRAYS]
    both_kinds(seen, accepted=0.05, refused=0.3)
    assert all(one(**{name: GOOD[name]}) is not REFUSED for name in GOOD)


def test_odd_columns_in_parquet_files(tmp_path):
    seen = []

    @examples(40)
    @given(data=st.data())
    def one(data):
        kind, stem, _ = data.draw(st.sampled_from(sorted(TEXTS)))
        frame = TABLES[kind][stem].reset_index(drop=True)
        name = data.draw(st.sampled_from([*frame.columns, "new", "label_0", "train_mask", "ID"]))
        cell = data.draw(st.sampled_from(ODD_CELLS))
        frame[name] = [cell] * len(frame) if data.draw(st.booleans()) else [None, *([cell] * (len(frame) - 1))]
        frame = frame.set_index("id") if "id" in frame and data.draw(st.booleans()) else frame
        buffer = io.BytesIO()
        frame.to_parquet(buffer)
        seen.append(read(tmp_path / "f", kind, {stem: buffer.getvalue()}, "parquet"))

    one()
    both_kinds(seen, accepted=0.15, refused=0.3)


@pytest.mark.parametrize("kind", ["rows", "a line", "npz", "parquet"])
def test_small_files_that_would_fill_the_memory_are_refused(tmp_path, monkeypatch, kind):
    monkeypatch.setattr("rapgnn.files.UNPACKED", 1 << 20)
    zeros = np.zeros(4 << 20, dtype=np.int64)
    if kind == "npz":
        np.savez_compressed(path := tmp_path / "nodes.npz", x=zeros)
    elif kind == "parquet":
        pd.DataFrame({"a": zeros}).to_parquet(path := tmp_path / "nodes.parquet")
    else:
        (path := tmp_path / "nodes.csv.gz").write_bytes(
            gzip.compress(b"a,b\n" + (b"0,0\n", b"0,")[kind == "a line"] * (1 << 22))
        )
    tracemalloc.start()
    with pytest.raises(InputError, match="unpack it first"):
        read_file(path)
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


def test_a_header_has_an_end_and_may_be_wide(tmp_path):
    (path := tmp_path / "nodes.csv").write_bytes(b"a," * (1 << 20))
    with pytest.raises(InputError, match="columns"):
        read_file(path)
    names = [f"c{i:0200}" for i in range(2000)]  # more than what the separator is otherwise looked for in
    path.write_text(";".join(names) + "\n" + ";".join(["1"] * 2000) + "\n")
    assert len(read_file(path).table.columns) == 2000
