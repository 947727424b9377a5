"""The catalogue: datasets by name, generated graphs, and a user's own folder."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from rapgnn.datasets import published
from rapgnn.datasets.columns import Reading
from rapgnn.datasets.database import is_database, read_database
from rapgnn.datasets.frames import ENDINGS
from rapgnn.datasets.keyed import are_tables, is_folder_of_tables, read_folder_of_tables, read_frames
from rapgnn.datasets.sources import FileSet, Say, locate
from rapgnn.datasets.tables import is_table_file, read_folder
from rapgnn.errors import InputError, shown
from rapgnn.graph.graph import Graph, make_graph
from rapgnn.plugins import Extensible

SBM = "sbm"


@dataclass(frozen=True)
class Dataset:
    """A named dataset: its files and how they are read."""

    files: FileSet
    read: Callable[..., Graph]
    about: str


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
    name: Dataset(files, read, _ABOUT[name]) for family, read in published.FAMILIES for name, files in family.items()
}
"""The published datasets by name."""


def find_dataset(name: str) -> Dataset:
    """The entry for a name, whatever its case."""
    try:
        return DATASETS[name.lower()]
    except KeyError:
        if name.lower().partition(":")[0] == SBM:
            raise InputError("sbm is generated, so it has no files.") from None
        known = [*DATASETS, SBM]
        near = get_close_matches(name.lower(), known, 1)
        choice = f"did you mean {near[0]}? Else" if near else f"choose one of {', '.join(known)}, or"
        raise InputError(
            f"dataset {shown(name)} is unknown: {choice} give a folder with nodes.csv and edges.csv."
        ) from None


def read_own(folder: Path, name: str, reading: Reading | None = None) -> Graph:
    """A user's folder, in whichever of the layouts it is: tables, OGB's CSV files, TU's text files; or one table."""
    if (folder / "raw/graph-label.csv.gz").is_file():
        return published.read_molecules(name, folder)
    if (folder / "raw/node-label.csv.gz").is_file():
        return published.read_node_graph(name, folder)
    if any(folder.glob("*_A.txt")):
        return published.read_tu(name, folder)
    return read_folder(folder, name, reading)


def load_dataset(
    name: str | Path | None = None,
    data_dir: Path | str | None = None,
    say: Say = lambda line: None,
    reading: Reading | None = None,
    **options: Any,
) -> Graph:
    """A graph, or many, by dataset name, by ``sbm`` or ``sbm:nodes=5000,...``, or by the path of a folder.

    A path may also name one file of edges: the graph then has no features and no labels.

    Args:
        name: what to load; None: the files ``nodes`` and ``edges``. Or tables with keys, ``{"orders": a table, …}``.
        data_dir: the user's folder of dataset files; None looks at ``RAPGNN_DATA``, then fetches.
        say: is given, a line at a time, what is fetched or refused.
        reading: how a folder of tables is to be read, as one object; the options win over it.
        options: fields of ``Reading`` by name (``label="species"``); ``encoding`` is that of CSV files.
    """
    reading = (reading or Reading(labelled=None)).with_options(options)
    if are_tables(name):
        return read_frames(name, reading)  # type: ignore[arg-type]
    first = reading.nodes or reading.edges
    if (name is None) == (first is None):
        raise InputError("give a folder or a dataset, or else the files of nodes and edges.")
    if first is not None:
        return read_folder(Path(first).parent, Path(first).stem, reading)
    name = str(name)
    path, kind = Path(name), name.lower().partition(":")[0]
    known = DATASETS.get(name.lower())
    if (":" in name or kind == SBM) and kind in READERS:
        return READERS[kind](name.partition(":")[2])
    if is_database(name):
        return read_database(name, reading)
    if known is None and _is_there(path):
        own = path.resolve().name
        if path.is_dir() and is_folder_of_tables(path):
            return read_folder_of_tables(path, own, reading)
        if not path.is_dir() and not is_table_file(path):
            raise InputError(f"{name} is a file of another kind: a file of edges ends in {', '.join(ENDINGS)}.")
        # A folder that happens to be called like a dataset is not that dataset, and must not get its settings.
        return read_own(path, f"folder {own}" if own.lower() in (*DATASETS, SBM) else own, reading)
    entry = find_dataset(name)
    return entry.read(entry.files.name, locate(entry.files, data_dir, say))


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that no file can have
        return False


# Generated graphs of any size: the contextual stochastic block model.


@dataclass(frozen=True)
class BlockModel:
    """A contextual stochastic block model (Deshpande et al., 2018): classes decide edges and features.

    Args:
        nodes: number of nodes.
        classes: number of classes, equally likely.
        degree: average number of neighbours.
        homophily: probability that an edge joins two nodes of one class.
        features: number of real-valued features.
        signal: how far apart the classes are; the distance between two class means is signal · √(features / 8)
            standard deviations of the noise.
        labels: 2 or more: that many binary labels instead of classes (each label is on in a random half of the classes,
            flipped for one node in ten).
        train: training nodes per class; val, test: their numbers; what is left over has labels but no split.
        seed: decides everything.
    """

    nodes: int = 2000
    classes: int = 4
    degree: float = 10.0
    homophily: float = 0.7
    features: int = 64
    signal: float = 1.0
    labels: int = 0
    train: int = 20
    val: int = 400
    test: int = 800
    seed: int = 0

    def __post_init__(self) -> None:
        least = {"nodes": 1, "classes": 2, "features": 1, "labels": 0, "train": 1, "val": 0, "test": 0, "seed": 0}
        for name, low in (least | {"degree": 0, "signal": -math.inf, "homophily": 0}).items():
            value = getattr(self, name)
            if not low <= value or math.isinf(value) or (name == "homophily" and value > 1):
                raise InputError(f"sbm: {name} must be a finite number from {low}{' to 1' * (name == 'homophily')}.")
        if self.labels == 1:
            raise InputError("sbm: labels must be 0, or 2 and more.")
        if not self.nodes * (self.features + self.degree + self.labels + self.classes) <= 1 << 33:  # 32 GiB
            raise InputError(f"sbm: {self.nodes:.3g} nodes with all their numbers fit into no memory: lower it.")
        if (needed := self.classes * self.train + self.val + self.test) > self.nodes:
            raise InputError(
                f"sbm: {self.nodes} nodes are fewer than the {needed} the splits ask for; lower train, val or test."
            )

    @classmethod
    def parse(cls, text: str) -> "BlockModel":
        """From ``nodes=5000,degree=20,seed=1``."""
        kinds = {f.name: f.type for f in fields(cls)}
        given: dict[str, float | int] = {}
        for part in filter(None, text.split(",")):
            name, _, value = part.partition("=")
            if name not in kinds:
                raise InputError(f"sbm: unknown setting {name!r}: the settings are {', '.join(kinds)}.")
            try:
                given[name] = float(value) if kinds[name] in (float, "float") else int(float(value))
            except (ValueError, OverflowError):
                raise InputError(f"sbm: {name} must be a number, got {value!r}.") from None
        return cls(**given)  # type: ignore[arg-type]

    def generate(self) -> Graph:
        """Sample the graph; time and memory are linear in nodes and edges."""
        rng = np.random.default_rng(self.seed)
        classes = rng.permutation(np.arange(self.nodes) % self.classes)
        members = np.argsort(classes, kind="stable")
        starts = np.searchsorted(classes[members], np.arange(self.classes + 1))
        count = round(self.nodes * self.degree / 2)
        source = rng.integers(self.nodes, size=count)
        shift = rng.integers(1, self.classes, size=count)
        same = rng.random(count) < self.homophily
        block = np.where(same, classes[source], (classes[source] + shift) % self.classes)
        size = starts[block + 1] - starts[block]
        target = members[starts[block] + (rng.random(count) * size).astype(np.int64)]
        edges = np.concatenate([np.stack([source, target]), np.stack([target, source])], axis=1)
        means = rng.standard_normal((self.classes, self.features)) * (self.signal / np.sqrt(2 * self.features))
        x = rng.standard_normal((self.nodes, self.features), dtype=np.float32)
        x += means.astype(np.float32)[classes] * np.sqrt(self.features / 8)
        y = self._labels(rng, classes) if self.labels else classes
        order = rng.permutation(self.nodes)
        rank = np.empty(self.nodes, dtype=np.int64)  # how many of its own class come before it in the random order
        for c in range(self.classes):
            mine = order[classes[order] == c]
            rank[mine] = np.arange(len(mine))
        train = order[rank[order] < self.train]
        rest = order[rank[order] >= self.train]
        val, test = rest[: self.val], rest[self.val : self.val + self.test]
        return make_graph(x, edges, y, train, val, test, name="sbm", sparse=False)

    def _labels(self, rng: np.random.Generator, classes: np.ndarray) -> np.ndarray:
        on = np.stack([rng.permutation(self.classes) < self.classes / 2 for _ in range(self.labels)])
        flipped = rng.random((self.nodes, self.labels)) < 0.1
        return (on[:, classes].T ^ flipped).astype(np.float32)


READERS = Extensible("rapgnn.readers", {SBM: lambda settings: BlockModel.parse(settings).generate()})
"""What reads ``kind:words``, by its kind: words -> ``Graph``. A package adds its own by the entry-point group
``rapgnn.readers``."""
