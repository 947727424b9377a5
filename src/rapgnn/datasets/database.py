"""A database as the input, through SQLAlchemy: tables, keys and foreign keys by reflection, rows streamed, read only.

DuckDB needs no more than its own package. Nothing is written but predictions, and those only where they are asked for.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rapgnn.datasets.columns import Reading
from rapgnn.datasets.keyed import SCHEMA, Keys, graph_of_tables, read_schema
from rapgnn.errors import InputError, shown
from rapgnn.graph.graph import Graph

ROWS = 20_000  # that are in memory as Python objects at a time
NEEDS = "a database needs SQLAlchemy: install it with pip install 'rapgnn[sql]'."
DUCKDB = "duckdb:///"


def is_database(name: str | Path) -> bool:
    """Whether this is the URL of a database."""
    return re.match(r"[A-Za-z][\w+]*://", str(name)) is not None


def read_database(url: str, reading: Reading) -> Graph:
    """The graph of the tables of a database; ``schema.toml`` in the working folder says what keys do not."""
    tables, declared = (_read_duckdb if url.startswith(DUCKDB) else _read_sql)(url)
    if not tables:
        raise InputError(f"{hidden(url)} holds no tables.")
    overrides = read_schema(Path(SCHEMA))
    overrides = {name: about for name, about in overrides.items() if name in tables}
    name = re.split(r"[/\\]", url.partition("?")[0])[-1].partition(".")[0] or "database"
    graph = graph_of_tables(tables, name, reading, declared, overrides)
    return replace(graph, read_as=partial(_again, url, reading))


def _again(url: str, reading: Reading, **changes: Any) -> Graph:
    return read_database(url, replace(reading, **changes))


def hidden(url: str) -> str:
    """A URL without its password."""
    return re.sub(r"(://[^:/@]*):[^@/]*@", r"\1:***@", url)


def _alchemy() -> Any:
    try:
        import sqlalchemy
    except ImportError:
        raise InputError(NEEDS) from None
    return sqlalchemy


@contextmanager
def _engine(url: str, write: bool = False) -> Iterator[Any]:
    """A database that is there; what goes wrong in it is said in one sentence."""
    alchemy, engine = _alchemy(), None
    try:
        parsed = alchemy.make_url(url)
        if parsed.drivername in ("postgresql", "postgres"):
            parsed = parsed.set(drivername="postgresql+psycopg")
        if parsed.get_backend_name() == "sqlite" and parsed.database:
            if not Path(parsed.database).is_file():
                raise InputError(f"there is no file {parsed.database}: sqlite:///shop.db names shop.db in this folder.")
            if not write and not parsed.database.startswith("file:"):
                path = Path(parsed.database).resolve().as_uri()
                parsed = parsed.set(database=path, query={"mode": "ro", "uri": "true"})
        engine = alchemy.create_engine(parsed)
        if write and parsed.get_backend_name() == "sqlite":  # its driver would not let tables be made in a transaction
            alchemy.event.listen(engine, "connect", lambda raw, _: setattr(raw, "isolation_level", None))
            alchemy.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
        yield engine
    except (alchemy.exc.SQLAlchemyError, ImportError) as error:
        reason = str(getattr(error, "orig", None) or error).splitlines()[0].rstrip(".")
        raise InputError(f"cannot use {hidden(url)}: {reason}.") from None
    finally:
        if engine is not None:
            engine.dispose()


def _read_sql(url: str) -> tuple[dict[str, pd.DataFrame], dict[str, Keys]]:
    alchemy = _alchemy()
    with _engine(url) as engine:
        about, data = alchemy.inspect(engine), alchemy.MetaData()
        data.reflect(engine)
        tables, declared = dict[str, pd.DataFrame](), dict[str, Keys]()
        with engine.connect().execution_options(stream_results=True, yield_per=ROWS) as connection:
            for name, table in data.tables.items():
                result = connection.execute(table.select())
                tables[name] = _columns([column.name for column in table.columns], result.partitions(ROWS))
        for name, table in data.tables.items():
            key = [column.name for column in table.primary_key.columns]
            foreign = {one["constrained_columns"][0]: one["referred_table"] for one in about.get_foreign_keys(name)
                       if len(one["constrained_columns"]) == 1 and one["referred_table"] in data.tables}  # fmt: skip
            if foreign:
                declared[name] = Keys(key[0] if len(key) == 1 else None, foreign)
        for name in {other for one in declared.values() for other in one.foreign.values()} - set(declared):
            key = [column.name for column in data.tables[name].primary_key.columns]
            declared[name] = Keys(key[0] if len(key) == 1 else None)
    return tables, {name: one for name, one in declared.items() if _has_keys(one, declared)}


def _has_keys(one: Keys, declared: dict[str, Keys]) -> bool:
    """Whether all tables that are named have a key of one column."""
    return all(declared[other].key is not None for other in one.foreign.values())


def _read_duckdb(url: str) -> tuple[dict[str, pd.DataFrame], dict[str, Keys]]:
    try:
        import duckdb
    except ImportError:
        raise InputError("DuckDB needs its own package: install it with pip install 'rapgnn[big]'.") from None
    path = url.removeprefix(DUCKDB)
    if not Path(path).is_file():
        raise InputError(f"there is no file {path}: {DUCKDB}shop.duckdb names shop.duckdb in this folder.")
    try:
        with duckdb.connect(path, read_only=True) as connection:
            names = [name for (name,) in connection.execute("SHOW TABLES").fetchall()]
            quoted = {name: '"' + name.replace('"', '""') + '"' for name in names}
            tables = {name: connection.execute(f"SELECT * FROM {quoted[name]}").df() for name in names}
    except duckdb.Error as error:
        raise InputError(f"cannot use {url}: {str(error).splitlines()[0].rstrip('.')}.") from None
    return tables, {}


def _columns(names: list[str], chunks: Iterable[Any]) -> pd.DataFrame:
    """Rows as columns of numbers, dates and words; equal words are one object."""
    parts: list[list[np.ndarray]] = [[] for _ in names]
    words: list[dict[Any, Any]] = [{} for _ in names]
    for chunk in chunks:
        for part, seen, values in zip(parts, words, zip(*chunk, strict=True), strict=True):
            part.append(_array(values, seen))
    return pd.DataFrame({name: _joined(part) for name, part in zip(names, parts, strict=True)})


def _array(values: tuple[Any, ...], seen: dict[Any, Any]) -> np.ndarray:
    kinds = {type(value) for value in values} - {type(None)}
    if kinds <= {int, bool} and kinds and None not in values:
        try:
            return np.array(values, dtype=np.int64)
        except OverflowError:
            pass
    if kinds and all(kind in (int, bool, float) or kind.__name__ == "Decimal" for kind in kinds):
        return np.array([np.nan if value is None else float(value) for value in values])
    if kinds and all(kind.__name__ in ("datetime", "date", "Timestamp") for kind in kinds):
        return pd.to_datetime(pd.Series(values, dtype=object), utc=True).dt.tz_localize(None).to_numpy("datetime64[s]")
    text = ("" if isinstance(value, bytes | memoryview) else value for value in values)
    return np.array([None if v is None else seen.setdefault(v, v) for v in map(_text, text)], dtype=object)


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else str(value)


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """The parts of a column as one; a part of nothing but gaps is of any kind."""
    if not parts:
        return np.zeros(0)
    filled = [part for part in parts if not (part.dtype == object and all(value is None for value in part))]
    kinds = {part.dtype.kind for part in filled}
    if (len(kinds) == 1 and kinds <= {"f", "M"}) or kinds == {"i", "f"}:
        kind = next(part.dtype for part in filled if part.dtype.kind in "fM")
        gap = np.array(np.nan if kind.kind == "f" else "NaT").astype(kind)
        return np.concatenate(
            [part.astype(kind) if part.dtype != object else np.full(len(part), gap) for part in parts]
        )
    if len(kinds) > 1:
        parts = [np.array([_text(None if pd.isna(v) else v) for v in part.tolist()], dtype=object) for part in parts]
    return np.concatenate(parts)


def write_table(table: pd.DataFrame, url: str, name: str) -> None:
    """Write a new table into a database, in one transaction: all of it or nothing."""
    if url.startswith(DUCKDB):
        raise InputError("predictions cannot go into a DuckDB file so far: write a Parquet file, which DuckDB reads.")
    with _engine(url, write=True) as engine:
        if _alchemy().inspect(engine).has_table(name):
            raise InputError(f"{hidden(url)} has a table {shown(name)} already: name a new one.")
        with engine.begin() as connection:
            table.to_sql(name, connection, index=False, if_exists="fail", chunksize=ROWS)
