"""``rapgnn bench depth``, ``graphs`` and ``spmm``: milliseconds."""

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
from rapgnn.cli.shared import DataDir, check_options, load, on_device
from rapgnn.errors import InputError


@bench_app.command("depth")
def bench_depth(
    dataset: Annotated[str, typer.Argument(help="A dataset name or sbm:...")] = "pubmed",
    layers: Annotated[str, typer.Option(help="Depths, separated by commas.")] = "2,4,8,16,32,64",
    hidden: Hidden = 256,
    methods: Methods = "all",
    repeats: Annotated[int, typer.Option(help="Timed epochs of what walks over the graph; the median counts.")] = 5,
    device: BenchDevice = "cpu",
    data_dir: DataDir = None,
    json_file: BenchJson = None,
    plot: Plot = None,
    again: Again = False,
) -> None:
    """An epoch with its validation, inference and memory by depth: RAP, the paper's strategies, end-to-end, PyG.

    Example: rapgnn bench depth pubmed --layers 32 --json depth.json
    """
    check_outputs(json_file, plot, hidden=hidden, repeats=repeats)
    depths = read_numbers("--layers", layers)
    check_options({}, device=device)
    from rapgnn.experiments.bench.depth import TITLES, finish, plan, warm_up_methods
    from rapgnn.experiments.bench.plots import plot_depth
    from rapgnn.experiments.bench.tables import show_depth

    chosen = read_names("method", methods, list(TITLES))
    graph = on_device(load(dataset, data_dir), device)
    if graph.ptr is not None:
        raise InputError(f"{dataset} is a set of graphs: bench depth takes one graph, bench graphs this set.")
    warm_up_methods(graph.y.device, chosen)
    rows = plan(graph, depths, hidden, repeats, chosen)
    records = measure_all(f"{graph.name}, {hidden} channels", rows, json_file, again, finish)
    if plot:
        plot_depth(records, plot)
    show_depth(records)


@bench_app.command("graphs")
def bench_graphs(
    dataset: Annotated[str, typer.Argument(help="A dataset of graphs.")] = "proteins",
    layers: Annotated[int, typer.Option(help="Number of message-passing layers.")] = 4,
    hidden: Hidden = 64,
    batch_size: Annotated[int, typer.Option(help="Graphs per batch.")] = 128,
    repeats: Annotated[int, typer.Option(help="Timed epochs of end-to-end training; the median counts.")] = 3,
    device: BenchDevice = "cpu",
    data_dir: DataDir = None,
    json_file: BenchJson = None,
    plot: Plot = None,
    again: Again = False,
) -> None:
    """An epoch with its validation, inference and memory on many graphs: RAP, end-to-end, PyG.

    Example: rapgnn bench graphs molhiv --batch-size 512 --repeats 1
    """
    check_outputs(json_file, plot, layers=layers, hidden=hidden, batch_size=batch_size, repeats=repeats)
    check_options({}, device=device)
    from rapgnn.experiments.bench.graphs import finish, plan
    from rapgnn.experiments.bench.plots import plot_graphs
    from rapgnn.experiments.bench.tables import show_graphs

    graph = on_device(load(dataset, data_dir), device)
    if graph.ptr is None:
        raise InputError(f"{dataset} is one graph: bench graphs takes a dataset of many, bench depth this one.")
    rows = plan(graph, layers, hidden, batch_size, repeats)
    records = measure_all(f"{graph.name}, {hidden} channels", rows, json_file, again, finish)
    if plot:
        plot_graphs(records, plot)
    show_graphs(records)


@bench_app.command("spmm")
def bench_spmm(
    graphs: Annotated[str, typer.Argument(help="Datasets, or generated; by commas.")] = "pubmed,proteins,generated",
    widths: Annotated[str, typer.Option(help="Columns of the dense matrix, by commas.")] = "64,256",
    orders: Annotated[str, typer.Option(help="Node orders: given, degree, rcm; or all.")] = "all",
    nodes: Annotated[int, typer.Option(help="Nodes of the generated graph.")] = 100_000,
    edges: Annotated[int, typer.Option(help="Directed edges of the generated graph.")] = 2_000_000,
    repeats: Annotated[int, typer.Option(help="Timed products; the median counts.")] = 10,
    device: BenchDevice = "cpu",
    data_dir: DataDir = None,
    json_file: BenchJson = None,
    plot: Plot = None,
    again: Again = False,
) -> None:
    """The sparse product by kernel, graph, width and node order, against the bandwidth of a copy.

    Example: rapgnn bench spmm pubmed --widths 256 --orders given
    """
    check_outputs(json_file, plot, nodes=nodes, edges=edges, repeats=repeats)
    columns = read_numbers("--widths", widths)
    check_options({}, device=device)
    from rapgnn.device import pick_device
    from rapgnn.experiments.bench.generated import PowerLaw
    from rapgnn.experiments.bench.plots import plot_spmm
    from rapgnn.experiments.bench.spmm import ORDERS, has_numba, plan
    from rapgnn.experiments.bench.tables import say_below, show_spmm

    chosen = read_names("order", orders, ORDERS)
    small = PowerLaw(nodes, edges, features=1, train=1, val=0, test=0)
    matrices = [
        small.generate() if name == "generated" else load(name, data_dir, labels=False)
        for name in dict.fromkeys(graphs.split(","))
    ]
    rows = plan(matrices, columns, chosen, pick_device(device), repeats)
    records = measure_all("sparse products", rows, json_file, again)
    if plot:
        plot_spmm(records, plot)
    show_spmm(records)
    if not has_numba() and pick_device(device) == "cpu":
        say_below("numba is not installed, so its kernel was not measured.")
