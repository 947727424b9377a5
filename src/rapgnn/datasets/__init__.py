"""Datasets by name, generated graphs, and a user's own folder."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rapgnn.datasets.folder import read_folder
from rapgnn.datasets.planetoid import PLANETOID, read_planetoid
from rapgnn.datasets.sources import FileSet, Say, locate
from rapgnn.datasets.synthetic import BlockModel
from rapgnn.errors import InputError
from rapgnn.graph import Graph

SBM = "sbm"


@dataclass(frozen=True)
class Dataset:
    """A named dataset: its files and how they are read."""

    files: FileSet
    read: Callable[[str, Path], Graph]
    about: str


DATASETS = {
    name: Dataset(files, read_planetoid, f"{title} citation graph, public split")
    for (name, files), title in zip(PLANETOID.items(), ("Cora", "CiteSeer", "PubMed"), strict=True)
}


def find_dataset(name: str) -> Dataset:
    """The entry for a name, whatever its case."""
    try:
        return DATASETS[name.lower()]
    except KeyError:
        if name.lower().partition(":")[0] == SBM:
            raise InputError("sbm is generated, so it has no files.") from None
        known = ", ".join([*DATASETS, SBM])
        raise InputError(
            f"dataset {name!r} is unknown: choose one of {known}, or give a folder with nodes.npz and edges.npz."
        ) from None


def load_dataset(name: str, data_dir: Path | None = None, say: Say = lambda line: None) -> Graph:
    """A graph by dataset name, by ``sbm`` or ``sbm:nodes=5000,...``, or by the path of a folder.

    Args:
        name: what to load.
        data_dir: the user's folder of dataset files; None looks at ``RAPGNN_DATA``, then fetches.
        say: told what is fetched or refused.
    """
    kind, _, settings = name.partition(":")
    if kind.lower() == SBM:
        return BlockModel.parse(settings).generate()
    if name.lower() not in DATASETS and Path(name).is_dir():
        own = Path(name).resolve().name
        # A folder that happens to be called like a dataset is not that dataset, and must not get its settings.
        return read_folder(Path(name), f"folder {own}" if own.lower() in (*DATASETS, SBM) else own)
    entry = find_dataset(name)
    return entry.read(entry.files.name, locate(entry.files, data_dir, say))
