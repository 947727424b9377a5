"""What is measured for claims about time and memory: RAP-GNN against end-to-end training, in one run on one machine.

RAP-GNN runs in two ways: layer by layer, as in the paper, and by the shortcut. Times are medians over epochs and each
is one value, so ratios are compared with the paper's factors, without a test.
"""

from collections.abc import Sequence

from rapgnn.compare import Record
from rapgnn_lab.paper.claims.claim import STEPWISE, Finding, Records, field, find, title
from rapgnn_lab.results import find_published, format_ms, format_ratio

TRAIN = "train_ms_per_epoch"
WAYS = {STEPWISE: "layer by layer", "rap": "by the shortcut"}
SHOWN = (*WAYS, "fixed-diagonal")
BASELINES = ("end-to-end", "end-to-end-pyg")  # the first decides: both ways and it have the same sparse product
SAME = ("dataset", "num_layers", "hidden_channels", "backbone", "device")
LISTED = 3  # ratios that are listed one by one
REACHED = "reached"


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
    first = min((row["against"] for row in own), key=BASELINES.index, default=None)
    return [row for row in own if row["against"] == first]


def factors(
    records: Records, item: str, keys: Sequence[str], claimed: float | str, dataset: str = ""
) -> Finding | None:
    """How many times less RAP-GNN takes, beside what is claimed.

    Args:
        claimed: ours has to be above this factor; or the metric of the factors that the paper prints for PubMed by
            depth, as whole numbers, so ours is rounded, too.
        dataset: what is in the names of the graphs that the claim is about.
    """
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
    """The milliseconds saved layer by layer, by depth, in training and in inference."""
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
