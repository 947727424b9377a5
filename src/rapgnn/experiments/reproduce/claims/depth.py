"""The claims about accuracy by depth (Figure 2c): the deepest network of a method against its shallowest one."""

from collections.abc import Callable, Sequence

from rapgnn.experiments.reproduce.claims.evidence import Evidence, field, title, values_of
from rapgnn.experiments.reproduce.claims.significance import BEHIND, UNTESTED
from rapgnn.experiments.reproduce.claims.verdict import (
    BETTER,
    FAILS,
    HOLDS,
    MISSING,
    PART,
    Claim,
    Finding,
    compared,
    decide,
    named_tests,
    settle,
    signed,
)
from rapgnn.experiments.run import Record

STABLE, SHARP = 2.0, 5.0  # points
STABLE_RULE = (
    f"A method is stable unless its deepest network is behind its shallowest one by more than {STABLE:.0f} points. "
    "Holds if all are, in part if some are, does not hold otherwise."
)
SHARP_RULE = (
    f"A method falls sharply if its deepest network is behind its shallowest one by more than {SHARP:.0f} points. "
    "Holds if all do, in part if some do or if all are behind, does not hold otherwise."
)


def by_depth(evidence: Evidence, method: str) -> dict[int, Record]:
    """The scores of a method by its number of layers, from the shallowest on."""
    found: dict[int, Record] = {}
    for record in evidence.find(("depth",), method=method):
        if values_of(record):
            found.setdefault(field(record, "num_layers"), record)
    return dict(sorted(found.items()))


def _ends(evidence: Evidence, methods: Sequence[str]) -> list[Record]:
    """The deepest network of each method against its shallowest."""
    rows: list[Record] = []
    for method in methods:
        found = by_depth(evidence, method)
        if len(found) < 2:
            continue
        shallow, *_, deep = found
        names = (f"{title(method)}, {_layers(deep)}", f"{title(method)}, {_layers(shallow)}")
        rows += compared([found[deep], found[shallow]], names)
    return settle(rows)


def _layers(count: int) -> str:
    return f"{count} layer{'' if count == 1 else 's'}"


def _finding(rows: Sequence[Record], judge: Callable[[list[Record]], str]) -> Finding:
    if not rows:
        return Finding()
    tested = [row for row in rows if row["outcome"] != UNTESTED]
    shown = [
        f"{row['first']} {row['first_mean']:.2f}, {row['second'].rpartition(', ')[2]} {row['second_mean']:.2f} "
        f"({signed(row['difference'], row['unit'])}, {row['outcome']})"
        for row in rows
    ]
    return Finding(judge(tested) if tested else MISSING, f"{'; '.join(shown)}.", named_tests(rows), list(rows))


def stays(methods: Sequence[str]) -> Callable[[Evidence], Finding]:
    """A claim that accuracy does not fall with depth."""

    def judge(rows: list[Record]) -> str:
        stable = [not (row["outcome"] == BEHIND and row["difference"] < -STABLE) for row in rows]
        return HOLDS if all(stable) else PART if any(stable) else FAILS

    return lambda evidence: _finding(_ends(evidence, methods), judge)


def falls(methods: Sequence[str]) -> Callable[[Evidence], Finding]:
    """A claim that accuracy falls sharply with depth."""

    def judge(rows: list[Record]) -> str:
        behind = [row["outcome"] == BEHIND for row in rows]
        sharp = [row["outcome"] == BEHIND and row["difference"] < -SHARP for row in rows]
        return HOLDS if all(sharp) else PART if any(sharp) or all(behind) else FAILS

    return lambda evidence: _finding(_ends(evidence, methods), judge)


def ahead(evidence: Evidence) -> Finding:
    """RAP-GNN against end-to-end training at every depth."""
    ours, theirs = (by_depth(evidence, method) for method in ("rap", "end-to-end"))
    rows: list[Record] = []
    for depth in (d for d in ours if d in theirs):
        found = compared([ours[depth], theirs[depth]], (title("rap"), title("end-to-end")))
        rows += [row | {"num_layers": depth} for row in found]
    return decide(BETTER, settle(rows))


CLAIMS = (
    Claim(
        "depth-diagonal",
        "With diagonal weights accuracy stays stable as layers are added (Section 4.2, Figure 2c, PubMed).",
        STABLE_RULE,
        stays(("rap", "fixed-diagonal")),
    ),
    Claim(
        "depth-full",
        "With full random weights accuracy falls sharply as layers are added (Section 4.2, Figure 2c, PubMed).",
        SHARP_RULE,
        falls(("fixed-full", "random-full")),
    ),
    Claim(
        "depth-end-to-end",
        "With end-to-end training accuracy falls with depth, too (Appendix C, Figure 2c, PubMed).",
        SHARP_RULE,
        falls(("end-to-end",)),
    ),
    Claim(
        "depth-ahead",
        "At depth RAP-GNN has a better accuracy than end-to-end training (caption of Figure 2, PubMed).",
        BETTER.sentence,
        ahead,
    ),
)
