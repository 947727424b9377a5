"""The claims about feature collapse (Section 3.2, Appendix C): rank and variance by layer, and trained weights."""

import math
import statistics
from collections.abc import Callable, Sequence

from rapgnn.experiments.reproduce.claims.evidence import Evidence, title
from rapgnn.experiments.reproduce.claims.significance import AHEAD, BEHIND, compare_samples, compare_slopes, outcome
from rapgnn.experiments.reproduce.claims.verdict import FAILS, HOLDS, MISSING, PART, Claim, Finding
from rapgnn.experiments.run import Record

RANKS = ("rank", "effective_rank")
EXACT_RANK = "rank_float64"  # by the tolerance of double precision: told, not judged
KEPT, HALF = 0.9, 0.5  # of the rank before the first layer
ONE = 2.0  # an effective rank below this is nearly that of one direction
DIAGONAL = 0.5  # share of the squared entries
NO_TEST = "ranks of the same seeds, no test"
COLLAPSED_RULE = (
    "Holds if the rank after the last layer is 1 for all methods named; in part if it is for some, or if the effective "
    f"rank falls below {ONE:.0f} for some; does not hold otherwise."
)
KEPT_RULE = (
    f"A method keeps its rank if at least {100 * KEPT:.0f} % of the rank before the first layer and {100 * HALF:.0f} "
    "% of the effective rank are left after the last one. Holds if all methods named do; in part if some do, or if "
    f"{100 * HALF:.0f} % of the rank are left for all; does not hold otherwise."
)


def profiles(evidence: Evidence, method: str) -> dict[int, dict[int, Record]]:
    """Seed -> layer -> what was measured after it."""
    found: dict[int, dict[int, Record]] = {}
    for record in evidence.find(("collapse",), method=method):
        if all(record.get(name) is not None for name in ("layer", *RANKS)):  # None: the features have no finite size
            found.setdefault(record.get("seed", 0), {})[record["layer"]] = record
    return {seed: dict(sorted(layers.items())) for seed, layers in found.items()}


def ends(evidence: Evidence, method: str) -> Record | None:
    """Ranks of a method after its first and its last layer, averaged over the seeds."""
    runs = [layers for layers in profiles(evidence, method).values() if len(layers) > 1]
    if not runs:
        return None
    first, last = (min(runs[0]), max(runs[0]))
    some = runs[0][last]
    row: Record = {"dataset": some["dataset"], "method": some.get("title", title(method))}
    row |= {"first_layer": first, "last_layer": last}
    for rank in (*RANKS, EXACT_RANK):
        if all(rank in layers[layer] for layers in runs for layer in (first, last)):
            row[f"{rank}_first"] = statistics.fmean(layers[first][rank] for layers in runs)
            row[f"{rank}_last"] = statistics.fmean(layers[last][rank] for layers in runs)
    return row | {"runs": len(runs), "quick": any(r.get("quick") for layers in runs for r in layers.values())}


def _named(row: Record) -> str:
    exact = ""
    if f"{EXACT_RANK}_last" in row:
        exact = f", in float64 {row[f'{EXACT_RANK}_first']:.4g} to {row[f'{EXACT_RANK}_last']:.4g}"
    return (
        f"{row['method']} {row['rank_first']:.4g} to {row['rank_last']:.4g} "
        f"(effective {row['effective_rank_first']:.1f} to {row['effective_rank_last']:.1f}{exact})"
    )


def _ranks(
    methods: Sequence[str], judge: Callable[[list[Record]], tuple[str, list[str]]]
) -> Callable[[Evidence], Finding]:
    """A claim about the ranks of some methods; the judge gives the verdict and an outcome for each of them."""

    def find(evidence: Evidence) -> Finding:
        rows = [row for method in methods if (row := ends(evidence, method)) is not None]
        if not rows:
            return Finding()
        verdict, outcomes = judge(rows)
        rows = [row | {"outcome": found} for row, found in zip(rows, outcomes, strict=True)]
        some = rows[0]
        figures = f"Rank after layer {some['first_layer']} to {some['last_layer']}: {'; '.join(map(_named, rows))}."
        return Finding(verdict, figures, NO_TEST, rows)

    return find


def _collapsed(rows: list[Record]) -> tuple[str, list[str]]:
    exact = [row["rank_last"] <= 1 for row in rows]
    nearly = [row["effective_rank_last"] < min(ONE, row["effective_rank_first"]) for row in rows]
    words = ["rank 1" if e else "one direction" if n else "not collapsed" for e, n in zip(exact, nearly, strict=True)]
    return HOLDS if all(exact) else PART if any(exact) or any(nearly) else FAILS, words


def _kept(rows: list[Record]) -> tuple[str, list[str]]:
    left = [[row[f"{rank}_last"] / max(row[f"{rank}_first"], 1) for rank in RANKS] for row in rows]
    kept = [rank >= KEPT and effective >= HALF for rank, effective in left]
    words = [f"{100 * rank:.0f} % left, {100 * effective:.0f} % of the effective rank" for rank, effective in left]
    return HOLDS if all(kept) else PART if any(kept) or all(rank >= HALF for rank, _ in left) else FAILS, words


def _higher(rows: list[Record]) -> tuple[str, list[str]]:
    """Of RAP-GNN and end-to-end, in this order."""
    if len(rows) < 2:
        return MISSING, ["" for _ in rows]
    more = [rows[0][f"{rank}_last"] > rows[1][f"{rank}_last"] for rank in RANKS]
    return HOLDS if all(more) else PART if any(more) else FAILS, ["", ""]


def _log_variance(layers: dict[int, Record]) -> dict[int, float]:
    return {layer: math.log(r["variance"]) for layer, r in layers.items() if 0 < r["variance"] < math.inf}


def variance(evidence: Evidence) -> Finding:
    """How fast the logarithm of the variance grows from layer to layer."""
    found = {method: profiles(evidence, method) for method in ("rap", "end-to-end")}
    curves = {
        method: [c for run in runs.values() if len(c := _log_variance(run)) > 2] for method, runs in found.items()
    }
    if not all(curves.values()):
        return Finding()
    slopes = {
        method: [statistics.linear_regression(list(curve), list(curve.values())).slope for curve in own]
        for method, own in curves.items()
    }
    if min(map(len, slopes.values())) > 1:
        compared = compare_samples(slopes["rap"], slopes["end-to-end"])
    else:  # one run each: the layers are the sample
        compared = compare_slopes(*(curves[method][0] for method in ("rap", "end-to-end")))
    result = outcome(compared, compared.p)
    records = [r for runs in found.values() for layers in runs.values() for r in layers.values()]
    means = {method: statistics.fmean(values) for method, values in slopes.items()}
    row = {
        "dataset": records[0]["dataset"],
        "first": title("rap"),
        "second": title("end-to-end"),
        "first_mean": means["rap"],
        "second_mean": means["end-to-end"],
        "difference": compared.difference,
        "low": compared.low,
        "high": compared.high,
        "p": compared.p,
        "outcome": result,
        "quick": any(r.get("quick") for r in records),
    }
    verdict = HOLDS if result == AHEAD else FAILS if result == BEHIND else PART if compared.difference > 0 else FAILS
    figures = (
        f"The variance grows by a factor of {math.exp(means['rap']):.3f} per layer with RAP-GNN and "
        f"{math.exp(means['end-to-end']):.3f} with end-to-end training."
    )
    return Finding(verdict, figures, f"{compared.test} on slopes of log variance (5 %, two-sided)", [row])


def trained_weights(evidence: Evidence) -> Finding:
    """How much of the squared entries of trained weights lies on the diagonal."""
    rows = []
    for record in evidence.find(("weights",)):
        share = record.get("diagonal_share")
        if share is not None:
            row = {name: record.get(name) for name in ("dataset", "layer", "diagonal_share", "random_diagonal_share")}
            word = "diagonal" if share >= DIAGONAL else "not diagonal"
            rows.append(row | {"outcome": word, "quick": bool(record.get("quick"))})
    if not rows:
        return Finding()
    rows.sort(key=lambda row: row["layer"])
    diagonal = [row["outcome"] == "diagonal" for row in rows]
    verdict = HOLDS if not any(diagonal) else FAILS if all(diagonal) else PART
    shown = ", ".join(f"layer {row['layer']} {100 * row['diagonal_share']:.1f} %" for row in rows)
    random = rows[0]["random_diagonal_share"]
    beside = f" A random matrix has {100 * random:.1f} %." if random else ""
    return Finding(verdict, f"Share of the squared entries on the diagonal: {shown}.{beside}", "none", rows)


CLAIMS = (
    Claim(
        "rank-full",
        "Full random matrices let the rank of the features collapse to 1 (Observation 1, Appendix C).",
        COLLAPSED_RULE,
        _ranks(("random-full-uniform", "random-full", "fixed-full"), _collapsed),
    ),
    Claim(
        "rank-diagonal",
        "Diagonal random matrices preserve the rank (Observation 2); it decreases only slightly (Appendix C).",
        KEPT_RULE,
        _ranks(("rap", "fixed-diagonal"), _kept),
    ),
    Claim(
        "rank-end-to-end",
        "The rank of end-to-end trained networks declines to 1, too (Appendix C).",
        COLLAPSED_RULE,
        _ranks(("end-to-end",), _collapsed),
    ),
    Claim(
        "rank-above-end-to-end",
        "RAP-GNN has a higher rank than end-to-end trained networks (Section 3.2, Appendix C).",
        "Holds if rank and effective rank after the last layer are higher, in part if one is, does not hold otherwise.",
        _ranks(("rap", "end-to-end"), _higher),
    ),
    Claim(
        "variance",
        "RAP-GNN increases the variance of the features at a higher rate than end-to-end training (Figure 4).",
        "Holds if the slope of log variance by layer is higher by a significant difference, in part if it is higher "
        "without one, does not hold otherwise.",
        variance,
    ),
    Claim(
        "trained-weights",
        "Trained weight matrices are not diagonal (Section 3.2, Appendix C, Figure 5: layers 1 and 64).",
        f"Holds if less than {100 * DIAGONAL:.0f} % of the squared entries lie on the diagonal in every layer, in "
        "part if in some, does not hold otherwise.",
        trained_weights,
    ),
)
