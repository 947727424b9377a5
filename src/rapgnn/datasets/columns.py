"""What the columns of a user's tables mean: ids, ends of edges, labels, splits, features."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rapgnn.datasets.frames import Dialect, Frame, find_file
from rapgnn.errors import InputError, check_choice, shown
from rapgnn.graph.labels import find_classes, label_column
from rapgnn.graph.rows import split_blocks
from rapgnn.graph.table import NAMED, ORDERS, Column, ColumnUse, Encoding, date_order, is_number, stamps_in_days
from rapgnn.graph.validate import SPLITS, Faults

ID, GRAPH = ("id", "node", "node_id"), ("graph", "graph_id")
GRAPH_ID = (*GRAPH, *ID)  # what a row of graphs may call itself
LABEL, OTHER_LABELS = ("label",), ("y", "class", "target")
SOURCE, TARGET, WEIGHT = ("source", "src", "from"), ("target", "dst", "to"), ("weight", "edge_weight")
SPLIT_WORDS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}
NO_IDS = "no id column: rows were numbered from 0 (`id` names one)."
OPTIONS = (
    *NAMED,
    *("ignore", "sep", "decimal", "encoding", "impute", "directed", "drop_unknown_edges", "task", "seed"),
    *("nodes", "edges", "group", "time", "table"),
)
"""What a user may say about tables: fields of ``Reading``, ``encoding`` that of CSV files."""
Roles = dict[str, str]  # what a column is for, where it is no feature


@dataclass(frozen=True)
class Reading:
    """How a folder is to be read.

    Args:
        label: the label's column; None: ``label``, ``y``, ``class`` or ``target``.
        ignore: columns to leave out; several in one string are separated by commas.
        impute: fill missing values instead of refusing them.
        directed: edges count in the direction they are listed in; otherwise in both.
        task: ``"classification"`` or ``"regression"``; None tells by the labels.
        classes, encoding: those of a trained model that the folder is read for.
        trained: whether there is one.
        labelled: whether labels are needed; None: they are taken where there are any.
        seed: of the split, where the folder names none.
        id: the column of the nodes' ids; None: ``id``, ``node`` or ``node_id``.
        source, target: the columns of the ends of edges; None: ``source`` and ``target`` and the like.
        sep, decimal, text_encoding: how CSV files are written; None: each file tells.
        drop_unknown_edges: leave out edges that name nodes that are not there, instead of refusing them.
        nodes, edges: the files of the two tables, where they lie in no folder together.
        group: the column whose rows of one value stay together when rows are divided for training and testing.
        time: the column by which rows are divided instead: what is earlier trains, what is later tests. Of many tables
            each row is then predicted as of its time.
        table: of many tables with keys the one whose rows are predicted.
        types: what a trained model knows of such tables.
    """

    label: str | None = None
    ignore: Sequence[str] = ()
    impute: bool = False
    directed: bool = False
    task: str | None = None
    classes: tuple[Any, ...] | None = None
    encoding: Encoding | None = None
    trained: bool = False
    labelled: bool | None = True
    seed: int = 0
    id: str | None = None
    source: str | None = None
    target: str | None = None
    sep: str | None = None
    decimal: str | None = None
    text_encoding: str | None = None
    drop_unknown_edges: bool = False
    nodes: str | Path | None = None
    edges: str | Path | None = None
    group: str | None = None
    time: str | None = None
    table: str | None = None
    types: dict[str, Any] | None = None

    def file(self, folder: Path, stem: str) -> Path | None:
        """The file of a table: the one that is named, or else the folder's."""
        if self.nodes is None and self.edges is None:
            return find_file(folder, stem)
        named = {"nodes": self.nodes, "edges": self.edges}.get(stem)
        return None if named is None else Path(named)

    def with_options(self, given: dict[str, Any]) -> "Reading":
        """The reading with options as users give them; ``encoding`` is that of the text."""
        unknown = next((name for name in given if name not in OPTIONS), None)
        if unknown is not None:
            raise InputError(f"{unknown} is unknown: what goes with the data is {', '.join(OPTIONS)}.")
        fields = {"text_encoding" if name == "encoding" else name: value for name, value in given.items() if value}
        if "task" in fields:
            check_choice("task", fields["task"], ("classification", "regression"))
        if isinstance(fields.get("ignore"), str):
            fields["ignore"] = (fields["ignore"],)
        return replace(self, **fields)

    @property
    def options(self) -> Dialect:
        """How CSV files are written, checked."""
        return Dialect.of(self.sep, self.decimal, self.text_encoding)

    def named(self, role: str, usual: Sequence[str]) -> tuple[str, ...]:
        """What the column for ``role`` may be called: as the user says, or as usual."""
        name = getattr(self, role)
        return tuple(usual) if name is None else (str(name).strip().lower(),)

    def as_trained(self) -> "Reading":
        """The reading with what the encoding of a trained model remembers of how its own tables were read."""
        if (known := self.encoding) is None:
            return self
        named = {role: getattr(self, role) or getattr(known, role) for role in NAMED} | {"label": known.label}
        return replace(self, directed=known.directed, impute=known.impute, **named)

    def remembered(self, encoding: Encoding, label: str | None) -> Encoding:
        """The encoding with what a model remembers of how its folder was read."""
        named = {role: getattr(self, role) for role in NAMED} | {"label": label}
        return replace(encoding, directed=self.directed, impute=self.impute, **named)


def named_options(given: dict[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """``train_mask`` is ``train``; anything unknown is refused."""
    named: dict[str, Any] = {}
    for key, value in given.items():
        name = key.removesuffix("_mask")
        if name not in known:
            raise InputError(f"{key} is unknown: what goes with the data is {', '.join(known)}.")
        if name in named:
            raise InputError(f"give {name} or {name}_mask, not both.")
        named[name] = value
    return named


OTHER_ID = ": `id` names another column"


def row_ids(
    frame: Frame, roles: Roles, names: Sequence[str] = ID, unique: bool = True, needed: bool = False
) -> pd.Index | None:
    """What the rows are called; None where no column says it.

    Args:
        needed: refuse a table without such a column: the user named it.
    """
    column = frame.need(*names) if needed else frame.take(*names)
    if column is None:
        return None
    roles[column[0]] = "id"
    refuse_empty(frame.path, column[0], column[1], cure=OTHER_ID)
    ids = pd.Index(column[1])
    if unique and not ids.is_unique:
        twice = ids[ids.duplicated()]
        raise repeated_id(frame.path, column[0], twice[0], len(twice))
    return ids


def refuse_empty(path: Path, name: str, values: pd.Series, rows: Any = None, cure: str = "") -> None:
    """Refuse a column with gaps; ``rows``: the numbers of its rows."""
    missing = values.isna().to_numpy()
    if missing.any():
        row = int(missing.argmax())
        raise without(path, name, row if rows is None else int(rows[row]), int(missing.sum()), cure)


def row_of(wanted: Any, names: pd.Index) -> np.ndarray:
    """Which row has each of some names, -1: none; 7 and "7" are the same where one side holds words."""
    names, wanted = names.infer_objects(), pd.Index(wanted)
    if pd.api.types.is_numeric_dtype(names) != pd.api.types.is_numeric_dtype(wanted):
        names, wanted = names.astype(str), wanted.astype(str)
    return np.asarray(names.get_indexer(wanted), dtype=np.int64)


def without(path: Path, name: str, row: int, count: int, cure: str = "") -> InputError:
    """What is said where rows have no id, or no end: the first of them, and how many there are."""
    such = f" ({count} such rows)" if count > 1 else ""
    return InputError(f"{path}: row {row} has no {name}{such}{cure}.")


def repeated_id(path: Path, name: str, value: Any, count: int) -> InputError:
    """What is said where rows have the id of an earlier row: the first such id, and how many rows there are."""
    such = f" ({count} rows repeat one)" if count > 1 else ""
    return InputError(f"{path}: the {name} {value} occurs more than once{such}{OTHER_ID}.")


@dataclass(frozen=True)
class Given:
    """What a user hands in beside tables.

    Args:
        y: labels of the rows, in their order or {id: label}; they win over a column.
        splits: ``train``, ``val``, ``test``, masks or row numbers; likewise.
        ids: what the nodes are called, where the tables only number them.
        directed: whether edges count one way, where they say it themselves.
        divide: as in ``build_graph``.
    """

    y: Any = None
    splits: dict[str, Any] = field(default_factory=dict)
    ids: np.ndarray | None = None
    directed: bool | None = None
    divide: bool = True


@dataclass(frozen=True)
class Labels:
    """The labels of a table's rows: one column, or (with ``names``) a table with a column per label; and the splits.

    Args:
        task: ``"classification"``, ``"multilabel"`` or ``"regression"``.
        notes: what is said about the splits.
    """

    values: Any
    splits: dict[str, Any]
    column: str | None = None
    names: tuple[str, ...] | None = None
    task: str = "classification"
    notes: tuple[str, ...] = ()


def find_labels(frame: Frame, reading: Reading, roles: Roles, given: Given | None = None, ids: Any = ()) -> Labels:
    """What a table says about its rows' labels and splits; the columns that say it are added to ``roles``.

    Args:
        given: labels and splits that win over those of the table, whose rows are called ``ids``.
    """
    given = given or Given()
    single, several = _label_columns(frame, reading)
    roles |= dict.fromkeys(several if single is None else [single], "label")
    labels = Labels(None, splits_of(frame, roles), task=reading.task or "classification")
    if given.y is not None:
        y = given.y
        if isinstance(y, dict):
            names = list(ids if given.ids is None else given.ids)
            if unknown := set(y) - set(names):
                raise InputError(f"y names {shown(next(iter(unknown)))}, which the graph does not have.")
            y = [y.get(name) for name in names]
        labels = replace(labels, values=y)
    elif single is not None:
        values = frame.table[single]
        labels = replace(labels, values=values, column=single, task=_task_of(frame, values, reading, "classification"))
    elif several:
        odd = next((c for c in several if not pd.api.types.is_numeric_dtype(frame.table[c])), None)
        if odd is not None:
            raise InputError(f"{frame.path}: {odd} must hold only 0, 1 and gaps (unknown), as one of several labels.")
        table = frame.table[several].to_numpy(dtype=np.float64, na_value=np.nan)
        names = tuple(str(c).partition("_")[2] for c in several)
        labels = replace(labels, values=table, names=names, task=_task_of(frame, table, reading, "multilabel"))
    elif reading.labelled:
        raise InputError(
            f"{frame.path}: there is no label column (label, y, class or target); it has {frame.names}: "
            "`label` names another."
        )
    labels = replace(labels, splits=given.splits) if given.splits else labels
    return _divided(frame, labels, reading, roles)


def _divided(frame: Frame, labels: Labels, reading: Reading, roles: Roles) -> Labels:
    """The labels with splits by a group or a time, where the user names a column of these."""
    name = reading.group or reading.time
    if name is None or reading.trained:
        return labels
    if reading.group and reading.time:
        raise InputError("rows are divided by group or by time, not by both.")
    if labels.splits:
        raise InputError(f"{frame.path} names a split already: leave it out with `ignore`, or leave out {name}.")
    column, values = frame.need(name.strip().lower())
    roles[column] = "group" if reading.group else "time"
    known = np.flatnonzero(pd.DataFrame(labels.values).notna().any(axis=1))
    values = values.iloc[known]
    refuse_empty(frame.path, column, values, known)
    if reading.group:
        blocks = np.random.default_rng(reading.seed).permutation(values.nunique())[pd.factorize(values)[0]]
    else:
        blocks = pd.factorize(times_of(frame, column, values), sort=True)[0]
    parts = split_blocks(blocks)
    if not all(len(part) for part in parts):
        raise InputError(f"{frame.path}: the values of {column} do not divide the rows in three parts.")
    how = f"rows of one {column} together" if reading.group else f"the earliest by {column} first"
    sizes = " / ".join(str(len(part)) for part in parts)
    note = f"the labelled rows were divided {sizes} (train / val / test), {how}."
    return replace(labels, splits={s: known[part] for s, part in zip(SPLITS, parts, strict=True)}, notes=(note,))


def times_of(frame: Frame, column: str, values: pd.Series) -> np.ndarray:
    """Numbers, or dates as the days that they are in features."""
    if is_number(values):
        return values.to_numpy(dtype=np.float64)
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        return stamps_in_days(values)
    order, days = date_order(values.astype(str).to_numpy(dtype=object))
    if order not in ORDERS or np.isnan(days).any():
        raise InputError(f"{frame.path}: {column} must hold numbers or dates such as 2024-12-31 to divide rows by.")
    return days


def _task_of(frame: Frame, values: Any, reading: Reading, otherwise: str) -> str:
    """The kind of label: numbers to predict where the user says so, or where some are no whole numbers."""
    number = isinstance(values, np.ndarray) or is_number(values)
    if reading.labelled is False or reading.task == "classification":
        return otherwise
    if reading.task == "regression" and not number:
        raise InputError(f"{frame.path}: targets of a regression must be numbers: `label` names another column.")
    if reading.task is None and (reading.classes is not None or not number):
        return otherwise
    known = pd.Series(np.ravel(values)).dropna()
    fractions = bool(pd.api.types.is_float_dtype(known) and (known % 1 != 0).any())
    return "regression" if reading.task == "regression" or fractions else otherwise


def check_classes(frame: Frame, labels: Labels, reading: Reading) -> None:
    """Refuse a column of labels that are no classes, by its name."""
    if labels.column is None or labels.task == "regression" or not reading.labelled or reading.trained:
        return
    try:
        find_classes(label_column(labels.values))
    except InputError as error:
        raise InputError(
            f"{frame.path}: column {labels.column}: {str(error).rstrip('.')}; `label` names another."
        ) from error


def _label_columns(frame: Frame, reading: Reading) -> tuple[str | None, list[str]]:
    """The column of the labels, or the columns of many; a trained model's features are never taken for labels."""
    features = [c.name for c in reading.encoding.columns] if reading.encoding is not None else []
    free = replace(frame, table=frame.without(features))
    named = reading.named("label", LABEL)
    if reading.label and not reading.trained:
        return frame.need(*named)[0], []
    for names, start in (((*named, *LABEL), "label_"), (OTHER_LABELS, "y_")):
        if (single := free.take(*names)) is not None:
            return single[0], []
        if several := _several(free, start, reading):
            return None, several
    return None, []


def _several(frame: Frame, start: str, reading: Reading) -> list[str]:
    """The columns that begin so; for a trained model in the order of its labels."""
    columns = {str(c).lower().removeprefix(start): c for c in frame.table.columns if str(c).lower().startswith(start)}
    if not (columns and reading.trained and reading.classes):
        return list(columns.values())
    wanted = [str(name).lower() for name in reading.classes]
    if missing := [name for name in wanted if name not in columns]:
        raise InputError(f"{frame.path} has no column {start}{missing[0]}, one of the model's labels.")
    return [columns[name] for name in wanted]


def splits_of(frame: Frame, roles: Roles) -> dict[str, np.ndarray]:
    """The rows of each split, by a column ``split`` or masks, whose names are added to ``roles``."""
    splits: dict[str, np.ndarray] = {}
    if (column := frame.take("split")) is not None:
        roles[column[0]] = "split"
        words = column[1].astype(object).where(column[1].notna(), "").astype(str).str.strip().str.lower()
        if odd := [word for word in words if word and word not in SPLIT_WORDS]:
            raise InputError(
                f"{frame.path}: split {shown(odd[0])} is unknown: use train, val and test, or leave it out (`ignore`)."
            )
        splits = {split: np.flatnonzero(words.map(SPLIT_WORDS) == split) for split in SPLITS}
    for split in SPLITS:
        if (mask := frame.take(f"{split}_mask")) is not None:
            roles[mask[0]] = "split"
            if not pd.api.types.is_bool_dtype(mask[1]) or mask[1].isna().any():
                raise InputError(f"{frame.path}: give {mask[0]} as booleans, or leave it out (`ignore`).")
            splits[split] = np.flatnonzero(mask[1].to_numpy(dtype=bool))
    return {} if column is not None and not any(map(len, splits.values())) else splits


# What became of every column of a user's files, as data, and what is said about how they were read.


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
    reasons, file, matrix = left_out or {}, frame.path.name, frame.matrix
    uses = [] if matrix is None else [ColumnUse(file, "x", "numbers", matrix.shape[1] if matrix.ndim > 1 else 1)]
    for column in frame.table.columns:
        name = str(column)
        if column in roles:
            uses.append(ColumnUse(file, name, roles[column]))
        elif name in features:
            uses.append(ColumnUse(file, name, features[name].read_as, features[name].width))
        else:
            uses.append(ColumnUse(file, name, f"left out: {reasons.get(name, otherwise)}"))
    return [*uses, *(ColumnUse(file, name, "left out: `ignore`") for name in frame.ignored)]


def dialect_notes(frames: Sequence[Frame]) -> list[str]:
    """One sentence on files that are not written in the plain way; none where all are."""
    by_form: dict[tuple[str, ...], list[str]] = {}
    for frame in frames:
        by_form.setdefault(frame.form, []).append(frame.path.name)
    by_form.pop((), None)
    read = "; ".join(f"{_joined(names)} with {_joined(form)}" for form, names in by_form.items())
    return [f"read {read} (`sep`, `decimal` and `encoding` say otherwise)."] if read else []


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def learn_features(nodes: Frame, roles: Roles, reading: Reading) -> tuple[Any, Encoding | None]:
    """The features (a table, an npz file's x, or None) and how they are made, where a table says it."""
    table = nodes.without(list(roles))
    features = table if nodes.matrix is None else nodes.matrix
    if nodes.matrix is None and not table.shape[1]:
        return None, reading.encoding
    if reading.trained or not table.shape[1]:
        return features, reading.encoding
    if nodes.matrix is None:
        return table, learn_table(table, nodes.path, reading.impute)
    if not nodes.alone:
        raise besides_x(nodes.path, str(table.columns[0]))
    return features, Encoding("given", left_out=dict.fromkeys(map(str, table), "x holds the features"))


def learn_table(table: Any, path: Path, impute: bool, what: str = "node") -> Encoding:
    """``Encoding.learn``, whose refusals name the file."""
    faults, encoding = Faults(f"{path}: "), Encoding("given")
    with faults.collect():
        encoding = Encoding.learn(table, impute, what)
    faults.check()
    return encoding


def besides_x(path: Path, column: str) -> InputError:
    """What is said where there is an array of features and a column that would be one more."""
    return InputError(f"{path} holds x and also {column}: put it into x, or ignore it (`ignore`).")
