"""``rapgnn bench memory``, ``scale`` and ``files``: how much fits, and how cost grows."""

from typing import Annotated

import typer

from rapgnn.cli.app import bench_app
from rapgnn.cli.bench.rows import (
    Again,
    BenchDevice,
    BenchJson,
    Hidden,
    Methods,
    Plot,
    check_outputs,
    measure_all,
    read_names,
    read_numbers,
)
from rapgnn.cli.shared import DataDir, check_options
from rapgnn.errors import InputError


@bench_app.command("memory")
def bench_memory(
    dataset: Annotated[str, typer.Argument(help="A dataset name, sbm:..., or none.")] = "pubmed",
    layers: Annotated[str, typer.Option(help="Depths, separated by commas.")] = "2,8,32",
    hidden: Hidden = 256,
    share: Annotated[float, typer.Option(help="Of ogbn-proteins' size, for a generated graph; 0: none.")] = 0.05,
    share_layers: Annotated[int, typer.Option(help="Its number of layers.")] = 4,
    methods: Methods = "all",
    device: BenchDevice = "cpu",
    data_dir: DataDir = None,
    json_file: BenchJson = None,
    plot: Plot = None,
    again: Again = False,
) -> None:
    """Peak memory of training, each method alone: by depth, and at (a share of) ogbn-proteins' size.

    Example: rapgnn bench memory pubmed --layers 32 --share 0.1
    """
    check_outputs(json_file, plot, hidden=hidden, share_layers=share_layers)
    depths = read_numbers("--layers", layers)
    check_options({}, device=device)
    from rapgnn.device import pick_device
    from rapgnn.experiments.bench.depth import TITLES
    from rapgnn.experiments.bench.generated import proteins_size
    from rapgnn.experiments.bench.memory import finish, plan
    from rapgnn.experiments.bench.plots import plot_memory
    from rapgnn.experiments.bench.tables import show_memory

    where = pick_device(device)
    chosen = read_names("method", methods, list(TITLES))
    rows = []
    if dataset != "none":
        _check_one_graph(dataset, data_dir)
        rows += plan(dataset, depths, hidden, chosen, where, data_dir)
    if share:
        rows += plan(proteins_size(share), [share_layers], hidden, chosen, where)
    if not rows:
        raise InputError("there is nothing to measure: name a dataset or a --share above 0.")
    records = measure_all(f"memory, {hidden} channels", rows, json_file, again, finish)
    if plot:
        plot_memory(records, plot)
    show_memory(records)


def _check_one_graph(dataset: str, data_dir) -> None:
    from rapgnn.cli.shared import load

    if load(dataset, data_dir).ptr is not None:
        raise InputError(f"{dataset} is a set of graphs: bench memory takes one graph.")


@bench_app.command("scale")
def bench_scale(
    sizes: Annotated[str, typer.Option(help="tiny, small, medium, large, products.")] = "small,medium,large",
    widths: Annotated[str, typer.Option(help="Channels per layer, separated by commas.")] = "64,256",
    layers: Annotated[int, typer.Option(help="Number of message-passing layers.")] = 3,
    epochs: Annotated[int | None, typer.Option(help="Of the whole fit; 100 on a CPU, 500 on a GPU.")] = None,
    repeats: Annotated[int, typer.Option(help="Timed epochs of end-to-end training.")] = 2,
    end_to_end: Annotated[bool, typer.Option(help="Measure end-to-end training, where it fits.")] = True,
    precision: Annotated[str, typer.Option(help="Of the stored hops: float32 or bfloat16.")] = "float32",
    device: BenchDevice = "cpu",
    json_file: BenchJson = None,
    plot: Plot = None,
    again: Again = False,
) -> None:
    """Generated graphs of growing size: building, hops, an epoch and its floor, the fit, prediction, memory; slopes.

    Example: rapgnn bench scale --sizes tiny,small --widths 64
    """
    check_outputs(json_file, plot, layers=layers, repeats=repeats, epochs=1 if epochs is None else epochs)
    channels = read_numbers("--widths", widths)
    check_options({"hop_precision": precision}, device=device)
    from rapgnn.device import pick_device
    from rapgnn.experiments.bench.generated import SIZES
    from rapgnn.experiments.bench.plots import plot_scale
    from rapgnn.experiments.bench.scale import finish, plan
    from rapgnn.experiments.bench.tables import show_scale

    where = pick_device(device)
    chosen = {name: SIZES[name] for name in read_names("size", sizes, list(SIZES))}
    count = epochs or (500 if where == "cuda" else 100)
    rows = plan(chosen, channels, layers, count, where, repeats, end_to_end, precision)
    records = measure_all("generated graphs", rows, json_file, again, finish)
    if plot:
        plot_scale(records, plot)
    show_scale(records)


@bench_app.command("files")
def bench_files(
    edges: Annotated[int, typer.Option(help="Lines of edges.csv; nodes.csv has a tenth.")] = 10_000_000,
    json_file: BenchJson = None,
    again: Again = False,
) -> None:
    """Time to load a folder with nodes.csv and edges.csv, ids as numbers and as words.

    Example: rapgnn bench files --edges 1000000
    """
    check_outputs(json_file, edges=edges)
    from rapgnn.experiments.bench.files import plan
    from rapgnn.experiments.bench.tables import show_files

    show_files(measure_all("folders of tables", plan(edges), json_file, again))
