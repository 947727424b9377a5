"""The claims about time and memory: RAP-GNN against end-to-end training, measured in one run on one machine.

RAP-GNN runs in two ways: layer by layer, as in the paper, and by the shortcut. Times are medians over epochs and each
is one value, so ratios are compared with the paper's factors, without a test.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from rapgnn.experiments.markdown import format_ms, format_ratio
from rapgnn.experiments.published import find_published
from rapgnn.experiments.reproduce.claims.evidence import STEPWISE, Evidence, field, title
from rapgnn.experiments.reproduce.claims.verdict import FAILS, HOLDS, PART, Claim, Finding
from rapgnn.experiments.run import Record

TRAIN, EVAL, MEMORY = "train_ms_per_epoch", "eval_ms_per_epoch", "peak_memory_mb"
INFER, INFER_ALL = "infer_ms", "infer_all_ms"  # of the test nodes; of all nodes, from the graph on
WAYS = {STEPWISE: "layer by layer", "rap": "by the shortcut"}
SHOWN = (*WAYS, "fixed-diagonal")
BASELINES = ("end-to-end", "end-to-end-pyg")  # the first decides: both ways and it have the same sparse product
SAME = ("dataset", "num_layers", "hidden_channels", "backbone", "device")
LISTED = 3  # ratios that are listed one by one
RATIOS = "ratio of medians, no test"
RULE = (
    "Holds if RAP-GNN layer by layer reaches the factor in every comparison; in part if it does in some, if it takes "
    "less than end-to-end in all, or if only the shortcut reaches the factor in all; does not hold otherwise."
)


def ratios(evidence: Evidence, items: Sequence[str], keys: Sequence[str]) -> list[Record]:
    """How many times less every method takes than end-to-end training of the same size.

    Args:
        keys: what is compared; of several the first that both records have.
    """
    rows = []
    found = [r for r in evidence.find(items) if not r.get("values")]
    for slow in (r for r in found if r.get("method") in BASELINES):
        for fast in (r for r in found if field(r, "method") in SHOWN):
            key = next((k for k in keys if slow.get(k) and fast.get(k)), None)
            if key is None or any(field(slow, name) != field(fast, name) for name in SAME):
                continue
            rows.append(
                {
                    "dataset": fast["dataset"],
                    "backbone": field(fast, "backbone"),
                    "num_layers": field(fast, "num_layers"),
                    "method": field(fast, "method"),
                    "against": slow["method"],
                    "figure": key,
                    "value": fast[key],
                    "baseline": slow[key],
                    "ratio": slow[key] / fast[key],
                    "quick": bool(slow.get("quick") or fast.get("quick")),
                }
            )
    return sorted(rows, key=_order)


def _order(row: Record) -> tuple[Any, ...]:
    places = [row["against"], row["dataset"], row["backbone"] or "", row["num_layers"], SHOWN.index(row["method"])]
    return tuple(places)


def reaches(
    items: Sequence[str], keys: Sequence[str], claimed: Callable[[Record], float | None], rounded: bool = False
) -> Callable[[Evidence], Finding]:
    """A claim that RAP-GNN takes so many times less.

    Args:
        claimed: the factor for a comparison; None: the claim is not about it.
        rounded: the paper prints the factor as a whole number, so ours is rounded, too; else ours has to be above it.
    """

    def judge(evidence: Evidence) -> Finding:
        rows = []
        for row in ratios(evidence, items, keys):
            factor = claimed(row)
            if factor is not None:
                reached = round(row["ratio"]) >= factor if rounded else row["ratio"] > factor
                word = "reached" if reached else "less, not reached" if row["ratio"] > 1 else "not less"
                rows.append(row | {"claimed": factor, "outcome": word})
        ways = {way: [row for row in _decisive(rows) if row["method"] == way] for way in WAYS}
        if not any(ways.values()):
            return Finding()
        reached = {way: [row["outcome"] == "reached" for row in own] for way, own in ways.items()}
        whole = {way: bool(own) and all(own) for way, own in reached.items()}
        less = bool(ways[STEPWISE]) and all(row["ratio"] > 1 for row in ways[STEPWISE])
        part = less or any(reached[STEPWISE]) or whole["rap"]
        return Finding(HOLDS if whole[STEPWISE] else PART if part else FAILS, _sentence(ways), RATIOS, rows)

    return judge


def printed_factor(metric: str) -> Callable[[Record], float | None]:
    """The factor that the paper states for RAP-GNN on PubMed with so many layers."""

    def claimed(row: Record) -> float | None:
        wanted = {"dataset": row["dataset"], "num_layers": row["num_layers"], "method": "rap", "metric": metric}
        cells = find_published("costs", **wanted)
        return cells[0].mean if cells else None

    return claimed


def _less_than_half(row: Record) -> float | None:
    """Of the memory on graphs of ogbn-proteins' size."""
    return 2.0 if "ogbn-proteins" in row["dataset"] else None


def _less(row: Record) -> float:
    return 1.0


def gap(evidence: Evidence) -> Finding:
    """Whether the milliseconds saved grow with depth, in training and in inference."""
    rows, rising = [], {}
    for name, keys in {"training": (TRAIN,), "inference": (INFER, EVAL)}.items():
        found = [r for r in _decisive(ratios(evidence, ("depth",), keys)) if r["method"] == STEPWISE]
        saved = [row["baseline"] - row["value"] for row in found]
        if len(found) < 2:
            continue
        steps = [b > a for a, b in itertools.pairwise(saved)]
        rising[name] = (all(steps), saved[-1] > saved[0])
        rows += [row | {"saved_ms": ms} for row, ms in zip(found, saved, strict=True)]
    if not rows:
        return Finding()
    ends = []
    for key in dict.fromkeys(row["figure"] for row in rows):
        own = [row for row in rows if row["figure"] == key]
        shown = " and ".join(f"{format_ms(row['saved_ms'])} ms with {row['num_layers']}" for row in (own[0], own[-1]))
        ends.append(f"{'training' if key == TRAIN else 'inference'} saves {shown} layers")
    verdict = HOLDS if all(every for every, _ in rising.values()) else FAILS
    if verdict == FAILS and any(last for _, last in rising.values()):
        verdict = PART
    return Finding(verdict, f"Layer by layer, {'; '.join(ends)}.", "differences of medians, no test", rows)


def _decisive(rows: Sequence[Record]) -> list[Record]:
    """RAP-GNN against the first baseline that was measured."""
    own = [row for row in rows if row["method"] in WAYS]
    first = next((name for name in BASELINES if any(row["against"] == name for row in own)), None)
    return [row for row in own if row["against"] == first]


def _sentence(ways: dict[str, list[Record]]) -> str:
    parts = [f"{WAYS[way]} {_listed(rows)}" for way, rows in ways.items() if rows]
    some = [row for rows in ways.values() for row in rows]
    factors = dict.fromkeys((row["num_layers"], row["claimed"]) for row in some if row["claimed"] > 2)
    paper = ", ".join(f"{factor:g}× with {layers} layers" for layers, factor in factors)
    return f"Against {title(some[0]['against'])}: {'; '.join(parts)}." + (f" The paper: {paper}." if paper else "")


def _listed(rows: Sequence[Record]) -> str:
    """Every ratio with its place, or of many depths of one graph the range."""
    places = {(row["dataset"], row["backbone"]) for row in rows}
    depths = [row["num_layers"] for row in rows]
    if len(rows) > LISTED and len(places) == 1:
        low, high = (format_ratio(end(row["ratio"] for row in rows)) for end in (min, max))
        return f"{low} to {high} over {min(depths)} to {max(depths)} layers"
    if len(places) == 1:
        return ", ".join(f"{format_ratio(row['ratio'])} with {row['num_layers']} layers" for row in rows)
    return ", ".join(f"{format_ratio(row['ratio'])} ({row['dataset']}, {row['backbone']})" for row in rows)


CLAIMS = (
    Claim(
        "q3-training",
        "Q3: training is 6 times faster than end-to-end with 32 layers and 3 times with 8 (Section 4.3, Figure 2a, "
        "PubMed).",
        f"{RULE} Ours is rounded as the paper's is.",
        reaches(("depth",), (TRAIN,), printed_factor("speedup_vs_end_to_end"), rounded=True),
    ),
    Claim(
        "q3-inference",
        "Q3: inference is faster than end-to-end at every depth (Section 4.3, Figure 2b, PubMed).",
        RULE,
        reaches(("depth",), (INFER, EVAL), _less),
    ),
    Claim(
        "q3-gap",
        "Q3: the gap in training and inference time widens with depth (Section 4.3, Figure 2, PubMed).",
        "Holds if the milliseconds saved layer by layer rise from depth to depth in training and in inference, in "
        "part if they rise from the first to the last in one of them, does not hold otherwise.",
        gap,
    ),
    Claim(
        "q3-memory",
        "Q3: RAP-GNN needs a third of the memory of end-to-end with 32 layers (Section 4.3, Figure 3, PubMed).",
        f"{RULE} Ours is rounded as the paper's is.",
        reaches(("memory",), (MEMORY,), printed_factor("memory_saving_vs_end_to_end"), rounded=True),
    ),
    Claim(
        "q3-large-training",
        "Q3: on large graphs a training epoch takes less time than with end-to-end (Appendix D.3, Tables 7 and 8).",
        RULE,
        reaches(("large",), (TRAIN,), _less),
    ),
    Claim(
        "q3-large-evaluation",
        "Q3: on large graphs an evaluation takes less time than with end-to-end (Appendix D.3, Tables 7 and 8).",
        RULE,
        reaches(("large",), (INFER_ALL, EVAL), _less),
    ),
    Claim(
        "q3-large-memory",
        "Q3: on ogbn-proteins RAP-GNN needs less than half the memory of end-to-end (Appendix D.3, Figure 6).",
        RULE,
        reaches(("memory",), (MEMORY,), _less_than_half),
    ),
)
