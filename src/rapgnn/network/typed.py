"""Graphs with types in the stages encode and propagate: the columns of every type, and their hops over relations.

A walk may take some of the relations in every step. What starts at one type stays in columns of its own, so that a
block of columns is what reaches the target's nodes from one type in so many steps.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from rapgnn.errors import InputError, shown
from rapgnn.graph.backbones import BACKBONES, Scaling, symmetric
from rapgnn.graph.graph import Graph
from rapgnn.graph.relations import Blocks, Types, Walk, depth_of, walks_of
from rapgnn.network.config import Config
from rapgnn.network.encode import FeatureScaling
from rapgnn.network.expand import signed_log
from rapgnn.network.known_labels import KnownLabels, SeenNodes
from rapgnn.network.weights import RandomWeights
from rapgnn.prng import Stream, seeded
from rapgnn.sparse import SparseMatrix, dense, row_block

TOLERANCE, AT_ONCE = 1e-3, 96  # of eigenvectors: the least eigenvalue, and how many are made at once
ROUNDS, DEGREE, BESIDE_WANTED = 4, 8, 16  # of their iteration: rounds, products in each, columns beside those wanted
LABEL_STEPS = 2  # of a hop of labels, which begins and ends at the target
MOST_WAYS = 64  # along relations, whose random coefficients have a covariance each
NARROW, STORED = 64, 768 << 20  # columns of a start up to which every hop is stored, and bytes of all that is
MOST_WALKS = 50_000_000  # from the target, over which labels come back: each may be an entry of a matrix


@dataclass(frozen=True)
class Start:
    """Columns that the nodes of one type begin with.

    Args:
        kind: ``features``; ``counts``: the logarithms of how many neighbours they have, by relation; ``place``: where
            the target's nodes are in the graph, which is not walked with; ``rows``: some of the target's nodes, each a
            column of its own.
    """

    type: str
    kind: str
    width: int


class Places(nn.Module):
    r"""Where nodes are in a graph: the leading eigenvectors of S, degrees with their mean added (Qin and Rohe, 2013).

    A node gets what its neighbours have, :math:`(S V)_i / λ`, so that nodes that came later have a place too, those
    whose neighbours came later as well.

    Args:
        counts: of the nodes of each type that a walk visits.
    """

    vectors: Tensor
    values: Tensor

    def __init__(self, walk: Walk, counts: Mapping[str, int], target: str, width: int, seed: int):
        super().__init__()
        self.walk, self.counts, self.target, self.seed = walk, dict(counts), target, seed
        self.width = max(0, min(width, sum(counts.values()) - 2))
        self.seen = nn.ModuleList(SeenNodes(count) for count in counts.values())
        self.register_buffer("vectors", torch.zeros(sum(counts.values()), self.width))
        self.register_buffer("values", torch.ones(self.width))

    def fit(self, types: Types) -> None:
        for (kind, count), seen in zip(self.counts.items(), self.seen, strict=True):
            seen.load_state_dict(SeenNodes.named_by(types.ids.get(kind), count).state_dict())
        key = "places", self.walk, self.seed
        if key not in types.made or types.made[key][1].shape[1] < self.width:
            types.made[key] = self._leading(types, min(max(self.width, AT_ONCE), sum(self.counts.values()) - 2))
        values, vectors = types.made[key]
        count = min(self.width, len(values))
        self.vectors[:, :count], self.values[:count] = vectors[:, :count], values[:count]

    def _leading(self, types: Types, count: int) -> tuple[Tensor, Tensor]:
        blocks, sizes = self._operators(types), self.counts
        none = {(a, b): sp.csr_matrix((n, m)) for a, n in sizes.items() for b, m in sizes.items()} | blocks
        S: Any = sp.block_array([[none[a, b] for b in sizes] for a in sizes], format="csr")
        values, vectors = leading_vectors(sp.csr_matrix((S + S.T) / 2), count, self.seed)
        there = values > TOLERANCE
        return values[there], vectors[:, there] * S.shape[0] ** 0.5

    def forward(self, types: Types) -> Tensor:
        """``[nodes of the target, width]``."""
        parts = dict(zip(self.counts, self.vectors.cpu().split(list(self.counts.values())), strict=True))
        numbers = {kind: self.numbers(types, kind)[:, None] for kind in self.counts}
        at = {kind: torch.where(of >= 0, parts[kind][of[:, 0].clamp(min=0)], 0.0) for kind, of in numbers.items()}
        steps = {place: SparseMatrix(S) for place, S in self._operators(types).items()}
        later = any(bool((of < 0).any()) for of in numbers.values())
        for _ in range(len(at) if later else 0):
            near = {kind: self._step(steps, at, kind) for kind in at}
            at = {kind: torch.where(of >= 0, at[kind], near[kind]) for kind, of in numbers.items()}
        return self._step(steps, at, self.target)

    def _step(self, steps: Mapping[tuple[str, str], SparseMatrix], at: Mapping[str, Tensor], kind: str) -> Tensor:
        total = torch.zeros_like(at[kind])
        for (to, source), S in steps.items():
            if to == kind:
                total += S @ at[source]
        return total / self.values.cpu()

    def numbers(self, types: Types, kind: str) -> Tensor:
        """Which of the nodes it learned of each node of a type is; -1: none."""
        seen: Any = self.seen[list(self.counts).index(kind)]
        return seen.numbers_of(types.ids.get(kind), types.counts[kind])

    def _operators(self, types: Types) -> Blocks:
        return types.operators(self.walk, symmetric, smooth=True)


def leading_vectors(S: sp.csr_matrix, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """The largest eigenvalues of a symmetric matrix whose own lie in [-1, 1], the first the largest, and their vectors.

    Subspace iteration with Chebyshev polynomials, which are large above the values that are wanted and small below
    (Zhou and Saad, 2007): its work is known before.
    """
    matrix = SparseMatrix(S)
    n = matrix.shape[0]
    basis = torch.randn(n, min(n, count + BESIDE_WANTED), generator=seeded(seed, Stream.SKETCH))
    basis, values = torch.linalg.qr(basis)[0], torch.zeros(1)
    for _ in range(ROUNDS):
        low = max(0.0, float(values[0]))
        half, middle = (low + 1) / 2, (low - 1) / 2
        before, now = basis, (matrix @ basis).sub_(basis, alpha=middle).div_(half)
        for _ in range(DEGREE - 1):
            before, now = now, (matrix @ now).sub_(now, alpha=middle).mul_(2 / half).sub_(before)
        basis = torch.linalg.qr(now)[0]
        values, turn = torch.linalg.eigh(basis.T @ (matrix @ basis))
        basis = basis @ turn
    return values.flip(0)[:count], basis.flip(1)[:, :count].contiguous()


class TypeColumns(nn.Module):
    """What every type begins with; what it learns of one graph's features and nodes serves other graphs.

    Args:
        about: the types and relations, from ``Types.described``.
        config: its ``scaling`` is for features that are mostly 0, others get mean 0 and variance 1; ``components`` are
            taken of all that are wider; ``node_columns`` tell the places of nodes, ``degree_columns`` how many
            neighbours they have, and ``anchors`` alone, to which rows they are near.
    """

    anchors: Tensor  # numbers among the nodes of the target

    def __init__(self, about: Mapping[str, Any], config: Config, seed: int):
        super().__init__()
        self.target, self.walks = about["target"], walks_of(config.relations)
        self.ends = {" ".join(one): (one[0], one[2]) for one in about["relations"]}
        for key in {key for walk in self.walks for key in walk} - self.ends.keys():
            raise InputError(f"the graph has no relation {shown(key)}: it is one of {', '.join(self.ends)}.")
        self.counts: dict[str, int] = about["counts"]
        used = tuple(key for key in self.ends if any(key in walk for walk in self.walks))
        self.received = {t: [key for key in used if self.ends[key][1] == t] for t in self.counts}
        depth, self.starts, parts = config.num_layers, list[Start](), list[FeatureScaling]()
        near = [t for t in self.counts if any(self.reaches(w, t, k) for w in self.walks for k in range(depth + 1))]
        for t in near if not config.anchors else ():
            if width := about["widths"][t]:
                scaling = config.scaling if t in about["sparse"] else "standard"
                parts.append(
                    FeatureScaling(scaling, width, config.components if width > config.components else 0, seed)
                )
                self.starts.append(Start(t, "features", parts[-1].width))
        self.parts = nn.ModuleList(parts)
        if config.degree_columns and not config.anchors:
            self.starts += [Start(t, "counts", n) for t in near if (n := len(self.received[t]))]
        self.seed, self.rows = seed, SeenNodes(self.counts[self.target] if config.anchors else 0)
        self.register_buffer("anchors", torch.zeros(config.anchors, dtype=torch.int64))
        if config.anchors:
            self.starts.append(Start(self.target, "rows", config.anchors))
        self.places: Places | None = None
        if config.node_columns:
            visited = {t: n for t, n in self.counts.items() if any(t in self.ends[key] for key in used)}
            self.places = Places(used, visited, self.target, config.node_columns, seed)
            self.starts.append(Start(self.target, "place", self.places.width))

    def reaches(self, walk: Walk, start: str, steps: int) -> bool:
        """Whether a walk of so many steps from a type may end at the target."""
        at = {start}
        for _ in range(steps):
            at = {self.ends[key][1] for key in walk if self.ends[key][0] in at}
        return self.target in at

    def blocks(self, config: Config) -> list[tuple[int, int, Start]]:
        """What is joined: (walk, hop, start); of personalised PageRank one sum for each start, its hop is the depth."""
        depth, place = config.num_layers, [(0, 0, one) for one in self.starts if one.kind == "place"]
        pairs = [(w, walk, s) for w, walk in enumerate(self.walks) for s in self.starts if s.kind != "place"]
        if config.jumping == "ppr" or config.coefficients == "random":
            near = [(w, s) for w, k, s in pairs if any(self.reaches(k, s.type, i) for i in range(depth + 1))]
            return place + [(w, depth, s) for w, s in near]
        if config.jumping == "last":
            return place + [(w, depth, s) for w, k, s in pairs if self.reaches(k, s.type, depth)]
        hops, own = range(1, depth + 1), [(0, 0, one) for one in self.starts if one.type == self.target]
        return own + [(w, k, s) for k in hops for w, walk, s in pairs if self.reaches(walk, s.type, k)]

    def joined_width(self, config: Config) -> int:
        """Columns of what is joined; refused where nothing comes to the target."""
        if config.coefficients == "random" and sum(self.ways(w, config.num_layers) for w in self.walks) > MOST_WAYS:
            raise InputError("there are too many ways along these relations: name fewer of them, or fewer layers.")
        if not (width := sum(one.width for _, _, one in self.blocks(config))):
            raise InputError("these relations bring no columns to the target: set node_columns too.")
        return width

    def ways(self, walk: Walk, depth: int) -> int:
        """How many sequences of up to so many relations end at the target."""
        total, at = 1, {self.target: 1}
        for _ in range(depth):
            before: dict[str, int] = {}
            for key in walk:
                source, to = self.ends[key]
                before[source] = before.get(source, 0) + at.get(to, 0)
            total, at = total + sum(before.values()), before
        return total

    def label_hops(self, hops: int) -> int:
        """How many times labels are seen."""
        return sum(len(self.label_steps(walk, hops)) for walk in self.walks) if hops else 0

    @property
    def width(self) -> int:
        """Of all starts."""
        return sum(one.width for one in self.starts)

    def label_steps(self, walk: Walk, hops: int) -> list[int]:
        """After how many steps labels are seen: whenever they are back at the target."""
        direct = [1] if any(self.ends[key] == (self.target, self.target) for key in walk) else []
        return direct + [LABEL_STEPS * k for k in range(1, max(hops, self.depth(walk)) + 1)]

    def depth(self, walk: Walk) -> int:
        """After how many steps a walk from the target has been everywhere."""
        return depth_of([self.ends[key] for key in walk], self.target)

    @torch.no_grad()
    def fit(self, types: Types, train: Tensor) -> None:
        """Learn from features and edges, never from labels; of nodes that came after the last training row nothing.

        Args:
            train: the training rows, which are the first anchors.
        """
        for start, part in zip(self.starts, self.parts, strict=False):
            x, early = types.features[start.type], types.early(start.type)
            part.fit(x if early is None else row_block(x, torch.from_numpy(early)))  # type: ignore[operator]
        if self.places is not None:
            self.places.fit(types)
        if count := len(self.anchors):
            self.rows.load_state_dict(SeenNodes.named_by(types.ids.get(self.target), len(self.rows.keys)).state_dict())
            order = torch.randperm(len(self.rows.keys), generator=seeded(self.seed, Stream.LANDMARKS))
            labelled = torch.isin(order, train.cpu())
            self.anchors.copy_(torch.cat([order[labelled], order[~labelled]])[:count])

    @torch.no_grad()
    def forward(self, types: Types, until: float | None = None) -> list[Tensor]:
        """The columns of every start ``[nodes of its type, width]``, in the order of ``starts``."""
        return [self.begin(types, one, until) for one in self.starts]

    def begin(self, types: Types, start: Start, until: float | None = None) -> Tensor:
        """What the nodes of one type begin with at some time."""
        if start.kind == "features":
            return dense(self.parts[self.starts.index(start)](types.features[start.type]))
        if start.kind == "place":
            return self.places(types)  # type: ignore[misc]
        if start.kind == "rows":
            return self._anchor_columns(types)
        counts = [np.diff(types.adjacency(key, until).indptr) for key in self.received[start.type]]
        return torch.from_numpy(np.log1p(np.column_stack(counts)).astype(np.float32))

    def decides(self, start: Start) -> Any:
        """What decides these columns beside the graph: where it is the same they are."""
        if start.kind == "counts":
            return tuple(self.received[start.type])
        part: Any = {"place": self.places, "rows": self}.get(start.kind)
        part = self.parts[self.starts.index(start)] if part is None else part
        learned = hashlib.blake2b()
        for value in part.state_dict().values():
            learned.update(value.cpu().numpy().tobytes())
        return getattr(part, "kind", None), learned.digest()

    def _anchor_columns(self, types: Types) -> Tensor:
        """n where a node is the anchor, so that 1 is what comes to a node from anywhere."""
        number = torch.full((len(self.rows.keys) + 1,), -1)
        number[self.anchors.cpu()] = torch.arange(len(self.anchors))
        of = number[self.rows.numbers_of(types.ids.get(self.target), types.counts[self.target])]
        columns = torch.zeros(len(of), len(self.anchors))
        there = (of >= 0).nonzero()[:, 0]
        columns[there, of[there]] = float(types.num_nodes)
        return columns

    def knows(self, types: Types) -> bool:
        """Whether a graph has any of the nodes that it tells apart."""
        if len(self.anchors):
            return bool((self._anchor_columns(types) > 0).any())
        places = self.places
        return places is None or any(bool((places.numbers(types, kind) >= 0).any()) for kind in places.counts)


Way = tuple[str, ...]
"""Relations one after another."""
State = tuple[tuple[Start, ...], Tensor]
"""Of which starts the columns of a type's nodes are, and these columns."""
Hops = dict[Start, list[Tensor | None]]
"""What has come to the target after 0, 1, … steps."""


class StoredHops:
    """What has come to the target along walks; where it takes too much, what was asked for longest ago goes."""

    def __init__(self) -> None:
        self._parts: dict[Any, list[Tensor | None]] = {}

    def get(self, key: Any) -> list[Tensor | None]:
        """Hops 0, 1, … of a start; none where they are not there."""
        if key in self._parts:
            self._parts[key] = self._parts.pop(key)
        return self._parts.get(key, [])

    def put(self, key: Any, hops: list[Tensor | None]) -> None:
        """Store hops, which are stored nonetheless where they are too large alone."""
        self._parts.pop(key, None)
        self._parts[key] = hops
        sizes = {one: sum(part.nbytes for part in parts if part is not None) for one, parts in self._parts.items()}
        over = sum(sizes.values()) - STORED
        for one in list(sizes)[:-1]:
            if over > 0:
                del self._parts[one]
            over -= sizes[one]


class TypedHops:
    r"""The hops of a graph with types, for the nodes of the target: :math:`(S^k)_{t·} z` of every walk and start.

    Where rows have a time, every row's hops are those of its snapshot. All networks on a graph share what is walked.
    """

    def __init__(self, graph: Graph, columns: TypeColumns, config: Config):
        scaling = BACKBONES[config.backbone].normalise
        assert graph.typed is not None
        assert isinstance(scaling, Scaling)
        self.types, self.columns, self.scaling, self.half_life = graph.typed, columns, scaling, config.half_life
        self.device, self.count = graph.y.device, graph.typed.counts[columns.target]
        self._snapshots = [(until, torch.from_numpy(rows).to(self.device)) for until, rows in self.types.snapshots()]
        self._stored: StoredHops = self.types.made.setdefault("hops", StoredHops())
        self._labels: dict[Any, tuple[KnownLabels, list[Tensor]]] = {}
        self._predicted: dict[int, _Predicted] = {}

    def walk(
        self, walk: int, until: float | None, inputs: Mapping[Start, Tensor], depth: int
    ) -> Iterator[dict[Start, Tensor]]:
        """What has come to the target after 0, 1, … steps, of every start that something comes from.

        Args:
            inputs: what nodes begin with ``[nodes, width]``.
        """
        target, order, operators = self.columns.target, list(inputs), dict[tuple[str, str], SparseMatrix]()
        if depth:
            blocks = self.types.operators(self.columns.walks[walk], self.scaling, until, half_life=self.half_life)
            operators = {at: SparseMatrix(S).to(self.device) for at, S in blocks.items()}
        near = [{target}]  # types from which the target is at most so many steps away
        for _ in range(depth):
            near.append(near[-1] | {source for to, source in operators if to in near[-1]})
        state = dict[str, State]()
        for one, x in inputs.items():
            state[one.type] = _together(state.get(one.type), ((one,), x), order)
        for k in range(depth + 1):
            if k:
                after = dict[str, State]()
                for (to, source), S in operators.items():
                    if source in state and to in near[depth - k]:
                        starts, x = state[source]
                        after[to] = _together(after.get(to), (starts, S @ x), order)
                state = after
            yield _apart(*state[target]) if target in state else {}

    def hops(self, walk: int, starts: Sequence[Start], depth: int, shares: Sequence[float] = ()) -> Hops:
        """Of every start what has come to the target after 0, 1, … steps; None: nothing does.

        Args:
            shares: of each hop: their sum alone is there, as the only hop.
        """
        about = self.columns.walks[walk], self.scaling, self.half_life, self.device, tuple(shares)
        keys = {one: (*about, one, self.columns.decides(one)) for one in starts}
        found: Hops = {one: self._stored.get(key) for one, key in keys.items()}
        made: Hops = {one: [] for one, hops in found.items() if len(hops) <= (0 if shares else depth)}
        for until, rows in self._snapshots if made else ():
            inputs = {one: self.columns.begin(self.types, one, until).to(self.device) for one in made}
            for k, come in enumerate(self.walk(walk, until, inputs, depth)):
                for one, hops in made.items():
                    hop, at = come.get(one), 0 if shares else k
                    hops += [None] * (at + 1 - len(hops))
                    if hop is None or (len(self._snapshots) == 1 and not shares):
                        hops[at] = hops[at] if hop is None else hop
                        continue
                    if (there := hops[at]) is None:
                        there = hops[at] = torch.zeros(self.count, one.width, device=self.device)
                    there[rows] += shares[k] * hop[rows] if shares else hop[rows]
        for one, hops in made.items():
            self._stored.put(keys[one], hops)
        return found | made

    def joined(self, config: Config, rows: Tensor | None = None) -> Tensor:
        """The hops of some of the target's nodes, or of all, joined as the settings say."""
        blocks, parts = self.columns.blocks(config), dict[tuple[int, int, Start], Tensor]()
        depth, alpha, random = config.num_layers, config.teleport, config.coefficients == "random"
        shares = [alpha * (1 - alpha) ** k for k in range(depth + 1)] if config.jumping == "ppr" else []
        for w in dict.fromkeys(w for w, _, _ in blocks):
            mine = [(k, one) for v, k, one in blocks if v == w]
            place = [one for _, one in mine if one.kind == "place"]
            walked = list(dict.fromkeys(one for _, one in mine if one.kind != "place" and not random))
            wide = [one for one in walked if shares and one.width > NARROW]  # sums of these alone are stored
            hops = self.hops(w, place, 0) | self.hops(w, wide, depth, shares)
            hops |= self.hops(w, [one for one in walked if one not in wide], depth)
            for k, one in mine:
                if one not in hops:
                    parts[w, k, one] = self._expected(config, w, one, rows)
                    continue
                weighed = zip(shares or [1.0], hops[one] if shares else [hops[one][k]], strict=False)
                if one in place or one in wide:
                    weighed = [(1.0, hops[one][0])]
                total = torch.zeros(self.count if rows is None else len(rows), one.width, device=self.device)
                for share, hop in weighed:
                    if hop is not None:
                        total.add_(hop if rows is None else hop[rows], alpha=share)
                parts[w, k, one] = signed_log(total) if one.kind == "rows" else total
        return torch.cat([parts[block] for block in blocks], dim=1)

    def _expected(self, config: Config, walk: int, start: Start, rows: Tensor | None) -> Tensor:
        """Of one start what comes to the target by random coefficients in the mean."""
        total = torch.zeros(self.count, start.width, device=self.device)
        for until, seen in self._snapshots:
            x = self.columns.begin(self.types, start, until).to(self.device)
            for way, come in self.along(walk, until, start.type, x, config.num_layers):
                total[seen] += way_mean(way, config.num_layers, config.propagate.drawn(0)) * come[seen]
        return total if rows is None else total[rows]

    def along(
        self, walk: int, until: float | None, kind: str, x: Tensor, depth: int, way: Way = ()
    ) -> Iterator[tuple[Way, Tensor]]:
        """What comes to the target from the nodes of a type along each way of up to so many steps."""
        keys, ends = self.columns.walks[walk], self.columns.ends
        if kind == self.columns.target:
            yield way, x
        for key in keys if depth and any(self.columns.reaches(keys, kind, k + 1) for k in range(depth)) else ():
            source, to = ends[key]
            if source == kind:
                received, sent = (sum(ends[other][i] == end for other in keys) for i, end in ((1, to), (0, source)))
                share = received**self.scaling.received * sent**self.scaling.sent
                S = self.types.operators((key,), self.scaling, until, half_life=self.half_life)[to, source]
                yield from self.along(walk, until, to, SparseMatrix(S * share).to(x.device) @ x, depth - 1, (*way, key))

    def variance(self, config: Config, rows: Tensor) -> Tensor:
        """Of some rows, where coefficients are random: the exact variance of what is joined, float64."""
        parts, depth, weights = list[Tensor](), config.num_layers, config.propagate.drawn(0)
        blocks = self.columns.blocks(config)
        for until, seen in self._snapshots:
            mine = torch.isin(rows, seen)
            for i, (w, _, one) in enumerate(blocks):
                parts += [torch.zeros(len(rows), one.width, dtype=torch.float64)] if len(parts) <= i else []
                if one.kind == "place":
                    continue
                x = self.columns.begin(self.types, one, until).to(self.device)
                come = {way: hop[rows].double().cpu() for way, hop in self.along(w, until, one.type, x, depth)}
                stacked, C = torch.stack(list(come.values())), way_covariance(list(come), depth, weights)
                found = torch.einsum("pnd,pq,qnd->nd", stacked, C, stacked).clamp(min=0)
                parts[i][mine.cpu()] = found[mine.cpu()]
        return torch.cat(parts, dim=1).to(rows.device)

    def returned(self, x: Tensor, walk: int, steps: Sequence[int]) -> list[Tensor]:
        """What columns of the target's nodes are after so many steps, at the target."""
        found, own = [torch.zeros_like(x) for _ in steps], Start(self.columns.target, "returned", x.shape[1])
        for until, rows in self._snapshots:
            hops = list(self.walk(walk, until, {own: x}, max(steps)))
            for part, k in zip(found, steps, strict=True):
                if own in hops[k]:
                    part[rows] = hops[k][own][rows]
        return found

    def labels(self, graph: Graph, known: KnownLabels, count: int) -> list[Tensor]:
        """Known labels after ``label_steps`` of every walk, at the target; without each row's own."""
        if (key := (id(known), count)) not in self._labels:
            own = known.columns(graph, torch.zeros(0, device=self.device))
            found = []
            for w, walk in enumerate(self.columns.walks):
                steps = self.columns.label_steps(walk, count)
                returns = self._returns(w, max(steps))
                hops = self.returned(own, w, steps)
                found += [hop - returns[k][:, None].to(own) * own for k, hop in zip(steps, hops, strict=True)]
            self._labels[key] = known, found  # the labels stay beside their hops
        return self._labels[key][1]

    def _returns(self, walk: int, most: int) -> dict[int, Tensor]:
        """The diagonals of S and its even powers at the target, as far as they are wanted."""
        keys, target = self.columns.walks[walk], self.columns.target
        if self.types.count_walks(keys, most // LABEL_STEPS) > MOST_WALKS:
            raise InputError("known_labels come back over too many walks here: take relations that join fewer nodes.")
        blocks = self.types.operators(keys, self.scaling)
        diagonal = blocks[target, target].diagonal() if (target, target) in blocks else np.zeros(self.count)
        found, out, back = {1: diagonal}, blocks, blocks
        for k in range(LABEL_STEPS, most + 1, LABEL_STEPS):
            if k > LABEL_STEPS:
                out, back = _product(out, blocks, row=target), _product(blocks, back, column=target)
            found[k] = _diagonal(out, back, target, self.count)
        return {k: torch.from_numpy(values) for k, values in found.items()}

    def predictions(self, of: object, predict: Callable[[], Tensor]) -> "_Predicted":
        """What another network predicts for the target's nodes, and its hops back to the target."""
        if id(of) not in self._predicted:
            self._predicted[id(of)] = _Predicted(self, predict())
        return self._predicted[id(of)]


class _Predicted:
    """Predictions of the target's nodes; hop k is what comes back to the target after 2k steps, of all walks."""

    def __init__(self, hops: TypedHops, predicted: Tensor):
        self.hops, self.predicted = hops, predicted
        self._found: dict[int, Tensor] = {}

    def of(self, k: int) -> Tensor:
        if k not in self._found:
            walks = self.hops.columns.walks  # the first hop returns at once, the last from everywhere
            steps = [LABEL_STEPS * (k if k == 1 else max(k, self.hops.columns.depth(walk))) for walk in walks]
            parts = [self.hops.returned(self.predicted, w, [step])[0] for w, step in enumerate(steps)]
            self._found[k] = torch.stack(parts).mean(0)
        return self._found[k]


def _apart(starts: tuple[Start, ...], x: Tensor) -> dict[Start, Tensor]:
    return dict(zip(starts, x.split([one.width for one in starts], dim=1), strict=True))


def _together(one: State | None, other: State, order: Sequence[Start]) -> State:
    """The sum of what comes to a type on two ways."""
    if one is None:
        return other
    if one[0] == other[0]:
        return one[0], one[1].add_(other[1])
    parts = _apart(*one)
    for start, x in _apart(*other).items():
        parts[start] = parts[start] + x if start in parts else x
    starts = tuple(start for start in order if start in parts)
    return starts, torch.cat([parts[start] for start in starts], dim=1)


def _product(one: Blocks, other: Blocks, row: str | None = None, column: str | None = None) -> Blocks:
    found: Blocks = {}
    for (a, b), left in one.items():
        for (c, d), right in other.items():
            if b == c and row in (None, a) and column in (None, d):
                found[a, d] = found[a, d] + left @ right if (a, d) in found else left @ right
    return found


def _diagonal(one: Blocks, other: Blocks, target: str, count: int) -> np.ndarray:
    total = np.zeros(count)
    for (a, b), left in one.items():
        if a == target and (b, target) in other:
            total += np.asarray(left.multiply(other[b, target].T).sum(axis=1)).ravel()
    return total


# Random coefficients along relations: RAP-GNN for graphs with types, whose layers are linear.
#
#     h_t ← (h_t + Σ_{r: s → t} α_r ⊙ (S_r h_s)) / (1 + μ)
#
# So a channel of the target's nodes is a sum over ways, sequences of relations that end there, of a random coefficient
# times what comes along that way, and the coefficients have exact moments.


def way_mean(way: Way, depth: int, weights: RandomWeights) -> float:
    """E[c]: the k steps of a way are taken by any k of the layers."""
    mu = weights.mean
    return comb(depth, len(way)) * mu ** len(way) / (1 + mu) ** depth


def way_covariance(ways: Sequence[Way], depth: int, weights: RandomWeights) -> Tensor:
    """Cov[c] ``[K, K]``, float64, the same for every channel.

    E[c_p c_q] grows layer by layer: either way takes its next step or stays; where both take the same relation they
    take the same weight.
    """
    mu, second = weights.mean, weights.second_moment
    mean = torch.tensor([way_mean(way, depth, weights) for way in ways], dtype=torch.float64)
    found = torch.empty(len(ways), len(ways), dtype=torch.float64)
    for a, p in enumerate(ways):
        for b, q in enumerate(ways[: a + 1]):
            so_far = {(0, 0): 1.0}
            for _ in range(depth):
                after = dict.fromkeys(((i, j) for i in range(len(p) + 1) for j in range(len(q) + 1)), 0.0)
                for (i, j), value in so_far.items():
                    steps = [((i, j), 1.0), ((i + 1, j), mu), ((i, j + 1), mu)]
                    both = i < len(p) and j < len(q) and p[i] == q[j]
                    for place, factor in [*steps, ((i + 1, j + 1), second if both else mu * mu)]:
                        if place in after:
                            after[place] += factor * value
                so_far = after
            found[a, b] = found[b, a] = so_far[len(p), len(q)] / (1 + mu) ** (2 * depth)
    return found - mean.outer(mean)
