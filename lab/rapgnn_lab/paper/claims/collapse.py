"""The claims about feature collapse (Section 3.2, Appendix C): rank and variance by layer, and trained weights."""

import math
import statistics
from collections.abc import Callable, Sequence

from rapgnn.compare import Record
from rapgnn_lab.paper.claims.claim import MISSING, Finding, Measure, Records, every, find, grade, rule, title
from rapgnn_lab.paper.claims.significance import AHEAD, compare_samples, compare_slopes, outcome

RANKS = ("rank", "effective_rank")
EXACT_RANK = "rank_float64"  # by the tolerance of double precision: shown, not judged
WHOLE, HALF = 0.9, 0.5  # of the rank before the first layer
ONE = 2.0  # an effective rank below this is nearly that of one direction
DIAGONAL = 0.5  # share of the squared entries


def by_layer(records: Records, method: str) -> list[dict[int, Record]]:
    """For every seed: layer -> what was measured after it."""
    seeds: dict[int, dict[int, Record]] = {}
    for record in find(records, ("collapse",), method=method):
        if all(record.get(name) is not None for name in ("layer", *RANKS)):  # None: the features have no finite size
            seeds.setdefault(record.get("seed", 0), {})[record["layer"]] = record
    return [dict(sorted(layers.items())) for layers in seeds.values()]


def ends(records: Records, method: str) -> list[Record]:
    """Ranks of a method after its first and its last layer, averaged over the seeds."""
    runs = [layers for layers in by_layer(records, method) if len(layers) > 1]
    if not runs:
        return []
    first, last = min(runs[0]), max(runs[0])
    some = runs[0][last]
    row: Record = {"dataset": some["dataset"], "method": some.get("title", title(method))}
    row |= {"first_layer": first, "last_layer": last}
    for rank in (*RANKS, EXACT_RANK):
        if all(rank in layers[layer] for layers in runs for layer in (first, last)):
            row[f"{rank}_first"] = statistics.fmean(layers[first][rank] for layers in runs)
            row[f"{rank}_last"] = statistics.fmean(layers[last][rank] for layers in runs)
    return [row | {"runs": len(runs), "quick": any(r.get("quick") for layers in runs for r in layers.values())}]


def _ranks_in_words(row: Record) -> str:
    exact = ""
    if f"{EXACT_RANK}_last" in row:
        exact = f", in float64 {row[f'{EXACT_RANK}_first']:.4g} to {row[f'{EXACT_RANK}_last']:.4g}"
    return (
        f"{row['method']} {row['rank_first']:.4g} to {row['rank_last']:.4g} "
        f"(effective {row['effective_rank_first']:.1f} to {row['effective_rank_last']:.1f}{exact})"
    )


def ranks(*methods: str, word: Callable[[Record], str] = lambda row: "") -> Measure:
    """The ranks of some methods, and a word for what becomes of each."""

    def measure(records: Records) -> Finding | None:
        rows = [row | {"outcome": word(row)} for method in methods for row in ends(records, method)]
        if not rows:
            return None
        layers = f"{rows[0]['first_layer']} to {rows[0]['last_layer']}"
        figures = f"Rank after layer {layers}: {'; '.join(map(_ranks_in_words, rows))}."
        return Finding(figures, "ranks of the same seeds, no test", rows)

    return measure


def collapse_of(row: Record) -> str:
    """Whether one direction, or nearly one, is left."""
    if row["rank_last"] <= 1:
        return "rank 1"
    return "one direction" if row["effective_rank_last"] < min(ONE, row["effective_rank_first"]) else "not collapsed"


def _left(row: Record, rank: str) -> float:
    """The share of a rank that is left."""
    return row[f"{rank}_last"] / max(row[f"{rank}_first"], 1)


def left_of(row: Record) -> str:
    """The shares of the ranks that are left."""
    return f"{100 * _left(row, 'rank'):.0f} % left, {100 * _left(row, 'effective_rank'):.0f} % of the effective rank"


def variance(records: Records) -> Finding | None:
    """How fast the logarithm of the variance grows from layer to layer."""
    methods = ("rap", "end-to-end")
    runs = [by_layer(records, method) for method in methods]
    curves = [[curve for run in own if len(curve := _log_variance(run)) > 2] for own in runs]
    if not all(curves):
        return None
    slopes = [[statistics.linear_regression(list(c), list(c.values())).slope for c in own] for own in curves]
    many = min(map(len, slopes)) > 1  # else the layers are the sample
    tested = compare_samples(*slopes) if many else compare_slopes(curves[0][0], curves[1][0])
    layers = [record for own in runs for run in own for record in run.values()]
    means = [statistics.fmean(own) for own in slopes]
    row = {"dataset": layers[0]["dataset"], "first": title(methods[0]), "second": title(methods[1])}
    row |= {"first_mean": means[0], "second_mean": means[1], "difference": tested.difference}
    row |= {"low": tested.low, "high": tested.high, "p": tested.p, "outcome": outcome(tested.difference, tested.p)}
    figures = (
        f"The variance grows by a factor of {math.exp(means[0]):.3f} per layer with RAP-GNN and "
        f"{math.exp(means[1]):.3f} with end-to-end training."
    )
    test = f"{tested.test} on slopes of log variance (5 %, two-sided)"
    return Finding(figures, test, [row | {"quick": any(record.get("quick") for record in layers)}])


def _log_variance(layers: dict[int, Record]) -> dict[int, float]:
    return {layer: math.log(r["variance"]) for layer, r in layers.items() if 0 < r["variance"] < math.inf}


def trained_weights(records: Records) -> Finding | None:
    """How much of the squared entries of trained weights lies on the diagonal."""
    rows = []
    for record in find(records, ("weights",)):
        share = record.get("diagonal_share")
        if share is not None:
            row = {name: record.get(name) for name in ("dataset", "layer", "diagonal_share", "random_diagonal_share")}
            word = "diagonal" if share >= DIAGONAL else "not diagonal"
            rows.append(row | {"outcome": word, "quick": bool(record.get("quick"))})
    if not rows:
        return None
    rows.sort(key=lambda row: row["layer"])
    shown = ", ".join(f"layer {row['layer']} {100 * row['diagonal_share']:.1f} %" for row in rows)
    random = rows[0]["random_diagonal_share"]
    beside = f" A random matrix has {100 * random:.1f} %." if random else ""
    return Finding(f"Share of the squared entries on the diagonal: {shown}.{beside}", "none", rows)


_collapses = every(
    "Holds if the rank after the last layer is 1 for all methods named; in part if it is for some, or if the effective "
    f"rank falls below {ONE:.0f} for some; does not hold otherwise.",
    lambda row: row["outcome"] == "rank 1",
    lambda rows: any(row["outcome"] == "one direction" for row in rows),
)
_stays = every(
    f"A method keeps its rank if at least {100 * WHOLE:.0f} % of the rank before the first layer and {100 * HALF:.0f} "
    "% of the effective rank are left after the last one. Holds if all methods named do; in part if some do, or if "
    f"{100 * HALF:.0f} % of the rank are left for all; does not hold otherwise.",
    lambda row: _left(row, "rank") >= WHOLE and _left(row, "effective_rank") >= HALF,
    lambda rows: all(_left(row, "rank") >= HALF for row in rows),
)
_not_diagonal = every(
    f"Holds if less than {100 * DIAGONAL:.0f} % of the squared entries lie on the diagonal in every layer, in part if "
    "in some, does not hold otherwise.",
    lambda row: row["outcome"] == "not diagonal",
)


@rule("Holds if rank and effective rank after the last layer are higher, in part if one is, does not hold otherwise.")
def _higher(rows: Sequence[Record]) -> str:
    if len(rows) < 2:
        return MISSING
    more = [rows[0][f"{rank}_last"] > rows[1][f"{rank}_last"] for rank in RANKS]
    return grade(all(more), any(more))


@rule(
    "Holds if the slope of log variance by layer is higher by a significant difference, in part if it is higher "
    "without one, does not hold otherwise."
)
def _faster(rows: Sequence[Record]) -> str:
    return grade(rows[0]["outcome"] == AHEAD, rows[0]["difference"] > 0)


JUDGES = {
    "rank-full": (_collapses, ranks("random-full-uniform", "random-full", "fixed-full", word=collapse_of)),
    "rank-diagonal": (_stays, ranks("rap", "fixed-diagonal", word=left_of)),
    "rank-end-to-end": (_collapses, ranks("end-to-end", word=collapse_of)),
    "rank-above-end-to-end": (_higher, ranks("rap", "end-to-end")),
    "variance": (_faster, variance),
    "trained-weights": (_not_diagonal, trained_weights),
}
"""Claim -> its rule, and what is measured for it."""
