"""A user's table of columns -> node features, learned once so that the next table is read the same way.

Numbers outside [0, 1] get mean 0 and variance 1, dates become days and then numbers like others, words become one
column of zeros and ones per category. A column that is a name, or empty, is left out where there are other features.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from rapgnn.errors import InputError, shown
from rapgnn.graph.validate import TINY, Faults, as_float32

SOME_CATEGORIES = 12  # different numbers up to which a column of numbers and words may be one of categories
MOST_CATEGORIES = 100  # that get a feature each; the less frequent ones share one more
NUMBER, WORD = "number", "word"
PLAIN = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?|[+-]?(?:inf|infinity)"  # numbers among words
COMMA = r"[+-]?\d+,\d+"


@dataclass(frozen=True)
class Column:
    """One column: a number, shifted and scaled, or (with ``categories``) a word.

    Args:
        date: the column holds dates, written in this order; as numbers they are days.
        other: there is one more feature, for the categories that are not listed.
    """

    name: str
    shift: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] | None = None
    date: str | None = None
    other: bool = False

    @property
    def width(self) -> int:
        return 1 if self.categories is None else len(self.categories) + self.other

    @property
    def read_as(self) -> str:
        """What the column was taken for, in words."""
        if self.categories is None:
            return "number" if self.date is None else "date"
        count = len(self.categories)
        return f"category, {count} value{'s' * (count != 1)}{' and other' * self.other}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return vars(self) | {"categories": None if self.categories is None else list(self.categories)}

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> "Column":
        """From what ``to_dict`` gave; anything else is refused."""
        name, shift, scale, words, date, other = (given[f.name] for f in fields(cls))
        numbers = all(not isinstance(v, bool) and math.isfinite(v) for v in (shift, scale)) and scale > 0
        listed = isinstance(words, list) and all(isinstance(w, str) for w in words) and len(set(words)) == len(words)
        kind = (date in (None, *ORDERS) and other is False) if words is None else (listed and date is None)
        if len(given) != len(fields(cls)) or not (
            isinstance(name, str) and isinstance(other, bool) and numbers and kind
        ):
            raise InputError("a column is damaged")
        return cls(name, float(shift), float(scale), None if words is None else tuple(words), date, other)


class LeftOut(str):
    """Why a column is no feature, in a few words."""


NUMBERS_ROWS, EMPTY = LeftOut("it numbers the rows"), LeftOut("it is empty")


def column_kind(values: pd.Series, name: str, what: str) -> str:
    """``NUMBER``, the order in which dates are written, ``WORD``, or why it is none; a mixture is refused."""
    if is_number(values):
        return NUMBER
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        return "ymd"
    words = as_words(values, name)[values.notna().to_numpy()]
    order, days = date_order(words)
    if order is None or np.isnan(days).any():
        fine = ~np.isnan(days)
        if 2 * fine.sum() > len(words) and len(np.unique(days[fine])) > SOME_CATEGORIES:
            raise _mixture("dates", words[~fine][0], name, what)
        return WORD
    if order == UNCLEAR:
        return LeftOut("dates, and either day or month comes first, unlike in 2024-12-31")
    return order


class Numbers:
    """What columns of numbers are scaled by, learned of ``[rows, columns]`` after ``[rows, columns]``, NaN in gaps.

    ``known`` are the rows that have a number, ``mean`` and ``squares`` their mean and the sum of squares around it;
    ``counting`` columns grow by 1 from row to row, from ``first`` on.
    """

    def __init__(self, columns: int):
        self.rows, self.first = 0, np.full(columns, np.nan)
        self.known, self.mean, self.squares = np.zeros((3, columns))
        self.low, self.high = np.full(columns, np.inf), np.full(columns, -np.inf)
        self.counting = np.ones(columns, dtype=bool)

    def add(self, rows: np.ndarray, most: int = 1 << 17) -> None:
        """The next rows; so many numbers at a time, which stay in a core's cache."""
        step = max(1, most // max(1, len(self.mean)))
        for block in (rows[start : start + step] for start in range(0, len(rows), step)):
            self.first = block[0] if self.rows == 0 else self.first
            place = np.arange(self.rows, self.rows + len(block))
            self.counting &= block[-1] == self.first + place[-1]
            if self.counting.any():
                self.counting &= (block == self.first + place[:, None]).all(axis=0)
            self.low, self.high = np.fmin(self.low, np.fmin.reduce(block)), np.fmax(self.high, np.fmax.reduce(block))
            missing = np.isnan(block)
            known = len(block) - missing.sum(axis=0)
            total = np.maximum(self.known + known, 1)
            with np.errstate(over="ignore", invalid="ignore"):
                values = np.where(missing, 0.0, block) if missing.any() else block
                mean = values.sum(axis=0) / np.maximum(known, 1)
                shift = (mean - self.mean) * (known > 0)
                apart = np.where(missing, 0.0, block - mean) if missing.any() else block - mean
                self.squares += np.square(apart).sum(axis=0) + np.square(shift) * self.known * known / total
                self.mean += shift * known / total
            self.rows, self.known = self.rows + len(block), self.known + known

    def column(self, j: int, name: str, date: str | None = None, few: int = 8) -> Column | LeftOut:
        """One column; numbers that are all in [0, 1] are left as they are.

        Args:
            few: rows up to which a column 0, 1, 2, ... may be a feature.
        """
        if not self.known[j]:
            return EMPTY
        low, high = float(self.low[j]), float(self.high[j])
        numbers_rows = self.counting[j] and self.first[j] in (0, 1)  # as programs write beside a table
        if numbers_rows and (self.rows > few or name.startswith("Unnamed: ")):
            return NUMBERS_ROWS
        if not (math.isfinite(low) and math.isfinite(high)):
            raise InputError(f"column {shown(name)} holds infinite values: remove them, or leave it out (`ignore`).")
        mean, variance = float(self.mean[j]), float(self.squares[j] / self.known[j])
        if not (math.isfinite(mean) and math.isfinite(variance)):
            raise InputError(f"column {shown(name)} holds numbers too large to average: leave it out (`ignore`).")
        if date is None and low >= 0 and (high == 0 or TINY < high <= 1) and self.known[j] == self.rows:
            return Column(name)
        return Column(name, mean, math.sqrt(variance) if variance > 0 else 1.0, date=date)


@dataclass(frozen=True)
class Words:
    """What a column of words holds: its most frequent ones (at most ``MOST_CATEGORIES``), and how many there are.

    Args:
        known: rows that have a word.
        different: how many different words there are.
        numbers, far: rows whose word is a number, and how many different ones.
        odd: the first word that is no number; ``commas``: all of these are numbers with a comma.
    """

    rows: int
    known: int
    different: int
    frequent: Sequence[str]
    numbers: int = 0
    far: int = 0
    odd: str | None = None
    commas: bool = False

    @staticmethod
    def of(values: pd.Series, name: str) -> "Words":
        counts = Counter(as_words(values, name)[values.notna().to_numpy()].tolist())
        frequent = sorted(counts, key=lambda word: (-counts[word], word))[:MOST_CATEGORIES]
        numbers = [word for word in counts if re.fullmatch(PLAIN, word.strip())]
        others = [word for word in counts if not re.fullmatch(PLAIN, word.strip())]
        return Words(
            len(values),
            counts.total(),
            len(counts),
            frequent,
            sum(counts[word] for word in numbers),
            len({float(word) for word in numbers}),
            others[0] if others else None,
            all(re.fullmatch(COMMA, word) for word in others),
        )

    def column(self, name: str, what: str, many: int = 50) -> Column | LeftOut:
        """The column; one where most rows differ, and more than ``many``, is a name."""
        if not self.known:
            return EMPTY
        if self.known > self.numbers > self.known / 2 and self.far > SOME_CATEGORIES:
            raise _mixture("numbers", self.odd, name, what, self.commas)
        if self.different > many and 2 * self.different > self.rows:
            return LeftOut(f"a name, {self.different} different values in {self.rows} {what}s")
        return Column(name, categories=tuple(sorted(self.frequent)), other=self.different > len(self.frequent))


def encode_column(values: pd.Series, column: Column) -> tuple[Any, int]:
    """``[rows]`` numbers, or a sparse ``[rows, width]`` of zeros and ones; and how many categories have no feature."""
    if column.categories is None:
        numbers = numbers_of(values, column)
        if np.isinf(numbers).any():
            raise InputError(f"column {shown(column.name)} holds infinite values: remove them first.")
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = (numbers - column.shift) / column.scale
        scaled[np.isnan(numbers)] = 0.0  # the mean
        return scaled, 0
    words = pd.Index(as_words(values, column.name), dtype=object)
    place = np.asarray(pd.Index(column.categories, dtype=object).get_indexer(words))
    known = values.notna().to_numpy()
    if column.other:
        place = np.where(place < 0, len(column.categories), place)
    rows = np.flatnonzero((place >= 0) & known)  # a category never seen is no category
    ones = np.ones(len(rows), dtype=np.float32)
    features = sp.csr_matrix((ones, (rows, place[rows])), shape=(len(values), column.width))
    return features, int(((place < 0) & known).sum())


def numbers_of(values: pd.Series, column: Column) -> np.ndarray:
    """A column of numbers or dates as numbers, NaN where there is none."""
    if column.date is None:
        if is_number(values):
            return values.to_numpy(dtype=np.float64, na_value=np.nan)
        if values.notna().any():
            raise InputError(f"column {shown(column.name)} must hold numbers, as it did in training.")
        return np.full(len(values), np.nan)
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        return stamps_in_days(values)
    known = values.notna().to_numpy()
    days = np.full(len(values), np.nan)
    words = as_words(values, column.name)[known]
    days[known] = in_days(words, column.date)
    if np.isnan(days[known]).any():  # another file may write them another way
        order, others = date_order(words)
        if order in (None, UNCLEAR) or np.isnan(others).any():
            raise InputError(f"column {shown(column.name)} must hold dates such as 2024-12-31, as it did in training.")
        days[known] = others
    return days


def is_number(values: pd.Series) -> bool:
    return bool(pd.api.types.is_numeric_dtype(values.dtype)) and not pd.api.types.is_complex_dtype(values.dtype)


def refuse_gaps(gaps: dict[str, int], rows: int, what: str) -> None:
    """Refuse columns with gaps, by name and number of gaps."""
    if not gaps:
        return
    (name, count), *others = gaps.items()
    also = "".join(f", {shown(other)} for {number}" for other, number in others[:5])
    also += f" and {len(others) - 5} more columns" if len(others) > 5 else ""
    cure = "fill them, let `impute=True` do it, or leave out what has them (`ignore`)"
    raise InputError(f"column {shown(name)} has no value for {count} of {rows} {what}s{also}: {cure}.")


def _mixture(kind: str, odd: Any, name: str, what: str, commas: bool = False) -> InputError:
    """A column of measurements, or of dates, with a slip of the pen in it is not a column of categories."""
    cure = "write all of them with a point, or all with a comma" if commas else "correct it, or leave it out (`ignore`)"
    return InputError(f"column {shown(name)} holds {kind}, but {shown(odd)} for one of the {what}s: {cure}.")


def as_words(values: pd.Series, name: str) -> np.ndarray:
    """Every value as a word; missing ones as any word, which the caller leaves out."""
    plain = [v if isinstance(v, str) else _word(v, name) for v in values.astype(object)]
    return np.array(plain, dtype=object)


def _word(value: Any, name: str) -> str:
    if value is None or value is pd.NA or isinstance(value, bool | int | float | np.generic | pd.Timestamp):
        return str(value)
    raise InputError(f"column {shown(name)} holds a value of type {type(value).__name__}: only numbers and words fit.")


# Dates as people write them -> days, as numbers.
# ``"ymd"``: 2024-12-31; ``"dmy"``: 31.12.2024 or 31/12/2024; ``"mdy"``: 12/31/2024; each with or without a time of day.


ORDERS = ("ymd", "dmy", "mdy")
UNCLEAR = "unclear"  # dates that may begin with the day or with the month
_TIME = (
    r"(?:[ T](?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:\.\d{1,9})?))?(?P<zone>Z|[+-]\d{2}:?\d{2})?)?"
)
_FORMS = {
    "ymd": rf"^(?P<y>\d{{4}})(?P<mark>[-/.])(?P<m>\d{{1,2}})(?P=mark)(?P<d>\d{{1,2}}){_TIME}$",
    "dmy": rf"^(?P<d>\d{{1,2}})(?P<mark>[-/.])(?P<m>\d{{1,2}})(?P=mark)(?P<y>\d{{4}}|(?<=\d\d\.\d\d\.)\d\d){_TIME}$",
    "mdy": rf"^(?P<m>\d{{1,2}})(?P<mark>[-/])(?P<d>\d{{1,2}})(?P=mark)(?P<y>\d{{4}}){_TIME}$",
}
_LONGEST = 40  # characters of a date


def date_order(words: np.ndarray) -> tuple[str | None, np.ndarray]:
    """How most of the words are written as dates (None: most are no dates), and each in days, NaN where it is none."""
    nothing = np.full(len(words), np.nan)
    few = words[: min(len(words), 100)]
    if not len(few) or not any(_looks_like_date(word) for word in few):
        return None, nothing
    read = {order: in_days(words, order) for order in ORDERS}
    fine = {order: int(np.isfinite(days).sum()) for order, days in read.items()}
    best = max(ORDERS, key=lambda order: fine[order])
    if 2 * fine[best] <= len(words):
        return None, nothing
    if best != "ymd" and fine["dmy"] == fine["mdy"]:
        same = np.array_equal(read["dmy"], read["mdy"], equal_nan=True)
        return "dmy" if same else UNCLEAR, read["dmy"]
    return best, read[best]


def in_days(words: np.ndarray, order: str) -> np.ndarray:
    """Days since 1970-01-01 with the time of day as a fraction; NaN where a word is no date of this order."""
    parts = pd.Series(words, dtype=object).str.slice(0, _LONGEST).str.strip().str.extract(_FORMS[order])
    year, month, day = (_number(parts[name]) for name in ("y", "m", "d"))
    year = np.where(parts["y"].str.len().to_numpy() == 2, np.where(year < 70, year + 2000, year + 1900), year)
    hour, minute, second = (_number(parts[name], 0.0) for name in ("hour", "minute", "second"))
    with np.errstate(invalid="ignore"):
        fine = (month >= 1) & (month <= 12) & (day >= 1) & (hour < 24) & (minute < 60) & (second < 61)
    months = np.where(fine, (year - 1970) * 12 + month - 1, 0).astype(np.int64).astype("M8[M]")
    days = months.astype("M8[D]") + np.where(fine, day - 1, 0).astype(np.int64)
    fine &= days.astype("M8[M]") == months  # there is no 30 February
    seconds = 3600 * hour + 60 * minute + second - _offset(parts["zone"])
    return np.where(fine, days.astype(np.int64) + seconds / 86400, np.nan)


def stamps_in_days(values: pd.Series) -> np.ndarray:
    """The same of a column of time stamps."""
    if getattr(values.dt, "tz", None) is not None:
        values = values.dt.tz_convert("UTC").dt.tz_localize(None)
    stamps = values.to_numpy().astype("M8[us]")
    return np.where(np.isnat(stamps), np.nan, stamps.astype(np.int64) / 86400e6)


def _looks_like_date(word: str) -> bool:
    return 6 <= len(word) <= _LONGEST and word.strip()[:1].isdigit() and sum(word.count(c) for c in "-/.") >= 2


def _number(part: pd.Series, otherwise: float = np.nan) -> np.ndarray:
    numbers = np.array(pd.to_numeric(part, errors="coerce"), dtype=np.float64)
    numbers[np.isnan(numbers)] = otherwise
    return numbers


def _offset(zone: pd.Series) -> np.ndarray:
    """Seconds by which a time is ahead of UTC."""
    digits = zone.where(zone != "Z").str.replace(":", "")
    sign = np.where(digits.str.startswith("-").fillna(False).to_numpy(dtype=bool), -1.0, 1.0)
    return sign * (3600 * _number(digits.str.slice(1, 3), 0.0) + 60 * _number(digits.str.slice(3, 5), 0.0))


# All columns of a table.


KINDS = ("table", "structural", "given")
NAMED = ("label", "id", "source", "target")  # columns that a user may name
AT_ONCE = 1 << 23  # numbers of an array that are read at a time
UNSEEN = "categories that training never saw count as none of the known ones"
FILLED = "gaps were filled, numbers by the training's mean, words by no category"


@dataclass(frozen=True)
class ColumnUse:
    """What became of one column of a user's files: id, label, split, number, date, category, left out, ..."""

    file: str
    column: str
    read_as: str
    features: int = 0


@dataclass(frozen=True)
class Encoding:
    """How features are made: ``"table"``: from these columns; ``"structural"``: from the edges alone; ``"given"``: they
    are taken as they are.

    Args:
        edge_columns: the columns that edge features are made of.
        impute: whether missing values are filled (numbers by the mean, words by no category) instead of refused.
        directed: whether an edge of a folder counts in its own direction only.
        label: the column of a folder's table that holds the labels, where the user named one.
        id, source, target: likewise the columns of the nodes' ids and of the ends of edges.
        left_out: the columns that are no features, and why; not stored with a model.
        uses: what became of every column of a folder's files; not stored with a model.
    """

    kind: str
    columns: tuple[Column, ...] = ()
    edge_columns: tuple[Column, ...] = ()
    impute: bool = False
    directed: bool = False
    label: str | None = None
    id: str | None = None
    source: str | None = None
    target: str | None = None
    left_out: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    uses: tuple[ColumnUse, ...] = field(default=(), compare=False, repr=False)

    @property
    def width(self) -> int | None:
        """Number of node features; None where it is not for this to say."""
        if self.kind == "given":
            return None
        return len(NAMES) if self.kind == "structural" else sum(column.width for column in self.columns)

    @property
    def notes(self) -> list[str]:
        """What is to be said about columns that are not, or not wholly, features."""
        left = [f"{name} ({reason})" for name, reason in self.left_out.items()]
        cut = [c.name for c in (*self.columns, *self.edge_columns) if c.other]
        notes = [f"columns left out: {_listed(left)}."] if left else []
        if cut:
            notes.append(f"categories beyond the 100 most frequent share one feature in {_listed(cut)}.")
        return notes

    @classmethod
    def learn(cls, table: Any, impute: bool = False, what: str = "node") -> "Encoding":
        """Means, spreads and categories of a table's columns; names and empty columns are left out.

        Args:
            table: a DataFrame; or what reads one in parts: ``first``, its first rows by column, ``rows``, how many
                there are, ``parts(names)``, some columns part by part, and ``words(name)``, the ``Words`` of a column.
        """
        whole = isinstance(table, pd.DataFrame)
        first = _by_name(table, what) if whole else table.first
        faults, kinds, learned = Faults(), dict[str, str](), dict[str, Column | LeftOut]()
        for name, values in first.items():
            with faults.collect():
                kinds[name] = column_kind(values, name, what)
        numbers = {
            name: Column(name, date=kind if kind in ORDERS else None)
            for name, kind in kinds.items()
            if kind != WORD and not isinstance(kind, LeftOut)
        }
        spreads, rows, gaps = Numbers(len(numbers)), len(table) if whole else table.rows, dict[str, int]()
        place, step = {name: j for j, name in enumerate(numbers)}, max(1, AT_ONCE // max(1, len(numbers)))
        slices = ({name: first[name].iloc[start : start + step] for name in numbers} for start in range(0, rows, step))
        for part in () if not numbers else slices if whole else table.parts(list(numbers)):
            spreads.add(np.column_stack([numbers_of(part[name], column) for name, column in numbers.items()]))
        for name, kind in kinds.items():
            with faults.collect():
                if isinstance(kind, LeftOut):
                    learned[name], known = kind, rows
                elif kind == WORD:
                    words = Words.of(first[name], name) if whole else table.words(name)
                    learned[name], known = words.column(name, what), words.known
                else:
                    j = place[name]
                    learned[name], known = spreads.column(j, name, numbers[name].date), int(spreads.known[j])
                if known < rows and isinstance(learned[name], Column):
                    gaps[name] = rows - known
        with faults.collect():
            refuse_gaps({} if impute else gaps, rows, what)
        faults.check()
        columns = tuple(column for column in learned.values() if isinstance(column, Column))
        reasons = {name: str(column) for name, column in learned.items() if isinstance(column, LeftOut)}
        if what != "node" or columns or not reasons:
            return cls("table", columns, impute=impute, left_out=reasons)
        if set(reasons.values()) == {NUMBERS_ROWS}:
            return cls("structural", left_out=reasons)
        name, reason = next(iter(reasons.items()))
        raise InputError(
            f"column {shown(name)} is no feature ({reason}), and there is no other: leave it out (`ignore`)."
        )

    @classmethod
    def for_array(cls, x: np.ndarray, unequal: float = 20.0) -> "Encoding | None":
        """Shift and scale for an array whose columns are tiny, or differ in size so much that one would decide all.

        Args:
            unequal: ratio of the largest column's size to the median one's, from which columns are scaled.
        """
        n, width = x.shape
        blocks = [slice(start, start + max(1, AT_ONCE // width)) for start in range(0, n, max(1, AT_ONCE // width))]
        with np.errstate(over="ignore", invalid="ignore"):
            size = np.sqrt(sum(np.square(x[rows], dtype=np.float64).sum(axis=0) for rows in blocks) / n)
        filled = size[size > 0]
        if not len(filled) or not np.isfinite(filled).all():
            return None
        if TINY < filled.max() < unequal * np.median(filled):
            return None
        spreads = Numbers(width)
        for rows in blocks:
            spreads.add(x[rows].astype(np.float64))
        columns = [spreads.column(j, str(j)) for j in range(width)]
        return cls("table", tuple(column for column in columns if isinstance(column, Column)))

    def encode_array(self, x: np.ndarray) -> np.ndarray:
        """A whole array at once, columns in order."""
        if x.ndim != 2 or x.shape[1] != len(self.columns):
            raise InputError(f"the model was trained with {len(self.columns)} features, got shape {x.shape}.")
        if any(column.categories is not None or column.date for column in self.columns):
            raise InputError("the model was trained on a table with words in it: give a table with the same columns.")
        shift, scale = (np.array([getattr(c, f) for c in self.columns]) for f in ("shift", "scale"))
        with np.errstate(over="ignore", invalid="ignore"):
            return as_float32((x - shift) / scale)

    def encode_edges(self, table: pd.DataFrame, notes: list[str] | None = None) -> Any:
        """``[edges, e]``, or None where there are no edge features."""
        if not self.edge_columns:
            return None
        encoded = replace(self, columns=self.edge_columns).encode(table, "edge", notes)
        return encoded.toarray() if sp.issparse(encoded) else encoded

    def encode(self, table: pd.DataFrame, what: str = "node", notes: list[str] | None = None) -> Any:
        """``[rows, width]``, dense, or sparse where there are words. Gaps and new categories stop nothing.

        Args:
            notes: is given what is to be said about categories that training never saw, and gaps that it did not have.
        """
        given, faults = _by_name(table, what), Faults()
        parts: list[Any] = []
        new, gaps = list[str](), list[str]()
        for column in self.columns:
            with faults.collect():
                if column.name not in given:
                    raise InputError(
                        f"the {what}s have no column {shown(column.name)}, which the model was trained with."
                    )
                values = given[column.name]
                features, unseen = encode_column(values, column)
                parts.append(features)
                missing = 0 if self.impute else int(values.isna().sum())
                for count, listed in ((unseen, new), (missing, gaps)):
                    listed += [f"{column.name} ({count} of {len(values)} {what}s)"] if count else []
        faults.check()
        if notes is not None:
            notes += [f"{note}: {_listed(listed)}." for note, listed in ((UNSEEN, new), (FILLED, gaps)) if listed]
        if not parts:
            return np.zeros((len(table), 0), dtype=np.float32)
        if all(isinstance(part, np.ndarray) for part in parts):
            return as_float32(np.column_stack(parts))
        return sp.hstack([sp.csr_matrix(p) if sp.issparse(p) else sp.csr_matrix(p[:, None]) for p in parts], "csr")

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it, without what is not stored."""
        plain = {key: getattr(self, key) for key in ("kind", "impute", "directed", *NAMED)}
        return plain | {field: [c.to_dict() for c in getattr(self, field)] for field in ("columns", "edge_columns")}

    @classmethod
    def from_dict(cls, given: Any) -> "Encoding":
        """From what ``to_dict`` gave; anything else is refused."""
        try:
            lists = {key: tuple(map(Column.from_dict, given[key])) for key in ("columns", "edge_columns")}
            fine = given["kind"] in KINDS and set(given) == set(cls("given").to_dict())
            fine = fine and all(isinstance(given[key], bool) for key in ("impute", "directed"))
            fine = fine and all(isinstance(given[key], str | None) for key in NAMED)
            if not fine or any(len({column.name for column in several}) < len(several) for several in lists.values()):
                raise ValueError("not an encoding")
            return cls(**given | lists)
        except (TypeError, KeyError, ValueError, OverflowError) as error:
            raise InputError("the encoding of the features is damaged.") from error


def _listed(names: list[str], most: int = 8) -> str:
    """Names for a sentence, not too many."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _by_name(table: pd.DataFrame, what: str) -> dict[str, pd.Series]:
    columns = {str(name): table.iloc[:, i] for i, name in enumerate(table.columns)}
    if len(columns) != table.shape[1]:
        raise InputError(f"two columns of the {what}s have the same name: {', '.join(map(str, table.columns))}.")
    return columns


# Node features for graphs that have none: what a node's place in the graph tells, the same on any other graph.


DEGREE_BUCKETS = 12  # 0, 1, 2, 3, 4, 5-8, 9-16, ... neighbours
NAMES = (
    *(f"degree bucket {i}" for i in range(DEGREE_BUCKETS)),
    "log degree",
    "log in-degree",
    "log of the neighbours' mean degree",
    "log of the neighbours' largest degree",
    "share of neighbours with one neighbour",
    "clustering coefficient",
    "log of the two-hop walks",
)


def structural_features(edge_index: np.ndarray, num_nodes: int) -> np.ndarray:
    """``[n, len(NAMES)]``, all non-negative: degrees, the neighbours' degrees, triangles. No labels, no node order.

    Every edge counts in both directions; self-loops and repeated edges do not count. Where counting triangles would
    take too long the clustering coefficient is 0 for every node.
    """
    source, target = np.asarray(edge_index, dtype=np.int64)
    ones = np.ones(len(source), dtype=np.float64)
    directed = sp.csr_matrix((ones, (target, source)), shape=(num_nodes, num_nodes))
    directed.setdiag(0)
    directed.eliminate_zeros()
    directed.data[:] = 1.0
    A = sp.csr_matrix(directed.maximum(directed.T))
    degree = np.asarray(A.sum(axis=1)).ravel()
    incoming = np.asarray(directed.sum(axis=1)).ravel()
    divisor = np.maximum(degree, 1.0)
    walks = A @ degree
    bucket = np.where(degree <= 4, degree, 3 + np.ceil(np.log2(np.maximum(degree, 1)))).astype(np.int64)
    one_hot = np.zeros((num_nodes, DEGREE_BUCKETS))
    one_hot[np.arange(num_nodes), np.minimum(bucket, DEGREE_BUCKETS - 1)] = 1.0
    largest = np.zeros(num_nodes)
    filled = np.diff(A.indptr) > 0
    if A.nnz:
        largest[filled] = np.maximum.reduceat(degree[A.indices], A.indptr[:-1][filled])
    columns = (
        np.log1p(degree),
        np.log1p(incoming),
        np.log1p(walks / divisor),
        np.log1p(largest),
        (A @ (degree == 1).astype(np.float64)) / divisor,
        _clustering(A, degree),
        np.log1p(walks),
    )
    return np.column_stack([one_hot, *columns]).astype(np.float32)


def _clustering(A: sp.csr_matrix, degree: np.ndarray, most: int = 200_000_000) -> np.ndarray:
    """The share of a node's pairs of neighbours that are neighbours themselves; ``most`` multiply-adds are made."""
    if float(A @ degree @ np.ones(len(degree)) if len(degree) else 0.0) > most:
        return np.zeros(len(degree))
    paths = sp.csr_matrix(A @ A)
    closed = np.asarray(paths.multiply(A).sum(axis=1)).ravel()
    return closed / np.maximum(degree * (degree - 1), 1.0)
