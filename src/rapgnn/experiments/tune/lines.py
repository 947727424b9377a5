"""The values of a random search in a file, a line each, and the trials ranked by them."""

import json
import os
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rapgnn.experiments.run import Record


class Lines:
    """The measured values of a search, a JSON line each; a line that was cut off is not read."""

    def __init__(self, path: Path):
        self.path, self.found = path, {}
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        for line in text.splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            self.found[record["trial"], record["seed"]] = record
        self._whole = text.endswith("\n") or not text

    def add(self, record: Record) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(("" if self._whole else "\n") + json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._whole = True
        self.found[record["trial"], record["seed"]] = record

    def values(self, trial: int) -> list[float]:
        """What a trial had on its seeds; nothing where one of them was refused."""
        own = [r["value"] for (t, _), r in self.found.items() if t == trial]
        return [] if None in own else own

    def settings(self, trial: int) -> dict[str, Any] | None:
        """Those of a trial that has begun."""
        return next((r["settings"] for (t, _), r in self.found.items() if t == trial), None)


def ranked(lines: Lines, trials: Iterable[int], higher: bool) -> list[int]:
    """The trials that have values, the best mean first."""
    means = {t: statistics.fmean(values) for t in trials if (values := lines.values(t))}
    return sorted(means, key=lambda t: (-means[t] if higher else means[t], t))
