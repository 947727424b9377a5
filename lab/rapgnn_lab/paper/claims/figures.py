"""What is measured for claims about time, memory and feature collapse, and what the measures of all claims share:
records are found by their fields, and what they say is a finding.

RAP-GNN runs in two ways: layer by layer, as in the paper, and by the shortcut. Times are medians over epochs and each
is one value, so ratios are compared with the paper's factors, without a test. Collapse (Section 3.2, Appendix C) is
rank and variance by layer, and the diagonal of trained weights.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rapgnn.compare import Record
from rapgnn_lab.baselines.systems import METHODS
from rapgnn_lab.paper.claims.significance import compare_slopes, outcome
from rapgnn_lab.results import find_published, format_ms, format_ratio

STEPWISE = "rap-stepwise"
TITLES = {name: method.title for name, method in METHODS.items()} | {
    STEPWISE: "RAP-GNN, layer by layer",
    "end-to-end-pyg": "End-to-End, PyG",
}
Records = Mapping[str, Sequence[Record]]
"""Item -> its records; items may be missing."""


@dataclass(frozen=True)
class Finding:
    """What was measured for a claim: words, the test, and flat rows; those of the first row's column decide."""

    figures: str
    test: str
    details: Sequence[Record]


def title(method: str) -> str:
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


TRAIN = "train_ms_per_epoch"
WAYS = {STEPWISE: "layer by layer", "rap": "by the shortcut"}
SHOWN = (*WAYS, "fixed-diagonal")
BASELINES = ("end-to-end", "end-to-end-pyg")  # the first decides: both ways and it have the same sparse product
SAME = ("dataset", "num_layers", "hidden_channels", "backbone", "device")
LISTED = 3  # ratios that are listed one by one
REACHED = "reached"


def ratios(records: Records, item: str, keys: Sequence[str]) -> list[Record]:
    """How many times less every method takes than end-to-end training of the same size, by the first of
    the keys that both records have."""
    rows = []
    costs = [r for r in find(records, (item,)) if not r.get("values")]
    for slow in (r for r in costs if r.get("method") in BASELINES):
        for fast in (r for r in costs if field(r, "method") in SHOWN):
            key = next((k for k in keys if slow.get(k) and fast.get(k)), None)
            if key is None or any(field(slow, name) != field(fast, name) for name in SAME):
                continue
            row = {"dataset": fast["dataset"]}
            row |= {name: field(fast, name) for name in ("backbone", "num_layers", "method")}
            row |= {"against": slow["method"], "figure": key, "value": fast[key], "baseline": slow[key]}
            rows.append(row | {"ratio": slow[key] / fast[key], "quick": bool(slow.get("quick") or fast.get("quick"))})
    order = ("against", "dataset", "backbone", "num_layers")
    return sorted(rows, key=lambda row: (*(row[name] or "" for name in order), SHOWN.index(row["method"])))


def decisive(rows: Sequence[Record]) -> list[Record]:
    """RAP-GNN against the first baseline that was measured."""
    own = [row for row in rows if row["method"] in WAYS]
    first = min((row["against"] for row in own), key=BASELINES.index, default=None)
    return [row for row in own if row["against"] == first]


def factors(
    records: Records, item: str, keys: Sequence[str], claimed: float | str, dataset: str = ""
) -> Finding | None:
    """How many times less RAP-GNN takes, beside what is claimed: ours has to be above this factor; or the metric of the
    factors that the paper prints for PubMed by depth, as whole numbers, so ours is rounded, too."""
    rows = []
    for row in ratios(records, item, keys):
        least = _printed(row, claimed) if isinstance(claimed, str) else claimed
        if least is not None and dataset in row["dataset"]:
            reached = round(row["ratio"]) >= least if isinstance(claimed, str) else row["ratio"] > least
            word = REACHED if reached else "less, not reached" if row["ratio"] > 1 else "not less"
            rows.append(row | {"claimed": least, "outcome": word})
    own = decisive(rows)
    if not own:
        return None
    ways = {words: [row for row in own if row["method"] == way] for way, words in WAYS.items()}
    shown = "; ".join(f"{words} {_listed(mine)}" for words, mine in ways.items() if mine)
    printed = {f"{row['claimed']:g}× with {row['num_layers']} layers": None for row in own if row["claimed"] > 2}
    paper = f" The paper: {', '.join(printed)}." if printed else ""
    return Finding(f"Against {title(own[0]['against'])}: {shown}.{paper}", "ratio of medians, no test", rows)


def _listed(rows: Sequence[Record]) -> str:
    """Every ratio with its place, or of many depths of one graph the range."""
    shown = [format_ratio(row["ratio"]) for row in rows]
    if len({(row["dataset"], row["backbone"]) for row in rows}) > 1:
        return ", ".join(f"{r} ({row['dataset']}, {row['backbone']})" for r, row in zip(shown, rows, strict=True))
    if len(rows) > LISTED:
        low, high = (format_ratio(end(row["ratio"] for row in rows)) for end in (min, max))
        depths = [row["num_layers"] for row in rows]
        return f"{low} to {high} over {min(depths)} to {max(depths)} layers"
    return ", ".join(f"{r} with {row['num_layers']} layers" for r, row in zip(shown, rows, strict=True))


def _printed(row: Record, metric: str) -> float | None:
    """The factor that the paper states for RAP-GNN on this graph with so many layers, if it does."""
    size = {"dataset": row["dataset"], "num_layers": row["num_layers"]}
    return next((cell.mean for cell in find_published("costs", method="rap", metric=metric, **size)), None)


def saved(records: Records) -> Finding | None:
    rows: list[Record] = []
    ends = []
    for name, keys in {"training": (TRAIN,), "inference": ("infer_ms", "eval_ms_per_epoch")}.items():
        own = [row for row in decisive(ratios(records, "depth", keys)) if row["method"] == STEPWISE]
        if len(own) > 1:
            own = [row | {"saved_ms": row["baseline"] - row["value"]} for row in own]
            both = (f"{format_ms(row['saved_ms'])} ms with {row['num_layers']}" for row in (own[0], own[-1]))
            ends.append(f"{name} saves {' and '.join(both)} layers")
            rows += own
    figures = f"Layer by layer, {'; '.join(ends)}."
    return Finding(figures, "differences of medians, no test", rows) if rows else None


RANKS = ("rank", "effective_rank")
EXACT_RANK = "rank_float64"  # by the tolerance of double precision: shown, not judged
ONE = 2.0  # an effective rank below this is nearly that of one direction
DIAGONAL = 0.5  # share of the squared entries
ONE_RANK, ONE_DIRECTION, NOT_DIAGONAL = "rank 1", "one direction", "not diagonal"


def by_layer(records: Records, method: str) -> dict[int, Record]:
    """Layer -> what was measured after it."""
    mine = find(records, ("collapse",), method=method)
    finite = [r for r in mine if all(r.get(name) is not None for name in ("layer", *RANKS))]
    return dict(sorted((r["layer"], r) for r in finite))


def first_and_last(records: Records, method: str) -> list[Record]:
    """Ranks of a method after its first and its last layer."""
    layers = by_layer(records, method)
    if len(layers) < 2:
        return []
    first, last = min(layers), max(layers)
    some = layers[last]
    row: Record = {"dataset": some["dataset"], "method": some.get("title", title(method))}
    row |= {"first_layer": first, "last_layer": last}
    for rank in (*RANKS, EXACT_RANK):
        if rank in layers[first] and rank in some:
            row |= {f"{rank}_first": float(layers[first][rank]), f"{rank}_last": float(some[rank])}
    return [row | {"runs": 1, "quick": any(r.get("quick") for r in layers.values())}]


def left(row: Record, rank: str) -> float:
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
    curves = [{n: math.log(r["variance"]) for n, r in run.items() if 0 < r["variance"] < math.inf} for run in runs]
    if min(map(len, curves)) < 3:
        return None
    slopes = [statistics.linear_regression(list(c), list(c.values())).slope for c in curves]
    tested, layers = compare_slopes(*curves), [record for run in runs for record in run.values()]
    row = {"dataset": layers[0]["dataset"], "first": title(methods[0]), "second": title(methods[1])}
    row |= {"first_mean": slopes[0], "second_mean": slopes[1], "difference": tested.difference}
    row |= {"low": tested.low, "high": tested.high, "p": tested.p, "outcome": outcome(tested.difference, tested.p)}
    figures = (
        f"The variance grows by a factor of {math.exp(slopes[0]):.3f} per layer with RAP-GNN and "
        f"{math.exp(slopes[1]):.3f} with end-to-end training."
    )
    test = f"{tested.test} on slopes of log variance (5 %, two-sided)"
    return Finding(figures, test, [row | {"quick": any(record.get("quick") for record in layers)}])


def trained_weights(records: Records) -> Finding | None:
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
