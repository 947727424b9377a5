"""A page: its frame, its sections, and the file it becomes."""

import json
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from rapgnn.files import write_atomic
from rapgnn.report import library, parts
from rapgnn.report.markdown import to_html
from rapgnn.report.plots import THEME

MOST_BYTES = 5_000_000  # a page is meant to stay below


@dataclass
class Page:
    """One page.

    Args:
        title: its name.
        lead: a sentence or two below it, in Markdown.
        sections: in their order.
        footer: how and when it was made, in Markdown.
        data: what else is kept in the page for programs, as JSON.
    """

    title: str
    lead: str = ""
    sections: list[parts.Section] = field(default_factory=list)
    footer: str = ""
    data: dict[str, Any] = field(default_factory=dict)

    def render(self) -> str:
        """The HTML."""
        library.check_installed()
        plots = {}
        for section in self.sections:
            for figure in parts.figures_in(section.parts):
                for at, panel in enumerate(figure.panels):
                    plots[f"{figure.name}-{at}"] = panel.figure.to_json()
        return (
            _environment()
            .get_template("page.html")
            .render(
                page=self,
                plots={name: in_script(text) for name, text in plots.items()},
                data=in_script(json.dumps(self.data, allow_nan=False)),
                theme=in_script(json.dumps(THEME)),
                library=library.script() if plots else "",
                style=_read("page.css"),
                program=_read("page.js"),
            )
        )

    def write(self, path: Path) -> None:
        """Put the file in place."""
        text = self.render()
        write_atomic(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def in_script(text: str) -> str:
    """JSON that cannot end the script element around it."""
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@cache
def _read(name: str) -> str:
    return resources.files("rapgnn.report").joinpath("template", name).read_text(encoding="utf-8")


@cache
def _environment() -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_read), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["markdown"] = to_html
    for kind in (parts.Prose, parts.Notice, parts.Facts, parts.Chips, parts.Table, parts.Figure, parts.More):
        environment.tests[kind.__name__.lower()] = lambda value, kind=kind: isinstance(value, kind)
    return environment
