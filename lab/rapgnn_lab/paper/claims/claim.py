"""What a claim is: a sentence of the paper, what was measured for it, and the rule that judges this.

What is measured are mostly comparisons: two records of one dataset, flat rows with a test, an outcome, and words.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from rapgnn.compare import Record
from rapgnn.graph.scores import CLASS_METRICS, NUMBER_METRICS
from rapgnn_lab.baselines.systems import METHODS
from rapgnn_lab.paper.claims.significance import (
    AHEAD,
    BEHIND,
    LEVEL,
    TIED,
    UNTESTED,
    compare_samples,
    compare_to_quoted,
    holm,
    outcome,
)
from rapgnn_lab.paper.rows import FAITHFUL
from rapgnn_lab.results import Published

HOLDS, PART, FAILS, MISSING = "holds", "holds in part", "does not hold", "not measured"
NAMED = 4  # comparisons that are listed one by one
METRICS = CLASS_METRICS | NUMBER_METRICS
STEPWISE = "rap-stepwise"
TITLES = {name: method.title for name, method in METHODS.items()} | {
    STEPWISE: "RAP-GNN, layer by layer",
    "end-to-end-pyg": "End-to-End, PyG",
}
Records = Mapping[str, Sequence[Record]]
"""Item -> its records; items may be missing."""


@dataclass(frozen=True)
class Rule:
    """How what was measured is judged.

    Args:
        sentence: the rule for people.
        judge: rows that have a test, or need none -> "holds", "holds in part", ...
    """

    sentence: str
    judge: Callable[[Sequence[Record]], str]


def rule(sentence: str) -> Callable[[Callable[[Sequence[Record]], str]], Rule]:
    """A function of rows as a rule."""
    return partial(Rule, sentence)


def grade(whole: bool, part: bool) -> str:
    """Holds, or in part, or not."""
    return HOLDS if whole else PART if part else FAILS


def every(
    sentence: str, good: Callable[[Record], bool], partly: Callable[[Sequence[Record]], bool] = lambda rows: False
) -> Rule:
    """Holds if all rows are good, in part if some are, or if ``partly`` says so."""
    return Rule(sentence, lambda rows: grade(all(map(good, rows)), any(map(good, rows)) or partly(rows)))


@dataclass(frozen=True)
class Finding:
    """What was measured for a claim: words, the test, and flat rows; those of the first row's column decide."""

    figures: str
    test: str
    details: Sequence[Record]


Measure = Callable[[Records], Finding | None]
"""Records -> what they say of a claim; None where they say nothing."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and how it is judged.

    Args:
        name: short.
        says: what the paper says, and where.
    """

    name: str
    says: str
    rule: Rule
    measure: Measure

    def judge(self, records: Records) -> Record:
        """What becomes of it, as a record."""
        measured = self.measure(records) or Finding("No records.", "none", [])
        rows = measured.details
        deciding = [r for r in rows if r.get("column") == rows[0].get("column") and r.get("outcome") != UNTESTED]
        return {
            "claim": self.name,
            "says": self.says,
            "verdict": self.rule.judge(deciding) if deciding else MISSING,
            "figures": measured.figures,
            "test": measured.test,
            "rule": self.rule.sentence,
            "details": list(rows),
            "quick": any(row["quick"] for row in rows),
        }


@rule("Holds if the first is behind in no comparison, in part if in fewer than half, does not hold otherwise.")
def not_behind(rows: Sequence[Record]) -> str:
    """At least as good."""
    behind = sum(row["outcome"] == BEHIND for row in rows)
    return grade(not behind, 2 * behind < len(rows))


@rule(
    "Holds if the first is ahead in every comparison, in part if it is ahead more often than behind, "
    "does not hold otherwise."
)
def better(rows: Sequence[Record]) -> str:
    """Better, everywhere."""
    ahead, behind = (sum(row["outcome"] == kind for row in rows) for kind in (AHEAD, BEHIND))
    return grade(ahead == len(rows), ahead > behind)


def title(method: str) -> str:
    """A method's name for people."""
    return TITLES.get(method, method)


def field(record: Record, name: str) -> Any:
    """Of the record, or of its configuration; RAP by the reference engine has a name of its own."""
    if name == "method" and record.get("method") == "rap" and record.get("engine") == "stepwise":
        return STEPWISE if "values" not in record else "rap"
    value = record.get(name)
    return value if value is not None else (record.get("config") or {}).get(name)


def find(records: Records, items: Sequence[str], **wanted: Any) -> list[Record]:
    """The records of these items whose fields are these, in the items' order."""
    every = (record for item in items for record in records.get(item, []))
    return [r for r in every if all(field(r, name) == value for name, value in wanted.items())]


def find_scores(records: Records, items: Sequence[str], column: str = FAITHFUL, **wanted: Any) -> Record | None:
    """The first record with values of a metric in this column; where none is named it is the paper's."""
    rows = (r for r in find(records, items, **wanted) if r.get("column", FAITHFUL) == column)
    return next((r for r in rows if any(math.isfinite(value) for value in values_of(r))), None)


def values_of(record: Record, kind: str = "") -> list[float]:
    """Of the metric; a run that diverged is None in a file, and has no number.

    Args:
        kind: ``"strict_"`` for the strict protocol's.
    """
    return [math.nan if value is None else float(value) for value in record.get(f"{kind}values") or []]


def compare(
    names: tuple[str, str],
    first: Record | None,
    second: Record | Published | None,
    *,
    column: str = FAITHFUL,
    paired: bool | None = None,
    kind: str = "",
) -> list[Record]:
    """One comparison on one dataset as a flat row, shares in points; none where one side was not measured.

    Args:
        names: of the first and the second.
        second: may be a published figure.
        paired: whether value i of both belong together; None: where both were measured on the same folds.
        kind: ``"strict_"`` for the values of the strict protocol.
    """
    quoted, other = (second, {}) if isinstance(second, Published) else (None, second or {})
    x, y = values_of(first or {}, kind), values_of(other, kind) if quoted is None else [(quoted.mean or 0) / 100]
    if first is None or not x or not y:
        return []
    metric, folds = METRICS[first["metric"]], "fold," in first.get("protocol", "")
    if quoted is not None:
        tested = compare_to_quoted(x, y[0], higher=metric.higher)
    else:
        same = len(x) == len(y) and all(first.get(name) == other.get(name) for name in ("seeds", "protocol"))
        tested = compare_samples(x, y, higher=metric.higher, paired=same and (folds if paired is None else paired))
    means = [statistics.fmean(value for value in values if math.isfinite(value)) for values in (x, y)]
    numbers = {"first_mean": means[0], "second_mean": means[1], "difference": tested.difference}
    factor = 100 if metric.percent else 1
    row = {"column": column, "dataset": first["dataset"], "first": names[0], "second": names[1]}
    row |= {"unit": "points" if metric.percent else metric.title}
    for key, value in (numbers | {"low": tested.low, "high": tested.high}).items():
        row[key] = None if value is None else factor * value
    row |= {"p": tested.p, "p_shared": tested.p_shared if folds else None, "test": tested.test}
    row |= {"runs": f"{len(x)} and {len(y)}"} if quoted is None else {"in_their_std": row["difference"] / quoted.std}
    return [row | {"quick": bool(first.get("quick") or other.get("quick"))}]


def settle(rows: Sequence[Record]) -> list[Record]:
    """The comparisons of one claim with Holm's p and their outcomes."""
    adjusted = holm([row["p"] for row in rows])
    return [
        row | {"p_holm": p, "outcome": outcome(row["difference"], p)} for row, p in zip(rows, adjusted, strict=True)
    ]


def compared(
    rows: Sequence[Record],
    *notes: str,
    head: str = "",
    beside: Mapping[str, Sequence[Record]] | None = None,
    words: Callable[[Sequence[Record]], str] | None = None,
) -> Finding | None:
    """The comparisons of a claim, settled and in words.

    Args:
        notes: what else the figures say.
        head: what the comparisons are.
        beside: further comparisons by what they are, each with a correction of their own; they decide nothing.
        words: of the settled comparisons; None: ``summary``.
    """
    if not rows:
        return None
    rows, others = settle(rows), {name: settle(more) for name, more in (beside or {}).items() if more}
    figures = [head and f"{head}:", (words or summary)(rows), *notes]
    figures += [f"{name}: {summary(more, short=True)}" for name, more in others.items()]
    tests = "; ".join(dict.fromkeys(row["test"] for row in rows))
    tested = sum(row["p"] is not None for row in rows)
    level = f" ({100 * LEVEL:.0f} %, two-sided, Holm over {tested})" if tested else ""
    return Finding(" ".join(filter(None, figures)), tests + level, [*rows, *chain.from_iterable(others.values())])


def summary(rows: Sequence[Record], short: bool = False) -> str:
    """Pair by pair: how often the first is ahead, level and behind, where, and by how much on average.

    Args:
        short: without the names of datasets; so it is with several pairs.
    """
    pairs = dict.fromkeys((row["first"], row["second"]) for row in rows)
    short = short or len(pairs) > 1
    return "; ".join(_pair([r for r in rows if (r["first"], r["second"]) == pair], short) for pair in pairs) + "."


def _pair(rows: Sequence[Record], short: bool) -> str:
    who = f"{rows[0]['first']} against {rows[0]['second']}"
    if len(rows) == 1:
        return f"{who} {signed(rows[0]['difference'], rows[0]['unit'])} ({_where(rows[0])}, {rows[0]['outcome']})"
    parts, means = [], []
    for kind in (AHEAD, TIED, BEHIND, UNTESTED):
        mine = [row for row in rows if row["outcome"] == kind]
        named = ", ".join(f"{_where(row)} {signed(row['difference'], row['unit'])}" for row in mine)
        shown = f" ({named})" if kind != TIED and len(mine) <= NAMED and not short else ""
        parts += [f"{kind} in {len(mine)}{shown}"] if mine else []
    for unit in dict.fromkeys(row["unit"] for row in rows):
        inside = [row["difference"] for row in rows if row["unit"] == unit]
        means.append(f"{signed(sum(inside) / len(inside), unit)} over {len(inside)}")
    return f"{who}, {len(rows)} compared: {', '.join(parts)}, mean difference {', '.join(means)}"


def left_open(rows: Sequence[Record]) -> str:
    """How far behind the first may be: without the correction, which favours it here, and by the intervals."""
    limits = [row for row in rows if row["low"] is not None and row["unit"] == "points"]
    if not limits:
        return ""
    worst = min(limits, key=lambda row: row["low"])
    single = sum(row["p"] is not None and row["p"] < LEVEL and row["difference"] < 0 for row in rows)
    end = f"{signed(worst['low'], 'points')} ({_where(worst)})"
    return f"Behind without Holm's correction: {single}; lowest end of a 95 % interval: {end}."


def signed(value: float, unit: str) -> str:
    """A difference with its sign."""
    digits = 2 if unit == "points" else 3
    return f"{round(value, digits) or 0.0:+.{digits}f} {unit}"  # no minus before zero


def _where(row: Record) -> str:
    return f"{row['num_layers']} layers" if "num_layers" in row else row["dataset"]
