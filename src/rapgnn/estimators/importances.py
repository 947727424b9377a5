"""Which columns, and which distances, a model rests on: how much worse it is when their values are shuffled.

The networks that count on the data go on counting when features are changed, so that nothing but the shuffling tells.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from scipy.optimize import nnls
from torch import Tensor

from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph, Known, Part
from rapgnn.graph.relations import Types
from rapgnn.graph.scores import Metric
from rapgnn.graph.table import NAMES
from rapgnn.graph.typed import with_types
from rapgnn.sparse import Features, SparseMatrix, row_block
from rapgnn.training.predict import members_on, model_on, span_of

MOST_GROUPS, LEAST_GROUPS = 20, 3  # of columns that are tried
MOST_REPEATS, LEAST_REPEATS = 5, 2
WORK = 1e10  # multiply-adds of all predictions together
RESAMPLES, ERRORS = 30, 2.0  # of the rows; standard errors that chance is given
HOP_ROWS, HOP_REPEATS, SHARE = 600, 4, 0.5  # rows, shufflings and share of changed nodes for the distances
FARTHEST = 3  # steps; farther nodes are one group
MOST_ENTRIES = 20_000_000  # of the nodes at one distance from some rows
MOST_LABELS, MOST_RANKED = 8, 20_000  # labels and rows that columns are ranked by


@dataclass(frozen=True)
class Importances:
    """How much worse a model is when values are shuffled.

    ``importance`` is the mean loss of the metric over the repeats, ``spread`` its standard deviation, and up to
    ``noise`` it may be chance: twice the standard error over repeats and resampled rows.

    Args:
        columns: ``column, importance, spread, noise``, the most important first; what was tried together stands last.
        hops: ``hop, importance, spread, noise``: how far an answer's probabilities (or its number) move when all nodes
            so many steps away get the features of others; empty where rows are graphs, or there are no edges.
        score: the metric before.
        together: how many columns were tried together.
    """

    columns: pd.DataFrame
    hops: pd.DataFrame
    score: float
    together: int


class Shuffling:
    """A model's predictions of some rows of a graph whose features are changed."""

    def __init__(self, model: Any, graph: Graph, rows: np.ndarray, seed: int = 0):
        self.model, self.graph, self.rows, self.seed = model, graph, rows, seed
        self.depth = span_of(members_on(model, graph))[0]  # how many steps far the model looks
        self.part = Part(torch.arange(graph.num_nodes), Known(graph))
        self.before = self.predict(graph.x)

    def _predict(self, changed: Graph) -> Tensor:
        return model_on(self.model, changed)(torch.from_numpy(self.rows)).probabilities

    def predict(self, x: Features) -> Tensor:
        """What is predicted with other features; what the model knows of the nodes stays."""
        return self._predict(replace(self.graph, x=x, part=self.part))

    @property
    def allowed(self) -> int:
        """How many predictions are made: fewer on large graphs."""
        graph = self.graph
        if graph.typed is not None:
            size = graph.typed.num_edges + graph.typed.num_nodes
            return int(np.clip(WORK / max(1, 256 * size * (self.depth + 1)), 2 * LEAST_REPEATS, MOST_GROUPS))
        entries = graph.x.nnz if isinstance(graph.x, SparseMatrix) else graph.num_nodes * graph.num_features
        messages = graph.edge_index.shape[1] + graph.num_nodes
        work = entries + messages * min(graph.num_features, 256) * (self.depth + 1)
        return int(np.clip(WORK / max(1, work), LEAST_GROUPS * LEAST_REPEATS, MOST_GROUPS * MOST_REPEATS))

    def columns(self, metric: Metric, repeats: int | None = None) -> tuple[pd.DataFrame, int]:
        """The table by column, and how many columns were tried together."""
        graph, typed = self.graph, self.graph.typed
        groups: dict[str, Any] = columns_of(graph) if typed is None else changes_of(typed)
        if not groups:
            raise InputError("there are no columns.")
        repeats = repeats or int(np.clip(self.allowed // min(len(groups), MOST_GROUPS), LEAST_REPEATS, MOST_REPEATS))
        most, together, names = max(LEAST_GROUPS, min(MOST_GROUPS, self.allowed // repeats)), 0, list(groups)
        if typed is None and len(groups) > most:
            names = ranked(graph, groups, self.seed)
            rest, names = names[most - 1 :], names[: most - 1]
            together = len(rest)
            last = f"the {together:,} other columns together"
            groups[last], names = np.concatenate([groups[name] for name in rest]), [*names, last]
        y, sign, rng = graph.y[self.rows], 1 if metric.higher else -1, np.random.default_rng(self.seed)
        samples = [torch.from_numpy(rng.integers(0, len(y), len(y))) for _ in range(RESAMPLES)]
        before = metric.measure(self.before, y)
        resampled = np.array([metric.measure(self.before[s], y[s]) for s in samples])
        found = []
        for name in names:
            if typed is None:
                orders = [rng.permutation(graph.num_nodes) for _ in range(repeats)]
                after = [self.predict(shuffled(graph.x, groups[name], order)) for order in orders]
            else:
                after = [self._predict(with_types(graph, groups[name](rng))) for _ in range(repeats)]
            losses = sign * (before - np.array([metric.measure(p, y) for p in after]))
            again = [metric.measure(after[i % repeats][s], y[s]) for i, s in enumerate(samples)]
            errors = sign * (resampled - np.array(again))
            found.append((name, losses.mean(), losses.std(), ERRORS * np.nanstd(errors)))
        table = pd.DataFrame(found, columns=["column", "importance", "spread", "noise"])
        order = table.index[: len(table) - bool(together)]
        first = table.loc[order].sort_values("importance", ascending=False, kind="stable")
        return pd.concat([first, table.drop(order)], ignore_index=True), together

    def hops(self, repeats: int = HOP_REPEATS) -> pd.DataFrame:
        """The table by distance.

        Half of the nodes, by chance, get the features of other nodes, some times over. How far the answer of a row
        moves is then explained by the shares of changed nodes at every distance from it, by least squares without
        negative parts.
        """
        graph, n = self.graph, self.graph.num_nodes
        if graph.ptr is not None:
            raise InputError("rows are whole graphs, which have no distance to their nodes.")
        if not graph.edge_index.shape[1]:
            raise InputError("there are no edges.")
        rng = np.random.default_rng(self.seed)
        some = np.sort(rng.permutation(len(self.rows))[:HOP_ROWS])
        distances = rings(graph, self.rows[some], self.depth)
        names = ["the node itself", *(f"{k} step{'s' if k > 1 else ''} away" for k in range(1, len(distances)))]
        names += ["farther"] if self.depth >= len(distances) else []
        weights = []
        for _ in range(min(repeats, max(LEAST_REPEATS, self.allowed // LEAST_GROUPS))):
            changed, order = np.flatnonzero(rng.random(n) < SHARE), np.arange(n)
            order[changed] = rng.permutation(changed)
            after = self.predict(shuffled(graph.x, np.arange(graph.num_features), order))
            moved = (after - self.before)[some].double().abs()
            moved = moved.sum(1) / 2 if graph.objective.metric == "accuracy" else moved.mean(1)
            other = (order != np.arange(n)).astype(np.float64)
            shares = [ring @ other / np.maximum(np.asarray(ring.sum(1)).ravel(), 1) for ring in distances]
            weights.append(
                nnls(np.column_stack([*shares, np.full(len(some), SHARE)])[:, : len(names)], moved.numpy())[0]
            )
        spread = np.std(weights, axis=0)
        noise = ERRORS * spread / max(1, len(weights) - 1) ** 0.5
        return pd.DataFrame({"hop": names, "importance": np.mean(weights, axis=0), "spread": spread, "noise": noise})


def changes_of(types: Types) -> dict[str, Callable[[np.random.Generator | None], Types]]:
    """What of a graph with types can be shuffled, by name: the features of a type; which nodes a relation joins.

    Without a generator it is removed: all nodes get the mean features, and no nodes are joined.
    """

    def features(kind: str, rng: np.random.Generator | None) -> Types:
        x: Any = types.features[kind]
        if rng is not None:
            x = row_block(x, torch.from_numpy(rng.permutation(types.counts[kind])))
        elif isinstance(x, SparseMatrix):  # wide, so that the mean is hardly anything
            x = SparseMatrix(sp.csr_matrix(x.shape, dtype=np.float32))
        else:
            x = x.mean(0, keepdim=True).repeat(len(x), 1)
        return replace(types, features=types.features | {kind: x})

    def ends(pair: tuple[str, ...], rng: np.random.Generator | None) -> Types:
        (u, v), weight = types.relation(pair[0]).edge_index, types.relation(pair[0]).weight
        order = np.zeros(0, dtype=np.int64) if rng is None else rng.permutation(len(v))
        kept = slice(len(order))
        edges, weight = np.stack([u[kept], v[order]]), None if weight is None else weight[kept]
        there = {key: edges if key == pair[0] else edges[::-1].copy() for key in pair}
        found = (
            replace(one, edge_index=there[one.key], weight=weight, time=None if rng is None else one.time)
            if one.key in pair
            else one
            for one in types.relations
        )
        return replace(types, relations=tuple(found))

    changes = {f"features of {kind}": partial(features, kind) for kind in types.features}
    return changes | {pair[0]: partial(ends, pair) for pair in types.pairs}


def columns_of(graph: Graph) -> dict[str, np.ndarray]:
    """The features that each column of the user's table became, or else each feature alone."""
    encoding, c = graph.encoding, graph.num_features
    if encoding is not None and encoding.kind == "structural" and len(NAMES) == c:
        return {name: np.array([j]) for j, name in enumerate(NAMES)}
    if encoding is not None and encoding.kind == "table" and encoding.width == c:
        ends = np.cumsum([column.width for column in encoding.columns])
        columns = zip(encoding.columns, ends, strict=True)
        return {column.name: np.arange(end - column.width, end) for column, end in columns}
    return {f"feature {j}": np.array([j]) for j in range(c)}


def ranked(graph: Graph, groups: Mapping[str, np.ndarray], seed: int = 0) -> list[str]:
    """The groups by how strongly their features differ between labels (an F test)."""
    from sklearn.feature_selection import f_classif, f_regression

    test = f_regression if graph.objective.metric == "rmse" else f_classif
    x, y = _features_of_rows(graph), graph.y.cpu().numpy()
    y, rows = y if y.ndim == 2 else y[:, None], (graph.train if len(graph.train) else graph.labelled).cpu().numpy()
    rows = np.sort(np.random.default_rng(seed).permutation(rows)[:MOST_RANKED])
    strength = np.zeros(graph.num_features)
    for target in y[rows, :MOST_LABELS].T.astype(float):
        known = np.isfinite(target)
        if known.sum() < 3 or len(np.unique(target[known])) < 2:
            continue
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # columns without any difference
            statistic, _ = test(x[rows[known]], target[known])
        strength = np.fmax(strength, np.nan_to_num(statistic, posinf=1e12))
    return sorted(groups, key=lambda name: -strength[groups[name]].max(initial=0.0))


def _features_of_rows(graph: Graph) -> Any:
    x = graph.x.to("cpu").scipy() if isinstance(graph.x, SparseMatrix) else graph.x.cpu().numpy()
    if graph.ptr is None:
        return x
    ptr = graph.ptr.cpu().numpy()
    shares = np.repeat(1 / np.maximum(np.diff(ptr), 1), np.diff(ptr))
    return sp.csr_matrix((shares, np.arange(ptr[-1]), ptr), shape=(len(ptr) - 1, ptr[-1])) @ x


def shuffled(x: Features, columns: np.ndarray, order: np.ndarray) -> Features:
    """The features with the values of these columns taken from other nodes, all from the same one."""
    if not isinstance(x, SparseMatrix):
        changed, at = x.clone(), torch.from_numpy(columns).to(x.device)
        changed[:, at] = x[torch.from_numpy(order).to(x.device)][:, at]
        return changed
    whole: Any = sp.csr_matrix(x.to("cpu").scipy())
    moved = sp.diags(np.isin(np.arange(whole.shape[1]), columns).astype(float))
    mixed = sp.csr_matrix(whole - whole @ moved + whole[order, :] @ moved)
    mixed.eliminate_zeros()
    return SparseMatrix(mixed, dtype=x.values.dtype, device=x.values.device)


def rings(graph: Graph, rows: np.ndarray, depth: int) -> list[sp.csr_matrix]:
    """For every distance a matrix [rows, nodes] with a 1 where a node is so many steps away against the messages."""
    (u, v), n = graph.edge_index.cpu().numpy(), graph.num_nodes
    A = sp.csr_matrix((np.ones(len(u), dtype=np.int32), (v, u)), shape=(n, n))
    ring = sp.csr_matrix((np.ones(len(rows), dtype=np.int32), (np.arange(len(rows)), rows)), shape=(len(rows), n))
    within, all_rings = ring, [ring]
    for _ in range(min(FARTHEST, depth)):
        reached = sp.csr_matrix(ring @ A)
        if reached.nnz > MOST_ENTRIES:
            break
        reached.data[:] = 1
        ring = sp.csr_matrix(reached - reached.multiply(within))
        ring.eliminate_zeros()
        within = sp.csr_matrix(within + ring)
        all_rings.append(ring)
    return all_rings
