"""The tables of README.md and docs/, written from the committed measurements in results/.

    python -m rapgnn_lab.pages          # rewrites what stands between the markers
    python -m rapgnn_lab.pages --check  # exit code 1 if a page says anything else than results/

A table stands between ``<!-- name -->`` and ``<!-- /name -->``; the names are those of ``TABLES``.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from rapgnn.errors import InputError
from rapgnn.memory import read_size
from rapgnn.scale.plan import Machines, Problem, Rates, advice, best, costs, plan_rows
from rapgnn_lab import results
from rapgnn_lab.baselines.systems import METHODS
from rapgnn_lab.bench.suite.compare import goals, metric_title, suite_table
from rapgnn_lab.paper.claims.judged import FAILS, HOLDS, PART, format_claims, judge_claims
from rapgnn_lab.paper.items import ITEMS, Measured, read_measured
from rapgnn_lab.paper.rows import MOLBACE, MOLECULES, NOTHING_SET, PLANETOID, RESERVOIRS, TU, UNITS
from rapgnn_lab.paper.run import describe
from rapgnn_lab.results import (
    COLUMNS,
    DATASETS,
    NONE,
    format_figure,
    format_table,
    make_table,
    one_published,
    read_records,
)
from rapgnn_lab.store import Record, packaged
from rapgnn_lab.tune.space import TABLES as SEARCHED

MACHINES = {"two CPU cores": "", "H200": "-h200"}  # and what the file of its records is called beside the dataset
DEPTHS = (2, 8, 32)
STEPS = ("convert", "fit", "predict")  # of a graph on disk
GIVEN = packaged("pages.toml")
PROBLEMS = {name: Problem(**plan["problem"]) for name, plan in GIVEN["plans"].items()}


Table = Callable[[Path], str]  # of the repository's folder


def on_machines(root: Path, file: str) -> list[Record]:
    files = {machine: read_records(root, f"{file}{end}") for machine, end in MACHINES.items()}
    return [r | {"machine": machine} for machine, records in files.items() for r in records]


def measured(
    file: str, columns: str, choose: Callable[[list[Record]], Iterable[Record]] = list, **wanted: Any
) -> Table:
    """The records of a file with these fields that ``choose`` takes, a row each; of both machines where a column names
    them."""
    text = COLUMNS[f"page-{columns}"]
    read = on_machines if "{machine}" in text else read_records

    def table(root: Path) -> str:
        there = [r for r in read(root, file) if all(r.get(name) == value for name, value in wanted.items())]
        return make_table(choose(there), text)

    return table


def familiar_table(root: Path) -> str:
    """The estimators beside the best tuned rival, on data that readers know, and what the whole suite comes to."""
    suite = read_records(root, "bench-auto/suite")
    records = {r["dataset"]: r for r in suite}
    shown = []
    for name, title in GIVEN["familiar"].items():
        if name in records:
            r = records[name]
            shown.append(r | {"name": f"{title}, {metric_title(r)}", "faster": r["rival_seconds"] / r["fit_seconds"]})
    table = make_table(shown, COLUMNS["page-familiar"])
    return f"{table}\n\n{goals(suite)}"


def speeds(records: Iterable[Record], place: str, cell: str, corner: str) -> str:
    """A row per method and a column per place: templates of a record's place and of what stands there."""
    rows: dict[str, dict[str, str]] = {}
    for r in records:
        shown = NONE if r.get("note") else results.Cells().vformat(cell, (), r)
        rows.setdefault(r["title"], {})[place.format(**r)] = shown
    header = list(dict.fromkeys(at for row in rows.values() for at in row))
    return format_table([corner, *header], ([title, *row.values()] for title, row in rows.items()))


def graph_speed_table(root: Path) -> str:
    titles = {"proteins": "PROTEINS", "molhiv": "molhiv"}
    records = [r | {"set": t} for name, t in titles.items() for r in on_machines(root, f"bench-graphs/{name}")]
    cell = "{epoch_ms:ms} ({speedup_vs_end_to_end:x})"
    return speeds(records, "{set}, {machine}, ms", cell, "one epoch with validation")


def depth_speed_table(root: Path) -> str:
    records = [r for r in on_machines(root, "bench-depth/pubmed") if r["num_layers"] in DEPTHS]
    place = "{machine}, {num_layers} layers"
    return speeds(records, place, "{epoch_ms:ms}", "one epoch with validation, ms")


def _beside_rap(records: list[Record]) -> list[Record]:
    """By graph, ours first, with how many times its seconds the others take."""
    ours = {r["dataset"]: r["seconds"] for r in records if r["method"] == "rap"}
    there = [r | {"times": r["seconds"] / ours[r["dataset"]]} for r in records if not r.get("note")]
    return sorted(there, key=lambda r: (list(ours).index(r["dataset"]), not r["method"].startswith("rap")))


def check_table(root: Path) -> str:
    records = read_records(root, "scale/plan")
    table, load = make_table(records, COLUMNS["costs"]), records[0].get("load_average") or 0
    busy = f"\n\nOther work ran on the machine meanwhile: its load was {load:.0f} at the start." if load > 1 else ""
    return table + busy


def predicted_table(root: Path, name: str) -> str:
    """The layouts of one graph on some sets of machines, each as fast as the measured one."""
    rates, problem = Rates.from_dict(read_records(root, "scale/plan")[0]["rates"]), PROBLEMS[name]
    parts = [f"{problem}."]
    for count, memory in GIVEN["plans"][name]["machines"]:
        machines = Machines(count, read_size(memory))
        layouts = costs(problem, machines, rates)
        chosen, rows = best(layouts), plan_rows(layouts)
        for cost, row in zip(layouts, rows, strict=True):
            row["layout"] = f"**{row['layout']}**" if cost is chosen else row["layout"]
        title = f"{count} machine{'s' * (count > 1)} with {memory}"
        parts.append(format_table([title, *list(rows[0])[1:]], [list(row.values()) for row in rows]))
        parts += [] if chosen is not None else [advice(layouts, machines)]
    return "\n\n".join(parts)


# docs/reproduction.md: every item of ``rapgnn reproduce``, the verdicts, and how much was searched.


@lru_cache(maxsize=1)
def _measured(root: Path) -> Measured:
    return read_measured(results.results_folder(root) / "reproduce")


@lru_cache(maxsize=1)
def _judged(root: Path) -> list[Record]:
    return judge_claims(_measured(root))


def item_table(root: Path, name: str) -> str:
    """An item as its records in results/reproduce give it; where there are none, what measures them."""
    records = _measured(root).get(name)
    if not records:
        return f"Not measured yet: `rapgnn reproduce {name}`."
    text = re.sub(r"^#", "##", describe(ITEMS[name], records), flags=re.MULTILINE)
    return text + (f"\n\n![{ITEMS[name].title}](../results/reproduce/{name}.png)" if ITEMS[name].figures else "")


def claims_table(root: Path) -> str:
    """What the records in results/reproduce say of the claims; every single comparison is in its README.md."""
    table, _, _ = format_claims(_judged(root)).strip().partition("\n### ")
    return re.sub(r"^#", "##", table.strip(), flags=re.MULTILINE)


def claim_counts(root: Path) -> str:
    counts = Counter(claim["verdict"] for claim in _judged(root))
    judged = f"{counts[HOLDS]} hold, {counts[PART]} hold in part, {counts[FAILS]} do not hold"
    return f"Of {counts.total()} claims {judged}."


SUMMARY = (
    ("planetoid", "table1", PLANETOID),
    ("tu", "table2", TU),
    ("molecules", "table3", MOLECULES),
    ("molecules", "molbace", MOLBACE),
)
"""Table of the paper, item, datasets."""


def summary_table(root: Path) -> str:
    """RAP-GNN and End-to-End on all ten datasets, ours beside the paper's."""
    rows, measured_items = [], _measured(root)
    for table, item, datasets in SUMMARY:
        records = measured_items.get(item, [])
        for dataset in datasets if records else ():
            mine = {(r["title"], r["column"]): r for r in records if r["dataset"] == dataset}
            best = _best(mine)
            rap, trained = mine.get(("RAP-GNN", "faithful")), mine.get(("End-to-End", "faithful"))
            paper = [
                results.format_published(one_published(table, dataset=dataset, method=m)) for m in ("rap", "end-to-end")
            ]
            metric = next(r["metric"] for r in mine.values())
            title = f"{DATASETS.get(dataset, dataset)}, {UNITS[metric]}"
            mark = "" if best is None or best["method"] == "rap" else " †"
            ours, other, end_to_end = map(format_figure, (rap, best, trained))
            rows.append([title, ours, other + mark, paper[0], end_to_end, paper[1]])
    if not rows:
        return "Not measured yet: `rapgnn reproduce`."
    header = ["", "RAP-GNN, faithful", "best", "paper", "End-to-End, faithful", "paper"]
    return format_table(header, rows) + "\n\n† the estimator with nothing set, which validation prefers there."


def _best(records: dict[tuple[str, str], Record]) -> Record | None:
    """Of RAP-GNN in the best settings and the estimator with nothing set, the one that validation prefers."""
    titles = ("RAP-GNN", "RAP-GNN, best", NOTHING_SET.title)
    there = [records[name, "best"] for name in titles if (name, "best") in records]
    sign = -1 if there and there[0]["metric"] == "rmse" else 1
    return max(there, key=lambda record: sign * record["val_mean"], default=None)


def reservoirs_table(root: Path) -> str:
    """The reservoir systems by both protocols, beside what their papers report."""
    records = {(r["method"], r["dataset"]): r for r in _measured(root).get("table2", ())}
    if not records:
        return "Not measured yet: `rapgnn reproduce table2`."
    header, rows = [""], {method: [title] for method, title in RESERVOIRS.items()}
    for dataset in TU:
        header += [f"{DATASETS[dataset]}, {what}" for what in ("paper's protocol", "strict", "published")]
        for method, row in rows.items():
            record, paper = records[method, dataset], one_published("tu", dataset=dataset, method=method)
            row += [format_figure(record), format_figure(record, "strict_"), results.format_published(paper)]
    return format_table(header, rows.values())


def budgets_table(root: Path) -> str:
    """How many settings of the paper's space were tried for each method, and on how many seeds the choice rests."""
    searches: dict[str, dict[str, list[str]]] = {}
    for c in sorted(read_records(root, "tune/faithful"), key=lambda c: c["embedding"]):  # an MLP, then a GNN layer
        if c["embedding"] in ("pretrained", "pretrained-gnn"):
            earlier = f" + {c['earlier_trials']}" if c.get("earlier_trials") else ""
            tried = searches.setdefault(c["dataset"], {}).setdefault(c["method"], [])
            tried.append(f"{c['trials']}{earlier} ({len(c['val_values'])})")
    methods = [method for method in METHODS if any(method in tried for tried in searches.values())]
    rows = [[d, *("; ".join(searches[d].get(m, [NONE])) for m in methods)] for d in SEARCHED if d in searches]
    return format_table(["trials (seeds of the chosen one)", *(METHODS[m].title for m in methods)], rows)


TABLES: dict[str, Table] = {
    "familiar": familiar_table,
    "suite": lambda root: suite_table(read_records(root, "bench-auto/suite")).strip(),
    "speed": measured("bench-depth/pubmed", "speed", num_layers=32, note=None),
    "gpu-speed": measured("bench-depth/pubmed-h200", "speed", num_layers=32, note=None),
    "graph-speed": graph_speed_table,
    "depth-speed": depth_speed_table,
    "memory": measured(  # above the loaded data
        "bench-memory/pubmed",
        "memory",
        lambda records: [r for r in records if r["dataset"] != "pubmed" or r["num_layers"] == 32],
    ),
    "scale": measured(  # up to ogbn-products' size
        "bench-scale/generated",
        "scale",
        lambda records: [r for r in records if r.get("epoch_ms")],
        method="rap",
        hidden_channels=256,
    ),
    "peers": measured("bench-peers/planetoid", "peers", _beside_rap),
    "products": measured("bench-spmm/products", "products", order="given", note=None),
    "fit": lambda root: make_table(
        [
            r
            for name in ("generated", "wide", "large")
            for r in read_records(root, f"bench-fit/{name}")
            if r.get("nodes")
        ],
        COLUMNS["page-fit"],
    ),
    "typed": lambda root: make_table(
        [r for name in ("generated", "tables") for r in read_records(root, f"bench-typed/{name}")],
        COLUMNS["page-typed"],
    ),
    "scale-disk": measured(  # from tables to predictions under memory limits
        "scale/disk",
        "disk",
        lambda records: [r | {"minutes": sum(r[f"{step}_seconds"] for step in STEPS) / 60} for r in records],
    ),
    "scale-gpu": measured(  # with a part of the GPU's memory, and how far predictions lie from those in memory
        "scale/disk-h200",
        "gpu",
        lambda records: [r | {"kind": "embedded" if r["settings"] else "features"} for r in records],
    ),
    "plan-check": check_table,
    **{name: partial(predicted_table, name=name) for name in PROBLEMS},
    "reproduce-summary": summary_table,
    "reproduce-reservoirs": reservoirs_table,
    "reproduce-claims": claims_table,
    "reproduce-verdicts": claim_counts,
    "reproduce-budgets": budgets_table,
    **{f"reproduce-{name}": partial(item_table, name=name) for name in ITEMS},
}
"""By the name of their place in a page."""


def forget() -> None:
    _measured.cache_clear()
    _judged.cache_clear()


def find_pages(root: Path) -> list[Path]:
    return [page for page in (root / "README.md", *sorted((root / "docs").glob("*.md"))) if page.is_file()]


def render(page: Path, root: Path) -> str:
    """The page with every table it has markers for."""
    text = page.read_text(encoding="utf-8")
    for name in dict.fromkeys(re.findall(r"<!-- /?([\w-]+) -->", text)):
        if name not in TABLES:
            raise InputError(f"{page.name} has markers for {name!r}: the tables are {', '.join(TABLES)}.")
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
            raise InputError(f"{page.name} needs one {begin.strip()} and after it one {end} for its table.")
        text = text[: text.index(begin)] + begin + TABLES[name](root) + "\n" + text[text.index(end) :]
    return text


def rendered_pages(root: Path = Path()) -> dict[Path, str]:
    """{page: what it should say} of every page."""
    forget()
    results.results_folder(root)
    return {page: render(page, root) for page in find_pages(root)}


main = results.writer("rapgnn_lab.pages", __doc__, rendered_pages)


if __name__ == "__main__":
    sys.exit(main())
