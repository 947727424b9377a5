"""Tables in Markdown, and how a measured or published number is written in a cell."""

from collections.abc import Iterable, Sequence

from rapgnn.experiments.published import Published
from rapgnn.experiments.run import Record

MISSING = "not measured"
NONE = "–"  # there is no such figure
ONE_DIGIT = ("tu", "batches")  # the paper's tables that print one decimal


def format_table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A table; the first ``left`` columns are aligned to the left, all others to the right."""
    rule = "| --- " * left + "| ---: " * (len(header) - left) + "|"
    return "\n".join([_line(header), rule, *(_line(row) for row in rows)])


def _line(cells: Sequence[str]) -> str:
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|"


def format_figure(record: Record | None, prefix: str = "") -> str:
    """A graph dataset's metric with its spread, and the number of seeds where it is below five.

    Args:
        prefix: ``"strict_"`` for the strict protocol's figure.
    """
    if record is None or f"{prefix}mean" not in record:
        return NONE if prefix else MISSING
    mean, std, seeds = record[f"{prefix}mean"], record[f"{prefix}std"], len(record["seeds"])
    folds = "fold," in record["protocol"]
    factor, digits = (1, 3) if record["metric"] == "rmse" else (100, 1 if folds else 2)
    spread = "" if seeds == 1 and not folds else f" ± {factor * std:.{digits}f}"
    few = "" if folds or seeds >= 5 else f" ({seeds} seed{'s' if seeds > 1 else ''})"
    return f"{factor * mean:.{digits}f}{spread}{few}"


def format_published(cell: Published) -> str:
    """A published mean and standard deviation, with as many digits as its table prints."""
    if cell.mean is None or cell.std is None:
        return cell.note or NONE
    digits = 3 if cell.metric == "rmse" else 1 if cell.table in ONE_DIGIT else 2
    return f"{cell.mean:.{digits}f} ± {cell.std:.{digits}f}"


def format_ratio(value: float) -> str:
    """How many times as fast."""
    return f"{value:,.0f}×" if value >= 10 else f"{value:.1f}×" if value >= 0.1 else f"{value:.2f}×"


def format_ms(value: float) -> str:
    """Milliseconds."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2f}"
