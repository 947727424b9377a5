"""The rows of a benchmark, measured where the store has none, and their ratios."""

import json
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date

import torch

from rapgnn.compare import Record
from rapgnn.device import hardware, versions
from rapgnn.errors import InputError
from rapgnn_lab.store import Store, measure_or_say, source_code


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


def measure_rows(
    rows: Iterable[Row], store: Store | None = None, on_row: Callable[[], None] = lambda: None
) -> list[Record]:
    """Every row's record, in order: from the store where it is there, else measured now and stored."""
    store = store or Store(None)
    records = []
    for row in rows:
        record = store.find(row.settings)
        if record is None:
            stamp = {"date": date.today().isoformat(), "source": source_code()}
            record = row.settings | stamp | measure_or_say(row.measure)
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
