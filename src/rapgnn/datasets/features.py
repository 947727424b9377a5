"""The columns of a user's nodes and edges that are features."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rapgnn.datasets.columns import Reading, Roles
from rapgnn.datasets.frames import Frame
from rapgnn.errors import InputError
from rapgnn.graph.faults import Faults
from rapgnn.graph.table import Encoding

NUMBERS_ROWS = "it numbers the rows"


def learn_features(nodes: Frame, roles: Roles, reading: Reading) -> tuple[Any, Encoding | None]:
    """The features (a table, an npz file's x, or None) and how they are made, where a table says it."""
    table = nodes.without(list(roles))
    if nodes.matrix is not None:
        if table.shape[1] and not reading.trained:
            raise besides_x(nodes.path, str(table.columns[0]))
        return nodes.matrix, reading.encoding
    if reading.trained:
        return (table if table.shape[1] else None), reading.encoding
    numbering = [name for name, values in table.items() if numbers_rows(str(name), values)]
    table = table.drop(columns=numbering)
    if not table.shape[1]:
        return None, reading.encoding
    faults = Faults(f"{nodes.path}: ")
    encoding = None
    with faults.collect():
        encoding = Encoding.learn(table, reading.impute)
    faults.check()
    if encoding is None:
        return None, None
    reasons = dict.fromkeys(map(str, numbering), NUMBERS_ROWS) | encoding.left_out
    return table, replace(encoding, left_out=reasons)


def besides_x(path: Path, column: str) -> InputError:
    """What is said where there is an array of features and a column that would be one more."""
    return InputError(f"{path} holds x and also {column}: put it into x, or ignore it (--ignore).")


def numbers_rows(name: str, values: pd.Series) -> bool:
    """Whether this is a column without a name that counts the rows, as programs write beside a table."""
    if not re.fullmatch(r"Unnamed: \d+", name) or not pd.api.types.is_integer_dtype(values):
        return False
    count = np.arange(len(values))
    return bool((values.to_numpy() - count == values.iloc[0]).all()) and int(values.iloc[0]) in (0, 1)
