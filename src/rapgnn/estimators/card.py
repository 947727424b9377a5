"""A model in words: what was chosen as a sentence, a graph in numbers, and the card beside a saved model."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any

import torch

from rapgnn.device import versions
from rapgnn.estimators.evaluation import facts, shown
from rapgnn.graph.graph import Graph
from rapgnn.graph.scores import metrics_for
from rapgnn.graph.validate import SPLITS
from rapgnn.network.config import SETTINGS, Config

JOINED = {"last": "", "cat": " side by side", "ppr": " by personalised PageRank"}
SCALED = {"none": "", "length": "length-normalised ", "tfidf": "tf-idf ", "standard": "standardised "}


def describe(settings: Mapping[str, Any]) -> str:
    """The settings of one network, such as ``gcn, 8 hops by personalised PageRank, 256 components of tf-idf features,
    ridge``; what is left out is as usual."""
    c = _config(settings)
    depth = c.num_layers
    if c.coefficients == "colours":
        words = [f"colours after {counted(depth, 'step')}"]
    elif c.coefficients == "random":
        words = [f"RAP {c.backbone}, {counted(depth, 'layer')}"]
        words += [] if c.embedding == "identity" else [f"{c.embedding} embedding"]
    elif c.coefficients == "layers":
        words = [f"{c.backbone}, {counted(depth, 'random layer')} of {counted(c.width, 'channel')}"]
    else:
        words = [f"{c.backbone}, {counted(depth, 'hop')}{JOINED[c.jumping] if depth > 1 else ''}"]
    scaled = SCALED.get(c.scaling, f"{c.scaling} ") + "features"
    if c.anchors:
        words.append(f"nearness to {counted(c.anchors, 'row')}")
    elif c.node_columns:
        words.append("places of nodes" if c.relations else "random columns")
    elif c.components:
        words.append(f"{c.components} components of {scaled}")
    elif scaled != "features":
        words.append(scaled)
    words += [f"{c.units} random features"] if c.units else []
    words += ["labels of neighbours"] if c.known_labels else []
    words += ["on another's predictions"] if c.previous is not None else []
    words += [f"{c.kernel} kernel"] if c.landmarks else []
    return ", ".join([*words, c.head])


def family(settings: Mapping[str, Any]) -> str:
    """The kind of network that settings describe, in a word or two."""
    c = _config(settings)
    if c.coefficients == "random":
        return f"RAP, {c.embedding}, {c.head}"
    kinds = {
        "self-training": settings.get("self_training"),
        "kernel": c.landmarks,
        "on another's predictions": c.previous is not None,
        "trained head": c.head != "ridge",
        "random features": c.units,
        "random layers": c.coefficients == "layers",
        "colours": c.coefficients == "colours",
    }
    return next((kind for kind, holds in kinds.items() if holds), "linear filter")


def _config(settings: Mapping[str, Any]) -> Config:
    return Config(**{name: value for name, value in settings.items() if name in SETTINGS})


def describe_model(model: Any) -> str:
    """One network's settings, or those of an average's members that count on the graph of the training."""
    if getattr(model, "members", None) is None:
        return describe(model.config.settings())
    here = [words for words, use in describe_members(model) if use != "elsewhere"]
    if len(here) == 1:
        return here[0]
    counts = Counter(here)  # members of self-training may have the same settings
    members = [words if times == 1 else f"{times} x {words}" for words, times in counts.items()]
    return f"the average of {len(here)}, " + "; ".join(members)


def describe_members(average: Any) -> list[tuple[str, str]]:
    """(settings, use) of every member of an average; draws that share a member's weight are one."""
    members: dict[Any, tuple[str, str, int]] = {}
    for at, (member, use, weight) in enumerate(zip(average.members, average.uses, average.weights, strict=True)):
        key = at if weight == 1 else (member.config, use)
        draws = members[key][2] if key in members else 0
        members[key] = describe(member.config.settings()), use, draws + 1
    return [(words + (f", {draws} draws" if draws > 1 else ""), use) for words, use, draws in members.values()]


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


# The card: what the model is, what it learned from, how good it is, and where not to use it.


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
