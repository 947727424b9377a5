"""What is wrong with a folder is said in the words of the reader of small files."""

import numpy as np
import pytest

import folders
from big_folders import MEMORY, plain
from rapgnn.datasets.folder import Reading, read_folder
from rapgnn.errors import InputError
from rapgnn.scale.tables.convert import convert_folder


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


@pytest.mark.parametrize("fault", SPOILED)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
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


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (np.ones((59, 2)), "has 59 rows, but there are 60 nodes"),
        (np.full((60, 2), np.nan), "hold 120 NaN or infinite values"),
        (np.full((60, 2), 1e18), "beyond 1e\\+15"),
        (np.ones((60, 0)), "at least one column"),
        (np.full((60, 2), "a"), "must be a table of numbers"),
    ],
)
def test_arrays_of_features_that_are_refused(tmp_path, x, said):
    nodes, edges = plain(60)
    folder = folders.write(tmp_path / "g", "parquet", nodes=nodes[["id", "label"]], edges=edges)
    np.save(folder / "features.npy", x)
    with pytest.raises(InputError, match=said):
        read_folder(folder, "g")
    with pytest.raises(InputError, match=said):
        convert_folder(folder, tmp_path / "out", memory=MEMORY)


def test_no_features(tmp_path):
    nodes, edges = plain(60)
    folder = folders.write(tmp_path / "g", "parquet", nodes=nodes[["id", "label"]], edges=edges)
    with pytest.raises(InputError, match="needs node features"):
        convert_folder(folder, tmp_path / "out", memory=MEMORY)


def test_columns_that_are_not_there_cannot_be_ignored(tmp_path):
    nodes, edges = plain(60)
    folder = folders.write(tmp_path / "g", "parquet", nodes=nodes, edges=edges)
    with pytest.raises(InputError, match="no column 'zebra' to ignore"):
        convert_folder(folder, tmp_path / "out", Reading(ignore=["zebra"]), MEMORY)
    found = convert_folder(folder, tmp_path / "out", Reading(ignore=["a"]), MEMORY)
    assert found.num_features == 1
