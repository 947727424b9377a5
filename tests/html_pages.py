"""Pages read back: their sections, tables, plots and data, as a program finds them."""

import base64
import json
from dataclasses import dataclass, field
from html.parser import HTMLParser

import numpy as np

VOID = {"meta", "input", "br", "img", "link", "hr"}


@dataclass
class ReadTable:
    caption: str = ""
    header: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    tones: list[list[str]] = field(default_factory=list)

    def cell(self, row: str, column: str) -> str:
        (cells,) = [cells for cells in self.rows if cells[0] == row]
        return cells[self.header.index(column)]


class ReadPage(HTMLParser):
    """What stands on a page: its tags, and by section its tables and words; its scripts by name.

    Elements that do not close are refused.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.sections: dict[str, list[ReadTable]] = {}
        self.words: dict[str, str] = {}
        self.scripts: dict[str, str] = {}
        self._open: list[tuple[str, dict]] = []
        self._section, self._row, self._tones = "", [], []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        given = dict(attrs)
        self.tags.append((tag, given))
        if tag not in VOID:
            self._open.append((tag, given))
        if tag == "section":
            self._section = given["id"]
            self.sections[self._section] = []
        elif tag == "table":
            self.sections[self._section].append(ReadTable())
        elif tag == "tr":
            self._row, self._tones = [], []
        elif tag in ("td", "th"):
            self._row.append("")
            self._tones.append(given.get("class", "").split()[-1:])

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag, tag
        if tag == "section":
            self._section = ""
        elif tag == "tr":
            table, row = self.sections[self._section][-1], [" ".join(cell.split()) for cell in self._row]
            if table.header:
                table.rows.append(row)
                table.tones.append([tone[0] for tone in self._tones])
            else:
                table.header = row

    def handle_data(self, data: str) -> None:
        tags = [tag for tag, _ in self._open]
        attributes = self._open[-1][1] if self._open else {}
        if tags[-1:] == ["script"]:
            name = attributes.get("data-plot") or attributes.get("id") or ""
            self.scripts[name] = self.scripts.get(name, "") + data
            return
        self.words[self._section] = self.words.get(self._section, "") + data
        if tags[-1:] == ["caption"]:
            self.sections[self._section][-1].caption += data
        elif attributes.get("class") != "sign" and {"td", "th"} & set(tags):
            self._row[-1] += data

    @property
    def ids(self) -> list[str]:
        return [given["id"] for _, given in self.tags if "id" in given]

    @property
    def plots(self) -> dict[str, dict]:
        return {name: json.loads(text) for name, text in self.scripts.items() if name[-1:].isdigit()}

    def table(self, section: str, caption: str) -> ReadTable:
        (table,) = [t for t in self.sections[section] if t.caption.startswith(caption)]
        return table


def numbers(values) -> list[float]:
    """A list of numbers of a plot, packed or not."""
    if isinstance(values, dict):
        return np.frombuffer(base64.b64decode(values["bdata"]), dtype=np.dtype(values["dtype"])).tolist()
    return list(values)
