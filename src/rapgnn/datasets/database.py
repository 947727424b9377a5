"""A database as the input, through SQLAlchemy: tables, keys and foreign keys by reflection, rows streamed, read only.

DuckDB needs no more than its own package. Nothing is written but predictions, and those only where they are asked for.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from rapgnn.datasets.columns import Reading
from rapgnn.datasets.keyed import SCHEMA, Content, Keys, read_keyed, read_schema
from rapgnn.errors import InputError, shown
from rapgnn.graph.graph import Graph

ROWS = 20_000  # that are in memory as Python objects at a time
DUCKDB = "duckdb:///"


def is_database(name: str | Path) -> bool:
    """Whether this is the URL of a database."""
    return re.match(r"[A-Za-z][\w+]*://", str(name)) is not None


def read_database(url: str, reading: Reading) -> Graph:
    """The graph of the tables of a database; ``schema.toml`` in the working folder says what keys do not."""

    def content() -> Content:
        tables, declared = (_read_duckdb if url.startswith(DUCKDB) else _read_sql)(url)
        if not tables:
            raise InputError(f"{hidden(url)} holds no tables.")
        said = read_schema(Path(SCHEMA))
        return tables, declared, {name: about for name, about in said.items() if name in tables}

    name = re.split(r"[/\\]", url.partition("?")[0])[-1].partition(".")[0] or "database"
    return read_keyed(content, name, reading)


def hidden(url: str) -> str:
    """A URL without its password."""
    return re.sub(r"(://[^:/@]*):[^@/]*@", r"\1:***@", url)


def _alchemy() -> Any:
    try:
        import sqlalchemy
    except ImportError:
        raise InputError("a database needs SQLAlchemy: install it with pip install 'rapgnn[sql]'.") from None
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
    except InputError:
        raise
    except (alchemy.exc.SQLAlchemyError, pd.errors.DatabaseError, ImportError, ValueError) as error:
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
        with engine.connect().execution_options(stream_results=True) as connection:
            for name, table in data.tables.items():
                columns = [one for one in table.columns if not isinstance(one.type, alchemy.LargeBinary)]
                if not columns:  # nothing but bytes
                    continue
                parts = pd.read_sql_query(alchemy.select(*columns), connection, chunksize=ROWS)
                whole = pd.concat(parts, ignore_index=True)
                tables[name] = pd.DataFrame({column: _plain(values) for column, values in whole.items()})
        keys = {name: [one.name for one in table.primary_key.columns] for name, table in data.tables.items()}
        keys = {name: key[0] for name, key in keys.items() if len(key) == 1 and key[0] in tables.get(name, ())}
        for name in tables:
            ends = [one for one in about.get_foreign_keys(name) if len(one["constrained_columns"]) == 1]
            foreign = {one["constrained_columns"][0]: one["referred_table"] for one in ends}
            foreign = {column: other for column, other in foreign.items() if other in keys}
            if foreign:
                declared |= {other: Keys(keys[other]) for other in foreign.values() if other not in declared}
                declared[name] = Keys(keys.get(name), foreign)
    return tables, declared


def _plain(values: pd.Series) -> pd.Series:
    """A column of numbers, dates or words; what is none of these becomes words."""
    if values.dtype != object:
        return values
    kind = pd.api.types.infer_dtype(values, skipna=True)
    if kind in ("integer", "floating", "mixed-integer-float", "decimal", "boolean"):
        return values.astype(float)
    if kind in ("date", "datetime", "datetime64"):
        return pd.to_datetime(values, utc=True).dt.tz_localize(None)
    return values.map(str, na_action="ignore")


@contextmanager
def _duckdb(url: str, write: bool = False) -> Iterator[Any]:
    """As ``_engine``, for a DuckDB file."""
    try:
        import duckdb
    except ImportError:
        raise InputError("DuckDB needs its own package: install it with pip install 'rapgnn[big]'.") from None
    path = url.removeprefix(DUCKDB)
    if not Path(path).is_file():
        raise InputError(f"there is no file {path}: {DUCKDB}shop.duckdb names shop.duckdb in this folder.")
    try:
        with duckdb.connect(path, read_only=not write) as connection:
            yield connection
    except duckdb.Error as error:
        raise InputError(f"cannot use {url}: {str(error).splitlines()[0].rstrip('.')}.") from None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _read_duckdb(url: str) -> tuple[dict[str, pd.DataFrame], dict[str, Keys]]:
    with _duckdb(url) as connection:
        names = [name for (name,) in connection.execute("SHOW TABLES").fetchall()]
        tables = {name: connection.execute(f"SELECT * FROM {_quoted(name)}").df() for name in names}
        return tables, {}


def write_table(table: pd.DataFrame, url: str, name: str) -> None:
    """Write a new table into a database, in one transaction: all of it or nothing."""
    if url.startswith(DUCKDB):
        with _duckdb(url, write=True) as connection:
            if (name,) in connection.execute("SHOW TABLES").fetchall():
                raise InputError(f"{url} has a table {shown(name)} already: name a new one.")
            connection.register("the_predictions", table)
            connection.execute(f"CREATE TABLE {_quoted(name)} AS SELECT * FROM the_predictions")
        return
    with _engine(url, write=True) as engine:
        if _alchemy().inspect(engine).has_table(name):
            raise InputError(f"{hidden(url)} has a table {shown(name)} already: name a new one.")
        with engine.begin() as connection:
            table.to_sql(name, connection, index=False, if_exists="fail", chunksize=ROWS)
