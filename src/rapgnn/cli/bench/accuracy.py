"""``rapgnn bench peers`` and ``wide``: accuracy beside the time it takes."""

from typing import Annotated

import typer

from rapgnn.cli.app import bench_app
from rapgnn.cli.bench.rows import Again, BenchDevice, BenchJson, Methods, Plot, check_outputs, measure_all, read_names
from rapgnn.cli.shared import DataDir, check_options, load

LEAST_DOCUMENTS, LEAST_WORDS = 1_000, 100


@bench_app.command("peers")
def bench_peers(
    datasets: Annotated[str, typer.Argument(help="Datasets, separated by commas.")] = "cora,citeseer,pubmed",
    methods: Methods = "all",
    trials: Annotated[int, typer.Option(help="Random points of every peer's search.")] = 20,
    repeats: Annotated[int, typer.Option(help="Seeds: accuracies are means, times medians.")] = 5,
    device: BenchDevice = "cpu",
    data_dir: DataDir = None,
    json_file: BenchJson = None,
    plot: Plot = None,
    again: Again = False,
) -> None:
    """From arrays to a trained model: seconds and test accuracy of RAP, SGC, SIGN, APPNP and PyG's GCN.

    Each peer runs with the settings its authors publish, and tuned on the same validation nodes.

    Example: rapgnn bench peers cora --trials 5 --repeats 3
    """
    check_outputs(json_file, plot, trials=trials, repeats=repeats)
    check_options({}, device=device)
    from rapgnn.device import pick_device
    from rapgnn.experiments.bench.peers import TITLES, finish, plan
    from rapgnn.experiments.bench.plots import plot_peers
    from rapgnn.experiments.bench.tables import show_peers

    chosen = read_names("method", methods, list(TITLES))
    graphs = [load(name, data_dir) for name in dict.fromkeys(datasets.split(","))]
    rows = [row for graph in graphs for row in plan(graph, trials, repeats, chosen, pick_device(device))]
    records = measure_all("peers", rows, json_file, again, finish)
    if plot:
        plot_peers(records, plot)
    show_peers(records)


@bench_app.command("wide")
def bench_wide(
    nodes: Annotated[int, typer.Option(help="Documents.")] = 34_493,
    features: Annotated[int, typer.Option(help="Words.")] = 8_415,
    seeds: Annotated[int, typer.Option(help="Seeds; accuracies are means, times medians.")] = 3,
    json_file: BenchJson = None,
    again: Again = False,
) -> None:
    """The estimator with nothing set on a generated graph of wide bags of words, with many labels and with few.

    Example: rapgnn bench wide --nodes 5000 --features 2000 --seeds 1
    """
    check_outputs(json_file, nodes=nodes, features=features, seeds=seeds)
    from rapgnn.errors import InputError
    from rapgnn.experiments.bench.tables import show_wide
    from rapgnn.experiments.bench.wide import plan

    if nodes < LEAST_DOCUMENTS or features < LEAST_WORDS:
        raise InputError(f"--nodes must be at least {LEAST_DOCUMENTS} and --features at least {LEAST_WORDS}.")
    show_wide(measure_all("wide bags of words", plan(nodes, features, seeds), json_file, again))
