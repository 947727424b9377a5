"""The page of the paper's reproduction."""

from pathlib import Path

from rapgnn.experiments.report.glance import glance
from rapgnn.experiments.report.measured import Measured, read_measured
from rapgnn.experiments.report.plots import FIGURES
from rapgnn.experiments.report.tables import item_tables
from rapgnn.experiments.report.verdicts import claims_section, verdict_chips
from rapgnn.experiments.reproduce.items import ITEMS
from rapgnn.experiments.reproduce.outputs import command
from rapgnn.report.page import Page
from rapgnn.report.parts import Cell, Notice, Part, Prose, Section, Table
from rapgnn.versions import versions

PAPER = "[*On the Effectiveness of Random Weights in Graph Neural Networks*](https://arxiv.org/abs/2502.00190)"
COLOURS = (
    "A difference from the paper is green (✓) where our mean reaches the paper's, less its standard deviation. Else it "
    "is red (✗) where a one-sample t test at 5 % finds our runs behind, and yellow (~) where it cannot tell. The last "
    "column says what the row's comparisons with other methods mean for the paper's claims; each word leads to its "
    "claim."
)


def write_report(results: Path, out: Path) -> Measured:
    """Write the page of a folder of results; what was found there."""
    measured = read_measured(results)
    make_page(measured).write(out)
    return measured


def make_page(measured: Measured) -> Page:
    """The page, from what was measured."""
    sections = [*_top(measured)]
    sections += [_item(name, measured) for name in ITEMS]
    sections += [_again(measured), _machines(measured)]
    data = {"items": {name: len(found) for name, found in measured.records.items()}, "quick": measured.quick}
    return Page(
        "RAP-GNN: the paper, reproduced",
        f"Every table and figure of {PAPER}, measured again with rapgnn, ours beside the published value.",
        sections,
        f"Made by `rapgnn report`, rapgnn {versions()['rapgnn']}. The page holds all it shows; nothing is loaded.",
        data,
    )


def _top(measured: Measured) -> list[Section]:
    """What must not be overlooked, the verdicts, and the main comparison."""
    parts: list[Part] = []
    if measured.quick:
        parts.append(
            Notice(
                "**Quick run.** Fewer seeds, folds and epochs than the paper's: the numbers show that it works, and "
                "judge nothing."
            )
        )
    missing = [name for name in ITEMS if name not in measured.records]
    if missing:
        listed = ", ".join(f"`{name}`" for name in missing)
        parts.append(Notice(f"**{len(missing)} of {len(ITEMS)} items are not measured yet:** {listed}."))
    claims, found = claims_section(measured.claims), glance(measured)
    claims.parts[:0] = parts
    return [claims, *([Section("At a glance", [found, Prose(COLOURS)])] if found else [])]


def _item(name: str, measured: Measured) -> Section:
    item, records = ITEMS[name], measured.records.get(name)
    short = item.title.partition(":")[0]
    if not records:
        return Section(item.title, [Notice(f"Not measured yet: `{command(name, False)}`.", "quiet")], name, short)
    parts: list[Part] = [*verdict_chips(measured.claims, measured.claims_of[name])]
    parts += FIGURES[name](records) if name in FIGURES else []
    return Section(item.title, [*parts, *item_tables(item, records, measured.claims)], name, short)


def _again(measured: Measured) -> Section:
    rows = []
    for name, item in ITEMS.items():
        records = measured.records.get(name, [])
        quick = any(r.get("quick") for r in records)
        state = f"{len(records)} measurements" if records else "not measured"
        dates = sorted({r["date"] for r in records if "date" in r})
        when = "–" if not dates else dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        rows.append([Cell(name), Cell(item.title), Cell(command(name, quick), code=True), Cell(state), Cell(when)])
    return Section(
        "How to measure it again",
        [
            Prose(
                "`rapgnn reproduce ITEM` measures one table or figure, `rapgnn reproduce` all of them. What is "
                "measured is stored at once, and the next run goes on after it. `rapgnn report` writes this page again."
            ),
            Table(["item", "what it is", "command", "state", "measured"], rows, "Items", 5),
        ],
    )


def _machines(measured: Measured) -> Section:
    """Which items were measured on what, with what."""
    found: dict[tuple[str, ...], set[str]] = {}
    for name, records in measured.records.items():
        for r in records:
            made = tuple(f"{k} {v}" for k, v in r.get("versions", {}).items())
            found.setdefault((r.get("hardware", "unknown"), ", ".join(made), r.get("source", "–")), set()).add(name)
    rows = [[Cell(", ".join(n for n in ITEMS if n in names)), *map(Cell, key)] for key, names in found.items()]
    parts: list[Part] = [Table(["items", "hardware", "versions", "source"], rows, "Where it was measured", 4)]
    return Section("Hardware and versions", parts if rows else [Prose("Nothing is measured yet.")])
