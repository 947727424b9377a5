"""OGB's molecules and its two large node graphs (Hu et al., 2020), from OGB's own CSV.gz folders."""

import contextlib
import gzip
import hashlib
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pandas as pd

from rapgnn.datasets.sources import Archive, FileSet, cache_dir
from rapgnn.datasets.tu import one_hot
from rapgnn.errors import InputError
from rapgnn.files import is_regular, open_regular, read_regular, remove_special, sha256, write_atomic
from rapgnn.graph.graph import Graph, make_graph
from rapgnn.graph.lists import make_graphs

# Datasets parsed once: plain arrays in the cache, without pickle, under a name that changes with the files.
# The SHA-256 of a cached file lies beside it: what does not match is parsed again and replaced.


Arrays = dict[str, np.ndarray]
VERSION = 1  # of what the parsers make of a file; raise it when that changes


def parsed(name: str, folder: Path, files: Sequence[Path], parse: Callable[[Path], Arrays]) -> Arrays:
    """What ``parse(folder)`` gives, or gave the last time the same files were read."""
    digest = hashlib.sha256(str(VERSION).encode())
    for path in files:
        digest.update(sha256(path).encode() if is_regular(path) else b"-")
    kept = cache_dir() / "parsed" / f"{name}-{digest.hexdigest()[:16]}.npz"
    noted = kept.with_name(f"{kept.name}.sha256")
    try:
        if read_regular(noted, 1 << 10).decode().strip() == sha256(kept):
            with kept.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                return {key: arrays[key] for key in arrays.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, KeyError):
        pass  # not there, or damaged: parsed again and replaced
    fresh = parse(folder)
    with contextlib.suppress(InputError, OSError):  # a cache that cannot be written costs time, not the data
        for path in (kept, noted):
            remove_special(path)
        write_atomic(kept, lambda temporary: np.savez(temporary, **fresh))  # type: ignore[arg-type]
        checksum = sha256(kept)
        write_atomic(noted, lambda temporary: temporary.write_text(f"{checksum}\n"))
    return fresh


_URL = "http://snap.stanford.edu/ogb/data"
CHUNK = 2_000_000  # rows of a CSV file that are in memory at a time

# How many values each categorical feature can take, the last one of most standing for "anything else".
ATOM_CATEGORIES = (119, 5, 12, 12, 10, 6, 6, 2, 2)
BOND_CATEGORIES = (5, 6, 2)


def _molecules(name: str, files: dict[str, tuple[str, ...]], open: bool = False) -> FileSet:
    archive = Archive(f"{_URL}/graphproppred/csv_mol_download/{name.removeprefix('mol')}.zip")
    return FileSet(name, f"ogb/ogbg_{name}", files, archive=archive, open=open)


MOLECULES = {
    "molesol": _molecules(
        "molesol",
        {
            "raw/edge-feat.csv.gz": ("da5e2351193a7ef5cd3d4d78a9527797d52ca64e5af52ea4f14adcafdb0c1693",),
            "raw/edge.csv.gz": ("d4fbb9ea8127e76ac915bb650d61db36e5e5ae2695b2e869818e7632d7bec0af",),
            "raw/graph-label.csv.gz": ("049ab083983327bd4e2d0bcdb019d6ae4c0316ae676e6add0403a5a7e94c5cad",),
            "raw/node-feat.csv.gz": ("1500decb89013de31586a9725b3fe984b84cb2696f8411880ddbb09ecb3112f0",),
            "raw/num-edge-list.csv.gz": ("8cc54b817d1f5c999cfd69dc9c09aebdddee942f8fd95f2462fb53699eae9ce0",),
            "raw/num-node-list.csv.gz": ("57de66bbe53142b5bd7329e8aa5e7812dfbeffe80b6ba500b14e7d354aaa17ac",),
            "split/scaffold/test.csv.gz": ("3a2367389a4d0f2d3cada1ba19d82c83edcb4db58bd564273b14b8a33749cde2",),
            "split/scaffold/train.csv.gz": ("07a08a743001b8faa61ffb62130ac60e4f89355912fd798da7a471e233cb5d1b",),
            "split/scaffold/valid.csv.gz": ("fc4ddf102e27ab6436128e151dc1e83c9f2cf2be3e8c4007543dcf97bd13ff53",),
        },
    ),
    "moltox21": _molecules(
        "moltox21",
        {
            "raw/edge-feat.csv.gz": ("4f4a73f0a609f457481d751a1bbb7f1002a0431e39270ca57e78c83ebfb0aa55",),
            "raw/edge.csv.gz": ("b7c090ccfeddcc34f1d5fbf8fdeaf9655fd36c34d55e090634cd686ff83a67fc",),
            "raw/graph-label.csv.gz": ("59628712bdb5308ed929c8d7936957de9400da800f25594ce97fdda9843e9195",),
            "raw/node-feat.csv.gz": ("6ac3972c005e091fc87911b0e1fd2ca0ac60ba8f14229e44c1ad21063ac488c6",),
            "raw/num-edge-list.csv.gz": ("b9f5d183c7c564685bbb7302547c3e657ab5476ed01bbcf1366bf7fcfc418a66",),
            "raw/num-node-list.csv.gz": ("3873cc531673553c912520efe191d7f7ae380a4cbc701c8ce8d96524fd3f4fcd",),
            "split/scaffold/test.csv.gz": ("737ac81f7eec027f2939ff643258491a68ba9d000416ad69e43d319f6af84437",),
            "split/scaffold/train.csv.gz": ("a65dd8cd864c2adf33cda3c0a8be995330f411bf48cbef1c82fc2f84864cd47f",),
            "split/scaffold/valid.csv.gz": ("6f6ffd426811b734c6d3cf1f36131ffd4288d0bdfeccb0d8f3a84e0b687f1d38",),
        },
        open=True,
    ),
    "molhiv": _molecules(
        "molhiv",
        {
            "raw/edge-feat.csv.gz": (  # OGB's own, then rebuilt with a later RDKit
                "a59f5bcf890de811555f5d3819a96f713b4f8b6204801f286991c197afacf836",
                "d9277f19460d89e673dabb48805658bdcb9873f9b1a8ed241c88a2fc79aedd88",
            ),
            "raw/edge.csv.gz": ("d279b2d408f553cdc6e8ff9712e8eb52ee8831e6f63d29431812e27bca119389",),
            "raw/graph-label.csv.gz": ("88f950d08c606556cca1c1ffef05229f46d64043ad7fa617e8938a3ae9779993",),
            "raw/node-feat.csv.gz": (  # OGB's own, then rebuilt with a later RDKit
                "1e875d13c6442622d2b4f3763e7b0ef48cf2c769828b087ef0efe91c3bdb574b",
                "fb6555eff942be6d53f034d6313c55a7e5805610e7d2e21c52950dbdc61c7847",
            ),
            "raw/num-edge-list.csv.gz": ("fa058f23514328fd69bc9c4c31fd8f5938c4ce18726855489d0c0e2dfeaddd37",),
            "raw/num-node-list.csv.gz": ("e26f7e29de4a3985c7f47482838c62f870c90c4d01871c57bfeae1b8d993a24b",),
            "split/scaffold/test.csv.gz": ("27485729d83edd6f47eb3b8daff69fdb32c9df6b36b17204ef87f8dc1a30eab1",),
            "split/scaffold/train.csv.gz": ("9f1e46e77897b3de3d19452cbd47c312e2844a0ec664c1c9dc897c10d12e42f0",),
            "split/scaffold/valid.csv.gz": ("eaf4d6b4630f9e689d2b203669674d0dc309673319e8ac32daa9e9ca90e2e1fa",),
        },
    ),
    "molbace": _molecules(
        "molbace",
        {
            "raw/edge-feat.csv.gz": ("089c1ee7c5561a0e81623780d0808e10feb2aa789a48b1fef260ad3f3494013b",),
            "raw/edge.csv.gz": ("014e9475134c9c20300fda5d8115bd0c5f192185cd74c6f8921afc28f6359ce7",),
            "raw/graph-label.csv.gz": ("a93fed4e7bf6ef1fe8b6bd79e5a4eb984d9a5ccaa4f51d6cb1accecff836b632",),
            "raw/node-feat.csv.gz": ("bd031b6fd3d699c2ee4527e778e298bc0ae52439b9b720311789f83803a6025a",),
            "raw/num-edge-list.csv.gz": ("78e201ed1abfd581096a3e5ba32a18ccca8e872f89c05bec1f9e52f25a7a5f76",),
            "raw/num-node-list.csv.gz": ("ca6e661f0d4323c90543e9539971ba8695a763aac0df2e8e1c6d141985a9a2fa",),
            "split/scaffold/test.csv.gz": ("8e6ede054b28f5953912996c1d59c0d8b0c7ef252b3f2679c251d205c8438755",),
            "split/scaffold/train.csv.gz": ("5f20fb296650872fc91d8af37ed3afdd6d4cd32b52e53763d543bf1b6aa89b26",),
            "split/scaffold/valid.csv.gz": ("f06cb03da9a5f5609c4600f1e01148eb54779351086aede3305643335657bd66",),
        },
    ),
}


def read_molecules(name: str, folder: Path) -> Graph:
    """The molecules in ``folder``, parsed once and then loaded from a cache of plain arrays.

    Labels of 0, 1 and unknown are tasks to classify, any other numbers are targets of a regression.
    """
    part = parsed(name, folder, _files(folder), _parse_molecules)
    labels = part["labels"]
    binary = np.isin(labels[~np.isnan(labels)], (0, 1)).all()
    return make_graphs(
        one_hot(part["atoms"].astype(np.int64), ATOM_CATEGORIES, "atom"),
        part["edges"].astype(np.int64),
        part["sizes"],
        labels,
        part["train"],
        part["valid"],
        part["test"],
        edge_attr=one_hot(part["bonds"].astype(np.int64), BOND_CATEGORIES, "bond"),
        task="multilabel" if binary else "regression",
        name=name,
    )


def _files(folder: Path) -> list[Path]:
    return sorted([*(folder / "raw").glob("*.csv.gz"), *(folder / "split").glob("*/*.csv.gz")])


def _parse_molecules(folder: Path) -> Arrays:
    sizes, counts = (_table(folder / f"raw/num-{part}-list.csv.gz", np.int64)[:, 0] for part in ("node", "edge"))
    if min(sizes.min(initial=0), counts.min(initial=0)) < 0:
        raise InputError(f"{folder} announces a negative number of atoms or bonds.")
    atoms = _table(folder / "raw/node-feat.csv.gz", np.int64, len(ATOM_CATEGORIES))
    bonds = _table(folder / "raw/edge-feat.csv.gz", np.int64, len(BOND_CATEGORIES))
    pairs = _table(folder / "raw/edge.csv.gz", np.int64, 2)
    labels = _table(folder / "raw/graph-label.csv.gz", np.float64)
    for what, rows, total in (("atoms", atoms, sizes.sum()), ("bonds", bonds, counts.sum())):
        if len(rows) != total:
            raise InputError(f"{folder} lists {len(rows)} {what} but announces {total}.")
    if len(pairs) != len(bonds) or len(sizes) != len(counts) or len(labels) != len(sizes):
        raise InputError(f"the files in {folder / 'raw'} differ in their numbers of bonds or of graphs.")
    graph_of_bond = np.repeat(np.arange(len(counts)), counts)
    outside = np.flatnonzero((pairs < 0).any(1) | (pairs >= sizes[graph_of_bond][:, None]).any(1))
    if len(outside):
        graph = graph_of_bond[outside[0]]
        raise InputError(
            f"graph {graph} of {folder} has {sizes[graph]} atoms but a bond between {pairs[outside[0]].tolist()}."
        )
    pairs = pairs + np.concatenate([[0], np.cumsum(sizes)[:-1]])[graph_of_bond][:, None]
    # OGB stores each bond once; both directions follow each other here, graph by graph.
    edges = np.stack([pairs, pairs[:, ::-1]], axis=1).reshape(-1, 2).T
    small = np.int16 if max(atoms.max(initial=0), bonds.max(initial=0)) < 1 << 15 else np.int64
    arrays = {
        "atoms": atoms.astype(small),
        "bonds": np.repeat(bonds, 2, axis=0).astype(small),
        "edges": np.ascontiguousarray(edges).astype(np.int32 if edges.size < 1 << 31 else np.int64),
        "sizes": sizes,
        "labels": labels,
    }
    return arrays | dict(_splits(folder, "graph", len(sizes)))


NODE_GRAPHS = {
    name: FileSet(
        name,
        f"ogb/{name.replace('-', '_')}",
        dict.fromkeys(
            [
                *(f"raw/{part}.csv.gz" for part in ("edge", "num-node-list", "num-edge-list", "node-label", *more)),
                *(f"split/{split}/{part}.csv.gz" for part in ("train", "valid", "test")),
            ],
            (),
        ),
        archive=Archive(f"{_URL}/nodeproppred/{name.removeprefix('ogbn-')}.zip"),
        open=True,
        most=1 << 32,
    )
    for name, more, split in (
        ("ogbn-proteins", ("edge-feat", "node_species"), "species"),
        ("ogbn-products", ("node-feat",), "sales_ranking"),
    )
}


def read_node_graph(name: str, folder: Path, attributes: bool = False) -> Graph:
    """ogbn-proteins or ogbn-products in ``folder``: every edge in both directions, OGB's split.

    Where nodes have no features of their own (proteins) a node's are the mean of its edges', as in OGB's example.

    Args:
        attributes: append the species of every protein as 0/1 features. The split is by species, so a model learns
            nothing from them about the test nodes; they are here for those who want them.
    """
    part = parsed(name, folder, _files(folder), _parse_node_graph)
    x = part["x"]
    if attributes:
        if "species" not in part:
            raise InputError(f"{name} has no node attributes beside its features.")
        x = np.hstack([x, np.eye(int(part["species"].max()) + 1, dtype=np.float32)[part["species"]]])
    labels = part["labels"]
    if labels.shape[1] == 1:
        labels = labels[:, 0]
    edges = part["edges"].astype(np.int64)
    both = np.concatenate([edges, edges[::-1]], axis=1)
    rows = (part[split] for split in ("train", "valid", "test"))
    # The published split of products has classes that no training node has.
    return make_graph(x, both, labels, *rows, name=name, sparse=False, unseen_classes=True)


def _parse_node_graph(folder: Path) -> Arrays:
    n = int(_table(folder / "raw/num-node-list.csv.gz", np.int64)[0, 0])
    edges = _table(folder / "raw/edge.csv.gz", np.int64).T
    announced = int(_table(folder / "raw/num-edge-list.csv.gz", np.int64)[0, 0])
    if edges.shape[1] != announced:
        raise InputError(f"{folder} lists {edges.shape[1]} edges but announces {announced}.")
    if edges.min(initial=0) < 0 or edges.max(initial=-1) >= n:
        raise InputError(f"{folder / 'raw/edge.csv.gz'} names a node outside 0 to {n - 1}.")
    labels = _table(folder / "raw/node-label.csv.gz", np.float32)
    if len(labels) != n:
        raise InputError(f"{folder} has {n} nodes but {len(labels)} labels.")
    small = np.int32 if n < 1 << 31 else np.int64
    arrays: Arrays = {"edges": np.ascontiguousarray(edges).astype(small), "labels": labels}
    if (folder / "raw/node-feat.csv.gz").is_file():
        arrays["x"] = _table(folder / "raw/node-feat.csv.gz", np.float32)
    else:
        arrays["x"] = _mean_of_edges(folder / "raw/edge-feat.csv.gz", edges, n)
    if len(arrays["x"]) != n:
        raise InputError(f"{folder} has {n} nodes but {len(arrays['x'])} rows of features.")
    if (folder / "raw/node_species.csv.gz").is_file():
        species = _table(folder / "raw/node_species.csv.gz", np.int64)[:, 0]
        if len(species) != n:
            raise InputError(f"{folder} has {n} nodes but {len(species)} species.")
        arrays["species"] = np.unique(species, return_inverse=True)[1].reshape(-1)
    return arrays | dict(_splits(folder, "node", n))


def _mean_of_edges(path: Path, edges: np.ndarray, n: int) -> np.ndarray:
    """Every node's mean over the features of the edges it has, in either direction."""
    total: np.ndarray | None = None
    done = 0
    for chunk in _chunks(path, np.float64):
        ends = edges[:, done : done + len(chunk)]
        if ends.shape[1] != len(chunk):
            raise InputError(f"{path} has more rows than there are edges.")
        total = np.zeros((n, chunk.shape[1])) if total is None else total
        for side in ends:
            for column in range(chunk.shape[1]):
                total[:, column] += np.bincount(side, weights=chunk[:, column], minlength=n)
        done += len(chunk)
    if done != edges.shape[1]:
        raise InputError(f"{path} has {done} rows but there are {edges.shape[1]} edges.")
    degree = np.bincount(edges.ravel(), minlength=n)
    assert total is not None
    return (total / np.maximum(degree, 1)[:, None]).astype(np.float32)


def _splits(folder: Path, what: str, total: int) -> Iterator[tuple[str, np.ndarray]]:
    found = next((path for path in sorted((folder / "split").glob("*")) if path.is_dir()), None)
    if found is None:
        raise InputError(f"{folder / 'split'} holds no split.")
    for part in ("train", "valid", "test"):
        path = found / f"{part}.csv.gz"
        rows = _table(path, np.int64)[:, 0]
        outside = rows[(rows < 0) | (rows >= total)]
        if len(outside):
            raise InputError(f"{path} names {what} {outside[0]}, but the {what}s are numbered 0 to {total - 1}.")
        yield part, rows


def _table(path: Path, kind: type, columns: int = 1) -> np.ndarray:
    """A CSV file of numbers without a heading; empty cells are NaN. An empty file has ``columns`` columns."""
    return np.concatenate(list(_chunks(path, kind, columns)))


def _chunks(path: Path, kind: type, columns: int = 1) -> Iterator[np.ndarray]:
    if not path.is_file():
        raise InputError(f"{path} is missing.")
    try:
        with open_regular(path) as file, Unzipped(fileobj=file) as unzipped:
            frames = pd.read_csv(unzipped, header=None, skip_blank_lines=False, chunksize=CHUNK)
            for frame in frames:
                values = frame.to_numpy(dtype=kind if kind != np.int64 else None)
                if kind == np.int64 and values.dtype.kind != "i":
                    if values.dtype.kind != "f" or not (values == np.round(values)).all():
                        raise ValueError("it must hold whole numbers")
                    values = values.astype(np.int64)
                yield values
    except (EOFError, OSError, zlib.error, pd.errors.ParserError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: it is truncated or no gzip file ({error}).") from error
    except pd.errors.EmptyDataError:
        yield np.zeros((0, columns), dtype=kind)
    except (TypeError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}.") from error


# Files under gzip, of which no more is unpacked than is sensible.


MOST, RATIO = 1 << 28, 200  # bytes that may always be unpacked, and how many times the file's own size beyond that


class Unzipped(gzip.GzipFile):
    """What is in a gzip file; refused where a small file becomes a very large one."""

    def __init__(self, fileobj: BinaryIO):
        super().__init__(fileobj=fileobj, mode="rb")
        self.most, self.total = max(MOST, RATIO * os.fstat(fileobj.fileno()).st_size), 0

    def read(self, size: int | None = -1) -> bytes:
        return self._counted(super().read(size if size is not None and size >= 0 else self.most + 1))

    def read1(self, size: int = -1) -> bytes:
        return self._counted(super().read1(size))

    def _counted(self, block: bytes) -> bytes:
        self.total += len(block)
        if self.total > self.most:
            raise ValueError(f"it unpacks to more than {self.most:,} bytes")
        return block
