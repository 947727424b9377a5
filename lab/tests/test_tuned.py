"""The stored settings of the paper's datasets."""

from dataclasses import replace

import pytest

from rapgnn import Config
from rapgnn.compare import default_config
from rapgnn.errors import InputError
from rapgnn_lab.baselines.systems import METHODS
from rapgnn_lab.tuned import COLUMNS, best_settings, chosen_config, stored


def test_stored_settings_are_found_for_every_strategy(molecules):
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
        rows = [s for s in stored() if (s["dataset"], s["method"], s["column"]) == (dataset, "rap", "best")]
        chosen = best_settings(dataset, "rap", "best")
        assert [s["settings"] for s in rows if s["chosen"]] == [chosen]
    assert default_config(small_graph, "end-to-end").patience is not None


def test_the_columns_of_the_tables_have_their_own_settings(small_graph):
    """The paper's ranges on the one side, all that the library offers on the other."""
    cora = replace(small_graph, name="cora")
    faithful, best = (chosen_config(cora, "rap", column) for column in COLUMNS)
    assert (faithful.inference, faithful.jumping, faithful.embedding) == ("sample", "last", "pretrained")
    assert faithful.hidden_channels in (16, 32)
    assert best.to_dict() == Config().update(**best_settings("cora", "rap", "best")).to_dict()
    other = chosen_config(cora, "fixed-diagonal", "faithful")
    assert other.to_dict() == faithful.to_dict()
    full = chosen_config(cora, "fixed-full", "faithful")
    weights = {"structure": "full", "distribution": "linear"}
    assert full.to_dict() == faithful.to_dict() | weights
    own = chosen_config(cora, "fixed-full", "faithful", own=True)
    assert own.to_dict() != full.to_dict()
    assert own.distribution in ("glorot", "linear")
    ptc = replace(small_graph, name="ptc")
    absent = [(ptc, "fixed-full", "faithful", None, True), (small_graph, "end-to-end", "best"), (cora, "rap", "middle")]
    for given in absent:
        with pytest.raises(InputError):
            chosen_config(*given)
