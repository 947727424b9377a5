"""Cells become records: found in the store, or measured now and stored at once."""

from collections.abc import Callable
from datetime import date

from rapgnn.errors import InputError, OutputError
from rapgnn.experiments.bench.rows import measure_or_say, source_code
from rapgnn.experiments.reproduce.cells import Cell, cell_key
from rapgnn.experiments.reproduce.item import Graphs
from rapgnn.experiments.reproduce.kinds import KINDS, PARTS
from rapgnn.experiments.reproduce.store import Store
from rapgnn.experiments.run import OnEpoch, Record
from rapgnn.versions import hardware, versions


class CellError(Exception):
    """A cell that could not be measured, in one sentence."""


def measured(cell: Cell, graphs: Graphs, store: Store, on_epoch: OnEpoch = None) -> Record:
    """The record of a cell, with its labels.

    A kind with parts is joined of their records and not stored itself: they are.
    """
    key = cell_key(cell, graphs.checksum(cell.dataset))
    record = store.find(key)
    if record is None and cell.kind in PARTS:
        pieces = PARTS[cell.kind].split(cell, graphs)
        _measure_together(cell, pieces, graphs, store, on_epoch)
        parts = [measured(part, graphs, store, on_epoch) for part in pieces]
        joined = PARTS[cell.kind].join(cell, parts)
        record = store.keep(_of_parts(parts) | joined | _named(cell, key))
    elif record is None:
        found = _attempt(cell, lambda: KINDS[cell.kind](cell, graphs, on_epoch))
        record = store.add(_stamp(graphs.device) | found | _named(cell, key))
    return record | cell.labels | ({"labels": sorted(cell.labels)} if cell.labels else {})


def _measure_together(cell: Cell, pieces: list[Cell], graphs: Graphs, store: Store, on_epoch: OnEpoch) -> None:
    """Measure at once what is missing of a cell, where that can be done."""
    keys = [cell_key(piece, graphs.checksum(piece.dataset)) for piece in pieces]
    missing = [(piece, key) for piece, key in zip(pieces, keys, strict=True) if store.find(key) is None]
    if len(missing) < 2:
        return
    together = PARTS[cell.kind].together
    found = measure_or_say(lambda: {"records": together([piece for piece, _ in missing], graphs, on_epoch)})
    for (piece, key), record in zip(missing, found.get("records") or (), strict=False):  # none: one at a time
        store.add(_stamp(graphs.device) | record | _named(piece, key))


def is_there(cell: Cell, graphs: Graphs, store: Store) -> bool:
    """Whether nothing of a cell is left to measure."""
    if store.find(cell_key(cell, graphs.checksum(cell.dataset))) is not None:
        return True
    parts = PARTS[cell.kind].split(cell, graphs) if cell.kind in PARTS else []
    return bool(parts) and all(is_there(part, graphs, store) for part in parts)


def _attempt(cell: Cell, measure: Callable[[], Record]) -> Record:
    """What was measured; what cannot be, for want of memory or by its settings, is a ``CellError``."""
    try:
        record = measure_or_say(measure)
    except OutputError:
        raise
    except InputError as error:
        raise CellError(str(error)) from error
    if set(record) == {"note"}:
        raise CellError(f"{record['note']}.")
    return record


def _stamp(device: str) -> Record:
    """How a record came about; what the kind itself says goes before it."""
    return {
        "device": device,
        "hardware": hardware(device),
        "date": date.today().isoformat(),
        "versions": versions(),
        "source": source_code(),
    }


def _of_parts(parts: list[Record]) -> Record:
    """How the last part came about, and all the hardware there was."""
    last = parts[-1]
    return {
        **{name: last[name] for name in ("device", "date", "versions", "source") if name in last},
        "hardware": " and ".join(dict.fromkeys(part["hardware"] for part in parts)),
    }


def _named(cell: Cell, key: str) -> Record:
    return {"kind": cell.kind, "dataset": cell.dataset, "key": key}
