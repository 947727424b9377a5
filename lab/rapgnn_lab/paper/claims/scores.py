"""What is measured for claims about accuracy: comparisons of two records of one dataset, each with a test and an
outcome, for methods, reservoir systems, depths, embeddings, batch sizes and the expectation.

The paper's settings decide. What else was measured stands beside them, with a correction of its own: the best settings
of this library, the strict protocol of cross-validation, variants with settings of their own, full weights from
U[0, 1].
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, combinations, product

from rapgnn.compare import Record
from rapgnn.graph.scores import CLASS_METRICS, NUMBER_METRICS
from rapgnn_lab.paper.claims import significance
from rapgnn_lab.paper.claims.figures import Finding, Records, field, find, title
from rapgnn_lab.paper.claims.significance import AHEAD, BEHIND, LEVEL, TIED, UNTESTED, holm, outcome
from rapgnn_lab.paper.rows import BEST, EXPECTATION, FAITHFUL, OF_LAYER, OF_MLP, OWN, PLANETOID, RESERVOIRS, TU, UNIFORM
from rapgnn_lab.results import Published, find_published

METRICS = CLASS_METRICS | NUMBER_METRICS
NAMED = 4  # comparisons that are listed one by one
TABLES = ("table1", "table2", "table3", "molbace", "identity", "large")  # methods on datasets, at their own settings
DATASETS = (*PLANETOID, *TU, "molesol", "moltox21", "molhiv", "molbace", "ogbn-proteins", "ogbn-products")
FAMILIES = {
    FAITHFUL: ("Paper's settings", ((OF_LAYER, FAITHFUL), FAITHFUL), ""),
    BEST: ("Best settings of this library", (BEST, BEST), ""),
    "strict": ("Paper's settings, strict cross-validation", (FAITHFUL, FAITHFUL), "strict_"),
    OWN: ("Both with an MLP and a search of their own", ((OF_MLP, OWN, FAITHFUL), OWN), ""),
    UNIFORM: ("Full weights from U[0, 1]", ((OF_LAYER, FAITHFUL), UNIFORM), ""),
}
"""Name -> title, columns of both records (of several the first with values, so that the kind of embedding is the same),
and kind of their values; the first that was measured decides."""


def find_scores(
    records: Records, items: Sequence[str], column: str | Sequence[str] = FAITHFUL, **wanted: object
) -> Record | None:
    """The first record with values of a metric in this column; where none is named it is the paper's."""
    columns = (column,) if isinstance(column, str) else column
    rows = (r for name in columns for r in find(records, items, **wanted) if r.get("column", FAITHFUL) == name)
    return next((r for r in rows if any(map(math.isfinite, values_of(r)))), None)


def values_of(record: Record | None, kind: str = "") -> list[float]:
    """Of the metric, or with ``"strict_"`` of the strict protocol; a run that diverged is None in a file."""
    return [math.nan if value is None else float(value) for value in (record or {}).get(f"{kind}values") or []]


def compare(
    names: Sequence[str],
    first: Record | None,
    second: Record | Published | None,
    *,
    column: str = FAITHFUL,
    paired: bool | None = None,
    kind: str = "",
) -> list[Record]:
    """One comparison on one dataset as a flat row, shares in points; none where one side was not measured. Values are
    ``paired`` by themselves where both were measured on the same folds; ``kind`` may be ``"strict_"``."""
    quoted, other = (second, {}) if isinstance(second, Published) else (None, second or {})
    x, y = values_of(first, kind), values_of(other, kind) if quoted is None else [(quoted.mean or 0) / 100]
    if first is None or not x or not y:
        return []
    metric, folds = METRICS[first["metric"]], "fold," in first.get("protocol", "")
    if quoted is not None:
        tested = significance.compare_to_quoted(x, y[0], higher=metric.higher)
    else:
        same = len(x) == len(y) and all(first.get(name) == other.get(name) for name in ("seeds", "protocol"))
        tested = significance.compare_samples(
            x, y, higher=metric.higher, paired=same and (folds if paired is None else paired)
        )
    means = [statistics.fmean(filter(math.isfinite, values)) for values in (x, y)]
    numbers = {"first_mean": means[0], "second_mean": means[1], "difference": tested.difference}
    factor = 100 if metric.percent else 1
    row = {"column": column, "dataset": first["dataset"], "first": names[0], "second": names[1]}
    row |= {"unit": "points" if metric.percent else metric.title}
    for key, value in (numbers | {"low": tested.low, "high": tested.high}).items():
        row[key] = None if value is None else factor * value
    row |= {"p": tested.p, "p_shared": tested.p_shared if folds else None, "test": tested.test}
    row |= {"runs": f"{len(x)} and {len(y)}"} if quoted is None else {"in_their_std": row["difference"] / quoted.std}
    return [row | {"quick": bool(first.get("quick") or other.get("quick"))}]


def settle(rows: Sequence[Record]) -> list[Record]:
    """The comparisons of one claim with Holm's p and their outcomes."""
    adjusted = zip(rows, holm([row["p"] for row in rows]), strict=True)
    return [row | {"p_holm": p, "outcome": outcome(row["difference"], p)} for row, p in adjusted]


def compared(
    rows: Sequence[Record],
    *notes: str,
    head: str = "",
    beside: Mapping[str, Sequence[Record]] | None = None,
    words: Callable[[Sequence[Record]], str] | None = None,
) -> Finding | None:
    """The comparisons of a claim, settled and in words; those ``beside`` have a correction of their own and decide
    nothing."""
    if not rows:
        return None
    rows, others = settle(rows), {name: settle(more) for name, more in (beside or {}).items() if more}
    figures = [head and f"{head}:", (words or summary)(rows), *notes]
    figures += [f"{name}: {summary(more, short=True)}" for name, more in others.items()]
    tests = "; ".join(dict.fromkeys(row["test"] for row in rows))
    tested = sum(row["p"] is not None for row in rows)
    level = f" ({100 * LEVEL:.0f} %, two-sided, Holm over {tested})" if tested else ""
    return Finding(" ".join(filter(None, figures)), tests + level, [*rows, *chain.from_iterable(others.values())])


def summary(rows: Sequence[Record], short: bool = False) -> str:
    """Pair by pair: how often the first is ahead, level and behind, where, and by how much on average;
    ``short``, and with several pairs, without the names of datasets."""
    pairs: dict[tuple[str, str], list[Record]] = {}
    for row in rows:
        pairs.setdefault((row["first"], row["second"]), []).append(row)
    return "; ".join(_pair(mine, short or len(pairs) > 1) for mine in pairs.values()) + "."


def _pair(rows: Sequence[Record], short: bool) -> str:
    who = f"{rows[0]['first']} against {rows[0]['second']}"
    if len(rows) == 1:
        return f"{who} {signed(rows[0]['difference'], rows[0]['unit'])} ({_where(rows[0])}, {rows[0]['outcome']})"
    parts, means = [], []
    for kind in (AHEAD, TIED, BEHIND, UNTESTED):
        mine = [row for row in rows if row["outcome"] == kind]
        named = ", ".join(f"{_where(row)} {signed(row['difference'], row['unit'])}" for row in mine)
        shown = f" ({named})" if kind != TIED and len(mine) <= NAMED and not short else ""
        parts += [f"{kind} in {len(mine)}{shown}"] if mine else []
    for unit in dict.fromkeys(row["unit"] for row in rows):
        inside = [row["difference"] for row in rows if row["unit"] == unit]
        means.append(f"{signed(sum(inside) / len(inside), unit)} over {len(inside)}")
    return f"{who}, {len(rows)} compared: {', '.join(parts)}, mean difference {', '.join(means)}"


def left_open(rows: Sequence[Record]) -> str:
    """How far behind the first may be: without the correction, which favours it here, and by the intervals."""
    limits = [row for row in rows if row["low"] is not None and row["unit"] == "points"]
    if not limits:
        return ""
    worst = min(limits, key=lambda row: row["low"])
    single = sum(row["p"] is not None and row["p"] < LEVEL and row["difference"] < 0 for row in rows)
    end = f"{signed(worst['low'], 'points')} ({_where(worst)})"
    return f"Behind without Holm's correction: {single}; lowest end of a 95 % interval: {end}."


def signed(value: float, unit: str) -> str:
    digits = 2 if unit == "points" else 3
    return f"{round(value, digits) or 0.0:+.{digits}f} {unit}"  # no minus before zero


def _where(row: Record) -> str:
    return f"{row['num_layers']} layers" if "num_layers" in row else row["dataset"]


# What is compared: records and the settings of a claim -> what they say of it; None where they say nothing.


def methods(
    records: Records, pairs: Sequence[Sequence[str]], datasets: Sequence[str] = DATASETS, lowest: bool = False
) -> Finding | None:
    """Each pair's first against its second, on every dataset with both; ``lowest``: say how far behind it may be."""
    families: dict[str, list[Record]] = {}
    for name, (head, columns, kind) in FAMILIES.items():
        for pair, dataset in product(pairs, datasets):
            sides = zip(pair, columns, strict=True)
            both = [find_scores(records, TABLES, column, dataset=dataset, method=m) for m, column in sides]
            for row in compare(list(map(title, pair)), *both, column=name, kind=kind):
                families.setdefault(head, []).append(row)
    if not families:
        return None
    (head, rows), *others = families.items()
    planned = len(pairs) * len(datasets)
    few = f"{len(rows)} of {planned} comparisons measured." if len(rows) < planned else ""
    return compared(rows, left_open(rows) if lowest else "", few, head=head, beside=dict(others))


def reservoirs(records: Records) -> Finding | None:
    """RAP-GNN against the four systems as their papers report them; as measured here they stand beside it."""

    def against(second: Published | str, dataset: str, column: str = FAITHFUL, kind: str = "") -> list[Record]:
        name = second if isinstance(second, str) else second.method
        ours, here = (find_scores(records, TABLES, dataset=dataset, method=m) for m in ("rap", name))
        other = here if isinstance(second, str) else second
        return compare((title("rap"), RESERVOIRS[name]), ours, other, column=column, kind=kind)

    printed = [c for c in find_published("tu") if c.method in RESERVOIRS and c.mean is not None and c.std is not None]
    rows = [row for cell in printed for row in against(cell, cell.dataset)]
    if not rows:
        return None
    far = max(rows, key=lambda row: abs(row["in_their_std"]))
    note = (
        f"Largest distance in their standard deviations: {far['in_their_std']:+.1f} "
        f"({far['second']} on {far['dataset']}). Their runs are not at hand: their mean is taken as exact."
    )
    kinds = {"Measured here": "", "Measured here, strict cross-validation": "strict_"}
    beside = {
        column: [row for dataset, name in product(TU, RESERVOIRS) for row in against(name, dataset, column, kind)]
        for column, kind in kinds.items()
    }
    return compared(rows, note, beside=beside)


def by_depth(records: Records, method: str) -> dict[int, Record]:
    """The scores of a method by its number of layers, from the shallowest on."""
    records_of = [r for r in find(records, ("depth",), method=method) if values_of(r)]
    return dict(sorted({field(r, "num_layers"): r for r in reversed(records_of)}.items()))


def ends(records: Records, methods: Sequence[str]) -> Finding | None:
    """The deepest network of each method against its shallowest."""
    rows: list[Record] = []
    for method in methods:
        depths = by_depth(records, method)
        if len(depths) > 1:
            shallow, *_, deep = depths
            layers = [f"{title(method)}, {n} layer{'' if n == 1 else 's'}" for n in (deep, shallow)]
            rows += compare(layers, depths[deep], depths[shallow])

    def words(rows: Sequence[Record]) -> str:
        shown = [
            f"{row['first']} {row['first_mean']:.2f}, {row['second'].rpartition(', ')[2]} {row['second_mean']:.2f} "
            f"({signed(row['difference'], row['unit'])}, {row['outcome']})"
            for row in rows
        ]
        return f"{'; '.join(shown)}."

    return compared(rows, words=words)


def at_depths(records: Records) -> Finding | None:
    ours, theirs = (by_depth(records, method) for method in ("rap", "end-to-end"))
    names = (title("rap"), title("end-to-end"))
    both = {depth: compare(names, ours[depth], theirs[depth]) for depth in ours if depth in theirs}
    return compared([row | {"num_layers": depth} for depth, rows in both.items() for row in rows])


def embeddings(records: Records, first: str, second: str) -> Finding | None:
    rows: list[Record] = []
    for dataset in PLANETOID:
        wanted = {"dataset": dataset, "method": "rap"}
        both = [find_scores(records, ("embeddings", "table1"), embedding=e, **wanted) for e in (first, second)]
        rows += compare((f"{first} embedding", f"{second} embedding"), *both)
    return compared(rows)


def batch_sizes(records: Records) -> Finding | None:
    """Every pair of batch sizes on PROTEINS."""
    rows: list[Record] = []
    for small, large in combinations(sorted(cell.batch_size or 0 for cell in find_published("batches")), 2):
        both = [find_scores(records, ("batches",), method="rap", batch_size=size) for size in (large, small)]
        rows += compare((f"batches of {large}", f"batches of {small}"), *both)
    largest = max((abs(row["difference"]) for row in rows), default=0.0)
    return compared(rows, f"Largest difference: {largest:.2f} points.")


def expectation(records: Records) -> Finding | None:
    rows: list[Record] = []
    for dataset in DATASETS:
        both = [find_scores(records, TABLES, c, dataset=dataset, method="rap") for c in (EXPECTATION, FAITHFUL)]
        rows += compare(("expectation", "one draw"), *both, paired=True)
    return compared(rows, left_open(rows))
