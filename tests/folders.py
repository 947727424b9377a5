"""Folders as users and publishers keep them: tables of one graph or many, and the layouts of OGB and TU."""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd


def tables(n: int = 90, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Three species in three meadows: the kinds of columns a person has."""
    rng = np.random.default_rng(seed)
    species = rng.integers(3, size=n)
    nodes = pd.DataFrame(
        {
            "id": [f"plant {i}" for i in range(n)],
            "height": 20 + 30 * species + rng.normal(0, 5, n),
            "leaves": rng.random(n),
            "colour": np.array(["red", "green", "blue"])[(species + (rng.random(n) < 0.2)) % 3],
            "label": np.array(["rose", "tulip", "fern"])[species],
        }
    )
    source = rng.integers(n, size=4 * n)
    target = np.array([rng.choice(np.flatnonzero(species == species[u])) for u in source])
    ids = nodes["id"].to_numpy()
    return nodes, pd.DataFrame({"source": ids[source], "target": ids[target]})


def many(count: int = 40, seed: int = 0) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    nodes, edges, graphs = [], [], []
    for i in range(count):
        n, ring = int(rng.integers(4, 9)), i % 2 == 0
        name = f"g{i}"
        graphs.append({"id": name, "label": "ring" if ring else "star"})
        nodes += [{"graph": name, "id": j, "atom": "CNO"[int(rng.integers(3))]} for j in range(n)]
        pairs = [(j, (j + 1) % n) for j in range(n)] if ring else [(0, j) for j in range(1, n)]
        edges += [{"graph": name, "source": u, "target": v, "bond": "single" if u else "double"} for u, v in pairs]
    order = rng.permutation(len(nodes))  # rows in any order
    return {"graphs": pd.DataFrame(graphs), "nodes": pd.DataFrame(nodes).iloc[order], "edges": pd.DataFrame(edges)}


def write(folder: Path, ending: str = "csv", **frames: pd.DataFrame) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for stem, frame in frames.items():
        path = folder / f"{stem}.{ending}"
        if ending == "npz":
            np.savez(
                path,
                **{str(c): frame[c].to_numpy(dtype="U" if frame[c].dtype.kind not in "biuf" else None) for c in frame},
            )
        elif ending == "parquet":
            frame.to_parquet(path, index=False)
        else:
            frame.to_csv(path, index=False)
    return folder


def csv(path: Path, rows) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(",".join("" if v != v else f"{v:g}" for v in np.atleast_1d(row)) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()))


def molecules(folder: Path, **changes) -> Path:
    """Three molecules: a chain of three atoms, a single atom, a pair. Labels with a gap."""
    nan = float("nan")
    atom, bond = [5, 0, 4, 5, 3, 0, 2, 0, 0], [0, 0, 0]
    parts = {
        "raw/num-node-list": [3, 1, 2],
        "raw/num-edge-list": [2, 0, 1],
        "raw/node-feat": [atom, [7, *atom[1:]], atom, atom, atom, atom],
        "raw/edge": [[0, 1], [1, 2], [0, 1]],
        "raw/edge-feat": [bond, [1, 0, 1], bond],
        "raw/graph-label": [[1.0, nan], [0.0, 1.0], [nan, 0.0]],
        "split/scaffold/train": [0, 1],
        "split/scaffold/valid": [2],
        "split/scaffold/test": [],
    } | changes
    for name, rows in parts.items():
        csv(folder / f"{name}.csv.gz", rows)
    return folder


def node_graph(folder: Path, proteins: bool, **changes) -> Path:
    parts = {
        "raw/num-node-list": [4],
        "raw/num-edge-list": [3],
        "raw/edge": [[0, 1], [1, 2], [0, 2]],
        "split/any/train": [0, 1],
        "split/any/valid": [2],
        "split/any/test": [3],
    }
    if proteins:
        parts |= {
            "raw/edge-feat": [[0.2, 1.0], [0.4, 0.0], [0.6, 0.5]],
            "raw/node-label": [[0, 1], [1, 0], [1, 1], [0, 0]],
        }
    else:
        parts |= {"raw/node-feat": np.arange(8).reshape(4, 2) / 4, "raw/node-label": [0, 1, 1, 0]}
    for name, rows in (parts | changes).items():
        csv(folder / f"{name}.csv.gz", rows)
    return folder


def tu(folder: Path, **changes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    parts = {
        "A": "1, 2\n2, 1\n3, 4\n4, 3\n",
        "graph_indicator": "1\n1\n2\n2\n3\n",
        "graph_labels": "1\n-1\n1\n",
        "node_labels": "3\n5\n3\n3\n4\n",
        "edge_labels": "0\n0\n1\n1\n",
    } | changes
    for name, text in parts.items():
        if text is not None:
            (folder / f"TINY_{name}.txt").write_text(text)
    return folder


# Changes to ``molecules``, and what is said of them.
BAD_MOLECULES = [
    ({"raw/edge-feat": [[0, 0, 0], [9, 0, 0], [0, 0, 0]]}, "value 9 in feature column 0"),
    ({"raw/node-feat": [[500, 0, 4, 5, 3, 0, 2, 0, 0]] * 6}, "outside the encoder's range 0 to 118"),
    ({"split/scaffold/train": [0, 77]}, "train split must name graphs 0 to 2"),
    ({"raw/edge": [[0, 1], [1, 9], [0, 1]]}, "names node|two different graphs"),
    ({"raw/num-node-list": [3, 1, 9]}, "differ in their numbers"),
    ({"raw/graph-label": [[1, 0], [0, 1]]}, "differ in their numbers"),
    ({"raw/node-feat": [[5, 0, 4]] * 6}, "must have 9 columns"),
    ({"split/scaffold/train": [0, 2]}, "in both the train and the val split"),
    ({"raw/node-feat": [[5.5, 0, 4, 5, 3, 0, 2, 0, 0]] * 6}, "must hold whole numbers"),
    ({"raw/num-edge-list": [3, -1, 1]}, "differ in their numbers"),
]
