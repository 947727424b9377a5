"""What a person reads in the terminal."""

from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from rapgnn.experiments.run import Record
from rapgnn.graph.graph import Graph
from rapgnn.graph.scores import Metric, metrics_for
from rapgnn.graph.tasks import TASKS
from rapgnn.layers.embedding import EMBEDDINGS
from rapgnn.training.methods import METHODS

WIDTH = 80


def show_comparison(records: list[Record], quick: bool = False) -> None:
    """Metric and cost of every method in 80 columns, what else there is to know below."""
    first = records[0]
    known = metrics_for(first["task"])
    task = known.get(first["metric"], known[TASKS[first["task"]].metric])
    strict = "strict_mean" in first
    table = Table()
    table.add_column("method")
    title = f"{task.title} %" if task.percent else task.title
    for heading in [title, *(["strict"] if strict else []), "fit s", "ms/epoch", "MB"]:
        table.add_column(heading, justify="right")
    for r in records:
        table.add_row(
            METHODS[r["method"]].title,
            _with_deviation(task, r),
            *([_with_deviation(task, r, "strict_")] if strict else []),
            f"{r['fit_seconds']:.2f}",
            f"{r['train_ms_per_epoch']:.3g}",
            "-" if r["peak_memory_mb"] is None else f"{r['peak_memory_mb']:.0f}",
            style="bold" if r["method"] == "rap" else None,
        )
    console = wide_console(WIDTH)
    console.print(f"{first['dataset']} · {first['hardware']} · {_counted(len(first['seeds']), 'seed')}")
    console.print(table)
    _explain(console, records, quick)


def _explain(console: Console, records: list[Record], quick: bool) -> None:
    first = records[0]
    runs = len(first.get("values", first["seeds"]))
    deviation = f"±: sample standard deviation of {runs} runs" if runs > 1 else "One run has no deviation"
    console.print(f"{deviation}; ms/epoch: training alone; MB: peak memory.")
    if "strict_mean" in first:
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
        name, config = METHODS[r["method"]].title, r["config"]
        if METHODS[r["method"]].reservoir:
            tried = _counted(max(r["epochs"]), "readout")
            console.print(f"{name}: its own paper's settings, {tried} tried on validation.", style="dim")
            continue
        layers = "" if r["method"] == "pretrained-embedding" else f"{_counted(config['num_layers'], 'layer')}, "
        epochs = _counted(max(r["epochs"]), "epoch")
        phases = METHODS[r["method"]].fit is METHODS["rap"].fit
        kind = EMBEDDINGS.get(config.get("embedding", ""))
        before = phases and kind is not None and kind.trained == "before"
        first_phase = f" after {config['pretrain_epochs']} of phase 1" if before else ""
        reason = f", {r['engine']} engine, because {r['engine_reason']}" if phases else ""
        console.print(f"{name}: {layers}{epochs}{first_phase}{reason}.", style="dim")


def _with_deviation(task: Metric, record: Record, kind: str = "") -> str:
    """``mean ± sample standard deviation``; one value has none."""
    factor, digits = (100, 2) if task.percent else (1, 3)
    shown, values = f"{factor * record[f'{kind}mean']:.{digits}f}", record.get(f"{kind}values")
    if values is not None and len(values) < 2:
        return shown
    deviation = record[f"{kind}std"] if values is None else float(np.std(values, ddof=1))
    return f"{shown} ± {factor * deviation:.{digits}f}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


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


def wide_console(width: int = 140) -> Console:
    """Where tables go."""
    console = Console()
    # Piped output has no width of its own: give the table room instead of folding its cells.
    return console if console.is_terminal else Console(width=width)
