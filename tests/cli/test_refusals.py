"""One sentence and exit code 2 for every kind of bad input."""

import numpy as np
import pytest

from commands import QUICK, SBM, refused


def broken(array: np.ndarray, value: float) -> np.ndarray:
    array = array.astype(np.float64)
    array[3, 1] = value
    return array


X, EDGES, Y = np.ones((40, 4)), np.arange(40).repeat(2)[:90], np.arange(40) % 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"x": broken(X, np.nan)}, ("NaN or infinite",)),
        ({"source": np.full(90, 40)}, ("source 40", "is not in")),
        ({"source": np.arange(3)}, ("source has 3 entries but target has 90",)),
        ({"y": Y + 0.5j}, ("words or whole numbers",)),
        ({"train_mask": np.ones(39, dtype=bool)}, ("train_mask has 39",)),
        ({"train_mask": np.zeros(40, dtype=bool)}, ("no labelled nodes",)),
        ({"val_mask": np.arange(40) < 5}, ("both the train and the val",)),
        ({"weight": np.full(90, np.nan)}, ("edge weights",)),
        ({"train_mask": (np.arange(40) < 10).astype(np.uint8)}, ("booleans",)),
        ({"y": np.where(np.arange(40)[:, None] < 10, [[0.0, 1.0]], np.nan)}, ("val split is NaN",)),
    ],
)
def test_bad_graphs_are_refused_in_one_sentence(rapgnn, folder, changes, words):
    refused(rapgnn("compare", folder(**changes), *QUICK, "--methods", "rap"), *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("compare", "nowhere"), ("'nowhere'", "cora")),
        (("compare", "Pub-Med"), ("did you mean pubmed?",)),
        (("predict", "model", SBM, "--samples", "99999999", "--out", "p.csv"), ("--samples", "1000000")),
        (("predict", "model", SBM, "--samples", "1", "--out", "p.csv"), ("--samples", "2")),
        (("compare", SBM, "--layers", "0"), ("at least 1",)),
        (("compare", SBM, "--methods", "rap,magic"), ("'magic'", "end-to-end")),
        (("compare", SBM, "--methods", ","), ("no method",)),
        (("compare", SBM, "--backbone", "gat"), ("'gat'",)),
        (("compare", SBM, "--embedding", "magic"), ("'magic'",)),
        (("compare", SBM, "--device", "abacus"), ("'abacus'",)),
        (("compare", SBM, "--set", "colour=red"), ("'colour'",)),
        (("compare", SBM, "--set", "dropout"), ("name=value",)),
        (("compare", SBM, "--set", "activation=tanh", "--set", "engine=polynomial", "--methods", "rap"), ("tanh",)),
        (
            ("compare", SBM, "--set", "activation=tanh", "--set", "inference=expected", "--methods", "rap"),
            ("no exact form",),
        ),
        (("compare", "sbm:size=3"), ("'size'",)),
        (("compare", "sbm:nodes=many"), ("'many'",)),
        (("compare", "sbm:nodes=20"), ("fewer than",)),
        (("compare", SBM, "--json", "/dev/null/x.json"), ("cannot write",)),
        (("compare", SBM, "--methods", "all", "--set", "schedule=epoch"), ("fixed-diagonal", "schedule")),
        (("compare", SBM, "--methods", "all", "--head", "ridge"), ("random-full", "ridge")),
        (("compare", "sbm:degree=nan"), ("degree",)),
        (("data", "get", "sbm"), ("generated",)),
        (("compare", SBM, "--json", "/proc/x.json"), ("cannot write",)),
        (("compare", "cora", "--data-dir", "/does/not/exist"), ("does not exist",)),
        (("data", "get", "nowhere"), ("'nowhere'",)),
        (("fit", SBM, "--out", "m", "--set", "unist=3"), ("unknown setting 'unist'",)),
        (("fit", SBM, "--out", "m", "--set", "units=3", "--memory", "4GiB"), ("fixed coefficients",)),
        (("evaluate", "nowhere", SBM), ("holds no model",)),
        (("predict", "nowhere", SBM, "--out", "p.txt"), ("must end in .csv, .parquet",)),
        (("fit", SBM, "--out", "file"), ("it is a file",)),
        (("fit", SBM, "--out", "full"), ("holds other files",)),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(rapgnn, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/thing").write_text("")
    refused(rapgnn(*arguments), *words)


def test_missing_and_damaged_folder_files_are_refused(rapgnn, folder):
    path = folder()
    whole = (path / "nodes.npz").read_bytes()
    (path / "nodes.npz").write_bytes(whole[: len(whole) // 2])
    refused(rapgnn("data", "info", path), "nodes.npz")
    (path / "nodes.npz").unlink()
    refused(rapgnn("compare", path, *QUICK), "holds edges only", "put a nodes.csv")
    assert rapgnn("data", "info", path)[0] == 0  # edges alone are a graph, though one to learn nothing from
    np.savez(path / "nodes.npz", x=X)
    refused(rapgnn("compare", path, *QUICK), "no label column", "it has x")
    np.savez(path / "nodes.npz", x=np.array([{"a": 1}], dtype=object))  # a pickle inside is never opened
    refused(rapgnn("data", "info", path), "nodes.npz")
