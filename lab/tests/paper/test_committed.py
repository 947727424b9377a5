"""The committed tables, claims and pages are what the committed records say, texts to the letter; plots are images."""

import json
import shutil
from pathlib import Path

import pytest

from rapgnn_lab.bench.depth import TITLES as BENCH_TITLES
from rapgnn_lab.paper.items import ITEMS
from rapgnn_lab.paper.layers import STRATEGIES
from rapgnn_lab.paper.plots import ORDER, look, save_image
from rapgnn_lab.paper.run import describe, write_index
from rapgnn_lab.paper.timed import TITLES
from rapgnn_lab.store import read_records

RESULTS = Path(__file__).resolve().parents[3] / "results" / "reproduce"


@pytest.mark.parametrize("name", [name for name in ITEMS if (RESULTS / f"{name}.json").is_file()])
def test_a_committed_table_is_that_of_its_records(name):
    records = json.loads((RESULTS / f"{name}.json").read_text())
    assert describe(ITEMS[name], records) in (RESULTS / f"{name}.md").read_text()


def test_the_committed_claims_are_those_of_the_records(tmp_path):
    for path in (*RESULTS.glob("*.json"), *RESULTS.glob("*.md")):
        shutil.copy(path, tmp_path)
    write_index(tmp_path, list(ITEMS.values()))
    assert (tmp_path / "README.md").read_text() == (RESULTS / "README.md").read_text()
    claims, committed = (json.loads((folder / "claims.json").read_text()) for folder in (tmp_path, RESULTS))
    assert_alike(claims, committed)


def assert_alike(one: object, other: object) -> None:
    """All the same, but numbers to nine digits: the last ones differ between processors."""
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert list(one) == list(other)
        one, other = list(one.values()), list(other.values())
    if isinstance(one, list):
        for part, same in zip(one, other, strict=True):
            assert_alike(part, same)
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-9, abs=0)
    else:
        assert one == other


@pytest.mark.parametrize("name", [name for name, item in ITEMS.items() if item.figures])
def test_a_plot_is_an_image(name, tmp_path, readable_plot):
    """Also where a strategy could not be measured."""
    records, path = read_records(RESULTS / f"{name}.json"), tmp_path / "no-suffix"
    records += [records[0] | dict.fromkeys(records[0].keys() & {"train_ms_per_epoch", "infer_ms", "peak_memory_mb"})]
    save_image(ITEMS[name].figures(records), name, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    readable_plot(path)


def test_every_strategy_has_a_style_of_its_own():
    assert {*TITLES, *STRATEGIES, *BENCH_TITLES} <= set(ORDER)
    looks = [tuple(look(place).values()) for place in range(len(ORDER))]
    assert len(set(looks)) == len(looks)
