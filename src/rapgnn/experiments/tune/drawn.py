"""Points of a search space drawn at random, alone or near another one."""

import hashlib
import math
import random
from collections.abc import Sequence
from typing import Any

KEEP, STEP = 0.75, 0.12  # how likely a setting is kept, and by what share of its range a number moves


class RandomTrial:
    """A point of a space, drawn at random: what ``suggest`` asks a trial for.

    Args:
        name: decides every draw.
        parent: settings of another trial. Most of them are kept, or moved by a little; a few are drawn anew.
    """

    def __init__(self, name: str, parent: dict[str, Any] | None = None):
        self._rng, self._parent = random.Random(hashlib.sha256(name.encode()).digest()), parent or {}

    def _keeps(self, name: str) -> bool:
        return self._rng.random() < KEEP and self._parent.get(name) is not None

    def suggest_categorical(self, name: str, options: Sequence[Any]) -> Any:
        kept, drawn = self._keeps(name), self._rng.choice(list(options))
        return self._parent[name] if kept and self._parent[name] in options else drawn

    def suggest_float(self, name: str, low: float, high: float, log: bool = False) -> float:
        to, back = (math.log, math.exp) if log else (float, float)
        low, high = to(low), to(high)
        if not self._keeps(name):
            return back(self._rng.uniform(low, high))
        moved = to(self._parent[name]) + self._rng.gauss(0.0, STEP * (high - low))
        return back(min(max(moved, low), high))

    def suggest_int(self, name: str, low: int, high: int, log: bool = False) -> int:
        return min(high, max(low, round(self.suggest_float(name, low, high, log))))
