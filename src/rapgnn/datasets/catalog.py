"""The catalogue: datasets by name, generated graphs, and a user's own folder."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rapgnn.datasets.folder import Reading, is_table_file, read_folder
from rapgnn.datasets.frames import ENDINGS
from rapgnn.datasets.ogb import MOLECULES, NODE_GRAPHS, read_molecules, read_node_graph
from rapgnn.datasets.planetoid import PLANETOID, read_planetoid
from rapgnn.datasets.sources import FileSet, Say, locate
from rapgnn.datasets.synthetic import BlockModel
from rapgnn.datasets.tu import TU, read_tu
from rapgnn.errors import InputError, check_choice, shown
from rapgnn.graph.graph import Graph

SBM = "sbm"
MOST_GENERATED = 1 << 33  # numbers in a generated graph: 32 GiB of features, edges and labels


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
            f"dataset {shown(name)} is unknown: choose one of {known}, or give a folder with nodes.csv and edges.csv."
        ) from None


def read_own(folder: Path, name: str, reading: Reading | None = None) -> Graph:
    """A user's folder, in whichever of the layouts it is: tables, OGB's CSV files, TU's text files; or one table."""
    if folder.is_file():
        return read_folder(folder, name, reading)
    if (folder / "raw/graph-label.csv.gz").is_file():
        return read_molecules(name, folder)
    if (folder / "raw/node-label.csv.gz").is_file():
        return read_node_graph(name, folder)
    if any(folder.glob("*_A.txt")):
        return read_tu(name, folder)
    return read_folder(folder, name, reading)


def load_dataset(
    name: str | Path,
    data_dir: Path | str | None = None,
    say: Say = lambda line: None,
    attributes: bool = False,
    reading: Reading | None = None,
    *,
    label: str | None = None,
    ignore: Sequence[str] = (),
    id: str | None = None,
    source: str | None = None,
    target: str | None = None,
    sep: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    impute: bool = False,
    directed: bool = False,
    drop_unknown_edges: bool = False,
    task: str | None = None,
    seed: int = 0,
) -> Graph:
    """A graph, or many, by dataset name, by ``sbm`` or ``sbm:nodes=5000,...``, or by the path of a folder.

    A path may also name one file of edges: the graph then has no features and no labels.

    Args:
        name: what to load.
        data_dir: the user's folder of dataset files; None looks at ``RAPGNN_DATA``, then fetches.
        say: told what is fetched or refused.
        attributes: take further node features too, where the dataset has them.
        reading: how a folder of tables is to be read, as one object; the options below win over it.
        label: a folder's column of labels; None: ``label``, ``y``, ``class`` or ``target``.
        ignore: a folder's columns to leave out.
        id: a folder's column of node ids; None: ``id``, ``node`` or ``node_id``, or rows are numbered from 0.
        source, target: a folder's columns of the ends of edges.
        sep, decimal, encoding: how CSV files are written, such as ``";"``, ``","`` and ``"cp1252"``; None: the files
            tell.
        impute: fill missing values (numbers by the mean, words by no category) instead of refusing them.
        directed: edges of a folder count as listed; otherwise in both directions.
        drop_unknown_edges: leave out edges that name nodes that are not there, instead of refusing them.
        task: of a folder: ``"classification"`` or ``"regression"``; None tells by the labels.
        seed: decides the split, where a folder names none.
    """
    options = {"label": label, "ignore": (ignore,) if isinstance(ignore, str) else tuple(ignore), "id": id}
    options |= {"source": source, "target": target, "sep": sep, "decimal": decimal, "text_encoding": encoding}
    options |= {"impute": impute, "directed": directed, "drop_unknown_edges": drop_unknown_edges}
    options |= {"task": task, "seed": seed}
    if task is not None:
        check_choice("task", task, ("classification", "regression"))
    reading = replace(reading or Reading(), **_given(options))
    name = str(name)
    kind, _, settings = name.partition(":")
    known = name.lower() in DATASETS
    if attributes and not (known and DATASETS[name.lower()].attributes):
        having = ", ".join(n for n, entry in DATASETS.items() if entry.attributes)
        raise InputError(f"{name} has no further node attributes: the datasets that have are {having}.")
    if kind.lower() == SBM:
        return _generated(settings)
    if not known and _is_there(Path(name)) and (Path(name).is_dir() or is_table_file(Path(name))):
        own = Path(name).resolve().name
        # A folder that happens to be called like a dataset is not that dataset, and must not get its settings.
        return read_own(Path(name), f"folder {own}" if own.lower() in (*DATASETS, SBM) else own, reading)
    if not known and _is_there(Path(name)) and Path(name).is_file():
        raise InputError(f"{name} is a file of another kind: a file of edges ends in {', '.join(ENDINGS)}.")
    entry = find_dataset(name)
    folder = locate(entry.files, data_dir, say)
    further = {"attributes": True} if attributes else {}
    return entry.read(entry.files.name, folder, **further)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that say something."""
    return {
        key: value for key, value in options.items() if value not in (None, (), False) and (key, value) != ("seed", 0)
    }


def _generated(settings: str) -> Graph:
    """A graph of the block model; refused where no machine could hold it."""
    model = BlockModel.parse(settings)
    numbers = model.nodes * (model.features + model.degree + model.labels + model.classes)
    if not numbers <= MOST_GENERATED:
        raise InputError(
            f"sbm: {model.nodes:.3g} nodes with {model.features:.3g} features and degree {model.degree:.3g} are too "
            "many for any memory: lower them."
        )
    return model.generate()
