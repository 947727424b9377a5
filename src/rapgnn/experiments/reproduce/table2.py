"""Table 2: the training strategies on MUTAG, PTC and PROTEINS, by cross-validation."""

from rapgnn.experiments.markdown import NONE, format_published
from rapgnn.experiments.published import find_published
from rapgnn.experiments.reproduce.cells import Cell
from rapgnn.experiments.reproduce.item import Graphs, Item, Scale
from rapgnn.experiments.reproduce.rows import BEST, EXACT, METHODS_OF_TABLES, Row, cells_of, strategies
from rapgnn.experiments.reproduce.tables import (
    DIFFERENCE,
    OURS,
    PAPER,
    STRICT,
    Column,
    below,
    show_cuts,
    show_datasets,
    spread,
)
from rapgnn.experiments.run import Record

TU = ("mutag", "ptc", "proteins")
RESERVOIRS = {"mrgnn": "MRGNN", "u-gcn": "U-GCN", "p-rgnn": "P-RGNN", "fdgnn": "FDGNN"}
ROWS = (*strategies("tu", METHODS_OF_TABLES, {"rap": "both", "end-to-end": "both"}), EXACT)
COLUMNS = (Column("accuracy", OURS.cell), STRICT, PAPER, DIFFERENCE)
# The best settings may have other architectures than the paper's: rows of their own, not to be read against it.
BEST_ROWS = tuple(
    Row(f"{row.title}, best", row.method, BEST, protocol=row.protocol) for row in ROWS if BEST in row.columns((BEST,))
)


def cells(scale: Scale, graphs: Graphs) -> list[Cell]:
    """The paper's architecture first, then the best there is."""
    return [cell for dataset in TU for cell in cells_of((*ROWS, *BEST_ROWS), [dataset], scale, graphs, ["faithful"])]


def show(records: list[Record]) -> str:
    """A table for each dataset; the reservoir systems are quoted from the paper."""
    there = {r["title"] for r in records}
    best = [row for row in BEST_ROWS if row.title in there]
    return below(
        show_datasets(records, (*ROWS, *best), TU, COLUMNS, quoted),
        "accuracy: the paper's protocol, ten folds at the epoch that is best for the held-out folds on average, which "
        f"makes it optimistic. strict: the epoch is chosen on an inner validation fold. {spread(records)} "
        "difference: ours minus paper.",
        "Rows without a word after the method have the paper's architecture, search space and inference. "
        "best: anything this library has, jumping knowledge among it, chosen on validation. "
        "quoted: reservoir systems, as the paper prints them; they were not measured here.",
        show_cuts(records, "the first 2 of 10 folds are held out, the others only train"),
    )


def quoted(dataset: str) -> list[list[str]]:
    """The lines of the reservoir systems."""
    lines = []
    for method, title in RESERVOIRS.items():
        (cell,) = find_published("tu", dataset=dataset, method=method)
        lines.append([f"{title} (quoted)", NONE, NONE, format_published(cell), NONE])
    return lines


ITEM = Item("table2", "Table 2: training strategies on TU's graphs", cells, show)
