"""Relations between types of nodes, walks over them, and what a graph has beside the rows of its target type."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from rapgnn.errors import InputError, shown
from rapgnn.graph.backbones import Scaling
from rapgnn.graph.table import Encoding
from rapgnn.graph.validate import as_array
from rapgnn.sparse import Features, SparseMatrix

ALWAYS = -np.inf  # the time of a fact that was always there
OLDEST = 30  # half-lives from which facts count the same
ALSO, BESIDE = " + ", " | "  # between the relations of a walk, and between walks
Walk = tuple[str, ...]
"""The relations that a walk may take in every step, by their keys."""
Blocks = dict[tuple[str, str], sp.csr_matrix]
"""Matrices between types, by the types of their rows and columns."""


@dataclass(frozen=True)
class Relation:
    """Edges from nodes of one type to those of another, all of one meaning.

    Args:
        source, name, target: two types, and what the relation is called.
        edge_index: ``[2, m]``, node numbers within the types.
        weight: a number per edge.
        time: since when each edge is there, in seconds; NaN: as long as its ends are.
        back: the key of the relation that has the same edges the other way, where it is known.
    """

    source: str
    name: str
    target: str
    edge_index: Any
    weight: Any = None
    time: Any = None
    back: str | None = None

    @property
    def key(self) -> str:
        """The relation as walks name it."""
        return f"{self.source} {self.name} {self.target}"

    @property
    def reverse(self) -> "Relation":
        """The same edges the other way."""
        edges = as_array(self.edge_index, "edge_index")[::-1].copy()
        ends = {"source": self.target, "target": self.source}
        return replace(self, **ends, name=f"rev_{self.name}", edge_index=edges, back=self.key)

    @cached_property
    def order(self) -> np.ndarray:
        """The edges in the order of their targets, then of their sources."""
        return np.lexsort(self.edge_index)

    def adjacency(self, counts: dict[str, int], until: float | None = None, half_life: float = 0.0) -> sp.csr_matrix:
        """A[v, u] = summed weight of the edges u -> v, of those that are there at some time (None: of all).

        Args:
            half_life: seconds after which an edge counts half of what a new one does; 0: all count the same.
        """
        order = self.order
        if until is not None and self.time is not None:
            order = order[self.time[order] <= until]
        source, target = self.edge_index[:, order]
        weight = np.ones(len(order)) if self.weight is None else np.asarray(self.weight, dtype=np.float64)[order]
        if until is not None and self.time is not None and half_life:
            weight = weight * np.exp2(-np.clip((until - self.time[order]) / half_life, 0, OLDEST))
        starts = np.concatenate([[0], np.bincount(target, minlength=counts[self.target]).cumsum()])
        A = sp.csr_matrix((weight, source, starts), shape=(counts[self.target], counts[self.source]))
        A.sum_duplicates()
        return A


@dataclass(frozen=True)
class Types:
    """What a graph has beside the rows of its target type.

    Args:
        target: the type whose nodes are the rows.
        counts: how many nodes each type has.
        features: ``[n, c]`` of those types that have any.
        relations: checked, every one with its reverse; ``time`` is ``ALWAYS`` or later, or None.
        encodings: how features were made of tables.
        ids: what nodes are called, of the types that say it.
        times: since when nodes are there, of the types that say it.
        clock: the time of every row, as of which it is predicted; None: all rows see all facts.
        tables: of tables with keys what their columns are for.
        cuts: times at which snapshots are taken; beyond the last, one in every ``step`` seconds.
    """

    target: str
    counts: dict[str, int]
    features: dict[str, Features]
    relations: tuple[Relation, ...]
    encodings: dict[str, Encoding | None]
    ids: dict[str, np.ndarray] = field(default_factory=dict)
    times: dict[str, np.ndarray] = field(default_factory=dict)
    clock: np.ndarray | None = None
    cuts: tuple[float, ...] = ()
    step: float = 0.0
    tables: dict[str, Any] | None = None

    @property
    def widths(self) -> dict[str, int]:
        """Columns of the features of each type; 0: it has none."""
        return {name: self.features[name].shape[1] if name in self.features else 0 for name in self.counts}

    def relation(self, key: str) -> Relation:
        """The relation that a walk names."""
        relations = {one.key: one for one in self.relations}
        if key not in relations:
            raise InputError(f"the data have no relation {shown(key)}: it is one of {', '.join(relations)}.")
        return relations[key]

    def ends(self, key: str) -> tuple[str, str]:
        """The types that a relation joins."""
        return self.relation(key).source, self.relation(key).target

    def adjacency(self, key: str, until: float | None = None, half_life: float = 0.0) -> sp.csr_matrix:
        """As ``Relation.adjacency``, the half-life in ``step``; that of all edges is made once."""
        if until is not None and self.relation(key).time is not None:
            return self.relation(key).adjacency(self.counts, until, half_life * self.step)
        if key not in self.made:
            self.made[key] = self.relation(key).adjacency(self.counts)
        return self.made[key]

    @cached_property
    def made(self) -> dict[Any, Any]:
        """What is made of these once, and stays."""
        return {}

    @property
    def num_nodes(self) -> int:
        """Of all types."""
        return sum(self.counts.values())

    @property
    def num_edges(self) -> int:
        """Of all relations, both directions."""
        return sum(one.edge_index.shape[1] for one in self.relations)

    @cached_property
    def pairs(self) -> list[Walk]:
        """The relations, each with the one that has the same edges the other way, if there is one."""
        pairs, done = list[Walk](), set[str]()
        for one in self.relations:
            if one.key not in done:
                alone = one.back is None or one.back == one.key or one.back in done
                pairs.append((one.key,) if alone or one.back is None else (one.key, one.back))
                done.update(pairs[-1])
        return pairs

    @cached_property
    def chains(self) -> list[Walk]:
        """For each pair of relations the walk over it and over those on the shortest way from it to the target."""
        ends = {pair: self.ends(pair[0]) for pair in self.pairs}
        way: dict[str, Walk] = {self.target: ()}
        chains = list[Walk]()
        rest = list(ends)
        while near := [pair for pair in rest if way.keys() & set(ends[pair])]:
            before = dict(way)
            for pair in near:
                to = min((end for end in ends[pair] if end in before), key=lambda end: len(before[end]))
                chains.append((*before[to], *pair))
                for end in ends[pair]:
                    way.setdefault(end, chains[-1])
            rest = [pair for pair in rest if pair not in near]
        return chains

    def operators(
        self, walk: Walk, scaling: Scaling, until: float | None = None, smooth: bool = False, half_life: float = 0.0
    ) -> Blocks:
        r"""S of one step of a walk, by the types where it ends and begins.

        .. math:: S_{ts} = (c_t)^a (e_s)^b \sum_{r: s → t} D_t^a A_r D_s^b

        a and b are the exponents of the scaling, c and e how many of the walk's relations a type receives and sends.

        Args:
            until: edges that are there at that time alone count; None: all.
            smooth: whether the mean degree is added to all degrees, so that nodes with few edges count less.
            half_life: as in ``adjacency``.
        """
        relations, blocks = [self.relation(key) for key in walk], Blocks()
        received = {t: sum(r.target == t for r in relations) for t in self.counts}
        sent = {t: sum(r.source == t for r in relations) for t in self.counts}
        for one in relations:
            A = self.adjacency(one.key, until, half_life).copy()
            share, degrees = received[one.target] ** scaling.received * sent[one.source] ** scaling.sent, abs(A)
            for axis, exponent in ((1, scaling.received), (0, scaling.sent)):
                if exponent:
                    degree = np.asarray(degrees.sum(axis=axis)).ravel()
                    factor = _power(degree + degree.mean() if smooth and len(degree) else degree, exponent)
                    A.data *= np.repeat(factor, np.diff(A.indptr)) if axis else factor[A.indices]
            A.data *= share
            place = one.target, one.source
            blocks[place] = blocks[place] + A if place in blocks else A
        return blocks

    def count_walks(self, walk: Walk, steps: int) -> float:
        """How many ways of so many steps lead to the target's nodes."""
        ways = {kind: np.ones(count) for kind, count in self.counts.items()}
        for _ in range(steps):
            after = {kind: np.zeros(count) for kind, count in self.counts.items()}
            for one in map(self.relation, walk):
                u, v = one.edge_index
                after[one.target] += np.bincount(v, ways[one.source][u], minlength=self.counts[one.target])
            ways = after
        return float(ways[self.target].sum())

    def joins(self, walk: Walk) -> bool:
        """Whether a walk brings any of the target's nodes together: orders of one customer each do not."""
        if ("joins", walk) not in self.made:
            first = dict(zip(self.counts, np.cumsum([0, *self.counts.values()]).tolist(), strict=False))
            shift = np.array([[[first[end]] for end in self.ends(key)] for key in walk])
            edges = [self.relation(key).edge_index + by for key, by in zip(walk, shift, strict=True)]
            ends, n = np.concatenate(edges, axis=1), self.num_nodes
            _, part = connected_components(sp.csr_matrix((np.ones(ends.shape[1]), ends), shape=(n, n)), directed=False)
            rows = part[first[self.target] :][: self.counts[self.target]]
            self.made["joins", walk] = len(np.unique(rows)) < len(rows)
        return self.made["joins", walk]

    def early(self, kind: str) -> np.ndarray | None:
        """The nodes of a type that came no later than the last training row; None: all."""
        times = self.clock if kind == self.target else self.times.get(kind)
        return None if times is None or not len(self.cuts) else np.flatnonzero(times <= self.cuts[-1])

    def snapshots(self) -> list[tuple[float | None, np.ndarray]]:
        """(time, rows that see the facts up to that time and no later ones); where there are no times one for all."""
        rows = np.arange(self.counts[self.target])
        if self.clock is None:
            return [(None, rows)]
        cuts = np.asarray(self.cuts)
        late = np.maximum(self.clock - cuts[-1], 0.0) if len(cuts) else np.zeros(len(rows))
        steps = np.floor(late / self.step) if self.step else np.zeros(len(rows))
        before = np.concatenate([[ALWAYS], cuts])[np.searchsorted(cuts, self.clock, side="right")]
        taken = before + steps * self.step
        return [(float(cut), np.flatnonzero(taken == cut)) for cut in np.unique(taken)]

    def described(self) -> dict[str, Any]:
        """What a model keeps of it, as JSON holds it."""
        encodings = {name: None if one is None else one.to_dict() for name, one in self.encodings.items()}
        sparse = sorted(name for name, x in self.features.items() if isinstance(x, SparseMatrix))
        relations = [[one.source, one.name, one.target] for one in self.relations]
        about = {"target": self.target, "widths": self.widths, "encodings": encodings, "relations": relations}
        about |= {"cuts": list(self.cuts), "step": self.step, "counts": self.counts}
        return about | {"sparse": sparse, "tables": self.tables}


def _power(degree: np.ndarray, exponent: float) -> np.ndarray:
    """A power of degrees, 0 for that of 0."""
    return np.power(degree, exponent, where=degree > 0, out=np.zeros_like(degree))


def as_walk(relations: Sequence[str]) -> str:
    """The setting that names one walk."""
    return ALSO.join(relations)


def joined_walk(several: Sequence[Walk]) -> Walk:
    """One walk over the relations of several."""
    return tuple(dict.fromkeys(key for walk in several for key in walk))


def depth_of(ends: Sequence[tuple[str, str]], target: str) -> int:
    """After how many steps a walk over relations between these types has been everywhere that it can come."""
    at, depth = {target}, 0
    while more := {end for pair in ends if at & set(pair) for end in pair} - at:
        at, depth = at | more, depth + 1
    return depth


def walks_of(setting: str) -> list[Walk]:
    """The walks that a setting names."""
    return [tuple(walk.split(ALSO)) for walk in setting.split(BESIDE)] if setting else []


def _is_use(given: Any) -> bool:
    """Whether this says what the columns of a table are for."""
    names = all(isinstance(given[name], str | None) for name in ("key", "time"))
    foreign = all(isinstance(end, str) for pair in given["foreign"].items() for end in pair)
    return names and foreign and all(isinstance(name, str) for name in given["ignore"])


def checked_types(given: Any) -> dict[str, Any]:
    """What ``Types.described`` gave; anything else is refused."""
    try:
        widths, encodings = given["widths"], {name: one for name, one in given["encodings"].items() if one is not None}
        names = {"target", "widths", "encodings", "relations", "cuts", "step", "counts", "sparse", "tables"}
        fine = set(given) == names and given["target"] in widths and set(given["encodings"]) == set(widths)
        fine = fine and all(type(width) is int and width >= 0 for width in widths.values())
        fine = fine and all(Encoding.from_dict(one).width in (None, widths[name]) for name, one in encodings.items())
        fine = fine and isinstance(given["tables"], dict | None) and all(map(_is_use, (given["tables"] or {}).values()))
        fine = fine and set(given["counts"]) == set(widths) and set(given["sparse"]) <= set(widths)
        fine = fine and all(type(n) is int and 0 <= n < 1 << 40 for n in given["counts"].values())
        fine = fine and all(len(one) == 3 and {one[0], one[2]} <= set(widths) for one in given["relations"])
        fine = fine and bool(np.isfinite([*given["cuts"], given["step"]]).all())
    except (TypeError, KeyError, ValueError, AttributeError, IndexError):
        fine = False
    if not fine:
        raise InputError("the types of nodes are not what they should be")
    return given
