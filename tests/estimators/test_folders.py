"""Folders and tables by the model's own encoding: in Python exactly as on the command line."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from rapgnn import RAPNodeClassifier, load_dataset, load_model
from rapgnn.errors import InputError, InputNotice
from rapgnn.sparse import dense


def soils(folder, rows: int, kinds: list[str], shift: float = 0.0, labels: bool = True, seed: int = 0):
    """Plants whose species is told by their soil; numbers that differ in place and size from folder to folder."""
    rng = np.random.default_rng(seed)
    soil = rng.choice(kinds, rows)
    nodes = pd.DataFrame({"id": [f"{folder.name} {i}" for i in range(rows)], "soil": soil})
    nodes["height"] = rng.normal(shift, 1 + abs(shift), rows)
    if labels:
        nodes["label"] = pd.Series(soil).map({"clay": "oak", "loam": "elm", "sand": "pine", "peat": "alder"})
    ends = rng.integers(rows, size=(2 * rows, 2))
    ends = ends[(soil[ends[:, 0]] == soil[ends[:, 1]]) & (ends[:, 0] != ends[:, 1])]
    folder.mkdir()
    nodes.to_csv(folder / "nodes.csv", index=False)
    pd.DataFrame({"source": nodes["id"][ends[:, 0]].to_numpy(), "target": nodes["id"][ends[:, 1]].to_numpy()}).to_csv(
        folder / "edges.csv", index=False
    )
    return folder, nodes


@pytest.fixture(scope="module")
def soil_model(tmp_path_factory):
    folder, nodes = soils(tmp_path_factory.mktemp("soils") / "one", 120, ["clay", "loam", "sand"])
    return RAPNodeClassifier(seed=0).fit(str(folder)), folder, nodes


def test_a_folder_with_fewer_categories_and_other_sizes_is_read_as_the_model_reads_it(soil_model, tmp_path):
    model, *_ = soil_model
    other, nodes = soils(tmp_path / "two", 80, ["sand", "clay"], shift=50.0, seed=1)
    for data in (other, str(other), load_dataset(other)):
        assert (model.predict(data) == nodes["label"]).mean() == 1.0
        assert model.score(data) == 1.0
    bare, nodes = soils(tmp_path / "three", 40, ["loam", "sand"], labels=False, seed=2)
    answers = model.predict(bare)  # no labels needed
    assert (answers == nodes["soil"].map({"loam": "elm", "sand": "pine"})).all()
    assert model.transform(bare).shape[0] == 40


def test_python_and_the_command_line_say_the_same(soil_model, tmp_path, rapgnn):
    model, *_ = soil_model
    other, _ = soils(tmp_path / "two", 50, ["clay", "loam"], shift=-3.0, seed=3)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert type(loaded) is RAPNodeClassifier
    assert (loaded.predict(other) == model.predict(other)).all()
    assert rapgnn("predict", tmp_path / "model", other, "--out", tmp_path / "p.csv")[0] == 0
    assert pd.read_csv(tmp_path / "p.csv")["label"].tolist() == model.predict(other).tolist()


def test_what_the_model_has_not_seen_is_a_notice_and_stops_nothing(soil_model, tmp_path):
    model, *_ = soil_model
    other, nodes = soils(tmp_path / "two", 60, ["clay", "peat"], seed=4)
    for data in (other, load_dataset(other)):
        with pytest.warns(InputNotice, match="never saw"):
            answers = model.predict(data)
        assert (answers[nodes["soil"] == "clay"] == "oak").all()


def test_splits_that_a_user_sets_stay_and_the_own_folder_is_not_read_again(soil_model):
    model, folder, _ = soil_model
    graph = load_dataset(folder)
    assert graph.encoding == model.schema_.encoding
    shuffled = replace(graph, x=graph.x[np.random.default_rng(0).permutation(120)], read_as=None)
    assert (model.predict(replace(graph, x=shuffled.x)) == model.predict(shuffled)).all()
    other = replace(graph, test=graph.val, encoding=replace(graph.encoding, impute=True))
    assert model.score(other, split="test") == model.score(graph, split="val")
    assert dense(graph.x).shape == (120, 4)


def test_a_graph_with_labels_of_another_kind_is_refused_as_before(soil_model):
    model, folder, _ = soil_model
    graph = load_dataset(folder)
    with pytest.raises(InputError, match="regression"):
        model.predict(replace(graph, y=graph.y[:, None].float(), task="node-regression", num_outputs=1))
