"""A page: its frame, its sections, and the file it becomes."""

import base64
import gzip
import json
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rapgnn.errors import InputError
from rapgnn.files import write_atomic
from rapgnn.report import parts
from rapgnn.report.parts import THEME

MOST_BYTES = 5_000_000  # a page is meant to stay below


@dataclass
class Page:
    title: str
    lead: str = ""
    sections: list[parts.Section] = field(default_factory=list)
    footer: str = ""
    data: dict[str, Any] = field(default_factory=dict)

    def render(self) -> str:
        check_installed()
        figures = [figure for section in self.sections for figure in parts.figures_in(section.parts)]
        plots = {f"{f.name}-{at}": as_json(panel.figure) for f in figures for at, panel in enumerate(f.panels)}
        return (
            _environment()
            .get_template("page.html")
            .render(
                page=self,
                plots={name: in_script(text) for name, text in plots.items()},
                data=in_script(json.dumps(self.data, allow_nan=False)),
                theme=in_script(json.dumps(THEME)),
                library=script() if plots else "",
                style=_read("page.css"),
                program=_read("page.js"),
            )
        )

    def write(self, path: Path) -> None:
        text = self.render()
        write_atomic(path, lambda temporary: temporary.write_bytes(text.encode("utf-8", "backslashreplace")))


def as_json(figure: parts.Drawn) -> str:
    """A figure as its script reads it: a number that does not exist leaves a gap."""
    text = json.dumps(figure, default=lambda value: value.tolist())
    return json.dumps(json.loads(text, parse_constant=lambda name: None))


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
    environment.globals["legend"] = parts.legend
    for kind in (parts.Prose, parts.Notice, parts.Facts, parts.Table, parts.Figure, parts.More):
        environment.tests[kind.__name__.lower()] = lambda value, kind=kind: isinstance(value, kind)
    return environment


# plotly: its Python part, which makes figures, and its script, which draws them inside the page.


MISSING = "a report needs plotly: install it with pip install 'rapgnn[report]'."
NEEDED = ("plotly", "jinja2", "markdown_it")


def check_installed() -> None:
    """Refuse a report before any work is done for it, where what it is made with is not installed."""
    if any(find_spec(name) is None for name in NEEDED):
        raise InputError(MISSING)


@cache
def script() -> str:
    """plotly's script, compressed: gzip in base64, a third of its size. The page unpacks it (``page.js``)."""
    check_installed()
    source = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    return base64.b64encode(gzip.compress(source, 9, mtime=0)).decode()


# Markdown -> HTML.


@cache
def _parser() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("js-default", {"linkify": False}).enable("table")  # HTML inside is shown, not obeyed


def to_html(text: str) -> str:
    return _parser().render(text)
