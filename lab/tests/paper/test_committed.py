"""The committed tables, claims and pages are what the committed records say, to the letter."""

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
    for name in ("README.md", "claims.json"):
        assert (tmp_path / name).read_text() == (RESULTS / name).read_text()
