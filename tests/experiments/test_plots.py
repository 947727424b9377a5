"""Plots of records: readable images that hold the records' numbers."""

import matplotlib as mpl
import pytest

from rapgnn.experiments.plots import plot_comparison
from rapgnn.training.methods import METHODS


def words(draw, records, path) -> str:
    """The plot as SVG with its words as words."""
    with mpl.rc_context({"svg.fonttype": "none"}):
        draw(records, path)
    return path.read_text()


def test_the_plot_of_a_comparison_is_an_image(comparison, readable, tmp_path):
    plot_comparison(comparison, tmp_path / "c.png")
    readable(tmp_path / "c.png")
    assert list(tmp_path.iterdir()) == [tmp_path / "c.png"]


def test_the_plot_of_a_comparison_holds_its_numbers(comparison, tmp_path):
    text = words(plot_comparison, comparison, tmp_path / "c.svg")
    for record, metric, time in zip(comparison, ("81.2", "74.6", "67.9"), ("0.0417", "23.1", "5.07"), strict=True):
        assert f">{METHODS[record['method']].title}<" in text
        assert f">{metric}<" in text
        assert f">{time}<" in text
    assert "meadow: training methods, mean of 2 seeds" in text
    assert "test accuracy (%)" in text


def test_an_error_is_plotted_in_its_own_unit(comparison, tmp_path):
    records = [r | {"task": "graph-regression", "mean": 1.5, "std": 0.25} for r in comparison]
    text = words(plot_comparison, records, tmp_path / "c.svg")
    assert ">1.500<" in text
    assert "(lower is better)" in text


def test_a_metric_that_does_not_exist_is_no_bar(comparison, readable, tmp_path):
    plot_comparison([r | {"mean": float("nan"), "std": float("nan")} for r in comparison], tmp_path / "c.png")
    readable(tmp_path / "c.png")


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_every_ending_gives_its_format(suffix, comparison, tmp_path):
    plot_comparison(comparison, tmp_path / f"c{suffix}")
    begins = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix]
    assert (tmp_path / f"c{suffix}").read_bytes().startswith(begins)
