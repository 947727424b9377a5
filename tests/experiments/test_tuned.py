"""The stored settings of the paper's datasets."""

from dataclasses import replace

from rapgnn import Config
from rapgnn.experiments.tuned import best_settings, default_config, stored
from rapgnn.training.methods import METHODS


def test_stored_settings_are_found_for_every_strategy(molecules):
    from rapgnn.experiments.tuned import best_settings, default_config

    named = replace(molecules, name="molesol", task="graph-regression")
    chosen = best_settings("molesol", "end-to-end", "pretrained", higher=False)
    assert default_config(named, "end-to-end").lr == chosen["lr"]
    assert default_config(named, "rap").embedding == "pretrained-gnn"
    assert default_config(named, "fixed-full").lr == default_config(named, "rap").lr


def test_stored_defaults_are_valid_and_chosen_by_validation(small_graph):
    assert {"cora", "citeseer", "pubmed"} <= {s["dataset"] for s in stored()}
    for entry in stored():
        Config().update(**entry["settings"])
        assert entry["method"] in METHODS
    for dataset in ("cora", "citeseer", "pubmed"):
        values = {s["embedding"]: s["val_mean"] for s in stored() if (s["dataset"], s["method"]) == (dataset, "rap")}
        chosen = best_settings(dataset, "rap", "best")["embedding"]
        assert all(values[chosen] >= value for value in values.values())
    assert default_config(small_graph, "end-to-end").patience is not None
