"""Predictions as a table: one line per node or graph, with how sure the model is."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor

from rapgnn.errors import InputError
from rapgnn.files import write_atomic
from rapgnn.graph import Graph
from rapgnn.inference import Prediction

TABLES = (".csv", ".parquet")


def prediction_table(graph: Graph, predict: Callable[[Tensor], Prediction]) -> pd.DataFrame:
    """Columns by kind of label.

    * classes: ``id, label, probability`` of that label, and ``spread``, its standard deviation over draws;
    * many labels: ``id``, then ``label_j, probability_j, spread_j`` for each;
    * numbers: ``id``, then ``value_j, spread_j``.

    A spread is there only where draws were averaged.
    """
    rows = torch.arange(graph.num_rows)
    result = predict(rows)
    values, spread = result.probabilities, result.spread
    table: dict[str, object] = {"id": rows.numpy()}
    if graph.rule.metric == "accuracy":
        label = values.argmax(dim=-1)
        table |= {"label": label.numpy(), "probability": _at(values, label)}
        if spread is not None:
            table["spread"] = _at(spread, label)
        return pd.DataFrame(table)
    for j in range(values.shape[1]):
        suffix = "" if values.shape[1] == 1 else f"_{j}"
        if graph.rule.metric == "rmse":
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
