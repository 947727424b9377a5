"""The page about a model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rapgnn.device import hardware, versions
from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph
from rapgnn.report.data import data_parts, map_parts
from rapgnn.report.importance import hop_parts, importance_parts
from rapgnn.report.page import Page, check_installed
from rapgnn.report.parts import Notice, Part, Section
from rapgnn.report.quality import calibration_parts, quality_parts, uncertain_parts, verdict_parts
from rapgnn.report.search import growth_parts, search_parts
from rapgnn.report.subject import AbsentError, Subject

Making = Callable[[Subject], list[Part]]
OnPart = Callable[[int, int, str], None]
SECTIONS: dict[str, tuple[Making, ...]] = {
    "How good it is": (verdict_parts,),
    "The data": (data_parts,),
    "What was chosen": (search_parts,),
    "Right and wrong": (quality_parts,),
    "Calibration": (calibration_parts,),
    "Which columns matter": (importance_parts,),
    "Which hops matter": (hop_parts,),
    "Map": (map_parts,),
    "Depth and labels": (growth_parts,),
    "Least sure rows": (uncertain_parts,),
}
"""Title -> what makes its parts, in the order of the page."""


def write_model_report(estimator: Any, graph: Graph, path: Path, on_part: OnPart | None = None) -> None:
    """Write the page.

    Args:
        graph: the data with labels, as the estimator reads them.
        on_part: told (parts done, all parts, the one that is made now).
    """
    check_installed()
    subject = Subject(estimator, graph)
    sections = []
    for done, (title, makers) in enumerate(SECTIONS.items()):
        if on_part is not None:
            on_part(done, len(SECTIONS), title)
        sections.append(Section(title, [part for make in makers for part in _made(make, subject)]))
    made = versions()
    with_what = ", ".join(f"{name} {version}" for name, version in made.items())
    device = str(getattr(estimator, "device", "cpu"))
    machine = hardware("cpu" if device == "auto" else device)
    Page(
        f"{graph.name}: a report on the model",
        f"{type(estimator).__name__}, judged on {len(subject.rows):,} {subject.split} rows that it was "
        f"{'' if subject.split == 'train' else 'not '}trained on.",
        sections,
        f"Made by rapgnn on {machine}; {with_what}. The page holds all it shows; nothing is loaded.",
        {
            "score": _plain(subject.record["score"]),
            "metric": subject.metric_name,
            "split": subject.split,
            "versions": made,
        },
    ).write(path)


def _made(make: Making, subject: Subject) -> list[Part]:
    """The parts; where they cannot be there, why."""
    try:
        return make(subject)
    except (AbsentError, InputError) as error:
        return [Notice(f"Not shown: {error}", "quiet")]


def _plain(value: float) -> float | None:
    return None if value != value else float(value)
