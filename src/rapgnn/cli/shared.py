"""What several commands have in common: options, loading, settings, JSON. Heavy imports happen when called."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from rapgnn.cli.progress import is_quiet, set_quiet
from rapgnn.errors import InputError

PLOTS = (".png", ".svg", ".pdf")
DataDir = Annotated[Path | None, typer.Option("--data-dir", help="Dataset files (or RAPGNN_DATA).")]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the records to this file.")]
Attributes = Annotated[bool, typer.Option("--attributes", help="Further node features, if any.")]
BackboneOption = Annotated[str | None, typer.Option(help="gcn, sage, gin or gine.")]
LayersOption = Annotated[int | None, typer.Option(help="Number of message-passing layers.")]
HiddenOption = Annotated[int | None, typer.Option(help="Channels per layer.")]
EpochsOption = Annotated[int | None, typer.Option(help="Epochs of the main phase.")]
EmbeddingOption = Annotated[str | None, typer.Option(help="A variant, or best (on validation).")]
HeadOption = Annotated[str | None, typer.Option(help="linear, mlp or ridge.")]
NetworkOption = Annotated[
    list[str] | None,
    typer.Option("--network", help="One random network instead of a search, such as lift=1024: name=value, repeated."),
]
SettingsOption = Annotated[list[str] | None, typer.Option("--set", help="Other settings: name=value, repeated.")]
Device = Annotated[str, typer.Option(help="cpu, cuda or auto.")]


Quiet = Annotated[bool, typer.Option("--quiet", help="No progress, no notices.", callback=set_quiet)]


def say(line: str) -> None:
    """A notice, on standard error, unless the user wants none."""
    if not is_quiet():
        sys.stderr.write(f"rapgnn: {line}\n")


def load(name: str, data_dir: Path | None, attributes: bool = False, reading: Any = None, labels: bool = True):
    """A dataset or folder; what had to be decided on the way is said.

    Args:
        labels: refuse edges alone, which have none.
    """
    from rapgnn.datasets import load_dataset

    graph = load_dataset(name, data_dir, say, attributes, reading)
    if labels and not len(graph.labelled):
        raise InputError(
            f"{name} holds edges only, so there is no label column: put a nodes.csv with the columns id and label "
            "beside it, in one folder, and name that folder."
        )
    for note in graph.notes:
        say(note)
    return graph


def check_options(overrides: dict[str, Any], embedding: str | None = None, device: str = "cpu", seed: int = 0) -> None:
    """Refuse options that no data make right, before any are loaded."""
    from rapgnn.device import pick_device
    from rapgnn.errors import check_choice
    from rapgnn.graph.backbones import BACKBONES
    from rapgnn.graph.validate import check_whole
    from rapgnn.layers.embedding import EMBEDDINGS
    from rapgnn.models.config import Config

    pick_device(device)
    check_whole("seed", seed, 0, (1 << 63) - 1)
    if embedding is not None:
        check_choice("embedding", embedding, (*EMBEDDINGS, "best"))
    faults = []
    for backbone in BACKBONES:  # the data decide which, where it is not given
        try:
            Config().update(**{"backbone": backbone} | overrides)
            return
        except InputError as error:
            faults.append(error)
    raise faults[0]


def on_device(graph: Any, device: str):
    """The graph where the user wants it."""
    from rapgnn.device import pick_device

    return graph.to(pick_device(device))


def read_settings(pairs: list[str] | None, option: str = "--set", **given: Any) -> dict[str, Any]:
    """The settings that were given: by options of their own, then by ``--set`` or another that is repeated."""
    values = {key: value for key, value in given.items() if value is not None}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"{option} takes name=value, got {pair!r}.")
        try:
            values[name] = json.loads(value)
        except json.JSONDecodeError:
            values[name] = value
    return values


def describe_network(pairs: list[str] | None, others: bool) -> dict[str, Any] | None:
    """The random network that ``--network`` describes, checked; ``others``: whether a RAP network is described too."""
    from rapgnn.estimators.one_network import read_network

    described = read_settings(pairs, "--network") or None
    if described is not None and others:
        raise InputError("--network describes the whole network: leave the options of RAP networks out.")
    read_network(described)
    return described


def write_json(records: list[dict[str, Any]], path: Path | None) -> None:
    from rapgnn.files import write_atomic

    if path is not None:
        records = [record | {"command": " ".join(["rapgnn", *sys.argv[1:]])} for record in records]
        text = json.dumps(_without_nan(records), indent=1, allow_nan=False) + "\n"
        write_atomic(path, lambda temporary: temporary.write_text(text))


def _without_nan(value: Any) -> Any:
    """JSON has no NaN: a metric that does not exist (an empty split) is null."""
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and value != value else value
