"""What became of every column of a user's files, as data, and what is said about how they were read."""

from collections.abc import Sequence

from rapgnn.datasets.columns import Roles
from rapgnn.datasets.frames import Frame
from rapgnn.graph.column import Column
from rapgnn.graph.table import ColumnUse


def column_uses(
    frame: Frame,
    roles: Roles,
    columns: Sequence[Column] = (),
    left_out: dict[str, str] | None = None,
    otherwise: str = "not needed",
) -> list[ColumnUse]:
    """One entry per column.

    Args:
        roles: what columns are for that are no features.
        columns: those that are features.
        left_out: why others are none.
        otherwise: why anything else is left out.
    """
    features = {column.name: column for column in columns}
    reasons = left_out or {}
    file = frame.path.name
    uses = [] if frame.matrix is None else [ColumnUse(file, "x", "numbers", _width(frame))]
    for name in frame.table.columns:
        if name in roles:
            uses.append(ColumnUse(file, str(name), roles[name]))
        elif str(name) in features:
            column = features[str(name)]
            uses.append(ColumnUse(file, str(name), column.read_as, column.width))
        else:
            uses.append(ColumnUse(file, str(name), f"left out: {reasons.get(str(name), otherwise)}"))
    return [*uses, *(ColumnUse(file, name, "left out: --ignore") for name in frame.ignored)]


def _width(frame: Frame) -> int:
    matrix = frame.matrix
    return 0 if matrix is None else 1 if matrix.ndim == 1 else matrix.shape[1]


def dialect_notes(frames: Sequence[Frame]) -> list[str]:
    """One sentence on files that are not written in the plain way; none where all are."""
    by_form: dict[tuple[str, ...], list[str]] = {}
    for frame in frames:
        if frame.told:
            by_form.setdefault(frame.told, []).append(frame.path.name)
    if not by_form:
        return []
    read = "; ".join(f"{_joined(names)} with {_joined(list(told))}" for told, names in by_form.items())
    return [f"read {read} (--sep, --decimal and --encoding say otherwise)."]


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
