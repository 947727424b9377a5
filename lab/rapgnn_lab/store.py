"""One resumable store: a record is found by what was asked for, and is in a JSON file as soon as it is measured.

The rows of a benchmark are measured where the store has none, in this process or in one of their own.
"""

import gzip
import hashlib
import json
import subprocess
import sys
import tomllib
import warnings
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch

from rapgnn.compare import Record
from rapgnn.device import hardware, versions
from rapgnn.errors import InputError, InputNotice
from rapgnn.files import is_regular, read_regular, write_atomic


class Store:
    """The records in a JSON file, which is written anew with every one that is measured.

    Args:
        path: None: nothing is stored.
        command: what was typed; it is put in front of the records that name none.
        again: find nothing of an earlier run.
        earlier: records that are found, too, before those of the file.
    """

    def __init__(self, path: Path | None, command: str = "", again: bool = False, earlier: Sequence[Record] = ()):
        self.path, self.command = path, command
        self.reused: list[Record] = []
        self._stored = read_records(path) if path is not None and is_regular(path) else []
        self._known = [] if again else [*earlier, *self._stored]
        self._asked: list[Record] = []
        self._index: dict[tuple[str, ...], dict[str, Record]] = {}  # by the names of the settings, and by their values

    def find(self, settings: Record) -> Record | None:
        """What was measured with these settings, by this run or an earlier one."""
        wanted = plain(settings)
        self._asked.append(wanted)
        names = tuple(wanted)
        if names not in self._index:
            self._index[names] = {_text(record, names): record for record in reversed(self._known)}
        record = self._index[names].get(_text(wanted, names))
        self.reused += [] if record is None else [record]
        return record

    def add(self, record: Record, settings: Record) -> Record:
        """Store a record that was measured now, in place of one with the same settings; as it will be found."""
        stored, wanted = plain(record), plain(settings)
        self._known.insert(0, stored)
        self._index.clear()
        self._write([*(r for r in self._stored if not _holds(r, wanted)), stored])
        return stored

    def keep(self, record: Record, settings: Record) -> None:
        """Store a record unless the file has it."""
        if not any(_holds(r, plain(settings)) for r in self._stored):
            self.add(record, settings)

    def finish(self, records: Sequence[Record]) -> None:
        """Store the records of the whole run, and after them what the file holds of others."""
        others = [r for r in self._stored if not any(_holds(r, asked) for asked in self._asked)]
        self._write([*records, *others])

    def _write(self, records: Sequence[Record]) -> None:
        front = {"command": self.command} if self.command else {}
        self._stored = [front | record for record in records]
        if self.path is not None:
            write_json(self.path, self._stored)


def _text(record: Record, names: Sequence[str]) -> str:
    return json.dumps([record.get(name) for name in names], sort_keys=True)


def _holds(record: Record, settings: Record) -> bool:
    return all(key in record and record[key] == value for key, value in settings.items())


def read_records(path: Path) -> list[Record]:
    """The records in a JSON file, packed by gzip where its name says so."""
    try:
        data = read_regular(path)
        records = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
        if not isinstance(records, list) or not all(isinstance(r, dict) for r in records):
            raise ValueError
    except (OSError, ValueError, EOFError, zlib.error):
        raise InputError(f"{path} holds no records: remove it, or name another file.") from None
    return records


def packaged(name: str) -> Any:
    """A table of this package's own, TOML or JSON."""
    text = files("rapgnn_lab").joinpath(name).read_text(encoding="utf-8")
    return json.loads(text) if name.endswith(".json") else tomllib.loads(text)


def write_json(path: Path, value: Record | Sequence[Record]) -> None:
    packed = path.suffix == ".gz"
    text = json.dumps(plain(value), indent=None if packed else 1, allow_nan=False, ensure_ascii=False) + "\n"
    data = gzip.compress(text.encode(), mtime=0) if packed else text.encode()
    write_atomic(path, lambda temporary: temporary.write_bytes(data))


def plain(value: Any) -> Any:
    """As JSON gives it back: lists for tuples, null for what is no number."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not abs(value) < float("inf") else value


@cache
def source_code() -> str:
    """Eight hexadecimal digits of the laboratory's source."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).resolve().parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


def measure_or_say(measure: Callable[[], Record]) -> Record:
    """What was measured; where memory does not suffice, a ``note`` that says so. Notices on the input are not shown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputNotice)
        try:
            return measure()
        except (MemoryError, RuntimeError) as error:
            if not isinstance(error, MemoryError | torch.OutOfMemoryError) and "alloc" not in str(error).lower():
                raise
            return {"note": "out of memory"}


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


def stamp() -> Record:
    """When something is measured, and by which code."""
    return {"date": date.today().isoformat(), "source": source_code()}


def measure_rows(
    rows: Iterable[Row], store: Store | None = None, on_row: Callable[[], None] = lambda: None
) -> list[Record]:
    """Every row's record, in order: from the store where it is there, else measured now and stored."""
    store = store or Store(None)
    records = []
    for row in rows:
        record = store.find(row.settings)
        if record is None:
            record = row.settings | stamp() | measure_or_say(row.measure)
            store.add(record, row.settings)
        records.append(record)
        on_row()
    return records


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

    def ratio(r: Record, method: str, key: str) -> float | None:
        other, own = known.get(place(method, r), {}).get(key), r.get(key)
        return other / own if other and own else None

    return [r | {name: ratio(r, *one) for name, one in wanted.items()} for r in records]


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
