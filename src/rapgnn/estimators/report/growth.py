"""How the model would do with another depth and with fewer labels: a few trainings with the chosen settings."""

from dataclasses import replace

import numpy as np
import torch

from rapgnn.errors import InputError
from rapgnn.estimators.costs import nominal_cost
from rapgnn.estimators.report.subject import AbsentError, Subject
from rapgnn.graph.graph import Graph
from rapgnn.report import plots
from rapgnn.report.parts import Figure, Panel, Part, Prose, table

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
        spent += nominal_cost(choice[1], subject.config.update(**choice[2]))
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
