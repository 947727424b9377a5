"""Sets and intervals that hold the truth as often as asked for: split-conformal prediction.

The rows that judged the model without choosing it (``FitRows``) say how low the probability of the truth may be, or how
large the error. What holds for them holds for new rows that are like them (Vovk et al., 2005; Lei et al., 2018).
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from rapgnn.errors import InputError, shown
from rapgnn.network.known_labels import FitRows

LEAST = 4.0  # rows beyond the bound, on average, from which a class has a bound of its own


def check_coverage(coverage: Any) -> float:
    number = isinstance(coverage, int | float | np.number) and not isinstance(coverage, bool)
    if not (number and 0 < coverage < 1):
        raise InputError(f"coverage must be a number between 0 and 1, got {shown(coverage)}.")
    return float(coverage)


def bound(values: np.ndarray, coverage: float) -> float:
    """The ⌈(n + 1) · coverage⌉-th smallest of n values: a new one like them lies below it that often."""
    place = math.ceil((len(values) + 1) * coverage - 1e-9)
    return math.inf if place > len(values) else float(np.partition(values, place - 1)[place - 1])


def least_probabilities(rows: FitRows, coverage: float) -> np.ndarray:
    """From which probability a class (or label) is in the set, ``[outputs]``.

    Each class has a bound of its own, by the rows whose truth it is; those with few rows share one.
    """
    p, y = rows.probabilities.double().numpy(), rows.y.numpy()
    has = y == 1 if y.ndim == 2 else y[:, None] == np.arange(p.shape[1])
    counts, order = has.sum(0), np.argsort(has.sum(0), kind="stable")
    least = LEAST / (1 - coverage)
    few = int((counts < least).sum())
    while 0 < few < len(counts) and counts[order[:few]].sum() < least:
        few += 1
    groups = [*([order[:few]] if few else []), *order[few:, None]]
    bounds = np.zeros(len(counts))
    for group in groups:
        bounds[group] = 1 - bound(np.concatenate([1 - p[has[:, j], j] for j in group]), coverage)
    return bounds


def half_widths(rows: FitRows, coverage: float) -> np.ndarray:
    """How far from the prediction an interval reaches, ``[targets]``."""
    errors = (rows.y - rows.probabilities).abs().double().numpy()
    return np.array([bound(column[~np.isnan(column)], coverage) for column in errors.T])


def coverage_columns(
    rows: FitRows, coverage: float, p: np.ndarray, names: Sequence[Any], *, numbers: bool
) -> dict[str, Any]:
    """Columns of a table of predictions: ``set``, the classes with a bar between them, or ``low`` and ``high``.

    Args:
        p: ``[rows, outputs]``, probabilities or numbers.
    """
    if numbers:
        width = half_widths(rows, coverage)
        ends = [("", 0)] if p.shape[1] == 1 else [(f"_{name}", j) for j, name in enumerate(names)]
        return {
            f"{word}{end}": p[:, j] + sign * width[j] for end, j in ends for word, sign in (("low", -1), ("high", 1))
        }
    inside = p >= least_probabilities(rows, coverage)[: p.shape[1]]
    words = np.array([str(name) for name in names], dtype=object)
    return {"set": ["|".join(words[row]) for row in inside]}


def coverage_table(sets: np.ndarray, y: np.ndarray, names: list[str]) -> pd.DataFrame:
    """How often sets (or intervals) hold the truth, ``covered``, of how many ``rows``, how many classes they have on
    average, ``size``: of all rows, then by class, label or target.

    Args:
        sets: ``[rows, outputs]``, whether the class is in the set; of targets whether the interval holds the truth.
        y: class numbers, or a table with NaN where unknown.
    """
    if y.ndim == 2 and not np.isin(y[~np.isnan(y)], (0, 1)).all():
        has = ~np.isnan(y)
    else:
        has = y == 1 if y.ndim == 2 else y[:, None] == np.arange(sets.shape[1])
    lines = [("all", has)] + [(name, has & (np.arange(len(names)) == j)) for j, name in enumerate(names)]
    table = [(name, sets[true].mean() if true.any() else np.nan, int(true.sum())) for name, true in lines]
    sizes = [sets[true.any(1)].sum(1).mean() if true.any() else np.nan for _, true in lines]
    return pd.DataFrame(table, columns=["class", "covered", "rows"]).assign(size=sizes)
