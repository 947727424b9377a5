"""The rows that the model is least sure of."""

import numpy as np

from rapgnn.estimators.report.subject import AbsentError, Subject
from rapgnn.graph.validate import SPLITS
from rapgnn.report.parts import Cell, Part, Prose, Table

SHOWN = 20


def uncertain_rows(subject: Subject) -> np.ndarray:
    """Row numbers, the least sure first: by the probability of the answer, or by the spread of numbers."""
    p, spread = subject.p, subject.spread
    trained = np.zeros(len(p), dtype=bool)
    trained[subject.graph.train.cpu().numpy()] = True
    if subject.numbers:
        if spread is None:
            raise AbsentError("error bars were left out: there are too many rows.")
        doubt = spread.mean(1)
    elif subject.classes:
        doubt = 1 - p.max(1)
    else:
        doubt = (0.5 - np.abs(p - 0.5)).mean(1)
    order = np.argsort(-doubt, kind="stable")
    return order[~trained[order]][:SHOWN]


def uncertain_parts(subject: Subject) -> list[Part]:
    """A table of them."""
    rows = uncertain_rows(subject)
    if not len(rows):
        raise AbsentError("every row was trained on.")
    split = np.full(subject.graph.num_rows, "–", dtype=object)
    for name in SPLITS:
        split[subject.graph.rows(name).cpu().numpy()] = name
    cells = [
        [Cell(name), *_said(subject, int(row)), Cell(str(split[row]))]
        for name, row in zip(subject.row_names(rows), rows, strict=True)
    ]
    header = {
        True: ["row", "prediction", "spread", "truth", "split"],
        False: ["row", "labels answered", "mean distance from sure", "truth", "split"],
    }[subject.numbers]
    if subject.classes:
        header = ["row", "answer", "probability", "spread", "next", "truth", "split"]
    note = (
        "Rows that were not trained on, the least sure first. To be labelled next, these teach the model most."
        if not subject.numbers
        else "Rows that were not trained on, the widest error bars first."
    )
    return [Prose(note), Table(header, cells, f"The {len(rows)} least sure rows", 2)]


def _said(subject: Subject, row: int) -> list[Cell]:
    p, y = subject.p[row], subject.graph.y.cpu()[row].numpy()
    spread = None if subject.spread is None else subject.spread[row]
    if subject.numbers:
        truth = ", ".join("–" if np.isnan(v) else f"{v:.4g}" for v in np.atleast_1d(y)[:4])
        return [
            Cell(", ".join(f"{v:.4g}" for v in p[:4])),
            Cell("–" if spread is None else f"{spread.mean():.3g}"),
            Cell(truth),
        ]
    if subject.classes:
        first, second = np.argsort(-p, kind="stable")[:2]
        truth = "–" if y < 0 else subject.names[int(y)]
        tone = "" if y < 0 else "good" if int(y) == first else "bad"
        wide = "–" if spread is None else f"± {100 * spread[first]:.1f}"
        return [
            Cell(subject.names[first]),
            Cell(f"{100 * p[first]:.1f} %"),
            Cell(wide),
            Cell(f"{subject.names[second]}, {100 * p[second]:.1f} %"),
            Cell(truth, tone),
        ]
    answered = ", ".join(subject.names[j] for j in np.flatnonzero(p > 0.5)[:6]) or "none"
    truth = "–" if np.isnan(y).all() else ", ".join(subject.names[j] for j in np.flatnonzero(y == 1)[:6]) or "none"
    return [Cell(answered), Cell(f"{100 * (0.5 - np.abs(p - 0.5)).mean():.1f} points"), Cell(truth)]
