"""A user's table of columns -> node features, learned once so that the next table is read the same way.

Numbers outside [0, 1] get mean 0 and variance 1, words become one column of zeros and ones per category.
"""

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from rapgnn.errors import InputError, shown
from rapgnn.graph.structural import NAMES
from rapgnn.graph.validate import as_float32

KINDS = ("table", "structural", "given")
SOME_CATEGORIES = 12  # different numbers up to which a column of numbers and words may be one of categories
MANY_CATEGORIES = 50  # beyond which a column where most rows differ is taken for a name, not for a category
UNEQUAL = 20.0  # ratio of column sizes beyond which columns of an array are scaled


@dataclass(frozen=True)
class Column:
    """One column: a number, shifted and scaled, or (with ``categories``) a word."""

    name: str
    shift: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] | None = None

    @property
    def width(self) -> int:
        return 1 if self.categories is None else len(self.categories)


@dataclass(frozen=True)
class Encoding:
    """How features are made: ``"table"``: from these columns; ``"structural"``: from the edges alone; ``"given"``: they
    are taken as they are.

    Args:
        edge_columns: the columns that edge features are made of.
        impute: whether missing values are filled (numbers by the mean, words by no category) instead of refused.
        directed: whether an edge of a folder counts in its own direction only.
        label: the column of a folder's table that holds the labels, where the user named one.
    """

    kind: str
    columns: tuple[Column, ...] = ()
    edge_columns: tuple[Column, ...] = ()
    impute: bool = False
    directed: bool = False
    label: str | None = None

    @property
    def width(self) -> int | None:
        """Number of node features; None where it is not for this to say."""
        if self.kind == "given":
            return None
        return len(NAMES) if self.kind == "structural" else sum(column.width for column in self.columns)

    @classmethod
    def learn(cls, table: pd.DataFrame, impute: bool = False, what: str = "node") -> "Encoding":
        """Means, spreads and categories of a table's columns."""
        columns = _by_name(table, what).items()
        return cls("table", tuple(_learn(values, name, impute, what) for name, values in columns), impute=impute)

    @classmethod
    def for_array(cls, x: np.ndarray) -> "Encoding | None":
        """Shift and scale for an array whose columns differ in size so much that the largest would decide all."""
        with np.errstate(over="ignore", invalid="ignore"):
            size = np.sqrt(np.mean(np.square(x, dtype=np.float64), axis=0))
        filled = size[size > 0]
        if not len(filled) or not np.isfinite(filled).all() or filled.max() < UNEQUAL * np.median(filled):
            return None
        return cls("table", tuple(_number(str(i), x[:, i].astype(np.float64)) for i in range(x.shape[1])))

    def encode_array(self, x: np.ndarray) -> np.ndarray:
        """A whole array at once, columns in order."""
        if x.ndim != 2 or x.shape[1] != len(self.columns):
            raise InputError(f"the model was trained with {len(self.columns)} features, got shape {x.shape}.")
        if any(column.categories is not None for column in self.columns):
            raise InputError("the model was trained on a table with words in it: give a table with the same columns.")
        shift, scale = (np.array([getattr(c, f) for c in self.columns]) for f in ("shift", "scale"))
        with np.errstate(over="ignore", invalid="ignore"):
            return as_float32((x - shift) / scale)

    def encode_edges(self, table: pd.DataFrame) -> Any:
        """``[edges, e]``, or None where there are no edge features."""
        if not self.edge_columns:
            return None
        encoded = replace(self, columns=self.edge_columns).encode(table, "edge")
        return encoded.toarray() if sp.issparse(encoded) else encoded

    def encode(self, table: pd.DataFrame, what: str = "node") -> Any:
        """``[rows, width]``, dense, or sparse where there are words."""
        given = _by_name(table, what)
        parts: list[Any] = []
        for column in self.columns:
            if column.name not in given:
                raise InputError(f"the {what}s have no column {column.name!r}, which the model was trained with.")
            values = given[column.name]
            _refuse_gaps(values, column.name, self.impute, what)
            parts.append(_encode(values, column, what))
        if not parts:
            return np.zeros((len(table), 0), dtype=np.float32)
        if all(isinstance(part, np.ndarray) for part in parts):
            return as_float32(np.column_stack(parts))
        return sp.hstack([sp.csr_matrix(p) if sp.issparse(p) else sp.csr_matrix(p[:, None]) for p in parts], "csr")

    def to_dict(self) -> dict[str, Any]:
        return vars(self) | {field: [_plain(c) for c in getattr(self, field)] for field in ("columns", "edge_columns")}

    @classmethod
    def from_dict(cls, given: Any) -> "Encoding":
        """From what ``to_dict`` gave; anything else is refused."""
        try:
            if given["kind"] not in KINDS or set(given) != {f.name for f in fields(cls)}:
                raise InputError("unknown kind of encoding")
            if not all(isinstance(given[field], bool) for field in ("impute", "directed")):
                raise InputError("a flag is damaged")
            columns, edge_columns = (tuple(_column(c) for c in given[field]) for field in ("columns", "edge_columns"))
            if not isinstance(given["label"], str | None):
                raise InputError("the label's column is damaged")
            for several in (columns, edge_columns):
                if len({column.name for column in several}) < len(several):
                    raise InputError("two columns have one name")
            return cls(given["kind"], columns, edge_columns, given["impute"], given["directed"], given["label"])
        except (TypeError, KeyError, ValueError, OverflowError) as error:
            raise InputError("the encoding of the features is damaged.") from error


def _plain(column: Column) -> dict[str, Any]:
    return vars(column) | {"categories": None if column.categories is None else list(column.categories)}


def _column(given: dict[str, Any]) -> Column:
    name, shift, scale, categories = (given[key] for key in ("name", "shift", "scale", "categories"))
    if not isinstance(name, str) or set(given) != {f.name for f in fields(Column)}:
        raise InputError("a column is damaged")
    if any(isinstance(v, bool) or not math.isfinite(v) for v in (shift, scale)) or not scale > 0:
        raise InputError("a column's scale is damaged")
    if categories is not None and (
        not isinstance(categories, list)
        or not all(isinstance(c, str) for c in categories)
        or len(set(categories)) < len(categories)
    ):
        raise InputError("a column's categories are damaged")
    return Column(name, float(shift), float(scale), None if categories is None else tuple(categories))


def _by_name(table: pd.DataFrame, what: str) -> dict[str, pd.Series]:
    columns = {str(name): table.iloc[:, i] for i, name in enumerate(table.columns)}
    if len(columns) != table.shape[1]:
        raise InputError(f"two columns of the {what}s have the same name: {', '.join(map(str, table.columns))}.")
    return columns


def _is_number(values: pd.Series) -> bool:
    return bool(pd.api.types.is_numeric_dtype(values.dtype)) and not pd.api.types.is_complex_dtype(values.dtype)


def _refuse_gaps(values: pd.Series, name: str, impute: bool, what: str) -> None:
    gaps = int(values.isna().sum())
    if gaps and not impute:
        raise InputError(
            f"column {name!r} has no value for {gaps} of {len(values)} {what}s: fill them, or ask for imputation."
        )


def _learn(values: pd.Series, name: str, impute: bool, what: str) -> Column:
    _refuse_gaps(values, name, impute, what)
    if _is_number(values):
        return _number(name, values.to_numpy(dtype=np.float64, na_value=np.nan))
    words = _words(values, name)
    _refuse_mixture(words[values.notna().to_numpy()], name, what)
    categories = tuple(sorted(set(words[values.notna().to_numpy()])))
    if len(categories) > MANY_CATEGORIES and 2 * len(categories) > len(values):
        raise InputError(
            f"column {name!r} has {len(categories)} different values in {len(values)} {what}s: "
            "it is a name rather than a feature, so leave it out (--ignore)."
        )
    return Column(name, categories=categories)


def _refuse_mixture(words: np.ndarray, name: str, what: str) -> None:
    """A column of measurements with a slip of the pen in it is not a column of categories."""
    numbers = np.asarray(pd.to_numeric(pd.Series(words, dtype=object), errors="coerce"), dtype=np.float64)
    fine = ~np.isnan(numbers)
    if 2 * fine.sum() > len(words) > fine.sum() and len(np.unique(numbers[fine])) > SOME_CATEGORIES:
        odd = shown(words[~fine][0])
        raise InputError(
            f"column {name!r} holds numbers, but {odd} for one of the {what}s: correct it or leave it out."
        )


def _number(name: str, values: np.ndarray) -> Column:
    known = values[~np.isnan(values)]
    if not len(known):
        raise InputError(f"column {name!r} is empty: leave it out.")
    if not np.isfinite(known).all():
        raise InputError(f"column {name!r} holds infinite values: remove them first.")
    with np.errstate(over="ignore", invalid="ignore"):
        mean, spread = float(known.mean()), float(known.std())
    if not math.isfinite(mean) or not math.isfinite(spread):
        raise InputError(f"column {name!r} holds numbers too large to average.")
    if known.min() >= 0 and known.max() <= 1 and len(known) == len(values):
        return Column(name)
    return Column(name, mean, spread if spread > 0 else 1.0)


def _encode(values: pd.Series, column: Column, what: str) -> Any:
    if column.categories is None:
        if not _is_number(values):
            raise InputError(f"column {column.name!r} must hold numbers, as it did in training.")
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
        if np.isinf(numbers).any():
            raise InputError(f"column {column.name!r} holds infinite values: remove them first.")
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = (numbers - column.shift) / column.scale
        scaled[np.isnan(numbers)] = 0.0  # the mean
        return scaled
    words = _words(values, column.name)
    place = np.asarray(pd.Index(column.categories, dtype=object).get_indexer(pd.Index(words, dtype=object)))
    known = np.flatnonzero((place >= 0) & values.notna().to_numpy())  # a category never seen is no category
    ones = np.ones(len(known), dtype=np.float32)
    return sp.csr_matrix((ones, (known, place[known])), shape=(len(values), column.width))


def _words(values: pd.Series, name: str) -> np.ndarray:
    """Every value as a word; missing ones as any word, which the caller leaves out."""
    plain = [v if isinstance(v, str) else _word(v, name) for v in values.astype(object)]
    return np.array(plain, dtype=object)


def _word(value: Any, name: str) -> str:
    if value is None or value is pd.NA or isinstance(value, bool | int | float | np.generic | pd.Timestamp):
        return str(value)
    raise InputError(f"column {name!r} holds a value of type {type(value).__name__}: only numbers and words fit.")
