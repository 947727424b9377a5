"""``rapgnn bench``: speed and memory."""

from pathlib import Path
from typing import Annotated

import typer

from rapgnn.cli.app import bench_app
from rapgnn.cli.progress import show_progress
from rapgnn.cli.shared import PLOTS, DataDir, Device, JsonFile, check_options, load, on_device, write_json
from rapgnn.errors import InputError


@bench_app.command("depth")
def bench_depth(
    dataset: Annotated[str, typer.Argument(help="A dataset name or sbm:...")] = "pubmed",
    layers: Annotated[str, typer.Option(help="Depths, separated by commas.")] = "2,4,8,16,32",
    hidden: Annotated[int, typer.Option(help="Channels per layer.")] = 256,
    repeats: Annotated[int, typer.Option(help="Timed epochs of end-to-end training; the median counts.")] = 5,
    device: Device = "cpu",
    data_dir: DataDir = None,
    json_file: JsonFile = None,
    plot: Annotated[Path | None, typer.Option(help="Save a plot (png, svg, pdf).")] = None,
) -> None:
    """Time and memory of one training epoch by depth: end-to-end, layer by layer, shortcut.

    Example: rapgnn bench depth pubmed --layers 32
    """
    from rapgnn.experiments import tables
    from rapgnn.experiments.bench.depth import bench
    from rapgnn.experiments.plots import plot_depth
    from rapgnn.files import check_writable

    check_writable(json_file)
    check_writable(plot, PLOTS)
    try:
        depths = [int(part) for part in layers.split(",")]
    except ValueError:
        raise InputError(f"--layers takes whole numbers separated by commas, got {layers!r}.") from None
    if min(depths) < 1 or hidden < 1 or repeats < 1:
        raise InputError("--layers, --hidden and --repeats must be at least 1.")
    check_options({}, device=device)
    graph = on_device(load(dataset, data_dir), device)
    with show_progress() as track:
        track.start(f"{graph.name}, {hidden} channels", len(depths))
        records = []
        bench(load("sbm", None).to(graph.y.device), 2, 8, 1)  # loads libraries, so that nothing timed does
        for depth in depths:
            records += bench(graph, depth, hidden, repeats)
            track.advance()
    write_json(records, json_file)
    if plot:
        plot_depth(records, plot)
    tables.show_depth(records)


@bench_app.command("graphs")
def bench_graphs(
    dataset: Annotated[str, typer.Argument(help="A dataset of graphs.")] = "proteins",
    layers: Annotated[int, typer.Option(help="Number of message-passing layers.")] = 4,
    hidden: Annotated[int, typer.Option(help="Channels per layer.")] = 64,
    batch_size: Annotated[int, typer.Option(help="Graphs per batch.")] = 128,
    repeats: Annotated[int, typer.Option(help="Timed epochs of end-to-end training; the median counts.")] = 3,
    device: Device = "cpu",
    data_dir: DataDir = None,
    json_file: JsonFile = None,
) -> None:
    """Time and memory of one training epoch on many graphs: shortcut, layer by layer, end-to-end, PyG.

    Example: rapgnn bench graphs molhiv --batch-size 512 --repeats 1
    """
    from rapgnn.experiments import tables
    from rapgnn.experiments.bench.graphs import bench
    from rapgnn.files import check_writable

    check_writable(json_file)
    if min(layers, hidden, batch_size, repeats) < 1:
        raise InputError("--layers, --hidden, --batch-size and --repeats must be at least 1.")
    check_options({}, device=device)
    graph = on_device(load(dataset, data_dir), device)
    if graph.ptr is None:
        raise InputError(f"{dataset} is one graph: bench graphs takes a dataset of many, bench depth this one.")
    with show_progress() as track:
        track.start(f"{graph.name}, {hidden} channels", 4)
        records = bench(graph, layers, hidden, batch_size, repeats, track.advance)
    write_json(records, json_file)
    tables.show_graphs(records)


@bench_app.command("auto")
def bench_auto(
    graphs: Annotated[str, typer.Option(help="Which of the unseen graphs, separated by commas; all.")] = "all",
    trials: Annotated[int, typer.Option(help="Random points of the GCN's search space.")] = 20,
    seeds: Annotated[int, typer.Option(help="Seeds; accuracies are means, times medians.")] = 5,
    json_file: JsonFile = None,
) -> None:
    """The estimator with nothing set against a PyG GCN tuned on the same validation nodes.

    Example: rapgnn bench auto --graphs digits,words --trials 10
    """
    from rapgnn.errors import check_choice
    from rapgnn.experiments import tables
    from rapgnn.experiments.bench.auto import bench
    from rapgnn.experiments.bench.unseen import UNSEEN
    from rapgnn.files import check_writable

    check_writable(json_file)
    if min(trials, seeds) < 1:
        raise InputError("--trials and --seeds must be at least 1.")
    names = list(UNSEEN) if graphs == "all" else graphs.split(",")
    for name in names:
        check_choice("graph", name, UNSEEN)
    with show_progress() as track:
        records = []
        for name in names:
            track.start(name, trials + seeds)
            records.append(bench(name, trials, seeds, track.advance))
    write_json(records, json_file)
    tables.show_auto(records)


@bench_app.command("files")
def bench_files(
    edges: Annotated[int, typer.Option(help="Lines of edges.csv; nodes.csv has a tenth.")] = 10_000_000,
    json_file: JsonFile = None,
) -> None:
    """Time to load a folder with nodes.csv and edges.csv, ids as numbers and as words.

    Example: rapgnn bench files --edges 1000000
    """
    from rapgnn.experiments.bench.files import IDS, bench
    from rapgnn.files import check_writable

    check_writable(json_file)
    if edges < 1:
        raise InputError(f"--edges must be at least 1, got {edges}.")
    records = [bench(edges, ids) for ids in IDS]
    write_json(records, json_file)
    for r in records:
        typer.echo(
            f"{r['listed_edges']:,} edges, ids {r['ids']}: {r['seconds']:.1f} s for {r['megabytes']:.0f} MB of CSV"
        )
