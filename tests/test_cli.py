"""The command line as a user types it: results, and one sentence with exit code 2 for every kind of bad input."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rapgnn.cli import main
from rapgnn.training.methods import METHODS

QUICK = ["--seeds", "1", "--epochs", "3", "--set", "pretrain_epochs=3", "--hidden", "8", "--layers", "2"]
SBM = "sbm:nodes=200,classes=3,features=8,train=5,val=40,test=60"


@pytest.fixture
def rapgnn(monkeypatch, capsys):
    """Run a command in this process: (exit code, standard output, standard error)."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["rapgnn", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        code = stop.value.code
        return (0 if code is None else int(code)), out, err

    return call


@pytest.fixture
def folder(tmp_path: Path):
    """Write a good graph folder with some arrays replaced."""

    def write(**changes: object) -> Path:
        rng = np.random.default_rng(0)
        n = 40
        y = np.arange(n) % 3
        nodes = {"x": rng.random((n, 4)), "y": y}
        nodes |= {f"{s}_mask": (np.arange(n) // 10) == i for i, s in enumerate(("train", "val", "test"))}
        edges = {"source": rng.integers(n, size=90), "target": rng.integers(n, size=90)}
        for key, value in changes.items():
            (edges if key in ("source", "target", "weight") else nodes)[key] = value
        np.savez(tmp_path / "nodes.npz", **nodes)
        np.savez(tmp_path / "edges.npz", **edges)
        return tmp_path

    return write


def refused(result: tuple[int, str, str], *words: str) -> None:
    code, _, err = result
    lines = [line for line in err.splitlines() if line.strip() and "0:00:0" not in line]  # progress bars aside
    assert code == 2, err
    assert len(lines) == 1, err
    assert lines[0].startswith("rapgnn: ")
    assert lines[0].endswith(".")
    for word in words:
        assert word in lines[0]


CONTRACT = {
    *("dataset", "task", "method", "backbone", "metric", "mean", "std", "values", "seeds", "fit_seconds"),
    *("train_ms_per_epoch", "eval_ms_per_epoch", "peak_memory_mb", "engine", "config", "versions"),
}


def test_compare_writes_the_contract(rapgnn, tmp_path):
    out = tmp_path / "new" / "c.json"
    code, text, _ = rapgnn("compare", SBM, *QUICK, "--seeds", 2, "--json", out, "--plot", tmp_path / "c.png")
    assert code == 0
    records = json.loads(out.read_text())
    assert [r["method"] for r in records] == [
        "rap",
        "end-to-end",
        "pretrained-embedding",
        "fixed-diagonal",
        "fixed-full",
        "random-full",
        "identity",
    ]
    for r in records:
        assert set(r) >= CONTRACT
        assert r["mean"] == pytest.approx(np.mean(r["values"]))
        assert r["std"] == pytest.approx(np.std(r["values"]))
        assert r["seeds"] == [0, 1]
        assert 0 <= r["mean"] <= 1
        assert r["fit_seconds"] > 0
    assert records[0]["engine"] == "polynomial"
    assert records[5]["engine"] == "stepwise"
    assert "RAP-GNN" in text
    assert "full weight matrices mix channels" in text
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


def test_two_runs_give_bitwise_equal_metrics(rapgnn, tmp_path):
    values = []
    for name in ("a.json", "b.json"):
        code, _, _ = rapgnn("compare", SBM, *QUICK, "--epochs", 20, "--seeds", 2, "--json", tmp_path / name)
        assert code == 0
        values.append([(r["values"], r["val_values"], r["epochs"]) for r in json.loads((tmp_path / name).read_text())])
    assert values[0] == values[1]


def test_many_labels_are_scored_by_rocauc(rapgnn, tmp_path):
    code, text, _ = rapgnn("compare", SBM + ",labels=4,signal=4", *QUICK, "--epochs", 30, "--json", tmp_path / "m.json")
    assert code == 0
    record = json.loads((tmp_path / "m.json").read_text())[0]
    assert (record["metric"], record["task"]) == ("rocauc", "node-multilabel")
    assert record["mean"] > 0.55
    assert "ROC-AUC" in text


@pytest.mark.parametrize(
    "embedding", ["pretrained", "pretrained-gnn", "learnable", "fixed-random", "random", "identity"]
)
@pytest.mark.parametrize("backbone", ["gcn", "sage"])
def test_every_embedding_and_backbone(rapgnn, tmp_path, embedding, backbone):
    arguments = (*QUICK, "--methods", "rap,fixed-full", "--embedding", embedding, "--json", tmp_path / "r.json")
    code, _, err = rapgnn("compare", SBM, *arguments, "--backbone", backbone)
    assert code == 0, err
    records = json.loads((tmp_path / "r.json").read_text())
    assert [(r["config"]["embedding"], r["backbone"]) for r in records] == [(embedding, backbone)] * 2
    assert records[0]["engine"] == ("stepwise" if embedding in ("learnable", "random", "identity") else "polynomial")


@pytest.mark.parametrize("inference", ["sample", "mean", "expected"])
def test_every_inference(rapgnn, tmp_path, inference):
    arguments = ("--methods", "rap", "--inference", inference, "--json", tmp_path / "r.json")
    code, _, err = rapgnn("compare", SBM, *QUICK, *arguments)
    assert code == 0, err
    assert json.loads((tmp_path / "r.json").read_text())[0]["inference"] == inference


def test_user_folder(rapgnn, folder, tmp_path):
    path = folder(weight=np.random.default_rng(1).random(90))
    code, _, err = rapgnn("compare", path, *QUICK, "--methods", "rap", "--json", tmp_path / "r.json")
    assert code == 0, err
    assert json.loads((tmp_path / "r.json").read_text())[0]["dataset"] == path.name
    code, text, _ = rapgnn("data", "info", path)
    assert code == 0
    assert "40" in text


def test_a_graph_without_validation_or_test_nodes_trains(rapgnn, folder, tmp_path):
    none = np.zeros(40, dtype=bool)
    path = folder(val_mask=none, test_mask=none)
    code, _, err = rapgnn("compare", path, *QUICK, "--methods", "rap,end-to-end", "--json", tmp_path / "r.json")
    assert code == 0, err
    assert json.loads((tmp_path / "r.json").read_text())[0]["mean"] is None


def broken(array: np.ndarray, value: float) -> np.ndarray:
    array = array.astype(np.float64)
    array[3, 1] = value
    return array


X, EDGES, Y = np.ones((40, 4)), np.arange(40).repeat(2)[:90], np.arange(40) % 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"x": broken(X, np.nan)}, ("NaN or infinite",)),
        ({"x": broken(X, np.inf)}, ("NaN or infinite",)),
        ({"source": np.full(90, 40)}, ("source 40", "is not in")),
        ({"target": np.full(90, -1)}, ("target -1", "is not in")),
        ({"source": np.arange(3)}, ("source has 3 entries but target has 90",)),
        ({"source": np.full(90, 0.5)}, ("source 0.5",)),
        ({"y": Y[:-1]}, ("x has 40 entries but y has 39",)),
        ({"y": Y + 0.5}, ("whole numbers",)),
        ({"y": np.full(40, -1)}, ("no row has a label",)),
        ({"y": np.array(["a"] * 40)}, ("nothing to tell apart",)),
        ({"train_mask": np.ones(39, dtype=bool)}, ("train_mask has 39",)),
        ({"val_mask": np.ones(41, dtype=bool)}, ("val_mask has 41",)),
        ({"train_mask": np.zeros(40, dtype=bool)}, ("no labelled nodes",)),
        ({"train_mask": (np.arange(40) < 10) & (Y != 1)}, ("class 1", "training")),
        ({"val_mask": np.arange(40) < 5}, ("both the train and the val",)),
        ({"weight": np.ones(89)}, ("weight has 89",)),
        ({"weight": np.full(90, np.nan)}, ("edge weights",)),
        ({"x": np.ones((40, 2, 2))}, ("a row per node",)),
        ({"val_mask": np.arange(40) // 10 == 2}, ("both the val and the test",)),
        ({"train_mask": (np.arange(40) < 10).astype(np.uint8)}, ("booleans",)),
        ({"train_mask": np.array(True)}, ("one value per row",)),
        ({"y": np.where(np.arange(40)[:, None] < 10, [[0.0, 1.0]], np.nan)}, ("val split is NaN",)),
    ],
)
def test_bad_graphs_are_refused_in_one_sentence(rapgnn, folder, changes, words):
    refused(rapgnn("compare", folder(**changes), *QUICK, "--methods", "rap"), *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("compare", "nowhere"), ("'nowhere'", "cora")),
        (("compare", SBM, "--layers", "0"), ("at least 1",)),
        (("compare", SBM, "--hidden", "0"), ("at least 1",)),
        (("compare", SBM, "--seeds", "0"), ("at least 1",)),
        (("compare", SBM, "--epochs", "-1"), ("at least 1",)),
        (("compare", SBM, "--methods", "rap,magic"), ("'magic'", "end-to-end")),
        (("compare", SBM, "--methods", ","), ("no method",)),
        (("compare", SBM, "--backbone", "gat"), ("'gat'",)),
        (("compare", SBM, "--embedding", "magic"), ("'magic'",)),
        (("compare", SBM, "--head", "magic"), ("'magic'",)),
        (("compare", SBM, "--inference", "magic"), ("'magic'",)),
        (("compare", SBM, "--engine", "magic"), ("'magic'",)),
        (("compare", SBM, "--device", "abacus"), ("'abacus'",)),
        (("compare", SBM, "--set", "colour=red"), ("'colour'",)),
        (("compare", SBM, "--set", "dropout"), ("name=value",)),
        (("compare", SBM, "--set", "dropout=1.5"), ("dropout",)),
        (("compare", SBM, "--set", "dropout=much"), ("dropout",)),
        (("compare", SBM, "--set", "activation=tanh", "--engine", "polynomial"), ("tanh",)),
        (
            ("compare", SBM, "--set", "activation=tanh", "--inference", "expected", "--methods", "rap"),
            ("no exact form",),
        ),
        (("compare", SBM, "--set", "activation=tanh", "--head", "ridge", "--methods", "rap"), ("ridge",)),
        (("compare", "sbm:nodes=0"), ("nodes",)),
        (("compare", "sbm:size=3"), ("'size'",)),
        (("compare", "sbm:nodes=many"), ("'many'",)),
        (("compare", "sbm:nodes=20"), ("fewer than",)),
        (("compare", SBM, "--json", "/dev/null/x.json"), ("cannot write",)),
        (("compare", SBM, "--plot", "plot.txt"), (".png",)),
        (("compare", SBM, "--set", "weight_decay=Infinity"), ("weight_decay", "finite")),
        (("compare", SBM, "--set", "patience=-1"), ("patience",)),
        (("compare", SBM, "--set", "head_layers=0"), ("head_layers",)),
        (("compare", SBM, "--set", "schedule=epoch"), ("fixed-diagonal", "schedule")),
        (("compare", SBM, "--head", "ridge"), ("random-full", "ridge")),
        (("compare", SBM, "--first-seed", "99999999999999999999"), ("--first-seed",)),
        (("compare", "sbm:degree=nan"), ("degree",)),
        (("compare", "sbm:degree=inf"), ("degree",)),
        (("compare", "sbm:seed=-1"), ("seed",)),
        (("compare", "sbm:labels=1"), ("labels",)),
        (("tune", SBM.replace("val=40", "val=0")), ("validation",)),
        (("data", "get", "sbm"), ("generated",)),
        (("compare", SBM, "--plot", "/proc/x.png"), ("cannot write",)),
        (("compare", "cora", "--data-dir", "/does/not/exist"), ("does not exist",)),
        (("tune", SBM, "--trials", "0"), ("at least 1",)),
        (("tune", SBM, "--space", "magic"), ("'magic'",)),
        (("tune", SBM, "--method", "magic"), ("'magic'",)),
        (("bench", "depth", SBM, "--layers", "two"), ("'two'",)),
        (("data", "get", "nowhere"), ("'nowhere'",)),
        (("data", "check", "nowhere"), ("'nowhere'",)),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(rapgnn, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    refused(rapgnn(*arguments), *words)


def test_missing_and_damaged_folder_files_are_refused(rapgnn, folder):
    path = folder()
    whole = (path / "nodes.npz").read_bytes()
    (path / "nodes.npz").write_bytes(whole[: len(whole) // 2])
    refused(rapgnn("data", "info", path), "nodes.npz")
    (path / "nodes.npz").unlink()
    refused(rapgnn("data", "info", path), "nodes.csv (or .parquet, .npz) is missing")
    np.savez(path / "nodes.npz", x=X)
    refused(rapgnn("data", "info", path), "no label column", "it has x")
    np.savez(path / "nodes.npz", x=np.array([{"a": 1}], dtype=object))  # a pickle inside is never opened
    refused(rapgnn("data", "info", path), "nodes.npz")


def test_a_folder_named_like_a_dataset_is_not_that_dataset(rapgnn, folder, tmp_path):
    own = folder().rename(tmp_path.parent / "cora")
    try:
        code, _, err = rapgnn("compare", own, *QUICK[:4], "--methods", "rap", "--json", tmp_path.parent / "c.json")
        assert code == 0, err
        record = json.loads((tmp_path.parent / "c.json").read_text())[0]
        assert record["dataset"] == "folder cora"
        assert record["config"]["num_layers"] == 8  # the general default, not the one tuned for Cora
    finally:
        own.rename(tmp_path)


def test_tune_refuses_what_is_not_a_study(rapgnn, tmp_path):
    (tmp_path / "t.db").write_text("not a database, but long enough to look at" * 100)
    refused(rapgnn("tune", SBM, "--storage", tmp_path / "t.db", "--trials", 1), "not a database of trials")


def test_links_and_pipes_are_written_to_not_replaced(tmp_path):
    from rapgnn.files import write_atomic

    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_atomic(link, lambda path: path.write_text("new"))
    assert link.is_symlink()
    assert target.read_text() == "new"
    write_atomic(Path("/dev/null"), lambda path: path.write_text("gone"))
    assert Path("/dev/null").is_char_device()


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    from rapgnn.errors import InputError
    from rapgnn.files import write_atomic

    old = tmp_path / "old.json"
    old.write_text("precious")

    def full_disk(path: Path) -> None:
        path.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(InputError, match="No space left"):
        write_atomic(old, full_disk)
    assert old.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [old]


def test_a_failed_run_leaves_an_old_result_alone(rapgnn, folder, tmp_path):
    old = tmp_path / "old.json"
    old.write_text("precious")
    refused(rapgnn("compare", folder(x=broken(X, np.nan)), "--json", old), "NaN")
    assert old.read_text() == "precious"
    assert not list(tmp_path.glob(".old.json*"))


def test_bench_depth(rapgnn, tmp_path):
    out = tmp_path / "b.json"
    arguments = ("bench", "depth", SBM, "--layers", "1,2", "--hidden", 8, "--repeats", 1, "--json", out)
    code, text, err = rapgnn(*arguments, "--plot", tmp_path / "b.svg")
    assert code == 0, err
    records = json.loads(out.read_text())
    assert len(records) == 12
    assert all(r["train_ms_per_epoch"] > 0 for r in records)
    assert "GCNConv" in text


def test_data_list(rapgnn):
    code, text, _ = rapgnn("data", "list")
    assert code == 0
    assert all(name in text for name in ("cora", "citeseer", "pubmed", "sbm"))


def _commands() -> list[tuple[str, ...]]:
    import typer

    from rapgnn.cli.app import app

    found: list[tuple[str, ...]] = [()]
    for path in found:
        command = typer.main.get_command(app)
        for name in path:
            command = command.commands[name]
        found += [(*path, name) for name in getattr(command, "commands", {})]
    return found


@pytest.mark.parametrize("command", _commands(), ids=" ".join)
def test_help_fits_one_screen_and_holds_an_example(rapgnn, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    code, text, _ = rapgnn(*command, "--help")
    assert code == 0
    assert "Usage" in text
    assert f"Example: {' '.join(('rapgnn', *command))}" in text
    assert len(text.splitlines()) <= 40


def test_help_imports_nothing_heavy():
    names = "('torch', 'scipy', 'matplotlib', 'numpy')"
    heavy = f"import sys; import rapgnn.cli; print([m for m in {names} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_installed_command_answers():
    done = subprocess.run([sys.executable, "-m", "rapgnn", "compare", "nowhere"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("rapgnn: dataset 'nowhere' is unknown")


@pytest.fixture
def small_molecules(tmp_path: Path) -> Path:
    """Sixty small graphs in OGB's layout, regression unless the labels are replaced."""
    from test_graph_sources import molecules

    rng = np.random.default_rng(0)
    sizes, bonds = rng.integers(2, 6, 60), []
    for n in sizes:
        bonds.append([[i, i + 1] for i in range(n - 1)])
    atoms = np.zeros((sizes.sum(), 9), dtype=int)
    atoms[:, 0] = rng.integers(5, 9, sizes.sum())
    edges = [pair for one in bonds for pair in one]
    return molecules(
        tmp_path / "small",
        **{
            "raw/num-node-list": sizes,
            "raw/num-edge-list": sizes - 1,
            "raw/node-feat": atoms,
            "raw/edge": edges,
            "raw/edge-feat": np.stack([rng.integers(0, 4, len(edges)), *np.zeros((2, len(edges)), int)], axis=1),
            "raw/graph-label": sizes + 0.5,
            "split/scaffold/train": np.arange(40),
            "split/scaffold/valid": np.arange(40, 50),
            "split/scaffold/test": np.arange(50, 60),
        },
    )


def test_compare_covers_graph_regression_with_all_strategies(rapgnn, small_molecules, tmp_path, monkeypatch):
    monkeypatch.setenv("RAPGNN_CACHE", str(tmp_path / "cache"))
    json_file, plot = tmp_path / "g.json", tmp_path / "g.png"
    code, out, err = rapgnn("compare", small_molecules, *QUICK, "--json", json_file, "--plot", plot)
    assert code == 0, err
    records = json.loads(json_file.read_text())
    assert {r["method"] for r in records} == set(METHODS)
    assert all((r["metric"], r["task"], r["backbone"]) == ("rmse", "graph-regression", "gine") for r in records)
    assert "RMSE" in out
    assert plot.stat().st_size > 1000


def test_compare_reports_both_protocols(rapgnn, tmp_path):
    from test_graph_sources import tu

    graphs = 30
    folder = tu(
        tmp_path / "t",
        A="".join(f"{2 * g + 1}, {2 * g + 2}\n{2 * g + 2}, {2 * g + 1}\n" for g in range(graphs)),
        graph_indicator="".join(f"{g + 1}\n" * 2 for g in range(graphs)),
        graph_labels="".join(f"{g % 2}\n" for g in range(graphs)),
        node_labels="".join(f"{g % 2}\n" * 2 for g in range(graphs)),
        edge_labels=None,
        node_attributes=None,
    )
    (folder / "TINY_edge_labels.txt").unlink(missing_ok=True)
    json_file = tmp_path / "t.json"
    code, out, err = rapgnn("compare", folder, *QUICK, "--methods", "rap,end-to-end", "--json", json_file)
    assert code == 0, err
    for record in json.loads(json_file.read_text()):
        assert len(record["values"]) == len(record["strict_values"]) == 10
        assert record["backbone"] == "gin"
    assert "strict" in out
    only = tmp_path / "s.json"
    assert rapgnn("compare", folder, *QUICK, "--methods", "rap", "--protocol", "strict", "--json", only)[0] == 0
    assert "inner validation" in json.loads(only.read_text())[0]["protocol"]
    refused(rapgnn("compare", folder, *QUICK, "--protocol", "loose"), "protocol 'loose' is unknown")


def test_bench_graphs(rapgnn, small_molecules, tmp_path, monkeypatch):
    monkeypatch.setenv("RAPGNN_CACHE", str(tmp_path / "cache"))
    target = tmp_path / "b.json"
    arguments = ("--layers", 2, "--hidden", 8, "--batch-size", 16, "--repeats", 1, "--json", target)
    code, out, err = rapgnn("bench", "graphs", small_molecules, *arguments)
    assert code == 0, err
    records = json.loads(target.read_text())
    assert [r["method"] for r in records] == ["rap", "rap-stepwise", "end-to-end", "end-to-end-pyg"]
    assert all(r["train_ms_per_epoch"] > 0 for r in records)
    assert "than PyG" in out
    refused(rapgnn("bench", "graphs", SBM), "is one graph")


def test_tune_minimises_an_error(rapgnn, small_molecules, tmp_path, monkeypatch):
    pytest.importorskip("optuna")
    monkeypatch.setenv("RAPGNN_CACHE", str(tmp_path / "cache"))
    target = tmp_path / "t.json"
    arguments = ("--trials", 2, "--seeds", 1, "--storage", tmp_path / "t.db", "--json", target, "--space", "wide")
    code, _, err = rapgnn("tune", small_molecules, "--embedding", "fixed-random", *arguments)
    assert code == 0, err
    best = json.loads(target.read_text())[0]
    assert best["metric"] == "rmse"


def test_gine_on_a_single_graph_needs_edge_features(rapgnn):
    refused(rapgnn("compare", SBM, *QUICK, "--methods", "rap", "--backbone", "gine"), "needs edge features")


def test_gin_on_a_single_graph(rapgnn, tmp_path):
    target = tmp_path / "g.json"
    code, _, err = rapgnn("compare", SBM, *QUICK, "--methods", "rap", "--backbone", "gin", "--json", target)
    assert code == 0, err
    assert json.loads(target.read_text())[0]["engine"] == "polynomial"
