"""How a CSV file is written: its encoding, what separates its cells, and its decimal point or comma.

Plain is UTF-8, comma, point. Anything else is taken only where the file's first lines leave no doubt; an option wins.
"""

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from rapgnn.errors import InputError, check_choice, shown

SAMPLE = 1 << 18  # bytes that are looked at
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_SPELLED = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "bar": "|", "pipe": "|", "space": " "}
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


@dataclass(frozen=True)
class Options:
    """What a user says about all CSV files of a folder; None: the file tells."""

    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None

    def checked(self) -> "Options":
        """Separators by their characters; anything that is none is refused."""
        sep = self.sep
        if sep is not None:
            sep = _SPELLED.get(sep.lower(), sep) if isinstance(sep, str) else sep
            if not isinstance(sep, str) or len(sep) != 1 or sep in '"\r\n' or sep.isalnum():
                raise InputError(f"`sep` must be one character or the word tab, got {shown(self.sep)}.")
        if self.decimal is not None:
            check_choice("`decimal`", self.decimal, (".", ","))
        if sep is not None and sep == self.decimal == ".":
            raise InputError("`sep` and `decimal` cannot both be a point.")
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
                "".encode(self.encoding)
            except (LookupError, TypeError, ValueError, UnicodeError):
                known = "utf-8, cp1252, latin-1, utf-16"
                raise InputError(f"`encoding` {shown(self.encoding)} is unknown: {known} are known, say.") from None
        return Options(sep, self.decimal, self.encoding)


@dataclass(frozen=True)
class Dialect:
    """How one CSV file is read.

    Args:
        skip: lines before its header.
        unsure: columns of numbers such as 1.234, whose points might mark thousands.
    """

    sep: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    skip: int = 0
    unsure: tuple[str, ...] = ()

    def notes(self, path: Path, grouped: Sequence[str] = ()) -> list[str]:
        """What is not plain, in words; ``grouped``: columns whose numbers mark their thousands."""
        plain = ",\t" if ".tsv" in path.name else ","
        notes = [] if self.sep in plain else [f"{SEPARATORS.get(self.sep, repr(self.sep))} between cells"]
        notes += ["decimal commas"] if self.decimal == "," else []
        notes += [f"points in {', '.join(self.unsure[:5])} taken for decimal points"] if self.unsure else []
        notes += [] if self.encoding.startswith("utf-8") else [f"encoding {self.encoding}"]
        marked = f"thousands separators in {', '.join(grouped[:5])}{', ...' * (len(grouped) > 5)}"
        return [*notes, marked] if grouped else notes


def find_dialect(path: Path, options: Options, names: Sequence[str] = ()) -> Dialect:
    """How the file is written, by its first lines.

    Args:
        names: columns, in lower case, whose cells are names: they tell nothing about numbers.
    """
    sample = _first_bytes(path)
    encoding = options.encoding or _encoding(sample)
    text = _decoded(sample, encoding, path)
    excel = re.match(r"(?i)sep=(.)\r?\n", text)  # Excel's own first line
    if excel:
        text = text[excel.end() :]
    if len(sample) == SAMPLE:
        text = text[: text.rfind("\n") + 1]  # the last line may be half a line
    sep = options.sep or (excel[1] if excel else None) or _separator(text)
    decimal, unsure = (options.decimal, ()) if options.decimal else _decimal(text, sep, names)
    return Dialect(sep, decimal, encoding, 1 if excel else 0, unsure)


def _first_bytes(path: Path) -> bytes:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return file.read(SAMPLE)
    except (OSError, EOFError, zlib.error) as error:
        reason = "it is not a gzip file, or a damaged one" if path.suffix == ".gz" else "it cannot be opened"
        raise InputError(f"cannot read {path}: {reason}.") from error


def _encoding(sample: bytes) -> str:
    marked = next((encoding for mark, encoding in _MARKS if sample.startswith(mark)), None)
    if marked is not None:
        return marked
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return "cp1252" if b"\x00" not in sample and len(sample) else "utf-8"
    return "utf-8"


def _decoded(sample: bytes, encoding: str, path: Path) -> str:
    try:
        return codecs.getincrementaldecoder(encoding)().decode(sample)
    except (UnicodeError, LookupError) as error:
        raise InputError(f"cannot read {path}: it is not text in {encoding}; `encoding` names its encoding.") from error


def _rows(text: str, sep: str, most: int = 2000) -> list[list[str]]:
    """The first rows, empty lines left out; none where they cannot be told apart."""
    rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=sep):
            if row:
                rows.append(row)
            if len(rows) == most:
                break
    except csv.Error:
        return []
    return rows


def _separator(text: str) -> str:
    """The comma, unless the header has none and another separator gives every row as many cells as the header."""
    header = text.lstrip("\r\n").partition("\n")[0]
    best, most = ",", 1
    for sep in SEPARATORS:
        if sep not in header:
            continue
        rows = _rows(text, sep)
        width = len(rows[0]) if rows else 0
        even = sum(len(row) == width for row in rows) >= 0.9 * len(rows) and all(len(row) <= width for row in rows)
        if sep == "," and width > 1 and even:
            return ","
        if width > most and even:
            best, most = sep, width
    return best


def _decimal(text: str, sep: str, names: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The point, unless there are columns of numbers with commas, and (between commas) none with points.

    Between semicolons, where nothing else shows what points are, the columns that have them are named.
    """
    rows = _rows(text, sep)
    header, body = (rows[0], rows[1:]) if rows else ([], [])
    marks: set[str] = set()
    plain: list[str] = []
    for j, name in enumerate(header):
        if name.strip().lower() in names:
            continue
        cells = {row[j].strip() for row in body if len(row) > j}
        shown_as = written_as(cells - {"", *GAPS})
        marks |= shown_as
        plain += [name] if "plain" in shown_as else []
    if "comma" in marks and (sep != "," or "point" not in marks):
        return ",", ()
    if "either" in marks and sep == ";" and "point" not in marks:
        return ",", ()
    return ".", tuple(plain) if sep == ";" and "point" not in marks else ()


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
