"""The rows of a graph: those set apart for validation and for folds, and what is trained for on the others.

A goal of the user's own is another metric to choose by, or classes and rows that count more than others.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rapgnn.errors import InputError, shown
from rapgnn.graph.graph import Graph
from rapgnn.graph.labels import UNKNOWN, shown_label, split_rows
from rapgnn.graph.scores import CLASS_METRICS, Metric, check_metric, metrics_for, ranked, scorer_metric, scorer_of
from rapgnn.graph.tasks import average_precision, rocauc
from rapgnn.graph.validate import as_array

FOLDS = 10


def hold_out(graph: Graph, seed: int, share: float = 0.2) -> Graph:
    """The graph with a share of its training rows set apart for validation, where it has no validation rows."""
    if len(graph.val):
        return graph
    masked = torch.full_like(graph.y, -1) if graph.y.dim() == 1 else torch.full_like(graph.y, float("nan"))
    masked[graph.train] = graph.y[graph.train]
    train, val, _ = (torch.from_numpy(part) for part in split_rows(masked, seed, (share, 0.0)))
    if not len(val):
        return graph
    note = f"no validation rows were given: {len(val)} of the {len(graph.train)} training rows serve, seed {seed}."
    return replace(graph, train=train, val=val, notes=(*graph.notes, note))


def of_seen_classes(graph: Graph) -> tuple[Graph, Tensor | None]:
    """The graph with the classes that training rows have, and their numbers; None: these are all.

    A class that only held-out rows have is no part of the training: it would move what is said of other rows.
    """
    if graph.y.dim() == 2 or graph.objective.metric == "rmse" or not len(graph.train):
        return graph, None
    seen = graph.y[graph.train].unique()
    if not 1 < len(seen) < graph.num_outputs:
        return graph, None
    place = torch.full((graph.num_outputs + 1,), UNKNOWN, device=graph.y.device)  # the last for rows without a label
    place[seen] = torch.arange(len(seen), device=graph.y.device)
    y, names = place[graph.y], graph.classes or tuple(range(graph.num_outputs))
    rows = {split: graph.rows(split)[y[graph.rows(split)] >= 0] for split in ("val", "test")}
    return replace(graph, y=y, num_outputs=len(seen), classes=tuple(names[c] for c in seen.tolist()), **rows), seen


def with_all_classes(graph: Graph, whole: Graph) -> Graph:
    """What ``of_seen_classes`` made, after training, with all classes and held-out rows of the graph it came from."""
    val = torch.cat([graph.val, whole.val.to(graph.val)]).unique()
    labels = {"y": whole.y.to(graph.y), "num_outputs": whole.num_outputs, "classes": whole.classes}
    return replace(graph, **labels, val=val, test=whole.test.to(graph.test))


def split_per_class(y: np.ndarray, train: float | int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training rows per class, a number or a share; the rest is halved, validation at most 500."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    chosen = []
    for label in np.unique(y):
        mine = order[y[order] == label]
        chosen.append(mine[: train if isinstance(train, int) else max(1, round(train * len(mine)))])
    picked = np.concatenate(chosen)
    rest = order[~np.isin(order, picked)]
    val = min(500, len(rest) // 2)
    return picked, rest[:val], rest[val:]


def split_blocks(blocks: np.ndarray, shares: tuple[float, float] = (0.6, 0.8)) -> tuple[np.ndarray, ...]:
    """Training, validation and test rows in the order of their blocks ``[rows]``, numbers from 0; blocks stay whole."""
    counts = np.bincount(blocks)
    middle = (np.cumsum(counts) - counts / 2) / len(blocks)
    part = np.searchsorted(shares, middle, side="right")[blocks]
    return tuple(np.flatnonzero(part == number) for number in range(3))


def make_folds(graph: Graph, seed: int, count: int = FOLDS) -> list[Tensor]:
    """The labelled rows in ``count`` parts, every class in proportion."""
    from sklearn.model_selection import KFold, StratifiedKFold

    y = graph.y.cpu()
    known = torch.cat([graph.train, graph.val, graph.test]).cpu().sort().values.numpy()
    classes = y[torch.from_numpy(known)].numpy() if y.dim() == 1 else None
    least = len(known) if classes is None else int(np.unique(classes, return_counts=True)[1].min())
    if least < count:
        raise InputError(f"{count}-fold cross-validation needs {count} graphs of every class, the rarest has {least}.")
    splitter = (StratifiedKFold if classes is not None else KFold)(count, shuffle=True, random_state=seed)
    parts = splitter.split(known, classes)
    return [torch.from_numpy(known[held_out]).to(graph.y.device) for _, held_out in parts]


BALANCED = "balanced"


def goal_metric(scoring: Any, graph: Graph, positive: int | None = None) -> Any:
    """``scoring`` with all it needs of a graph: the name of a metric, or a metric; refused where it is none.

    Args:
        positive: as in ``scorer_metric``.
    """
    kind = graph.task.partition("-")[2]
    if scoring is None or isinstance(scoring, Metric):
        return scoring
    if isinstance(scoring, str):
        check_metric(scoring, graph.task)
        if scoring in list(metrics_for(graph.task)):
            areas = {"rocauc": rocauc, "average_precision": average_precision}
            if scoring not in areas or positive is None:
                return scoring
            return replace(CLASS_METRICS[scoring], measure=ranked(areas[scoring], positive))
    y = graph.y[graph.train].cpu()
    p = y.nan_to_num() if y.dim() == 2 else torch.nn.functional.one_hot(y, graph.num_outputs).double()
    try:  # once where its error is seen
        scorer_metric(scoring, kind, graph.classes, positive, strict=True).measure(p, y)
    except (ValueError, TypeError) as error:
        raise InputError(f"{scorer_of(scoring)[1]} cannot judge these labels: {str(error).splitlines()[0]}") from error
    return scorer_metric(scoring, kind, graph.classes, positive)


def with_goal(graph: Graph, scoring: Any = None, class_weight: Any = None) -> Graph:
    """The graph with a goal; itself, where nothing is asked for.

    Args:
        scoring: a metric for the task, or its name; None: its own.
        class_weight: ``"balanced"``: every class counts the same in sum; {label: weight}; None: all rows the same.
    """
    if scoring is None and class_weight is None:
        return graph
    if scoring is not None:
        check_metric(scoring, graph.task)
    weights = None if class_weight is None else class_weights(graph, class_weight)
    return replace(graph, scoring=scoring, class_weight=weights)


def class_weights(graph: Graph, given: Any) -> tuple[float, ...]:
    """The weight of each class, scaled so that the training rows' mean is 1."""
    if graph.objective.metric != "accuracy":
        raise InputError("class_weight is for rows with one class each: leave it out here.")
    counts = torch.bincount(graph.y[graph.train], minlength=graph.num_outputs).cpu().double().numpy()
    names = list(range(graph.num_outputs)) if graph.classes is None else list(graph.classes)
    weights = np.ones(len(names))
    if isinstance(given, str) and given == BALANCED:
        weights = np.where(counts > 0, 1.0 / np.maximum(counts, 1.0), 1.0)
    elif not isinstance(given, Mapping):
        raise InputError(f'class_weight must be "balanced", {{label: weight}} or None, got {shown(given)}.')
    for label, weight in given.items() if isinstance(given, Mapping) else ():
        if label not in names:
            raise InputError(f"class_weight names {shown_label(label)}, which is not a class of the training rows.")
        number = isinstance(weight, int | float | np.number) and not isinstance(weight, bool)
        if not (number and 0 <= weight <= 1e12):
            raise InputError(f"the weight of class {shown_label(label)} must be a number from 0, got {shown(weight)}.")
        weights[names.index(label)] = float(weight)
    total = float((weights * counts).sum())
    if not (np.isfinite(total) and total > 0):
        raise InputError("class_weight leaves no training row with a weight above 0.")
    return tuple(float(w) for w in weights * counts.sum() / total)


def with_sample_weight(graph: Graph, sample_weight: Any) -> Graph:
    """The graph with a weight for each row, whose mean over training rows is 1; rows of weight 0 do not train."""
    weights = check_weights(sample_weight, graph).to(graph.y.device)
    train = graph.train[weights[graph.train] > 0]
    if not len(train):
        raise InputError("every sample_weight of a training row is zero: at least one must be above.")
    return replace(graph, train=train, sample_weight=weights / weights[train].mean())


def check_weights(given: Any, graph: Graph) -> Tensor:
    """A weight for each row."""
    weights = torch.as_tensor(as_array(given, "sample_weight").astype(np.float64))
    if weights.shape != (graph.num_rows,) or not bool((weights.isfinite() & (weights >= 0)).all()):
        raise InputError(f"sample_weight must be {graph.num_rows} numbers from 0, one for each row.")
    return weights


def row_weights(graph: Graph, shares: Tensor | None = None) -> Tensor | None:
    """How much every training row counts, by its class and by itself; None where all count the same.

    Args:
        shares: how much of every class the rows have ``[rows, classes]``; None: each has its label's.
    """
    weights = None if graph.sample_weight is None else graph.sample_weight[graph.train]
    if graph.class_weight is not None:
        each = torch.tensor(graph.class_weight, dtype=torch.float64, device=graph.y.device)
        each = each[graph.y[graph.train]] if shares is None else shares.double() @ each
        weights = each if weights is None else weights * each
    return weights
