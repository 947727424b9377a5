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
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rapgnn.errors import InputError, check_choice
from rapgnn.files import is_regular, new_folder, read_regular, sha256, write_atomic, write_error
from rapgnn.graph.graph import Graph
from rapgnn.graph.table import Encoding
from rapgnn.graph.tasks import TASKS, Objective
from rapgnn.graph.validate import LARGEST, SPLITS, check_disjoint
from rapgnn.memory import blocks
from rapgnn.sparse import column_block

FORMAT = "rapgnn-graph-1"
MANIFEST, CHECKED = "graph.json", "checked.json"
ARRAYS = ("indptr", "indices", "weights", "features", "y", "train", "val", "test")
IDS = "ids.parquet"
CURE = "make the folder again"
MOST_NODES = 2**31 - 1
CHUNK = 1 << 20  # numbers that are looked at together

Say = Callable[[str], None]


def array_path(folder: Path, name: str) -> Path:
    """The file of one array."""
    return folder / f"{name}.npy"


def save_parts(path: Path, shape: tuple[int, ...], kind: str, parts: Iterable[np.ndarray], fortran: bool = False):
    """A numpy file of parts that follow one another; of a table in Fortran order these are columns."""
    with path.open("wb") as file:
        header: Any = {"descr": kind, "fortran_order": fortran, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for part in parts:
            file.write(np.ascontiguousarray(part).data)


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


# The manifest of a folder: what lies in it, with sizes and checksums, and the check against them.


def seal(folder: Path, about: dict[str, Any]) -> None:
    """Write the manifest, last of all files, so that a folder with one is whole.

    Args:
        about: what the manifest says beyond format, files and fingerprint; ``num_nodes``, ``task``, and so on.
    """
    names = [name for name in (*(f"{array}.npy" for array in ARRAYS), IDS) if is_regular(folder / name)]
    files = {name: {"bytes": (folder / name).stat().st_size, "sha256": sha256(folder / name)} for name in names}
    content = {name: file["sha256"] for name, file in files.items() if name != IDS}
    sizes = {key: about[key] for key in ("num_edges", "num_features", "num_nodes", "task")}
    fingerprint = hashlib.sha256(json.dumps([sizes, content], sort_keys=True).encode()).hexdigest()[:16]
    manifest = {"format": FORMAT, **about, "fingerprint": fingerprint, "files": files}
    _write_json(folder / CHECKED, {name: _state(folder / name) for name in names})
    _write_json(folder / MANIFEST, manifest)


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


def _changed(folder: Path, files: dict[str, Any], verify: bool | None, say: Say) -> dict[str, list[int]] | None:
    """Refuse the first file that is missing, truncated or altered, by name.

    Sizes are always compared. A checksum is taken once, and again where a file is not in the state that it was in then.
    Gives the states of all files, to be noted when their contents are checked too; None where nothing is new.

    Args:
        verify: True takes every checksum anew; False takes none.
    """
    noted: Any = None
    with contextlib.suppress(OSError, ValueError):
        noted = None if verify else json.loads(read_regular(folder / CHECKED, 1 << 20))
    states = {}
    for name, file in files.items():
        path = folder / name
        check_file(path, file["bytes"], None, "graph on disk", CURE)
        states[name] = _state(path)
        if verify is not False and (not isinstance(noted, dict) or noted.get(name) != states[name]):
            say(f"checksum of {name}")
            check_file(path, file["bytes"], file["sha256"], "graph on disk", CURE)
    return None if verify is False or states == noted else states


def _state(path: Path) -> list[int]:
    """What no file has that was copied here; a folder's maker cannot say it in advance."""
    about = path.stat()
    return [about.st_size, about.st_mtime_ns, about.st_ctime_ns]


def _write_json(path: Path, value: Any) -> None:
    text = json.dumps(value, indent=1)
    write_atomic(path, lambda temporary: temporary.write_text(text))


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
        """The graph in ``folder``; a file that is missing, truncated, altered or no part of a graph is refused by name.

        Args:
            verify: None looks at the contents once, and again where a file has changed since; True always; False never.
            say: told which checksum is taken.
        """
        folder = Path(folder)
        manifest = read_manifest(folder)
        try:
            states = _changed(folder, manifest["files"], verify, say)
            sizes = {key: int(manifest[key]) for key in ("num_nodes", "num_edges", "num_features", "num_outputs")}
            words = {key: str(manifest[key]) for key in ("name", "task", "fingerprint")}
            classes, encoding = manifest.get("classes"), manifest.get("encoding")
            more: dict[str, Any] = {
                "classes": None if classes is None else tuple(classes),
                "encoding": None if encoding is None else Encoding.from_dict(encoding),
                "notes": tuple(map(str, manifest.get("notes", ()))),
            }
        except InputError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InputError(f"refused {folder / MANIFEST}: it is altered: {CURE}.") from error
        arrays: dict[str, Any] = dict.fromkeys(ARRAYS)
        for name in ARRAYS:
            if f"{name}.npy" in manifest["files"]:
                arrays[name] = open_array(array_path(folder, name))
            elif name != "weights":
                raise InputError(f"the graph on disk is incomplete: its manifest does not name {name}.npy: {CURE}.")
        graph = cls(folder, **sizes, **words, **arrays, **more)
        _check_shapes(graph)
        if states is not None:
            _check_values(graph)
            with contextlib.suppress(InputError):  # a folder that cannot be written to: checked again next time
                _write_json(folder / CHECKED, states)
        return graph

    @classmethod
    def write(cls, folder: Path | str, graph: Graph) -> "DiskGraph":
        """Write an in-memory graph to ``folder``, and open it."""
        if graph.ptr is not None:
            raise InputError("a graph on disk is one graph; these are many side by side.")
        if graph.edge_attr is not None:
            raise InputError("a graph on disk has no edge features: leave them out.")
        folder, n, m = Path(folder), graph.num_nodes, graph.edge_index.shape[1]
        check_size(n)
        try:
            with new_folder(folder):
                unseal(folder)
                _write_arrays(folder, graph)
                sizes = n, m, graph.num_features, graph.num_outputs, graph.edge_weight is not None
                encoding = None if graph.encoding is None else graph.encoding.to_dict()
                manifest = about(graph.name, *sizes, graph.task, graph.classes)
                seal(folder, {**manifest, "encoding": encoding, "notes": list(graph.notes)})
        except OSError as error:
            raise write_error(folder, error) from error
        return cls.open(folder)

    @property
    def weighted(self) -> bool:
        """Whether edges have weights."""
        return self.weights is not None

    def rows(self, split: str) -> np.ndarray:
        """The node numbers of ``"train"``, ``"val"`` or ``"test"``."""
        return getattr(self, split)

    @property
    def objective(self) -> Objective:
        """What the task asks for."""
        return TASKS[self.task]

    @cached_property
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
        rest: dict[str, Any] = {name: torch.from_numpy(np.array(getattr(self, name))) for name in ("y", *SPLITS)}
        rest |= {name: getattr(self, name) for name in ("num_outputs", "task", "classes", "encoding", "notes")}
        return Graph(self.name, x, edges, **rest, edge_weight=weight, ids=self.ids)


def about(name: str, n: int, m: int, c: int, outputs: int, weighted: bool, task: str, classes: Any) -> dict[str, Any]:
    """What a manifest says of a graph besides its files."""
    names = None if classes is None else [_plain(value) for value in classes]
    sizes = {"num_nodes": n, "num_edges": m, "num_features": c, "num_outputs": outputs}
    return {"name": name, **sizes, "weighted": weighted, "task": task, "classes": names}


def _plain(value: Any) -> Any:
    """A class's name as JSON can keep it."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, str | int | float | bool) else str(value)


def check_size(n: int) -> None:
    """Refuse more nodes than 32 bits can number."""
    if n > MOST_NODES:
        raise InputError(f"a graph on disk has at most {MOST_NODES:,} nodes; this one has {n:,}.")


def _write_arrays(folder: Path, graph: Graph) -> None:
    """Edges by receiver, then sender, then weight, however they were listed; features by columns; the rest as it is."""
    n, x = graph.num_nodes, graph.x
    source, target = graph.edge_index.cpu().numpy()
    weight = None if graph.edge_weight is None else graph.edge_weight.cpu().numpy().astype(np.float32)
    order = np.lexsort((source, target) if weight is None else (weight, source, target))
    indptr = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(np.bincount(target, minlength=n), out=indptr[1:])
    arrays = {"indptr": indptr, "indices": source[order].astype(np.int32)}
    arrays |= {} if weight is None else {"weights": weight[order]}
    arrays |= {name: np.ascontiguousarray(getattr(graph, name).cpu().numpy()) for name in ("y", *SPLITS)}
    for name in (f"{name}.npy" for name in ARRAYS):  # a reader that has an old file open keeps it
        (folder / name).unlink(missing_ok=True)
    (folder / IDS).unlink(missing_ok=True)
    for name, array in arrays.items():
        save_parts(array_path(folder, name), array.shape, array.dtype.str, [array])
    widths = blocks(graph.num_features, 16)
    columns = (column_block(x, part.start, part.stop).cpu().numpy().T for part in widths)
    save_parts(array_path(folder, "features"), (n, graph.num_features), "<f4", columns, fortran=True)
    if graph.ids is not None:
        with contextlib.suppress(ImportError):  # without pyarrow they are left out: only a prediction needs them
            import pyarrow as pa
            import pyarrow.parquet as pq

            pq.write_table(pa.table({"id": pa.array(graph.ids)}), folder / IDS)


def _check_shapes(graph: DiskGraph) -> None:
    """Refuse arrays that are not what the manifest says they are."""
    n, m, c, t = graph.num_nodes, graph.num_edges, graph.num_features, graph.num_outputs
    check_choice("task of a graph on disk", graph.task, [task for task in TASKS if task.startswith("node-")])
    if min(n, m, c) < 0 or (graph.classes is not None and len(graph.classes) != t):
        raise InputError(f"refused {graph.folder / MANIFEST}: its sizes contradict each other: {CURE}.")
    y = ((n,), "int64") if graph.task == "node-classification" else ((n, t), "float32")
    wanted = {"indptr": ((n + 1,), "int64"), "indices": ((m,), "int32"), "weights": ((m,), "float32"), "y": y}
    wanted |= {"features": ((n, c), "float32")} | {s: ((len(graph.rows(s).ravel()),), "int64") for s in SPLITS}
    for name, (shape, dtype) in wanted.items():
        array = getattr(graph, name)
        if array is not None and (array.shape != shape or array.dtype != np.dtype(dtype)):
            raise _refusal(graph, name, f"it is {array.dtype} {array.shape}, not {dtype} {shape}")


def _check_values(graph: DiskGraph) -> None:
    """Refuse numbers that no graph has, one block of each array after another."""
    n, t, classes = graph.num_nodes, graph.num_outputs, graph.y.ndim == 1

    def number(most: int, least: int = 0) -> Callable[[np.ndarray], Any]:
        return lambda part: (part >= least) & (part < most)

    def finite(part: np.ndarray) -> Any:
        return np.abs(part) <= LARGEST

    of_nodes, of_numbers = "it names nodes that are none", "it holds NaN, infinite or too large numbers"
    contents: dict[str, tuple[Callable[[np.ndarray], Any], str]] = {
        "indices": (number(n), of_nodes),
        "weights": (finite, of_numbers),
        "features": (finite, of_numbers),
        "y": (number(t, -1) if classes else lambda part: ~np.isinf(part), "it holds labels that are none"),
        **{split: (number(n), of_nodes) for split in SPLITS},
    }
    for name, (good, fault) in contents.items():
        array = getattr(graph, name)
        flat = np.zeros(0) if array is None else array.ravel(order="K")
        if not all(good(flat[part]).all() for part in blocks(len(flat), CHUNK)):
            raise _refusal(graph, name, fault)
    ends = graph.indptr[[0, -1]].tolist() == [0, graph.num_edges]
    if not ends or not all((np.diff(graph.indptr[p.start : p.stop + 1]) >= 0).all() for p in blocks(n, CHUNK)):
        raise _refusal(graph, "indptr", "it does not say where each node's edges begin")
    for split in SPLITS:
        rows = np.asarray(graph.rows(split))
        if len(np.unique(rows)) < len(rows):
            raise _refusal(graph, split, "it names a node twice")
        if classes and (graph.y[rows] < 0).any():
            raise _refusal(graph, split, "it names nodes without a label")
    check_disjoint({split: np.asarray(graph.rows(split)) for split in SPLITS})


def _refusal(graph: DiskGraph, name: str, fault: str) -> InputError:
    return InputError(f"refused {array_path(graph.folder, name)}: {fault}: {CURE}.")
