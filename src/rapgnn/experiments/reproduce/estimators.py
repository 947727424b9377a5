"""Past the paper: the estimators with nothing set on its ten datasets, beside RAP-GNN and End-to-End."""

from rapgnn.experiments.markdown import NONE, format_published, format_table
from rapgnn.experiments.published import one_published
from rapgnn.experiments.reproduce.cells import Cell
from rapgnn.experiments.reproduce.item import Graphs, Item, Scale
from rapgnn.experiments.reproduce.molbace import MOLBACE
from rapgnn.experiments.reproduce.nothing_set import ESTIMATOR
from rapgnn.experiments.reproduce.rows import FAITHFUL, NOTHING_SET, Row, cells_of, strategies, untuned_cell
from rapgnn.experiments.reproduce.table1 import PLANETOID
from rapgnn.experiments.reproduce.table2 import TU
from rapgnn.experiments.reproduce.table3 import MOLECULES
from rapgnn.experiments.reproduce.tables import DATASETS, UNITS, below, figure, show_cuts
from rapgnn.experiments.run import Record

TABLES = {"planetoid": PLANETOID, "tu": TU, "molecules": (*MOLECULES, *MOLBACE)}
BESIDE = ("end-to-end", "rap")


def rows_of(table: str) -> tuple[Row, ...]:
    """What stands beside the estimator; on folds by the strict protocol too, which is compared."""
    return strategies(table, BESIDE, dict.fromkeys(BESIDE, "both") if table == "tu" else None)


def cells(scale: Scale, graphs: Graphs) -> list[Cell]:
    """The estimator, then the trainings that the other tables have as well."""
    found = []
    for table, datasets in TABLES.items():
        for dataset in datasets:
            labels = {"title": NOTHING_SET.title, "column": "nothing set"}
            found.append(untuned_cell(graphs.get(dataset), scale, labels))
            found += cells_of(rows_of(table), [dataset], scale, graphs, [FAITHFUL])
    return found


def show(records: list[Record]) -> str:
    """One table, a dataset in a row."""
    body = []
    for table, datasets in TABLES.items():
        for dataset in datasets:
            mine = {r["method"]: r for r in records if r["dataset"] == dataset}
            ours = mine.get(ESTIMATOR)
            if ours is None:
                continue
            others = [_strict(mine.get(method)) for method in BESIDE]
            paper = one_published(table=table, dataset=dataset, method="rap")
            body.append(
                [
                    DATASETS.get(dataset, dataset),
                    UNITS[ours["metric"]].partition(",")[0],
                    f"**{figure(ours)}**",
                    *(NONE if other is None else figure(other) for other in others),
                    NONE if paper is None else format_published(paper),
                    _difference(ours, others[0]),
                    f"{ours['fit_seconds']:.1f}",
                ]
            )
    header = ["", "metric", "nothing set", "End-to-End", "RAP-GNN", "paper's RAP-GNN", "difference", "fit, s"]
    return below(
        format_table(header, body),
        "nothing set: `RAPNodeClassifier()`, `RAPGraphClassifier()` or `RAPGraphRegressor()`, whose search sees the "
        "training and the validation rows; it may choose other random networks than RAP-GNN, and averages of several. "
        "End-to-End and RAP-GNN: the faithful settings of the tables above. RMSE: lower is better. difference: nothing "
        "set minus End-to-End. fit: seconds of one whole fit, search included, median.",
        "On MUTAG, PTC and PROTEINS all three are strict: each of ten folds is the test set once, the next one "
        "validates. The settings of End-to-End and RAP-GNN were searched on the same folds, the estimator's were not. "
        "The paper's figures there are by its own protocol, which is optimistic. ±: standard deviation over folds, or "
        "over seeds.",
        show_cuts(records, "2 seeds instead of 5, 1 of the estimators, 2 of 10 folds"),
    )


def _strict(record: Record | None) -> Record | None:
    """The strict figures of a record in the place of the others, where it has them."""
    if record is None or "strict_mean" not in record:
        return record
    return record | {name: record[f"strict_{name}"] for name in ("mean", "std", "values")}


def _difference(ours: Record, other: Record | None) -> str:
    if other is None or other["mean"] is None:
        return NONE
    gap = ours["mean"] - other["mean"]
    return f"{gap:+.3f}" if ours["metric"] == "rmse" else f"{100 * gap:+.1f}"


ITEM = Item("estimators", "Past the paper: estimators with nothing set on its ten datasets", cells, show)
