"""Tables of rows by name that other installed packages add to, by an entry-point group."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any


class Extensible(Mapping[str, Any]):
    """This library's rows, and those of installed packages, which are loaded when they are asked for.

    Args:
        group: the entry-point group; its names are those of the rows.
        rows: this library's own; they win.
    """

    def __init__(self, group: str, rows: Mapping[str, Any]):
        self.group, self.rows = group, dict(rows)

    @cached_property
    def _installed(self) -> dict[str, EntryPoint]:
        return {entry.name: entry for entry in entry_points(group=self.group)}

    def __getitem__(self, name: str) -> Any:
        return self.rows[name] if name in self.rows else self._installed[name].load()

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows | self._installed)

    def __len__(self) -> int:
        return len(self.rows | self._installed)
