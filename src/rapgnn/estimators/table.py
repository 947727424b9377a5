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
from rapgnn.training.predict import Prediction

TABLES = (".csv", ".parquet")


def prediction_table(
    graph: Graph,
    predict: Callable[[Tensor], Prediction],
    classes: Sequence[Any] | None = None,
    probabilities: bool = False,
    known: Tensor | None = None,
) -> pd.DataFrame:
    """Columns by kind of label; rows and labels are called as the user called them.

    * classes: ``id, label, probability`` of that label, and ``spread``, its standard deviation;
    * many labels: ``id``, then ``label_j, probability_j, spread_j`` for each;
    * numbers: ``id``, then ``value_j, spread_j``.

    A spread is there only where the prediction has one.

    Args:
        classes: what the class numbers stand for.
        probabilities: whether every class shall have a column ``probability_j``.
        known: the rows whose label the data have, for a last column ``known``: yes or no; None leaves it out.
    """
    if probabilities and graph.objective.metric == "rmse":
        raise InputError("numbers have no probabilities: leave --probabilities out.")
    table = _table(graph, predict, classes, probabilities)
    if known is not None:
        labelled = np.zeros(graph.num_rows, dtype=bool)
        labelled[known.cpu().numpy()] = True
        table["known"] = np.where(labelled, "yes", "no")
    return table


def _table(
    graph: Graph, predict: Callable[[Tensor], Prediction], classes: Sequence[Any] | None, probabilities: bool
) -> pd.DataFrame:
    rows = torch.arange(graph.num_rows)
    result = predict(rows)
    values, spread = result.probabilities, result.spread
    table: dict[str, object] = {"id": rows.numpy() if graph.ids is None else graph.ids}
    if graph.objective.metric == "accuracy":
        label = result.scores.argmax(dim=-1)  # as predict and evaluate read it
        named = label.numpy() if classes is None else np.array(classes)[label.numpy()]
        table |= {"label": named, "probability": _at(values, label)}
        if spread is not None:
            table["spread"] = _at(spread, label)
        for j in range(values.shape[1] if probabilities else 0):
            table[f"probability_{j if classes is None else classes[j]}"] = values[:, j].numpy()
        return pd.DataFrame(table)
    for j in range(values.shape[1]):
        suffix = "" if values.shape[1] == 1 else f"_{j if classes is None else classes[j]}"
        if graph.objective.metric == "rmse":
            table[f"value{suffix}"] = values[:, j].numpy()
        else:
            table[f"label{suffix}"] = (values[:, j] > 0.5).long().numpy()
            table[f"probability{suffix}"] = values[:, j].numpy()
        if spread is not None:
            table[f"spread{suffix}"] = spread[:, j].numpy()
    return pd.DataFrame(table)


def write_table(table: pd.DataFrame, path: Path) -> None:
    """CSV or Parquet by the name's ending; whole or not at all."""
    if path.suffix.lower() == ".csv":
        write_atomic(path, lambda temporary: table.to_csv(temporary, index=False))
        return
    try:
        write_atomic(path, lambda temporary: table.to_parquet(temporary, index=False))
    except ImportError:
        raise InputError("Parquet needs pyarrow: install it with pip install 'rapgnn[parquet]'.") from None


def _at(values: Tensor, label: Tensor):
    return values.gather(1, label[:, None])[:, 0].numpy()
