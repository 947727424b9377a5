"""Sets of labelled graphs like molecules: which groups of atoms occur, and how often, decides the class."""

import numpy as np

from rapgnn.experiments.bench.suite.edges import by_shares
from rapgnn.graph.batch import make_graphs
from rapgnn.graph.graph import Graph

Parts = tuple[list[int], list[tuple[int, int]]]
MOTIFS: dict[str, Parts] = {
    "nitro": ([1, 2, 2], [(0, 1), (0, 2)]),
    "ring": ([0, 0, 0, 0, 0, 0], [(i, (i + 1) % 6) for i in range(6)]),
    "hetero-ring": ([0, 1, 0, 0, 3], [(i, (i + 1) % 5) for i in range(5)]),
    "chain": ([4, 0, 5], [(0, 1), (1, 2)]),
    "cage": ([0, 0, 3, 0], [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]),
}
CHANCES = np.array([0.35, 0.5, 0.3, 0.3, 0.25])


def molecules(graphs: int = 2000, nodes: float = 26.0, labels: int = 36, noise: float = 0.1, seed: int = 0) -> Graph:
    """Trees of atoms with the motifs hung on; two classes, one label in ten is wrong.

    The class is 1 where two nitro groups occur, or a ring of five together with a chain, or a cage without a ring of
    six. Atoms of the tree have labels by Zipf's law, those of the motifs among them.
    """
    rng = np.random.default_rng(seed)
    zipf = 1.0 / (1.0 + np.arange(labels)) ** 1.2
    zipf /= zipf.sum()
    kinds, pairs, sizes, y = [], [], [], []
    at = 0
    for _ in range(graphs):
        counts = rng.poisson(CHANCES * 1.6)
        atoms, bonds = _tree(rng, max(4, int(rng.normal(nodes - 8, 7))), zipf)
        for motif, count in zip(MOTIFS.values(), counts, strict=True):
            for _ in range(count):
                start = len(atoms)
                atoms += motif[0]
                bonds += [(a + start, b + start) for a, b in motif[1]]
                bonds.append((start, int(rng.integers(start))))
        nitro, ring, five, chain, cage = counts
        y.append(int(nitro >= 2 or (five > 0 and chain > 0) or (cage > 0 and ring == 0)))
        order = rng.permutation(len(atoms))
        kinds.append(np.array(atoms)[np.argsort(order)])
        pairs.append(order[np.array(bonds)] + at)
        sizes.append(len(atoms))
        at += len(atoms)
    x = np.eye(labels, dtype=np.float32)[np.concatenate(kinds)]
    source, target = np.concatenate(pairs).T
    edges = np.concatenate([np.stack([source, target]), np.stack([target, source])], axis=1)
    wrong = rng.random(graphs) < noise
    labelled = np.where(wrong, 1 - np.array(y), y)
    rows = by_shares(labelled, 0.15, 0.25, seed)
    return make_graphs(x, edges, np.array(sizes), labelled, *rows, name="molecules")


def _tree(rng: np.random.Generator, size: int, zipf: np.ndarray) -> tuple[list[int], list[tuple[int, int]]]:
    """A tree whose nodes mostly go on where the last one was."""
    bonds = [(i, int(rng.integers(max(0, i - 4), i))) for i in range(1, size)]
    return rng.choice(len(zipf), size=size, p=zipf).tolist(), bonds
