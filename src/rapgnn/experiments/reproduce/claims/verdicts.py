"""What our measurements say of the paper's claims: a verdict on each, by a statistical test where there are runs.

A verdict is found in two steps. First, every comparison of a claim has an outcome at the 5 % level: ahead, level (the
two cannot be told apart) or behind; p is corrected by Holm over the comparisons of the claim. Then the claim's rule
turns the outcomes into "holds", "holds in part" or "does not hold"; each verdict carries its rule. What was not
measured, or only once so that no test is possible, is "not measured".
"""

from rapgnn.experiments.markdown import NONE, format_table
from rapgnn.experiments.reproduce.claims import accuracy, collapse, costs, depth, settings
from rapgnn.experiments.reproduce.claims.evidence import Evidence
from rapgnn.experiments.run import Record

CLAIMS = (
    *accuracy.CLAIMS,
    *costs.CLAIMS,
    *collapse.CLAIMS,
    *depth.CLAIMS,
    *settings.CLAIMS,
)
"""Every claim that is judged, in the order of the table; a new one is a row in its topic's file."""

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


def verdicts(records: dict[str, list[Record]]) -> list[Record]:
    """A verdict on every claim.

    Args:
        records: item -> its records; items may be missing.

    Returns:
        Records with ``claim``, ``says``, ``verdict``, ``figures``, ``test``, ``rule``, ``details`` (flat records) and
        ``quick``, whether any record behind it came from a quick run.
    """
    evidence = Evidence(records)
    judged = []
    for claim in CLAIMS:
        found = claim.judge(evidence)
        judged.append(
            {
                "claim": claim.name,
                "says": claim.says,
                "verdict": found.verdict,
                "figures": found.figures,
                "test": found.test,
                "rule": claim.rule,
                "details": found.details,
                "quick": any(row["quick"] for row in found.details),
            }
        )
    return judged


def format_verdicts(verdicts: list[Record]) -> str:
    """Markdown: a table of all claims, and below it how each was judged."""
    rows = [[v["says"], _verdict(v), v["figures"]] for v in verdicts]
    parts = ["## The paper's claims", format_table(["claim", "verdict", "figures"], rows, left=3), READ]
    parts += [_explained(v) for v in verdicts if v["details"]]
    return "\n\n".join(parts) + "\n"


def _verdict(verdict: Record) -> str:
    return f"{verdict['verdict']} ({PROVISIONAL})" if verdict["quick"] else verdict["verdict"]


def _explained(verdict: Record) -> str:
    """The rule, the test and the comparisons of one claim."""
    lines = [f"### {verdict['claim']}: {_verdict(verdict)}", verdict["says"], f"Rule: {verdict['rule']}"]
    lines.append(f"Test: {verdict['test']}.")
    return "\n\n".join([*lines, _details(verdict["details"])])


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
