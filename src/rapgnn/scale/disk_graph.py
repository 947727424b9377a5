"""A graph in a folder of memory-mapped arrays: what the hops read, and never whole in memory.

graph.json      manifest: sizes, task, classes, fingerprint, sizes and checksums of the files, and its own checksum
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

from rapgnn.errors import InputError
from rapgnn.files import is_regular, new_folder, read_regular, sha256, write_atomic, write_error
from rapgnn.graph.graph import Graph
from rapgnn.graph.table import Encoding
from rapgnn.graph.tasks import TASKS, Objective
from rapgnn.graph.validate import SPLITS
from rapgnn.memory import blocks
from rapgnn.sparse import column_block

FORMAT = "rapgnn-graph-2"
MANIFEST, CHECKED = "graph.json", "checked.json"
ARRAYS = ("indptr", "indices", "weights", "features", "y", "train", "val", "test")
IDS = "ids.parquet"
CURE = "make the folder again"
MOST_NODES = 2**31 - 1

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
    files = {name: file_state(folder / name) for name in names}
    content = {name: file["sha256"] for name, file in files.items() if name != IDS}
    sizes = {key: about[key] for key in ("num_edges", "num_features", "num_nodes", "task")}
    fingerprint = hashlib.sha256(json.dumps([sizes, content], sort_keys=True).encode()).hexdigest()[:16]
    _note(folder, {name: _state(folder / name) for name in names})
    write_manifest(folder / MANIFEST, {"format": FORMAT, **about, "fingerprint": fingerprint, "files": files})


def unseal(folder: Path) -> None:
    """Take the manifest away before the arrays change."""
    (folder / MANIFEST).unlink(missing_ok=True)


def is_sealed(folder: Path) -> bool:
    """Whether there is a whole graph in this folder."""
    return is_regular(folder / MANIFEST)


def write_manifest(path: Path, manifest: dict[str, Any]) -> None:
    """Write a manifest with its own checksum."""
    text = json.dumps({**manifest, "digest": _digest(manifest)}, indent=1)
    write_atomic(path, lambda temporary: temporary.write_text(text))


def _digest(manifest: dict[str, Any]) -> str:
    content = {key: value for key, value in manifest.items() if key != "digest"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_manifest(path: Path, form: str = FORMAT, what: str = "graph on disk", cure: str = CURE) -> dict[str, Any]:
    """A manifest of this format; refused where it is none, or altered.

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
    if manifest.get("digest") != _digest(manifest):
        raise InputError(f"refused {path}: it is altered: {cure}.")
    return manifest


def file_state(path: Path) -> dict[str, Any]:
    """What a manifest says of a file."""
    return {"bytes": path.stat().st_size, "sha256": sha256(path)}


def check_file(path: Path, file: dict[str, Any], contents: bool, what: str = "graph on disk", cure: str = CURE) -> None:
    """Refuse a file that is missing, truncated or, where its ``contents`` are looked at, altered."""
    if not is_regular(path):
        raise InputError(f"the {what} is incomplete: {path} is missing: {cure}.")
    present = path.stat().st_size
    if present != file["bytes"]:
        raise InputError(f"refused {path}: it has {present:,} bytes, not {file['bytes']:,}: {cure}.")
    if contents and sha256(path) != file["sha256"]:
        raise InputError(f"refused {path}: it is altered (its SHA-256 differs from the manifest's): {cure}.")


def _check_files(folder: Path, files: dict[str, Any], verify: bool | None, say: Say) -> None:
    """Refuse the first file that is missing, truncated or altered, by name.

    Sizes are always compared. A checksum is taken once, and again where a file is not in the state that it was in then.
    """
    noted: Any = None
    with contextlib.suppress(OSError, ValueError):
        noted = None if verify else json.loads(read_regular(folder / CHECKED, 1 << 20))
    states = {}
    for name, file in files.items():
        check_file(folder / name, file, False)
        states[name] = _state(folder / name)
        if verify is not False and (not isinstance(noted, dict) or noted.get(name) != states[name]):
            say(f"checksum of {name}")
            check_file(folder / name, file, True)
    if verify is not False and states != noted:
        with contextlib.suppress(InputError):  # a folder that cannot be written to: checked again next time
            _note(folder, states)


def _state(path: Path) -> list[int]:
    """What no file has that was copied here; a folder's maker cannot say it in advance."""
    about = path.stat()
    return [about.st_size, about.st_mtime_ns, about.st_ctime_ns]


def _note(folder: Path, states: dict[str, list[int]]) -> None:
    write_atomic(folder / CHECKED, lambda temporary: temporary.write_text(json.dumps(states)))


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
        manifest = read_manifest(folder / MANIFEST)
        _check_files(folder, manifest["files"], verify, say)
        same = ("name", "task", "fingerprint", "num_nodes", "num_edges", "num_features", "num_outputs")
        arrays: dict[str, Any] = {
            n: open_array(array_path(folder, n)) if f"{n}.npy" in manifest["files"] else None for n in ARRAYS
        }
        classes, encoding = manifest["classes"], manifest.get("encoding")
        return cls(
            folder,
            **{name: manifest[name] for name in same},
            **arrays,
            classes=None if classes is None else tuple(classes),
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
