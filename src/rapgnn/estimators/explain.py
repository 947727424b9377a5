"""What moved the prediction of a row: columns, nodes by their distance, neighbours, known labels.

Networks that are linear in their inputs are taken apart exactly (``training/attribution.py``). What others say is
measured: something is removed, and the score changes by its share. To remove a node, or a column, is to give it the
values of the average node; to remove a label is not to know it.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from torch import Tensor

from rapgnn.estimators.importances import changes_of, columns_of
from rapgnn.graph.graph import Graph, Part
from rapgnn.graph.part import taken
from rapgnn.graph.typed import with_types
from rapgnn.network.config import Config
from rapgnn.network.hops import Hops
from rapgnn.network.known_labels import KnownLabels
from rapgnn.network.network import Average, HopNetwork, Shared, inputs_of, once, walk_of
from rapgnn.sparse import Features, SparseMatrix, column_block, dense, row_block, row_sums
from rapgnn.training.attribution import Shares, influence_of, is_linear, seen_hops, shares_of
from rapgnn.training.predict import Nearby, looks_back, model_on

NARROW = 512  # features up to which the average node is the mean; of more, which are mostly zeros, it has none
MEASURED = 20  # columns, neighbours and known labels each, of networks that are not linear
FARTHEST = 3  # steps; farther nodes are removed together there
NONE = np.zeros(0, dtype=np.int64)
AT_ONCE = 1 << 25  # numbers of changed copies that are predicted together
LITTLE = 1e-12  # share of a squared length up to which what is left of it is rounding


@dataclass(frozen=True)
class Explanation:
    """Why a row has its prediction. The tables are sorted by the size of the contribution.

    ``base`` and the contributions of ``columns`` and ``labels`` add up to the score where ``exact``; so do those of
    ``hops`` and ``labels``, and of ``neighbours`` and ``labels``. Where a part is measured, what several things do only
    together is in none of them.

    Args:
        row: its id, or its number.
        label: the label (or target) whose score this is.
        value: its probability, or the number predicted.
        score: of classes the label's logit less the mean of all labels' logits, otherwise the logit, or the number. Of
            an average of several networks it is the mean of their scores by their weights; the average itself is one
            of probabilities.
        base: the score, were all nodes the average one and no label known.
        columns: ``column, contribution``: of the row's own values and those of all nodes around it. Of a graph with
            types: of the features of each type, and of each relation; nothing else is said there.
        hops: ``steps, contribution``: of the features of nodes so many steps away.
        neighbours: ``id, steps, contribution``: of the features of single nodes, the row itself among them.
        labels: ``id, label, steps, contribution``: of known labels.
        exact: the share of the networks' weights that is taken apart exactly; the rest is measured.
    """

    row: Any
    label: Any
    value: float
    score: float
    base: float
    columns: pd.DataFrame
    hops: pd.DataFrame
    neighbours: pd.DataFrame
    labels: pd.DataFrame
    exact: float

    def text(self, most: int = 5) -> str:
        """In words, with so many entries of each table."""
        lines = [f"{self.row}: {self.label}, {self.value:.3g}; score {self.score:+.3f}, {self.base:+.3f} of it for all"]
        distances = self.hops.assign(steps=[away(steps) for steps in self.hops.steps])
        near = self.neighbours.assign(id=[f"{i} ({away(k)})" for i, k in self.neighbours[["id", "steps"]].values])
        known = self.labels.assign(id=[f"{i} ({label})" for i, label in self.labels[["id", "label"]].values])
        tables = {"columns": self.columns, "distance": distances, "nodes": near, "known labels": known}
        for name, table in tables.items():
            top = [
                f"{entry} {moved:+.3f}" for entry, moved in table.iloc[:most][[table.columns[0], "contribution"]].values
            ]
            lines += [f"  {name}: {', '.join(top)}"] if top else []
        if self.exact < 1:
            lines.append(f"  {1 - self.exact:.0%} of the model is not linear: its part is measured by removal")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """For JSON: a list of records for each table."""
        tables = {name: value for name, value in vars(self).items() if isinstance(value, pd.DataFrame)}
        records = {name: json.loads(str(table.to_json(orient="records"))) for name, table in tables.items()}
        return vars(self) | {"row": str(self.row), "label": str(self.label)} | records

    def __str__(self) -> str:
        return self.text()


def away(steps: int) -> str:
    """A distance in words."""
    return "the row itself" if not steps else f"{steps} step{'s' if steps > 1 else ''} away"


class Explainer:
    """The explanations of rows of one graph.

    Args:
        label: the number of the output that is explained; None: the likeliest of each row.
    """

    def __init__(self, model: Any, graph: Graph, names: Sequence[Any], label: int | None):
        self.model, self.graph, self.names, self.label = model, graph, names, label
        self.learned: tuple[int, ...] | None = getattr(model, "classes", None)
        self.near = Nearby(model, graph)
        self.average = torch.zeros(1, graph.num_features, dtype=torch.float32)
        if graph.num_features <= NARROW:
            self.average = dense(graph.x).mean(0, keepdim=True)
        weighted = model.weighted_for(graph) if isinstance(model, Average) else [(model, 1.0)]
        total = sum(weight for _, weight in weighted)
        members = [(member, weight / total) for member, weight in weighted]
        self.linear = [(m, w) for m, w in members if graph.ptr is None and is_linear(m)]
        self.rest = [(m, w) for m, w in members if graph.ptr is not None or not is_linear(m)]
        self.back = any(looks_back(member.config) for member, _ in members)

    def part(self, row: int) -> tuple[Graph, int]:
        """What a row depends on, and its place there."""
        part, places = self.near.part(torch.tensor([row]))
        if isinstance(part.x, SparseMatrix) and part.num_features <= NARROW:
            part = replace(part, x=dense(part.x))
        nodes = torch.arange(part.num_nodes)
        if part.ptr is not None:
            assert self.graph.ptr is not None
            nodes = nodes + self.graph.ptr[row]
        return (part if part.part else replace(part, part=Part(nodes, self.near.parts.known))), int(places[0])

    @torch.no_grad()
    def of(self, row: int) -> Explanation:
        """One row's."""
        part, place = self.part(row)
        assert part.part is not None
        around = _Around(self, part, place)
        values = model_on(self.model, part, around.shared)(torch.tensor([place])).probabilities[0]
        values = values if self.learned is None else values[list(self.learned)]
        label = int(values.argmax()) if self.label is None else self.label
        outputs = torch.eye(len(values))[label]
        around.outputs = outputs - 1 / len(values) if self.graph.objective.metric == "accuracy" else outputs
        for member, weight in self.linear:
            around.add(shares_of(member, part, place, around.outputs, self.average, around.shared), weight)
        if self.rest:
            around.measure()
        score = around.score([*self.linear, *self.rest], part, torch.tensor([place]), around.shared)
        ids, numbers = self.graph.ids, part.part.nodes.numpy()
        own = ids if ids is not None and self.graph.ptr is None else None
        called = np.array([n if own is None else own[n] for n in numbers], dtype=object)
        steps, known = around.steps, around.known_labels()
        there, told = np.flatnonzero(around.nodes), np.flatnonzero(around.labels)
        labels = [self.names[int(k)] if self.graph.objective.metric == "accuracy" else k for k in known[told]]
        return Explanation(
            row if ids is None else ids[row],
            self.names[label],
            float(values[label]),
            float(score[0]),
            around.base,
            _sorted({"column": list(around.columns), "contribution": list(around.columns.values())}),
            _sorted({"steps": list(around.hops), "contribution": list(around.hops.values())}),
            _sorted({"id": called[there], "steps": steps[there], "contribution": around.nodes[there]}),
            _sorted({"id": called[told], "label": labels, "steps": steps[told], "contribution": around.labels[told]}),
            sum(weight for _, weight in self.linear),
        )


@torch.no_grad()
def explain_types(explainer: Explainer, rows: Tensor) -> list[Explanation]:
    """Of a graph with types, for all rows at once: what the features of each type and each relation moved."""
    graph, members = explainer.graph, [*explainer.linear, *explainer.rest]
    assert graph.typed is not None

    def scores(changed: Graph) -> Tensor:
        shared: dict[Any, Any] = {}
        each = [weight * model_on(m, changed, shared)(rows).scores for m, weight in members]
        found = torch.stack(each).double().sum(0)
        return found - found.mean(1, keepdim=True) if graph.objective.metric == "accuracy" else found

    values = model_on(explainer.model, graph)(rows).probabilities
    values = values if explainer.learned is None else values[:, list(explainer.learned)]
    label = values.argmax(1) if explainer.label is None else torch.full((len(rows),), explainer.label)
    before, nothing = scores(graph), graph.typed
    moved = {name: before - scores(with_types(graph, one(None))) for name, one in changes_of(graph.typed).items()}
    for name in moved:
        nothing = changes_of(nothing)[name](None)
    base, empty = scores(with_types(graph, nothing)), {"contribution": []}
    return [
        Explanation(
            row if graph.ids is None else graph.ids[row],
            explainer.names[k],
            float(values[i, k]),
            float(before[i, k]),
            float(base[i, k]),
            _sorted({"column": list(moved), "contribution": [float(one[i, k]) for one in moved.values()]}),
            _sorted({"steps": [], **empty}),
            _sorted({"id": [], "steps": [], **empty}),
            _sorted({"id": [], "label": [], "steps": [], **empty}),
            0.0,
        )
        for i, (row, k) in enumerate(zip(rows.tolist(), label.tolist(), strict=True))
    ]


def _sorted(table: dict[str, Any]) -> pd.DataFrame:
    frame = pd.DataFrame(table).astype({"contribution": float})
    return frame.sort_values("contribution", key=np.abs, ascending=False, kind="stable", ignore_index=True)


class _Around:
    """The contributions around one row, as they come together over the networks.

    Args:
        part: what the row depends on, and ``place`` where it is there.
    """

    outputs: Tensor  # how much each counts in the score that is explained

    def __init__(self, explainer: Explainer, part: Graph, place: int):
        self.whole, self.part, self.place = explainer, part, place
        self.base, n, self.shared = 0.0, part.num_nodes, dict[Any, Any]()
        self.columns = defaultdict[str, float](float)
        self.nodes, self.labels = np.zeros(n), np.zeros(n)
        A, single = _receives(part, explainer.back), part.ptr is None
        start = np.zeros(n)
        start[place] = 1.0
        self.steps, self.near = np.zeros(n, dtype=int), np.ones(n)
        if single:
            far = sp.csgraph.shortest_path(A, unweighted=True, indices=place)
            self.steps = np.where(np.isfinite(far), far, -1).astype(int)
            walk = sp.csr_matrix(sp.diags(1 / np.maximum(np.asarray(A.sum(1)).ravel(), 1)) @ A).T
            self.near = start.copy()  # how often a random walk against the messages comes by
            for _ in range(explainer.near.parts.steps):
                start = walk @ start
                self.near += start
        self.hops = dict.fromkeys(range(int(self.steps.max()) + 1), 0.0) if single else {}

    def score(
        self, members: list[tuple[Any, float]], graph: Graph, rows: Tensor, shared: Shared | None = None
    ) -> Tensor:
        """Mean scores of networks by their weights, for some rows."""
        shared = {} if shared is None else shared
        each = [weight * (model_on(m, graph, shared)(rows).scores @ self.outputs) for m, weight in members]
        return torch.stack(each).double().sum(0)

    def add(self, shares: Shares, weight: float) -> None:
        self.base += weight * shares.base
        features = shares.features.numpy()
        own = {name: float(features[c].sum()) for name, c in columns_of(self.whole.graph).items() if features[c].any()}
        for name, moved in (own | shares.others).items():
            self.columns[name] += weight * moved
        self.nodes += weight * shares.nodes.numpy()
        self.labels += weight * shares.labels.numpy()
        for steps in self.hops:
            self.hops[steps] += weight * float(shares.nodes.numpy()[self.steps == steps].sum())

    def known_labels(self) -> np.ndarray:
        """What label the networks know of each node; NaN: none."""
        known = np.full(self.part.num_nodes, np.nan)
        label = int(self.outputs.argmax())
        for member, _ in (*self.whole.linear, *self.whole.rest):
            labels: KnownLabels | None = getattr(member, "known", None)
            if labels is not None:
                numbers = labels.nodes.numbers_in(self.part).numpy()
                y = labels.y[:, 0 if labels.y.shape[1] < labels.out_channels else label].numpy()
                known[numbers >= 0] = y[numbers[numbers >= 0]]
        return known

    def measure(self) -> None:
        """What removals change in the scores of networks that are not linear."""
        x, n = self.part.x, self.part.num_nodes
        every = np.arange(n)
        first = np.argsort(-self.near, kind="stable")
        known = np.isfinite(self.known_labels()) & (every != self.place)
        groups = columns_of(self.part)
        if len(groups) > MEASURED:
            near = torch.from_numpy(self.near).to(x.dtype)
            differs = ((near[None] @ dense(x))[0] - float(near.sum()) * self.whole.average[0]).abs().numpy()
            order = sorted(groups, key=lambda name: -differs[groups[name]].sum())
            rest = np.concatenate([groups.pop(name) for name in order[MEASURED - 1 :]])
            groups[f"the {len(order) - MEASURED + 1:,} other columns together"] = rest
        tried: list[
            tuple[Any, Any, _Removal]
        ] = [  # (where what it moves is added up, under which key, what is removed)
            *((self.columns, name, _Removal(columns=columns)) for name, columns in groups.items()),
            *((self.hops, k, _Removal(nodes=np.flatnonzero(self.steps == k))) for k in self.hops if k <= FARTHEST),
        ]
        if len(beyond := np.flatnonzero(self.steps > FARTHEST)):
            tried.append((self.hops, FARTHEST + 1, _Removal(nodes=beyond)))
        tried += [(self.nodes, j, _Removal(nodes=np.array([j]))) for j in first[self.near[first] > 0][:MEASURED]]
        tried += [(self.labels, j, _Removal(labels=np.array([j]))) for j in first[known[first]][:MEASURED]]
        removals = [_Removal(), _Removal(nodes=every, labels=every), *(removal for *_, removal in tried)]
        scores = self._scores(removals)
        self.base += float(scores[1])
        for (into, key, _), moved in zip(tried, (scores[0] - scores[2:]).tolist(), strict=True):
            into[key] += moved

    def _scores(self, removals: list["_Removal"]) -> np.ndarray:
        """The score after each removal, of copies of the part that lie side by side."""
        x, n, edges = self.part.x, self.part.num_nodes, self.part.edge_index.shape[1]
        size = x.nnz + n if isinstance(x, SparseMatrix) else x.numel()
        walked = [one for one in self.whole.rest if self.part.ptr is None and is_walked(one[0])]
        others = [one for one in self.whole.rest if one not in walked]
        total = np.zeros(len(removals))
        for members, numbers in ((walked, 8 * (n * len(self.outputs) + edges)), (others, size + 64 * (n + edges))):
            step = max(1, AT_ONCE // max(1, numbers))
            for start in range(0, len(removals) if members else 0, step):
                some = removals[start : start + step]
                rows = torch.arange(len(some)) * (n if self.part.ptr is None else 1) + self.place
                changed, shared = self._walked(walked, some) if members is walked else (self._changed(some), None)
                total[start : start + step] += self.score(members, changed, rows, shared).numpy()
        return total

    def _changed(self, removals: Sequence["_Removal"]) -> Graph:
        return changed_copies(self.part, removals, self.whole.average)

    def _walked(self, members: list[tuple[Any, float]], removals: list["_Removal"]) -> tuple[Graph, Shared]:
        """The copies without features and edges, and the hops that take their place."""
        shared, empty = dict[Any, Any](), torch.zeros(self.part.num_nodes, 0)
        for net in [net for member, _ in members for net in (member, member.previous) if net is not None]:
            own = once(self.shared, walk_of(net.config), lambda net=net: net.hops(self.part, shared=self.shared))
            about = net, self.part, own.inputs, removals, self.whole.average
            copies = once(shared, inputs_of(net.config), lambda about=about: _Copies(*about))
            shared[walk_of(net.config)] = _CopiedHops(own, copies, self.place, 4 * len(self.outputs))
        bare = replace(self.part, x=empty, edge_index=torch.zeros(2, 0, dtype=torch.int64))
        labels = [_Removal(labels=one.labels) for one in removals]
        return changed_copies(replace(bare, edge_weight=None, edge_attr=None), labels, empty[:1]), shared


def is_walked(network: Any) -> bool:
    """Whether a network asks for hops of its inputs alone: at its rows, or times the weights of its head."""
    if not isinstance(network, HopNetwork):
        return False
    config, linear = network.config, network.previous is None or is_linear(network.previous)
    plain = all(net.coefficients == "fixed" and not net.node_columns for net in (config, config.previous or config))
    return plain and linear and not config.unit_hops


class _Copies:
    """What is walked over copies of a part that lie side by side, each after a removal. It is never written down: there
    are only its products. Scaled features are rows u, or u / ‖u‖; a removal changes some rows, or a few columns of u.

    Shapes:
        of n nodes and r removals ``[r n, d]``.
    """

    def __init__(self, network: HopNetwork, part: Graph, inputs: Features, removals: list["_Removal"], average: Tensor):
        scaling, self.inputs, self.removals = network.scaling, inputs, removals
        self.shape, self.width = (len(removals) * part.num_nodes, inputs.shape[1]), scaling.width
        self.basis = scaling.basis if scaling.components else None
        self.u, self.none, self.gone = (*map(scaling.by_column, (part.x, average)), dense(scaling(average)))
        by_length = scaling.kind.by_length
        squares = _squares(self.u) if by_length else torch.ones(part.num_nodes, dtype=torch.float64)
        self.shares = dict[int, Tensor]()  # what is left of u without some columns is divided by: 1 / ‖u‖, or 1
        for place, one in enumerate(removals):
            if len(one.columns):
                at = torch.from_numpy(one.columns)
                less = self.none[:, at].double().square().sum() - _squares(_picked(self.u, at)) if by_length else 0.0
                left = squares + less
                left = torch.where(left > LITTLE * squares, left, torch.inf)
                self.shares[place] = left.rsqrt()[:, None].to(self.none)

    def __matmul__(self, weight: Tensor) -> Tensor:
        top, whole, copies = weight[: self.width], self.inputs @ weight, []
        gone, top = self.gone @ top, top if self.basis is None else self.basis @ top
        product = self.u @ top if self.shares else whole
        rest = column_block(self.inputs, self.width, self.shape[1]) @ weight[self.width :]
        for place, one in enumerate(self.removals):
            if place in self.shares:
                at = torch.from_numpy(one.columns)
                own = product + self.none[:, at] @ top[at] - _picked(self.u, at) @ top[at]
                copy = own * self.shares[place] + rest
            else:
                copy = whole.index_put((torch.from_numpy(one.nodes),), gone + rest[one.nodes])
            copies.append(copy)
        return torch.cat(copies)

    def seen(self, influence: Tensor) -> Tensor:
        """What a row sees in each copy ``[r, K d]``, for K sums over the nodes ``[K, n]``."""
        whole, copies = _sums(influence, self.inputs), []
        for place, one in enumerate(self.removals):
            copy = whole.clone()
            if place in self.shares:
                own = influence * self.shares[place].T
                u = _sums(own, self.u)
                u[:, one.columns] = own.sum(1, keepdim=True) * self.none[:, one.columns]
                copy[:, : self.width] = u if self.basis is None else u @ self.basis
            else:
                own, nodes = influence[:, one.nodes], torch.from_numpy(one.nodes)
                was = _sums(own, row_block(self.inputs, nodes))[:, : self.width]
                copy[:, : self.width] += own.sum(1, keepdim=True) * self.gone - was
            copies.append(copy.flatten())
        return torch.stack(copies)


class _CopiedHops(Hops):
    """The hops of copies that lie side by side. Where the head does not go before the hops, only what the one row of
    every copy sees is asked for.

    Args:
        hops: those of a single copy.
        narrow: columns up to which what is walked is written down.
    """

    def __init__(self, hops: Hops, copies: _Copies, place: int, narrow: int):
        count, self.one, self.copies, self.place = len(copies.removals), hops, copies, place
        ways = [replace(way, matrix=_side_by_side(way.matrix, count)) for way in hops.ways]
        inputs: Any = copies @ torch.eye(copies.shape[1]) if copies.shape[1] <= narrow else copies
        super().__init__(ways[0], inputs, ways[1] if len(ways) > 1 else None)

    def joined(self, config: Config, rows: Tensor | None = None) -> Tensor:
        if rows is None or len(rows) != len(self.copies.removals):
            return super().joined(config, rows)
        influence = [influence_of(way, self.place, config.num_layers) for way in self.one.ways]
        return self.copies.seen(torch.stack(seen_hops(config, influence)).to(self.copies.none))


def _side_by_side(matrix: SparseMatrix, count: int) -> SparseMatrix:
    """A block-diagonal matrix."""
    (n, m), entries = matrix.shape, matrix.nnz
    shift = torch.arange(count)[:, None]
    crow = torch.cat([matrix.crow[:1].long(), (matrix.crow[1:].long() + shift * entries).flatten()])
    return SparseMatrix.from_csr(
        crow, (matrix.col.long() + shift * m).flatten(), matrix.values.repeat(count), (count * n, count * m)
    )


def _picked(x: Features, columns: Tensor) -> Features:
    return SparseMatrix(x.scipy()[:, columns.numpy()], dtype=x.dtype) if isinstance(x, SparseMatrix) else x[:, columns]


def _squares(x: Features) -> Tensor:
    """The squared length of every row, in double precision."""
    if isinstance(x, SparseMatrix):
        return row_sums(x.crow, x.values.double().square())
    return x.double().square().sum(1)


def _sums(influence: Tensor, x: Features) -> Tensor:
    """Sums of rows with these weights ``[K, n]``."""
    return (x.T @ influence.T.contiguous()).T.contiguous() if isinstance(x, SparseMatrix) else influence @ x


class _Removal(NamedTuple):
    """Nodes and columns that get the average node's values, and nodes whose labels are not known."""

    nodes: np.ndarray = NONE
    columns: np.ndarray = NONE
    labels: np.ndarray = NONE


def changed_copies(graph: Graph, removals: Sequence[_Removal], average: Tensor) -> Graph:
    """Copies of a graph side by side, each after a removal."""
    part, n, count = graph.part, graph.num_nodes, len(removals)
    assert part is not None
    nodes = part.nodes.repeat(count, 1)
    for copy, removal in zip(nodes, removals, strict=True):
        copy[torch.from_numpy(removal.labels)] = -1
    shift = torch.arange(count).repeat_interleave(graph.edge_index.shape[1]) * n
    each = torch.arange(graph.edge_index.shape[1]).repeat(count)
    fields = {f: taken(getattr(graph, f), each) for f in ("edge_weight", "edge_attr") if getattr(graph, f) is not None}
    fields |= {} if graph.ptr is None else {"ptr": torch.arange(count + 1) * n}
    y = graph.y.repeat(count, *([1] * (graph.y.dim() - 1)))
    x, edges = _changed(graph.x, removals, average), graph.edge_index.repeat(1, count) + shift
    return replace(graph, x=x, edge_index=edges, y=y, part=replace(part, nodes=nodes.flatten()), **fields)


def _changed(x: Features, removals: Sequence[_Removal], average: Tensor) -> Features:
    """The features of all copies; wide ones lose entries, as the average node has none of them."""
    if isinstance(x, SparseMatrix):
        whole, copies = x.scipy(), []
        for one in removals:
            left, right = np.ones(x.shape[0]), np.ones(x.shape[1])
            left[one.nodes], right[one.columns] = 0.0, 0.0
            copies.append(sp.diags(left) @ whole @ sp.diags(right))
        return SparseMatrix(sp.vstack(copies, "csr"), dtype=x.dtype, device=x.device)
    copies = x.repeat(len(removals), 1, 1)
    for copy, one in zip(copies, removals, strict=True):
        columns = torch.from_numpy(one.columns)
        copy[torch.from_numpy(one.nodes)] = average
        copy[:, columns] = average[:, columns]
    return copies.flatten(0, 1)


def _receives(graph: Graph, back: bool) -> sp.csr_matrix:
    """A 1 where a message comes to a row's node from a column's node."""
    u, v = graph.edge_index.numpy()
    ends = (np.r_[v, u], np.r_[u, v]) if back else (v, u)
    matrix = sp.csr_matrix((np.ones(len(ends[0])), ends), shape=(graph.num_nodes, graph.num_nodes))
    matrix.data[:] = 1.0
    return matrix
