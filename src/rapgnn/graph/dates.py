"""Dates as people write them -> days, as numbers.

``"ymd"``: 2024-12-31; ``"dmy"``: 31.12.2024 or 31/12/2024; ``"mdy"``: 12/31/2024; each with or without a time of day.
"""

import numpy as np
import pandas as pd

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
    found = {order: in_days(words, order) for order in ORDERS}
    fine = {order: int(np.isfinite(days).sum()) for order, days in found.items()}
    best = max(ORDERS, key=lambda order: fine[order])
    if 2 * fine[best] <= len(words):
        return None, nothing
    if best != "ymd" and fine["dmy"] == fine["mdy"]:
        same = np.array_equal(found["dmy"], found["mdy"], equal_nan=True)
        return "dmy" if same else UNCLEAR, found["dmy"]
    return best, found[best]


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


def is_stamps(values: pd.Series) -> bool:
    return pd.api.types.is_datetime64_any_dtype(values.dtype)


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
