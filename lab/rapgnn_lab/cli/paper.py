"""``rapgnn paper``: the paper's reproduction as one page."""

from pathlib import Path
from typing import Annotated

import typer

from rapgnn.cli.model import check_report
from rapgnn.cli.shared import Quiet, app, say


@app.command()
def paper(
    out: Annotated[Path, typer.Option(help="The page.")] = Path("paper.html"),
    results: Annotated[Path, typer.Option(help="A folder of rapgnn reproduce --out.")] = Path("results/reproduce"),
    quiet: Quiet = False,
) -> None:
    """Write one self-contained HTML page of the paper's tables, figures and claims, ours beside the published values.

    Example: rapgnn paper --results results/reproduce --out paper.html
    """
    from rapgnn_lab.paper.items import ITEMS
    from rapgnn_lab.paper.page import write_report

    check_report(out)
    measured = write_report(results, out)
    missing = [name for name in ITEMS if name not in measured]
    if missing:
        say(f"not measured yet, and said so on the page: {', '.join(missing)}.")
    typer.echo(f"wrote {out} ({len(measured)} of {len(ITEMS)} items, {out.stat().st_size / 1e6:.1f} MB)")
