"""The rows of a benchmark: each is stored as soon as it is measured, and a run that was stopped goes on after it."""

import hashlib
import json
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import torch

from rapgnn.compare import Record
from rapgnn.device import hardware, versions
from rapgnn.errors import InputError
from rapgnn.files import is_regular, write_atomic


@dataclass(frozen=True)
class Row:
    """One row of a table: what tells it from every other row, the machine included (see ``machine``), and what measures
    it; called once, where no earlier run has it."""

    settings: Record
    measure: Callable[[], Record]


def machine(device: torch.device | str) -> Record:
    """Where a row is measured; a row of another machine or other versions is another row."""
    name = str(torch.device(device))
    return {"device": name, "hardware": hardware(name), "threads": torch.get_num_threads(), "versions": versions()}


@cache
def source_code() -> str:
    """Eight hexadecimal digits of the laboratory's source."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).resolve().parents[2].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


class RowStore:
    """The records in a JSON file, each with the command that was typed; ``again`` finds none of an earlier run."""

    def __init__(self, path: Path | None, command: str = "", again: bool = False):
        self.path, self.command, self.again = path, command, again
        self.reused: list[Record] = []
        self._asked: list[Record] = []
        self._earlier = _read(path) if path is not None and is_regular(path) else []

    def find(self, settings: Record) -> Record | None:
        """What an earlier run measured with the same settings."""
        wanted = plain(settings)
        self._asked.append(wanted)
        same = [record for record in self._earlier if _holds(record, wanted)]
        if same and not self.again:
            self.reused.append(same[0])
            return same[0]
        self._earlier = [record for record in self._earlier if record not in same]
        return None

    def add(self, record: Record) -> None:
        """Store a record that was measured now."""
        self._earlier.append(plain(record))
        self._write(self._earlier)

    def finish(self, records: Sequence[Record]) -> None:
        """Store the records of the whole run, and after them what the file holds of others."""
        others = [r for r in self._earlier if not any(_holds(r, asked) for asked in self._asked)]
        self._write([*records, *others])

    def _write(self, records: Sequence[Record]) -> None:
        if self.path is not None:
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


SAME = ("dataset", "num_layers", "hidden_channels", "batch_size")
SPEEDUPS = {
    f"{prefix}speedup_vs_{other}": (method, key)
    for method, other in (("end-to-end", "end_to_end"), ("end-to-end-pyg", "pyg"))
    for prefix, key in (("", "epoch_ms"), ("train_", "train_ms_per_epoch"))
}
"""Of epochs with their validation, and of training alone: the slow method, and what is compared."""


def with_ratios(records: Sequence[Record], wanted: dict[str, tuple[str, str]] = SPEEDUPS) -> list[Record]:
    """Beside every record how many times as much another method takes at the same setting; None where one is absent."""
    place = lambda method, r: (method, *(r.get(key) for key in SAME))  # noqa: E731
    known = {place(r["method"], r): r for r in records}
    done = []
    for r in records:
        ratios = {}
        for name, (method, key) in wanted.items():
            other, own = known.get(place(method, r), {}).get(key), r.get(key)
            ratios[name] = other / own if other and own else None
        done.append(r | ratios)
    return done


def in_child(module: str, request: Record) -> Record:
    """What ``python -m`` of a benchmark's module measures for a request, in a process that nothing was left in."""
    words = [sys.executable, "-m", module]
    done = subprocess.run(words, input=json.dumps(request), capture_output=True, text=True)
    if done.returncode in (-9, 137):
        return {"note": "out of memory"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise InputError(f"a measurement in a process of its own failed: {last}.")
    return json.loads(done.stdout.splitlines()[-1])


def answer(measure: Callable[[Record], Record]) -> None:
    """The child's side: a request on standard input, the record on standard output; a refusal is a result too."""
    warnings.simplefilter("ignore")
    try:
        record = measure(json.load(sys.stdin))
    except InputError as error:
        record = {"note": str(error)}
    print(json.dumps(record))


def plain(value: Any) -> Any:
    """As JSON gives it back: lists for tuples, null for what is no number."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not abs(value) < float("inf") else value


def _holds(record: Record, settings: Record) -> bool:
    return all(key in record and record[key] == value for key, value in settings.items())


def _read(path: Path) -> list[Record]:
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(records, list) or not all(isinstance(r, dict) for r in records):
            raise ValueError
    except ValueError:
        raise InputError(f"{path} holds no records: remove it, or name another file for --json.") from None
    return records
