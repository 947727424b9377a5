"""Everything a user can get wrong about a graph's arrays, refused in one sentence."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rapgnn.errors import InputError, shown
from rapgnn.sparse import Features, SparseMatrix

SPLITS = ("train", "val", "test")
LARGEST = 1e15  # of a feature, a target or a weight: squares of larger ones, summed, leave 32 bits
SMALLEST = 1 / LARGEST  # of the largest feature: squares of smaller ones are nothing in 32 bits
TINY = 1e-6  # a column of numbers below it is scaled, whatever the others are
NEGATIVE = (
    "some edge weights are negative: such a neighbour is subtracted, and degrees sum magnitudes "
    "(where that is not meant, give magnitudes or leave the weights out)."
)


def as_array(value: Any, what: str) -> np.ndarray:
    """A numpy array of numbers from an array, a tensor or nested lists; ``what`` names it in a refusal."""
    try:
        array = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
        array = np.array(array.tolist()) if array.dtype == object else array  # its cells may be numbers
    except (TypeError, ValueError, RuntimeError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise InputError(f"{what} cannot be read as an array: {reason}.") from error
    if array.dtype.kind not in "biuf":
        raise InputError(f"{what} must be numbers, got values of type {array.dtype}.")
    return native(array)


def native(array: np.ndarray) -> np.ndarray:
    """The array in the byte order of this machine; half precision as single, which pandas has an index of."""
    kind = array.dtype.newbyteorder("=")
    return array.astype(np.float32 if kind == np.float16 else kind, copy=False)


def as_float32(array: Any) -> Any:
    """What is too large for 32 bits becomes infinite, quietly: every caller refuses infinite values."""
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(np.float32)


def shape_of(value: Any, what: str) -> tuple[int, ...]:
    """The shape of an array, a table or nested lists; rows of different lengths are refused."""
    if sp.issparse(value) or isinstance(value, Tensor):
        return tuple(value.shape)
    try:
        return np.shape(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{what} cannot be read as an array: its rows differ in length or kind.") from error


def check_whole(name: str, value: Any, least: int, most: int) -> int:
    """A whole number between two others, as a plain one."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        raise InputError(f"{name} must be a whole number from {least} to {most}, got {shown(value)}.")
    return int(value)


def check_features(x: Any, sparse: bool | None = None) -> Features:
    """Finite node features ``[n, c]``, dense or, with few non-zeros, sparse."""
    if sp.issparse(x):
        if len(x.shape) != 2 or x.dtype.kind not in "biuf":
            raise InputError(f"sparse node features must be a table of numbers, got {x.dtype} of shape {x.shape}.")
        matrix: Any = as_float32(sp.csr_matrix(x))
    else:
        matrix = as_array(x, "the node features")
        # Mostly zeros: no copy of them is made.
        matrix = as_float32(sp.csr_matrix(matrix) if sparse is None and mostly_zero(matrix) else matrix)
    values = matrix.data if sp.issparse(matrix) else matrix
    if len(matrix.shape) != 2 or 0 in matrix.shape:
        raise InputError(
            f"node features must be a table with a row per node and at least one column, got shape {matrix.shape}."
        )
    largest = max(values.max(initial=0), -values.min(initial=0))  # not finite where some value is not
    refuse_features(0 if np.isfinite(largest) else int((~np.isfinite(values)).sum()), largest)
    if sparse is None:
        sparse = sp.issparse(matrix) and mostly_zero(matrix)
    if sparse:
        return SparseMatrix(matrix)
    return torch.from_numpy(np.ascontiguousarray(matrix.toarray() if sp.issparse(matrix) else matrix))


def mostly_zero(x: Any, filled: float = 0.25) -> bool:
    """Whether a table is better stored sparse: a share of less than ``filled`` is not zero."""
    nonzero = x.count_nonzero() if sp.issparse(x) else np.count_nonzero(x)
    return bool(len(x.shape) == 2 and nonzero < filled * x.shape[0] * x.shape[1])


def refuse_features(bad: int, largest: float, what: str = "node features") -> None:
    """Refuse numbers of which ``bad`` are NaN or infinite, or the ``largest`` magnitude is too large or too small."""
    if bad:
        raise InputError(f"{what} hold {bad} NaN or infinite values: remove or impute them first.")
    if largest > LARGEST:
        raise InputError(f"{what} hold numbers beyond {LARGEST:g}: rescale them first.")
    if 0 < largest < SMALLEST:
        raise InputError(f"{what} hold no number beyond {SMALLEST:g}: rescale them first.")


def _check_numbers(values: np.ndarray, what: str) -> None:
    if not np.isfinite(values).all():
        raise InputError(f"{what} hold NaN or infinite values: remove or impute them first.")
    refuse_features(0, float(np.abs(values).max(initial=0)), what)


def check_edges(edge_index: Any, n: int) -> Tensor:
    """``[2, m]`` node numbers from 0 to n - 1."""
    edges = as_array(edge_index, "edge_index")
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise InputError(f"edge_index must have two rows, senders and receivers, got shape {edges.shape}.")
    if edges.size and edges.dtype.kind not in "iu":
        raise InputError(f"edge_index must hold node numbers, got values of type {edges.dtype}.")
    outside = (edges < 0) | (edges >= n)
    if outside.any():
        allowed = f"the nodes are numbered 0 to {n - 1}" if n else "there is none"
        raise InputError(f"edge_index names node {edges[outside][0]}, but {allowed}.")
    return torch.from_numpy(np.ascontiguousarray(edges.astype(np.int64)))


def check_edge_weight(edge_weight: Any, m: int) -> Tensor:
    """One finite number per edge ``[m]``."""
    weight = as_float32(as_array(edge_weight, "edge weights"))
    if weight.shape not in ((m,), (m, 1)):
        raise InputError(f"there are {m} edges but edge weights of shape {weight.shape}: give one number per edge.")
    weight = weight.reshape(-1)
    _check_numbers(weight, "edge weights")
    return torch.from_numpy(weight)


def check_labels(y: Any, n: int, what: str = "nodes", table: bool = False) -> Tensor:
    """Class numbers ``[n]``, -1 where unknown, or a table of 0, 1 and NaN ``[n, t]``.

    Args:
        table: one column is a table too.
    """
    labels = as_array(y, "labels")
    if table and labels.ndim == 1:
        labels = labels[:, None]
    elif labels.ndim == 2 and labels.shape[1] == 1 and not table:
        labels = labels[:, 0]
    if labels.ndim not in (1, 2) or len(labels) != n:
        raise InputError(f"there are {n} {what} but labels of shape {labels.shape}.")
    if labels.ndim == 2:
        known = labels[~np.isnan(labels)] if labels.dtype.kind == "f" else labels
        if not np.isin(known, (0, 1)).all():
            raise InputError("a table of labels must hold only 0, 1 and NaN (unknown).")
        return torch.from_numpy(labels.astype(np.float32))
    if labels.dtype.kind == "f":
        labels = np.where(np.isnan(labels), -1, labels)
        if not (np.abs(labels) < 2.0**53).all() or (labels != np.round(labels)).any():
            raise InputError("class labels must be whole numbers; these look like regression targets.")
    labels = labels.astype(np.int64)
    if labels.max(initial=-1) < 0:
        raise InputError(f"no {what[:-1]} has a label (every label is -1 or missing).")
    return torch.from_numpy(np.maximum(labels, -1))


def check_rows(mask: Any, n: int, split: str, what: str = "nodes") -> Tensor:
    """The row numbers of a split, given as a mask or as numbers."""
    array = as_array(mask, f"the {split} split")
    if array.ndim == 2 and len(array) == n and array.dtype == bool:
        raise InputError(f"the {split} split has {array.shape[1]} masks side by side: mask_column=0 takes the first.")
    if array.ndim != 1:
        raise InputError(f"the {split} split must be one mask or one list of numbers, got shape {array.shape}.")
    if array.dtype == bool:
        if len(array) != n:
            raise InputError(f"there are {n} {what} but the {split} mask has {len(array)} entries.")
        return torch.from_numpy(np.flatnonzero(array))
    if n > 2 and len(array) == n and np.isin(array, (0, 1)).all():
        raise InputError(f"the {split} split holds {n} zeros and ones: give a mask as booleans.")
    if array.size and (array.dtype.kind == "f" or array.min() < 0 or array.max() >= n):
        raise InputError(f"the {split} split must name {what} 0 to {n - 1}.")
    return torch.from_numpy(np.unique(array).astype(np.int64))


def check_splits(
    labels: Tensor, rows: dict[str, Tensor], what: str, unseen_classes: bool, classes: Sequence[Any] | None
) -> None:
    """Splits that do not overlap, have labels, and train on at least two classes.

    A class that only validation or test rows have is accepted (see ``unseen_note``), a number that no row has is not.

    Args:
        unseen_classes: accept numbers that no row has too, and labels that no training row knows.
        classes: what class numbers are called; None: there may be a single one.
    """
    if not len(rows["train"]):
        raise InputError(f"no labelled {what}: the training split is empty.")
    check_disjoint({split: index.numpy() for split, index in rows.items()}, what)
    if labels.dim() == 2:
        for split, index in rows.items():
            if len(index) and bool(labels[index].isnan().all()):
                raise InputError(f"no labelled {what}: every label of the {split} split is NaN.")
        never = labels[rows["train"]].isnan().all(0) & ~labels.isnan().all(0)
        if bool(never.any()) and not unseen_classes:
            column = int(never.nonzero()[0, 0])
            raise InputError(f"label {column} is unknown for every one of the training {what}: it cannot be learned.")
        return
    for split, index in rows.items():
        unknown = int((labels[index] < 0).sum())
        if unknown:
            raise InputError(f"{unknown} {what} of the {split} split have no label.")
    trained = set(labels[rows["train"]].tolist())
    wanted = trained.union(*(labels[rows[s]].tolist() for s in ("val", "test")))
    if unseen_classes:
        return
    missing = next((c for c in range(max(wanted) + 1) if c not in wanted), None)
    if missing is not None:
        raise InputError(f"class {missing} does not occur in any split: number the classes from 0, without gaps.")
    if len(trained) < 2 and (classes is not None or len(wanted) > 1):
        only = trained.pop()
        only = only if classes is None else classes[only]
        raise InputError(f"every label of the training split is {shown(only)}: there is nothing to tell apart.")


def check_disjoint(rows: dict[str, np.ndarray], what: str = "nodes") -> None:
    """Refuse rows that are in two splits."""
    for one, other in combinations(rows, 2):
        shared = np.intersect1d(rows[one], rows[other])
        if len(shared):
            raise InputError(
                f"{len(shared)} {what} are in both the {one} and the {other} split, number {shared[0]} first."
            )


def labelled_rows(labels: Tensor) -> Tensor:
    """The rows with a class, or with at least one known label or number."""
    return (labels >= 0 if labels.dim() == 1 else ~labels.isnan().all(1)).nonzero()[:, 0]


def check_targets(y: Any, n: int, what: str) -> Tensor:
    """Numbers to be predicted ``[n, t]``, NaN where unknown."""
    targets = as_array(y, "targets")
    targets = targets[:, None] if targets.ndim == 1 else targets
    if targets.ndim != 2 or len(targets) != n:
        raise InputError(f"there are {n} {what} but targets of shape {targets.shape}.")
    targets = as_float32(targets)
    if np.isinf(targets).any():
        raise InputError("targets hold infinite values, or numbers too large for 32 bits: remove them first.")
    if np.nanmax(np.abs(targets), initial=0) > LARGEST:
        raise InputError(f"targets hold numbers beyond {LARGEST:g}: rescale them first.")
    return torch.from_numpy(targets)


def check_edge_features(edge_attr: Any, m: int) -> Features:
    """``[m, e]``: 0/1 rows made from categories, or finite numbers."""
    if isinstance(edge_attr, SparseMatrix):
        features: Features = edge_attr
    else:
        table = as_float32(as_array(edge_attr, "edge features"))
        features = torch.from_numpy(np.ascontiguousarray(table[:, None] if table.ndim == 1 else table))
        _check_numbers(table, "edge features")
    if len(features.shape) != 2 or features.shape[0] != m:
        raise InputError(f"there are {m} edges but edge features of shape {tuple(features.shape)}.")
    return features


# Everything that is wrong with an input in one message, so that a user mends it in one go.


class FaultsError(InputError):
    """Several faults in one line, separated by semicolons; ``faults`` has them all.

    Args:
        most: faults that the line names.
    """

    def __init__(self, faults: Sequence[str], most: int = 8):
        self.faults, named, before = tuple(faults), list[str](), ""
        for fault in self.faults[:most]:  # a file is named once, by the first of its faults in a row
            file, colon, rest = fault.partition(": ")
            named.append(rest if colon and file == before else fault)
            before = file if colon else ""
        more = len(self.faults) - most
        super().__init__("; ".join([*named, *([f"and {more} more"] if more > 0 else [])]) + ".", longest=1600)


class Faults:
    """Collects what is refused, step by step; ``check`` refuses it all.

    Args:
        where: what every sentence begins with, such as the name of a file.
    """

    def __init__(self, where: str = "") -> None:
        self.where, self.sentences = where, list[str]()

    @contextmanager
    def collect(self) -> Iterator[None]:
        """A step whose refusal is kept for later; what needs its result must not run then."""
        try:
            yield
        except InputError as error:
            several = error.faults if isinstance(error, FaultsError) else (str(error).rstrip("."),)
            self.sentences += [f"{self.where}{fault}" for fault in several]

    def check(self) -> None:
        """Raise where something was refused."""
        faults = list(dict.fromkeys(self.sentences))
        if faults:
            raise FaultsError(faults) if len(faults) > 1 else InputError(f"{faults[0]}.")
