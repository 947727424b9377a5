"""What is measured for claims about feature collapse (Section 3.2, Appendix C): rank and variance by layer, and the
diagonal of trained weights."""

import math
import statistics
from collections.abc import Sequence

from rapgnn.compare import Record
from rapgnn_lab.paper.claims.claim import Finding, Records, find, title
from rapgnn_lab.paper.claims.significance import compare_samples, compare_slopes, outcome

RANKS = ("rank", "effective_rank")
EXACT_RANK = "rank_float64"  # by the tolerance of double precision: shown, not judged
ONE = 2.0  # an effective rank below this is nearly that of one direction
DIAGONAL = 0.5  # share of the squared entries
ONE_RANK, ONE_DIRECTION, NOT_DIAGONAL = "rank 1", "one direction", "not diagonal"


def by_layer(records: Records, method: str) -> list[dict[int, Record]]:
    """For every seed: layer -> what was measured after it."""
    seeds: dict[int, dict[int, Record]] = {}
    for record in find(records, ("collapse",), method=method):
        if all(record.get(name) is not None for name in ("layer", *RANKS)):  # None: the features have no finite size
            seeds.setdefault(record.get("seed", 0), {})[record["layer"]] = record
    return [dict(sorted(layers.items())) for layers in seeds.values()]


def first_and_last(records: Records, method: str) -> list[Record]:
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


def left(row: Record, rank: str) -> float:
    """The share of a rank that is left."""
    return row[f"{rank}_last"] / max(row[f"{rank}_first"], 1)


def _collapse(row: Record) -> str:
    """Whether one direction, or nearly one, is left."""
    if row["rank_last"] <= 1:
        return ONE_RANK
    return ONE_DIRECTION if row["effective_rank_last"] < min(ONE, row["effective_rank_first"]) else "not collapsed"


OUTCOMES = {
    "": lambda row: "",
    "collapse": _collapse,
    "left": lambda row: (
        f"{100 * left(row, 'rank'):.0f} % left, {100 * left(row, 'effective_rank'):.0f} % of the effective rank"
    ),
}
"""What becomes of a method's ranks, in a word."""


def ranks(records: Records, methods: Sequence[str], outcome: str = "") -> Finding | None:
    """The ranks of some methods, and a word of ``OUTCOMES`` for what becomes of each."""
    ends = [row for method in methods for row in first_and_last(records, method)]
    rows = [row | {"outcome": OUTCOMES[outcome](row)} for row in ends]
    if not rows:
        return None
    shown = []
    for row in rows:
        exact = ""
        if f"{EXACT_RANK}_last" in row:
            exact = f", in float64 {row[f'{EXACT_RANK}_first']:.4g} to {row[f'{EXACT_RANK}_last']:.4g}"
        effective = f"effective {row['effective_rank_first']:.1f} to {row['effective_rank_last']:.1f}"
        shown.append(f"{row['method']} {row['rank_first']:.4g} to {row['rank_last']:.4g} ({effective}{exact})")
    layers = f"{rows[0]['first_layer']} to {rows[0]['last_layer']}"
    return Finding(f"Rank after layer {layers}: {'; '.join(shown)}.", "ranks of the same seeds, no test", rows)


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
    names = ("dataset", "layer", "diagonal_share", "random_diagonal_share")
    rows = []
    for r in find(records, ("weights",)):
        if r.get("diagonal_share") is not None:
            word = "diagonal" if r["diagonal_share"] >= DIAGONAL else NOT_DIAGONAL
            rows.append({name: r.get(name) for name in names} | {"outcome": word, "quick": bool(r.get("quick"))})
    if not rows:
        return None
    rows.sort(key=lambda row: row["layer"])
    shown = ", ".join(f"layer {row['layer']} {100 * row['diagonal_share']:.1f} %" for row in rows)
    random = rows[0]["random_diagonal_share"]
    beside = f" A random matrix has {100 * random:.1f} %." if random else ""
    return Finding(f"Share of the squared entries on the diagonal: {shown}.{beside}", "none", rows)
