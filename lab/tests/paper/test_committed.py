"""The committed tables, claims and pages are what the committed records say, texts to the letter."""

import json
import shutil
from pathlib import Path

import pytest

from rapgnn_lab.paper.items import ITEMS
from rapgnn_lab.paper.run import describe, write_index

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
