"""One column of a user's table -> one or more features, learned once so that the next table is read the same way.

What a column is, is decided by its values (``column_kind``), or by the first of them where there are more than memory
holds; its numbers are then described by a ``Spread``, its words by ``Words``, whoever counted them.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from rapgnn.errors import InputError, shown
from rapgnn.graph.validate import TINY

SOME_CATEGORIES = 12  # different numbers up to which a column of numbers and words may be one of categories
MOST_CATEGORIES = 100  # that get a feature each; the less frequent ones share one more
NUMBERS_ROWS = "it numbers the rows"
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


@dataclass(frozen=True)
class LeftOut:
    """A column that is no feature: why, in a few words, and in a sentence where there is no other feature."""

    reason: str
    sentence: str


def column_kind(values: pd.Series, name: str, what: str) -> str | LeftOut:
    """``NUMBER``, the order in which dates are written, or ``WORD``; a mixture is refused."""
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
        why = "dates, and either day or month comes first"
        return LeftOut(why, f"column {shown(name)} holds {why}: write them as 2024-12-31, or leave it out (`ignore`).")
    return order


@dataclass(frozen=True)
class Spread:
    """What a column of numbers is scaled by; of parts of it, ``+`` makes that of all.

    Args:
        rows: with those that have no number.
        known: those that have one.
        variance: of the known ones.
        counting: each is by 1 larger than the one before, ``first`` at first.
    """

    rows: int = 0
    known: int = 0
    mean: float = 0.0
    variance: float = 0.0
    low: float = math.inf
    high: float = -math.inf
    first: float = math.nan
    counting: bool = True

    @staticmethod
    def of(values: np.ndarray) -> "Spread":
        known = values[~np.isnan(values)]
        if not len(known):
            return Spread(len(values), counting=not len(values))
        with np.errstate(over="ignore", invalid="ignore"):
            mean, variance = float(known.mean()), float(known.var())
        first = float(values[0])
        counting = len(known) == len(values) and np.array_equal(values, first + np.arange(len(values)))
        return Spread(len(values), len(known), mean, variance, float(known.min()), float(known.max()), first, counting)

    def __add__(self, other: "Spread") -> "Spread":
        if not self.known or not other.known:
            one = self if self.known else other
            counting = self.counting and other.counting
            return replace(one, rows=self.rows + other.rows, counting=counting)
        total = self.known + other.known
        share, step = other.known / total, other.mean - self.mean
        variance = (1 - share) * self.variance + share * other.variance + share * (1 - share) * step * step
        low, high = min(self.low, other.low), max(self.high, other.high)
        counting = self.counting and other.counting and other.first == self.first + self.rows
        return Spread(
            self.rows + other.rows, total, self.mean + share * step, variance, low, high, self.first, counting
        )

    @property
    def numbers_rows(self) -> bool:
        """Whether the column counts the rows, as programs write beside a table."""
        return self.counting and self.first in (0, 1)

    def column(self, name: str, date: str | None = None, few: int = 8) -> Column | LeftOut:
        """The column; numbers that are all in [0, 1] are left as they are.

        Args:
            few: rows up to which a column 0, 1, 2, ... may be a feature.
        """
        if not self.known:
            return empty(name)
        if self.numbers_rows and (self.rows > few or name.startswith("Unnamed: ")):
            return LeftOut(NUMBERS_ROWS, f"column {shown(name)} numbers the rows: leave it out (`ignore`).")
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            raise InputError(f"column {shown(name)} holds infinite values: remove them, or leave it out (`ignore`).")
        if not math.isfinite(self.mean) or not math.isfinite(self.variance):
            raise InputError(f"column {shown(name)} holds numbers too large to average: leave it out (`ignore`).")
        plain = self.low >= 0 and (self.high == 0 or TINY < self.high <= 1)
        if date is None and plain and self.known == self.rows:
            return Column(name)
        spread = math.sqrt(self.variance)
        return Column(name, self.mean, spread if spread > 0 else 1.0, date=date)


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
            return empty(name)
        if self.known > self.numbers > self.known / 2 and self.far > SOME_CATEGORIES:
            raise _mixture("numbers", self.odd, name, what, self.commas)
        if self.different > many and 2 * self.different > self.rows:
            differ = f"{self.different} different values in {self.rows} {what}s"
            cure = "it is a name rather than a feature, so leave it out (`ignore`)"
            return LeftOut(f"a name, {differ}", f"column {shown(name)} has {differ}: {cure}.")
        return Column(name, categories=tuple(sorted(self.frequent)), other=self.different > len(self.frequent))


def empty(name: str) -> LeftOut:
    """A column without any value."""
    return LeftOut("it is empty", f"column {shown(name)} is empty: leave it out (`ignore`).")


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
