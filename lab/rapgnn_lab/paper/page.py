"""``rapgnn paper``: one HTML page of the paper's reproduction.

In: the folder that ``rapgnn reproduce --out`` writes. Out: the page: what becomes of every claim, the main comparison,
and each item with its figures and tables, coloured by what they say of the paper.
"""

import re
from pathlib import Path

from rapgnn.compare import Record
from rapgnn.device import versions
from rapgnn.report.page import Page
from rapgnn.report.parts import Cell, Facts, More, Notice, Part, Prose, Section, Table
from rapgnn_lab.paper import plots
from rapgnn_lab.paper.claims import judged
from rapgnn_lab.paper.claims.judged import FAILS, HOLDS, MISSING, PART
from rapgnn_lab.paper.claims.scores import METRICS
from rapgnn_lab.paper.claims.significance import BEHIND, compare_to_quoted, outcome
from rapgnn_lab.paper.items import ITEMS, Measured, read_measured
from rapgnn_lab.paper.rows import BEST, REACHABLE, note
from rapgnn_lab.paper.run import command, describe
from rapgnn_lab.results import DATASETS

PAPER = "[*On the Effectiveness of Random Weights in Graph Neural Networks*](https://arxiv.org/abs/2502.00190)"
TONES = {HOLDS: "good", PART: "mixed", FAILS: "bad", MISSING: "quiet"}


def write_report(results: Path, out: Path) -> Measured:
    measured = read_measured(results)
    make_page(measured).write(out)
    return measured


def make_page(measured: Measured) -> Page:
    claims = judged.judge_claims(measured)
    quick = any(r.get("quick") for records in measured.values() for r in records)
    sections = [_claims(claims, measured, quick)]
    sections += [
        Section("At a glance", [*plots.to_parts(figure), Prose(note("colours"))]) for figure in plots.glance(measured)
    ]
    sections += [_item(name, measured.get(name, [])) for name in ITEMS]
    return Page(
        "RAP-GNN: the paper, reproduced",
        f"Every table and figure of {PAPER}, measured again with rapgnn, ours beside the published value.",
        [*sections, Section("How to measure it again", [Prose(note("again"))])],
        f"Made by `rapgnn paper`, rapgnn {versions()['rapgnn']}. The page holds all it shows; nothing is loaded.",
        {"items": {name: len(records) for name, records in measured.items()}, "quick": quick},
    )


def _claims(claims: list[Record], measured: Measured, quick: bool) -> Section:
    """What must not be overlooked, how many claims hold, all of them, and folded how each was judged."""
    notices: list[Part] = []
    if quick:
        cut = "Fewer seeds, folds and epochs than the paper's: the numbers show that it works, and judge nothing."
        notices.append(Notice(f"**Quick run.** {cut}"))
    missing = [f"`{name}`" for name in ITEMS if name not in measured]
    if missing:
        notices.append(Notice(f"**{len(missing)} of {len(ITEMS)} items are not measured yet:** {', '.join(missing)}."))
    rows = [
        [
            Cell(c["says"], name=f"claim-{c['claim']}"),
            Cell(c["verdict"], TONES[c["verdict"]], title=judged.PROVISIONAL if c["quick"] else ""),
            Cell(c["figures"], folded="figures"),
        ]
        for c in claims
    ]
    explained = to_parts(judged.format_claims(claims))
    how = [part for part in explained if not (isinstance(part, Table) and part.header[0] == "claim")]
    parts = [
        Facts([(word, str(sum(c["verdict"] == word for c in claims))) for word in TONES]),
        Table(["claim", "verdict", "figures"], rows, "Every claim that was judged", 3),
        More("How each claim was judged", how),
    ]
    return Section("The paper's claims", [*notices, *parts], "claims")


def _item(name: str, records: list[Record]) -> Section:
    title = ITEMS[name].title
    short = title.partition(":")[0]
    if not records:
        return Section(title, [Notice(f"Not measured yet: `{command(name, False)}`.", "quiet")], name, short)
    draw = ITEMS[name].figures
    parts: list[Part] = [part for figure in draw(records) for part in plots.to_parts(figure)] if draw else []
    return Section(title, [*parts, *item_tables(name, records)], name, short)


def item_tables(name: str, records: list[Record]) -> list[Part]:
    """The tables of an item as ``rapgnn reproduce`` writes them, coloured; folded notes, and how they were measured."""
    datasets, parts = {title: dataset for dataset, title in DATASETS.items()}, to_parts(describe(ITEMS[name], records))
    for table in (part for part in parts if isinstance(part, Table) and "difference" in part.header):
        title, at = table.caption.partition(" (")[0], list(table.header).index("difference")
        there = [r for r in records if r.get("dataset") == datasets.get(title, title)]
        mine = {r.get("title"): r for r in reversed(there) if r.get("column") not in (BEST, REACHABLE)}
        table.rows = [
            [*row[:at], _difference(row[at], mine.get(row[0].text, {})), *row[at + 1 :]] for row in table.rows
        ]
    last = max((i for i, part in enumerate(parts) if isinstance(part, Table)), default=-1)
    *notes, origin = parts[last + 1 :]
    return [*parts[: last + 1], *([More("What the columns mean, and notes", notes)] if notes else []), origin]


def _difference(cell: Cell, record: Record) -> Cell:
    """Coloured by whether the paper's figure is reached."""
    if record.get("paper_mean") is None or record.get("mean") is None:
        return cell
    tested = compare_to_quoted(record["values"], record["paper_mean"], higher=METRICS[record["metric"]].higher)
    if tested.difference >= -(record.get("paper_std") or 0.0):
        return Cell(cell.text, "good", title="reached, within the paper's standard deviation")
    if outcome(tested.difference, tested.p) != BEHIND:
        return Cell(cell.text, "mixed", title=f"below the paper's standard deviation; {tested.test} does not tell")
    return Cell(cell.text, "bad", title=f"behind, {tested.test}, p = {tested.p:.2g}")


# Markdown -> parts of a page, so that tables are tables of cells.


def plain_cell(text: str) -> Cell:
    """A cell without its stars."""
    bold = re.fullmatch(r"\*\*(.*)\*\*", text)
    return Cell(bold[1], bold=True) if bold else Cell(text)


def to_parts(text: str) -> list[Part]:
    """The blocks of a text in their order; a heading goes to the table below it, as its caption."""
    found, heading = [], ""
    for block in re.split(r"\n\s*\n", text.strip()):
        block = block.strip()
        if block.startswith("#"):
            heading = block.lstrip("# ")
        elif block.startswith("|"):
            lines = [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in block.splitlines()]
            left = sum(not mark.endswith(":") for mark in lines[1])
            cells = [[plain_cell(cell) for cell in line] for line in lines[2:]]
            found.append(Table(lines[0], cells, heading, left))
        elif block and not re.fullmatch(r"!\[.*\]\(.*\)", block):
            found.append(Prose(block))
    return found
