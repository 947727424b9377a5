"""Many tables with keys, as a folder or a database holds them: which columns are keys, and the graph with types.

A table is a type of nodes, a column that names rows of another table is a relation. A table that has nothing but two
such columns is a relation itself. What is taken is said; ``schema.toml`` beside the files says it instead:

    [orders]
    key = "id"
    time = "created_at"
    ignore = ["note"]
    foreign = { customer_id = "customers" }
"""

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rapgnn.datasets.columns import LABEL, OTHER_LABELS, Reading, find_labels, row_of, times_of
from rapgnn.datasets.frames import ENDINGS, Frame, read_file
from rapgnn.errors import InputError, check_choice, shown
from rapgnn.graph.convert import as_table
from rapgnn.graph.graph import Graph
from rapgnn.graph.table import is_number
from rapgnn.graph.typed import NodeType, Relation, typed_graph

SCHEMA = "schema.toml"
Tables = Mapping[str, Any]
"""DataFrames by name."""
IDS = ("id", "key", "code", "no")
CREATED = ("created_at", "created", "timestamp", "time", "date", "datetime", "at", "on")


@dataclass(frozen=True)
class Keys:
    """What the columns of one table are for.

    Args:
        key: names its rows; None: they are numbered.
        foreign: {column: the table whose rows it names}.
        time: since when rows are there.
        ignore: columns that are left out.
    """

    key: str | None = None
    foreign: dict[str, str] = field(default_factory=dict)
    time: str | None = None
    ignore: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, table: str, given: Any) -> "Keys":
        """From a table of ``schema.toml``, or of a trained model."""
        kinds = {"key": str | None, "foreign": dict, "time": str | None, "ignore": list | tuple}
        about: Any = {k: v for k, v in given.items() if k != "label"} if isinstance(given, dict) else {"": None}
        if any(not isinstance(value, kinds.get(name, ())) for name, value in about.items()):
            raise InputError(f"what is said of {table} must be key, time (names), foreign (a table), ignore (a list).")
        return cls(about.get("key"), about.get("foreign", {}), about.get("time"), tuple(about.get("ignore", ())))

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return vars(self) | {"ignore": list(self.ignore)}


def is_folder_of_tables(folder: Path) -> bool:
    """Whether this is a folder of tables, none of which is one of nodes or edges."""
    stems = {path.name.partition(".")[0].lower() for path in _files(folder)}
    return bool(stems) and not stems & {"nodes", "edges", "graphs"}


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and path.name.lower().endswith(ENDINGS))


Content = tuple[Mapping[str, Any], Mapping[str, "Keys"], Mapping[str, Any]]
"""Tables, keys as a database declares them, and what ``schema.toml`` says."""


def read_keyed(source: Callable[[], Content], name: str, reading: Reading, **changes: Any) -> Graph:
    """The graph of tables with keys, whatever holds them; a trained model may read them again as its own.

    Args:
        changes: of the reading.
    """
    graph = graph_of_tables(*source(), name, replace(reading, **changes))
    return replace(graph, read_as=partial(read_keyed, source, name, reading))


def read_folder_of_tables(folder: Path, name: str, reading: Reading) -> Graph:
    """The graph of a folder with one CSV or Parquet file per table."""

    def content() -> Content:
        tables: dict[str, Any] = {}
        for path in _files(folder):
            stem = path.name.partition(".")[0]
            if stem in tables:
                raise InputError(f"{folder} holds two files of the table {stem}: keep one of them.")
            tables[stem] = read_file(path, (), reading.options).table
        return tables, {}, read_schema(folder / SCHEMA)

    folder = folder.absolute()
    return read_keyed(content, name, reading)


def are_tables(data: Any) -> bool:
    """Whether these are tables by name, and nothing else (one format of sparse matrices is a dictionary too)."""
    return type(data) is dict and bool(data) and all(hasattr(table, "columns") for table in data.values())


def read_frames(tables: Mapping[str, Any], reading: Reading) -> Graph:
    """The graph of tables in memory, by name."""
    given = {str(name): as_table(table).reset_index(drop=True) for name, table in tables.items()}
    return read_keyed(lambda: (given, {}, {}), "tables", reading)


def read_schema(path: Path) -> dict[str, Any]:
    """What ``schema.toml`` says of each table; nothing where there is no such file."""
    if not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}.") from error


# Which columns are keys.


def singular(name: str) -> str:
    """Customers -> customer, categories -> category, addresses -> address."""
    name = name.lower()
    for ending, other in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("s", "")):
        if name.endswith(ending) and len(name) > len(ending) + 1 and not name.endswith("ss"):
            return name[: -len(ending)] + other
    return name


def stem_of(column: str) -> str | None:
    """customer_id, customerId, customerID -> customer; None where a name does not end like a key's."""
    for ending in IDS:
        for form in (f"_{ending}", ending.upper(), ending.capitalize()):
            if column.endswith(form) and len(column) > len(form):
                return column[: -len(form)].rstrip("_").lower()
    return None


def find_keys(
    tables: Tables, declared: Mapping[str, Keys], notes: list[str], mostly: float = 0.9, often: float = 0.5
) -> dict[str, Keys]:
    """What the columns of every table are for: as declared, or else by their names and contents.

    Args:
        notes: is given what was nearly taken.
        mostly, often: the share of a column's values that must be keys of the other table, where its name is that of
            the table, and where it is that of its key.
    """
    keys = {name: declared[name].key if name in declared else _own_key(name, tables) for name in tables}
    keys_of = {}
    for name, table in tables.items():
        if name in declared:
            foreign = declared[name].foreign
            for column, other in foreign.items():
                check_choice(f"the table that {name}.{column} names", other, tables)
            for column in (*foreign, *filter(None, [keys[name], declared[name].time])):
                if column not in table:
                    raise InputError(f"{name} has no column {shown(column)}: it has {', '.join(table.columns)}.")
            keys_of[name] = declared[name]
            continue
        foreign = {}
        for column in table.columns:
            other = None if column == keys[name] else _named_table(name, column, keys)
            if other is None:
                continue
            share = _share(table[column], tables[other][keys[other]])  # type: ignore[index]
            if share >= (often if column == keys[other] else mostly):
                foreign[column] = other
            elif share > 0:
                notes.append(
                    f"{name}.{column} is like a key of {other}, but {1 - share:.0%} of its values are not there."
                )
        keys_of[name] = Keys(keys[name], foreign)
    return keys_of


def _own_key(name: str, tables: Tables) -> str | None:
    """The column that names the rows of a table: by its name, or the first one that others have too."""
    table, own = tables[name], {name.lower(), singular(name)}
    named = [c for c in table.columns if c.lower() in (*IDS, *own) or stem_of(c) in own]
    shared = {c for other, columns in tables.items() if other != name for c in columns.columns}
    others = {form for other in tables if other != name for form in (other.lower(), singular(other))}
    first = [c for c in table.columns[:1] if c in shared or stem_of(c) is not None]
    named += [c for c in first if not {c.lower(), stem_of(c)} & others]
    return next((c for c in named if table[c].notna().all() and table[c].is_unique and _is_name(table[c])), None)


def _is_name(values: pd.Series) -> bool:
    """Whether these may be names of rows: words, or whole numbers."""
    return not pd.api.types.is_float_dtype(values) and not pd.api.types.is_datetime64_any_dtype(values)


def _named_table(name: str, column: str, keys: Mapping[str, str | None]) -> str | None:
    """The table whose rows a column names, by the column's name."""
    stem = stem_of(column)
    if stem == "parent" and keys[name] is not None:
        return name
    others = [other for other, key in keys.items() if key is not None and other != name]
    plain = {column.lower(), stem}
    tests = (
        lambda other: column == keys[other] and stem_of(column) is not None,
        lambda other: {other.lower(), singular(other)} & plain,
        lambda other: stem is not None and stem.endswith(f"_{singular(other)}"),
        lambda other: column == keys[other] and column.lower() not in IDS,
    )
    return next((other for test in tests for other in others if test(other)), None)


def _share(values: pd.Series, keys: pd.Series) -> float:
    """The share of different values that are keys."""
    different = pd.unique(values.dropna())
    return float((row_of(different, pd.Index(keys)) >= 0).mean()) if len(different) else 0.0


# The graph.


def graph_of_tables(
    tables: Tables, declared: Mapping[str, Keys], overrides: Mapping[str, Any], name: str, reading: Reading
) -> Graph:
    """The graph of tables with keys; its rows are those of ``reading.table``.

    Args:
        declared: keys as a database declares them.
        overrides: what ``schema.toml`` says of tables.
    """
    notes, known = list[str](), reading.types
    for table in overrides:
        check_choice(f"table of {SCHEMA}", table, tables)
    if known is not None and known["tables"] is not None:
        if missing := [table for table in known["tables"] if table not in tables]:
            raise InputError(f"there is no table {shown(missing[0])}, which the model was trained with.")
        tables = {table: tables[table] for table in known["tables"]}
        keys = {table: Keys.from_dict(table, about) for table, about in known["tables"].items()}
        target, links = known["target"], {table for table in tables if table not in known["widths"]}
    else:
        said = {table: about.to_dict() for table, about in declared.items()}
        for table, about in overrides.items():
            said[table] = said.get(table, {}) | Keys.from_dict(table, about).to_dict() | about
        keys = find_keys(tables, {table: Keys.from_dict(table, about) for table, about in said.items()}, notes)
        target = target_of(tables, reading)
        joining = [table for table, about in keys.items() if table != target and len(about.foreign) == 2]
        links = {table for table in joining if not _own(tables[table], keys[table])}
        keys = _with_times(tables, keys, target, reading, notes)
    frame, roles = Frame(Path(target), tables[target]), dict[str, str]()
    labels = find_labels(frame, replace(reading, label=_label_of(reading, known)), roles)
    if known is None:
        notes = [*_said(tables, keys, links), *notes, *labels.notes]
    kinds, relations = {}, list[Relation]()
    names = {
        table: pd.RangeIndex(len(tables[table])) if about.key is None else pd.Index(tables[table][about.key])
        for table, about in keys.items()
    }
    places = {
        table: {c: row_of(tables[table][c], names[to]) for c, to in about.foreign.items()}
        for table, about in keys.items()
    }
    times = _all_times(tables, keys, places, target)
    for table, about in keys.items():
        content, rows, ends = tables[table], len(tables[table]), places[table]
        time = times[table]
        if table in links:
            (a, first), (b, second) = ends.items()
            there = (first >= 0) & (second >= 0)
            moment = None if time is None else time[there]
            edges = np.stack([first[there], second[there]])
            relations.append(Relation(about.foreign[a], table, about.foreign[b], edges, time=moment))
            continue
        used = roles if table == target else ()
        kinds[table] = NodeType(
            columns=content[[c for c in _own(content, about) if c not in used]],
            count=rows,
            ids=None if about.key is None else content[about.key].to_numpy(),
            time=time,
        )
        for column, place in ends.items():
            there = np.flatnonzero(place >= 0)
            relations.append(Relation(table, column, about.foreign[column], np.stack([there, place[there]])))
    how: dict[str, Any] = {"classes": reading.classes, "trained": reading.trained, "seed": reading.seed}
    how |= {"labelled": bool(reading.labelled), "notes": tuple(notes)}
    uses: dict[str, Any] = {table: about.to_dict() for table, about in keys.items()}
    uses[target]["label"] = labels.column if known is None else _label_of(reading, known)
    y, task = labels.values if reading.labelled is not False else None, labels.task
    graph = typed_graph(
        kinds, relations, target, y=y, task=task, known=known, name=name, plain=False, **labels.splits, **how
    )
    assert graph.typed is not None
    return replace(graph, typed=replace(graph.typed, tables=uses))


def target_of(tables: Tables, reading: Reading) -> str:
    """The table whose rows are predicted: the one that is named, or the only one with a label."""
    if reading.table is not None:
        check_choice("table", reading.table, tables)
        return reading.table
    wanted = reading.named("label", (*LABEL, *OTHER_LABELS))
    having = [name for name, table in tables.items() if {c.lower() for c in table.columns} & set(wanted)]
    if len(having) == 1 or (having and reading.labelled is None):
        return having[0]
    if reading.labelled is None:
        return next(iter(tables))
    if reading.labelled is False and not reading.trained:
        raise InputError("links of tables are those of one `relation`: source,name,target as `data info` lists them.")
    raise InputError(f"say which rows are predicted: `table` is one of {', '.join(tables)}.")


def _label_of(reading: Reading, known: dict[str, Any] | None) -> str | None:
    """The label's column, as the user or a trained model names it."""
    return reading.label if known is None else known["tables"][known["target"]].get("label")


def _own(table: Any, about: Keys) -> list[str]:
    """The columns that are neither keys nor times, nor left out."""
    return [c for c in table.columns if c not in (about.key, about.time, *about.foreign, *about.ignore)]


def _with_times(
    tables: Tables, keys: dict[str, Keys], target: str, reading: Reading, notes: list[str]
) -> dict[str, Keys]:
    """The keys with columns of times, where rows are predicted as of theirs; without any, where they are not."""
    if reading.time is None:
        return {name: replace(about, time=None) for name, about in keys.items()}
    timed = {}
    for name, table in tables.items():
        about = keys[name]
        column = reading.time if name == target else about.time or _time_column(table, about, reading.time)
        if column is not None and column not in table:
            raise InputError(f"{name} has no column {shown(column)}: it has {', '.join(table.columns)}.")
        timed[name] = replace(about, time=column)
    none = [name for name, about in timed.items() if about.time is None]
    said = ", ".join(f"{name}.{about.time}" for name, about in timed.items() if about.time is not None)
    rest = f"; rows of {', '.join(none)} count since those are there that they name, or always." if none else "."
    notes.append(f"times: {said}{rest}")
    return timed


def _time_column(table: Any, about: Keys, target: str) -> str | None:
    """The column that says since when rows are there: as the target's, or like created_at."""
    free = _own(table, about)
    if target in free:
        return target
    dates = [c for c in free if _is_date(table[c])]
    usual = [c for c in dates if c.lower() in CREATED or c.lower().rpartition("_")[2] in CREATED]
    return next(iter(usual), dates[0] if len(dates) == 1 else None)


def _is_date(values: Any) -> bool:
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        return True
    words = values.dropna().head(100)
    return bool(len(words)) and not is_number(words) and words.astype(str).str.match(r"\d{4}-\d{2}-\d{2}").all()


def _times(table: str, content: Any, column: str) -> np.ndarray:
    """Numbers as they are, dates in days; NaN where there is none."""
    values = content[column]
    there, times = values.notna().to_numpy(), np.full(len(values), np.nan)
    times[there] = times_of(Frame(Path(table), content), column, values[there])
    return times


def _all_times(
    tables: Tables, keys: Mapping[str, Keys], places: Mapping[str, Mapping[str, np.ndarray]], target: str
) -> dict[str, np.ndarray | None]:
    """Since when rows are there: by their own column, or else since those are that they name; NaN: always.

    A row that names one of the target says nothing of its time: what is known of a row is there before it is asked.
    """
    times = {name: None if one.time is None else _times(name, tables[name], one.time) for name, one in keys.items()}
    for _ in keys:  # lines are there since their order is, and what names lines since these are
        for name, about in keys.items():
            named = [(places[name][c], to) for c, to in about.foreign.items() if to not in (target, name)]
            parts = [np.where(at >= 0, known[at], np.nan) for at, to in named if (known := times[to]) is not None]
            if about.time is None and parts:
                times[name] = np.fmax.reduce(parts)
    return times


def _said(tables: Tables, keys: Mapping[str, Keys], links: Iterable[str]) -> list[str]:
    """What was taken, a sentence for all tables."""
    parts = []
    for name, about in keys.items():
        ends = ", ".join(f"{column} -> {other}" for column, other in about.foreign.items())
        kind = "edges" if name in links else f"key {about.key}" if about.key else "no key"
        parts.append(f"{name} ({kind}{'; ' if ends else ''}{ends})")
    return [f"tables: {', '.join(parts)}."]


def drawn(graph: Graph) -> str:
    """The tables of a graph and their keys, a few lines for each."""
    assert graph.typed is not None
    lines = list[str]()
    for name, about in (graph.typed.tables or {}).items():
        count = f"{graph.typed.counts[name]:,} rows" if name in graph.typed.counts else "edges"
        marks = [f"key {about['key']}"] if about["key"] else []
        marks += [f"time {about['time']}"] if about["time"] else []
        marks += [f"label {about['label']}"] if about.get("label") else []
        lines.append(f"{name}  ({', '.join([count, *marks])})")
        lines += [f"  {column} --> {other}" for column, other in about["foreign"].items()]
        if (encoding := graph.typed.encodings.get(name)) is not None:
            lines.append(f"  {', '.join(c.name for c in encoding.columns)}")
    return "\n".join(lines)
