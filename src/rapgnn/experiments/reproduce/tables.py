"""Tables of accuracies in Markdown: one per dataset, ours beside the paper's, and below what was measured."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rapgnn.experiments.markdown import NONE, format_figure, format_published, format_table
from rapgnn.experiments.published import Published
from rapgnn.experiments.reproduce.nothing_set import ESTIMATOR
from rapgnn.experiments.reproduce.rows import BEST, EXPECTATION, FAITHFUL, Row
from rapgnn.experiments.run import Record

NOT_SEARCHED, NO_EXACT_FORM, DIVERGED = "not searched", "no exact form", "diverged"
DATASETS = {
    "cora": "Cora",
    "citeseer": "CiteSeer",
    "pubmed": "PubMed",
    "mutag": "MUTAG",
    "ptc": "PTC",
    "proteins": "PROTEINS",
}
UNITS = {"accuracy": "accuracy, %", "rocauc": "ROC-AUC, %", "rmse": "RMSE, lower is better"}
SETTINGS = (
    "faithful: the paper's search space, architecture and inference; best: anything this library has that keeps the "
    "weights random, and End-to-End in a wider space; both chosen on validation. difference: faithful minus paper. "
    "estimator, nothing set: what the library chooses by itself among random networks and averages of them."
)
SHARED = (
    "Fixed Random Diagonal, Fixed Random Weights, Random Weights and Identity Weights have RAP-GNN's settings with "
    "other weights, all else equal. The paper does not say what full random weights are drawn from: here they are "
    "those of PyTorch's nn.Linear."
)
SIGNED = (
    f"{NO_EXACT_FORM}: the embedding that validation chose does not end in a ReLU, so h⁰ has negative entries and the "
    "ReLU of the layers acts."
)


@dataclass(frozen=True)
class Line:
    """A row on one dataset: its records by column, and the paper's figure."""

    row: Row
    records: dict[str, Record]
    paper: Published | None
    searched: bool  # whether the method has faithful settings there

    @property
    def ours(self) -> Record | None:
        """With the paper's settings."""
        return self.records.get(self.row.column or FAITHFUL)


@dataclass(frozen=True)
class Column:
    """A column: its heading, and what it says of a line."""

    heading: str
    cell: Callable[[Line], str]


def figure(record: Record | None, prefix: str = "") -> str:
    """Mean and standard deviation; ``prefix`` as in the record's keys."""
    if record is not None and record.get(f"{prefix}mean", 0.0) is None:
        return DIVERGED
    return format_figure(record, prefix).partition(" (")[0]  # the number of seeds stands below the table


def _ours(line: Line) -> str:
    if line.row.method == ESTIMATOR:
        return ""
    if line.ours is None:
        return NO_EXACT_FORM if line.row.column == EXPECTATION and line.searched else NOT_SEARCHED
    return figure(line.ours)


def _best(line: Line) -> str:
    if line.row.method == ESTIMATOR:
        return figure(line.records.get(BEST))
    if BEST not in line.row.columns((FAITHFUL, BEST)):
        return "" if line.row.column else NONE
    return figure(line.records[BEST]) if BEST in line.records else NOT_SEARCHED


def _paper(line: Line) -> str:
    return NONE if line.paper is None else format_published(line.paper)


def difference(line: Line) -> str:
    """Ours minus the paper's, in points or in the metric's unit."""
    ours, paper = line.ours, line.paper
    if ours is None or ours["mean"] is None or paper is None or paper.mean is None:
        return NONE
    if paper.metric == "rmse":
        return f"{ours['mean'] - paper.mean:+.3f}"
    return f"{100 * ours['mean'] - paper.mean:+.{1 if paper.table in ('tu', 'batches') else 2}f}"


OURS, BESTS = Column("faithful", _ours), Column("best", _best)
PAPER, DIFFERENCE = Column("paper", _paper), Column("difference", difference)
STRICT = Column("strict", lambda line: NONE if line.ours is None else figure(line.ours, "strict_"))
STANDARD = (OURS, BESTS, PAPER, DIFFERENCE)


def lines_of(records: Sequence[Record], rows: Sequence[Row], dataset: str) -> list[Line]:
    """The rows on a dataset with what was measured of them."""
    there = [r for r in records if r["dataset"] == dataset]
    searched = {r["method"] for r in there if r["column"] == FAITHFUL}
    lines = []
    for row in rows:
        mine = {r["column"]: r for r in there if r["title"] == row.title}
        lines.append(Line(row, mine, row.paper(dataset), row.method in searched))
    return lines


def show_datasets(
    records: Sequence[Record],
    rows: Sequence[Row],
    datasets: Sequence[str],
    columns: Sequence[Column] = STANDARD,
    above: Callable[[str], list[list[str]]] = lambda dataset: [],
) -> str:
    """A table for each dataset.

    Args:
        above: further lines of a dataset, on top.
    """
    parts = []
    for dataset in datasets:
        body = above(dataset)
        for line in lines_of(records, rows, dataset):
            title = f"**{line.row.title}**" if line.row.title == "RAP-GNN" else line.row.title
            body.append([title, *(column.cell(line) for column in columns)])
        unit = next((UNITS[r["metric"]] for r in records if r["dataset"] == dataset), "")
        heading = f"## {DATASETS.get(dataset, dataset)}{f' ({unit})' if unit else ''}"
        parts.append(f"{heading}\n\n{format_table(['', *(c.heading for c in columns)], body)}")
    if any(NO_EXACT_FORM in part for part in parts):
        parts.append(SIGNED)
    return "\n\n".join(parts)


def show_seeds(records: Sequence[Record], rows: Sequence[Row], datasets: Sequence[str], *notes: str) -> str:
    """The tables of datasets with a fixed split, and below them what the columns mean and what was cut.

    Args:
        notes: further paragraphs, before what was cut.
    """
    return below(
        show_datasets(records, rows, datasets),
        f"{SETTINGS} {spread(records)}",
        *notes,
        show_cuts(records, "2 seeds instead of 5"),
    )


def spread(records: Sequence[Record]) -> str:
    """What stands behind ±."""
    if not records:
        return ""
    folds = [len(r["values"]) for r in records if "fold," in r["protocol"]]
    if folds:
        return f"±: standard deviation over {max(folds)} folds."
    return f"±: standard deviation over {max(len(r['seeds']) for r in records)} seeds."


def show_cuts(records: Sequence[Record], usual: str) -> str:
    """What a quick run left out.

    Args:
        usual: seeds or folds of a full run, in words.
    """
    if not any(r["quick"] for r in records):
        return ""
    said = [f"Quick run, cut: {usual}."]
    for dataset in dict.fromkeys(r["dataset"] for r in records):
        by_cut: dict[str, list[str]] = {}
        for r in records:
            if r["dataset"] == dataset and "cut" in r:
                name = r["title"] if r["column"] != BEST else f"{r['title']} (best)"
                by_cut.setdefault(r["cut"], []).append(name)
        what = "; ".join(f"{cut}: {', '.join(dict.fromkeys(names))}" for cut, names in by_cut.items())
        said += [f"{DATASETS.get(dataset, dataset)}: {what}."] if what else []
    return "\n\n".join(said)


def below(*notes: str) -> str:
    """What stands under the tables, each note a paragraph."""
    return "\n\n".join(note for note in notes if note)
