"""Malformed tables: files that a person, a disk or a program damaged."""

import gzip
import io
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fuzzing import EXAMPLES, REFUSED, damaged, examples, outcome, sane
from rapgnn import load_dataset
from test_folder import many, tables

ENDINGS = ("csv", "csv.gz", "parquet", "npz")


def test_there_are_enough_examples():
    assert sum(EXAMPLES.values()) >= 2000


# Tables


def frames(kind: str) -> dict[str, pd.DataFrame]:
    if kind == "many":
        return many(12)
    nodes, edges = tables(24)
    nodes["split"] = (["train", "train", "val", "test"] * 6)[:24]
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


TABLES = {kind: frames(kind) for kind in ("one", "many")}
FILES = {
    (kind, stem, ending): as_bytes(frame, ending)
    for kind, several in TABLES.items()
    for stem, frame in several.items()
    for ending in ENDINGS
}


def read(folder: Path, kind: str, changed: dict[str, bytes], ending: str = "csv") -> object:
    """The graph in a folder where some files are not as they should be."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for stem in TABLES[kind]:
        (folder / f"{stem}.{ending}").write_bytes(changed.get(stem, FILES[kind, stem, ending]))
    graph = outcome(lambda: load_dataset(str(folder)))
    if graph is not REFUSED:
        sane(graph)
    return graph


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("ending", ENDINGS)
def test_the_undamaged_folders_are_read(tmp_path, kind, ending):
    assert read(tmp_path / "f", kind, {}, ending) is not REFUSED


@examples("bytes")
@given(data=st.data())
def test_damaged_files(tmp_path, data):
    kind, ending = data.draw(st.sampled_from(sorted(TABLES))), data.draw(st.sampled_from(ENDINGS))
    stem = data.draw(st.sampled_from(sorted(TABLES[kind])))
    other = FILES[kind, stem, data.draw(st.sampled_from(ENDINGS))]
    read(tmp_path / "f", kind, {stem: data.draw(damaged(FILES[kind, stem, ending], other))}, ending)


CELLS = [
    "inf",
    "-inf",
    "nan",
    "",
    "1e400",
    "-1e308",
    "abc",
    "1.5",
    "-1",
    "NULL",
    "9" * 400,
    "w" * 3000,
    "True",
    "é\u2028",
]
CELLS += ['"', "'", "\x00", "1;2", "2020-02-30", "0x1F", "1_000", "plant 3", "g1", "train", "tulip", "[1, 2]", " "]
TEXTS = {key: FILES[key].decode() for key in FILES if key[2] == "csv"}


@examples("text")
@given(data=st.data())
def test_odd_cells_rows_and_quotes(tmp_path, data):
    """What may be a table still: sane where it is read."""
    kind, stem, _ = key = data.draw(st.sampled_from(sorted(TEXTS)))
    rows = [line.split(",") for line in TEXTS[key].splitlines()]
    for _ in range(data.draw(st.integers(1, 3))):
        i = data.draw(st.integers(0, len(rows) - 1))
        j = data.draw(st.integers(0, len(rows[i]) - 1)) if rows[i] else 0
        way = data.draw(st.sampled_from(["cell", "cell", "cell", "column", "shorter", "swap", "again", "quote"]))
        if way == "cell" and rows[i]:
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
        elif rows[i]:
            rows[i][j] = f'"{rows[i][j]}'
    text = "\n".join(",".join(row) for row in rows) + "\n"
    assume(text != TEXTS[key])
    read(tmp_path / "f", kind, {stem: text.encode("utf-8", "surrogatepass")})


def _without(column):
    return lambda t: t.drop(columns=column)


def _cell(column, value):
    return lambda t, row: t.astype({column: object}).assign(**{column: t[column].where(t.index != row, value)})


WRONG = [
    ("one", "nodes", _without("label")),
    ("one", "edges", _without("source")),
    ("one", "edges", _without("target")),
    ("many", "nodes", _without("graph")),
    ("many", "graphs", _without("label")),
    ("one", "nodes", lambda t, row: pd.concat([t, t.iloc[[row]]])),
    ("many", "graphs", lambda t, row: pd.concat([t, t.iloc[[row]]])),
    ("many", "nodes", lambda t, row: pd.concat([t, t.iloc[[row]]])),
    ("one", "nodes", lambda t, row: t.drop(index=t.index[t["id"].isin(TABLES["one"]["edges"]["source"])][row % 5])),
    ("many", "graphs", lambda t, row: t.drop(index=t.index[row])),
    *(("one", "nodes", _cell("height", v)) for v in (np.inf, -np.inf, None, "tall", 1e400, "1,5", "--")),
    *(("one", "nodes", _cell("id", v)) for v in (None, "plant 1000")),
    *(("one", "nodes", _cell("split", v)) for v in ("maybe", 1, "train,val", True)),
    *(("one", "edges", _cell(c, v)) for c in ("source", "target") for v in (None, "weed", -1, 3.5, "plant", 10**30)),
    *(("one", "edges", _cell("weight", v)) for v in (np.inf, None, "heavy", 1e39)),
    *(("many", "edges", _cell(c, v)) for c in ("source", "target") for v in (None, "x", -1, 3.5, 99)),
    *(("many", stem, _cell("graph", v)) for stem in ("nodes", "edges") for v in (None, "g99", 3)),
    *(("many", "graphs", _cell("id", v)) for v in (None, "h1")),
    ("many", "edges", lambda t: t.assign(weight=1.0)),
    ("one", "nodes", lambda t: t.assign(label=None)),
    ("one", "nodes", lambda t: t.assign(label=1.5)),
    ("one", "nodes", lambda t: t.assign(label="rose")),
    ("one", "nodes", lambda t: t.iloc[:0]),
    ("many", "graphs", lambda t: t.iloc[:0]),
    ("many", "nodes", lambda t: t.iloc[:0]),
]
SPOILED = {
    "delimiter": lambda text, row: text.replace(",", ";"),
    "no header": lambda text, row: text.split("\n", 1)[1],
    "a column twice": lambda text, row: "\n".join(f"{line.split(',')[0]},{line}" for line in text.splitlines()),
    "a longer row": lambda text, row: text.replace("\n", ",9\n", row + 2).replace(",9\n", "\n", row + 1),
    "longer rows": lambda text, row: text.split("\n", 1)[0] + "\n" + text.split("\n", 1)[1].replace("\n", ",9\n"),
    "an open quote": lambda text, row: text.rstrip("\n") + ',"\n',
    "nothing": lambda text, row: "\n" * row,
    "UTF-16": lambda text, row: text.encode("utf-16"),
}


@examples("refused text")
@given(data=st.data())
def test_wrong_tables_are_refused(tmp_path, data):
    row = data.draw(st.integers(0, 11))
    if data.draw(st.booleans()):
        kind, stem, change = data.draw(st.sampled_from(WRONG))
        ending = data.draw(st.sampled_from(("csv", "csv.gz")))
        frame = TABLES[kind][stem].reset_index(drop=True)
        changed = as_bytes(change(frame, row) if change.__code__.co_argcount == 2 else change(frame), ending)
    else:
        (kind, stem, ending), way = (
            data.draw(st.sampled_from(sorted(TEXTS))),
            data.draw(st.sampled_from(sorted(SPOILED))),
        )
        changed = SPOILED[way](TEXTS[kind, stem, ending], row)
        changed = changed if isinstance(changed, bytes) else changed.encode()
    assert read(tmp_path / "f", kind, {stem: changed}, ending) is REFUSED


ODD_ARRAYS = [
    np.array(3.0), np.zeros((2, 3, 4)), np.zeros(0), np.full(24, np.nan), np.full(24, 1e300), np.zeros((24, 0)),
    np.arange(24) * 1j, np.array([b"a"] * 24), np.array(["x"] * 24), np.zeros(24, dtype="i4,f8"), np.arange(23),
    np.arange(24).astype("M8[D]"), np.full((24, 2), np.inf), np.arange(24) % 2 == 0, np.arange(48).reshape(24, 2),
    np.array(["a", 1] * 12, dtype=object), np.full(24, 2**63, dtype=np.uint64), np.full(24, -1), np.ones(24, "f2"),
]  # fmt: skip


@examples("arrays")
@given(data=st.data())
def test_odd_arrays_in_npz_files(tmp_path, data):
    stem = data.draw(st.sampled_from(["nodes", "edges"]))
    arrays = dict(np.load(io.BytesIO(FILES["one", stem, "npz"])))
    names = st.sampled_from([*arrays, "x", "label_0", "y_1", "id", "weight", "train_mask", "split", ""])
    for name, array in data.draw(st.dictionaries(names, st.sampled_from(ODD_ARRAYS), min_size=1, max_size=3)).items():
        arrays[name] = array
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    read(tmp_path / "f", "one", {stem: buffer.getvalue()}, "npz")


ODD_CELLS = [
    [1, 2],
    {"a": 1},
    b"\xff\x00",
    pd.Timestamp("2020-01-01", tz="UTC"),
    pd.Timedelta(days=1),
    1e300,
    np.nan,
    None,
]
ODD_CELLS += [True, 2**62, "", "w" * 2000, "\n\t", np.inf, -1, 0.5, [], "train", __import__("decimal").Decimal("1.5")]


@examples("columns")
@given(data=st.data())
def test_odd_columns_in_parquet_files(tmp_path, data):
    kind = data.draw(st.sampled_from(sorted(TABLES)))
    stem = data.draw(st.sampled_from(sorted(TABLES[kind])))
    frame = TABLES[kind][stem].reset_index(drop=True)
    name = data.draw(st.sampled_from([*frame.columns, "new", "label_0", "train_mask", "ID"]))
    cell = data.draw(st.sampled_from(ODD_CELLS))
    frame[name] = [cell] * len(frame) if data.draw(st.booleans()) else [None, *([cell] * (len(frame) - 1))]
    frame = frame.set_index("id") if "id" in frame and data.draw(st.booleans()) else frame
    buffer = io.BytesIO()
    frame.to_parquet(buffer)
    read(tmp_path / "f", kind, {stem: buffer.getvalue()}, "parquet")
