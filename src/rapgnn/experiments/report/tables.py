"""The tables of an item on the page: as ``rapgnn reproduce`` writes them, coloured by what they say of the paper."""

from rapgnn.experiments.report.verdicts import row_chips
from rapgnn.experiments.reproduce.claims.significance import BEHIND, compare_to_quoted, outcome
from rapgnn.experiments.reproduce.claims.verdict import METRICS
from rapgnn.experiments.reproduce.item import Item
from rapgnn.experiments.reproduce.outputs import describe
from rapgnn.experiments.reproduce.rows import BEST
from rapgnn.experiments.reproduce.tables import DATASETS
from rapgnn.experiments.run import Record
from rapgnn.report.markdown import plain_cell, to_parts
from rapgnn.report.parts import Cell, More, Part, Table

DIFFERENCE = "difference"
NAMES = {title: name for name, title in DATASETS.items()}


def item_tables(item: Item, records: list[Record], claims: list[Record]) -> list[Part]:
    """Tables, folded notes, and how they were measured."""

    def new_table(heading: str, header: list[str], rows: list[list[str]], left: int) -> Table:
        cells = [[plain_cell(cell) for cell in row] for row in rows]
        if DIFFERENCE not in header:
            return Table(header, cells, heading, left)
        dataset = _dataset(heading)
        at = header.index(DIFFERENCE)
        for row in cells:
            row[at] = _difference(row[at], _record(records, dataset, row[0].text))
        chips = [row_chips(claims, dataset, row[0].text) for row in cells]
        if any(chips):
            header = [*header, "claims"]
            cells = [[*row, Cell("", chips=found)] for row, found in zip(cells, chips, strict=True)]
        return Table(header, cells, heading, left, chips=any(chips))

    parts = to_parts(describe(item, records), new_table)
    last = max((i for i, part in enumerate(parts) if isinstance(part, Table)), default=-1)
    *notes, origin = parts[last + 1 :]
    return [*parts[: last + 1], *([More("What the columns mean, and notes", notes)] if notes else []), origin]


def _dataset(heading: str) -> str:
    """The dataset of a table, by what stands above it."""
    title = heading.partition(" (")[0]
    return NAMES.get(title, title)


def _record(records: list[Record], dataset: str, title: str) -> Record | None:
    """What a row's difference is of."""
    found = [r for r in records if r.get("dataset") == dataset and r.get("title") == title and r.get("column") != BEST]
    return found[0] if found else None


def _difference(cell: Cell, record: Record | None) -> Cell:
    if record is None or record.get("paper_mean") is None or record.get("mean") is None:
        return cell
    compared = compare_to_quoted(record["values"], record["paper_mean"], higher=METRICS[record["metric"]].higher)
    if compared.difference >= -(record.get("paper_std") or 0.0):
        return Cell(cell.text, "good", title="reached, within the paper's standard deviation")
    if compared.p is None or outcome(compared, compared.p) != BEHIND:
        return Cell(cell.text, "mixed", title=f"below the paper's standard deviation; {compared.test} does not tell")
    return Cell(cell.text, "bad", title=f"behind, {compared.test}, p = {compared.p:.2g}")
