"""What becomes of a claim: comparisons of two methods, and the rules that turn their outcomes into a verdict."""

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from rapgnn.experiments.reproduce.claims.evidence import Evidence, values_of
from rapgnn.experiments.reproduce.claims.significance import (
    AHEAD,
    BEHIND,
    LEVEL,
    TIED,
    UNTESTED,
    Comparison,
    compare_samples,
    holm,
    outcome,
)
from rapgnn.experiments.reproduce.rows import FAITHFUL
from rapgnn.experiments.run import Record
from rapgnn.graph.scores import CLASS_METRICS, NUMBER_METRICS

HOLDS, PART, FAILS, MISSING = "holds", "holds in part", "does not hold", "not measured"
NAMED = 4  # comparisons that are listed one by one
METRICS = CLASS_METRICS | NUMBER_METRICS


@dataclass(frozen=True)
class Finding:
    """What the records say of a claim; without details nothing was measured."""

    verdict: str = MISSING
    figures: str = "No records."
    test: str = "none"
    details: list[Record] = field(default_factory=list)


@dataclass(frozen=True)
class Rule:
    """How the outcomes of several comparisons become a verdict.

    Args:
        sentence: the rule for people.
        judge: outcomes, all tested -> verdict.
    """

    sentence: str
    judge: Callable[[Sequence[str]], str]


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and how it is judged.

    Args:
        name: short.
        says: what the paper says, and where.
        rule: how the verdict is found, for people.
        judge: records -> finding.
    """

    name: str
    says: str
    rule: str
    judge: Callable[[Evidence], Finding]


def _not_behind(outcomes: Sequence[str]) -> str:
    behind = outcomes.count(BEHIND)
    return HOLDS if not behind else PART if 2 * behind < len(outcomes) else FAILS


def _ahead(outcomes: Sequence[str]) -> str:
    ahead, behind = outcomes.count(AHEAD), outcomes.count(BEHIND)
    return HOLDS if ahead == len(outcomes) else PART if ahead > behind else FAILS


NOT_BEHIND = Rule(
    "Holds if the first is behind in no comparison, in part if in fewer than half, does not hold otherwise.",
    _not_behind,
)
BETTER = Rule(
    "Holds if the first is ahead in every comparison, in part if it is ahead more often than behind, "
    "does not hold otherwise.",
    _ahead,
)


def detail(
    first: Record, second: Record, names: tuple[str, str], *, paired: bool | None = None, kind: str = ""
) -> Record:
    """Two records of one dataset compared; not yet corrected for other comparisons.

    Args:
        names: of the first and the second.
        paired: whether value i of both belong together; None: where both were measured on the same folds.
        kind: ``"strict_"`` for the values of the strict protocol.
    """
    x, y = values_of(first, kind), values_of(second, kind)
    folds = all("fold," in r.get("protocol", "") for r in (first, second))
    same = len(x) == len(y) and all(first.get(name) == second.get(name) for name in ("seeds", "protocol"))
    metric = METRICS[first["metric"]]
    compared = compare_samples(x, y, higher=metric.higher, paired=same and (folds if paired is None else paired))
    means = {"first_mean": finite_mean(x), "second_mean": finite_mean(y)}
    more = {"runs": f"{len(x)} and {len(y)}", "quick": bool(first.get("quick") or second.get("quick"))}
    return describe(first, names, compared, means) | more


def compared(
    found: Sequence[Record | None],
    names: tuple[str, str],
    column: str = FAITHFUL,
    paired: bool | None = None,
    kind: str = "",
) -> Iterator[Record]:
    """The comparison, if both were measured."""
    first, second = found
    if first is not None and second is not None and values_of(first, kind) and values_of(second, kind):
        yield {"column": column} | detail(first, second, names, paired=paired, kind=kind)


def describe(record: Record, names: tuple[str, str], compared: Comparison, means: Record) -> Record:
    """A comparison as a flat record, shares in points."""
    metric = METRICS[record["metric"]]
    factor = 100 if metric.percent else 1
    scaled = means | {"difference": compared.difference, "low": compared.low, "high": compared.high}
    folds = "fold," in record.get("protocol", "")
    return {
        "dataset": record["dataset"],
        "first": names[0],
        "second": names[1],
        "unit": "points" if metric.percent else metric.title,
        **{key: None if value is None else factor * value for key, value in scaled.items()},
        "p": compared.p,
        "p_shared": compared.p_shared if folds else None,
        "test": compared.test,
    }


def finite_mean(values: Sequence[float]) -> float:
    """Of the runs that have a number."""
    return statistics.fmean(value for value in values if math.isfinite(value))


def settle(rows: Sequence[Record]) -> list[Record]:
    """The comparisons of one claim with Holm's p and their outcomes."""
    adjusted = holm([row["p"] for row in rows])
    done = []
    for row, p in zip(rows, adjusted, strict=True):
        compared = Comparison(row["difference"], row["low"], row["high"], row["p"], row["test"])
        done.append(row | {"p_holm": p, "outcome": outcome(compared, p)})
    return done


def decide(rule: Rule, rows: Sequence[Record], note: str = "") -> Finding:
    """The verdict on settled comparisons.

    Args:
        note: what else the figures say.
    """
    if not rows:
        return Finding()
    outcomes = [row["outcome"] for row in rows if row["outcome"] != UNTESTED]
    verdict = rule.judge(outcomes) if outcomes else MISSING
    return Finding(verdict, " ".join(filter(None, [summary(rows), note])), named_tests(rows), list(rows))


def named_tests(rows: Sequence[Record]) -> str:
    """The tests that were made, and their level."""
    names = list(dict.fromkeys(row["test"] for row in rows))
    tested = sum(row["p"] is not None for row in rows)
    return f"{'; '.join(names)} ({100 * LEVEL:.0f} %, two-sided, Holm over {tested})" if tested else "; ".join(names)


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
        (row,) = rows
        return f"{who} {signed(row['difference'], row['unit'])} ({_where(row)}, {row['outcome']})"
    parts = []
    for kind in (AHEAD, TIED, BEHIND, UNTESTED):
        found = [row for row in rows if row["outcome"] == kind]
        if found:
            named = ", ".join(f"{_where(row)} {signed(row['difference'], row['unit'])}" for row in found)
            shown = f" ({named})" if kind != TIED and len(found) <= NAMED and not short else ""
            parts.append(f"{kind} in {len(found)}{shown}")
    means = []
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
