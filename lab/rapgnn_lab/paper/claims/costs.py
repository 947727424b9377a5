"""The claims about time and memory: RAP-GNN against end-to-end training, measured in one run on one machine.

RAP-GNN runs in two ways: layer by layer, as in the paper, and by the shortcut. Times are medians over epochs and each
is one value, so ratios are compared with the paper's factors, without a test.
"""

from collections.abc import Sequence
from itertools import pairwise

from rapgnn.compare import Record
from rapgnn_lab.paper.claims.claim import STEPWISE, Finding, Measure, Records, Rule, field, find, grade, rule, title
from rapgnn_lab.results import find_published, format_ms, format_ratio

TRAIN, EVAL, MEMORY = "train_ms_per_epoch", "eval_ms_per_epoch", "peak_memory_mb"
INFER, INFER_ALL = "infer_ms", "infer_all_ms"  # of the test nodes; of all nodes, from the graph on
WAYS = {STEPWISE: "layer by layer", "rap": "by the shortcut"}
SHOWN = (*WAYS, "fixed-diagonal")
BASELINES = ("end-to-end", "end-to-end-pyg")  # the first decides: both ways and it have the same sparse product
SAME = ("dataset", "num_layers", "hidden_channels", "backbone", "device")
LISTED = 3  # ratios that are listed one by one


def ratios(records: Records, item: str, keys: Sequence[str]) -> list[Record]:
    """How many times less every method takes than end-to-end training of the same size.

    Args:
        keys: what is compared; of several the first that both records have.
    """
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
    first = next((name for name in BASELINES if any(row["against"] == name for row in own)), None)
    return [row for row in own if row["against"] == first]


def factors(item: str, keys: Sequence[str], claimed: float | str, dataset: str = "") -> Measure:
    """How many times less RAP-GNN takes, beside what is claimed.

    Args:
        claimed: ours has to be above this factor; or the metric of the factors that the paper prints for PubMed by
            depth, as whole numbers, so ours is rounded, too.
        dataset: what is in the names of the graphs that the claim is about.
    """

    def measure(records: Records) -> Finding | None:
        rows = []
        for row in ratios(records, item, keys):
            least = _printed(row, claimed) if isinstance(claimed, str) else claimed
            if least is not None and dataset in row["dataset"]:
                reached = round(row["ratio"]) >= least if isinstance(claimed, str) else row["ratio"] > least
                word = "reached" if reached else "less, not reached" if row["ratio"] > 1 else "not less"
                rows.append(row | {"claimed": least, "outcome": word})
        own = decisive(rows)
        if not own:
            return None
        ways = {words: [row for row in own if row["method"] == way] for way, words in WAYS.items()}
        shown = "; ".join(f"{words} {_listed(mine)}" for words, mine in ways.items() if mine)
        printed = {f"{row['claimed']:g}× with {row['num_layers']} layers": None for row in own if row["claimed"] > 2}
        paper = f" The paper: {', '.join(printed)}." if printed else ""
        figures = f"Against {title(own[0]['against'])}: {shown}.{paper}"
        return Finding(figures, "ratio of medians, no test", rows)

    return measure


def _listed(rows: Sequence[Record]) -> str:
    """Every ratio with its place, or of many depths of one graph the range."""
    places = {(row["dataset"], row["backbone"]) for row in rows}
    if len(places) > 1:
        return ", ".join(f"{format_ratio(row['ratio'])} ({row['dataset']}, {row['backbone']})" for row in rows)
    if len(rows) > LISTED:
        low, high = (format_ratio(end(row["ratio"] for row in rows)) for end in (min, max))
        depths = [row["num_layers"] for row in rows]
        return f"{low} to {high} over {min(depths)} to {max(depths)} layers"
    return ", ".join(f"{format_ratio(row['ratio'])} with {row['num_layers']} layers" for row in rows)


def _printed(row: Record, metric: str) -> float | None:
    """The factor that the paper states for RAP-GNN on this graph with so many layers, if it does."""
    size = {"dataset": row["dataset"], "num_layers": row["num_layers"]}
    return next((cell.mean for cell in find_published("costs", method="rap", metric=metric, **size)), None)


def saved(records: Records) -> Finding | None:
    """The milliseconds saved layer by layer, by depth, in training and in inference."""
    rows: list[Record] = []
    ends = []
    for name, keys in {"training": (TRAIN,), "inference": (INFER, EVAL)}.items():
        own = [row for row in decisive(ratios(records, "depth", keys)) if row["method"] == STEPWISE]
        if len(own) < 2:
            continue
        own = [row | {"saved_ms": row["baseline"] - row["value"]} for row in own]
        shown = " and ".join(f"{format_ms(row['saved_ms'])} ms with {row['num_layers']}" for row in (own[0], own[-1]))
        ends.append(f"{name} saves {shown} layers")
        rows += own
    figures = f"Layer by layer, {'; '.join(ends)}."
    return Finding(figures, "differences of medians, no test", rows) if rows else None


@rule(
    "Holds if RAP-GNN layer by layer reaches the factor in every comparison; in part if it does in some, if it takes "
    "less than end-to-end in all, or if only the shortcut reaches the factor in all; does not hold otherwise."
)
def _factor(rows: Sequence[Record]) -> str:
    stepwise, shortcut = ([row for row in decisive(rows) if row["method"] == way] for way in WAYS)
    steps, whole = ([row["outcome"] == "reached" for row in own] for own in (stepwise, shortcut))
    all_less = bool(stepwise) and all(row["ratio"] > 1 for row in stepwise)
    return grade(bool(steps) and all(steps), any(steps) or all_less or (bool(whole) and all(whole)))


@rule(
    "Holds if the milliseconds saved layer by layer rise from depth to depth in training and in inference, in part if "
    "they rise from the first to the last in one of them, does not hold otherwise."
)
def _widens(rows: Sequence[Record]) -> str:
    both = [[row["saved_ms"] for row in rows if (row["figure"] == TRAIN) == training] for training in (True, False)]
    rising = all(b > a for curve in both for a, b in pairwise(curve))
    return grade(rising, any(curve[-1] > curve[0] for curve in both if curve))


_rounded = Rule(f"{_factor.sentence} Ours is rounded as the paper's is.", _factor.judge)
JUDGES = {
    "q3-training": (_rounded, factors("depth", (TRAIN,), "speedup_vs_end_to_end")),
    "q3-inference": (_factor, factors("depth", (INFER, EVAL), 1.0)),
    "q3-gap": (_widens, saved),
    "q3-memory": (_rounded, factors("memory", (MEMORY,), "memory_saving_vs_end_to_end")),
    "q3-large-training": (_factor, factors("large", (TRAIN,), 1.0)),
    "q3-large-evaluation": (_factor, factors("large", (INFER_ALL, EVAL), 1.0)),
    "q3-large-memory": (_factor, factors("memory", (MEMORY,), 2.0, "ogbn-proteins")),
}
"""Claim -> its rule, and what is measured for it."""
