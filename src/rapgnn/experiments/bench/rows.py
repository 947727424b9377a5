"""The rows of a benchmark: each is stored as soon as it is measured, and a run that was stopped goes on after it."""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import torch

from rapgnn.errors import InputError
from rapgnn.experiments.run import Record
from rapgnn.files import is_regular, write_atomic
from rapgnn.versions import hardware, versions


@dataclass(frozen=True)
class Row:
    """One row of a table.

    Args:
        settings: what tells it from every other row, the machine included (see ``machine``).
        measure: what is found out; called once, where no earlier run has it.
    """

    settings: Record
    measure: Callable[[], Record]


def machine(device: torch.device | str) -> Record:
    """Where a row is measured; a row of another machine or other versions is another row."""
    name = str(torch.device(device))
    return {"device": name, "hardware": hardware(name), "threads": torch.get_num_threads(), "versions": versions()}


@cache
def source_code() -> str:
    """Eight hexadecimal digits of this package's source."""
    root = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


class RowStore:
    """The records in a JSON file.

    Args:
        path: None keeps nothing.
        command: what was typed; it is part of every record.
        again: measure everything anew, whatever is there.
    """

    def __init__(self, path: Path | None, command: str = "", again: bool = False):
        self.path, self.command, self.again = path, command, again
        self.found: list[Record] = []
        self._asked: list[Record] = []
        self._earlier = _read(path) if path is not None and is_regular(path) else []

    def find(self, settings: Record) -> Record | None:
        """What an earlier run measured with the same settings."""
        wanted = plain(settings)
        self._asked.append(wanted)
        same = [record for record in self._earlier if _holds(record, wanted)]
        if same and not self.again:
            self.found.append(same[0])
            return same[0]
        self._earlier = [record for record in self._earlier if record not in same]
        return None

    def add(self, record: Record) -> None:
        """Store a record that was measured now."""
        self._earlier.append(plain(record))
        self.write(self._earlier)

    def finish(self, records: Sequence[Record]) -> None:
        """Store the records of the whole run, and after them what the file holds of others."""
        others = [r for r in self._earlier if not any(_holds(r, asked) for asked in self._asked)]
        self.write([*records, *others])

    def write(self, records: Sequence[Record]) -> None:
        """Put these records in place of what the file holds."""
        if self.path is None:
            return
        full = [{"command": self.command, **record} for record in map(plain, records)]
        text = json.dumps(full, indent=1, allow_nan=False) + "\n"
        write_atomic(self.path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def measure_rows(
    rows: Iterable[Row], store: RowStore | None = None, on_row: Callable[[], None] = lambda: None
) -> list[Record]:
    """Every row's record, in order: from the store where it is there, else measured now and stored."""
    store = store or RowStore(None)
    records = []
    for row in rows:
        record = store.find(row.settings)
        if record is None:
            stamp = {"date": date.today().isoformat(), "source": source_code()}
            record = row.settings | stamp | measure_or_say(row.measure)
            store.add(record)
        records.append(record)
        on_row()
    return records


def measure_or_say(measure: Callable[[], Record]) -> Record:
    """What was measured; where memory does not suffice, a ``note`` that says so."""
    try:
        return measure()
    except (torch.OutOfMemoryError, MemoryError):
        return {"note": "out of memory"}
    except RuntimeError as error:
        if "alloc" not in str(error).lower():
            raise
        return {"note": "out of memory"}


def _holds(record: Record, settings: Record) -> bool:
    return all(key in record and record[key] == value for key, value in settings.items())


def plain(value: Any) -> Any:
    """As JSON gives it back: lists for tuples, null for what is no number."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not abs(value) < float("inf") else value


def _read(path: Path) -> list[Record]:
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(records, list) or not all(isinstance(r, dict) for r in records):
            raise ValueError
    except ValueError:
        raise InputError(f"{path} holds no records: remove it, or name another file for --json.") from None
    return records
