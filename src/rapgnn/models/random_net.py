"""RandomNet: hops of the features and of known labels, random non-linear features of them, and a head on top."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.layers.heads import Head, TargetScale
from rapgnn.layers.kernel import KernelMap
from rapgnn.layers.ridge import RidgeHead
from rapgnn.layers.standardize import PLACES, Standard, Treatment, place_columns
from rapgnn.models.known_labels import GOLDEN, KnownLabels, SeenNodes, mixed, row_hash
from rapgnn.models.net_config import NONLINEARITIES, NetConfig
from rapgnn.models.net_hops import (
    BLOCK_BYTES,
    Hops,
    chosen_graphs,
    received,
    signed_log,
    undirected,
)
from rapgnn.prng import Stream, seeded
from rapgnn.sparse import SparseMatrix, dense

PASSES = 2  # hops of the predictions of a network before this one


class RandomNet(nn.Module):
    """Random weights that are drawn once and kept, with a head that is solved or trained.

    Args:
        in_channels: width of the features.
        out_channels: number of classes, labels or targets.
        edge_channels: width of the edge features; each node gets the sum of those that it receives.
        known: rows and columns of the labels that it knows, where the settings want them.
        nodes: how many nodes it tells apart, where the settings want that.
        seed: of everything random in here.
    """

    sharpness: Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        edge_channels: int = 0,
        known: tuple[int, int] = (0, 0),
        nodes: int = 0,
        seed: int = 0,
        config: NetConfig | None = None,
    ):
        super().__init__()
        self.config = config = config or NetConfig()
        self.seed, generator = seed, seeded(seed, Stream.RANDOM_NET)
        self.treatment = Treatment(config.features, in_channels, config.sketch, seed)
        base = config.identity or self.treatment.width + edge_channels
        base += PLACES if config.places else 0
        self.layers = nn.ModuleList()
        joined, groups = base, 1
        if config.width:
            widths = [base, *([config.width] * config.num_layers)]
            self.layers.extend(
                Lift(c, d, generator, activation=config.activation, after=True) for c, d in pairwise(widths)
            )
            joined = sum(widths)
        elif config.colours:
            joined = config.colours * (1 + config.num_layers)
        elif config.jumping == "cat":
            groups = 1 + config.num_layers * (2 if config.edges == "both" else 1)
            joined = base * groups
        self.first: RandomNet | None = None
        if config.first is not None:
            self.first = RandomNet(
                in_channels, out_channels, edge_channels=edge_channels, seed=seed, config=config.first
            )
            joined, groups = joined + PASSES * out_channels, 1
        self.known = KnownLabels(*known, out_channels) if config.known else None
        labels = config.known * out_channels * (2 if config.edges == "both" else 1)
        # Hops of lifted labels would bring a row's own back to it, so there they stand beside the lift.
        inside = joined if config.lift_hops else joined + labels
        self.lift: Lift | None = None
        self.channels = joined = joined + labels
        if config.lift:
            groups = 1 if config.lift_hops or labels else groups
            self.lift = Lift(inside, config.lift, generator, config.lift_inputs, config.activation, groups=groups)
            self.channels = config.lift
            if config.lift_hops:
                self.channels = joined + config.lift * (1 + config.lift_hops)
        self.standard = Standard(self.channels, together=not config.whiten)
        self.kernel: KernelMap | None = None
        if config.landmarks:
            self.kernel = KernelMap(self.channels, config.landmarks, config.kernel, config.reach, config.trend)
        self.head: Head | RidgeHead
        if config.hidden:
            how = {"dropout": config.dropout, "generator": generator}
            self.head = Head(self.channels, config.hidden, out_channels, 2, **how)
        else:
            self.head = RidgeHead(config.landmarks or self.channels, out_channels)
        self.register_buffer("sharpness", torch.ones((), dtype=torch.float32))
        self.nodes = SeenNodes(nodes) if config.identity else None
        self.output = TargetScale(out_channels)

    def operator(self, graph: Graph) -> GraphOperator:
        """S."""
        return self._operator(graph if self.config.edges != "undirected" else undirected(graph))

    def _operator(self, graph: Graph) -> GraphOperator:
        return graph.operator(self.config.backbone, self.config.self_loops)

    def hops(self, graph: Graph) -> Hops:
        """The hops of all nodes, each walked when it is first asked for."""
        turned = replace(graph, edge_index=graph.edge_index.flip(0)) if self.config.edges == "both" else None
        back = None if turned is None else self._operator(turned)
        return Hops(self.operator(graph), self.inputs(graph), back)

    def suits(self, graph: Graph) -> bool:
        """Whether this is a graph it can say something about: one that is bound to nodes must find some of them."""
        bound = [self.nodes, None if self.known is None else self.known.nodes]
        return all(nodes.are_in(graph) for nodes in bound if nodes is not None)

    def scores(self, h: Tensor) -> Tensor:
        """Of a representation, before targets that are numbers get their size back."""
        return self.head(h) * self.sharpness.to(h.dtype)

    def inputs(self, graph: Graph) -> Tensor | SparseMatrix:
        """What is propagated: treated features, and columns for the node's edges and place."""
        more = []
        x = self.treatment(graph.x) if self.nodes is None else self._own_columns(graph, self.nodes)
        if graph.edge_attr is not None and not self.config.identity:
            more.append(received(graph, dense(graph.edge_attr)))
        if self.config.places:
            like = x.values if isinstance(x, SparseMatrix) else x
            more.append(place_columns(graph.edge_index, graph.num_nodes, like))
        return torch.cat([dense(x), *more], dim=1) if more else x

    def _own_columns(self, graph: Graph, nodes: SeenNodes) -> Tensor:
        """Normal numbers of every node's own, whose hops tell who is near to whom; 0 for nodes that are new."""
        size, generator = (len(nodes.keys), self.config.identity), seeded(self.seed, Stream.NODE_MARKS)
        drawn = torch.randn(size, generator=generator, dtype=torch.float32).to(
            device=graph.x.device, dtype=graph.x.dtype
        )
        places = nodes.places_in(graph)
        columns = drawn.new_zeros(graph.num_nodes, size[1])
        columns[places[places >= 0]] = drawn[places >= 0]
        return columns

    @torch.no_grad()
    def fit_features(self, graph: Graph, rows: Tensor, hops: Hops | None = None) -> Tensor:
        """Learn what lift and layers need of some rows, and give their representation ``[rows, channels]``.

        The treatment has learned its part before.

        Args:
            hops: those of another network with the same inputs and S, for nodes.
        """
        return self._represent(graph, rows, hops, learn=True)

    @torch.no_grad()
    def represent(self, graph: Graph, rows: Tensor | None = None, hops: Hops | None = None) -> Tensor:
        """What the head sees of these rows, or of all; standardised."""
        rows = torch.arange(graph.num_rows, device=graph.y.device) if rows is None else rows
        return self.seen(self._represent(graph, rows, hops, learn=False))

    @torch.no_grad()
    def fit_seen(self, h: Tensor) -> Tensor:
        """Learn means, variances and landmarks of the training rows' representation, and give what the head sees."""
        self.standard.fit(h)
        if self.kernel is not None:
            self.kernel.fit(self.standard(h), seeded(self.seed, Stream.LANDMARKS))
        return self.seen(h)

    def seen(self, h: Tensor) -> Tensor:
        """What the head sees of a representation: standardised, and compared with the landmarks where there are any."""
        h = self.standard(h)
        return h if self.kernel is None else self.kernel(h)

    @torch.no_grad()
    def pooled(self, graph: Graph, rows: Tensor, hows: Sequence[str], learn: bool = False) -> list[Tensor]:
        """The nodes' sum or mean in each of some graphs, before ``read_pooled``; several poolings in one pass.

        Args:
            hows: ``sum`` or ``mean``.
            learn: learn first what lift and layers need, of these rows.
        """
        if self.config.colours:
            assert graph.ptr is not None
            colours = node_colours(graph, self.config.num_layers)
            return [colour_counts(colours, graph.ptr, rows, self.config.colours)]
        operator, inputs = self.operator(graph), self.inputs(graph)
        assert operator.ptr is not None
        if learn:
            self._learn(*chosen_graphs(operator, inputs, next(graph_blocks(operator.ptr, rows, self.channels))))
        width = self.channels + (self.lift.weight.shape[0] if self.lift else 0)
        found = []
        for block in graph_blocks(operator.ptr, rows, width):
            part, h = chosen_graphs(operator, inputs, block)
            columns = self._columns(part, h)
            found.append([torch.cat([part.pool(c, how) for c in columns], dim=1) for how in hows])
        return [torch.cat(parts) for parts in zip(*found, strict=True)]

    def read_pooled(self, found: Tensor) -> Tensor:
        """The representation of graphs, from what ``config.pools`` says of them: their sums or their means."""
        return signed_log(found) if self.config.pooling == "log" else found

    def _represent(self, graph: Graph, rows: Tensor, hops: Hops | None, learn: bool) -> Tensor:
        if graph.ptr is not None:
            return self.read_pooled(self.pooled(graph, rows, (self.config.pools,), learn)[0])
        hops = self.hops(graph) if hops is None else hops
        config, lift = self.config, self.lift
        beside = [] if self.first is None else [self.said(graph, hops).of(k) for k in range(1, PASSES + 1)]
        labels = [] if self.known is None else hops.labels(graph, self.known, config.known)
        if not config.lift_hops:
            beside += labels
        joined = self._joined(hops, rows, beside, learn)
        if lift is None:
            return joined
        joined = self._logged(joined)
        if learn:
            lift.fit(joined)
        lifted = lift(joined)
        if not config.lift_hops:
            return lifted
        whole = self._logged(self._joined(hops, None, beside))
        further = []
        wide = max(1, BLOCK_BYTES // max(1, 4 * len(whole)))
        scaled = lift.standard(whole)
        for start in range(0, config.lift, wide):
            h = lift.units(scaled, slice(start, start + wide))
            parts = []
            for _ in range(config.lift_hops):
                h = hops.operator.matrix @ h
                parts.append(h[rows])
            further.append(parts)
        walked = [torch.cat([parts[k] for parts in further], dim=1) for k in range(config.lift_hops)]
        return torch.cat([joined, lifted, *walked, *(part[rows] for part in labels)], dim=1)

    @torch.no_grad()
    def said(self, graph: Graph, hops: Hops, before: Hops | None = None) -> Hops:
        """Hops of what the first network predicts for every node, kept with this one's hops.

        Args:
            before: the hops that the first network needs; None: this one's where they are the same.
        """
        first = self.first
        assert first is not None
        if id(first) not in hops.said:
            before = hops if before is None and first.config.walk == self.config.walk else before
            found = graph.objective.read(first.output(first.scores(first.represent(graph, None, before))))
            hops.said[id(first)] = Hops(hops.operator, found)
        return hops.said[id(first)]

    def _joined(self, hops: Hops, rows: Tensor | None, beside: Sequence[Tensor], learn: bool = False) -> Tensor:
        """The hops joined as the settings say, or random layers instead, and what stands beside them."""
        chosen = slice(None) if rows is None else rows
        if self.config.width:
            own = torch.cat([h[chosen] for h in self._outputs(hops.operator, hops.of(0), learn, chosen)], dim=1)
        else:
            own = hops.joined(self.config, rows)
        parts = [part[chosen].to(own.dtype) for part in beside]
        return torch.cat([own, *parts], dim=1) if parts else own

    def _logged(self, z: Tensor) -> Tensor:
        return signed_log(z) if self.config.logarithm else z

    def _learn(self, operator: GraphOperator, h: Tensor) -> None:
        """Means and variances of every layer, over the nodes of some of the graphs."""
        if self.layers or self.lift is not None:
            z = torch.cat(list(self._outputs(operator, h, learn=True)), dim=1)
            if self.lift is not None:
                self.lift.fit(self._logged(z))

    def _outputs(self, operator: GraphOperator, h: Tensor, learn: bool, rows: Any = slice(None)) -> Iterator[Tensor]:
        """What nodes have before and after each hop, or random layer, which learns of these rows; or after the last."""
        for layer in self.layers or [None] * self.config.num_layers:
            if self.config.jumping == "cat":
                yield h
            h = operator.matrix @ h
            if isinstance(layer, Lift):
                if learn:
                    layer.fit(h[rows])
                h = layer(h)
        yield h

    def _columns(self, operator: GraphOperator, h: Tensor) -> list[Tensor]:
        """What is pooled, side by side."""
        parts, hops = list(self._outputs(operator, h, learn=False)), self.config.lift_hops
        if self.lift is not None:
            z = torch.cat(parts, dim=1)
            parts = [self.lift(self._logged(z))]
            for _ in range(hops):
                parts.append(operator.matrix @ parts[-1])
            parts = [z, *parts] if hops else parts
        return parts

    def __repr__(self) -> str:
        c = self.config
        return f"RandomNet({c.backbone}, {c.num_layers} hops, {c.lift or c.width} random features)"


# Random non-linear features: σ(z W + b) with drawn W and b. A linear head on many of them can be any smooth function
# of z (Rahimi and Recht, 2008). z or z W is standardised before σ, and one generator draws for a whole network.


class Lift(nn.Module):
    """Standardised inputs ``[rows, c]`` -> ``[rows, width]`` random non-linear features.

    Args:
        in_channels: c.
        inputs: how many inputs each feature looks at; 0: all.
        groups: parts of equal width that the inputs come in; a feature that looks at few looks at one part.
        activation: a name from ``NONLINEARITIES``.
        after: standardise the products instead of the inputs, as a layer of a deep random network does.
    """

    weight: Tensor
    bias: Tensor

    def __init__(
        self,
        in_channels: int,
        width: int,
        generator: torch.Generator,
        inputs: int = 0,
        activation: str = "relu",
        after: bool = False,
        groups: int = 1,
    ):
        super().__init__()
        self.activation, self.after = activation, after
        self.standard = Standard(width if after else in_channels)
        drawn = torch.randn(in_channels, width, generator=generator, dtype=torch.float32, device="cpu")
        if 0 < inputs < in_channels:
            part = in_channels // max(1, groups)
            place = torch.rand(in_channels, width, generator=generator, device="cpu")
            mine = torch.arange(width, device="cpu") % max(1, groups)
            group = torch.arange(in_channels, device="cpu") // max(1, part)
            place += (group[:, None] != mine[None]).float()  # those of other parts come last
            drawn = drawn * (place.argsort(0).argsort(0) < inputs)
        drawn /= math.sqrt(max(1, min(inputs or in_channels, in_channels)))
        bias = 2 * torch.rand(width, generator=generator, dtype=torch.float32, device="cpu") - 1
        self.register_buffer("weight", drawn.to(self.standard.shift.device))
        self.register_buffer("bias", bias.to(self.standard.shift.device))

    @torch.no_grad()
    def fit(self, z: Tensor) -> None:
        """Learn the inputs' (or products') means and variances."""
        self.standard.fit(z @ self.weight.to(z.dtype) if self.after else z)

    def forward(self, z: Tensor) -> Tensor:
        if self.after:
            z = self.standard(z @ self.weight.to(z.dtype)) + self.bias.to(z.dtype)
            return NONLINEARITIES[self.activation](z)
        return self.units(self.standard(z), slice(None))

    def units(self, z: Tensor, which: slice) -> Tensor:
        """Some of the features, of inputs that are standardised already."""
        weight, bias = (part.to(z.dtype) for part in (self.weight[:, which], self.bias[which]))
        return NONLINEARITIES[self.activation](torch.addmm(bias, z, weight))


# Colours of nodes by Weisfeiler and Leman: after k steps two nodes share one where their k-hop surroundings agree.


_POSITIVE = (1 << 63) - 1


def node_colours(graph: Graph, steps: int) -> list[Tensor]:
    """The colours of all nodes at first and after every step, ``[n]`` each.

    Features that were made of the edges do not count: colours see those by themselves.
    """
    made = graph.encoding is not None and graph.encoding.kind == "structural"
    now = torch.zeros(graph.num_nodes, dtype=torch.int64, device=graph.y.device) if made else row_hash(graph.x)
    source, target = graph.edge_index.to(now.device)
    between = torch.zeros_like(source) if graph.edge_attr is None else row_hash(graph.edge_attr).to(now.device)
    found = [now]
    for _ in range(steps):
        heard = torch.zeros_like(now).index_add_(0, target, mixed(3 * now[source] + between))
        now = mixed(GOLDEN * now + heard)
        found.append(now)
    return found


def colour_counts(colours: list[Tensor], ptr: Tensor, rows: Tensor, buckets: int) -> Tensor:
    """How often each colour occurs in some graphs, ``[rows, len(colours) · buckets]``; colours share buckets by chance.

    Args:
        ptr: where the nodes of each graph begin.
    """
    device = colours[0].device
    ptr, rows = ptr.to(device), rows.to(device)
    sizes = ptr.diff()[rows]
    owner = torch.repeat_interleave(torch.arange(len(rows), device=device), sizes)
    before = sizes.cumsum(0) - sizes
    nodes = torch.arange(len(owner), device=device) - before[owner] + ptr[rows][owner]
    found = []
    for colour in colours:
        place = owner * buckets + (colour[nodes] & _POSITIVE) % buckets
        found.append(torch.bincount(place, minlength=len(rows) * buckets).view(len(rows), buckets))
    return torch.cat(found, dim=1).to(torch.float32)


# Graphs in blocks that fit into memory.


def graph_blocks(ptr: Tensor, rows: Tensor, width: int) -> Iterator[Tensor]:
    """Graphs in blocks whose nodes, so many numbers each, take at most ``BLOCK_BYTES``; a large graph is alone.

    Of no graphs there is one block, which is empty.
    """
    most = max(1, BLOCK_BYTES // (4 * max(1, width)))
    sizes = ptr.diff()[rows].cumsum(0)
    start = before = 0
    while start < len(rows) or not start:
        stop = max(start + 1, int(torch.searchsorted(sizes, before + most, right=True)))
        yield rows[start:stop]
        start, before = stop, int(sizes[stop - 1]) if len(sizes) else 0
