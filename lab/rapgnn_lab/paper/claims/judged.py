"""What our measurements say of the paper's claims, judged by a statistical test where there are runs.

A claim is a row of ``claims.toml``. It is judged in two steps. First, every comparison of a claim has an outcome at the
5 % level: ahead, level (the two cannot be told apart) or behind; p is corrected by Holm over the comparisons of the
claim. Then the claim's rule turns the outcomes into "holds", "holds in part" or "does not hold". What was not measured,
or only once so that no test is possible, is "not measured".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from rapgnn_lab.paper.claims import figures, scores
from rapgnn_lab.paper.claims.significance import AHEAD, BEHIND, TIED, UNTESTED
from rapgnn_lab.results import NONE, format_table
from rapgnn_lab.store import Record, packaged

HOLDS, PART, FAILS, MISSING = "holds", "holds in part", "does not hold", "not measured"
STABLE, SHARP, SMALL = 2.0, 5.0, 2.0  # points
WHOLE, HALF = 0.9, 0.5  # of the rank before the first layer
Judge = Callable[[Sequence[Record]], bool]


@dataclass(frozen=True)
class Rule:
    """Whether a claim with these rows holds, and if not, whether it holds in part; with fewer than ``least`` it is not
    measured."""

    whole: Judge
    part: Judge
    least: int = 1

    def judge(self, rows: Sequence[Record]) -> str:
        """The verdict; rows have a test, or need none."""
        return MISSING if len(rows) < self.least else HOLDS if self.whole(rows) else PART if self.part(rows) else FAILS


def every(good: Callable[[Record], bool], partly: Judge = lambda rows: False) -> Rule:
    """Holds if all rows are good, in part if some are, or if ``partly`` says so."""
    return Rule(lambda rows: all(map(good, rows)), lambda rows: any(map(good, rows)) or partly(rows))


def _is(*outcomes: str) -> Callable[[Record], bool]:
    return lambda row: row["outcome"] in outcomes


def _count(rows: Sequence[Record], outcome: str) -> int:
    return sum(row["outcome"] == outcome for row in rows)


def _reached(rows: Sequence[Record], way: str) -> list[bool]:
    return [row["outcome"] == figures.REACHED for row in figures.decisive(rows) if row["method"] == way]


def _reached_in_part(rows: Sequence[Record]) -> bool:
    steps, whole = (_reached(rows, way) for way in figures.WAYS)
    less = [row["ratio"] > 1 for row in figures.decisive(rows) if row["method"] == next(iter(figures.WAYS))]
    return any(steps) or (bool(less) and all(less)) or (bool(whole) and all(whole))


def _savings(rows: Sequence[Record]) -> list[list[float]]:
    return [
        [row["saved_ms"] for row in rows if (row["figure"] == figures.TRAIN) == training] for training in (True, False)
    ]


def _risen(rows: Sequence[Record]) -> list[bool]:
    return [rows[0][f"{rank}_last"] > rows[1][f"{rank}_last"] for rank in figures.RANKS]


def _every_step(rows: Sequence[Record]) -> bool:
    steps = _reached(rows, next(iter(figures.WAYS)))
    return bool(steps) and all(steps)


RULES = {
    "not-behind": Rule(lambda rows: not _count(rows, BEHIND), lambda rows: 2 * _count(rows, BEHIND) < len(rows)),
    "better": Rule(
        lambda rows: _count(rows, AHEAD) == len(rows), lambda rows: _count(rows, AHEAD) > _count(rows, BEHIND)
    ),
    "stable": every(lambda row: row["outcome"] != BEHIND or row["difference"] >= -STABLE),
    "falls": every(
        lambda row: row["outcome"] == BEHIND and row["difference"] < -SHARP, lambda rows: all(map(_is(BEHIND), rows))
    ),
    "alike": Rule(
        lambda rows: all(map(_is(TIED), rows)), lambda rows: max(abs(row["difference"]) for row in rows) < SMALL
    ),
    "factor": Rule(_every_step, _reached_in_part),
    "rounded-factor": Rule(_every_step, _reached_in_part),
    "widens": Rule(
        lambda rows: all(b > a for curve in _savings(rows) for a, b in pairwise(curve)),
        lambda rows: any(curve[-1] > curve[0] for curve in _savings(rows) if curve),
    ),
    "collapses": every(_is(figures.ONE_RANK), lambda rows: any(map(_is(figures.ONE_DIRECTION), rows))),
    "keeps-rank": every(
        lambda row: figures.left(row, "rank") >= WHOLE and figures.left(row, "effective_rank") >= HALF,
        lambda rows: all(figures.left(row, "rank") >= HALF for row in rows),
    ),
    "higher-rank": Rule(lambda rows: all(_risen(rows)), lambda rows: any(_risen(rows)), least=2),
    "faster": Rule(lambda rows: rows[0]["outcome"] == AHEAD, lambda rows: rows[0]["difference"] > 0),
    "not-diagonal": every(_is(figures.NOT_DIAGONAL)),
}
MEASURES: dict[str, Callable[..., figures.Finding | None]] = {
    measure.__name__: measure
    for measure in (
        *(scores.methods, scores.reservoirs, scores.ends, scores.at_depths, scores.embeddings, scores.batch_sizes),
        *(scores.expectation, figures.factors, figures.saved, figures.ranks, figures.variance, figures.trained_weights),
    )
}


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and how it is judged: by a rule of ``RULES``, of what the records say, or None."""

    name: str
    says: str
    rule: str
    measure: Callable[[figures.Records], figures.Finding | None]

    def judge(self, records: figures.Records) -> Record:
        """What becomes of it, as a record; ``quick``: a record behind it is of a quick run."""
        measured = self.measure(records) or figures.Finding("No records.", "none", [])
        rows = measured.details
        deciding = [r for r in rows if r.get("column") == rows[0].get("column") and r.get("outcome") != UNTESTED]
        return {
            "claim": self.name,
            "says": self.says,
            "verdict": RULES[self.rule].judge(deciding) if deciding else MISSING,
            "figures": measured.figures,
            "test": measured.test,
            "rule": SENTENCES[self.rule],
            "details": list(rows),
            "quick": any(row["quick"] for row in rows),
        }


_ROWS = packaged("paper/claims/claims.toml")
_LIMITS = {"stable": STABLE, "sharp": SHARP, "small": SMALL, "one": figures.ONE}
_LIMITS |= {name: 100 * share for name, share in (("whole", WHOLE), ("half", HALF), ("diagonal", figures.DIAGONAL))}
SENTENCES = {name: sentence.format(**_LIMITS) for name, sentence in _ROWS["rules"].items()}
"""The rules for people."""
_OWN = ("says", "rule", "measure")
CLAIMS = tuple(
    Claim(name, c["says"], c["rule"], partial(MEASURES[c["measure"]], **{k: c[k] for k in c if k not in _OWN}))
    for name, c in _ROWS["claims"].items()
)
"""Every claim, in the order of the table."""
NOTES: dict[str, list[str]] = _ROWS["notes"]
"""Item -> where the paper contradicts itself."""
PROVISIONAL = "provisional: quick run"
HIDDEN = ("quick", "test", "low", "high")
INTERVAL = "95 % interval"
P_VALUES = ("p", "p_holm", "p_shared")


def judge_claims(records: figures.Records) -> list[Record]:
    """What becomes of every claim, as ``Claim.judge`` says it."""
    return [claim.judge(records) for claim in CLAIMS]


def format_claims(judged: list[Record]) -> str:
    """Markdown: a table of all claims, and below it how each was judged."""
    rows = [[claim["says"], _shown(claim), claim["figures"]] for claim in judged]
    parts = ["## The paper's claims", format_table(["claim", "verdict", "figures"], rows, left=3), _ROWS["read"]]
    for claim in judged:
        if claim["details"]:
            parts += [f"### {claim['claim']}: {_shown(claim)}", claim["says"], f"Rule: {claim['rule']}"]
            parts += [f"Test: {claim['test']}.", _details(claim["details"])]
    return "\n\n".join(parts) + "\n"


def _shown(claim: Record) -> str:
    return f"{claim['verdict']} ({PROVISIONAL})" if claim["quick"] else claim["verdict"]


def _details(rows: list[Record]) -> str:
    """Flat records as a table, words first, the ends of the interval in one; columns without any value are left out."""
    shown = [{name: value for name, value in row.items() if name not in HIDDEN} for row in rows]
    for row, new in zip(rows, shown, strict=True):
        if row.get("low") is not None:
            new[INTERVAL] = f"{_cell(row['low'], 'low')} to {_cell(row['high'], 'high')}"
    names = dict.fromkeys(name for row in shown for name in row)
    names = [n for n in names if any(row.get(n) is not None for row in shown)]
    words = [n for n in names if all(isinstance(row.get(n), str | None) for row in shown) and n != INTERVAL]
    order = [*words, *(n for n in names if n not in words)]
    titles = [name.replace("_", " ") for name in order]
    return format_table(titles, ([_cell(row.get(n), n) for n in order] for row in shown), left=len(words))


def _cell(value: object, name: str) -> str:
    if value is None:
        return NONE
    if not isinstance(value, float):
        return str(value)
    if name in P_VALUES:
        return "< 0.0001" if value < 1e-4 else f"{value:.4f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}" if abs(value) >= 100 else f"{value:.3f}"
