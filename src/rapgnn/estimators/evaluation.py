"""How good a model is, beside answers that need no graph: the majority's, and those of a model without edges."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import POOLINGS
from rapgnn.graph.scores import Metric, metrics_for, per_class
from rapgnn.network.config import Config
from rapgnn.network.network import describe
from rapgnn.search.costs import cost, training_cost
from rapgnn.search.start import DRAWN, linear_settings, start_config, suited
from rapgnn.search.train import train
from rapgnn.sparse import nonnegative
from rapgnn.training.predict import Prediction

Predictor = Callable[[Tensor], Prediction]
LARGE_MAJORITY = 0.75  # share of one class from which accuracy alone says little


def counting_split(graph: Graph) -> tuple[str, Tensor]:
    """The split that a model is judged by, and its rows: test, else val, else train, else every labelled row."""
    for split in ("test", "val", "train"):
        if len(graph.rows(split)):
            return split, graph.rows(split)
    return "all", graph.labelled


def evaluate(
    graph: Graph, predict: Predictor, scoring: str | None = None, without_edges: Predictor | None = None
) -> dict[str, Any]:
    """What there is to say about a model's predictions, as one flat record, for the split that counts.

    Args:
        predict: rows -> the model's predictions.
        scoring: the metric for the model and for what it is compared with; None: the task's own.
        without_edges: likewise, of a model that does not see the edges.

    Returns:
        ``scored_split, scored_rows, score, majority, without_edges``; for classes and labels ``balanced_accuracy,
        rocauc, average_precision`` (binary only), ``calibration_error, per_class``; for numbers ``mae, r2``; and
        ``verdict``, sentences about where the model is no better.
    """
    split, rows = counting_split(graph)
    metrics = metrics_for(graph.task)
    name = scoring or graph.objective.metric
    metric, y, p = metrics[name], graph.y[rows].cpu(), predict(rows).probabilities.cpu()
    guess, answer = _constant(graph, rows)
    record: dict[str, Any] = {"scored_split": split, "scored_rows": len(rows), "score": metric.measure(p, y)}
    record |= {"majority": metric.measure(guess, y), "majority_answer": answer, "without_edges": None}
    if without_edges is not None:
        record["without_edges"] = metric.measure(without_edges(rows).probabilities.cpu(), y)
    if graph.objective.metric == "rmse":
        record |= {key: metrics[key].measure(p, y) for key in ("mae", "r2")}
    else:
        record |= {key: metrics[key].measure(p, y) for key in ("balanced_accuracy", "rocauc")}
        if p.shape[1] == (2 if y.dim() == 1 else 1):
            record["average_precision"] = metrics["average_precision"].measure(p, y)
        record["calibration_error"] = metrics["calibration_error"].measure(p, y)
        record["per_class"] = per_class(p, y, graph.classes)
    return record | {"verdict": _verdict(graph, metric, name, record)}


def _constant(graph: Graph, rows: Tensor) -> tuple[Tensor, Any]:
    """One prediction for all rows, and its name: what training rows, or else these rows, have on average."""
    seen = graph.y[graph.train if len(graph.train) else rows].cpu()
    if seen.dim() == 2:
        level = seen.nanmean(0).nan_to_num()
        return level.expand(len(rows), -1), level.tolist() if graph.objective.metric == "rmse" else None
    share = torch.bincount(seen, minlength=graph.num_outputs).double() / max(1, len(seen))
    most = int(share.argmax())
    return share.expand(len(rows), -1), most if graph.classes is None else graph.classes[most]


def _verdict(graph: Graph, metric: Metric, name: str, record: dict[str, Any]) -> list[str]:
    """Where the model is no better than what it is compared with, or accuracy says little."""
    kind, sentences = graph.objective.metric, []
    value, rows = record["score"], max(1, record["scored_rows"])
    # A share of so many rows is uncertain by this much.
    chance = math.sqrt(max(0.0, value * (1 - value)) / rows) if metric.percent and 0 <= value <= 1 else 0.0
    always = "chance"
    if name == "calibration_error":  # answers of no use at all may be calibrated
        return sentences
    if name not in ("rocauc", "average_precision", "log_loss"):
        answer = f"always answering {record['majority_answer']!r}"
        always = answer if kind == "accuracy" else "the same answer for every row"
    if (judged := _beside(metric, value, record["majority"], chance)) is not None:
        sentences.append(f"{judged} than {always} ({shown(metric, record['majority'])}).")
    bare = record["without_edges"]
    if bare is not None and (judged := _beside(metric, value, bare, chance)) is not None:
        helps = "does not help" if judged.startswith("no") else "hardly helps"
        sentences.append(f"the graph {helps}: without edges it is {shown(metric, bare)}.")
    share = max((row["rows"] for row in record.get("per_class", [])), default=0) / rows
    if kind == "accuracy" and name == "accuracy" and share >= LARGE_MAJORITY:
        sentences.append(
            f"{100 * share:.0f} % of the rows have one class, so accuracy alone says little: read balanced accuracy "
            'and ROC-AUC (to choose by it: --metric rocauc, scoring="rocauc").'
        )
    return sentences


def _beside(metric: Metric, value: float, other: float, chance: float) -> str | None:
    """Words where a value is no better than another, or not by more than chance; NaN is not judged."""
    gain = value - other if metric.higher else other - value
    if gain != gain:
        return None
    return "no better" if gain <= 0 else "hardly better" if gain <= chance else None


def shown(metric: Metric, value: float | None) -> str:
    """A value as people read it."""
    if value is None or value != value:
        return "-"
    return f"{100 * value:.2f} %" if metric.percent else f"{value:.3f}"


def fit_without_edges(
    graph: Graph, config: Config, seed: int, device: str = "cpu", scoring: str | None = None, class_weight: Any = None
) -> Predictor:
    """A model of the same rows without their edges: the features as they are, then through a random non-linear map,
    a head in closed form; the better of the two on validation. Where rows are graphs, their nodes' features are pooled.

    Args:
        config: the settings whose feature scaling and pooling are taken over.
    """
    check_own_features(graph)
    if not len(graph.train):
        raise InputError("there is no model without edges: the data have no training rows.")
    none = torch.zeros(2, 0, dtype=torch.int64)
    bare = replace(graph, edge_index=none, edge_weight=None, edge_attr=None, notes=())
    start = start_config(bare)
    # A layer without edges and with weights of 1 is the identity.
    layer: dict[str, Any] = {"num_layers": 1, "jumping": "last", "structure": "identity", "schedule": "fixed"}
    layer |= {"backbone": "gcn", "self_loops": True} if graph.ptr is None else {"backbone": "gin"}
    pooling = config.pooling if config.pooling in POOLINGS else "sum"
    layer |= {"normalize_features": config.normalize_features, "pooling": pooling}
    signed, allowed, found = not nonnegative(bare.x), training_cost(graph), []
    for embedding in (linear_settings(bare), DRAWN):
        fixed = suited(signed, start, layer | embedding)
        if embedding is not DRAWN and cost(bare, start.update(**fixed)) > allowed:
            continue
        goal = {"scoring": scoring, "class_weight": class_weight}
        found.append(train(bare, start, fixed, seed, device, search=False, **goal))
    higher = metrics_for(graph.task)[scoring or graph.objective.metric].higher
    best = max(found, key=lambda t: _rank(t.validation_score, higher))
    return best.fitted.predict


def check_own_features(graph: Graph) -> None:
    """Refuse to leave out the edges that the features are made of."""
    if graph.encoding is not None and graph.encoding.kind == "structural":
        raise InputError("there is no model without edges: the features are made of the edges.")


def _rank(value: float, higher: bool) -> float:
    return -math.inf if value != value else value if higher else -value


def chosen_words(model: Any) -> str:
    """One network's settings, or those of an average's members."""
    if not hasattr(model, "members"):
        return describe(model.config)
    shown = [words for words, use in listed(model) if use != "elsewhere"]
    if len(shown) == 1:
        return shown[0]
    counts = Counter(shown)  # members with the same settings learned from different averages
    parts = [words if times == 1 else f"{times} x {words}" for words, times in counts.items()]
    return f"the average of {len(shown)}: " + "; ".join(parts)


def listed(average: Any) -> list[tuple[str, str]]:
    """(settings, use) of every member of an average; draws that share a member's weight are one."""
    found: dict[Any, tuple[Any, str, int]] = {}
    for at, (member, use, weight) in enumerate(zip(average.members, average.uses, average.weights, strict=True)):
        key = at if weight == 1 else (member.config, use)
        draws = found[key][2] if key in found else 0
        found[key] = member.config, use, draws + 1
    return [
        (describe(config) + (f", {draws} draws" if draws > 1 else ""), use) for config, use, draws in found.values()
    ]
