"""``rapgnn report``: one HTML page about a saved model; also the page of ``rapgnn fit --report``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rapgnn.cli import shared

PAGES = (".html", ".htm")


@shared.app.command()
@shared.folder_options(taken=shared.FILE_OPTIONS)
def report(
    model: shared.ModelFolder,
    data: shared.Data,
    reading: Any,
    out: Annotated[Path, typer.Option(help="The page.")] = Path("report.html"),
    device: shared.Device = "cpu",
    data_dir: shared.DataDir = None,
    quiet: shared.Quiet = False,
) -> None:
    """Write one self-contained HTML page about a saved model: how good it is on these data, and why.

    Example: rapgnn report model/ my-graph/ --out report.html
    """
    from rapgnn.device import pick_device
    from rapgnn.estimators.estimators import load_model

    check_report(out)
    _, graph, _ = shared.open_model(model, data, data_dir, reading, labelled=True)
    write_page(load_model(model).set_params(device=pick_device(device)), graph, out)


def check_report(path: Path) -> None:
    """Refuse a page that cannot be written, or made, before any work."""
    from rapgnn.files import check_writable
    from rapgnn.report.page import check_installed

    check_writable(path, PAGES)
    check_installed()


def write_page(estimator: Any, graph: Any, path: Path) -> None:
    """Write the page about a trained model."""
    from rapgnn.report.model import write_model_report

    with shared.show_progress() as track:
        track.start(f"{graph.name} report", None)
        write_model_report(estimator, graph, path, lambda done, total, title: track.set(done, f"report: {title}"))
    typer.echo(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB)")
