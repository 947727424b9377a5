"""Predictions as a table: one line per node or graph, with how sure the model is."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from rapgnn.errors import InputError
from rapgnn.files import write_atomic
from rapgnn.graph.graph import Graph
from rapgnn.scale.disk_graph import DiskGraph
from rapgnn.training.predict import PARTS, Prediction

TABLES = (".csv", ".parquet")


def prediction_table(
    graph: Graph | DiskGraph,
    predict: Callable[[Tensor], Prediction],
    classes: Sequence[Any] | None = None,
    probabilities: bool = False,
    known: Tensor | None = None,
    rows: Tensor | None = None,
    parts: bool = False,
    more: Callable[[np.ndarray, list[Any]], dict[str, Any]] | None = None,
    decide: Callable[[Tensor], Tensor] = lambda scores: scores,
) -> pd.DataFrame:
    """Columns by kind of label; rows and labels are called as the user called them.

    * classes: ``id, label, probability`` of that label, and ``spread``, its standard deviation;
    * many labels: ``id``, then ``label_j, probability_j, spread_j`` for each;
    * numbers: ``id``, then ``value_j, spread_j``.

    A spread is there only where the prediction has one; ``attrs["missing"]`` says why parts of it are not.

    Args:
        probabilities: whether every class shall have a column ``probability_j``.
        known: the rows whose label the data have, for a last column ``known``: yes or no; None leaves it out.
        parts: whether the parts of the spread have columns, behind it.
        decide: probabilities -> 1 for what is the answer and 0 for what is not, where a threshold decides.
        more: (probabilities, names of the outputs) -> further columns.
    """
    kind = graph.objective.metric
    if probabilities and kind == "rmse":
        raise InputError("numbers have no probabilities: leave `probabilities` out.")
    rows = torch.arange(graph.num_rows) if rows is None else rows
    result = predict(rows)
    values, at = result.probabilities.numpy(), np.arange(len(rows))
    names = range(values.shape[1]) if classes is None else classes
    table: dict[str, Any] = {"id": rows.numpy() if graph.ids is None else graph.ids[rows.numpy()]}
    bars = {} if result.spread is None else {"spread": result.spread.numpy()}
    if parts and result.parts is not None:
        bars |= {name: result.parts[name].numpy() if name in result.parts else None for name in PARTS}
    if kind == "accuracy":
        answers = decide(result.probabilities)
        # as predict and evaluate read it
        label = (result.scores if answers is result.probabilities else answers).argmax(dim=-1).numpy()
        table |= {"label": np.array(names)[label], "probability": values[at, label]}
        table |= {name: np.nan if bar is None else bar[at, label] for name, bar in bars.items()}
        table |= {f"probability_{name}": values[:, j] for j, name in enumerate(names)} if probabilities else {}
    for j, name in enumerate(names if kind != "accuracy" else ()):
        suffix, column = "" if values.shape[1] == 1 else f"_{name}", values[:, j]
        if kind == "rmse":
            table[f"value{suffix}"] = column
        else:
            yes = decide(result.probabilities).numpy()[:, j] > 0.5
            table |= {f"label{suffix}": yes.astype(int), f"probability{suffix}": column}
        table |= {f"{part}{suffix}": np.nan if bar is None else bar[:, j] for part, bar in bars.items()}
    table |= {} if more is None else more(values, list(names))
    if known is not None:
        table["known"] = np.where(np.isin(rows, known.cpu()), "yes", "no")
    frame = pd.DataFrame(table)
    frame.attrs["missing"] = result.missing
    return frame


def write_table(table: pd.DataFrame, path: Path) -> None:
    """CSV or Parquet by the name's ending; whole or not at all."""
    try:
        write = table.to_csv if path.suffix.lower() == ".csv" else table.to_parquet
        write_atomic(path, lambda temporary: write(temporary, index=False))
    except ImportError:
        raise InputError("Parquet needs pyarrow: install it with pip install 'rapgnn[parquet]'.") from None
