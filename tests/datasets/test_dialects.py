"""CSV files as spreadsheets of many countries write them: all of them give the graph of the plain file."""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rapgnn import InputError, load_dataset
from rapgnn.datasets.frames import read_file
from rapgnn.sparse import dense

N = 60


def cities(n: int = N) -> tuple[list[list], list[list]]:
    """Names with umlauts and separators, measurements, large numbers, a code that looks like a number, labels."""
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=n)
    nodes: list[list] = [["id", "größe", "umsatz", "art", "label"]]
    for i in range(n):
        size, turnover = round(float(20 + 10 * kind[i] + rng.normal()), 3), round(float(rng.uniform(500, 2e6)), 2)
        nodes.append([f"{i:02d}", size, turnover, ["Bäcker, klein", "Müller; groß", "Wirt"][i % 3], f"Kö{kind[i]}"])
    ends = [(u, int(rng.choice(np.flatnonzero(kind == kind[u])))) for u in rng.integers(n, size=3 * n).tolist()]
    return nodes, [["source", "target", "weight"], *([f"{u:02d}", f"{v:02d}", 0.5 + u / 4] for u, v in ends)]


def english(value: float) -> str:
    return f"{value:,}"


def german(value: float) -> str:
    return english(value).translate(str.maketrans(",.", ".,"))


def text(rows: list[list], sep: str = ",", number=str, first: str = "") -> str:
    def cell(value) -> str:
        word = number(value) if isinstance(value, float) else str(value)
        return f'"{word}"' if sep in word or '"' in word else word

    return first + "".join(sep.join(map(cell, row)) + "\r\n" for row in rows)


def comma(value: float) -> str:
    return str(value).replace(".", ",")


DIALECTS = {
    "comma, utf-8": ({}, "utf-8", ""),
    "semicolon, decimal comma": ({"sep": ";", "number": comma}, "utf-8", "semicolons"),
    "semicolon, decimal comma, cp1252": ({"sep": ";", "number": comma}, "cp1252", "cp1252"),
    "tab": ({"sep": "\t"}, "utf-8", "tabs"),
    "utf-8 with a mark": ({}, "utf-8-sig", ""),
    "utf-16": ({"sep": "\t"}, "utf-16", "utf-16"),
    "thousands, German": ({"sep": ";", "number": german}, "utf-8", "thousands separators in umsatz"),
    "thousands, English": ({"number": english}, "utf-8", "thousands separators in umsatz"),
    "Excel's first line": ({"sep": ";", "number": comma, "first": "sep=;\r\n"}, "cp1252", "semicolons"),
    "bars": ({"sep": "|", "number": comma}, "utf-8", "bars"),
    "quoted decimal commas": ({"number": comma}, "latin-1", "decimal commas"),
}


def write(folder: Path, form: dict, encoding: str, ending: str = "csv") -> Path:
    folder.mkdir(parents=True)
    for stem, rows in zip(("nodes", "edges"), cities(), strict=True):
        content = text(rows, **form).encode(encoding)
        (folder / f"{stem}.{ending}").write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    return folder


def same(one, other) -> None:
    np.testing.assert_allclose(dense(one.x).numpy(), dense(other.x).numpy(), atol=1e-5)
    np.testing.assert_array_equal(one.edge_index, other.edge_index)
    np.testing.assert_allclose(one.edge_weight, other.edge_weight)
    np.testing.assert_array_equal(one.y, other.y)
    assert one.classes == other.classes
    assert list(one.ids) == list(other.ids)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_gives_the_same_graph(tmp_path, dialect):
    plain = load_dataset(write(tmp_path / "plain" / "g", {}, "utf-8"))
    assert plain.num_features == 5  # two numbers and three words
    assert plain.classes == ("Kö0", "Kö1", "Kö2")
    assert plain.ids[1] == "01"
    form, encoding, told = DIALECTS[dialect]
    ending = {"tab": "tsv", "bars": "csv.gz"}.get(dialect, "csv")
    told = "" if ending == "tsv" else told
    graph = load_dataset(write(tmp_path / "other" / "g", form, encoding, ending))
    same(graph, plain)
    notes = [note for note in graph.notes if "`encoding" in note]
    assert len(notes) == bool(told)
    assert all(told in note for note in notes)


def test_options_win(tmp_path):
    plain = load_dataset(write(tmp_path / "plain" / "g", {}, "utf-8"))
    folder = write(tmp_path / "other" / "g", {"sep": "^", "number": comma}, "cp1250")
    with pytest.raises(InputError, match="`sep"):
        load_dataset(folder)
    same(load_dataset(folder, sep="^", decimal=",", encoding="cp1250"), plain)
    same(load_dataset(write(tmp_path / "tabs" / "g", {"sep": "\t"}, "utf-8"), sep="tab"), plain)


def folder_of(tmp_path: Path, nodes: str, edges: str = "source,target\n0,1\n1,2\n2,3\n") -> Path:
    (tmp_path / "nodes.csv").write_text(nodes)
    (tmp_path / "edges.csv").write_text(edges)
    return tmp_path


def numbers(graph) -> list[float]:
    """The only column of numbers, as it was before it was scaled."""
    column = graph.encoding.columns[0]
    return (dense(graph.x)[:, 0] * column.scale + column.shift).tolist()


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        ("id;a;b;label\n0;1.234;1,5;p\n1;2.345;2,5;q\n2;3.456;3,5;p\n3;999;4,5;q\n", [1234, 2345, 3456, 999]),
        ("id;a;label\n0;1.234;p\n1;2.345;q\n2;3.456;p\n3;4.567;q\n", [1.234, 2.345, 3.456, 4.567]),  # no comma at all
        ("id;a;label\n0;1,234;p\n1;2,345;q\n2;3,456;p\n3;4,567;q\n", [1.234, 2.345, 3.456, 4.567]),
        ('id,a,label\n0,"1,234",p\n1,"2,345",q\n2,"3,456",p\n3,999,q\n', [1234, 2345, 3456, 999]),
        ('id,a,label\n0,"1,234.5",p\n1,"2,345",q\n2,7.25,p\n3,999,q\n', [1234.5, 2345, 7.25, 999]),
        ("id;a;label\n0;1.234.567;p\n1;NA;q\n2;-3,5;p\n3;1e3;q\n", [1234567, 411854.5, -3.5, 1000]),  # a gap: the mean
        ("id,a,label\n0,1'234.5,p\n1,2,q\n2,3,p\n3,4,q\n", [1234.5, 2, 3, 4]),
    ],
)
def test_numbers(tmp_path, nodes, wanted):
    graph = load_dataset(folder_of(tmp_path, nodes), impute=True)
    np.testing.assert_allclose(numbers(graph), wanted, rtol=1e-4)


def test_points_that_might_mark_thousands_are_named(tmp_path):
    nodes = "id;people;label\n0;1.234;p\n1;2.345;q\n2;999;p\n3;4.567;q\n"
    graph = load_dataset(folder_of(tmp_path, nodes))
    assert any("points in people taken for decimal points" in note and "`decimal" in note for note in graph.notes)
    graph = load_dataset(tmp_path, decimal=",")
    np.testing.assert_allclose(numbers(graph), [1234, 2345, 999, 4567], rtol=1e-4)


@pytest.mark.parametrize(
    "nodes",
    [
        "id,a,label\n0,0.5,p;q\n1,0.25,r;s\n2,0.125,p;q\n3,1.0,r;s\n",  # a separator in every row
        'id,"a;b",label\n0,0.5,"p;q"\n1,0.25,"r;s"\n2,0.125,"p;q"\n3,1.0,"r;s"\n',  # and in the header
        'id,a,label\n0,0.5,"p\tq, r"\n1,0.25,"r"\n2,0.125,"p\tq, r"\n3,1.0,r\n',
        "id,a,label\n0,0.5,p|q\n1,0.25,r|s\n2,0.125,p|q\n3,1.0,r|s\n",
    ],
)
def test_a_plain_file_stays_plain(tmp_path, nodes):
    graph = load_dataset(folder_of(tmp_path, nodes))
    assert dense(graph.x)[:, 0].tolist() == [0.5, 0.25, 0.125, 1.0]
    assert not any("`sep" in note for note in graph.notes)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "it is empty"),
        (b"id,a,label\n0,1,2,3,p\n", "more cells than its header: name the separator with `sep"),
        (b"id,a,label\n0,1,p\n1,2,q\n2,3,p,7,8,9\n", "line 4 has 6 cells, the header has 3.*`sep"),
        (b'id,a,label\n0,1,"p\n', "quotation mark is not closed"),
        (b"id,a,label\n0,\x81\x8d,p\n", "not text in cp1252; `encoding"),
        (b"\x00\x01\xff\xfe" * 30, "`encoding"),
    ],
)
def test_no_parser_speaks_to_the_user(tmp_path, content, sentence):
    folder_of(tmp_path, "")
    (tmp_path / "nodes.csv").write_bytes(content)
    with pytest.raises(InputError, match=sentence) as refused:
        load_dataset(tmp_path)
    assert "C error" not in str(refused.value)
    assert "codec" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"sep": "ab"}, "`sep` must be one character"),
        ({"decimal": ";"}, "`decimal` ';' is unknown"),
        ({"encoding": "klingon"}, "`encoding` 'klingon' is unknown"),
        ({"encoding": "hex"}, "`encoding` 'hex' is unknown"),
    ],
)
def test_wrong_options(tmp_path, options, sentence):
    with pytest.raises(InputError, match=sentence):
        load_dataset(write(tmp_path / "g", {}, "utf-8"), **options)


def test_late_bytes_that_are_not_utf8(tmp_path):
    """The first lines are plain, and the encoding shows only after them."""
    rows = [f"{i},{i % 7},{'pq'[i % 2]}" for i in range(40_000)]
    rows[39_990] = "39990,3,ü"
    (tmp_path / "nodes.csv").write_bytes(("id,a,label\n" + "\n".join(rows) + "\n").encode("cp1252"))
    pd.DataFrame({"source": range(9), "target": range(1, 10)}).to_csv(tmp_path / "edges.csv", index=False)
    graph = load_dataset(tmp_path)
    assert graph.classes == ("p", "q", "ü")
    assert any("cp1252" in note for note in graph.notes)


@pytest.mark.parametrize("seed", range(15))
def test_what_a_plain_writer_writes_is_read_as_it_was(tmp_path, seed):
    """Random columns of numbers and of words full of marks, between commas: nothing is taken for something else."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 80))
    marks = np.array([*";|\t,.:' -/", "a", "Ä", "1", "22", "333"])
    kinds = {
        "number": lambda: rng.normal(0, 10.0 ** rng.integers(-3, 6), n),
        "rounded": lambda: rng.normal(5, 2, n).round(int(rng.integers(1, 4))),
        "whole": lambda: rng.integers(-5, 10**6, n),
        "words": lambda: ["w" + "".join(rng.choice(marks, 6)) for _ in range(n)],
    }
    columns = {f"c{i}": kinds[kind]() for i, kind in enumerate(rng.choice(list(kinds), 4))}
    table = pd.DataFrame(columns)
    table.to_csv(tmp_path / "t.csv", index=False)
    frame = read_file(tmp_path / "t.csv")
    assert frame.form == ()
    for name in table:
        if table[name].dtype.kind in "if":
            np.testing.assert_allclose(frame.table[name].to_numpy(), table[name].to_numpy(), rtol=1e-12)
        else:
            assert list(frame.table[name]) == list(table[name])
