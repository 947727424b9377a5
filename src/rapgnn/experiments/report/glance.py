"""The first figure of the page: RAP-GNN against end-to-end training on every dataset, ours beside the paper's."""

from collections.abc import Sequence

from rapgnn.experiments.report.measured import Measured
from rapgnn.experiments.reproduce.claims.printed import cell
from rapgnn.experiments.reproduce.rows import BEST, FAITHFUL
from rapgnn.experiments.reproduce.tables import DATASETS
from rapgnn.experiments.run import Record
from rapgnn.report import plots
from rapgnn.report.parts import Figure, Panel, table

TABLES = ("table1", "table2", "table3", "molbace")
NONE = "–"


def gaps(measured: Measured) -> list[Record]:
    """RAP-GNN minus End-to-End in points, of every dataset whose metric is a share."""
    found = []
    for item in TABLES:
        records = measured.records.get(item, [])
        for dataset in dict.fromkeys(r["dataset"] for r in records if r.get("metric") != "rmse"):
            mine = [r for r in records if r["dataset"] == dataset]
            row: Record = {"dataset": dataset, FAITHFUL: _gap(mine, FAITHFUL), BEST: _gap(mine, BEST)}
            row["paper"] = _published_gap(dataset)
            found.append(row)
    return found


def _gap(records: Sequence[Record], column: str) -> float | None:
    means = [
        next((r["mean"] for r in records if r["method"] == method and r.get("column") == column), None)
        for method in ("rap", "end-to-end")
    ]
    return None if None in means else 100 * (means[0] - means[1])  # type: ignore[operator]


def _published_gap(dataset: str) -> float | None:
    means = [cell(dataset, method).mean for method in ("rap", "end-to-end")]
    return None if None in means else means[0] - means[1]  # type: ignore[operator]


def glance(measured: Measured) -> Figure | None:
    """Dots left and right of zero; None where nothing was measured."""
    rows = gaps(measured)
    if not rows:
        return None
    names = [DATASETS.get(r["dataset"], r["dataset"]) for r in rows]
    titles = {"paper": "paper", FAITHFUL: "ours, the paper's settings", BEST: "ours, best settings"}
    series = {
        title: (
            [r[key] for r in rows if r[key] is not None],
            [n for n, r in zip(names, rows, strict=True) if r[key] is not None],
        )
        for key, title in titles.items()
    }
    axis = {"autorange": "reversed", "title": None, "categoryorder": "array", "categoryarray": names}
    drawn = plots.lines(
        {name: found for name, found in series.items() if found[0]},
        "difference, points",
        "",
        hover="%{y}<br>%{fullData.name}: %{x:+.2f} points<extra></extra>",
        yaxis=axis,
        xaxis={"zeroline": True, "zerolinecolor": plots.INK},
        height=140 + 34 * len(names),
    )
    drawn.update_traces(mode="markers", marker={"size": 11})
    ahead = sum(r[FAITHFUL] is not None and r[FAITHFUL] > 0 for r in rows)
    says = (
        f"Right of zero RAP-GNN has the higher mean. In the paper's settings that is so on {ahead} of {len(rows)} "
        "datasets; the claims say where the difference is more than chance. An RMSE has no points and is left out."
    )
    cells = [[n, *(_signed(r[key]) for key in titles)] for n, r in zip(names, rows, strict=True)]
    values = table(["", *titles.values()], cells, "RAP-GNN minus End-to-End, points")
    return Figure("glance", [Panel(drawn, "RAP-GNN against end-to-end training", says)], table=values)


def _signed(value: float | None) -> str:
    return NONE if value is None else f"{value:+.2f}"
