"""Numbers as people write them: 1234.5, 1,234.5, 1.234,5 and 1'234.5."""

import re
from collections.abc import Collection

import numpy as np
import pandas as pd

GAPS = ("NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL", "None", "<NA>")  # gaps, among numbers
SOME_NUMBERS = 12  # different values beyond which a column against the rest of its file is one of numbers
_THIN = "\u00a0\u202f'\u2019"  # blanks and apostrophes that nothing but a number has between digits
_GROUPS = {".": f",{_THIN}", ",": f". {_THIN}"}
_GROUPED = {d: rf"[+-]?[1-9]\d{{0,2}}(?:([{g}])\d{{3}})(?:\1\d{{3}})*(?:[{d}]\d*)?" for d, g in _GROUPS.items()}
_PLAIN = {d: rf"[+-]?(?:\d+(?:[{d}]\d*)?|[{d}]\d+)(?:[eE][+-]?\d{{1,3}})?" for d in _GROUPS}
_NUMBER = {d: re.compile(f"{_GROUPED[d]}|{_PLAIN[d]}") for d in _GROUPS}


def written_as(cells: Collection[str]) -> set[str]:
    """What a column's cells show: numbers with a decimal ``"point"``, with a ``"comma"``, or with ``"either"``.

    1,234 may be either; 1.234 is ``"plain"``, though it might be a thousand or so. Nothing where cells have neither
    mark, or are no numbers.
    """
    marked = {cell for cell in cells if "," in cell or "." in cell}
    fits = {d: all(_NUMBER[d].fullmatch(cell) for cell in cells) for d in _GROUPS}
    if not marked or not any(fits.values()):
        return set()
    if fits["."] and fits[","]:
        return {"either" if any("," in cell for cell in marked) else "plain"}
    return {"point" if fits["."] else "comma"}


def as_numbers(words: pd.Series, decimal: str) -> tuple[pd.Series, bool] | None:
    """A column of words as numbers, and whether some had their thousands marked; None where some are no numbers."""
    number = _NUMBER[decimal]
    first = [str(cell).strip() for cell in words.dropna().head(100)]
    if not all(number.fullmatch(cell) or cell in GAPS for cell in first):
        return None
    known = (words.notna() & ~words.isin(GAPS)).to_numpy(dtype=bool)
    cells = pd.Series([str(cell).strip() for cell in words[known]], dtype=object)
    if not len(cells) or not cells.str.fullmatch(number.pattern).all():
        return None
    grouped = cells.str.fullmatch(_GROUPED[decimal])
    plain = cells.str.replace(f"[{_GROUPS[decimal]}]", "", regex=True).str.replace(decimal, ".", regex=False)
    numbers = np.full(len(words), np.nan)
    numbers[known] = np.asarray(pd.to_numeric(plain, errors="coerce"), dtype=np.float64)
    return pd.Series(numbers, index=words.index), bool(grouped.any())


def against_the_rest(words: pd.Series, decimal: str) -> tuple[pd.Series, bool] | None:
    """A column written with the other mark than its file, as numbers, where it is beyond doubt."""
    other = "," if decimal == "." else "."
    cells = {str(cell).strip() for cell in words.dropna().head(2000)} - {*GAPS}
    wanted = "comma" if other == "," else "point"
    return as_numbers(words, other) if len(cells) > SOME_NUMBERS and written_as(cells) == {wanted} else None
