"""The claims of the paper on the page: a verdict on each, and how it was found."""

from rapgnn.experiments.reproduce.claims.significance import AHEAD, BEHIND, TIED
from rapgnn.experiments.reproduce.claims.verdict import BETTER, FAILS, HOLDS, MISSING, NOT_BEHIND, PART
from rapgnn.experiments.reproduce.claims.verdicts import PROVISIONAL, format_verdicts
from rapgnn.experiments.reproduce.rows import FAITHFUL
from rapgnn.experiments.run import Record
from rapgnn.report.markdown import to_parts
from rapgnn.report.parts import Cell, Chip, Chips, Facts, More, Part, Section, Table

TONES = {HOLDS: "good", PART: "mixed", FAILS: "bad", MISSING: "quiet"}
SUPPORT = {
    NOT_BEHIND.sentence: {AHEAD: "good", TIED: "good", BEHIND: "bad"},
    BETTER.sentence: {AHEAD: "good", TIED: "mixed", BEHIND: "bad"},
}
"""How a claim is judged -> what the outcome of one comparison says for it."""
WORST = ("good", "quiet", "mixed", "bad")


def place(claim: str) -> str:
    """Where a claim stands on the page."""
    return f"claim-{claim}"


def claims_section(claims: list[Record]) -> Section:
    """How many hold, all of them, and folded how each was judged."""
    counts = {verdict: sum(c["verdict"] == verdict for c in claims) for verdict in TONES}
    rows = [
        [
            Cell(c["says"], name=place(c["claim"])),
            Cell(c["verdict"], TONES.get(c["verdict"], "quiet"), title=PROVISIONAL if c["quick"] else ""),
            Cell(c["figures"], folded="figures"),
        ]
        for c in claims
    ]
    judged: list[Part] = [
        part
        for part in to_parts(format_verdicts(claims))
        if not (isinstance(part, Table) and part.header[0] == "claim")
    ]
    return Section(
        "The paper's claims",
        [
            Facts([(verdict, str(count)) for verdict, count in counts.items()]),
            Table(["claim", "verdict", "figures"], rows, "Every claim that was judged", 3),
            More("How each claim was judged", judged),
        ],
        "claims",
    )


def verdict_chips(claims: list[Record], names: list[str]) -> list[Part]:
    """The claims that an item is evidence for."""
    found = [c for c in claims if c["claim"] in names]
    chips = [
        Chip(f"{c['claim']}: {c['verdict']}", TONES.get(c["verdict"], "quiet"), f"#{place(c['claim'])}") for c in found
    ]
    return [Chips("Claims judged with it:", chips)] if chips else []


def row_chips(claims: list[Record], dataset: str, title: str) -> tuple[Chip, ...]:
    """What the comparisons of one method on one dataset, in the paper's settings, say for the claims about it."""
    chips = []
    for claim in claims:
        tones = SUPPORT.get(claim["rule"])
        mine = [
            d
            for d in claim["details"]
            if (d.get("dataset"), d.get("first"), d.get("column")) == (dataset, title, FAITHFUL)
            and "num_layers" not in d
        ]
        if tones is None or not mine:
            continue
        tone = max((tones.get(d["outcome"], "quiet") for d in mine), key=WORST.index)
        outcomes = ", ".join(d["outcome"] for d in mine)
        against = "; ".join(f"against {d['second']} {d['difference']:+.2f} {d['unit']}: {d['outcome']}" for d in mine)
        chips.append(Chip(f"{claim['claim']}: {outcomes}", tone, f"#{place(claim['claim'])}", against))
    return tuple(chips)
