"""The tables of a user's files in a database on disk (DuckDB), which sorts and joins what does not fit into memory."""

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from rapgnn.datasets.columns import Reading
from rapgnn.datasets.dialect import GAPS, Dialect, find_dialect
from rapgnn.datasets.dialect import Options as CsvOptions
from rapgnn.datasets.folder import HOLDS
from rapgnn.datasets.frames import FEATURES, Frame
from rapgnn.errors import InputError, OutputError, shown
from rapgnn.files import open_regular

NEEDED = "files larger than memory need duckdb and pyarrow: install them with pip install 'rapgnn[big]'."
SHARE, BESIDE = 0.6, 640 << 20  # the memory that the database may use at most; the rest is for Python and its batches
LEAST = 64 << 20
CANONICAL, WHOLE = "^(0|-?[1-9][0-9]{0,17})$", "^-?[0-9]+$"  # whole numbers, the first written the one way they can be
_PLAIN = {d: rf"^[+-]?((\d+([{d}]\d*)?|[{d}]\d+)([eE][+-]?\d{{1,3}})?|(?i:inf|infinity))$" for d in ".,"}
_ENCODINGS = {"utf-8": "utf-8", "utf-8-sig": "utf-8", "latin-1": "latin-1", "iso8859-1": "latin-1", "utf-16": "utf-16"}


def quoted(name: str) -> str:
    """A column's name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Words in SQL."""
    return "'" + text.replace("'", "''") + "'"


class Database:
    """A file of tables. Rows of a table keep the order in which they were put in, and ``rowid`` numbers them."""

    def __init__(self, folder: Path, memory: int, threads: int | None = None):
        try:
            import duckdb
            import pyarrow  # noqa: F401 - rows come as its batches
        except ImportError as error:
            raise InputError(NEEDED) from error
        self._error: type[Exception] = duckdb.Error
        self._full: type[Exception] = duckdb.OutOfMemoryException
        with self.faults(folder):
            self._base = duckdb.connect(str(folder / "work.duckdb"))
            own = max(LEAST, min(int(SHARE * memory), memory - BESIDE))
            self._base.execute(f"SET memory_limit='{own >> 20}MiB'")
            self._base.execute(f"SET temp_directory={literal(str(folder / 'spill'))}")
            self._base.execute("SET enable_progress_bar=false")
            if threads is not None:
                self._base.execute(f"SET threads={threads}")

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *rest: object) -> None:
        self._base.close()

    @contextlib.contextmanager
    def faults(self, where: Any) -> Iterator[None]:
        """What the database says of a file that it cannot read, as one sentence."""
        try:
            yield
        except self._full as error:
            said = f"the conversion ran out of memory or disk: {_first_line(error)}"
            raise OutputError(f"{said}: allow more memory (--memory), or free disk space.") from error
        except self._error as error:
            raise InputError(f"cannot read {where}: {_first_line(error)}.") from error

    def run(self, sql: str, where: Any = "the tables", ordered: bool = True) -> None:
        """A statement without an answer; ``ordered``: rows keep their order."""
        with self.faults(where):
            self._base.execute(f"SET preserve_insertion_order={str(ordered).lower()}")
            self._base.execute(sql)

    def row(self, sql: str, where: Any = "the tables") -> tuple[Any, ...]:
        """The first row of an answer; empty where there is none."""
        with self.faults(where):
            return self._base.execute(sql).fetchone() or ()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of a short answer."""
        with self.faults("the tables"):
            return self._base.execute(sql).fetchall()

    def batches(self, sql: str, size: int, where: Any = "the tables", ordered: bool = True) -> Iterator[Any]:
        """The answer as Arrow batches of about ``size`` rows."""
        with self.faults(where):
            yield from self._reader(sql, size, ordered)

    def frame(self, path: Path, table: str, limit: int) -> Frame:
        """The first rows of a table, with its columns and their types."""
        with self.faults(path):
            return Frame(path, self._reader(f"SELECT * FROM {table} LIMIT {limit}", limit, True).read_all().to_pandas())

    def _reader(self, sql: str, size: int, ordered: bool) -> Any:
        self._base.execute(f"SET preserve_insertion_order={str(ordered).lower()}")
        answer = self._base.sql(sql)
        return (getattr(answer, "to_arrow_reader", None) or answer.fetch_arrow_reader)(max(1, size))

    def tables(self) -> set[str]:
        """The names of the tables and views that there are."""
        return {row[0] for row in self.rows("SELECT table_name FROM information_schema.tables")}

    def load(self, name: str, files: Sequence[Path], words: Sequence[str], options: CsvOptions) -> Dialect | None:
        """Make files a view called ``name``, columns typed; gives how CSV files are written.

        Parquet files are read where they lie. CSV files are read once, into a table of words, and every column whose
        cells are all numbers becomes one of numbers, as the reader of small files does it.

        Args:
            words: columns, in lower case, whose cells are names: 01 is not 1.
        """
        listed = "[" + ", ".join(literal(str(path)) for path in files) + "]"
        if files[0].suffix == ".parquet":
            self.run(
                f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM read_parquet({listed}, binary_as_string=true)",
                files[0],
            )
            return None
        dialect = find_dialect(files[0], options, words)
        columns = _header(files, dialect)
        typed = "{" + ", ".join(f"{literal(column)}: 'VARCHAR'" for column in columns) + "}"
        encoding = _ENCODINGS.get(dialect.encoding.lower())
        if encoding is None:
            raise InputError(
                f"cannot read {files[0]}: larger than memory, text must be UTF-8, UTF-16 or Latin-1, not "
                f"{dialect.encoding}: write it as UTF-8 first."
            )
        form = f"header=true, auto_detect=false, delim={literal(dialect.sep)}, quote='\"', escape='\"', nullstr=''"
        form += f", skip={dialect.skip}, encoding='{encoding}', columns={typed}"
        self.run(f"CREATE OR REPLACE TABLE {name}_read AS SELECT * FROM read_csv({listed}, {form})", files[0])
        chosen = ", ".join(self._typed(f"{name}_read", column, dialect.decimal, words) for column in columns)
        self.run(f"CREATE OR REPLACE VIEW {name} AS SELECT {chosen} FROM {name}_read")
        return dialect

    def _typed(self, table: str, column: str, decimal: str, words: Sequence[str]) -> str:
        """The SQL that reads a column of words as what it is."""
        cell = quoted(column)
        gaps = ", ".join(map(literal, GAPS))
        total, known, canonical, whole, gapped, plain, truth = self.row(
            f"SELECT count(*), count({cell}), count(*) FILTER (regexp_matches({cell}, '{CANONICAL}')), "
            f"count(*) FILTER (regexp_matches({cell}, '{WHOLE}') AND TRY_CAST({cell} AS BIGINT) IS NOT NULL), "
            f"count(*) FILTER ({cell} IN ({gaps})), "
            f"count(*) FILTER (regexp_matches(trim({cell}), '{_PLAIN[decimal]}')), "
            f"count(*) FILTER ({cell} IN ('True', 'TRUE', 'true', 'False', 'FALSE', 'false')) FROM {table}"
        )
        if column.strip().lower() in words:
            return f"CAST({cell} AS BIGINT) AS {cell}" if total and canonical == total else cell
        if not known:
            return f"CAST(NULL AS DOUBLE) AS {cell}" if total else cell
        if whole == known:
            return f"CAST({cell} AS BIGINT) AS {cell}"
        if plain and plain + gapped == known:
            number = f"CASE WHEN {cell} IN ({gaps}) THEN NULL ELSE {cell} END" if gapped else cell
            number = f"replace({number}, ',', '.')" if decimal == "," else number
            return f"CAST(trim({number}) AS DOUBLE) AS {cell}"
        return f"CAST({cell} AS BOOLEAN) AS {cell}" if truth == total else cell


def _header(files: Sequence[Path], dialect: Dialect) -> list[str]:
    """The columns' names; the same in all files."""
    form: dict[str, Any] = {"sep": dialect.sep, "encoding": dialect.encoding, "skiprows": dialect.skip}
    names: list[str] = []
    for path in files:
        try:
            first = pd.read_csv(path, header=None, nrows=1, dtype=str, index_col=False, keep_default_na=False, **form)
        except (pd.errors.EmptyDataError, pd.errors.ParserError, OSError, UnicodeError) as error:
            reason = "it is empty" if isinstance(error, pd.errors.EmptyDataError) else "it is not a table of text"
            raise InputError(f"cannot read {path}: {reason}.") from error
        found = [str(name) or f"Unnamed: {i}" for i, name in enumerate(first.iloc[0])]
        if len(set(found)) < len(found):
            raise InputError(f"two columns of {path} have the same name: {shown(_twice(found))}.")
        if names and found != names:
            raise InputError(f"{path} has other columns than {files[0].name}: {', '.join(found)}.")
        names = found
    return names


def _twice(names: list[str]) -> str:
    return next(name for i, name in enumerate(names) if name in names[:i])


def _first_line(error: Exception) -> str:
    """The first sentence of what the database says, without its own kind of error."""
    said = str(error).strip().splitlines() or [type(error).__name__]
    return re.sub(r"^[A-Za-z ]*Error: ", "", said[0]).rstrip(".:")


# The files of a graph that is larger than memory, where they lie in a user's folder, and what tells them from others.
# The folder is the one that ``rapgnn fit`` reads. Beyond that a table may be many files, ``edges-0.parquet``,
# ``edges-1.parquet`` or all files in ``edges/``, in the order of their names, and features may be an array in
# ``features.npy``, with a row per row of ``nodes``.


ENDINGS = (".parquet", ".csv", ".csv.gz", ".tsv", ".tsv.gz")
PIECE = 1 << 20  # bytes of a file's beginning and of its end that its key is made of
VERSION = 1  # of what a conversion makes of files; raise it when that changes


@dataclass(frozen=True)
class Sources:
    """The files of one graph.

    Args:
        nodes, edges: files of one kind each, in order.
        features: an array of features, rows in the order of the nodes; None: they are columns of ``nodes``.
    """

    folder: Path
    nodes: tuple[Path, ...]
    edges: tuple[Path, ...]
    features: Path | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        return (*self.nodes, *self.edges, *([] if self.features is None else [self.features]))

    def key(self, reading: Reading) -> str:
        """Sixteen hexadecimal digits that change with the files and with how they are read.

        A file counts by its name, its size, its time of change, and its first and last megabyte: hashing terabytes
        would take as long as the conversion.
        """
        digest = hashlib.sha256(json.dumps([VERSION, _plain(asdict(reading))], sort_keys=True, default=str).encode())
        for path in self.files:
            found = path.stat()
            digest.update(f"{path.name} {found.st_size} {found.st_mtime_ns} ".encode())
            with open_regular(path) as file:
                digest.update(file.read(PIECE))
                file.seek(max(0, found.st_size - PIECE))
                digest.update(file.read(PIECE))
        return digest.hexdigest()[:16]


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value not in (None, (), [], False)}


def find_sources(folder: Path | str) -> Sources:
    """The files in a user's folder; refused where it is no folder of one graph with a table of nodes."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder: {HOLDS}.")
    if _files(folder, "graphs"):
        raise InputError(f"{folder} holds many graphs; only one graph can be larger than memory.")
    found = {stem: _files(folder, stem) for stem in ("nodes", "edges")}
    for stem, files in found.items():
        if not files:
            other = (
                " (a .npz file is read into memory: write it as Parquet)" if (folder / f"{stem}.npz").exists() else ""
            )
            raise InputError(f"{folder / stem}.csv (or .parquet) is missing{other}: {HOLDS}.")
    features = folder / FEATURES
    return Sources(folder, found["nodes"], found["edges"], features if features.is_file() else None)


def _files(folder: Path, stem: str) -> tuple[Path, ...]:
    """The files of one table; files of two kinds are refused."""
    found: list[list[Path]] = []
    for ending in ENDINGS:
        patterns = (f"{stem}{ending}", f"{stem}-*{ending}", f"{stem}_*{ending}", f"{stem}/*{ending}")
        patterns = (*patterns, f"{stem}{ending}/*{ending}")  # a folder called edges.parquet, as Spark writes one
        files = sorted({path for pattern in patterns for path in folder.glob(pattern) if path.is_file()})
        found += [files] if files else []
    if len(found) > 1:
        raise InputError(f"{folder} holds {' and '.join(files[0].name for files in found)}: keep one of them.")
    return tuple(found[0]) if found else ()
