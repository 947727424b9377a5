"""A graph in a folder of memory-mapped arrays: what the hops read, and never whole in memory.

graph.json      manifest: sizes, task, classes, fingerprint, sizes and checksums of the files
indptr.npy      int64 [n + 1], where each receiver's edges begin
indices.npy     int32 [m], the sender of each edge; a receiver's senders ascend, edges listed twice are there twice
weights.npy     float32 [m], where edges have weights
features.npy    float32 [n, c] in Fortran order, so that a block of columns is one piece of the file
y.npy           int64 [n] class numbers (-1: unknown), or float32 [n, t] (NaN: unknown)
train.npy, val.npy, test.npy    int64 node numbers
ids.parquet     what the nodes are called, where the data say it
"""

import contextlib
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rapgnn.errors import InputError
from rapgnn.files import is_regular, new_folder, read_regular, sha256, write_atomic
from rapgnn.graph.graph import Graph
from rapgnn.graph.table import Encoding
from rapgnn.sparse import SparseMatrix

# What lies in the folder of a graph on disk: the arrays, their sizes and checksums, and the check against them.


FORMAT = "rapgnn-graph-1"
MANIFEST, CHECKED = "graph.json", "checked.json"
ARRAYS = ("indptr", "indices", "weights", "features", "y", "train", "val", "test")
OPTIONAL = ("weights",)
IDS = "ids.parquet"
CURE = "make the folder again"

Say = Callable[[str], None]


def array_path(folder: Path, name: str) -> Path:
    """The file of one array."""
    return folder / f"{name}.npy"


def create_array(folder: Path, name: str, shape: tuple[int, ...], dtype: Any, fortran: bool = False) -> np.ndarray:
    """A new array in a file, of zeros, to be filled part by part; memory-mapped unless it is empty."""
    path = array_path(folder, name)
    if 0 in shape:
        empty = np.zeros(shape, dtype, order="F" if fortran else "C")
        np.save(path, empty)
        return empty
    return np.lib.format.open_memmap(path, "w+", np.dtype(dtype), shape, fortran_order=fortran)


def open_array(path: Path) -> np.ndarray:
    """An array of a file, memory-mapped and read-only; an empty one is read."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        with contextlib.suppress(OSError, ValueError, EOFError):
            array = np.load(path, allow_pickle=False)
            if array.size == 0:  # which cannot be mapped
                return array
        raise InputError(f"refused {path}: it is no numpy array: {CURE}.") from error


def seal(folder: Path, about: dict[str, Any], say: Say = lambda line: None) -> None:
    """Write the manifest, last of all files, so that a folder with one is whole.

    Args:
        about: what the manifest says beyond format, files and fingerprint; ``num_nodes``, ``task``, and so on.
    """
    names = [f"{name}.npy" for name in ARRAYS if is_regular(array_path(folder, name))]
    names += [IDS] if is_regular(folder / IDS) else []
    files: dict[str, dict[str, Any]] = {}
    for name in names:
        say(f"checksum of {name}")
        files[name] = {"bytes": (folder / name).stat().st_size, "sha256": sha256(folder / name)}
    sizes = {"num_nodes", "num_edges", "num_features", "task"}
    content = {name: noted["sha256"] for name, noted in files.items() if name != IDS}
    marks = json.dumps([{k: about[k] for k in sorted(sizes)}, content], sort_keys=True)
    fingerprint = hashlib.sha256(marks.encode()).hexdigest()[:16]
    manifest = {"format": FORMAT, **about, "fingerprint": fingerprint, "files": files}
    text = json.dumps(manifest, indent=1)
    _keep_states(folder, {name: _state(folder / name) for name in names})
    write_atomic(folder / MANIFEST, lambda temporary: temporary.write_text(text))


def unseal(folder: Path) -> None:
    """Take the manifest away before the arrays change."""
    (folder / MANIFEST).unlink(missing_ok=True)


def is_sealed(folder: Path) -> bool:
    """Whether there is a whole graph in this folder."""
    return is_regular(folder / MANIFEST)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest, refused where it is none."""
    manifest = read_json(folder / MANIFEST, FORMAT, "graph on disk", CURE)
    if not isinstance(manifest.get("files"), dict):
        raise InputError(f"refused {folder / MANIFEST}: it is no manifest of the format {FORMAT}: {CURE}.")
    return manifest


def read_json(path: Path, form: str, what: str, cure: str) -> dict[str, Any]:
    """A manifest of this format; refused where it is none.

    Args:
        what: its folder ought to be.
        cure: what to do about a folder that is damaged.
    """
    try:
        manifest = json.loads(read_regular(path, 1 << 26))
    except OSError as error:
        raise InputError(f"{path.parent} is no {what}: {path} cannot be read.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"refused {path}: it is truncated or altered (no JSON): {cure}.") from error
    if not isinstance(manifest, dict) or manifest.get("format") != form:
        raise InputError(f"refused {path}: it is no manifest of the format {form}: {cure}.")
    return manifest


def check_file(path: Path, size: int, digest: str | None, what: str, cure: str) -> None:
    """Refuse a file that is missing, truncated or, with a checksum, altered."""
    if not is_regular(path):
        raise InputError(f"the {what} is incomplete: {path} is missing: {cure}.")
    present = path.stat().st_size
    if present != size:
        raise InputError(f"refused {path}: it has {present:,} bytes, not {size:,}: {cure}.")
    if digest is not None and sha256(path) != digest:
        raise InputError(f"refused {path}: it is altered (its SHA-256 differs from the manifest's): {cure}.")


def check_files(folder: Path, manifest: dict[str, Any], verify: bool | None, say: Say = lambda line: None) -> None:
    """Refuse the first file that is missing, truncated or altered, by name.

    Sizes are always compared. A checksum is taken once, and again where a file's time of change is another than then.

    Args:
        verify: True takes every checksum anew; False takes none.
    """
    checked: dict[str, list[int]] = {}
    with contextlib.suppress(OSError, ValueError):
        before = {} if verify else json.loads(read_regular(folder / CHECKED, 1 << 20))
        checked = before if isinstance(before, dict) else {}
    states = dict(checked)
    for name, file in manifest["files"].items():
        path = folder / name
        check_file(path, file["bytes"], None, "graph on disk", CURE)
        if verify is False or checked.get(name) == _state(path):
            continue
        say(f"checksum of {name}")
        states[name] = _state(path)
        check_file(path, file["bytes"], file["sha256"], "graph on disk", CURE)
    if states != checked:
        with contextlib.suppress(InputError):  # a folder that cannot be written to: checked again next time
            _keep_states(folder, states)


def _state(path: Path) -> list[int]:
    return [path.stat().st_size, path.stat().st_mtime_ns]


def _keep_states(folder: Path, states: dict[str, list[int]]) -> None:
    text = json.dumps(states)
    write_atomic(folder / CHECKED, lambda temporary: temporary.write_text(text))


MOST_NODES = 2**31 - 1
COLUMNS_AT_ONCE = 16


@dataclass(frozen=True)
class DiskGraph:
    """One graph on disk. Arrays are memory maps that cannot be written to.

    Shapes:
        indptr ``[n + 1]``; indices ``[m]``; weights ``[m]`` or None; features ``[n, c]``; y ``[n]`` or ``[n, t]``;
        train, val, test node numbers.
    """

    folder: Path
    name: str
    num_nodes: int
    num_edges: int
    num_features: int
    num_outputs: int
    task: str
    classes: tuple[Any, ...] | None
    fingerprint: str
    indptr: np.ndarray = field(repr=False)
    indices: np.ndarray = field(repr=False)
    weights: np.ndarray | None = field(repr=False)
    features: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    train: np.ndarray = field(repr=False)
    val: np.ndarray = field(repr=False)
    test: np.ndarray = field(repr=False)
    encoding: Encoding | None = field(default=None, repr=False)
    notes: tuple[str, ...] = field(default=(), repr=False)

    @property
    def num_rows(self) -> int:
        """Rows are nodes."""
        return self.num_nodes

    @classmethod
    def open(cls, folder: Path | str, verify: bool | None = None, say: Say = lambda line: None) -> "DiskGraph":
        """The graph in ``folder``; a file that is missing, truncated or altered is refused by name.

        Args:
            verify: None compares checksums once, and again where a file has changed since; True always; False never.
            say: told which checksum is taken.
        """
        folder = Path(folder)
        manifest = read_manifest(folder)
        check_files(folder, manifest, verify, say)
        sizes = {key: manifest[key] for key in ("num_nodes", "num_edges", "num_features", "num_outputs")}
        arrays: dict[str, Any] = {}
        for name in ARRAYS:
            there = f"{name}.npy" in manifest["files"]
            if not there and name not in OPTIONAL:
                raise InputError(f"the graph on disk is incomplete: its manifest does not name {name}.npy: {CURE}.")
            arrays[name] = open_array(array_path(folder, name)) if there else None
        _check_shapes(folder, arrays, sizes)
        classes = manifest.get("classes")
        words = {key: manifest[key] for key in ("name", "task", "fingerprint")}
        encoding = manifest.get("encoding")
        return cls(
            folder,
            **sizes,
            **words,
            classes=None if classes is None else tuple(classes),
            **arrays,
            encoding=None if encoding is None else Encoding.from_dict(encoding),
            notes=tuple(manifest.get("notes", ())),
        )

    @classmethod
    def write(cls, folder: Path | str, graph: Graph) -> "DiskGraph":
        """Write an in-memory graph to ``folder``, and open it."""
        if graph.ptr is not None:
            raise InputError("a graph on disk is one graph; these are many side by side.")
        if graph.edge_attr is not None:
            raise InputError("a graph on disk has no edge features: leave them out.")
        folder = Path(folder)
        with new_folder(folder):
            unseal(folder)
            n, m = graph.num_nodes, graph.edge_index.shape[1]
            check_size(n)
            weighted = _write_edges(folder, graph)
            features = create_array(folder, "features", (n, graph.num_features), np.float32, fortran=True)
            for start in range(0, graph.num_features, COLUMNS_AT_ONCE):
                stop = min(start + COLUMNS_AT_ONCE, graph.num_features)
                x = graph.x
                block = x.columns(start, stop) if isinstance(x, SparseMatrix) else x[:, start:stop]
                features[:, start:stop] = block.cpu().numpy()
            flush(features)
            for name in ("y", "train", "val", "test"):
                np.save(array_path(folder, name), np.ascontiguousarray(getattr(graph, name).cpu().numpy()))
            if graph.ids is not None:
                write_ids(folder, graph.ids)
            sizes = about(graph.name, n, m, graph.num_features, graph.num_outputs, weighted, graph.task, graph.classes)
            encoding = None if graph.encoding is None else graph.encoding.to_dict()
            seal(folder, {**sizes, "encoding": encoding, "notes": list(graph.notes)})
        return cls.open(folder)

    @property
    def weighted(self) -> bool:
        """Whether edges have weights."""
        return self.weights is not None

    def rows(self, split: str) -> np.ndarray:
        """The node numbers of ``"train"``, ``"val"`` or ``"test"``."""
        return getattr(self, split)

    def ids(self) -> np.ndarray | None:
        """What the nodes are called; None where the data do not say it."""
        path = self.folder / IDS
        if not path.is_file():
            return None
        import pandas as pd

        return pd.read_parquet(path)["id"].to_numpy()

    def to_graph(self) -> Graph:
        """All of it in memory; for graphs that fit."""
        receiver = np.repeat(np.arange(self.num_nodes), np.diff(self.indptr))
        edges = torch.from_numpy(np.stack([self.indices.astype(np.int64), receiver]))
        weight = None if self.weights is None else torch.from_numpy(np.array(self.weights))
        x = torch.from_numpy(np.array(self.features, order="C"))
        names = ("y", "train", "val", "test")
        rest: dict[str, Any] = {name: torch.from_numpy(np.array(getattr(self, name))) for name in names}
        return Graph(
            self.name,
            x,
            edges,
            **rest,
            num_outputs=self.num_outputs,
            edge_weight=weight,
            task=self.task,
            classes=self.classes,
            ids=self.ids(),
            encoding=self.encoding,
            notes=self.notes,
        )


def about(name: str, n: int, m: int, c: int, outputs: int, weighted: bool, task: str, classes: Any) -> dict[str, Any]:
    """What a manifest says of a graph besides its files."""
    names = None if classes is None else [plain(value) for value in classes]
    return {
        "name": name,
        "num_nodes": n,
        "num_edges": m,
        "num_features": c,
        "num_outputs": outputs,
        "weighted": weighted,
        "task": task,
        "classes": names,
    }


def plain(value: Any) -> Any:
    """A class's name as JSON can keep it."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, str | int | float | bool) else str(value)


def check_size(n: int) -> None:
    """Refuse more nodes than 32 bits can number."""
    if n > MOST_NODES:
        raise InputError(f"a graph on disk has at most {MOST_NODES:,} nodes; this one has {n:,}.")


def flush(array: np.ndarray) -> None:
    """Write what a memory map still holds to its file."""
    if isinstance(array, np.memmap):
        array.flush()


def write_ids(folder: Path, ids: np.ndarray) -> None:
    """Keep what the nodes are called; without pyarrow they are left out, because only a prediction needs them."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        return
    pq.write_table(pa.table({"id": pa.array(ids)}), folder / IDS)


def _write_edges(folder: Path, graph: Graph) -> bool:
    """By receiver, then sender, then weight, however they were listed; gives whether they have weights."""
    n = graph.num_nodes
    source, target = graph.edge_index.cpu().numpy()
    weight = None if graph.edge_weight is None else graph.edge_weight.cpu().numpy().astype(np.float32)
    order = np.lexsort((source, target) if weight is None else (weight, source, target))
    np.save(array_path(folder, "indices"), source[order].astype(np.int32))
    indptr = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(np.bincount(target, minlength=n), out=indptr[1:])
    np.save(array_path(folder, "indptr"), indptr)
    array_path(folder, "weights").unlink(missing_ok=True)
    (folder / IDS).unlink(missing_ok=True)
    if weight is not None:
        np.save(array_path(folder, "weights"), weight[order])
    return weight is not None


def _check_shapes(folder: Path, arrays: dict[str, Any], sizes: dict[str, int]) -> None:
    """Arrays that are what the manifest says they are."""
    n, m, c = sizes["num_nodes"], sizes["num_edges"], sizes["num_features"]
    wanted: dict[str, tuple[tuple[int, ...], str]] = {"indptr": ((n + 1,), "int64"), "indices": ((m,), "int32")}
    wanted |= {"weights": ((m,), "float32"), "features": ((n, c), "float32")}
    for name, (shape, dtype) in wanted.items():
        array = arrays[name]
        if array is not None and (array.shape != shape or array.dtype != np.dtype(dtype)):
            raise InputError(
                f"refused {array_path(folder, name)}: it is {array.dtype} {array.shape}, not {dtype} {shape}: {CURE}."
            )
