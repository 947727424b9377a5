"""The suite's table, printed and as Markdown, and how many of its goals are met."""

from collections.abc import Sequence

from rapgnn.experiments.bench.suite.compare import LEVEL
from rapgnn.experiments.bench.tables import Column, bench_table, ratio, say_below
from rapgnn.experiments.markdown import NONE, format_ratio, format_table
from rapgnn.experiments.run import Record
from rapgnn.graph.scores import metrics_for

HEADER = [
    *("graph", "kind", "metric", "ours", "best rival", "its score", "difference"),
    *("fit, s", "one rival run, s", "ratio", "plain GCN, s", "sparse, s", "calibration error"),
]


def suite_table(records: Sequence[Record]) -> str:
    """One row per graph, and below it how many are level, ahead and faster."""
    rows = [
        [
            record["dataset"],
            record["about"],
            metric_title(record),
            _value(record, record["mean"]),
            record["best_rival"] or NONE,
            _value(record, record["best_rival_mean"]),
            NONE if record["difference"] is None else f"{record['difference']:+.2f}",
            f"{record['fit_seconds']:.2f}",
            NONE if record["rival_seconds"] is None else f"{record['rival_seconds']:.2f}",
            NONE if record["rival_seconds"] is None else format_ratio(_faster(record)),
            _seconds(record, "plain_gcn_seconds"),
            _seconds(record, "sparse_gcn_seconds"),
            NONE if record.get("calibration_error") is None else f"{100 * record['calibration_error']:.1f}",
        ]
        for record in records
    ]
    return f"{format_table(HEADER, rows, left=3)}\n\n{goals(records)}\n"


def goals(records: Sequence[Record]) -> str:
    """How many graphs of those with a rival meet each goal."""
    judged = [record for record in records if record["difference"] is not None]
    level = sum(record["difference"] >= -LEVEL for record in judged)
    ahead = sum(record["difference"] > 0 for record in judged)
    faster = sum(_faster(record) > 1 for record in judged)
    timed = [record for record in records if record.get("plain_gcn_seconds") is not None]
    sooner = sum(record["fit_seconds"] < record["plain_gcn_seconds"] for record in timed)
    plain = (
        f" Faster than 200 epochs of a plain GCN (two layers, 64 channels) on {sooner} of {len(timed)} single graphs"
    )
    sparse = [record for record in timed if record.get("sparse_gcn_seconds") is not None]
    fewer = sum(record["fit_seconds"] < record["sparse_gcn_seconds"] for record in sparse)
    plain += f", and of one with sparse features on {fewer} of {len(sparse)}." if sparse else "."
    return (
        f"Of {len(judged)} graphs with a tuned rival: at least level (no more than {LEVEL:g} points below) on {level}, "
        f"ahead on {ahead}, whole fit faster than one run of the best rival on {faster}." + (plain if timed else "")
    )


def show_suite(records: Sequence[Record]) -> None:
    """Print the table."""
    columns = [
        Column("graph", "dataset"),
        Column("kind", "about"),
        Column("metric", metric_title),
        Column("ours", lambda r: r, lambda r: _value(r, r["mean"])),
        Column("best rival", "best_rival"),
        Column("its score", lambda r: r, lambda r: _value(r, r["best_rival_mean"])),
        Column("difference", "difference", lambda v: f"{v:+.2f}"),
        Column("fit s", "fit_seconds", lambda v: f"{v:.2f}"),
        Column("rival s, 200 epochs", "rival_seconds", lambda v: f"{v:.2f}"),
        Column("ratio", lambda r: None if r["rival_seconds"] is None else _faster(r), ratio),
    ]
    bench_table(f"estimators with nothing set against tuned rivals · {records[0]['hardware']}", records, columns)
    say_below(goals(records))


def _seconds(record: Record, name: str) -> str:
    return NONE if record.get(name) is None else f"{record[name]:.2f}"


def _faster(record: Record) -> float:
    return record["rival_seconds"] / record["fit_seconds"]


def metric_title(record: Record) -> str:
    """The name of the metric for people."""
    return metrics_for(record["task"])[record["metric"]].title


def _value(record: Record, value: float | None) -> str:
    if value is None:
        return NONE
    return f"{100 * value:.2f}" if metrics_for(record["task"])[record["metric"]].percent else f"{value:.3f}"
