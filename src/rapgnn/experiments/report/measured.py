"""What lies in a folder of results: the records of every item, and the verdicts on the claims."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rapgnn.errors import InputError
from rapgnn.experiments.reproduce.claims.evidence import Evidence
from rapgnn.experiments.reproduce.claims.verdicts import CLAIMS, verdicts
from rapgnn.experiments.reproduce.items import ITEMS
from rapgnn.experiments.reproduce.outputs import CLAIMS as CLAIMS_FILE
from rapgnn.experiments.run import Record
from rapgnn.files import is_regular, read_regular


@dataclass(frozen=True)
class Measured:
    """The records of the items that are there, by name, and a verdict on every claim."""

    records: dict[str, list[Record]]
    claims: list[Record]

    @property
    def quick(self) -> bool:
        """Whether any record is of a quick run."""
        return any(r.get("quick") for rows in self.records.values() for r in rows)

    @cached_property
    def claims_of(self) -> dict[str, list[str]]:
        """Item -> the claims that its records are evidence for."""
        found: dict[str, list[str]] = {}
        for item, records in self.records.items():
            alone = Evidence({item: records})
            found[item] = [claim.name for claim in CLAIMS if claim.judge(alone).details]
        return found


def read_measured(folder: Path) -> Measured:
    """All that a folder holds; an item without a file is not there."""
    if not folder.is_dir():
        raise InputError(
            f"there is no folder {folder}: measure with rapgnn reproduce --out {folder}, or name another --results."
        )
    records = {name: found for name in ITEMS if (found := _records(folder / f"{name}.json"))}
    claims = _records(folder / CLAIMS_FILE)
    known = {claim.name for claim in CLAIMS}
    if {claim.get("claim") for claim in claims} != known:  # not there, or of another version
        claims = verdicts(records)
    return Measured(records, claims)


def _records(path: Path) -> list[Record]:
    if not is_regular(path):
        return []
    try:
        found = json.loads(read_regular(path))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}; measure it again with rapgnn reproduce.") from error
    if not (isinstance(found, list) and all(isinstance(r, dict) for r in found)):
        raise InputError(f"{path} holds no list of records: measure it again with rapgnn reproduce.")
    return found
