"""The tables of docs/reproduction.md: every item of ``rapgnn reproduce``, the verdicts, and how much was searched."""

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from rapgnn.experiments.markdown import NONE, format_published, format_table
from rapgnn.experiments.published import one_published
from rapgnn.experiments.reproduce.claims.verdict import FAILS, HOLDS, PART
from rapgnn.experiments.reproduce.claims.verdicts import format_verdicts, verdicts
from rapgnn.experiments.reproduce.items import ITEMS
from rapgnn.experiments.reproduce.molbace import MOLBACE
from rapgnn.experiments.reproduce.outputs import describe
from rapgnn.experiments.reproduce.rows import NOTHING_SET
from rapgnn.experiments.reproduce.table1 import PLANETOID
from rapgnn.experiments.reproduce.table2 import RESERVOIRS, TU
from rapgnn.experiments.reproduce.table3 import MOLECULES
from rapgnn.experiments.reproduce.tables import DATASETS, UNITS, figure
from rapgnn.experiments.results import results_folder
from rapgnn.experiments.run import Record
from rapgnn.experiments.tune.faithful import TABLES
from rapgnn.training.methods import METHODS

FOLDER = "reproduce"


def _records(root: Path, item: str) -> list[Record]:
    path = results_folder(root) / FOLDER / f"{item}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []


def item_table(name: str) -> Callable[[Path], str]:
    """root -> the item as its records in results/reproduce give it; where there are none, what measures them."""

    def table(root: Path) -> str:
        records = _records(root, name)
        if not records:
            return f"Not measured yet: `rapgnn reproduce {name}`."
        text = re.sub(r"^#", "##", describe(ITEMS[name], records), flags=re.MULTILINE)
        plot = results_folder(root) / FOLDER / f"{name}.png"
        return text + (f"\n\n![{ITEMS[name].title}](../results/{FOLDER}/{name}.png)" if plot.is_file() else "")

    return table


def claims_table(root: Path) -> str:
    """The verdicts that the records in results/reproduce give; every single comparison is in its README.md."""
    table, _, _ = format_verdicts(_verdicts(root)).strip().partition("\n### ")
    return re.sub(r"^#", "##", table.strip(), flags=re.MULTILINE)


def verdict_counts(root: Path) -> str:
    """How many claims have which verdict, in a sentence."""
    counts = Counter(verdict["verdict"] for verdict in _verdicts(root))
    judged = f"{counts[HOLDS]} hold, {counts[PART]} hold in part, {counts[FAILS]} do not hold"
    return f"Of {counts.total()} claims {judged}."


def _verdicts(root: Path) -> list[Record]:
    return verdicts({name: found for name in ITEMS if (found := _records(root, name))})


SUMMARY = (
    ("planetoid", "table1", PLANETOID),
    ("tu", "table2", TU),
    ("molecules", "table3", MOLECULES),
    ("molecules", "molbace", MOLBACE),
)
"""Table of the paper, item, datasets."""


def summary_table(root: Path) -> str:
    """RAP-GNN and End-to-End on all ten datasets, ours beside the paper's."""
    rows = []
    for table, item, datasets in SUMMARY:
        records = _records(root, item)
        for dataset in datasets if records else ():
            mine = {(r["title"], r["column"]): r for r in records if r["dataset"] == dataset}
            best = _best(mine)
            rap, trained = mine.get(("RAP-GNN", "faithful")), mine.get(("End-to-End", "faithful"))
            paper = [format_published(one_published(table, dataset=dataset, method=m)) for m in ("rap", "end-to-end")]
            metric = next(r["metric"] for r in mine.values())
            title = f"{DATASETS.get(dataset, dataset)}, {UNITS[metric]}"
            mark = "" if best is None or best["method"] == "rap" else " †"
            rows.append([title, figure(rap), figure(best) + mark, paper[0], figure(trained), paper[1]])
    if not rows:
        return "Not measured yet: `rapgnn reproduce`."
    header = ["", "RAP-GNN, faithful", "best", "paper", "End-to-End, faithful", "paper"]
    return format_table(header, rows) + "\n\n† the estimator with nothing set, which validation prefers there."


def _best(records: dict[tuple[str, str], Record]) -> Record | None:
    """Of RAP-GNN in the best settings and the estimator with nothing set, the one that validation prefers."""
    titles = ("RAP-GNN", "RAP-GNN, best", NOTHING_SET.title)
    found = [record for name in titles if (record := records.get((name, "best"))) is not None]
    sign = -1 if found and found[0]["metric"] == "rmse" else 1
    return max(found, key=lambda record: sign * record["val_mean"], default=None)


def reservoirs_table(root: Path) -> str:
    """The reservoir systems by both protocols, beside what their papers report."""
    records = _records(root, "table2")
    if not records:
        return "Not measured yet: `rapgnn reproduce table2`."
    found = {(r["method"], r["dataset"]): r for r in records}
    header, rows = [""], []
    for dataset in TU:
        header += [f"{DATASETS[dataset]}, {what}" for what in ("paper's protocol", "strict", "published")]
    for method, title in RESERVOIRS.items():
        row = [title]
        for dataset in TU:
            record, paper = found[method, dataset], one_published("tu", dataset=dataset, method=method)
            row += [figure(record), figure(record, "strict_"), format_published(paper)]
        rows.append(row)
    return format_table(header, rows)


def budgets_table(root: Path) -> str:
    """How many settings of the paper's space were tried for each method, and on how many seeds the choice rests."""
    choices = json.loads((results_folder(root) / "tune" / "faithful.json").read_text(encoding="utf-8"))
    found = {(c["dataset"], c["method"]): c for c in choices if c["embedding"] in ("pretrained", "pretrained-gnn")}
    methods = [method for method in METHODS if any(method == tried for _, tried in found)]
    rows = [
        [dataset, *(_budget(found[dataset, m]) if (dataset, m) in found else NONE for m in methods)]
        for dataset in TABLES
        if any(dataset == tried for tried, _ in found)
    ]
    return format_table(["trials (seeds of the chosen one)", *(METHODS[m].title for m in methods)], rows)


def _budget(choice: Record) -> str:
    earlier = f" + {choice['earlier_trials']}" if choice.get("earlier_trials") else ""
    return f"{choice['trials']}{earlier} ({len(choice['val_values'])})"


REPRODUCED: dict[str, Callable[[Path], str]] = {
    "reproduce-summary": summary_table,
    "reproduce-reservoirs": reservoirs_table,
    "reproduce-claims": claims_table,
    "reproduce-verdicts": verdict_counts,
    "reproduce-budgets": budgets_table,
    **{f"reproduce-{name}": item_table(name) for name in ITEMS},
}
