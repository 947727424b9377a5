"""What every network is, encode → propagate → expand → readout → head, and averages of several."""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Self

import torch
from torch import Tensor, nn

from rapgnn.errors import InputError, check_choice
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.network.config import Config
from rapgnn.network.encode import DEGREE_COLUMNS, FeatureScaling, Standard, degree_columns
from rapgnn.network.expand import KernelMap, RandomUnits, colour_counts, node_colours, signed_log
from rapgnn.network.heads import TargetScale, make_head
from rapgnn.network.hops import ROW_BLOCK_BYTES, Hops, horner, undirected
from rapgnn.network.known_labels import FitRows, KnownLabels, SeenNodes
from rapgnn.network.typed import TypeColumns, TypedHops
from rapgnn.prng import Stream, seeded
from rapgnn.sparse import Features, SparseMatrix, dense, row_block

Shared = dict[Any, Any]
"""What networks on one graph share: what is walked over it, and above all its hops."""


def once(shared: Shared, key: Any, make: Callable[[], Any]) -> Any:
    """What is shared under a key; made where it is not there yet."""
    if key not in shared:
        shared[key] = make()
    return shared[key]


def inputs_of(config: Config) -> tuple[Any, ...]:
    """What decides what is walked over a graph."""
    return config.scaling, config.components, config.degree_columns, config.node_columns, config.anchors


class Network(nn.Module):
    """The stages that all networks share; ``RAPGNN`` (random coefficients) and ``HopNetwork`` (fixed ones) add theirs.

    Args:
        scaling: what is done to the features, where that is not ``FeatureScaling``.
    """

    head: Any
    seed: Any
    scaling: Any
    fit_rows: FitRows | None

    def __init__(self, in_channels: int, out_channels: int, seed: int, config: Config, scaling: Any = None):
        super().__init__()
        self.config, self.fit_rows = config, None
        self.scaling = scaling or FeatureScaling(config.scaling, in_channels, config.components, seed)
        self.output = TargetScale(out_channels)

    def learn_targets(self, graph: Graph) -> None:
        """Take from the training rows how large targets are that are numbers."""
        if graph.objective.metric == "rmse":
            self.output.fit(graph.y[graph.train])

    def learn_columns(self, graph: Graph) -> None:
        if self.config.relations:
            self.scaling.fit(graph.typed, graph.train)
        else:
            self.scaling.fit(graph.x)

    def twin(self) -> Self:
        twin = copy.copy(self)
        twin._modules = self._modules | {"head": copy.deepcopy(self.head)}
        return twin

    def suits(self, graph: Graph) -> bool:
        return True

    def scores(self, h: Tensor) -> Tensor:
        """Of a representation: class scores, or numbers in the size that the targets have."""
        return self.output(self.head(h))


def is_bound(config: Config) -> bool:
    """Whether such a network speaks of the nodes of one graph alone: it tells them apart, or knows labels of theirs."""
    return bool(config.node_columns or config.anchors or config.known_labels)


# Average: several models of one graph, whose probabilities (or numbers) are averaged.


USES = ("both", "here", "elsewhere")  # a member counts on its own graph and on others, on its own, on others


class Average(nn.Module):
    """The weighted mean of its members' probabilities; of numbers, that of the numbers.

    Networks that are bound to nodes of the training graph count where such nodes are; others may take their place
    elsewhere.

    Args:
        members: the best one first.
        uses: where each counts: on its own graph, ``here``, on others, ``elsewhere``, or on ``both``; None: both.
        weights: how much each of them counts; None: all the same.
        classes: the classes that they answer about, ascending; None: all. No training row has another.
        out_channels: how many classes there are, where these are not all.
    """

    def __init__(
        self,
        members: Sequence[Network],
        uses: Sequence[str] | None = None,
        weights: Sequence[float] | None = None,
        classes: Sequence[int] | None = None,
        out_channels: int = 0,
    ):
        super().__init__()
        self.fit_rows: FitRows | None = None
        self.classes, self.out_channels = None if classes is None else tuple(classes), out_channels
        if not members:
            raise InputError("an average needs at least one member.")
        self.members, self.uses = nn.ModuleList(members), tuple(uses or ("both",) * len(members))
        for use in self.uses:
            check_choice("use of a member", use, USES)
        if len(self.uses) != len(members) or self.uses[0] == "elsewhere":
            raise InputError("every member needs a use, and the first one counts on its own graph.")
        self.weights = (1.0,) * len(members) if weights is None else tuple(weights)
        if len(self.weights) != len(members) or not all(type(w) in (int, float) and 0 < w <= 1 for w in self.weights):
            raise InputError("every member needs a weight, a number above 0 and up to 1.")

    def of_all(self, values: Tensor, absent: float) -> Tensor:
        """Values by class ``[rows, the members' classes]`` as values by every class, ``absent`` for the others."""
        if self.classes is None:
            return values
        full = values.new_full((len(values), self.out_channels), absent)
        full[:, list(self.classes)] = values
        return full

    def weighted_for(self, graph: Graph) -> list[tuple[Network, float]]:
        """The members that count on a graph, each with its weight."""
        every: list[tuple[Any, str, float]] = list(zip(self.members, self.uses, self.weights, strict=True))
        here = [(member, weight) for member, use, weight in every if use != "elsewhere"]
        if all(member.suits(graph) for member, _ in here):
            return here
        others = [(member, weight) for member, use, weight in every if use != "here" and member.suits(graph)]
        if not others:
            raise InputError(
                "this model tells the nodes of its own graph apart, and has nothing to say about another one."
            )
        return others

    @property
    def widest(self) -> Network:
        """The best of the members that count on other graphs too; the best of all where there is none."""
        free = [m for m, use in zip(self.members, self.uses, strict=True) if use != "here"]
        return (free or list(self.members))[0]  # type: ignore[return-value]

    @property
    def config(self) -> Config:
        return self.members[0].config  # type: ignore[return-value]

    @property
    def seed(self) -> int:
        return int(self.members[0].seed)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"Average({', '.join(repr(member) for member in self.members)})"


def engine_of(members: Iterable[Any]) -> tuple[str, str]:
    """How members are computed, and why: hops once, or step by step where something non-linear stands between them."""
    configs = [member.config for member in members]
    if any(c.coefficients == "layers" or c.unit_hops or c.previous is not None for c in configs):
        return "stepwise", "random non-linear layers go one by one"
    return "polynomial", "hops are walked once"


# HopNetwork: fixed hops, random layers or colours; random features or a kernel on them; a head.


PREVIOUS_HOPS = 2  # of the predictions of a network before this one
AnyHops = Hops | TypedHops


class HopNetwork(Network):
    """A network whose random weights, where it has any, are drawn once and stay.

    Args:
        edge_channels: width of the edge features; each node gets the sum of those that it receives.
        known: rows and columns of the labels that it knows, where the settings want them.
        nodes: how many nodes it tells apart, where the settings want that.
        types: the types of nodes, from ``Types.described``, where the settings name relations.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        edge_channels: int = 0,
        known: tuple[int, int] = (0, 0),
        nodes: int = 0,
        types: dict[str, Any] | None = None,
        seed: int = 0,
        config: Config,
    ):
        typed = types if config.relations else None
        super().__init__(in_channels, out_channels, seed, config, TypeColumns(typed, config, seed) if typed else None)
        self.seed, generator = seed, seeded(seed, Stream.RANDOM_NET)
        base = config.node_columns or self.scaling.width + edge_channels
        base += DEGREE_COLUMNS if config.degree_columns else 0
        ways = 2 if config.edges == "both" else 1
        self.layers = nn.ModuleList()
        joined, groups, seen = base, 1, config.known_labels * ways
        if isinstance(self.scaling, TypeColumns):
            joined, seen = self.scaling.joined_width(config), self.scaling.label_hops(config.known_labels)
        elif config.coefficients == "layers":
            widths = [base, *([config.width] * config.num_layers)]
            self.layers.extend(
                RandomUnits(c, d, generator, activation=config.activation, after=True) for c, d in pairwise(widths)
            )
            joined = sum(widths)
        elif config.coefficients == "colours":
            joined = config.width * (1 + config.num_layers)
        elif config.jumping == "cat":
            groups = 1 + config.num_layers * ways
            joined = base * groups
        self.previous: HopNetwork | None = None
        if config.previous is not None:
            sizes = {"edge_channels": edge_channels, "seed": seed, "config": config.previous, "types": types}
            self.previous = HopNetwork(in_channels, out_channels, **sizes)
            joined, groups = joined + PREVIOUS_HOPS * out_channels, 1
        self.known = KnownLabels(*known, out_channels) if config.known_labels else None
        labels = seen * out_channels
        # Hops of random features of labels would bring a row's own back to it, so there labels stand beside them.
        inputs = joined if config.unit_hops else joined + labels
        self.units: RandomUnits | None = None
        self.channels = joined = joined + labels
        if config.units:
            groups = 1 if config.unit_hops or labels else groups
            self.units = RandomUnits(
                inputs, config.units, generator, config.unit_inputs, config.activation, groups=groups
            )
            self.channels = config.units
            if config.unit_hops:
                self.channels = joined + config.units * (1 + config.unit_hops)
        self.standard = Standard(self.channels, together=not config.standardize)
        self.kernel: KernelMap | None = None
        if config.landmarks:
            self.kernel = KernelMap(self.channels, config.landmarks, config.kernel, config.bandwidth, config.trend)
        self.head = make_head(config, config.landmarks or self.channels, out_channels, generator)
        self.nodes = SeenNodes(nodes) if config.node_columns and not config.relations else None

    def operator(self, graph: Graph) -> GraphOperator:
        graph = undirected(graph) if self.config.edges == "undirected" else graph
        return graph.operator(self.config.backbone, self.config.self_loops)

    def hops(self, graph: Graph, rows: Tensor | None = None, shared: Shared | None = None) -> AnyHops:
        """The hops of all nodes, each walked when it is first asked for.

        Args:
            rows: as in ``Hops``.
            shared: what is walked is in it where another walk has the same.
        """
        if isinstance(self.scaling, TypeColumns):
            return TypedHops(graph, self.scaling, self.config)
        turned = replace(graph, edge_index=graph.edge_index.flip(0)) if self.config.edges == "both" else None
        back = None if turned is None else self.operator(turned)
        inputs = once({} if shared is None else shared, inputs_of(self.config), lambda: self.inputs(graph))
        return Hops(self.operator(graph), inputs, back, rows)

    def suits(self, graph: Graph) -> bool:
        bound = [self.nodes, None if self.known is None else self.known.nodes]
        known = all(nodes.are_in(graph) for nodes in bound if nodes is not None)
        typed = graph.typed if isinstance(self.scaling, TypeColumns) else None
        return known and (typed is None or self.scaling.knows(typed))

    def inputs(self, graph: Graph) -> Tensor | SparseMatrix:
        """What is propagated: scaled features, and columns for the node's edges and degrees."""
        more = []
        x = self.scaling(graph.x) if self.nodes is None else self._node_columns(graph, self.nodes)
        if graph.edge_attr is not None and not self.config.node_columns:
            edges = dense(graph.edge_attr)
            target = graph.edge_index[1].to(edges.device)
            more.append(edges.new_zeros(graph.num_nodes, edges.shape[1]).index_add_(0, target, edges))
        if self.config.degree_columns:
            like = x.values if isinstance(x, SparseMatrix) else x
            more.append(degree_columns(graph.edge_index, graph.num_nodes, like))
        return torch.cat([dense(x), *more], dim=1) if more else x

    def _node_columns(self, graph: Graph, nodes: SeenNodes) -> Tensor:
        """Normal numbers of every node's own, whose hops tell who is near to whom; 0 for nodes that are new."""
        size, generator = (len(nodes.keys), self.config.node_columns), seeded(self.seed, Stream.NODE_MARKS)
        drawn = torch.randn(size, generator=generator, dtype=torch.float32).to(graph.x.device, graph.x.dtype)
        numbers = nodes.numbers_in(graph)
        columns = drawn.new_zeros(graph.num_nodes, size[1])
        columns[numbers >= 0] = drawn[numbers[numbers >= 0]]
        return columns

    @torch.no_grad()
    def represent(self, graph: Graph, rows: Tensor | None = None, hops: AnyHops | None = None) -> Tensor:
        """What the head sees of these rows, or of all; standardised."""
        rows = torch.arange(graph.num_rows, device=graph.y.device) if rows is None else rows
        return self.seen(self.representation(graph, rows, hops))

    @torch.no_grad()
    def fit_seen(self, h: Tensor) -> Tensor:
        """Learn means, variances and landmarks of the training rows' representation, and give what the head sees."""
        self.standard.fit(h)
        if self.kernel is not None:
            self.kernel.fit(self.standard(h), seeded(self.seed, Stream.LANDMARKS))
        return self.seen(h)

    def seen(self, h: Tensor) -> Tensor:
        h = self.standard(h)
        return h if self.kernel is None else self.kernel(h)

    @torch.no_grad()
    def pooled(self, graph: Graph, rows: Tensor, pools: Sequence[str], learn: bool = False) -> list[Tensor]:
        """The nodes' sum or mean in each of some graphs, before ``read_pooled``; several poolings in one pass.

        Args:
            pools: ``sum`` or ``mean``.
            learn: learn first what random features and layers need, of these rows.
        """
        if self.config.coefficients == "colours":
            assert graph.ptr is not None
            colours = node_colours(graph, self.config.num_layers)
            return [colour_counts(colours, graph.ptr, rows, self.config.width)]
        operator, inputs = self.operator(graph), self.inputs(graph)
        assert operator.ptr is not None
        if learn and (self.layers or self.units is not None):
            part, h = chosen_graphs(operator, inputs, next(graph_blocks(operator.ptr, rows, self.channels)))
            z = torch.cat(list(self._outputs(part, h, learn=True)), dim=1)
            if self.units is not None:
                self.units.fit(self._logged(z))
        width = self.channels + (self.units.weight.shape[0] if self.units else 0)
        blocks = []
        for block in graph_blocks(operator.ptr, rows, width):
            part, h = chosen_graphs(operator, inputs, block)
            columns = self._columns(part, h)
            blocks.append([torch.cat([part.pool(c, how) for c in columns], dim=1) for how in pools])
        return [torch.cat(parts) for parts in zip(*blocks, strict=True)]

    def read_pooled(self, pooled: Tensor) -> Tensor:
        """The representation of graphs, from their nodes' sums or means."""
        return signed_log(pooled) if self.config.pooling == "log" else pooled

    @torch.no_grad()
    def representation(self, graph: Graph, rows: Tensor, hops: AnyHops | None = None, learn: bool = False) -> Tensor:
        """The representation ``[rows, channels]`` of some rows, before ``seen``.

        Args:
            hops: those of another network with the same inputs and S, for nodes.
            learn: learn what random features and layers need of these rows; the scaling has learned its part before.
        """
        config, units = self.config, self.units
        if graph.ptr is not None:
            return self.read_pooled(self.pooled(graph, rows, (pool_of(config),), learn)[0])
        hops = self.hops(graph) if hops is None else hops
        labels = self._labels(graph, hops)
        beside = self._before(graph, hops) + ([] if config.unit_hops else labels)
        joined = self._joined(hops, rows, beside, learn)
        if units is None:
            return joined
        joined = self._logged(joined)
        if learn:
            units.fit(joined)
        expanded = units(joined)
        if not config.unit_hops:
            return expanded
        whole = units.standard(self._logged(self._joined(hops, None, beside)))
        blocks = []  # some of the random features at a time go through the graph
        size = max(1, ROW_BLOCK_BYTES // max(1, 4 * len(whole)))
        for start in range(0, config.units, size):
            h, walked = units.units(whole, slice(start, start + size)), []
            for _ in range(config.unit_hops):
                assert isinstance(hops, Hops)
                h = hops.operator.matrix @ h
                walked.append(h[rows])
            blocks.append(walked)
        further = [torch.cat(parts, dim=1) for parts in zip(*blocks, strict=True)]
        return torch.cat([joined, expanded, *further, *(part[rows] for part in labels)], dim=1)

    def goes_first(self, hops: AnyHops | None, gain: int = 4) -> bool:
        """Whether the head goes before the hops: scores are sums of hops times weights, of fewer columns than hops.

        Args:
            gain: columns for each score from which hops that other networks might share are not walked.
        """
        config, more = self.config, self.layers or self.units is not None or self.kernel is not None
        linear = self.head.solved and config.coefficients == "fixed" and not more
        return linear and isinstance(hops, Hops) and hops.inputs.shape[1] > gain * len(self.output.shift)

    @torch.no_grad()
    def scores_by_products(self, graph: Graph, hops: Hops) -> Tensor:
        r"""Scores of all nodes where the head goes first: hops of as many columns as there are scores.

        .. math:: \sum_k S^k (z W_k) + b
        """
        config, z, (weight, finish) = self.config, hops.inputs, self.head.first_map()
        depth, weight = config.num_layers, self.standard.scale.to(weight)[:, None] * weight
        count = 1 + depth * (2 if config.edges == "both" else 1) if config.jumping == "cat" else 1
        own = weight[: count * z.shape[1]].split(z.shape[1])
        if config.jumping == "cat":
            total = horner(hops.operator.matrix, depth, lambda k: z @ own[k])
        else:
            once, alpha = z @ own[0], config.teleport
            ppr = config.jumping == "ppr"
            share = [alpha * (1 - alpha) ** k if ppr else float(k == depth) for k in range(depth + 1)]
            total = horner(hops.operator.matrix, depth, lambda k: share[k] * once if share[k] else None)
        if count > 1 + depth:
            total = total + horner(hops.ways[1].matrix, depth, lambda k: z @ own[depth + k] if k else None)
        beside = self._before(graph, hops) + self._labels(graph, hops)
        if beside:
            columns = torch.cat(beside, dim=1).to(total)
            total = total + columns @ weight[len(weight) - columns.shape[1] :]
        return self.output(finish(total - self.standard.shift.to(weight) @ weight))

    def _before(self, graph: Graph, hops: AnyHops) -> list[Tensor]:
        if self.previous is None:
            return []
        predicted = self.predictions_before(graph, hops)
        return [predicted.of(k) for k in range(1, PREVIOUS_HOPS + 1)]

    def _labels(self, graph: Graph, hops: AnyHops) -> list[Tensor]:
        return [] if self.known is None else hops.labels(graph, self.known, self.config.known_labels)

    @torch.no_grad()
    def predictions_before(self, graph: Graph, hops: AnyHops, own: AnyHops | None = None) -> Any:
        """Hops of what the previous network predicts for every node, stored with this one's hops.

        Args:
            own: the hops that the previous network needs; None: this one's where they are the same.
        """
        previous = self.previous
        assert previous is not None
        own = hops if own is None and walk_of(previous.config) == walk_of(self.config) else own

        def predict() -> Tensor:
            seen = own or previous.hops(graph)
            if isinstance(seen, Hops) and previous.goes_first(seen):
                return graph.objective.read(previous.scores_by_products(graph, seen))
            return graph.objective.read(previous.scores(previous.represent(graph, None, seen)))

        return hops.predictions(previous, predict)

    def _joined(self, hops: AnyHops, rows: Tensor | None, beside: Sequence[Tensor], learn: bool = False) -> Tensor:
        """The hops joined as the settings say, or random layers instead, and what stands beside them."""
        chosen = slice(None) if rows is None else rows
        if self.layers:
            assert isinstance(hops, Hops)
            own = torch.cat([h[chosen] for h in self._outputs(hops.operator, hops.of(0), learn, chosen)], dim=1)
        else:
            own = hops.joined(self.config, rows)
        parts = [part[chosen].to(own.dtype) for part in beside]
        return torch.cat([own, *parts], dim=1) if parts else own

    def _logged(self, z: Tensor) -> Tensor:
        return signed_log(z) if self.config.log_hops else z

    def _outputs(self, operator: GraphOperator, h: Tensor, learn: bool, rows: Any = slice(None)) -> Iterator[Tensor]:
        """What nodes have before and after each hop, or random layer, which learns of these rows; or after the last."""
        for layer in self.layers or [None] * self.config.num_layers:
            if self.config.jumping == "cat":
                yield h
            h = operator.matrix @ h
            if isinstance(layer, RandomUnits):
                if learn:
                    layer.fit(h[rows])
                h = layer(h)
        yield h

    def _columns(self, operator: GraphOperator, h: Tensor) -> list[Tensor]:
        parts, hops = list(self._outputs(operator, h, learn=False)), self.config.unit_hops
        if self.units is not None:
            z = torch.cat(parts, dim=1)
            parts = [self.units(self._logged(z))]
            for _ in range(hops):
                parts.append(operator.matrix @ parts[-1])
            parts = [z, *parts] if hops else parts
        return parts

    def __repr__(self) -> str:
        return f"HopNetwork({self.config!r})"


def walk_of(config: Config) -> tuple[Any, ...]:
    """What decides the hops of a graph's nodes: networks that agree in it share them."""
    near = config.num_layers if config.relations else 0  # which types are near enough
    ways = config.backbone, config.self_loops, config.edges, config.relations, config.half_life
    return *inputs_of(config), *ways, near


def pool_of(config: Config) -> str:
    """What is taken of the nodes of a graph: their ``mean`` or their ``sum``."""
    return "mean" if config.pooling == "mean" else "sum"


def chosen_graphs(operator: GraphOperator, inputs: Features, graphs: Tensor) -> tuple[GraphOperator, Tensor]:
    part, nodes = operator.select(graphs)
    return part, dense(row_block(inputs, nodes))


def graph_blocks(ptr: Tensor, rows: Tensor, width: int) -> Iterator[Tensor]:
    """Graphs in blocks whose nodes, so many numbers each, take at most ``ROW_BLOCK_BYTES``; a large graph is alone.

    Of no graphs there is one block, which is empty.
    """
    most = max(1, ROW_BLOCK_BYTES // (4 * max(1, width)))
    sizes = ptr.diff()[rows].cumsum(0)
    start = before = 0
    while start < len(rows) or not start:
        stop = max(start + 1, int(torch.searchsorted(sizes, before + most, right=True)))
        yield rows[start:stop]
        start, before = stop, int(sizes[stop - 1]) if len(sizes) else 0
