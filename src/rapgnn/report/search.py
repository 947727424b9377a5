"""What the search tried, what it chose, and why; and one model each with other depths and with fewer labels."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from rapgnn.errors import InputError
from rapgnn.estimators.card import describe, describe_members, family
from rapgnn.estimators.evaluation import merit
from rapgnn.graph.graph import Graph
from rapgnn.report import parts as plots
from rapgnn.report.parts import Cell, Figure, More, Panel, Part, Prose, Table
from rapgnn.report.subject import AbsentError, Subject
from rapgnn.search.costs import cost

MOST_TRIALS = 200
WHERE = {"both": "any graph", "here": "this graph", "elsewhere": "other graphs"}


def search_parts(subject: Subject) -> list[Part]:
    config, estimator = subject.config, subject.estimator
    model, trials = estimator.model_, estimator.trials_
    parts: list[Part] = []
    if getattr(model, "members", None):
        members = describe_members(model)
        columns = 2 if len({use for _, use in members}) == 1 else 3  # of members that all count everywhere
        rows = [[at, words, WHERE[use]][:columns] for at, (words, use) in enumerate(members, 1)]
        title = "The model is the average of these" if len(rows) > 1 else "The model"
        parts.append(Table(["member", "settings", "counts on"][:columns], rows, title, 3))
    else:
        parts.append(Prose(f"The model: {describe(config.to_dict())}."))
    parts.append(Prose(_why(subject, trials)))
    if estimator.engine_reason_:
        parts.append(Prose(f"Computed by the {estimator.engine_} engine, because {estimator.engine_reason_}."))
    if len(trials) > 1:
        order = sorted(trials[:MOST_TRIALS], key=lambda trial: -merit(trial.value, subject.metric.higher))
        rows = [
            [Cell(str(at), bold=at == 1), describe(t.settings), subject.shown(t.value), f"{t.seconds:.3f}"]
            for at, t in enumerate(order, 1)
        ]
        header = ["", "settings", f"{subject.metric.title} on validation", "seconds"]
        table = Table(header, rows, "Candidates, the best first", 2)
        parts += [_candidates(subject, trials[:MOST_TRIALS]), More(f"All {len(rows)} candidates", [table])]
    settings = Table(["setting", "value"], list(config.to_dict().items()), "Settings", 2)
    return [*parts, More("All settings of the model", [settings])]


def _why(subject: Subject, trials: list[Any]) -> str:
    metric, value = subject.metric, subject.estimator.validation_score_
    kept = None if value != value else subject.shown(value)
    if not trials and len(getattr(subject.estimator.model_, "members", ())) > 1:
        return "A search chose these; what else it tried is not saved with a model."
    if not trials or not subject.estimator.search:
        words = "There was no search: the model was trained once, with the settings given or the usual ones."
        return words if kept is None else f"{words} On validation: {metric.title} {kept}."
    best = sorted((trial.value for trial in trials), key=lambda value: -merit(value, metric.higher))
    following = f", the next {subject.shown(best[1])}" if len(best) > 1 else ""
    words = (
        f"{len(trials)} candidates were compared by {subject.estimator.ranked_by_} on validation rows, never on test "
        f"rows. The best reached {subject.shown(best[0])}{following}."
    )
    return words if kept is None else f"{words} The model has {kept} there, corrected for the choice."


def _candidates(subject: Subject, trials: list[Any]) -> Figure:
    series: dict[str, tuple[list[int], list[float]]] = {}
    for at, trial in enumerate(trials, 1):
        if trial.value == trial.value:
            xs, ys = series.setdefault(family(trial.settings), ([], []))
            xs.append(at)
            ys.append(subject.factor * trial.value)
    hover = "candidate %{x}: %{y:.4~g}<br>%{fullData.name}<extra></extra>"
    titles = ("candidate, in the order it was tried", f"{subject.unit} on validation")
    drawn = plots.lines(series, *titles, mode="markers", hover=hover)
    values = [value for _, ys in series.values() for value in ys]
    says = f"From {min(values):.4g} to {max(values):.4g}." if values else "No candidate has a value."
    return Figure("candidates", [Panel(drawn, f"{subject.unit} of every candidate on validation", says)])


# How the model would do with another depth and with fewer labels: a few trainings with the chosen settings.

DEPTHS = (1, 2, 4, 8)
SHARES = (0.1, 0.25, 0.5, 1.0)
LEAST_POINTS = 3  # of a line
SECONDS = 2.0  # of all trainings of one plot, by counted operations


def fewer_labels(graph: Graph, share: float, seed: int) -> Graph:
    """The graph with a share of its training rows, every class in proportion and never without one."""
    rng = np.random.default_rng(seed)
    rows, y = graph.train.cpu().numpy(), graph.y.cpu().numpy()
    kinds = y[rows] if y.ndim == 1 else np.zeros(len(rows))
    mixed = [rng.permutation(rows[kinds == kind]) for kind in np.unique(kinds)]
    chosen = np.sort(np.concatenate([part[: max(1, round(share * len(part)))] for part in mixed]))
    return replace(graph, train=torch.from_numpy(chosen).to(graph.train.device))


def trained_anew(subject: Subject, choices: Iterable[tuple[int, Graph, dict[str, Any]]]) -> dict[int, float]:
    """Name -> the metric with other settings or rows, as long as the time lasts, the first in any case."""
    scores, spent = {}, 0.0
    for name, graph, changes in choices:
        spent += cost(graph, subject.config.update(**changes))
        if scores and spent > SECONDS:
            break
        try:
            scores[name] = subject.score(subject.refit(graph, **changes))
        except InputError:  # so few rows, or so deep, cannot be trained on
            continue
    if not scores:
        raise AbsentError("no training with other settings was possible.")
    return scores


def by_depth(subject: Subject) -> dict[int, float]:
    depths = sorted({*DEPTHS, subject.depth})
    scores = trained_anew(subject, [(n, subject.graph, {"num_layers": n}) for n in depths])
    bare = subject.record["without_edges"]
    return scores if bare is None else {0: bare} | scores


def by_labels(subject: Subject) -> dict[int, float]:
    if not len(subject.graph.train):
        raise AbsentError("the data name no training rows.")
    graphs = [fewer_labels(subject.graph, share, subject.seed) for share in SHARES]
    return trained_anew(subject, {len(g.train): (len(g.train), g, {}) for g in graphs}.values())


def growth_parts(subject: Subject) -> list[Part]:
    title, panels, cells = subject.metric.title, [], []
    plotted = {"By depth": ("layers", by_depth(subject)), "By number of labels": ("training rows", by_labels(subject))}
    for name, (x, scores) in plotted.items():
        if len(scores) < LEAST_POINTS:
            continue
        xs, ys = list(scores), [subject.factor * value for value in scores.values()]
        axis = {"tickvals": xs} | ({"type": "log"} if x == "training rows" else {})
        look = {"hover": f"%{{x}} {x}: %{{y:.4~g}}<extra></extra>", "xaxis": axis, "each": {"showlegend": False}}
        drawn = plots.lines({title: (xs, ys)}, x, subject.unit, **look)
        says = ", ".join(f"{n} {x}: {y:.4g}" for n, y in zip(xs, ys, strict=True)) + "."
        panels.append(Panel(drawn, name, says))
        cells += [[name, f"{n:,}", f"{y:.4g}"] for n, y in zip(xs, ys, strict=True)]
    if not panels:
        raise AbsentError(f"there are fewer than {LEAST_POINTS} trainings to compare.")
    note = (
        "One model each, trained anew with the chosen settings and no search, judged on "
        f"{subject.split} rows. Zero layers: the model without edges."
    )
    return [Figure("growth", panels, table=Table(["", "", title], cells, "Growth")), Prose(note)]
