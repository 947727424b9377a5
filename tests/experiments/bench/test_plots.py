"""The benchmarks' plots: readable images that hold the records' words."""

import matplotlib as mpl
import pytest

from rapgnn.experiments.bench.depth import TITLES
from rapgnn.experiments.bench.peers import TITLES as PEERS
from rapgnn.experiments.bench.plots import COLORS, plot_depth, plot_memory


def words(draw, records, path) -> str:
    """The plot as SVG with its words as words."""
    with mpl.rc_context({"svg.fonttype": "none"}):
        draw(records, path)
    return path.read_text()


def test_the_plot_by_depth_is_an_image_with_every_method(by_depth, readable, tmp_path):
    """Also of records that know no validation and no inference."""
    plot_depth(by_depth, tmp_path / "d.png")
    readable(tmp_path / "d.png")
    text = words(plot_depth, by_depth, tmp_path / "d.svg")
    for word in ("RAP, shortcut", "end-to-end, CSR", "meadow, 96 channels, abacus, 7 rods", "peak memory (MB)"):
        assert f">{word}<" in text
    assert ">16<" in text
    assert ">training epoch (ms)<" in text
    later = [r | {"epoch_ms": 2.0, "infer_ms": 3.0} for r in by_depth]
    text = words(plot_depth, later, tmp_path / "d.svg")
    assert ">epoch with validation (ms)<" in text
    assert ">inference (ms)<" in text


@pytest.mark.parametrize("peaks", [(100.0, 100.004), (0.2, 0.2), (0.004, 900.0), (0.0, 0.0)])
def test_bars_that_are_nearly_equal_fit_into_the_plot(peaks, by_depth, readable, tmp_path):
    """matplotlib warns, which is an error here, where numbers beside the bars leave them no room."""
    records = [r | {"num_layers": 4, "peak_memory_mb": peak} for r, peak in zip(by_depth, peaks, strict=False)]
    plot_memory(records, tmp_path / "m.png")
    readable(tmp_path / "m.png")


def test_every_method_has_a_colour_of_its_own():
    assert {*TITLES, *PEERS} <= set(COLORS)
    for titles in (TITLES, PEERS):
        assert len({COLORS[name] for name in titles}) == len(titles)
