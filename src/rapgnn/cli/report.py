"""``rapgnn report``: the paper's reproduction as one page; and the page of ``rapgnn fit --report``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rapgnn.cli.app import app
from rapgnn.cli.progress import show_progress
from rapgnn.cli.shared import Quiet, say

PAGES = (".html", ".htm")


@app.command()
def report(
    out: Annotated[Path, typer.Option(help="The page.")] = Path("report.html"),
    results: Annotated[Path, typer.Option(help="A folder of rapgnn reproduce --out.")] = Path("results/reproduce"),
    quiet: Quiet = False,
) -> None:
    """Write one self-contained HTML page of the paper's tables, figures and claims, ours beside the published values.

    Example: rapgnn report --results reproduce --out report.html
    """
    from rapgnn.experiments.report.page import write_report
    from rapgnn.experiments.reproduce.items import ITEMS

    check_report(out)
    measured = write_report(results, out)
    missing = [name for name in ITEMS if name not in measured.records]
    if missing:
        say(f"not measured yet, and said so on the page: {', '.join(missing)}.")
    typer.echo(f"wrote {out} ({len(measured.records)} of {len(ITEMS)} items, {out.stat().st_size / 1e6:.1f} MB)")


def check_report(path: Path) -> None:
    """Refuse a page that cannot be written, or made, before any work."""
    from rapgnn.files import check_writable
    from rapgnn.report.library import check_installed

    check_writable(path, PAGES)
    check_installed()


def write_fitted(estimator: Any, graph: Any, path: Path) -> None:
    """Write the page about a model that was just trained."""
    from rapgnn.estimators.report.page import write_model_report

    with show_progress() as track:
        track.start(f"{graph.name} report", None)
        write_model_report(estimator, graph, path, lambda done, total, title: track.set(done, f"report: {title}"))
    typer.echo(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB)")
