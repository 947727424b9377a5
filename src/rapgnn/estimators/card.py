"""The card beside a saved model: what it is, what it learned from, how good it is, and where not to use it."""

from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

import torch

from rapgnn.device import versions
from rapgnn.estimators.describe import counted, describe_model
from rapgnn.estimators.evaluation import facts, shown
from rapgnn.graph.graph import Graph
from rapgnn.graph.scores import metrics_for
from rapgnn.graph.validate import SPLITS

MOST_NAMES = 20
LIMITS = (
    "The scores hold for rows like those they were measured on. For data of another place or time, measure again: "
    "`rapgnn evaluate MODEL DATA`.",
    "Error bars cover the draws of the weights, the uncertainty of the head and the disagreement of the members, not a "
    "change of the data.",
)


def describe_graph(graph: Graph) -> dict[str, Any]:
    """A graph in numbers, as ``rapgnn data info`` prints it."""
    row: dict[str, Any] = {"dataset": graph.name, "task": graph.task}
    row |= {"graphs": graph.num_rows} if graph.ptr is not None else {}
    row |= {"nodes": graph.num_nodes, "edges": graph.edge_index.shape[1], "features": graph.num_features}
    if graph.typed is not None:
        row |= {"edges": graph.typed.num_edges // 2, "types": graph.typed.counts}
        row |= {"relations": [one.key for one in graph.typed.relations]}
    row |= {"edge features": graph.num_edge_features} if graph.edge_attr is not None else {}
    labels = {"accuracy": "classes", "rocauc": "labels", "rmse": "targets"}[graph.objective.metric]
    row[labels] = graph.num_outputs
    if labels == "classes":
        row["class sizes"] = torch.bincount(graph.y[graph.y >= 0]).tolist()
    elif labels == "labels":
        row |= {"positive share": round(float(graph.y.nanmean()), 4), "unknown": int(graph.y.isnan().sum())}
    if graph.folds:
        row["protocol"] = "10-fold cross-validation; the split below is for searches of your own"
    return row | {split: len(graph.rows(split)) for split in SPLITS}


def model_card(estimator: Any, scores: dict[str, Any] | None = None) -> str:
    """Markdown about a fitted estimator; what a loaded one does not know of its training is left out.

    Args:
        scores: what ``evaluate`` says of it.
    """
    schema, data = estimator.schema_, dict(estimator.data_)
    task, name = schema.task.replace("-", " "), data.pop("dataset", "")
    sections = {
        "Data": _data_lines(estimator, data),
        "Rows": _pairs([(split, len(rows)) for split, rows in estimator.split_.items()]),
        "Model": _model_lines(estimator),
        "Scores": _score_lines(schema.task, scores),
        "Limits": _bullets([*_own_limits(estimator), *LIMITS]),
        "Warnings": _bullets([*(scores or {}).get("verdict", ()), *estimator.notes_]),
    }
    title = f"# {task[0].upper()}{task[1:]}" + (f" on {_plain(name)}" if name else "")
    return "\n".join([title, *(f"\n## {head}\n\n{text}" for head, text in sections.items() if text)]) + "\n"


def _data_lines(estimator: Any, data: dict[str, Any]) -> str:
    encoding, classes = estimator.schema_.encoding, estimator.schema_.classes
    rows = [(key, value) for key, value in data.items() if key not in (*SPLITS, "task", "class sizes")]
    if encoding is not None and encoding.columns:
        rows += [("columns of the nodes", _listed(column.name for column in encoding.columns))]
        rows += [(f"left out: {column}", reason) for column, reason in list(encoding.left_out.items())[:MOST_NAMES]]
    return _pairs([*rows, *([("answers", _listed(classes))] if classes else [])])


def _model_lines(estimator: Any) -> str:
    trials, value = len(estimator.trials_), estimator.validation_score_
    metrics = metrics_for(estimator.schema_.task)
    metric = metrics[estimator.scoring or estimator.schema_.objective.metric]
    rows = [("what", describe_model(estimator.model_)), ("seed", estimator.seed)]
    rows += [("chosen", f"among {counted(trials, 'candidate')}, by {metric.title} on validation")] if trials else []
    rows += [] if value != value else [(f"{metric.title} on validation", shown(metric, value))]
    return _pairs([*rows, ("versions", ", ".join(f"{name} {version}" for name, version in versions().items()))])


def _score_lines(task: str, scores: dict[str, Any] | None) -> str:
    if scores is None:
        return "Not measured when the model was saved: `rapgnn evaluate MODEL DATA`."
    metric = metrics_for(task)[scores["metric"]]
    rows = [(f"{metric.title}, {split}", shown(metric, scores[split])) for split in (*SPLITS, "all") if split in scores]
    return _pairs(rows + [(f"{scores['scored_split']}: {title}", value) for title, value in facts(task, scores)])


def _own_limits(estimator: Any) -> Iterator[str]:
    schema, members = estimator.schema_, getattr(estimator.model_, "members", None) or [estimator.model_]
    named = schema.encoding is not None and schema.encoding.columns
    what = "columns above" if named else f"{counted(schema.in_channels, 'feature')} of a node that it was trained with"
    yield f"It needs the {what}, in the same units."
    if schema.classes:
        yield "It knows no other answers than those above."
    if estimator.model_.fit_rows is not None:
        yield "It holds labels and predictions of rows that judged it, and hashes of the ids of all labelled rows."
    if any(member.config.known_labels for member in members):
        yield "It holds the labels of its training rows: whoever may read this folder may read these."


def _bullets(sentences: Iterable[str]) -> str:
    return "\n".join(f"* {_plain(sentence[0].upper() + sentence[1:])}" for sentence in sentences if sentence)


def _pairs(rows: Iterable[tuple[Any, Any]]) -> str:
    return "\n".join(f"* {_plain(key)}: **{_plain(value)}**" for key, value in rows)


def _plain(value: Any) -> str:
    return escape(" ".join(str(value).split()), quote=False).replace("[", "\\[")


def _listed(names: Iterable[Any]) -> str:
    names = [str(name) for name in names]
    return ", ".join(names[:MOST_NAMES]) + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")
