"""Labels as a user has them (words, numbers, gaps) <-> class numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from rapgnn.errors import InputError, shown
from rapgnn.graph.validate import SPLITS, labelled_rows, native, shape_of

UNKNOWN = -1
EXACT = 2.0**53  # the whole numbers below it are exact as floats


def label_column(values: Any, what: str = "labels") -> pd.Series:
    """One label per row, missing where there is none: NaN, None, an empty string, or the whole number -1."""
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    if isinstance(values, np.ndarray):
        values = native(values) if values.dtype.kind in "biuf" else values
        values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if isinstance(values, pd.DataFrame | dict) or len(shape_of(values, what)) == 0:
        raise InputError(f"{what} must be one value per row, got {type(values).__name__}.")
    try:
        column = pd.Series(values).reset_index(drop=True)
        if isinstance(column.dtype, pd.CategoricalDtype):
            column = column.astype(column.cat.categories.dtype)
        kind = column.dtype.kind if isinstance(column.dtype, np.dtype) else "O"
        if kind in "iuf":
            return _numbers(column, kind, what)
        if kind not in "bO" and not pd.api.types.is_string_dtype(column) and not pd.api.types.is_bool_dtype(column):
            raise InputError(f"{what} must be words or whole numbers, got values of type {column.dtype}.")
        labels = [_label(value, what) for value in column]
        "".join(label for label in set(labels) if isinstance(label, str)).encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{what} hold a word with half a character, which no file can hold: rename it.") from error
    except InputError:
        raise
    except (ValueError, TypeError) as error:
        raise InputError(f"{what} must be one value per row: {str(error).splitlines()[0]}.") from error
    _refuse_signs({label for label in labels if label is not None}, what)
    return pd.Series([None if label == UNKNOWN else label for label in labels], dtype=object)


def _numbers(column: pd.Series, kind: str, what: str) -> pd.Series:
    known = column[column.notna()]
    if kind == "f" and not np.isfinite(known).all():
        raise InputError(f"{what} hold infinite values.")
    _refuse_signs(set(np.unique(known)), what)
    if kind != "f" and len(known) and max(abs(int(known.min())), abs(int(known.max()))) >= EXACT:
        column = column.astype(object)  # as floats, which have a place for gaps, they would run together
    return column.where(column != UNKNOWN)


def _label(value: Any, what: str) -> Any:
    """One label, without blanks around it; None where there is none."""
    if isinstance(value, str):
        return value.strip() or None
    if value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, bool | int | np.integer | np.bool_):
        return value
    raise InputError(f"{what} must be words or whole numbers, got a value of type {type(value).__name__}.")


def _refuse_signs(values: set[Any], what: str) -> None:
    if values == {UNKNOWN, 1}:
        raise InputError(f"{what} are -1 and 1, and -1 means unknown here: use 0 and 1, or words.")


def find_classes(column: pd.Series) -> tuple[Any, ...]:
    """The distinct labels in order, as plain Python values."""
    known = column[column.notna()]
    if not len(known):
        raise InputError("no row has a label (every label is -1 or missing).")
    if column.dtype.kind == "f":  # whole numbers with gaps arrive as floats
        if (known != known.round()).any() or (np.abs(known) >= EXACT).any():
            raise InputError(
                "class labels must be words or whole numbers; these look like regression targets, which are for "
                'RAPNodeRegressor, or RAPGraphRegressor for whole graphs (`task="regression"`).'
            )
        return tuple(int(v) for v in np.unique(known))
    values = [as_plain(v) for v in known]
    if len(set(map(type, values))) > 1:
        raise InputError("labels mix words and numbers, or numbers and booleans: make all of them words.")
    return tuple(sorted(set(values)))


def to_numbers(column: pd.Series, classes: Sequence[Any], unknown_classes: bool = False) -> np.ndarray:
    """Each row's place in ``classes``, -1 where the label is missing.

    Args:
        unknown_classes: read a label that is not a class as missing instead of refusing it.
    """
    known = column.notna().to_numpy()
    if column.dtype.kind in "iuf" and all(isinstance(c, str) for c in classes):
        # The model's classes are words, here they look like numbers.
        column = column.map(shown_label).where(known, None)
    bare = [label.strip() if isinstance(label, str) else label for label in classes]
    names = bare if len(set(bare)) == len(bare) else classes
    numbers = np.where(known, pd.Index(names).get_indexer(pd.Index(column)), UNKNOWN).astype(np.int64)
    outside = known & (numbers == UNKNOWN)
    if outside.any() and not unknown_classes:
        value = column.iloc[int(outside.argmax())]
        raise InputError(f"label {shown_label(value)} is not one of the model's classes: {_listed(classes)}.")
    return numbers


def with_unseen(column: pd.Series, classes: Sequence[Any]) -> tuple[Any, ...]:
    """A trained model's classes and after them the labels that are none of these; refused where no label is one."""
    numbers = to_numbers(column, classes, unknown_classes=True)
    outside = column.notna().to_numpy() & (numbers == UNKNOWN)
    if not outside.any():
        return tuple(classes)
    if not (numbers >= 0).any():
        to_numbers(column, classes)  # refuses the first of them
    find_classes(column)  # refuses words among numbers
    unseen = find_classes(column.loc[outside])
    return (*classes, *(map(shown_label, unseen) if isinstance(classes[0], str) and column.dtype != object else unseen))


def unseen_labels_note(classes: Sequence[Any], known: int) -> list[str]:
    """What is to be said about labels that come after the classes a model knows."""
    if len(classes) <= known:
        return []
    listed, several = _listed(classes[known:]), len(classes) - known > 1
    are = f"labels {listed} are none" if several else f"label {listed} is none"
    return [f"{are} of the model's classes: such rows count as errors."]


def fill_gaps(values: Any) -> Any:
    """Numbers to be predicted as a user has them, NaN where they are None or pandas' NA; anything else as it is."""
    if isinstance(values, pd.Series | pd.DataFrame):
        kinds = [values.dtype] if isinstance(values, pd.Series) else list(values.dtypes)
        numbers = all(pd.api.types.is_numeric_dtype(k) and not pd.api.types.is_complex_dtype(k) for k in kinds)
        values = values.to_numpy(dtype=np.float64, na_value=np.nan) if numbers else values.to_numpy()
    if isinstance(values, np.ndarray) and values.dtype == object:
        values = values.tolist()
    if not isinstance(values, list | tuple):
        return values
    width = next((len(v) for v in values if isinstance(v, list | tuple | np.ndarray) and np.ndim(v) == 1), None)
    gap = np.nan if width is None else [np.nan] * width
    return [gap if v is None or v is pd.NA else v for v in values]


def unseen_note(labels: Tensor, rows: Mapping[str, Tensor], names: Sequence[Any] | None = None) -> list[str]:
    """What is to be said where validation or test rows have classes that no training row has.

    Args:
        labels: class numbers; a table of labels, or of numbers, has no such classes.
        names: what the class numbers stand for.
    """
    if labels.dim() == 2:
        return []
    held_out = torch.cat([labels[rows[split]] for split in ("val", "test")]).unique()
    unseen = held_out[~torch.isin(held_out, labels[rows["train"]]) & (held_out >= 0)].tolist()
    if not unseen:
        return []
    listed = _listed([c if names is None else names[c] for c in unseen])
    occur = f"classes {listed} occur" if len(unseen) > 1 else f"class {listed} occurs"
    return [f"{occur} in validation or test rows only: not learned, and such rows count as errors."]


def blank_labels(values: Any) -> list[str]:
    """What is to be said where labels have blanks around them, which do not count."""
    if isinstance(values, Tensor) or (isinstance(values, np.ndarray | pd.Series) and values.dtype.kind in "biuf"):
        return []
    count = sum(isinstance(v, str) and v != v.strip() for v in pd.Series(values))
    return [f"blanks around {count} label{'s were' if count > 1 else ' was'} left out."] if count else []


def shown_label(label: Any) -> str:
    """A label as a sentence shows it."""
    number = isinstance(label, float | np.floating) and float(label).is_integer()
    return shown(int(label) if number else as_plain(label))


def _listed(labels: Sequence[Any], most: int = 8) -> str:
    return ", ".join(map(shown_label, labels[:most])) + (", ..." if len(labels) > most else "")


def as_plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


# Splits by chance.


SHARES = (0.2, 0.2)  # validation and test, where no split is given
NO_SPLIT = "no split was given"  # what a note begins with where a split is by chance
AS_GIVEN = (0.1, 0.1)  # the same where graphs are taken as they are
MANY = 100  # rows from which some are held out however small their classes are


def split_rows(labels: Tensor, seed: int, shares: tuple[float, float] = AS_GIVEN) -> tuple[Any, Any, Any]:
    """Training, validation and test rows by chance, each class in proportion and never without a training row.

    Where all classes are so small that no row of theirs would be held out, many of them give one row each.
    """
    rng = np.random.default_rng(seed)
    known = labelled_rows(labels).numpy()
    classes = labels.numpy()[known] if labels.dim() == 1 else np.zeros(len(known))
    parts: tuple[list[np.ndarray], ...] = ([], [], [])
    for one in np.unique(classes):
        members = rng.permutation(known[classes == one])
        val, test = (round(share * len(members)) for share in shares)
        cuts = np.split(members, [len(members) - val - test, len(members) - test])
        for part, chosen in zip(parts, cuts, strict=True):
            part.append(chosen)
    if not sum(map(len, parts[1])) and len(classes) >= MANY:
        giving = rng.permutation([i for i, rows in enumerate(parts[0]) if len(rows) > 1])
        first, second = (round(share * len(classes)) for share in shares)
        for part, some in zip(parts[1:], np.split(giving, [first, first + second]), strict=False):
            for i in some.tolist():
                part[i], parts[0][i] = parts[0][i][:1], parts[0][i][1:]
    train, val, test = (np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *part])) for part in parts)
    return train, val, test


def make_split(
    y: Tensor, seed: int, what: str = "nodes", shares: tuple[float, float] = SHARES
) -> tuple[dict[str, Tensor], str]:
    """A stratified split of the labelled rows by chance, and the sentence that reports it."""
    rows = map(torch.from_numpy, split_rows(y, seed, shares))
    parts: dict[str, Tensor] = dict(zip(SPLITS, rows, strict=True))
    sizes = " / ".join(str(len(parts[s])) for s in SPLITS)
    return parts, f"{NO_SPLIT}: the labelled {what} were divided {sizes} (train / val / test), seed {seed}."
