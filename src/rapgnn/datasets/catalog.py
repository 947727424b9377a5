"""The catalogue: datasets by name, generated graphs, and a user's own folder."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rapgnn.datasets.folder import Reading, read_folder
from rapgnn.datasets.ogb import MOLECULES, NODE_GRAPHS, read_molecules, read_node_graph
from rapgnn.datasets.planetoid import PLANETOID, read_planetoid
from rapgnn.datasets.sources import FileSet, Say, locate
from rapgnn.datasets.synthetic import BlockModel
from rapgnn.datasets.tu import TU, read_tu
from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph

SBM = "sbm"


@dataclass(frozen=True)
class Dataset:
    """A named dataset: its files and how they are read."""

    files: FileSet
    read: Callable[..., Graph]
    about: str
    attributes: bool = False  # whether there are further node features to be had by asking


_ABOUT = {
    "cora": "Cora citation graph, public split",
    "citeseer": "CiteSeer citation graph, public split",
    "pubmed": "PubMed citation graph, public split",
    "mutag": "188 nitroaromatic compounds, mutagenic or not, 10-fold",
    "ptc": "344 compounds, carcinogenic for male rats or not (PTC_MR), 10-fold",
    "proteins": "1,113 proteins, enzyme or not, 10-fold",
    "molesol": "ogbg-molesol: 1,128 molecules, solubility, scaffold split",
    "moltox21": "ogbg-moltox21: 7,831 molecules, 12 toxicity tasks with gaps, scaffold split",
    "molhiv": "ogbg-molhiv: 41,127 molecules, HIV inhibition, scaffold split",
    "molbace": "ogbg-molbace: 1,513 molecules, BACE-1 inhibition, scaffold split",
    "ogbn-proteins": "132,534 proteins of 8 species, 39.6 million associations, 112 functions",
    "ogbn-products": "2.4 million products, 61.9 million joint purchases, 47 categories",
}
DATASETS = {
    name: Dataset(files, read, _ABOUT[name], name in ("proteins", "ogbn-proteins"))
    for family, read in (
        (PLANETOID, read_planetoid),
        (TU, read_tu),
        (MOLECULES, read_molecules),
        (NODE_GRAPHS, read_node_graph),
    )
    for name, files in family.items()
}
"""The published datasets by name."""


def find_dataset(name: str) -> Dataset:
    """The entry for a name, whatever its case."""
    try:
        return DATASETS[name.lower()]
    except KeyError:
        if name.lower().partition(":")[0] == SBM:
            raise InputError("sbm is generated, so it has no files.") from None
        known = ", ".join([*DATASETS, SBM])
        raise InputError(
            f"dataset {name!r} is unknown: choose one of {known}, or give a folder with nodes.csv and edges.csv."
        ) from None


def read_own(folder: Path, name: str, reading: Reading | None = None) -> Graph:
    """A user's folder, in whichever of the layouts it is: tables, OGB's CSV files, TU's text files."""
    if (folder / "raw/graph-label.csv.gz").is_file():
        return read_molecules(name, folder)
    if (folder / "raw/node-label.csv.gz").is_file():
        return read_node_graph(name, folder)
    if any(folder.glob("*_A.txt")):
        return read_tu(name, folder)
    return read_folder(folder, name, reading)


def load_dataset(
    name: str | Path,
    data_dir: Path | None = None,
    say: Say = lambda line: None,
    attributes: bool = False,
    reading: Reading | None = None,
) -> Graph:
    """A graph, or many, by dataset name, by ``sbm`` or ``sbm:nodes=5000,...``, or by the path of a folder.

    Args:
        name: what to load.
        data_dir: the user's folder of dataset files; None looks at ``RAPGNN_DATA``, then fetches.
        say: told what is fetched or refused.
        attributes: take further node features too, where the dataset has them.
        reading: how a folder of tables is to be read.
    """
    name = str(name)
    kind, _, settings = name.partition(":")
    known = name.lower() in DATASETS
    if attributes and not (known and DATASETS[name.lower()].attributes):
        having = ", ".join(n for n, entry in DATASETS.items() if entry.attributes)
        raise InputError(f"{name} has no further node attributes: the datasets that have are {having}.")
    if kind.lower() == SBM:
        return BlockModel.parse(settings).generate()
    if not known and Path(name).is_dir():
        own = Path(name).resolve().name
        # A folder that happens to be called like a dataset is not that dataset, and must not get its settings.
        return read_own(Path(name), f"folder {own}" if own.lower() in (*DATASETS, SBM) else own, reading)
    entry = find_dataset(name)
    folder = locate(entry.files, data_dir, say)
    options = {"attributes": True} if attributes else {}
    return entry.read(entry.files.name, folder, **options)
