"""A user's table of columns -> node features, learned once so that the next table is read the same way.

Numbers outside [0, 1] get mean 0 and variance 1, dates become days and then numbers like others, words become one
column of zeros and ones per category. A column that is a name, or empty, is left out where there are other features.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from rapgnn.errors import InputError, shown
from rapgnn.graph.column import (
    Column,
    LeftOut,
    encode_column,
    learn_column,
    number_column,
    refuse_gaps,
    unseen,
)
from rapgnn.graph.validate import Faults, as_float32

KINDS = ("table", "structural", "given")
UNEQUAL = 20.0  # ratio of column sizes beyond which columns of an array are scaled
_NAMED = ("label", "id", "source", "target")  # columns that a user may name
UNSEEN = "categories that training never saw count as none of the known ones"


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
        told = [f"{name} ({reason})" for name, reason in self.left_out.items()]
        cut = [c.name for c in (*self.columns, *self.edge_columns) if c.other]
        notes = [f"columns left out: {_listed(told)}."] if told else []
        if cut:
            notes.append(f"categories beyond the 100 most frequent share one feature in {_listed(cut)}.")
        return notes

    @classmethod
    def learn(cls, table: pd.DataFrame, impute: bool = False, what: str = "node") -> "Encoding":
        """Means, spreads and categories of a table's columns; names and empty columns are left out."""
        faults, found, gaps = Faults(), {}, {}
        for name, values in _by_name(table, what).items():
            with faults.collect():
                found[name] = learn_column(values, name, what)
                if not impute and isinstance(found[name], Column) and values.isna().any():
                    gaps[name] = int(values.isna().sum())
        with faults.collect():
            refuse_gaps(gaps, len(table), what)
        faults.check()
        left = {name: column for name, column in found.items() if isinstance(column, LeftOut)}
        columns = tuple(column for column in found.values() if isinstance(column, Column))
        if what == "node" and left and not columns:
            raise InputError(next(iter(left.values())).sentence)
        reasons = {name: column.reason for name, column in left.items()}
        return cls("table", columns, impute=impute, left_out=reasons)

    @classmethod
    def for_array(cls, x: np.ndarray, filled: Any = None) -> "Encoding | None":
        """Shift and scale for an array whose columns differ in size so much that the largest would decide all.

        Args:
            filled: the same array as a scipy matrix, where most of it is zero.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            if filled is None:
                size = np.sqrt(np.mean(np.square(x, dtype=np.float64), axis=0))
            else:
                squares = np.square(filled.data, dtype=np.float64)
                size = np.sqrt(np.bincount(filled.indices, squares, minlength=x.shape[1]) / len(x))
        if not differ_in_size(size):
            return None
        return cls("table", tuple(number_column(str(i), x[:, i].astype(np.float64)) for i in range(x.shape[1])))

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
        """``[rows, width]``, dense, or sparse where there are words.

        Args:
            notes: is told of categories that training never saw.
        """
        given, faults = _by_name(table, what), Faults()
        parts: list[Any] = []
        new: list[str] = []
        gaps: dict[str, int] = {}
        for column in self.columns:
            with faults.collect():
                if column.name not in given:
                    raise InputError(
                        f"the {what}s have no column {shown(column.name)}, which the model was trained with."
                    )
                values = given[column.name]
                if not self.impute and values.isna().any():
                    gaps[column.name] = int(values.isna().sum())
                parts.append(encode_column(values, column))
                count = 0 if notes is None else unseen(values, column)
                new += [f"{column.name} ({count} of {len(values)} {what}s)"] if count else []
        with faults.collect():
            refuse_gaps(gaps, len(table), what)
        faults.check()
        if notes is not None and new:
            notes.append(f"{UNSEEN}: {_listed(new)}.")
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
            if given["kind"] not in KINDS or set(given) != set(cls("given").to_dict()):
                raise InputError("unknown kind of encoding")
            if not all(isinstance(given[field], bool) for field in ("impute", "directed")):
                raise InputError("a flag is damaged")
            columns, edge_columns = (
                tuple(Column.from_dict(c) for c in given[field]) for field in ("columns", "edge_columns")
            )
            named = {key: given[key] for key in _NAMED}
            if not all(isinstance(name, str | None) for name in named.values()):
                raise InputError("the name of a column is damaged")
            for several in (columns, edge_columns):
                if len({column.name for column in several}) < len(several):
                    raise InputError("two columns have one name")
            return cls(given["kind"], columns, edge_columns, given["impute"], given["directed"], **named)
        except (TypeError, KeyError, ValueError, OverflowError) as error:
            raise InputError("the encoding of the features is damaged.") from error


def differ_in_size(size: np.ndarray) -> bool:
    """Whether the columns of an array, given their root mean squares, differ so much that they are to be scaled."""
    filled = size[size > 0]
    return bool(len(filled) and np.isfinite(filled).all() and filled.max() >= UNEQUAL * np.median(filled))


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
TRIANGLE_WORK = 200_000_000  # multiply-adds up to which triangles are counted
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


def _clustering(A: sp.csr_matrix, degree: np.ndarray) -> np.ndarray:
    """The share of a node's pairs of neighbours that are neighbours themselves."""
    if float(A @ degree @ np.ones(len(degree)) if len(degree) else 0.0) > TRIANGLE_WORK:
        return np.zeros(len(degree))
    paths = sp.csr_matrix(A @ A)
    closed = np.asarray(paths.multiply(A).sum(axis=1)).ravel()
    return closed / np.maximum(degree * (degree - 1), 1.0)
