"""A user's table of columns -> node features, learned once so that the next table is read the same way.

Numbers outside [0, 1] get mean 0 and variance 1, dates become days and then numbers like others, words become one
column of zeros and ones per category. A column that is a name, or empty, is left out where there are other features.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pandas as pd
import scipy.sparse as sp

from rapgnn.errors import InputError, shown
from rapgnn.graph.column import (
    NUMBER,
    NUMBERS_ROWS,
    ORDERS,
    WORD,
    Column,
    LeftOut,
    Spread,
    Words,
    column_kind,
    encode_column,
    numbers_of,
    refuse_gaps,
)
from rapgnn.graph.validate import TINY, Faults, as_float32

KINDS = ("table", "structural", "given")
_NAMED = ("label", "id", "source", "target")  # columns that a user may name
AT_ONCE = 1 << 23  # numbers of an array that are read at a time
UNSEEN = "categories that training never saw count as none of the known ones"
FILLED = "gaps were filled, numbers by the training's mean, words by no category"


class Parts(Protocol):
    """A table that is read in parts, for ``Encoding.learn``; ``first`` are its first rows, ``rows`` counts all."""

    @property
    def first(self) -> Mapping[str, pd.Series]: ...

    @property
    def rows(self) -> int: ...

    def parts(self, names: list[str]) -> Iterator[Mapping[str, pd.Series]]:
        """Some columns, part by part."""
        ...

    def words(self, name: str) -> Words:
        """What a column of words holds."""
        ...


class Whole:
    """A table in memory, which is one part."""

    def __init__(self, table: pd.DataFrame, what: str):
        self.first, self.rows = _by_name(table, what), len(table)

    def parts(self, names: list[str]) -> Iterator[Mapping[str, pd.Series]]:
        yield self.first

    def words(self, name: str) -> Words:
        return Words.of(self.first[name], name)


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
    def learn(cls, table: pd.DataFrame | Parts, impute: bool = False, what: str = "node") -> "Encoding":
        """Means, spreads and categories of a table's columns; names and empty columns are left out."""
        source = Whole(table, what) if isinstance(table, pd.DataFrame) else table
        faults, kinds, learned = Faults(), dict[str, str | LeftOut](), dict[str, Column | LeftOut]()
        for name, values in source.first.items():
            with faults.collect():
                kinds[name] = column_kind(values, name, what)
        dates = {name: kind for name, kind in kinds.items() if isinstance(kind, str) and kind in ORDERS}
        numbers = {
            name: Column(name, date=dates.get(name))
            for name, kind in kinds.items()
            if kind in (NUMBER, *dates.values())
        }
        spreads = {name: Spread() for name in numbers}
        for part in source.parts(list(numbers)) if numbers else ():
            for name, column in numbers.items():
                spreads[name] += Spread.of(numbers_of(part[name], column))
        gaps: dict[str, int] = {}
        for name, kind in kinds.items():
            if isinstance(kind, LeftOut):
                learned[name] = kind
                continue
            with faults.collect():
                summary = source.words(name) if kind == WORD else spreads[name]
                if isinstance(summary, Words):
                    learned[name] = summary.column(name, what)
                else:
                    learned[name] = summary.column(name, dates.get(name))
                if summary.known < summary.rows and isinstance(learned[name], Column):
                    gaps[name] = summary.rows - summary.known
        with faults.collect():
            refuse_gaps({} if impute else gaps, source.rows, what)
        faults.check()
        left = {name: column for name, column in learned.items() if isinstance(column, LeftOut)}
        columns = tuple(column for column in learned.values() if isinstance(column, Column))
        if what == "node" and left and not columns and {c.reason for c in left.values()} == {NUMBERS_ROWS}:
            return cls("structural", left_out={name: column.reason for name, column in left.items()})
        if what == "node" and left and not columns:
            raise InputError(next(iter(left.values())).sentence)
        return cls("table", columns, impute=impute, left_out={name: column.reason for name, column in left.items()})

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
        spreads = [Spread()] * width
        for rows in blocks:
            block = x[rows].astype(np.float64)
            spreads = [spread + Spread.of(block[:, j]) for j, spread in enumerate(spreads)]
        columns = [spread.column(str(j)) for j, spread in enumerate(spreads)]
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
        plain = {key: getattr(self, key) for key in ("kind", "impute", "directed", *_NAMED)}
        return plain | {field: [c.to_dict() for c in getattr(self, field)] for field in ("columns", "edge_columns")}

    @classmethod
    def from_dict(cls, given: Any) -> "Encoding":
        """From what ``to_dict`` gave; anything else is refused."""
        try:
            lists = {key: tuple(map(Column.from_dict, given[key])) for key in ("columns", "edge_columns")}
            fine = given["kind"] in KINDS and set(given) == set(cls("given").to_dict())
            fine = fine and all(isinstance(given[key], bool) for key in ("impute", "directed"))
            fine = fine and all(isinstance(given[key], str | None) for key in _NAMED)
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
