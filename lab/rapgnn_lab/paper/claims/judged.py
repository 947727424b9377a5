"""What our measurements say of the paper's claims, judged by a statistical test where there are runs.

A claim is judged in two steps. First, every comparison of a claim has an outcome at the 5 % level: ahead, level (the
two cannot be told apart) or behind; p is corrected by Holm over the comparisons of the claim. Then the claim's rule
turns the outcomes into "holds", "holds in part" or "does not hold". What was not measured, or only once so that no
test is possible, is "not measured".
"""

import tomllib
from importlib.resources import files

from rapgnn.compare import Record
from rapgnn_lab.paper.claims import collapse, costs, scores
from rapgnn_lab.paper.claims.claim import Claim, Records
from rapgnn_lab.results import NONE, format_table

_SENTENCES = tomllib.loads(files("rapgnn_lab.paper.claims").joinpath("sentences.toml").read_text(encoding="utf-8"))
_JUDGES = scores.JUDGES | costs.JUDGES | collapse.JUDGES
CLAIMS = tuple(Claim(name, says, *_JUDGES[name]) for name, says in _SENTENCES["claims"].items())
"""Every claim, in the order of the table; a new one is a sentence there and a row of its topic's ``JUDGES``."""
NOTES: dict[str, list[str]] = _SENTENCES["notes"]
"""Item -> where the paper contradicts itself."""
PROVISIONAL = "provisional: quick run"
HIDDEN = ("quick", "test", "low", "high")
INTERVAL = "95 % interval"
P_VALUES = ("p", "p_holm", "p_shared")
READ = (
    "A difference is in favour of the first: positive means better, for errors too. Outcomes are at the 5 % level, "
    "two-sided: ahead, behind, or level, which means that the runs cannot tell the two apart, not that they are equal; "
    "the 95 % interval, of the single comparison, says how large a difference they leave open. Runs with seeds: "
    "Welch's t test; the same folds: paired t test; a quoted mean: one-sample t test. p holm is corrected over the "
    "comparisons of the claim and column. Folds share training graphs, so their p is rather too small; p shared is "
    "corrected for that (Nadeau and Bengio, 2003). Shares are in points."
)


def judge_claims(records: Records) -> list[Record]:
    """What becomes of every claim, as ``Claim.judge`` says it; ``quick``: a record behind it is of a quick run."""
    return [claim.judge(records) for claim in CLAIMS]


def format_claims(judged: list[Record]) -> str:
    """Markdown: a table of all claims, and below it how each was judged."""
    rows = [[claim["says"], _shown(claim), claim["figures"]] for claim in judged]
    parts = ["## The paper's claims", format_table(["claim", "verdict", "figures"], rows, left=3), READ]
    for claim in judged:
        if claim["details"]:
            parts += [f"### {claim['claim']}: {_shown(claim)}", claim["says"], f"Rule: {claim['rule']}"]
            parts += [f"Test: {claim['test']}.", _details(claim["details"])]
    return "\n\n".join(parts) + "\n"


def _shown(claim: Record) -> str:
    return f"{claim['verdict']} ({PROVISIONAL})" if claim["quick"] else claim["verdict"]


def _details(rows: list[Record]) -> str:
    """Flat records as a table, words first; columns without any value are left out."""
    shown = [_readable(row) for row in rows]
    names = dict.fromkeys(name for row in shown for name in row)
    names = [n for n in names if any(row.get(n) is not None for row in shown)]
    words = [n for n in names if all(isinstance(row.get(n), str | None) for row in shown) and n != INTERVAL]
    order = [*words, *(n for n in names if n not in words)]
    titles = [name.replace("_", " ") for name in order]
    return format_table(titles, ([_cell(row.get(n), n) for n in order] for row in shown), left=len(words))


def _readable(row: Record) -> Record:
    """Without what stands elsewhere; the ends of the interval in one."""
    shown = {name: value for name, value in row.items() if name not in HIDDEN}
    if row.get("low") is not None:
        shown[INTERVAL] = f"{_cell(row['low'], 'low')} to {_cell(row['high'], 'high')}"
    return shown


def _cell(value: object, name: str) -> str:
    if value is None:
        return NONE
    if not isinstance(value, float):
        return str(value)
    if name in P_VALUES:
        return "< 0.0001" if value < 1e-4 else f"{value:.4f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}" if abs(value) >= 100 else f"{value:.3f}"
