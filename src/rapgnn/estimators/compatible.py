"""Whether an estimator, a trained model and data go together; refused in one sentence where they do not."""

from dataclasses import replace
from typing import Any

import numpy as np

from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph
from rapgnn.graph.labels import unseen_note
from rapgnn.graph.validate import SPLITS
from rapgnn.training.schema import Schema


def suits(task: str, other: str) -> bool:
    """Whether an estimator for one task is for the other too: classes and many labels go together, numbers do not."""
    (level, kind), (other_level, other_kind) = task.split("-"), other.split("-")
    return level == other_level and (kind == "regression") == (other_kind == "regression")


def check_graph(graph: Graph, task: str, schema: Schema | None, y: Any, given: dict[str, Any] | None) -> Graph:
    if y is not None or given:
        raise InputError("a rapgnn Graph brings its own labels, edges and splits: give nothing beside it.")
    if not suits(task, graph.task):
        raise InputError(f"this is an estimator for {task}, but the data are for {graph.task}.")
    if schema is not None:
        schema.check(graph)
        return graph
    if not len(graph.labelled):
        raise InputError("there are no labels: a file of edges has none, so load a folder with a nodes.csv beside it.")
    if graph.classes is None and graph.objective.metric != "rmse":
        graph = replace(graph, classes=tuple(range(graph.num_outputs)))
    said = unseen_note(graph.y, {split: graph.rows(split) for split in SPLITS}, graph.classes)
    return replace(graph, notes=(*graph.notes, *(note for note in said if note not in graph.notes)))


def as_schema(graph: Graph, schema: Schema, labelled: bool) -> Graph:
    """The graph as one for the model's task; refused where its features, or its labels, do not fit."""
    if labelled and graph.task != schema.task:
        raise InputError(f"the model is for {schema.task}, but the labels are for {graph.task}.")
    if labelled and graph.y.dim() == 2 and graph.y.shape[1] != schema.out_channels:
        raise InputError(f"the model gives {schema.out_channels} values per row, y has {graph.y.shape[1]}.")
    graph = replace(graph, task=schema.task, num_outputs=schema.out_channels)  # labels it does not know come after them
    schema.check(graph)
    return graph


def as_classes(classes: tuple[Any, ...]) -> np.ndarray:
    """As numpy holds them, unless that would change them: whole numbers too large for 64 bits."""
    found = np.array(classes)
    return found if found.tolist() == list(classes) else np.array(classes, dtype=object)
