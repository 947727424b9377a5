"""``rapgnn bench disk``: graphs larger than memory."""

from pathlib import Path
from typing import Annotated

import typer

from rapgnn.cli.app import bench_app
from rapgnn.cli.bench.rows import Again, BenchDevice, BenchJson, check_outputs, measure_all
from rapgnn.cli.shared import SettingsOption, check_options, read_settings


@bench_app.command("disk")
def bench_disk(
    size: Annotated[str, typer.Argument(help="products or wide.")] = "products",
    share: Annotated[float, typer.Option(help="Of its nodes and edges.")] = 0.05,
    limits: Annotated[str, typer.Option(help="Memory limits, separated by commas.")] = "8GiB,4GiB",
    folder: Annotated[Path, typer.Option(help="For the graph, which stays, and the hops.")] = Path("bench-disk"),
    tables: Annotated[bool, typer.Option("--tables", help="Begin with Parquet files.")] = False,
    device_memory: Annotated[str | None, typer.Option(help="What may be taken of a GPU, such as 4GiB.")] = None,
    compare: Annotated[bool, typer.Option("--compare", help="With predictions of the graph in memory.")] = False,
    settings: SettingsOption = None,
    device: BenchDevice = "cpu",
    json_file: BenchJson = None,
    again: Again = False,
) -> None:
    """Fit and predict on a generated graph on disk under memory limits: time, and the peak that was measured.

    Example: rapgnn bench disk products --share 0.05 --limits 2GiB,1GiB
    """
    check_outputs(json_file)
    given = read_settings(settings)
    check_options(given, device=device)
    from rapgnn.device import pick_device
    from rapgnn.errors import InputError, check_choice
    from rapgnn.experiments.bench.disk import plan
    from rapgnn.experiments.bench.disk_graphs import DISK_SIZES, shared_size
    from rapgnn.experiments.bench.tables import show_disk
    from rapgnn.scale.sizes import read_size

    check_choice("size", size, DISK_SIZES)
    chosen = [limit.strip() for limit in limits.split(",")]
    for limit in chosen:
        read_size(limit, "--limits")
    where = pick_device(device)
    if device_memory is not None:
        read_size(device_memory, "--device-memory")
        if where == "cpu":
            raise InputError("--device-memory is for a GPU: add --device cuda.")
    how = {"tables": tables, "device_memory": device_memory, "compare": compare}
    rows = plan(shared_size(size, share), chosen, given, folder, where, **how)
    show_disk(measure_all("graphs on disk", rows, json_file, again))
