"""A map of the rows: the two directions in which their representations differ most."""

from itertools import pairwise

import numpy as np

from rapgnn.estimators.report.subject import Subject
from rapgnn.report import plots
from rapgnn.report.parts import Figure, Panel, Part, Prose

MOST_POINTS = 1500
MOST_BYTES = 1 << 30  # of all representations, beyond which the predictions are mapped
MOST_NAMES = 7


def representation(subject: Subject, rows: np.ndarray) -> tuple[np.ndarray, str]:
    """What is mapped ``[points, d]``, and what it is in words."""
    config, graph = subject.config, subject.graph
    width = max(graph.num_features, int(getattr(config, "hidden_channels", 0) or 0)) * (subject.depth + 1)
    if 4 * graph.num_rows * width <= MOST_BYTES:
        try:
            from rapgnn.estimators.report.subject import quiet

            with quiet():
                found = np.asarray(subject.estimator.transform(graph))[rows]
            if found.ndim == 2 and np.isfinite(found).all():
                return found, "the propagated representations"
        except (AttributeError, NotImplementedError, ValueError):
            pass
    p = subject.p[rows]
    return (p if subject.numbers else np.log(np.clip(p, 1e-6, 1))), "the predictions"


def positions(subject: Subject, rows: np.ndarray) -> tuple[np.ndarray, str, float]:
    """Two coordinates per row, what was mapped, and the share of its variance that they show."""
    from sklearn.decomposition import PCA

    h, what = representation(subject, rows)
    if min(h.shape) < 2:
        return np.column_stack([h[:, 0] if h.size else np.zeros(len(rows)), np.zeros(len(rows))]), what, 1.0
    solver = PCA(2, svd_solver="randomized", random_state=subject.seed)
    found = solver.fit_transform(h)
    return found, what, float(np.nan_to_num(solver.explained_variance_ratio_.sum()))


def map_parts(subject: Subject) -> list[Part]:
    """Two plots: by label, and by error."""
    labelled = subject.graph.labelled.cpu().numpy()
    rows = subject.sample(labelled, MOST_POINTS)
    at, what, share = positions(subject, rows)
    panels = [
        _panel(subject, rows, at, *_by_label(subject, rows), "By label"),
        _panel(subject, rows, at, *_by_error(subject, rows), "By error"),
    ]
    sampled = (
        f" {len(rows):,} of {len(labelled):,} labelled rows are shown, drawn by chance."
        if len(rows) < len(labelled)
        else ""
    )
    note = f"Principal components of {what}; the two axes show {100 * share:.0f} % of the variance.{sampled}"
    return [Figure("map", panels, apart=True), Prose(note)]


def _by_label(subject: Subject, rows: np.ndarray) -> tuple[list[str], list[str]]:
    y = subject.graph.y.cpu().numpy()[rows]
    if subject.numbers:
        value = y[:, 0]
        cuts = np.unique(np.nanquantile(value, [0, 0.2, 0.4, 0.6, 0.8, 1]))
        if len(cuts) < 2:
            return ["all"] * len(rows), ["all"]
        names = [f"{a:.3g} to {b:.3g}" for a, b in pairwise(cuts)]
        place = np.clip(np.searchsorted(cuts, value, side="right") - 1, 0, len(names) - 1)
        return [names[i] for i in place], names
    if not subject.classes:
        y = np.where((y == 1).any(1), np.nan_to_num(y).argmax(1), -1)
        return _named(y, [*subject.names, "no label"])
    return _named(y, subject.names)


def _named(y: np.ndarray, names: list[str]) -> tuple[list[str], list[str]]:
    """The frequent classes by name, the others as one."""
    order = [names[i] for i in np.argsort(-np.bincount(y % len(names), minlength=len(names)), kind="stable")]
    kept = order if len(order) <= MOST_NAMES + 1 else order[:MOST_NAMES]
    known = set(kept)
    return [names[i] if names[i] in known else "other" for i in y], [
        *kept,
        *(["other"] if len(kept) < len(order) else []),
    ]


def _by_error(subject: Subject, rows: np.ndarray) -> tuple[list[str], list[str]]:
    y, p = subject.graph.y.cpu().numpy()[rows], subject.p[rows]
    trained = np.isin(rows, subject.graph.train.cpu().numpy())
    if subject.numbers:
        error = np.nanmean(np.abs(p - y), axis=1)
        wrong, right, bad = error > np.nanmedian(error), "error below the median", "error above the median"
    elif subject.classes:
        wrong, right, bad = p.argmax(1) != y, "right", "wrong"
    else:
        wrong, right, bad = (((p > 0.5) != (y == 1)) & ~np.isnan(y)).any(1), "all labels right", "a label wrong"
    said = np.where(trained, "trained on", np.where(wrong, bad, right))
    return said.tolist(), [right, bad, "trained on"]


def _panel(subject: Subject, rows: np.ndarray, at: np.ndarray, said: list[str], names: list[str], title: str) -> Panel:
    import plotly.graph_objects as go

    ids, marks = np.array(subject.row_names(rows)), np.array(said)
    traces = []
    for i, name in enumerate(names):
        mine = marks == name
        if mine.any():
            traces.append(
                go.Scatter(
                    x=at[mine, 0].round(3).tolist(),
                    y=at[mine, 1].round(3).tolist(),
                    mode="markers",
                    name=name,
                    text=ids[mine].tolist(),
                    marker={
                        "color": plots.colour(i),
                        "size": 6,
                        "opacity": 0.75,
                        "symbol": plots.SYMBOLS[i % len(plots.SYMBOLS)],
                    },
                    hovertemplate="%{text}<br>%{fullData.name}<extra></extra>",
                )
            )
    counts = ", ".join(f"{name}: {int((marks == name).sum()):,}" for name in names if (marks == name).any())
    drawn = plots.figure(traces, "first component", "second component", height=400)
    return Panel(drawn, title, f"Points: {counts}.")
