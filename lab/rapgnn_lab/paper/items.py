"""All items, in the order of the paper: its tables, the appendix, what goes past it, its figures.

The items here are tables of accuracies: rows on datasets, with notes below them, as ``items.toml`` lists them.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rapgnn.errors import InputError
from rapgnn.files import is_regular
from rapgnn_lab import results
from rapgnn_lab.paper import layers, rows, timed
from rapgnn_lab.paper.accuracy import ESTIMATOR
from rapgnn_lab.paper.cells import Cell, Graphs, Item, Scale
from rapgnn_lab.results import COLUMNS, NONE, format_figure, format_table, make_table, title_of
from rapgnn_lab.store import Record, packaged, read_records

FOLDS_CUT = "the first 2 of 10 folds are held out, the others only train"
SYSTEMS = ", ".join(rows.RESERVOIRS.values())
_TABLES: Record = packaged("paper/items.toml")


def _rows(listed: Sequence[Record]) -> list[rows.Row]:
    """The rows of a table; one line of the file may be several."""
    lines = []
    for line in listed:
        if "strategies" in line:
            lines += rows.strategies(
                line["strategies"], line.get("methods", rows.METHODS_OF_TABLES), line.get("both", ())
            )
        elif "own" in line:  # with the settings of their own search instead of RAP-GNN's
            lines += [rows.Row(f"{rows.METHODS[m].title}, {rows.OWN}", m, rows.OWN) for m in line["own"]]
        else:
            lines.append(rows.Row(**line))
    return lines


def _table(name: str) -> Item:
    """A table of the file: of datasets with a fixed split, or of folds, where ``columns`` are named."""
    table = _TABLES[name]
    lines, datasets, columns = _rows(table["rows"]), table["datasets"], table.get("columns")
    asked = (rows.FAITHFUL,) if columns else (rows.FAITHFUL, rows.BEST, rows.REACHABLE)

    def show(records: list[Record]) -> str:
        notes = [rows.note(one, spread=rows.spread(records), systems=SYSTEMS) for one in table["notes"]]
        if not columns:
            return rows.show_seeds(records, lines, datasets, *notes)
        there = {r["title"] for r in records}
        shown = [row for row in lines if row.column != rows.BEST or row.title in there]
        body = rows.show_datasets(records, shown, datasets, columns)
        return rows.below(body, *notes, rows.show_cuts(records, FOLDS_CUT))

    return Item(name, table["title"], lambda scale, graphs: rows.cells_of(lines, datasets, scale, graphs, asked), show)


ENGINES = {"polynomial": "shortcut", "stepwise": "layer by layer"}


def _show_embeddings(records: list[Record]) -> str:
    """A table for each graph, and one of what training an embedding together with the head costs."""
    lines = _rows(_TABLES["embeddings"]["rows"])
    titles = ("learnable", "learnable, linear", "pretrained (RAP-GNN)")
    trained = {(r["title"], r["dataset"]): r for r in records if r["column"] in (rows.FAITHFUL, rows.LINEAR)}
    time = lambda r: f"{results.format_ms(r['train_ms_per_epoch'])}, {ENGINES[r['engine']]}" if r else rows.NOT_SEARCHED  # noqa: E731
    body = [[title, *(time(trained.get((title, dataset))) for dataset in rows.PLANETOID)] for title in titles]
    return rows.show_seeds(
        records,
        lines,
        rows.PLANETOID,
        "Training, ms per epoch, faithful settings:\n\n" + format_table(["", *map(title_of, rows.PLANETOID)], body),
        rows.note("learnable-linear"),
    )


# Past the paper: the estimators with nothing set beside RAP-GNN and End-to-End, on folds by the strict protocol too.
_BESIDE = ("end-to-end", "rap")
_ALL = {"planetoid": rows.PLANETOID, "tu": rows.TU, "molecules": (*rows.MOLECULES, *rows.MOLBACE)}


def _cells_beside(scale: Scale, graphs: Graphs) -> list[Cell]:
    """The estimator, then the trainings that the other tables have as well."""
    ours, cells = replace(rows.NOTHING_SET, column="nothing set"), []
    for table, datasets in _ALL.items():
        beside = rows.strategies(table, _BESIDE, both=_BESIDE if table == "tu" else ())
        cells += rows.cells_of((ours, *beside), datasets, scale, graphs, [rows.FAITHFUL])
    return cells


def _show_estimators(records: list[Record]) -> str:
    there = []
    for table, dataset in ((table, dataset) for table, datasets in _ALL.items() for dataset in datasets):
        strict = "strict_"  # figures of that protocol take the place of the others
        mine = {
            r["method"]: r | {k.removeprefix(strict): v for k, v in r.items() if k.startswith(strict)}
            for r in records
            if r["dataset"] == dataset
        }
        if ESTIMATOR not in mine:
            continue
        ours, others = mine[ESTIMATOR], {name: mine.get(name) for name in _BESIDE}
        said = {name: NONE if other is None else format_figure(other) for name, other in others.items()}
        said |= {"title": title_of(dataset), "unit": rows.UNITS[ours["metric"]].partition(",")[0]}
        paper = results.format_published(results.one_published(table=table, dataset=dataset, method="rap"))
        gap = _gap(ours, others[_BESIDE[0]])
        there.append(ours | said | {"ours": format_figure(ours), "paper": paper, "gap": gap})
    return rows.below(
        make_table(there, COLUMNS["estimators"]),
        rows.note("nothing-set"),
        rows.note("estimators-on-folds"),
        rows.show_cuts(records, "2 seeds instead of 5, 1 of the estimators, 2 of 10 folds"),
    )


def _gap(ours: Record, other: Record | None) -> str:
    if other is None or other["mean"] is None:
        return NONE
    gap = ours["mean"] - other["mean"]
    return f"{gap:+.3f}" if ours["metric"] == "rmse" else f"{100 * gap:+.1f}"


ESTIMATORS = Item(
    "estimators", "Past the paper: estimators with nothing set on its ten datasets", _cells_beside, _show_estimators
)
_HERE = {name: _table(name) for name in _TABLES}
_HERE["embeddings"] = replace(_HERE["embeddings"], show=_show_embeddings)
_FIRST = ("table1", "table2", "table3")
_ORDER = (
    *(_HERE[name] for name in _FIRST),
    timed.LARGE,
    *(item for name, item in _HERE.items() if name not in _FIRST),
    *(ESTIMATORS, timed.DEPTH, timed.MEMORY, layers.COLLAPSE, layers.WEIGHTS),
)
ITEMS: dict[str, Item] = {item.name: item for item in _ORDER}
"""The items by name."""
Measured = dict[str, list[Record]]
"""The records of the items that are there, by name."""


def read_measured(folder: Path) -> Measured:
    """All that a folder of ``rapgnn reproduce --out`` holds; an item without a file is not there."""
    if not folder.is_dir():
        raise InputError(
            f"there is no folder {folder}: measure with rapgnn reproduce --out {folder}, or name another --results."
        )
    measured: Measured = {}
    for name, path in {name: folder / f"{name}.json" for name in ITEMS}.items():
        records = read_records(path) if is_regular(path) else []
        measured |= {name: records} if records else {}
    return measured
