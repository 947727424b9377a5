"""``rapgnn data``: datasets and folders."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rapgnn.cli import shared


@shared.data_app.command("list")
def data_list(json_file: shared.JsonFile = None) -> None:
    """The datasets by name.

    Example: rapgnn data list
    """
    from rapgnn.datasets import DATASETS, SBM

    rows = [{"dataset": name, "about": entry.about} for name, entry in DATASETS.items()]
    rows.append(
        {"dataset": SBM, "about": "generated: contextual stochastic block model, e.g. sbm:nodes=5000,degree=20"}
    )
    shared.write_json(rows, json_file)
    for row in rows:
        typer.echo(f"{row['dataset']:<14} {row['about']}")


@shared.data_app.command("get")
def data_get(name: str, data_dir: shared.DataDir = None, json_file: shared.JsonFile = None) -> None:
    """Fetch a dataset's files, verified, unless they are there already.

    Example: rapgnn data get pubmed
    """
    from rapgnn.datasets import find_dataset
    from rapgnn.datasets.sources import locate

    folder = locate(find_dataset(name).files, data_dir, shared.say)
    shared.write_json([{"dataset": name.lower(), "folder": str(folder)}], json_file)
    typer.echo(f"{name.lower()} is in {folder}")


@shared.data_app.command("info")
@shared.folder_options()
def data_info(
    reading: Any,
    name: Annotated[str | None, typer.Argument(help="A dataset name, a folder, or a file of edges.")] = None,
    data_dir: shared.DataDir = None,
    json_file: shared.JsonFile = None,
) -> None:
    """Size, features, classes and splits of a dataset or a folder, and what becomes of every column.

    Example: rapgnn data info my-graph/ --label species
    """
    from dataclasses import replace

    from rapgnn.datasets.database import is_database
    from rapgnn.datasets.keyed import drawn, is_folder_of_tables
    from rapgnn.estimators.card import describe_graph

    if name is not None and (is_database(name) or (Path(name).is_dir() and is_folder_of_tables(Path(name)))):
        reading = replace(reading, labelled=None)  # whose rows are predicted may be seen later
    graph = shared.load(name, data_dir, reading, labels=False)
    row = describe_graph(graph)
    uses = () if graph.encoding is None else graph.encoding.uses
    shared.write_json([row | ({"columns": [vars(use) for use in uses]} if uses else {})], json_file)
    for key, value in row.items():
        typer.echo(f"{key:<16} {value}")
    if graph.typed is not None and graph.typed.tables is not None:
        typer.echo(drawn(graph))
    shared.show_columns(graph)


@shared.data_app.command("check")
def data_check(name: str, data_dir: shared.DataDir = None, json_file: shared.JsonFile = None) -> None:
    """Verify every file of a dataset against its published SHA-256; nothing is fetched.

    Example: rapgnn data check cora --data-dir ~/graphs
    """
    from rapgnn.datasets import find_dataset, sources

    files = find_dataset(name).files
    folder = sources.find_in(files, sources.data_dir(data_dir)) or sources.cache_dir() / files.folder
    sources.verify(files, folder)
    unknown, total = sources.unchecked(files, folder), len(files.files)
    row = {"dataset": files.name, "folder": str(folder), "files": total, "unchecked": len(unknown)}
    shared.write_json([row | {"intact": None if unknown else True}], json_file)
    if unknown:
        typer.echo(f"{files.name}: no checksum known for {len(unknown)} of {total} files in {folder}")
        raise typer.Exit(1)
    typer.echo(f"{files.name}: all {total} files in {folder} are intact")


@shared.data_app.command("convert")
@shared.folder_options(shared.DISK_OPTIONS)
def data_convert(
    folder: Annotated[Path, typer.Argument(help="A folder of nodes and edges, Parquet or CSV.")],
    reading: Any,
    out: Annotated[Path | None, typer.Option(help="Folder for the graph on disk; else in the cache.")] = None,
    memory: Annotated[str, typer.Option(help="What the conversion may use.")] = "4GiB",
    threads: Annotated[int | None, typer.Option(help="Of the database; one per core.", min=1)] = None,
    json_file: shared.JsonFile = None,
    quiet: shared.Quiet = False,
) -> None:
    """Convert tables that are larger than memory to a graph on disk, once. A run that was stopped goes on.

    Example: rapgnn data convert my-graph/ --out my-graph.disk --memory 8GiB
    """
    import time

    from rapgnn.files import check_writable
    from rapgnn.memory import read_size
    from rapgnn.scale.tables.convert import convert_folder

    check_writable(json_file)
    limit, start = read_size(memory, "--memory"), time.perf_counter()
    with shared.show_progress() as track:
        graph = convert_folder(folder, out, reading, limit, threads, track)
    for note in graph.notes:
        shared.say(note)
    names = ("num_nodes", "num_edges", "num_features", "num_outputs", "task", "weighted", "fingerprint")
    record = {"dataset": graph.name, "folder": str(graph.folder)} | {name: getattr(graph, name) for name in names}
    shared.write_json([record | {"seconds": time.perf_counter() - start}], json_file)
    for name in names[:-1]:
        value = record[name]
        shared.tell(f"{name:<16} {value:,}" if type(value) is int else f"{name:<16} {value}")
    shared.tell(f"next: rapgnn fit {graph.folder} --memory {memory} --out model")
