"""``rapgnn compare``: the methods side by side."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rapgnn.cli.app import app
from rapgnn.cli.progress import show_progress
from rapgnn.cli.reading import folder_options
from rapgnn.cli.shared import (
    PLOTS,
    Attributes,
    BackboneOption,
    DataDir,
    Device,
    EmbeddingOption,
    EpochsOption,
    HeadOption,
    HiddenOption,
    JsonFile,
    LayersOption,
    Quiet,
    SettingsOption,
    check_options,
    load,
    on_device,
    read_settings,
    write_json,
)
from rapgnn.errors import InputError

METHODS_HELP = (
    "Comma-separated: rap, end-to-end, pretrained-embedding, fixed-diagonal, fixed-full, random-full, identity (all: "
    "these seven); fdgnn, u-gcn, mrgnn, p-rgnn (reservoirs: these four, each in its own paper's settings)."
)


@app.command()
@folder_options(shown=("label",))
def compare(
    dataset: Annotated[str, typer.Argument(help="A dataset name, sbm:nodes=5000,..., or a folder.")],
    reading: Any,
    methods: Annotated[str, typer.Option(help=METHODS_HELP)] = "all",
    seeds: Annotated[int | None, typer.Option(help="Default 5; --quick 3; 1 for folds.")] = None,
    first_seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    backbone: BackboneOption = None,
    layers: LayersOption = None,
    hidden: HiddenOption = None,
    epochs: EpochsOption = None,
    embedding: EmbeddingOption = None,
    head: HeadOption = None,
    engine: Annotated[str | None, typer.Option(help="auto, polynomial or stepwise.")] = None,
    inference: Annotated[str | None, typer.Option(help="auto, expected, mean or sample.")] = None,
    settings: SettingsOption = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds and fewer end-to-end epochs.")] = False,
    protocol: Annotated[str, typer.Option(help="Folds: paper, strict, both.")] = "both",
    attributes: Attributes = False,
    device: Device = "cpu",
    data_dir: DataDir = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
    plot: Annotated[Path | None, typer.Option(help="Save a plot (png, svg, pdf).")] = None,
) -> None:
    """Train the methods side by side and print one table.

    Example: rapgnn compare cora --methods rap,end-to-end --seeds 5 --json cora.json
    """
    from rapgnn.errors import check_choice
    from rapgnn.experiments import compare as comparison
    from rapgnn.experiments import tables
    from rapgnn.experiments.plots import plot_comparison
    from rapgnn.experiments.run import PROTOCOLS
    from rapgnn.files import check_writable
    from rapgnn.training.methods import METHODS, RESERVOIRS, STRATEGIES

    check_writable(json_file)
    check_writable(plot, PLOTS)
    groups = {"all": STRATEGIES, "reservoirs": RESERVOIRS}
    given_names = (m.strip() for m in methods.split(",") if m.strip())
    names = list(dict.fromkeys(name for m in given_names for name in groups.get(m, (m,))))
    check_choice("protocol", protocol, PROTOCOLS)
    if seeds is not None and seeds < 1:
        raise InputError(f"the number of seeds must be at least 1, got {seeds}.")
    if not 0 <= first_seed < (1 << 32) - 10_000:
        raise InputError(f"--first-seed must lie between 0 and 2^32 - 10000, got {first_seed}.")
    given = {"epochs": epochs, "head": head, "engine": engine, "inference": inference}
    overrides = read_settings(settings, backbone=backbone, num_layers=layers, hidden_channels=hidden, **given)
    check_options(overrides, embedding, device)
    for name in names:
        check_choice("method", name, METHODS)
    graph = on_device(load(dataset, data_dir, attributes, reading), device)
    count = (1 if graph.folds else 3 if quick else 5) if seeds is None else seeds
    configs = comparison.plan(graph, names, embedding, overrides, quick)
    with show_progress() as track:
        records = comparison.compare(
            graph,
            configs,
            range(first_seed, first_seed + count),
            protocol,
            on_start=lambda m: track.start(
                METHODS[m].title, comparison.total_epochs(m, configs[m], count, graph.folds, protocol)
            ),
            on_epoch=track.advance,
        )
    write_json(records, json_file)
    tables.show_comparison(records, quick)
    if plot:
        plot_comparison(records, plot)
    for path in filter(None, (json_file, plot)):
        typer.echo(f"wrote {path}")
