"""The records that were measured, each in a file of its own as soon as it is there: ``OUT/cells/<key>.json``.

The files of finished items, ``OUT/<item>.json``, hold the same records and are looked at, too, and so is
``OUT/cells.json.gz``, where ``pack`` puts the cells of a folder that is to be kept: a folder without ``cells`` is as
good.
"""

import contextlib
import gzip
import json
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from rapgnn.experiments.bench.rows import plain
from rapgnn.experiments.run import Record
from rapgnn.files import TEMPORARY, is_regular, write_atomic

CELLS, PACKED = "cells", "cells.json.gz"
UNFINISHED_SECONDS = 60.0  # after which a file under a temporary name belongs to nobody
SHOWN = ("item", "quick", "command", "labels")  # what a table's file adds to a record, beside the cell's labels


class Store:
    """Records by key.

    Args:
        out: the folder; it is made when there is something to write.
        again: find nothing of earlier runs.
        say: told what cannot be read.
    """

    def __init__(self, out: Path, again: bool = False, say: Callable[[str], None] = lambda line: None):
        self.out, self.again, self.say = out, again, say
        self._known: dict[str, Record] = {}
        self._damaged: set[Path] = set()
        _remove_unfinished(out, out / CELLS)
        for path in sorted(out.glob("[!.]*.json")) if not again else ():
            for record in self.read_item(path):
                self._known.setdefault(record["key"], unlabelled(record))
        for record in self.read_item(out / PACKED) if not again and is_regular(out / PACKED) else ():
            self._known.setdefault(record["key"], record)

    def find(self, key: str) -> Record | None:
        """What was measured under this key, by this run or an earlier one."""
        path = self.out / CELLS / f"{key}.json"
        if key not in self._known and not self.again and is_regular(path):
            record = _read(path)
            if isinstance(record, dict) and record.get("key") == key:
                self._known[key] = record
            elif path not in self._damaged:
                self._damaged.add(path)
                self.say(f"{path} is damaged: it is measured again.")
        return self._known.get(key)

    def add(self, record: Record) -> Record:
        """Write a record that was measured now; the record as it will be found."""
        stored = self.keep(record)
        self.write(self.out / CELLS / f"{stored['key']}.json", stored)
        return stored

    def keep(self, record: Record) -> Record:
        """Find this record again in this run, without a file of its own."""
        stored = plain(record)
        self._known[stored["key"]] = stored
        return stored

    def read_item(self, path: Path) -> list[Record]:
        """The records of a finished item; none where the file holds something else."""
        records = _read(path)
        if isinstance(records, list) and all(isinstance(r, dict) for r in records):
            return [record for record in records if isinstance(record.get("key"), str)]
        if path not in self._damaged:
            self._damaged.add(path)
            self.say(f"{path} is damaged: its records are not used.")
        return []

    def pack(self) -> Path:
        """Put the cells that lie in files of their own, and those packed before, into one small file."""
        path = self.out / PACKED
        found = {record["key"]: record for record in (self.read_item(path) if is_regular(path) else ())}
        for cell in sorted((self.out / CELLS).glob("[!.]*.json")):
            record = _read(cell)
            if isinstance(record, dict) and record.get("key") == cell.stem:
                found[cell.stem] = record
        data = gzip.compress(json.dumps([found[key] for key in sorted(found)]).encode(), mtime=0)
        write_atomic(path, lambda temporary: temporary.write_bytes(data))
        return path

    def write_item(self, path: Path, records: Sequence[Record]) -> None:
        """Put an item's records in place; of those that were there, what is not among them goes to the cells."""
        new = {record["key"] for record in records}
        for record in self.read_item(path) if is_regular(path) else ():
            kept = self.out / CELLS / f"{record['key']}.json"
            if record["key"] not in new and not is_regular(kept):
                self.write(kept, unlabelled(record))
        self.write(path, list(records))

    def write(self, path: Path, value: Record | list[Record]) -> None:
        """Put a record, or a list of them, in place."""
        text = json.dumps(plain(value), indent=1, allow_nan=False, ensure_ascii=False) + "\n"
        write_atomic(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def unlabelled(record: Record) -> Record:
    """A record without what a table has added to it."""
    names = {*SHOWN, *record.get("labels", ())}
    return {name: value for name, value in record.items() if name not in names}


def _remove_unfinished(*folders: Path) -> None:
    """Remove what runs that were killed had begun to write; what is young may be another run's."""
    for path in (path for folder in folders for path in folder.glob(".rapgnn-*")):
        with contextlib.suppress(OSError):
            if TEMPORARY.fullmatch(path.name) and time.time() - path.stat().st_mtime > UNFINISHED_SECONDS:
                path.unlink()


def _read(path: Path) -> object:
    with contextlib.suppress(OSError, ValueError, EOFError, zlib.error):
        data = path.read_bytes()
        return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return None
