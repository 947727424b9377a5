"""A graph where a few steps stay near, and a network of every kind on it."""

from dataclasses import replace

import numpy as np

from rapgnn import Config, make_graph
from rapgnn.search.candidate import Candidate
from rapgnn.search.start import HOPS


def ring(nodes: int = 400, seed: int = 0, weights: bool = False, names: bool = True):
    """A long ring with some chords, one of them repeated and some loops, directed, so that a few steps stay near."""
    rng = np.random.default_rng(seed)
    around = np.arange(nodes)
    some = rng.choice(nodes, 60)
    others = [some, (some + 3) % nodes], [some[:9], some[:9]], [some[:9], (some[:9] + 3) % nodes]
    edges = np.concatenate([[around, (around + 1) % nodes], *others], axis=1)
    y = (np.sin(around / 9) > 0).astype(int)
    x = rng.normal(size=(nodes, 5)).astype(np.float32) + y[:, None]
    weight = rng.random(edges.shape[1]).astype(np.float32) if weights else None
    graph = make_graph(x, edges, y, rng.random(nodes) < 0.5, [], [], weight)
    return replace(graph, ids=np.array([f"n{i}" for i in around], dtype=object) if names else None)


SHAPE = HOPS.update(num_layers=2, self_loops=True, scaling="standard", ridge=1.0)
BEFORE = SHAPE.update(num_layers=1)
NETWORKS = {
    "last": SHAPE,
    "both": SHAPE.update(jumping="cat", edges="both", degree_columns=True),
    "undirected": SHAPE.update(edges="undirected", jumping="ppr", backbone="sage", self_loops=False),
    "labels": SHAPE.update(known_labels=2, jumping="cat"),
    "places": SHAPE.update(node_columns=4),
    "units": SHAPE.update(units=16, unit_hops=2, known_labels=1, jumping="cat"),
    "layers": SHAPE.update(coefficients="layers", width=8, jumping="cat"),
    "previous": SHAPE.update(previous=BEFORE, jumping="cat"),
    "kernel": SHAPE.update(kernel="gauss", landmarks=20),
    "random": Config(num_layers=3, head="ridge", embedding="fixed-random", hidden_channels=8),
    "layer by layer": Config(num_layers=2, embedding="fixed-random", structure="full", epochs=3, patience=None),
}


def network(graph, config: Config):
    before = None if config.previous is None else network(graph, config.previous)
    return Candidate(graph, config, 0, {}, before).finished(config.ridge or 1.0, 1.0)
