"""What a person reads in the terminal."""

from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from rapgnn.experiments.run import Record
from rapgnn.graph.graph import Graph
from rapgnn.graph.tasks import TASKS
from rapgnn.training.methods import METHODS


def show_comparison(records: list[Record], quick: bool = False) -> None:
    """Metric, cost and engine of every method."""
    first = records[0]
    seeds = len(first["seeds"])
    table = Table(title=f"{first['dataset']} · {first['hardware']} · {seeds} seed{'s' if seeds > 1 else ''}")
    table.add_column("method")
    task = TASKS[first["task"]]
    title = f"{task.title} %" if task.percent else task.title
    strict = ["strict"] if "strict_mean" in first else []
    for heading in [title, *strict, "fit s", "train ms/epoch", "eval ms/epoch", "peak MB"]:
        table.add_column(heading, justify="right")
    for heading in ("layers", "epochs", "engine"):
        table.add_column(heading, justify="right" if heading != "engine" else "left")
    for r in records:
        peak = "-" if r["peak_memory_mb"] is None else f"{r['peak_memory_mb']:.0f}"
        table.add_row(
            METHODS[r["method"]].title,
            f"{task.show(r['mean'])} ± {task.show(r['std'])}",
            *([f"{task.show(r['strict_mean'])} ± {task.show(r['strict_std'])}"] if strict else []),
            f"{r['fit_seconds']:.2f}",
            f"{r['train_ms_per_epoch']:.3g}",
            f"{r['eval_ms_per_epoch']:.3g}",
            peak,
            "-" if r["method"] == "pretrained-embedding" else str(r["config"]["num_layers"]),
            str(max(r["epochs"])),
            r["engine"],
            style="bold" if r["method"] == "rap" else None,
        )
    console = _console()
    console.print(table)
    if strict:
        console.print(
            "First figure: the paper's protocol, 10 folds at the epoch that is best on average for the held-out folds, "
            "which makes it optimistic; strict: epoch chosen on an inner validation fold (settings may have seen all)."
        )
    if "positive_share" in first:
        precision = "; ".join(f"{METHODS[r['method']].title} {100 * r['average_precision']:.1f}" for r in records)
        share = 100 * first["positive_share"]
        console.print(f"{share:.1f} % of the known test labels are positive; average precision %: {precision}.")
    if quick:
        console.print(
            "Quick run: end-to-end and random-full trained for fewer epochs; leave out --quick for the full run."
        )
    for r in records:
        if METHODS[r["method"]].fit is METHODS["rap"].fit:
            console.print(
                f"{METHODS[r['method']].title}: {r['engine']} engine, because {r['engine_reason']}.", style="dim"
            )


def show_depth(records: list[Record]) -> None:
    """One row per depth and method, with the ratio to end-to-end training on the same sparse product."""
    first = records[0]
    table = Table(title=f"{first['dataset']} · {first['hidden_channels']} channels · {first['hardware']}")
    table.add_column("layers", justify="right")
    table.add_column("method")
    for heading in ("train ms/epoch", "× faster than end-to-end", "than PyG GCNConv", "precompute ms", "peak MB"):
        table.add_column(heading, justify="right")
    for r in records:
        table.add_row(str(r["num_layers"]), r["title"], *_cost(r))
    _console().print(table)


def show_graphs(records: list[Record]) -> None:
    """One row per method, with the ratio to end-to-end training."""
    first = records[0]
    title = f"{first['dataset']} · {first['num_layers']} layers · {first['hidden_channels']} channels"
    table = Table(title=f"{title} · batches of {first['batch_size']} · {first['hardware']}")
    table.add_column("method")
    headings = ("train ms/epoch", "× faster than end-to-end", "than PyG", "precompute ms", "peak MB")
    for heading in headings:
        table.add_column(heading, justify="right")
    for r in records:
        table.add_row(r["title"], *_cost(r))
    _console().print(table)


def show_auto(records: list[Record]) -> None:
    """One row per graph: accuracy and time of the estimator with nothing set, and of the tuned GCN."""
    table = Table(title=f"RAPNodeClassifier() against a tuned PyG GCN · {records[0]['hardware']}")
    for heading in ("graph", "kind"):
        table.add_column(heading)
    for heading in ("nodes", "accuracy", "GCN", "difference", "fit s", "GCN s, 200 epochs", "ratio"):
        table.add_column(heading, justify="right")
    for r in records:
        numbers = [f"{100 * v:.2f}" for v in (r["mean"], r["gcn_mean"])] + [f"{100 * (r['mean'] - r['gcn_mean']):+.2f}"]
        times = [f"{r['fit_seconds']:.2f}", f"{r['gcn_seconds']:.2f}", f"{r['gcn_seconds'] / r['fit_seconds']:.1f}"]
        table.add_row(r["dataset"], r["about"], str(r["nodes"]), *numbers, *times)
    _console().print(table)


def _cost(r: Record) -> tuple[str, ...]:
    return (
        f"{r['train_ms_per_epoch']:.3g}",
        f"{r['speedup_vs_end_to_end']:.1f}",
        f"{r['speedup_vs_pyg']:.1f}",
        f"{r['precompute_ms']:.0f}" if r["precompute_ms"] else "-",
        "-" if r["peak_memory_mb"] is None else f"{r['peak_memory_mb']:.0f}",
    )


def describe(graph: Graph) -> dict[str, Any]:
    """A graph in numbers."""
    row: dict[str, Any] = {"dataset": graph.name, "task": graph.task}
    if graph.ptr is not None:
        row["graphs"] = graph.num_rows
    row |= {"nodes": graph.num_nodes, "edges": graph.edge_index.shape[1], "features": graph.num_features}
    if graph.edge_attr is not None:
        row["edge features"] = graph.num_edge_features
    what = {"accuracy": "classes", "rocauc": "labels", "rmse": "targets"}[graph.objective.metric]
    row[what] = graph.num_outputs
    if what == "classes":
        row["class sizes"] = torch.bincount(graph.y[graph.y >= 0]).tolist()
    elif what == "labels":
        row |= {"positive share": round(float(graph.y.nanmean()), 4), "unknown": int(graph.y.isnan().sum())}
    if graph.folds:
        row["protocol"] = "10-fold cross-validation; the split below is for searches of your own"
    return row | {split: len(graph.rows(split)) for split in ("train", "val", "test")}


def _console() -> Console:
    console = Console()
    # Piped output has no width of its own: give the table room instead of folding its cells.
    return console if console.is_terminal else Console(width=140)
