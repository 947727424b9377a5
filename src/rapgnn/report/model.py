"""The page about a model: a list of sections, each a function of the model and its data."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rapgnn.device import hardware, versions
from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph
from rapgnn.report.data import data_parts, map_parts
from rapgnn.report.importance import hop_parts, importance_parts, reason_parts
from rapgnn.report.page import Page, check_installed
from rapgnn.report.parts import Notice, Part, Section
from rapgnn.report.quality import calibration_parts, quality_parts, score_parts, uncertain_parts
from rapgnn.report.search import growth_parts, search_parts
from rapgnn.report.subject import AbsentError, Subject

OnPart = Callable[[int, int, str], None]
SECTIONS: dict[str, Callable[[Subject], list[Part]]] = {
    "How good it is": score_parts,
    "The data": data_parts,
    "What was chosen": search_parts,
    "Right and wrong": quality_parts,
    "Calibration": calibration_parts,
    "Which columns matter": importance_parts,
    "Which hops matter": hop_parts,
    "What moved single rows": reason_parts,
    "Map": map_parts,
    "Depth and labels": growth_parts,
    "Least sure rows": uncertain_parts,
}
"""Title -> what makes its parts, in the order of the page."""


def sections_of(makers: Mapping[str, Callable[[], list[Part]]], on_part: OnPart) -> list[Section]:
    """The sections by title, in their order; one that cannot be there says why."""
    sections = []
    for done, (title, make) in enumerate(makers.items()):
        on_part(done, len(makers), title)
        try:
            sections.append(Section(title, make()))
        except (AbsentError, InputError) as error:
            sections.append(Section(title, [Notice(f"Not shown: {error}", "quiet")]))
    return sections


def write_model_report(estimator: Any, graph: Graph, path: Path, on_part: OnPart = lambda *progress: None) -> None:
    """Write the page.

    Args:
        graph: the data with labels, as the estimator reads them.
        on_part: called with (sections done, all sections, the title of the next).
    """
    check_installed()
    subject = Subject(estimator, graph)
    sections = sections_of({title: partial(make, subject) for title, make in SECTIONS.items()}, on_part)
    made, device, score = versions(), str(estimator.device), float(subject.record["score"])
    with_what = ", ".join(f"{name} {version}" for name, version in made.items())
    trained_on = "" if subject.split == "train" else "not "
    Page(
        f"{graph.name}: a report on the model",
        f"{type(estimator).__name__}, judged on {len(subject.rows):,} {subject.split} rows that it was {trained_on}"
        "trained on.",
        sections,
        f"Made by rapgnn on {hardware('cpu' if device == 'auto' else device)}; {with_what}. The page holds all it "
        "shows; nothing is loaded.",
        {"score": score if score == score else None, "metric": subject.metric_name}
        | {"split": subject.split, "versions": made},
    ).write(path)
