"""``rapgnn bench auto``: the estimators with nothing set against tuned rivals, on graphs of many kinds."""

from pathlib import Path
from typing import Annotated

import typer

from rapgnn.cli.app import bench_app
from rapgnn.cli.bench.rows import Again, BenchDevice, BenchJson, check_outputs, measure_all, read_names
from rapgnn.cli.progress import show_progress
from rapgnn.cli.shared import check_options

SUITES = ("unseen", "nodes", "sets", "all")
MEASURES = ("both", "ours", "rivals")


@bench_app.command("auto")
def bench_auto(
    graphs: Annotated[str, typer.Option(help="Which of the suite's graphs, separated by commas; all.")] = "all",
    trials: Annotated[int, typer.Option(help="Random points of every rival's search space.")] = 20,
    seeds: Annotated[int, typer.Option(help="Seeds; scores are means, times medians.")] = 5,
    json_file: BenchJson = None,
    again: Again = False,
    suite: Annotated[
        str, typer.Option(help="unseen: 7 graphs, GCN alone; nodes, sets or all: four rivals.")
    ] = "unseen",
    measure: Annotated[
        str, typer.Option(help="both; ours: with the rivals' searches that are stored; rivals.")
    ] = "both",
    rivals: Annotated[
        Path | None, typer.Option(help="Folder that keeps every rival's search; a rerun goes on.")
    ] = None,
    table: Annotated[Path | None, typer.Option(help="Write the table as Markdown to this file.")] = None,
    device: BenchDevice = "cpu",
    workers: Annotated[int, typer.Option(help="Searches that run at a time, with --measure rivals.")] = 1,
) -> None:
    """The estimators with nothing set against networks of PyG that were tuned on the same validation rows.

    The device is where rivals are tuned; times are always taken on the CPU.

    Example: rapgnn bench auto --graphs digits,words --trials 10
    """
    from rapgnn.errors import InputError, check_choice

    check_outputs(json_file, trials=trials, seeds=seeds, workers=workers)
    check_choice("suite", suite, SUITES)
    check_choice("measure", measure, MEASURES)
    if suite == "unseen":
        if measure != "both" or rivals is not None or table is not None:
            raise InputError("--measure, --rivals and --table are for --suite nodes, sets or all.")
        _unseen(graphs, trials, seeds, json_file, again)
        return
    if measure != "both" and rivals is None:
        raise InputError(f"--measure {measure} needs --rivals, the folder that keeps their searches.")
    check_options({}, device=device)
    from rapgnn.device import pick_device
    from rapgnn.experiments.bench.suite.registry import NODES, SETS, SUITE
    from rapgnn.files import check_writable, write_atomic

    check_writable(table, (".md",))
    known = {"nodes": NODES, "sets": SETS, "all": SUITE}[suite]
    names = read_names("graph", graphs, list(known))
    where = str(pick_device(device))
    if measure == "rivals":
        assert rivals is not None
        _search(names, trials, seeds, rivals, where, workers)
        return
    from rapgnn.experiments.bench.suite.compare import plan
    from rapgnn.experiments.bench.suite.page import show_suite, suite_table

    rows = plan(names, trials, seeds, rivals, measure == "both", where)
    records = measure_all("suite", rows, json_file, again)
    if table is not None:
        text = suite_table(records)
        write_atomic(table, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    show_suite(records)


def _unseen(graphs: str, trials: int, seeds: int, json_file: Path | None, again: bool) -> None:
    from rapgnn.experiments.bench.auto import plan
    from rapgnn.experiments.bench.tables import show_auto
    from rapgnn.experiments.bench.unseen import UNSEEN

    names = read_names("graph", graphs, list(UNSEEN))
    show_auto(measure_all("unseen graphs", plan(names, trials, seeds), json_file, again))


def _search(names: list[str], trials: int, seeds: int, folder: Path, device: str, workers: int) -> None:
    """Search for every rival; say what each found as soon as it is found."""
    from rapgnn.experiments.bench.suite.tuning import tune_all

    with show_progress() as track:
        for done, total, record in tune_all(names, trials, seeds, folder, device, workers):
            if done == 1:
                track.start("searches", total)
            track.advance()
            typer.echo(f"{record['dataset']} {record['title']} {record['metric']} {record['mean']:.4f}")
