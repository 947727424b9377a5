"""Malformed tables: files that a person, a disk or a program damaged."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fuzzing import REFUSED, Tally, examples
from strategies import damaged
from tables import ENDINGS, FILES, TABLES, as_bytes, check_content, read


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("ending", ENDINGS)
def test_the_undamaged_folders_are_read(tmp_path, kind, ending):
    graph = read(tmp_path / "f", kind, {}, ending)
    assert graph is not REFUSED
    check_content(graph, kind)


def test_damaged_files(tmp_path):
    tally = Tally()

    @examples("bytes")
    @given(data=st.data())
    def one(data):
        kind, ending = data.draw(st.sampled_from(sorted(TABLES))), data.draw(st.sampled_from(ENDINGS))
        stem = data.draw(st.sampled_from(sorted(TABLES[kind])))
        other = FILES[kind, stem, data.draw(st.sampled_from(ENDINGS))]
        tally.count(read(tmp_path / "f", kind, {stem: data.draw(damaged(FILES[kind, stem, ending], other))}, ending))

    one()
    tally.check(accepted=0.05, refused=0.5)


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
WAYS = ["fitting", "fitting", "fitting", "cell", "cell", "cell", "column", "shorter", "swap", "again", "quote"]
FITTING = ("height", "leaves", "colour", "weight", "atom", "bond")  # where any value of the column may stand


def test_odd_cells_rows_and_quotes(tmp_path):
    """What may be a table still: sane where it is read."""
    tally = Tally()

    @examples("text")
    @given(data=st.data())
    def one(data):
        kind, stem, _ = key = data.draw(st.sampled_from(sorted(TEXTS)))
        rows = [line.split(",") for line in TEXTS[key].splitlines()]
        ways = set()
        for _ in range(data.draw(st.integers(1, 3))):
            i = data.draw(st.integers(0, len(rows) - 1))
            j = data.draw(st.integers(0, len(rows[i]) - 1)) if rows[i] else 0
            way = data.draw(st.sampled_from(WAYS))
            ways.add(way)
            if way == "fitting":  # what another row of the column has
                fits = [j for j, name in enumerate(rows[0]) if name in FITTING]
                row, other = (rows[data.draw(st.integers(1, len(rows) - 1))] for _ in range(2))
                j = data.draw(st.sampled_from(fits or [len(row)]))
                if j < min(len(row), len(other)):
                    row[j] = other[j]
            elif way == "cell" and rows[i]:
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
        found = tally.count(read(tmp_path / "f", kind, {stem: text.encode("utf-8", "surrogatepass")}))
        if ways == {"fitting"}:
            assert found is not REFUSED

    one()
    tally.check(accepted=0.1, refused=0.3)


def _without(column):
    return lambda t: t.drop(columns=column)


def _cell(column, value):
    return lambda t, row: t.astype({column: object}).assign(**{column: t[column].where(t.index != row, value)})


def _weighted(value):
    return lambda t: t.assign(weight=[value, *[1.0] * (len(t) - 1)])


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
    *(("many", "edges", _weighted(v)) for v in (np.inf, None, "x", 1e39)),
    ("one", "nodes", lambda t: t.assign(label=None)),
    ("one", "nodes", lambda t: t.assign(label=1e300)),
    ("one", "nodes", lambda t: t.assign(label="rose")),
    ("one", "nodes", lambda t: t.iloc[:0]),
    ("many", "graphs", lambda t: t.iloc[:0]),
    ("many", "nodes", lambda t: t.iloc[:0]),
]
SPOILED = {
    "two delimiters": lambda text, row: text.replace(",", ";", text.split("\n", 1)[0].count(",")),
    "no header": lambda text, row: text.split("\n", 1)[1],
    "a column twice": lambda text, row: "\n".join(f"{line.split(',')[0]},{line}" for line in text.splitlines()),
    "a longer row": lambda text, row: text.replace("\n", ",9\n", row + 2).replace(",9\n", "\n", row + 1),
    "longer rows": lambda text, row: text.split("\n", 1)[0] + "\n" + text.split("\n", 1)[1].replace("\n", ",9\n"),
    "an open quote": lambda text, row: text.rstrip("\n") + ',"\n',
    "nothing": lambda text, row: "\n" * row,
    "half of UTF-16": lambda text, row: text.encode("utf-16")[: -3 - 2 * row],
}
# What spreadsheets of other countries write; it says the same.
DIALECTS = {
    "semicolons": lambda text: text.replace(",", ";").encode(),
    "tabs": lambda text: text.replace(",", "\t").encode(),
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-8 with a mark": lambda text: text.encode("utf-8-sig"),
    "line ends of Windows": lambda text: text.replace("\n", "\r\n").encode(),
}


@pytest.mark.parametrize("key", sorted(TEXTS), ids="-".join)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_other_dialects_say_the_same(tmp_path, key, dialect):
    kind, stem, _ = key
    graph = read(tmp_path / "f", kind, {stem: DIALECTS[dialect](TEXTS[key])})
    assert graph is not REFUSED
    check_content(graph, kind)


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
