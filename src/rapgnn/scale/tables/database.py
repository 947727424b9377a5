"""The tables of a user's files in a database on disk (DuckDB), which sorts and joins what does not fit into memory."""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from rapgnn.datasets.columns import Reading
from rapgnn.datasets.frames import FEATURES, GAPS, GROUPED, MARKS, NUMBER, UNIT, UNITS, Dialect, find_dialect
from rapgnn.datasets.tables import HOLDS
from rapgnn.errors import InputError, OutputError, shown
from rapgnn.files import BROKEN, check_unpacked, open_regular

SHARE, BESIDE = 0.6, 640 << 20  # the memory that the database may use at most; the rest is for Python and its batches
LEAST = 64 << 20
CANONICAL, WHOLE = "0|-?[1-9][0-9]{0,17}", "-?[0-9]+"  # whole numbers, the first written the one way they can be
_PLAIN = {"DATE": "TIMESTAMP", "DECIMAL": "DOUBLE"}  # types that are read as others
_ENCODINGS = {"utf-8": "utf-8", "utf-8-sig": "utf-8", "latin-1": "latin-1", "utf-16": "utf-16"}


def literal(text: str) -> str:
    """Words in SQL."""
    return "'" + text.replace("'", "''") + "'"


def path_literal(path: Path) -> str:
    """A file's name in SQL, where marks such as * and [ stand for themselves."""
    return literal(re.sub(r"[*?[]", r"[\g<0>]", _text(path)))


def _text(path: Path, but: str = "\0") -> str:
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise InputError(f"cannot read {path!r}: its name is no text in UTF-8, so rename it.") from error
    if but in str(path):
        raise InputError(f"the database cannot write below {path}: take a folder without {but} in its name.")
    return str(path)


class Database:
    """A file of tables. Rows of a table keep the order in which they were put in, and ``rowid`` numbers them.

    Columns of a user's tables are called c0, c1, ... here: names in SQL do not tell w from W. ``columns`` has their own
    names, by table.
    """

    def __init__(self, folder: Path, memory: int, threads: int | None = None):
        try:
            import duckdb
            import pyarrow  # noqa: F401 - rows come as its batches
        except ImportError as error:
            raise InputError(
                "files larger than memory need duckdb and pyarrow: install them with pip install 'rapgnn[big]'."
            ) from error
        self.columns: dict[str, list[str]] = {}
        self._error: type[Exception] = duckdb.Error
        self._full: type[Exception] = duckdb.OutOfMemoryException
        with self.faults(folder):
            self._base = duckdb.connect(_text(folder / "work.duckdb", "?"))
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
        except self._error as error:
            if isinstance(error, self._full) or any(os.strerror(code) in str(error) for code in BROKEN):
                cure = "allow more memory (`memory`), or free disk space"
                raise OutputError(f"the conversion ran out of memory or disk: {cure}.") from error
            reason = re.sub(r"^[A-Za-z ]*Error: ", "", str(error).strip().partition("\n")[0]).rstrip(".:")
            raise InputError(f"cannot read {where}: {reason}.") from error

    def run(self, sql: str, where: Any = "the tables", ordered: bool = True) -> None:
        """A statement without an answer; ``ordered``: rows keep their order."""
        with self.faults(where):
            self._base.execute(f"SET preserve_insertion_order={str(ordered).lower()}")
            self._base.execute(sql)

    def row(self, sql: str, where: Any = "the tables") -> tuple[Any, ...]:
        """The only row of an answer; empty where there is none."""
        return next(iter(self.rows(sql, where)), ())

    def rows(self, sql: str, where: Any = "the tables") -> list[tuple[Any, ...]]:
        """All rows of a short answer."""
        with self.faults(where):
            return self._base.execute(sql).fetchall()

    def batches(self, sql: str, size: int, where: Any = "the tables") -> Iterator[Any]:
        """The answer as Arrow batches of about ``size`` rows."""
        with self.faults(where):
            self._base.execute("SET preserve_insertion_order=true")
            answer = self._base.sql(sql)
            yield from (getattr(answer, "to_arrow_reader", None) or answer.fetch_arrow_reader)(max(1, size))

    def table(self, sql: str, where: Any = "the tables") -> pd.DataFrame:
        """The answer as a table in memory."""
        with self.faults(where):
            return self._base.sql(sql).to_arrow_table().to_pandas()

    def cell(self, table: str, name: Any) -> str:
        """What a column is called in SQL."""
        return f"c{self.columns[table].index(str(name))}"

    def first(self, table: str, rows: int, where: Any) -> pd.DataFrame:
        """The first rows of a user's table."""
        return self.table(f"SELECT * FROM {table} LIMIT {rows}", where).set_axis(self.columns[table], axis=1)

    def load(self, name: str, files: Sequence[Path], words: Sequence[str], reading: Reading) -> list[str]:
        """Make files a view called ``name``, columns typed; gives how CSV files are written, where that is not plain.

        Parquet files are read where they lie. CSV files are read once, into a table of words, and every column whose
        cells are all numbers becomes one of numbers, as the reader of small files does it.

        Args:
            words: columns, in lower case, whose cells are names: 01 is not 1.
        """
        listed = "[" + ", ".join(map(path_literal, files)) + "]"
        if files[0].suffix == ".parquet":
            columns = _same_columns(files, _parquet_header)
            self.columns[name] = columns
            cells = [f"c{i}" for i in range(len(columns))]
            source = f"read_parquet({listed}, binary_as_string=true) AS t({', '.join(cells)})"
            described = self.rows(f"DESCRIBE SELECT * FROM {source}", files[0])
            types = {cell: _PLAIN.get(kind.partition("(")[0], kind) for cell, kind, *_ in described}
            chosen = ", ".join(f"CAST({cell} AS {kind}) AS {cell}" for cell, kind in types.items())
            self.run(f"CREATE OR REPLACE VIEW {name} AS SELECT {chosen} FROM {source}", files[0])
            return []
        for path in files:
            if path.suffix == ".gz":
                check_unpacked(path)
        dialect = find_dialect(files[0], reading.options, words)
        columns = _same_columns(files, lambda path: _csv_header(path, dialect))
        self.columns[name] = columns
        encoding = _ENCODINGS.get(dialect.encoding.lower())
        if encoding is None:
            raise InputError(
                f"cannot read {files[0]}: larger than memory, text must be UTF-8, UTF-16 or Latin-1, not "
                f"{dialect.encoding}: write it as UTF-8 first."
            )
        typed = "{" + ", ".join(f"'c{i}': 'VARCHAR'" for i in range(len(columns))) + "}"
        form = f"header=true, auto_detect=false, delim={literal(dialect.sep)}, quote='\"', escape='\"', nullstr=''"
        form += f", skip={dialect.skip}, encoding='{encoding}', columns={typed}"
        self.run(f"CREATE OR REPLACE TABLE {name}_read AS SELECT * FROM read_csv({listed}, {form})", files[0])
        chosen = [
            self._typed(f"{name}_read", f"c{i}", dialect.decimal, column.strip().lower() in words)
            for i, column in enumerate(columns)
        ]
        self.run(f"CREATE OR REPLACE VIEW {name} AS SELECT {', '.join(sql for sql, _ in chosen)} FROM {name}_read")
        grouped = [column for column, (_, marked) in zip(columns, chosen, strict=True) if marked]
        return dialect.notes(files[0], grouped)

    def _typed(self, table: str, cell: str, decimal: str, is_name: bool) -> tuple[str, bool]:
        """The SQL that reads a column of words as what it is, and whether its numbers mark their thousands."""
        gaps = ", ".join(map(literal, GAPS))
        unit = f"SELECT regexp_extract({cell}, '{UNITS}') AS unit FROM {table} WHERE {cell} NOT IN ({gaps})"
        (unit,) = self.row(f"SELECT count(DISTINCT unit) = 1 AND max(unit) <> '' FROM ({unit})")
        bare = f"regexp_replace(trim({cell}), {literal(UNIT)}, '\\1')" if unit else f"trim({cell})"

        def fits(pattern: str) -> str:
            return f"count(*) FILTER (regexp_full_match({bare}, {literal(pattern)}))"

        marks = list(dict.fromkeys((decimal, ".")))  # among decimal commas there may be a column with points
        numbered = ", ".join(f"{fits(NUMBER[d] + '|[+-]?(?i:inf|infinity)')}, {fits(GROUPED[d])}" for d in marks)
        total, known, canonical, whole, gapped, truth, *counts = self.row(
            f"SELECT count(*), count({cell}), {fits(CANONICAL)}, "
            f"count(*) FILTER (regexp_full_match({cell}, '{WHOLE}') AND TRY_CAST({cell} AS BIGINT) IS NOT NULL), "
            f"count(*) FILTER ({cell} IN ({gaps})), count(*) FILTER (lower({cell}) IN ('true', 'false')), {numbered} "
            f"FROM {table}"
        )
        fitting = (d for d, numbers in zip(marks, counts[::2], strict=True) if numbers and numbers + gapped == known)
        mark = next(fitting, None)
        read, marked = cell, False
        if is_name:
            read = f"CAST({cell} AS BIGINT)" if total and canonical == total else cell
        elif not known:
            read = "CAST(NULL AS DOUBLE)" if total else cell
        elif whole == known:
            read = f"CAST({cell} AS BIGINT)"
        elif mark is not None:
            number = f"CASE WHEN {cell} NOT IN ({gaps}) THEN {bare} END"
            if counts[2 * marks.index(mark) + 1]:
                number, marked = f"regexp_replace({number}, {literal(MARKS[mark])}, '', 'g')", True
            read = f"CAST(replace({number}, '{mark}', '.') AS DOUBLE)"
        elif truth == total:
            read = f"CAST({cell} AS BOOLEAN)"
        return f"{read} AS {cell}", marked


def _same_columns(files: Sequence[Path], header: Callable[[Path], list[str]]) -> list[str]:
    """The columns' names; the same in all files."""
    names = [header(path) for path in files]
    for path, own in zip(files, names, strict=True):
        twice = pd.Index(own)[pd.Index(own).duplicated()]
        if len(twice):
            raise InputError(f"two columns of {path} have the same name: {shown(twice[0])}.")
        if own != names[0]:
            raise InputError(f"{path} has other columns than {files[0].name}: {', '.join(own)}.")
    return names[0]


def _parquet_header(path: Path) -> list[str]:
    import pyarrow.parquet as pq

    try:
        return list(pq.read_schema(path).names)
    except Exception as error:  # pyarrow has no common base for what a broken file raises
        raise InputError(f"cannot read {path}: it is not a Parquet file, or a damaged one.") from error


def _csv_header(path: Path, dialect: Dialect) -> list[str]:
    form: dict[str, Any] = {"sep": dialect.sep, "encoding": dialect.encoding, "skiprows": dialect.skip}
    try:
        first = pd.read_csv(path, header=None, nrows=1, dtype=str, index_col=False, keep_default_na=False, **form)
    except (pd.errors.EmptyDataError, pd.errors.ParserError, OSError, UnicodeError) as error:
        raise InputError(f"cannot read {path}: it is empty, or no table of text.") from error
    return [str(name) or f"Unnamed: {i}" for i, name in enumerate(first.iloc[0])]


# The files of a graph that is larger than memory, where they lie in a user's folder, and what tells them from others.
# The folder is the one that ``rapgnn fit`` reads. Beyond that a table may be many files, ``edges-0.parquet``,
# ``edges-1.parquet`` or all files in ``edges/``, in the order of their names, and features may be an array in
# ``features.npy``, with a row per row of ``nodes``.


ENDINGS = (".parquet", ".csv", ".csv.gz", ".tsv", ".tsv.gz")
PIECE = 1 << 20  # bytes of a file's beginning and of its end that its key is made of
VERSION = 2  # of what a conversion makes of files; raise it when that changes


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
        options = {name: value for name, value in asdict(reading).items() if value not in (None, (), [], False)}
        digest = hashlib.sha256(json.dumps([VERSION, options], sort_keys=True, default=str).encode())
        for path in self.files:
            state = path.stat()
            digest.update(f"{path.name} {state.st_size} {state.st_mtime_ns} ".encode())
            with open_regular(path) as file:
                digest.update(file.read(PIECE))
                file.seek(max(0, state.st_size - PIECE))
                digest.update(file.read(PIECE))
        return digest.hexdigest()[:16]


def find_sources(folder: Path | str) -> Sources:
    """The files in a user's folder; refused where it is no folder of one graph with a table of nodes."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder: {HOLDS}.")
    if _files(folder, "graphs"):
        raise InputError(f"{folder} holds many graphs; only one graph can be larger than memory.")
    nodes, edges = (_files(folder, stem) for stem in ("nodes", "edges"))
    for stem, files in (("nodes", nodes), ("edges", edges)):
        if not files:
            other = " (a .npz file is read into memory: write it as Parquet)"
            other = other if (folder / f"{stem}.npz").exists() else ""
            raise InputError(f"{folder / stem}.csv (or .parquet) is missing{other}: {HOLDS}.")
    features = folder / FEATURES
    return Sources(folder, nodes, edges, features if features.is_file() else None)


def _files(folder: Path, stem: str) -> tuple[Path, ...]:
    """The files of one table; files of two kinds are refused."""
    kinds: list[list[Path]] = []
    for ending in ENDINGS:
        patterns = (f"{stem}{ending}", f"{stem}-*{ending}", f"{stem}_*{ending}", f"{stem}/*{ending}")
        patterns = (*patterns, f"{stem}{ending}/*{ending}")  # a folder called edges.parquet, as Spark writes one
        files = sorted({path for pattern in patterns for path in folder.glob(pattern) if path.is_file()})
        kinds += [files] if files else []
    if len(kinds) > 1:
        raise InputError(f"{folder} holds {' and '.join(files[0].name for files in kinds)}: keep one of them.")
    return tuple(kinds[0]) if kinds else ()
