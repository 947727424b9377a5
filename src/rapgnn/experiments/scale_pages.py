"""The tables of docs/scale.md and docs/plan.md: graphs larger than memory, and the cost model against measured runs."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from rapgnn.experiments.markdown import format_table
from rapgnn.experiments.results import read_records
from rapgnn.scale.plan.layouts import Machines, best, costs
from rapgnn.scale.plan.problem import Problem
from rapgnn.scale.plan.rates import Rates
from rapgnn.scale.plan.report import advice, plan_rows, sizes
from rapgnn.scale.sizes import read_size, show_size

PAPERS = Problem(111_059_956, 1_615_685_872, 128, 3, 1_207_179 + 125_265)
"""ogbn-papers100M: its citations as listed, its training and validation rows."""
BILLION = Problem(10**9, 20 * 10**9, 128, 3, 10**7)
"""A billion nodes with twenty billion edges, a hundredth of them labelled."""
CLUSTERS = {"plan-papers": ((1, "64GiB"), (8, "64GiB")), "plan-billion": ((1, "64GiB"), (16, "128GiB"))}
PROBLEMS = {"plan-papers": PAPERS, "plan-billion": BILLION}


def disk_table(root: Path) -> str:
    """From tables to predictions under memory limits."""
    header = [
        "nodes",
        "edges",
        "features",
        "`--memory`",
        "peak memory",
        "convert, s",
        "fit, s",
        "predict, s",
        "in all",
    ]
    rows = []
    for r in read_records(root, "scale", "disk"):
        seconds = [r[f"{step}_seconds"] for step in ("convert", "fit", "predict")]
        peak = show_size(round(r["peak_memory_mb"] * 2**20))
        sizes_of = [f"{r[name]:,}" for name in ("nodes", "edges", "features")]
        whole = f"{sum(seconds) / 60:.1f} min"
        rows.append([*sizes_of, r["memory_limit"], peak, *(f"{value:.0f}" for value in seconds), whole])
    return format_table(header, rows)


def gpu_table(root: Path) -> str:
    """The same on a GPU of which a part may be taken, and how far predictions lie from those in memory."""
    header = [
        "columns",
        "GPU memory allowed",
        "taken",
        "blocks",
        "fit, s",
        "predict, s",
        "in memory, all",
        "difference",
    ]
    rows = []
    for r in read_records(root, "scale", "disk-h200"):
        kind = "embedded" if r["settings"] else "features"
        taken = show_size(round(r["device_peak_mb"] * 2**20))
        seconds = [f"{r[name]:.1f}" for name in ("fit_seconds", "predict_seconds", "memory_seconds")]
        sizes_of = [f"{r['hidden_channels']} {kind}", r["device_memory"], taken, str(r["blocks"])]
        rows.append([*sizes_of, *seconds[:2], f"{seconds[2]} s", f"{r['relative_error']:.0e}"])
    return format_table(header, rows)


def check_table(root: Path) -> str:
    """Measured and predicted, by size."""
    (record,) = read_records(root, "scale", "plan")
    header = ["nodes", "edges", "blocks", "seconds", "predicted", "ratio", "peak memory", "predicted", "ratio"]
    rows = [
        [
            f"{run['nodes']:,}",
            f"{run['edges']:,}",
            str(run["blocks"]),
            f"{run['seconds']:.2f}",
            f"{run['predicted']['total_seconds']:.2f}",
            f"{run['ratio_seconds']:.2f}",
            show_size(run["peak_bytes"]),
            show_size(run["predicted"]["memory"]),
            f"{run['ratio_memory']:.2f}",
        ]
        for run in record["runs"]
    ]
    load = record.get("load_average")
    busy = load is not None and load > 1
    said = f"\n\nOther work ran on the machine meanwhile: its load was {load:.0f} at the start." if busy else ""
    return format_table(header, rows) + said


def predicted_table(root: Path, name: str) -> str:
    """The layouts of one graph on some sets of machines, each as fast as the measured one."""
    (record,) = read_records(root, "scale", "plan")
    rates, problem = Rates.from_dict(record["rates"]), PROBLEMS[name]
    parts = [f"{sizes(problem)[0].upper()}{sizes(problem)[1:]}."]
    for count, memory in CLUSTERS[name]:
        machines = Machines(count, read_size(memory))
        found = costs(problem, machines, rates)
        chosen, rows = best(found), plan_rows(found)
        for cost, row in zip(found, rows, strict=True):
            row["layout"] = f"**{row['layout']}**" if cost is chosen else row["layout"]
        title = f"{count} machine{'s' * (count > 1)} with {memory}"
        table = format_table([title, *list(rows[0])[1:]], [list(row.values()) for row in rows])
        said = "" if chosen is not None else f"\n\n{advice(found, machines)}"
        parts.append(f"{table}{said}")
    return "\n\n".join(parts)


SCALE_TABLES: dict[str, Callable[[Path], str]] = {
    "scale-disk": disk_table,
    "scale-gpu": gpu_table,
    "plan-check": check_table,
    **{name: partial(predicted_table, name=name) for name in PROBLEMS},
}
"""By the name of their place in a page."""
