"""What the search tried, what it chose, and why."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from rapgnn.errors import InputError
from rapgnn.estimators.evaluation import listed, shown
from rapgnn.graph.graph import Graph
from rapgnn.report import parts as plots
from rapgnn.report.parts import Cell, Facts, Figure, More, Panel, Part, Prose, Table, table
from rapgnn.report.subject import AbsentError, Subject
from rapgnn.search.costs import cost

MOST_TRIALS = 200
WHERE = {"both": "any graph", "here": "this graph", "elsewhere": "other graphs"}
FIRST = ("backbone", "num_layers", "jumping", "embedding", "head")


def search_parts(subject: Subject) -> list[Part]:
    """The choice, and every candidate."""
    config, estimator = subject.config, subject.estimator
    parts: list[Part] = []
    if config is not None:
        facts = [(name.replace("_", " "), str(getattr(config, name))) for name in FIRST if hasattr(config, name)]
        engine = getattr(estimator, "engine_", None)
        facts += [("engine", str(engine))] if engine else []
        parts.append(Facts(facts))
    members = getattr(getattr(estimator, "model_", None), "members", ())
    if members:
        told = listed(estimator.model_)
        rows = [[Cell(str(at)), Cell(words), Cell(WHERE[use])] for at, (words, use) in enumerate(told, 1)]
        columns = 3 if len({use for _, use in told}) > 1 else 2  # where all count everywhere, there is nothing to say
        header = ["member", "settings", "counts on"][:columns]
        title = "The model is the average of these" if len(rows) > 1 else "The model"
        parts[:] = [Table(header, [row[:columns] for row in rows], title, 2)]
    trials = _trials(estimator)
    value = getattr(estimator, "validation_score_", None)
    parts.append(Prose(_why(subject, trials, value)))
    reason = getattr(estimator, "engine_reason_", None)
    if reason:
        parts.append(Prose(f"Computed by the {getattr(estimator, 'engine_', '')} engine, because {reason}."))
    if len(trials) > 1:
        parts.append(_candidates(subject, trials))
        parts.append(More(f"All {min(len(trials), MOST_TRIALS)} candidates", [_table(subject, trials)]))
    if config is not None:
        rows = [[Cell(name), Cell(str(value))] for name, value in config.to_dict().items()]
        parts.append(More("All settings of the model", [Table(["setting", "value"], rows, "Settings", 2)]))
    return parts


def _trials(estimator: Any) -> list[tuple[dict[str, Any], float, float]]:
    """(settings, value, seconds), whatever else a candidate carries."""
    found = []
    for trial in getattr(estimator, "trials_", None) or ():
        settings, value = getattr(trial, "settings", None), getattr(trial, "value", None)
        if isinstance(settings, dict) and isinstance(value, int | float):
            found.append((settings, float(value), float(getattr(trial, "seconds", float("nan")))))
    return found


def _merit(subject: Subject, value: float) -> float:
    return float("-inf") if value != value else value if subject.metric.higher else -value


def _why(subject: Subject, trials: list[Any], value: float | None) -> str:
    metric = subject.metric
    if not trials or getattr(subject.estimator, "network", None) is not None:
        said = "There was no search: the model was trained once, with the settings given or the usual ones."
        return (
            said if value is None or value != value else f"{said} On validation: {metric.title} {shown(metric, value)}."
        )
    ranked = sorted((_merit(subject, v) for _, v, _ in trials), reverse=True)
    best = shown(metric, abs(ranked[0]) if not metric.higher else ranked[0])
    said = (
        f"{len(trials)} candidates were compared by {metric.title} on validation rows, never on test rows. The best "
        f"reached {best}"
    )
    if len(ranked) > 1:
        second = shown(metric, abs(ranked[1]) if not metric.higher else ranked[1])
        said += f", the next {second}"
    said += "."
    if value is not None and value == value:
        said += f" The model that was kept has {shown(metric, value)} on validation."
    return said


def _kind(settings: dict[str, Any]) -> str:
    """What kind of random network a candidate is."""
    kinds = {
        "taught": "student",
        "landmarks": "kernel",
        "first": "on another's predictions",
        "hidden": "trained layer",
        "lift": "random features",
        "width": "layers",
        "colours": "colours",
    }
    return next((words for key, words in kinds.items() if settings.get(key)), "filter")


def _candidates(subject: Subject, trials: list[Any]) -> Figure:
    """Every candidate in the order it was tried, by head and embedding."""
    factor = 100 if subject.metric.percent else 1
    series: dict[str, tuple[list[int], list[float]]] = {}
    for at, (settings, value, _) in enumerate(trials[:MOST_TRIALS], 1):
        name = ", ".join(str(settings[key]) for key in ("embedding", "head") if key in settings) or _kind(settings)
        if value == value:
            series.setdefault(name, ([], []))
            series[name][0].append(at)
            series[name][1].append(factor * value)
    unit = f"{subject.metric.title}{' (%)' if subject.metric.percent else ''}"
    drawn = plots.lines(
        series,
        "candidate, in the order it was tried",
        f"{unit} on validation",
        hover="candidate %{x}: %{y:.4~g}<br>%{fullData.name}<extra></extra>",
    )
    drawn.update_traces(mode="markers")
    values = [v for _, ys in series.values() for v in ys]
    says = f"From {min(values):.4g} to {max(values):.4g}." if values else "No candidate has a value."
    return Figure("candidates", [Panel(drawn, f"{unit} of every candidate on validation", says)])


def _table(subject: Subject, trials: list[Any]) -> Table:
    names = list(dict.fromkeys(name for settings, _, _ in trials for name in settings))
    names = [*(n for n in FIRST if n in names), *(n for n in names if n not in FIRST)]
    ranked = sorted(trials[:MOST_TRIALS], key=lambda trial: -_merit(subject, trial[1]))
    rows = []
    for at, (settings, value, seconds) in enumerate(ranked):
        row = [Cell(str(at + 1), bold=at == 0), Cell(shown(subject.metric, value)), Cell(f"{seconds:.3f}")]
        rows.append([*row, *(Cell(str(settings.get(name, ""))) for name in names)])
    header = ["", f"{subject.metric.title} on validation", "seconds", *(n.replace("_", " ") for n in names)]
    return Table(header, rows, "Candidates, the best first")


# How the model would do with another depth and with fewer labels: a few trainings with the chosen settings.


DEPTHS = (1, 2, 4, 8)
SHARES = (0.1, 0.25, 0.5, 1.0)
SECONDS = 2.0  # of all trainings of one plot, by counted operations


def fewer_labels(graph: Graph, share: float, seed: int) -> Graph:
    """The graph with a share of its training rows, every class in proportion and never without one."""
    rng = np.random.default_rng(seed)
    rows, y = graph.train.cpu().numpy(), graph.y.cpu().numpy()
    kinds = y[rows] if y.ndim == 1 else np.zeros(len(rows))
    kept = [rng.permutation(rows[kinds == kind]) for kind in np.unique(kinds)]
    chosen = np.sort(np.concatenate([part[: max(1, round(share * len(part)))] for part in kept]))
    return replace(graph, train=torch.from_numpy(chosen).to(graph.train.device))


def affordable(subject: Subject, choices: list[tuple[object, Graph, dict]]) -> list[tuple[object, Graph, dict]]:
    """Those that fit into the time, the first of them in any case."""
    kept, spent = [], 0.0
    for choice in choices:
        spent += cost(choice[1], subject.config.update(**choice[2]))
        if kept and spent > SECONDS:
            break
        kept.append(choice)
    return kept


def _scores(subject: Subject, choices: list[tuple[object, Graph, dict]]) -> dict[object, float]:
    found = {}
    for name, graph, changes in affordable(subject, choices):
        try:
            found[name] = subject.score(subject.refit(graph, **changes))
        except InputError:  # so few rows, or so deep, cannot be trained on
            continue
    if not found:
        raise AbsentError("no training with other settings was possible.")
    return found


def by_depth(subject: Subject) -> dict[object, float]:
    """Number of layers -> the metric; 0 is the model without edges."""
    depths = sorted({*DEPTHS, subject.depth})
    found = _scores(subject, [(n, subject.graph, {"num_layers": n}) for n in depths])
    bare = subject.record["without_edges"]
    return ({0: bare} if bare is not None else {}) | found


def by_labels(subject: Subject) -> dict[object, float]:
    """Number of training rows -> the metric."""
    if not len(subject.graph.train):
        raise AbsentError("the data name no training rows.")
    parts = {len(g.train): g for g in (fewer_labels(subject.graph, s, subject.seed) for s in SHARES)}
    return _scores(subject, [(n, g, {}) for n, g in parts.items()])


def growth_parts(subject: Subject) -> list[Part]:
    """Two lines."""
    if subject.config is None:
        raise AbsentError("the estimator does not say its settings.")
    percent, title = subject.metric.percent, subject.metric.title
    factor = 100 if percent else 1
    panels, cells = [], []
    for name, x, found in (
        ("By depth", "layers", by_depth(subject)),
        ("By number of labels", "training rows", by_labels(subject)),
    ):
        xs, ys = list(found), [factor * value for value in found.values()]
        drawn = plots.lines(
            {title: (xs, ys)},
            x,
            f"{title}{' (%)' if percent else ''}",
            hover="%{x} " + x + ": %{y:.4~g}<extra></extra>",
            xaxis={"tickvals": xs} | ({"type": "log"} if x == "training rows" else {}),
        )
        drawn.update_traces(showlegend=False)
        panels.append(Panel(drawn, name, ", ".join(f"{n} {x}: {y:.4g}" for n, y in zip(xs, ys, strict=True)) + "."))
        cells += [[name, f"{n:,}", f"{y:.4g}"] for n, y in zip(xs, ys, strict=True)]
    note = (
        "One model each, trained anew with the chosen settings and no search, judged on "
        f"{subject.split} rows. Zero layers: the model without edges."
    )
    return [Figure("growth", panels, table=table(["", "", title], cells, "Growth", 1)), Prose(note)]
