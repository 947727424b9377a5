"""Pages read back: their sections, tables, plots and data, as a program finds them."""

import base64
import json
from dataclasses import dataclass, field
from html.parser import HTMLParser

import numpy as np

VOID = {"meta", "input", "br", "img", "link", "hr"}


@dataclass
class ReadTable:
    caption: str
    header: list[str]
    rows: list[list[str]]
    tones: list[list[str]]

    def cell(self, row: str, column: str) -> str:
        (found,) = [cells for cells in self.rows if cells[0] == row]
        return found[self.header.index(column)]


@dataclass
class ReadPage(HTMLParser):
    """What stands on a page."""

    text: str
    tags: list[tuple[str, dict]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    sections: dict[str, list[ReadTable]] = field(default_factory=dict)
    scripts: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        HTMLParser.__init__(self)
        self._open: list[str] = []
        self._section, self._table, self._cell, self._caption, self._script = "", None, None, False, ""
        self.feed(self.text)
        self.close()
        assert self._open == [], self._open

    def handle_starttag(self, tag: str, attrs: list) -> None:
        given = dict(attrs)
        self.tags.append((tag, given))
        if "id" in given:
            self.ids.append(given["id"])
        if tag not in VOID:
            self._open.append(tag)
        if tag == "section":
            self._section = given["id"]
            self.sections[self._section] = []
        elif tag == "table":
            self._table = ReadTable("", [], [], [])
            self.sections[self._section].append(self._table)
        elif tag == "caption":
            self._caption = True
        elif tag == "tr" and self._table is not None and self._table.header:
            self._table.rows.append([])
            self._table.tones.append([])
        elif tag in ("td", "th") and self._table is not None:
            self._cell, self._class = "", given.get("class", "")
        elif tag == "span" and given.get("class") == "sign":
            self._sign = True
        elif tag == "script":
            self._script = given.get("data-plot") or given.get("id") or ""

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, tag
        if tag == "section":
            self._section = ""
        elif tag == "table":
            self._table = None
        elif tag == "caption":
            self._caption = False
        elif tag in ("td", "th") and self._table is not None and self._cell is not None:
            said = " ".join(self._cell.split())
            if self._table.rows:
                self._table.rows[-1].append(said)
                self._table.tones[-1].append(self._class.split()[-1])
            else:
                self._table.header.append(said)
            self._cell = None
        elif tag == "script":
            self._script = ""

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "script":
            self.scripts[self._script] = self.scripts.get(self._script, "") + data
            return
        if self._caption and self._table is not None:
            self._table.caption += data
        elif self._cell is not None and not getattr(self, "_sign", False):
            self._cell += data
        self._sign = False
        self.words[self._section] = self.words.get(self._section, "") + data

    @property
    def plots(self) -> dict[str, dict]:
        return {name: json.loads(text) for name, text in self.scripts.items() if name[-1:].isdigit()}

    def table(self, section: str, caption: str) -> ReadTable:
        (found,) = [t for t in self.sections[section] if t.caption.startswith(caption)]
        return found


def numbers(values) -> list[float]:
    """A list of numbers of a plot, packed or not."""
    if isinstance(values, dict):
        return np.frombuffer(base64.b64decode(values["bdata"]), dtype=np.dtype(values["dtype"])).tolist()
    return list(values)
