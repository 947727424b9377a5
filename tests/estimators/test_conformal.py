"""Sets and intervals hold the truth as often as they promise, on rows that the model has not seen."""

import numpy as np
import pandas as pd
import pytest
import torch

from folders import tables, write
from rapgnn import InputError, RAPNodeClassifier, RAPNodeRegressor, load_dataset, load_model
from rapgnn.estimators.conformal import bound, coverage_table, half_widths, least_probabilities
from rapgnn.network.known_labels import FitRows
from samples import node_data


def judges(p: np.ndarray, y: np.ndarray) -> FitRows:
    rows = FitRows(0, len(y), 1 if y.ndim == 1 else y.shape[1], p.shape[1])
    rows.probabilities.copy_(torch.from_numpy(p))
    rows.labels.copy_(torch.from_numpy(y.reshape(len(y), -1)))
    return rows


def drawn(rows: int, seed: int, classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities that are too sure, of classes of which some are harder than others."""
    rng = np.random.default_rng(seed)
    y = rng.choice(classes, rows, p=np.array([0.4, 0.3, 0.2, 0.1]))
    scores = rng.normal(size=(rows, classes)) * 2
    scores[np.arange(rows), y] += np.array([4.0, 2.0, 1.0, 0.0])[y]
    p = np.exp(scores)
    return p / p.sum(1, keepdims=True), y


def test_a_new_value_lies_below_the_bound_as_often_as_asked_for():
    rng = np.random.default_rng(0)
    for count in (9, 19, 60):
        below = [rng.normal() <= bound(rng.normal(size=count), 0.9) for _ in range(4000)]
        place = np.ceil((count + 1) * 0.9) / (count + 1)
        assert np.mean(below) == pytest.approx(place, abs=0.02)
    assert bound(np.arange(8.0), 0.9) == np.inf  # so few rows cannot promise it


@pytest.mark.parametrize("coverage", [0.8, 0.9])
def test_sets_cover_every_class_although_probabilities_are_too_sure(coverage):
    shares = []
    for seed in range(5):
        least = least_probabilities(judges(*drawn(2000, seed)), coverage)
        p, y = drawn(4000, 100 + seed)
        table = coverage_table(p >= least, y, list("abcd")).set_index("class")
        shares.append(table["covered"])
    mean = pd.concat(shares, axis=1).mean(axis=1)
    assert mean["all"] == pytest.approx(coverage, abs=0.01)
    assert (mean - coverage).abs().max() < 0.02
    assert table["rows"].iloc[1:].sum() == table["rows"]["all"] == 4000


def test_classes_with_few_rows_share_a_bound():
    p, y = drawn(150, 0)
    least = least_probabilities(judges(p, y), 0.9)
    assert len(set(least)) < 4
    assert np.isinf(least_probabilities(judges(p[:5], y[:5]), 0.9)).all()  # all classes, always


def test_many_labels_and_targets_with_gaps():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, (500, 3)).astype(np.float32)
    p = np.clip(rng.uniform(size=(500, 3)) * 0.6 + 0.4 * truth, 0, 1).astype(np.float32)
    gaps = truth.copy()
    gaps[::3, 1] = np.nan
    rows = judges(p, np.nan_to_num(gaps, nan=torch.finfo(torch.float32).min))
    least = least_probabilities(rows, 0.9)
    assert all((p[truth[:, j] == 1, j] >= least[j]).mean() == pytest.approx(0.9, abs=0.03) for j in range(3))
    wide = half_widths(rows, 0.9)
    assert all((np.abs(p - truth)[:, j] <= wide[j]).mean() == pytest.approx(0.9, abs=0.03) for j in range(3))


def test_an_estimator_promises_and_keeps_it(tmp_path):
    data = node_data()
    model = RAPNodeClassifier().fit(data)
    sets = model.predict_set(data, 0.9)
    assert sets.shape == (300, 3)
    assert sets.dtype == bool
    test = data.test_mask.numpy()
    assert sets[test, data.y.numpy()[test]].mean() > 0.8
    assert (model.predict_set(data, 0.99) >= sets).all()  # more is promised, so no class is missing
    np.testing.assert_array_equal(model.predict_set(data, rows=[5, 2]), sets[[5, 2]])
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(load_model(tmp_path / "m").predict_set(data), sets)
    for wrong in (0, 1, 90, "0.9", True):
        with pytest.raises(InputError, match="coverage must be a number between 0 and 1"):
            model.predict_set(data, wrong)


def test_numbers_have_intervals():
    data = node_data()
    y = data.x[:, 0].numpy() * 3 + np.random.default_rng(0).normal(size=300)
    both = np.stack([y, -y], 1)
    masks = {split: getattr(data, f"{split}_mask") for split in ("train", "val", "test")}
    test = data.test_mask.numpy()
    for target in (y, both):
        model = RAPNodeRegressor(search=False).fit(data.x, target, edge_index=data.edge_index, **masks)
        interval = model.predict_interval(data.x, edge_index=data.edge_index)
        assert interval.shape == (*target.shape, 2)
        inside = (interval[..., 0] <= target) & (target <= interval[..., 1])
        assert inside[test].mean() == pytest.approx(0.9, abs=0.08)


def test_the_split_of_the_fit_is_saved_and_found_again_by_id(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    nodes = pd.DataFrame({"id": [f"p{i}" for i in range(200)], "a": rng.normal(size=200) + y, "label": y})
    edges = pd.DataFrame(rng.choice(nodes["id"], (400, 2)), columns=["source", "target"])
    folder = write(tmp_path / "people", nodes=nodes, edges=edges)
    model = RAPNodeClassifier(search=False).fit(folder)
    model.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    wanted = model.score(folder, split="test")
    assert loaded.score(folder, split="test") == wanted
    order = rng.permutation(200)
    moved = write(tmp_path / "moved", nodes=nodes.iloc[order], edges=edges)
    assert loaded.score(moved, split="test") == pytest.approx(wanted)
    graph = loaded.with_splits(load_dataset(moved))
    back = {name: set(order[getattr(graph, name).numpy()].tolist()) for name in ("train", "val", "test")}
    assert back == {name: set(model.split_[name].tolist()) for name in back}
    own = write(tmp_path / "own", nodes=nodes.assign(split=np.where(np.arange(200) % 2, "train", "test")), edges=edges)
    assert len(loaded.with_splits(load_dataset(own)).test) == 100  # a split of the data's own counts


def test_the_score_of_pure_noise_is_that_of_chance():
    gaps = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x, y, edges = rng.normal(size=(400, 8)), rng.integers(0, 2, 400), rng.integers(0, 400, (2, 1200))
        model = RAPNodeClassifier(num_layers=2, seed=seed).fit(x, y, edge_index=edges)
        gaps.append(model.validation_score_ - model.score(x, y, edge_index=edges, split="test"))
    assert abs(np.mean(gaps)) < 0.05


def test_the_command_line_and_the_report_say_them(rapgnn, tmp_path):
    nodes, edges = tables(200)
    for name, label in (("words", nodes["label"]), ("numbers", nodes["height"] + nodes["leaves"])):
        folder, model, table = (
            write(tmp_path / name, nodes=nodes.assign(label=label), edges=edges),
            tmp_path / "m",
            None,
        )
        code, _, err = rapgnn("fit", folder, "--out", model, "--no-search", "--report", tmp_path / "r.html")
        assert code == 0, err
        assert rapgnn("predict", model, folder, "--out", tmp_path / "p.csv", "--coverage", 0.9)[0] == 0
        table = pd.read_csv(tmp_path / "p.csv", keep_default_na=False)
        if name == "words":
            held = [truth in said.split("|") for truth, said in zip(label, table["set"], strict=True)]
        else:
            held = (table["low"] <= label) & (label <= table["high"])
        assert np.mean(held) > 0.8
        assert "that promise 90 %" in (tmp_path / "r.html").read_text()
    code, _, err = rapgnn("predict", model, folder, "--out", tmp_path / "p.csv", "--coverage", 90)
    assert (code, "coverage must be a number between 0 and 1" in err) == (2, True)
