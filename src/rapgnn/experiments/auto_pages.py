"""The tables of README and docs/ about the estimators with nothing set, from results/bench-auto."""

from collections.abc import Callable
from pathlib import Path

from rapgnn.experiments.bench.suite.page import goals, metric_title, suite_table
from rapgnn.experiments.markdown import format_ratio, format_table
from rapgnn.experiments.results import read_records
from rapgnn.experiments.run import Record

FAMILIAR = {
    "cora": "Cora",
    "citeseer": "CiteSeer",
    "pubmed": "PubMed",
    "cora-60": "Cora, 60 % labelled",
    "pubmed-60": "PubMed, 60 % labelled",
    "molecules": "generated molecules",
}
"""What the first screen of the README shows of the suite."""


def familiar_table(root: Path) -> str:
    """The estimators beside the best tuned rival, on data that readers know, and what the whole suite comes to."""
    records = _suite(root)
    found = {r["dataset"]: r for r in records}
    rows = []
    for name, title in FAMILIAR.items():
        if name in found:
            r = found[name]
            scores = [_score(r, r["mean"]), f"{_score(r, r['best_rival_mean'])} ({r['best_rival']})"]
            seconds = [r["fit_seconds"], r["rival_seconds"]]
            ratio = format_ratio(seconds[1] / seconds[0])
            title = f"{title}, {metric_title(r)}"
            rows.append([title, *scores, *(f"{value:.1f}" for value in seconds), ratio])
    header = ["", "rapgnn, nothing set", "best tuned GNN", "whole fit, s", "one run of the GNN, s", "faster"]
    return format_table(header, rows) + "\n\n" + goals(records)


def whole_table(root: Path) -> str:
    """All graphs and sets of graphs of the suite, and what they come to."""
    return suite_table(_suite(root)).strip()


def _suite(root: Path) -> list[Record]:
    """The records of the suite; a graph that was measured with other splits before is there once."""
    records = read_records(root, "bench-auto", "suite")
    names = [record["dataset"] for record in records]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"results/bench-auto/suite.json has {', '.join(twice)} twice: remove the older records.")
    return records


def _score(record: Record, value: float) -> str:
    return f"{value:.3f}" if record["metric"] == "rmse" else f"{100 * value:.1f}"


AUTO_TABLES: dict[str, Callable[[Path], str]] = {"familiar": familiar_table, "suite": whole_table}
