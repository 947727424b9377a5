"""One file of a user's folder as a table: CSV, TSV, Parquet or npz, found by its stem; and how a CSV file is written.

A CSV file's encoding, what separates its cells, and its decimal point or comma: plain is UTF-8, comma, point. Anything
else is taken only where the file's first lines leave no doubt; an option wins.
"""

import codecs
import csv
import gzip
import io
import re
import warnings
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rapgnn.errors import InputError, check_choice, shown
from rapgnn.files import check_unpacked
from rapgnn.graph.validate import native

WIDEST = 100_000  # columns, with names of 80 bytes
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_SPELLED = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "bar": "|", "pipe": "|", "space": " "}


@dataclass(frozen=True)
class Dialect:
    """How one CSV file is read, or what a user says of all of a folder; an empty word: the file tells.

    Args:
        skip: lines before its header.
        unsure: columns of numbers such as 1.234, whose points might mark thousands.
    """

    sep: str = ""
    decimal: str = ""
    encoding: str = ""
    skip: int = 0
    unsure: tuple[str, ...] = ()

    @classmethod
    def of(cls, sep: str | None, decimal: str | None, encoding: str | None) -> "Dialect":
        """What a user says, checked, separators by their characters."""
        if sep is not None:
            given, sep = sep, _SPELLED.get(sep.lower(), sep) if isinstance(sep, str) else ""
            if len(sep) != 1 or sep in '"\r\n' or sep.isalnum():
                raise InputError(f"`sep` must be one character or the word tab, got {shown(given)}.")
        if decimal is not None:
            check_choice("`decimal`", decimal, (".", ","))
        if sep is not None and sep == decimal == ".":
            raise InputError("`sep` and `decimal` cannot both be a point.")
        try:
            "".encode(encoding or "utf-8")
        except (LookupError, TypeError, ValueError):
            known = "utf-8, cp1252, latin-1, utf-16"
            raise InputError(f"`encoding` {shown(encoding)} is unknown: {known} are known, say.") from None
        return cls(sep or "", decimal or "", encoding or "")

    def notes(self, path: Path, grouped: Sequence[str] = ()) -> list[str]:
        """What is not plain, in words; ``grouped``: columns whose numbers mark their thousands."""
        plain = ",\t" if ".tsv" in path.name else ","
        notes = [] if self.sep in plain else [f"{SEPARATORS.get(self.sep, repr(self.sep))} between cells"]
        notes += ["decimal commas"] if self.decimal == "," else []
        notes += [f"points in {', '.join(self.unsure[:5])} taken for decimal points"] if self.unsure else []
        notes += [] if self.encoding.startswith("utf-8") else [f"encoding {self.encoding}"]
        marked = f"thousands separators in {', '.join(grouped[:5])}{', ...' * (len(grouped) > 5)}"
        return [*notes, marked] if grouped else notes


def find_dialect(path: Path, given: Dialect, names: Sequence[str] = (), most: int = 1 << 18) -> Dialect:
    """How the file is written, by its first lines.

    Args:
        given: what the user says.
        names: columns, in lower case, whose cells are names: they tell nothing about numbers.
        most: bytes that are looked at.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            sample = file.read(most)
            sample += b"" if b"\n" in sample else file.readline(80 * WIDEST)
    except (OSError, EOFError, zlib.error) as error:
        reason = "it is not a gzip file, or a damaged one" if path.suffix == ".gz" else "it cannot be opened"
        raise InputError(f"cannot read {path}: {reason}.") from error
    encoding = given.encoding or _encoding(sample)
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(sample)
    except (UnicodeError, LookupError) as error:
        raise InputError(f"cannot read {path}: it is not text in {encoding}; `encoding` names its encoding.") from error
    excel = re.match(r"(?i)sep=(.)\r?\n", text)  # Excel's own first line
    text = text[excel.end() :] if excel else text
    if max(map(text.partition("\n")[0].count, SEPARATORS)) >= WIDEST or (
        len(sample) >= 80 * WIDEST and "\n" not in text
    ):
        raise InputError(f"cannot read {path}: its first line is too long for {WIDEST:,} columns, so it is no table.")
    if len(sample) >= most:
        text = text[: text.rfind("\n") + 1]  # the last line may be half a line
    sep = given.sep or (excel[1] if excel else "") or _separator(text)
    decimal, unsure = (given.decimal, ()) if given.decimal else _decimal(text, sep, names)
    return replace(given, sep=sep, decimal=decimal, encoding=encoding, skip=1 if excel else 0, unsure=unsure)


def _encoding(sample: bytes) -> str:
    marks = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
    for mark, encoding in marks.items():
        if sample.startswith(mark):
            return encoding
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return "cp1252" if b"\x00" not in sample else "utf-8"
    return "utf-8"


def _rows(text: str, sep: str, most: int = 2000) -> list[list[str]]:
    """The first rows, empty lines left out; none where they cannot be told apart."""
    try:
        return list(islice(filter(None, csv.reader(io.StringIO(text, newline=""), delimiter=sep)), most))
    except csv.Error:
        return []


def _separator(text: str) -> str:
    """The comma, unless the header has none and another separator gives every row as many cells as the header."""
    header = text.lstrip("\r\n").partition("\n")[0]
    best, most = ",", 1
    for sep in filter(header.__contains__, SEPARATORS):
        widths = list(map(len, _rows(text, sep))) or [0]
        even = widths.count(widths[0]) >= 0.9 * len(widths) and max(widths) == widths[0]
        if even and widths[0] > most:
            best, most = sep, widths[0]
            if sep == ",":
                break
    return best


def _decimal(text: str, sep: str, names: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The point, unless there are columns of numbers with commas, and (between commas) none with points.

    Between semicolons, where nothing else shows what points are, the columns that have them are named.
    """
    header, *body = _rows(text, sep) or [[]]
    marks: dict[str, list[str]] = {}  # the columns that show them
    for j, name in enumerate(header):
        if name.strip().lower() not in names:
            cells = {row[j].strip() for row in body if len(row) > j}
            for mark in written_as(cells - {"", *GAPS}):
                marks.setdefault(mark, []).append(name)
    alone = sep == ";" and "point" not in marks
    if ("comma" in marks and (sep != "," or "point" not in marks)) or ("either" in marks and alone):
        return ",", ()
    return ".", tuple(marks.get("plain", ())) if alone else ()


# Numbers as people write them: 1234.5, 1,234.5, 1.234,5 and 1'234.5.


GAPS = ("NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL", "None", "<NA>")  # gaps, among numbers
_THIN = "\u00a0\u202f'\u2019"  # blanks and apostrophes that nothing but a number has between digits
_GROUPS = {".": f",{_THIN}", ",": f". {_THIN}"}
_THOUSANDS = {d: "|".join(f"(?:[{g}]\\d{{3}})+" for g in groups) for d, groups in _GROUPS.items()}
# By the decimal mark: numbers with their thousands marked, all numbers (DuckDB reads both too), and what to leave out.
GROUPED = {d: rf"[+-]?[1-9]\d{{0,2}}(?:{_THOUSANDS[d]})(?:[{d}]\d*)?" for d in _GROUPS}
NUMBER = {d: rf"{GROUPED[d]}|[+-]?(?:\d+(?:[{d}]\d*)?|[{d}]\d+)(?:[eE][+-]?\d{{1,3}})?" for d in _GROUPS}
MARKS = {d: f"[{groups}]" for d, groups in _GROUPS.items()}


UNITS = "[$€£¥%]"  # what may stand before or after all numbers of a column
UNIT = r"^([+-]?)\s*[$€£¥]\s*|\s*[$€£¥%]$"


def written_as(cells: Collection[str]) -> set[str]:
    """What a column's cells show: numbers with a decimal ``"point"``, with a ``"comma"``, or with ``"either"``.

    1,234 may be either; 1.234 is ``"plain"``, though it might be a thousand or so. Nothing where cells have neither
    mark, or are no numbers.
    """
    cells = {re.sub(UNIT, r"\1", cell) for cell in cells}
    marked = {cell for cell in cells if "," in cell or "." in cell}
    fits = {d: all(re.fullmatch(NUMBER[d], cell) for cell in cells) for d in NUMBER}
    if not marked or not any(fits.values()):
        return set()
    if fits["."] and fits[","]:
        return {"either" if any("," in cell for cell in marked) else "plain"}
    return {"point" if fits["."] else "comma"}


def as_numbers(words: pd.Series, decimal: str) -> tuple[pd.Series, bool] | None:
    """A column of words as numbers, and whether some had their thousands marked; None where some are no numbers."""
    number = NUMBER[decimal]
    first = [re.sub(UNIT, r"\1", str(cell).strip()) for cell in words.dropna().head(100)]
    if not all(re.fullmatch(number, cell) or cell in GAPS for cell in first):
        return None
    known = (words.notna() & ~words.isin(GAPS)).to_numpy(dtype=bool)
    cells = pd.Series([str(cell).strip() for cell in words[known]], dtype=object)
    units = cells.str.extract(f"({UNITS})")[0]
    if units.notna().all() and units.nunique() == 1:
        cells = cells.str.replace(UNIT, r"\1", regex=True)
    if not len(cells) or not cells.str.fullmatch(number).all():
        return None
    grouped = cells.str.fullmatch(GROUPED[decimal])
    plain = cells.str.replace(MARKS[decimal], "", regex=True).str.replace(decimal, ".", regex=False)
    numbers = np.full(len(words), np.nan)
    numbers[known] = np.asarray(pd.to_numeric(plain, errors="coerce"), dtype=np.float64)
    return pd.Series(numbers, index=words.index), bool(grouped.any())


FEATURES = "features.npy"
ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".npz")


@dataclass(frozen=True)
class Frame:
    """A table with where it came from.

    Args:
        matrix: the array ``x`` of an npz file, whose rows go with the table's.
        form: how the file is written, where that is not plain.
        ignored: the columns that the user left out; they are not in the table any more.
        alone: no other column is a feature where there is a matrix.
    """

    path: Path
    table: pd.DataFrame
    matrix: np.ndarray | None = None
    form: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    alone: bool = False

    def take(self, *names: str) -> tuple[str, pd.Series] | None:
        """The first column with one of these names, whatever its case."""
        by_name = {str(name).strip().lower(): name for name in reversed(list(self.table.columns))}
        column = next((by_name[name] for name in names if name in by_name), None)
        return None if column is None else (column, self.table.loc[:, column])

    def need(self, *names: str, cure: str = "") -> tuple[str, pd.Series]:
        """That column; refused where there is none, with the option that ``cure``s it."""
        column = self.take(*names)
        if column is None:
            raise InputError(f"{self.path}: there is no column named {names[0]!r}; it has {self.names}{cure}.")
        return column

    @property
    def names(self) -> str:
        """The columns, for a sentence."""
        there = [*([] if self.matrix is None else ["x"]), *map(str, self.table.columns)]
        return ", ".join(there) or "no other column"

    def ignoring(self, names: Sequence[str]) -> "Frame":
        """The table without columns that the user leaves out."""
        gone = tuple(str(name) for name in self.table.columns if str(name) in names)
        return replace(self, table=self.without(names), ignored=gone) if gone else self

    def without(self, names: Sequence[str]) -> pd.DataFrame:
        return self.table.loc[:, [name for name in self.table.columns if name not in names]]


def find_file(folder: Path, stem: str) -> Path | None:
    """``stem.csv``, ``stem.tsv``, either with ``.gz``, ``stem.parquet`` or ``stem.npz``; more than one is refused."""
    paths = [folder / f"{stem}{ending}" for ending in ENDINGS if (folder / f"{stem}{ending}").is_file()]
    if len(paths) > 1:
        raise InputError(f"{folder} holds {' and '.join(p.name for p in paths)}: keep one of them.")
    return paths[0] if paths else None


def read_file(path: Path, words: Sequence[str] = (), options: Dialect | None = None) -> Frame:
    """One table.

    Args:
        words: columns of a CSV file that are names: 01 is not 1, and NA is a name like any other.
        options: how a CSV file is written, where the user says it.
    """
    if path.suffix == ".npz":
        return _from_npz(path)
    try:
        if path.suffix == ".gz":
            check_unpacked(path)
        if path.suffix != ".parquet":
            return checked(_csv(path, words, options or Dialect()))
        table = _parquet(path)
        table = table if isinstance(table.index, pd.RangeIndex) else table.reset_index()
    except InputError:
        raise
    except Exception as error:  # pandas and pyarrow have no common base for what a broken file raises
        raise InputError(f"cannot read {path}: {_reason(error, path)}.") from error
    return checked(Frame(path, table))


def feature_array(path: Path, rows: int) -> np.ndarray:
    """An array of features, memory-mapped, with one row for each of so many nodes."""
    try:
        array = np.load(path, mmap_mode="r" if rows else None, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"cannot read {path}: it is no numpy array, or a damaged one.") from error
    if not isinstance(array, np.ndarray) or array.ndim not in (1, 2) or array.dtype.kind not in "biuf":
        raise InputError(f"{path} must be a table of numbers with a row per node.")
    if len(array) != rows:
        raise InputError(f"{path} has {len(array)} rows, but there are {rows} nodes.")
    return array


def checked(frame: Frame) -> Frame:
    """Refuse names that are there twice, and cells that hold more than one value; bytes are read as words."""
    table = frame.table
    if not table.columns.is_unique:
        raise InputError(f"two columns of {frame.path} have the same name.")
    changed = dict[str, pd.Series]()
    for name, values in table.items():
        kind = pd.api.types.infer_dtype(values, skipna=True) if values.dtype == object else "string"
        if kind in ("date", "decimal"):  # as Parquet files hold them
            changed[str(name)] = values.astype(float) if kind == "decimal" else pd.to_datetime(values)
        elif kind != "string":
            odd = next((v for v in values if not pd.api.types.is_scalar(v)), None)
            if odd is not None:
                given = type(odd).__name__
                raise InputError(f"{frame.path}: column {shown(name)} holds a {given}, not one value per row.")
            try:
                changed[str(name)] = values.map(lambda v: v.decode() if isinstance(v, bytes) else v)
            except UnicodeDecodeError:
                raise InputError(f"{frame.path}: column {shown(name)} holds bytes that are no words.") from None
        elif isinstance(values.dtype, np.dtype) and values.dtype != native(values.to_numpy()[:0]).dtype:
            changed[str(name)] = pd.Series(native(values.to_numpy()), values.index)
    return replace(frame, table=table.assign(**changed)) if changed else frame


def _csv(path: Path, words: Sequence[str], options: Dialect) -> Frame:
    dialect = find_dialect(path, options, words)
    try:
        return _read_csv(path, words, dialect)
    except UnicodeDecodeError as error:
        if options.encoding or not dialect.encoding.startswith("utf-8"):
            raise InputError(
                f"cannot read {path}: it is not text in {dialect.encoding}; `encoding` names its encoding."
            ) from error
        return _read_csv(path, words, replace(dialect, encoding="cp1252"))  # its first lines were plain


def _read_csv(path: Path, words: Sequence[str], dialect: Dialect) -> Frame:
    """The table as the dialect says; numbers are read as numbers, names as they are written."""
    form: dict[str, Any] = {"sep": dialect.sep, "encoding": dialect.encoding, "skiprows": dialect.skip}
    header = pd.read_csv(path, header=None, nrows=1, dtype=str, index_col=False, **form).iloc[0].dropna()
    if header.duplicated().any():  # pandas would rename the second one
        raise InputError(f"two columns of {path} have the same name: {shown(header[header.duplicated()].iloc[0])}.")
    form |= {"keep_default_na": False, "na_values": [""]}  # "None" is a word; an empty cell is a gap
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # rows that are longer than the header
        table = pd.read_csv(path, low_memory=False, index_col=False, **form)
        names = [name for name in table.columns if str(name).strip().lower() in words]
        # What was taken for numbers is read again as it is written: much faster than reading everything as words.
        again = [name for name in names if not pd.api.types.is_string_dtype(table[name])]
        if dialect.decimal == ",":  # 1.234 was taken for a little more than one
            again += [c for c in table.columns if c not in names and pd.api.types.is_float_dtype(table[c])]
        written = pd.read_csv(path, usecols=again, dtype=str, **form) if again else table
    read, grouped = dict[Any, pd.Series](), list[str]()
    for name in table.columns:
        cells = written[name] if name in again else table[name]
        if name in names:
            read[name] = _whole_numbers(cells)
            continue
        numeric = pd.api.types.is_numeric_dtype(cells) or not len(cells)
        numbers = None if numeric else as_numbers(cells, dialect.decimal) or as_numbers(cells, ".")
        read[name] = table[name] if numbers is None else numbers[0]
        grouped += [str(name)] if numbers is not None and numbers[1] else []
    return Frame(path, pd.DataFrame(read, index=table.index), form=tuple(dialect.notes(path, grouped)))


def _whole_numbers(names: pd.Series) -> pd.Series:
    """Names that are whole numbers, each written the one way it can be, as numbers."""
    whole = r"0|-?[1-9][0-9]{0,17}"
    if names.isna().any() or not len(names) or not names.head(100).str.fullmatch(whole).all():
        return names
    return names.astype(np.int64) if names.str.fullmatch(whole).all() else names


def _reason(error: Exception, path: Path) -> str:
    """Why a file cannot be read, and the option that cures it; a parser's own words mean nothing to its user."""
    if path.suffix == ".parquet":
        return "it is not a Parquet file, or a damaged one"
    if isinstance(error, pd.errors.EmptyDataError | IndexError):
        return "it is empty"
    if longer := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error)):
        wide = f"line {longer[2]} has {longer[3]} cells, the header has {longer[1]}"
        return f"{wide}: quote cells that hold a separator, or name the separator with `sep`"
    if isinstance(error, pd.errors.ParserWarning):
        return "its rows have more cells than its header: name the separator with `sep`, or complete the header"
    if "EOF inside string" in str(error):
        return "a quotation mark is not closed"
    if isinstance(error, OSError | EOFError | zlib.error):
        return "it is damaged, or cannot be opened"
    return "it is not a table of text: `sep` and `encoding` name how it is written"


def _parquet(path: Path) -> pd.DataFrame:
    try:
        from pyarrow.parquet import ParquetFile
        from pyarrow.types import is_primitive
    except ImportError:
        raise InputError("Parquet needs pyarrow: install it with pip install 'rapgnn[parquet]'.") from None
    with path.open("rb") as file:
        parquet = ParquetFile(file)
        bits = sum(kind.bit_width if is_primitive(kind) else 64 for kind in parquet.schema_arrow.types)
        check_unpacked(path, parquet.metadata.num_rows * bits // 8)
        table = parquet.read()
    table.validate(full=True)  # words that are no words, lengths that are wrong: found here, not at their first use
    return table.to_pandas()


def _from_npz(path: Path) -> Frame:
    """One-dimensional arrays are columns; the two-dimensional x stays as it is, other tables become columns."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            check_unpacked(path, sum(member.file_size for member in file.zip.infolist()))
            arrays: dict[str, np.ndarray] = dict(file)
    except InputError:
        raise
    except Exception as error:  # zipfile, zlib and numpy have no common base for what a damaged file raises
        raise InputError(f"cannot read {path}: it is no npz archive, or a damaged one.") from error
    matrix = arrays.pop("x", None)
    if matrix is not None and (matrix.ndim not in (1, 2) or matrix.dtype.kind not in "biuf"):
        raise InputError(f"{path}: x must be a table of numbers with a row per node, got shape {matrix.shape}.")
    columns: list[tuple[str, np.ndarray]] = []
    for name, array in arrays.items():
        if array.ndim not in (1, 2) or array.dtype.kind not in "biufcUSMm":
            raise InputError(f"{path}: {shown(name)} must hold one value per row, a number, a word or a date.")
        long = array.dtype.kind == "f" and array.dtype.itemsize > 8  # pandas has no index of such
        parts = np.atleast_2d((array.astype(np.float64) if long else native(array)).T)
        columns += [(name if len(parts) == 1 else f"{name}_{j}", part) for j, part in enumerate(parts)]
    lengths = ({} if matrix is None else {"x": len(matrix)}) | {name: len(values) for name, values in columns}
    if len(set(lengths.values())) > 1:
        first, *rest = lengths.items()
        odd = next(item for item in rest if item[1] != first[1])
        raise InputError(f"{path}: {first[0]} has {first[1]} entries but {odd[0]} has {odd[1]}.")
    twice = pd.Index([name for name, _ in columns]).duplicated()
    if twice.any():
        raise InputError(f"two columns of {path} have the same name: {shown(columns[int(twice.argmax())][0])}.")
    table = pd.DataFrame(dict(columns), index=pd.RangeIndex(next(iter(lengths.values()), 0)))
    return checked(Frame(path, table, matrix))
