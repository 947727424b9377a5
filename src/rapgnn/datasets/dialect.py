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
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd

from rapgnn.errors import InputError, check_choice, shown

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
