"""How good a model is, beside answers that need no graph: the majority's, and those of a model without edges.

What ``rapgnn fit`` and ``rapgnn evaluate`` print and what a report shows is the record made here.
"""

import math
import textwrap
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from rapgnn.device import pick_device
from rapgnn.errors import InputError
from rapgnn.estimators.threshold import class_number, decided
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import POOLINGS
from rapgnn.graph.scores import Metric, metric_name, metrics_for, per_class
from rapgnn.graph.tasks import average_precision
from rapgnn.graph.validate import SPLITS
from rapgnn.search.costs import cost, training_cost
from rapgnn.search.search import train
from rapgnn.search.start import DRAWN, first_point, linear_settings, start_config, suited
from rapgnn.sparse import nonnegative
from rapgnn.training.predict import Prediction

Predictor = Callable[[Tensor], Prediction]
LARGE_MAJORITY = 0.75  # share of one class from which accuracy alone says little
LEAST_ROWS = 20  # that a verdict stands on
BESIDE = ("balanced_accuracy", "rocauc", "average_precision", "calibration_error", "mae", "r2")


def counting_split(graph: Graph) -> tuple[str, Tensor]:
    """The split that a model is judged by, and its rows: test, else val, else train, else every labelled row."""
    for split in ("test", "val", "train"):
        if len(graph.rows(split)):
            return split, graph.rows(split)
    return "all", graph.labelled


def score_rows(
    graph: Graph,
    prediction: Prediction,
    rows: Tensor,
    scoring: Any = None,
    answers: Callable[[Tensor], Tensor] = lambda p: p,
) -> float:
    """The metric of the predictions of some rows: the task's own, of the scores, or another, of the probabilities.

    Args:
        answers: probabilities -> answers, where a threshold decides.
    """
    y = graph.y[rows].to(prediction.scores.device)
    p, metric = prediction.probabilities, metrics_for(graph.task)[scoring or graph.objective.metric]
    if scoring is None and answers(p) is p:
        return graph.objective.score(prediction.scores, y)
    return metric.measure(answers(p) if metric.answers else p, y)


def evaluate(graph: Graph, predict: Predictor, estimator: Any) -> dict[str, Any]:
    """What there is to say about a model's predictions, as one flat record.

    Args:
        estimator: the model, with its metric, weights of classes, class looked for and threshold.

    Returns:
        ``metric``; the metric of every split that has rows, or of ``all`` labelled rows; for the split that counts
        ``scored_split, scored_rows, score, majority, without_edges`` (or ``without_edges_missing``, why there is
        none); for classes and labels ``balanced_accuracy, rocauc, average_precision`` (binary only, of the class
        ``positive``, with ``positive_share``, which chance would reach), ``calibration_error, per_class``; for numbers
        ``mae, r2``; and ``verdict``, sentences about where the model is no better.
    """
    split, rows = counting_split(graph)
    if not len(rows):
        raise InputError("there are no labels to score against.")
    scoring, weights = goal_of(estimator, graph)
    positive, threshold = estimator.pos_label, estimator.threshold_
    metrics, name = metrics_for(graph.task), metric_name(scoring) or graph.objective.metric
    splits = {each: graph.rows(each) for each in SPLITS if len(graph.rows(each))} or {split: rows}
    predictions = {each: predict(index) for each, index in splits.items()}
    record: dict[str, Any] = {"metric": name}
    y, p = graph.y[rows].cpu(), predictions[split].probabilities.cpu()
    cut = 1 if threshold is None or p.shape[1] != 2 else class_number(positive, list(graph.classes or (0, 1)), y)

    def answers(p: Tensor) -> Tensor:
        return decided(p, threshold, cut)

    record |= {each: score_rows(graph, predictions[each], index, scoring, answers) for each, index in splits.items()}
    metric = metrics[scoring or name]
    guess, answer = _constant(graph, rows)
    record |= {"scored_split": split, "scored_rows": len(rows), "score": record[split]}
    record |= {"majority": metric.measure(guess, y), "majority_answer": answer}
    record |= {"without_edges": None, "without_edges_missing": None}
    try:
        if graph.ptr is not None or graph.typed is not None or graph.edge_index.shape[1]:
            how = estimator.seed, pick_device(estimator.device), scoring, weights
            without_edges = fit_without_edges(graph, estimator.config_, *how)
            record["without_edges"] = metric.measure(without_edges(rows).probabilities.cpu(), y)
    except InputError as error:
        record["without_edges_missing"] = str(error)
    binary = p.shape[1] == (2 if y.dim() == 1 else 1)
    left_out = () if binary else ("average_precision",)
    given = {key: metrics[key] for key in BESIDE if dict.__contains__(metrics, key) and key not in left_out}
    record |= {key: one.measure(answers(p) if one.answers else p, y) for key, one in given.items()}
    record |= {} if threshold is None else {"threshold": threshold}
    if binary and y.dim() == 1:
        j = class_number(positive, list(graph.classes or range(graph.num_outputs)), y)
        at = y == j
        record |= {
            "positive": j if graph.classes is None else graph.classes[j],
            "positive_share": float(at.double().mean()),
        }
        record["average_precision"] = average_precision(p[:, j : j + 1], at[:, None].to(p.dtype))
    if graph.objective.metric != "rmse":
        record["per_class"] = per_class(answers(p), y, graph.classes)
    return record | {"verdict": _verdict(graph, metric, name, record)}


def goal_of(estimator: Any, graph: Graph) -> tuple[Any, Any]:
    """The metric that a model is judged by on a graph, None: the task's own; and the weights of classes it learned."""
    return estimator.goal(graph), estimator.class_weight_ or estimator.class_weight


def facts(task: str, record: dict[str, Any]) -> list[tuple[str, str]]:
    metrics = metrics_for(task)
    metric = metrics[record["metric"]]
    beside = {"always the same answer": record["majority"], "without edges": record["without_edges"]}
    lines = [(f"{metric.title}, {title}", shown(metric, v)) for title, v in beside.items() if v is not None]
    others = [key for key in BESIDE if key in record and key != record["metric"]]
    titles = {key: metrics[key].title for key in others}
    if "positive" in record and "average_precision" in titles:
        chance = f"chance {100 * record['positive_share']:.1f} %"
        titles["average_precision"] += f" of {textwrap.shorten(str(record['positive']), 9)} ({chance})"
    return lines + [(titles[key], shown(metrics[key], record[key])) for key in others]


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
    if rows < LEAST_ROWS:
        return [f"{rows} rows are too few for a verdict: at least {LEAST_ROWS} would tell something."]
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
    if value is None or value != value:
        return "-"
    return f"{100 * value:.2f} %" if metric.percent else f"{value:.3f}"


def fit_without_edges(
    graph: Graph, config: Any, seed: int, device: str = "cpu", scoring: Any = None, class_weight: Any = None
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
    bare = replace(graph, edge_index=none, edge_weight=None, edge_attr=None, typed=None, notes=())
    start = start_config(bare)
    # A layer without edges and with weights of 1 is the identity.
    layer: dict[str, Any] = {"num_layers": 1, "jumping": "last", "structure": "identity", "schedule": "fixed"}
    layer |= {"backbone": "gcn", "self_loops": True} if graph.ptr is None else {"backbone": "gin"}
    pooling = config.pooling if config.pooling in POOLINGS else "sum"
    layer |= {"normalize_features": config.normalize_features, "pooling": pooling}
    signed, allowed, trained = not nonnegative(bare.x), training_cost(graph), []
    for embedding in (linear_settings(bare), DRAWN):
        fixed = suited(signed, start, layer | embedding)
        if embedding is not DRAWN and cost(bare, first_point(bare, start, fixed)) > allowed:
            continue
        goal = {"scoring": scoring, "class_weight": class_weight}
        trained.append(train(bare, start, fixed, seed, device, search=False, **goal))
    higher = metrics_for(graph.task)[scoring or graph.objective.metric].higher
    best = max(trained, key=lambda one: merit(one.validation_score, higher))
    return best.fitted.predict


def check_own_features(graph: Graph) -> None:
    """Refuse to leave out the edges that the features are made of."""
    counted = graph.typed is not None and graph.typed.target not in graph.typed.features
    if counted or (graph.encoding is not None and graph.encoding.kind == "structural"):
        raise InputError("there is no model without edges: the features are made of the edges.")


def merit(value: float, higher: bool) -> float:
    """A metric turned so that more is better, and NaN is worst."""
    return -math.inf if value != value else value if higher else -value
