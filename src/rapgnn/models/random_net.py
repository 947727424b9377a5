"""RandomNet: hops of the features, random non-linear features of them, and a head in closed form. Nothing is trained."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.layers.lift import Lift, Standard
from rapgnn.layers.ridge import RidgeHead
from rapgnn.layers.targets import TargetScale
from rapgnn.layers.treatment import PLACES, Treatment, place_columns
from rapgnn.models.net_config import NetConfig
from rapgnn.prng import Stream, seeded
from rapgnn.sparse import SparseMatrix, column_block, dense

BLOCK_BYTES = 64 << 20  # of one block of columns, or of one batch of graphs


class RandomNet(nn.Module):
    """Random weights that are drawn once and kept, with a ridge head.

    Args:
        in_channels: width of the features.
        out_channels: number of classes, labels or targets.
        edge_channels: width of the edge features; each node gets the sum of those that it receives.
        seed: of everything random in here.
    """

    draw_seed: Tensor
    draw_counter: Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        edge_channels: int = 0,
        seed: int = 0,
        config: NetConfig | None = None,
    ):
        super().__init__()
        self.config = config = config or NetConfig()
        self.seed, generator = seed, seeded(seed, Stream.RANDOM_NET)
        self.treatment = Treatment(config.features, in_channels, config.sketch, seed)
        base = self.treatment.width + edge_channels + (PLACES if config.places else 0)
        self.layers = nn.ModuleList()
        joined = base
        if config.width:
            widths = [base, *([config.width] * config.num_layers)]
            self.layers.extend(
                Lift(c, d, generator, activation=config.activation, after=True)
                for c, d in zip(widths[:-1], widths[1:], strict=True)
            )
            joined = sum(widths)
        elif config.jumping == "cat":
            joined = base * (config.num_layers + 1)
        self.lift: Lift | None = None
        self.channels = joined
        if config.lift:
            self.lift = Lift(joined, config.lift, generator, config.lift_inputs, config.activation)
            self.channels = config.lift
            if config.lift_hops:
                self.channels = joined + config.lift * (1 + config.lift_hops)
        self.standard = Standard(self.channels, together=not config.whiten)
        self.head = RidgeHead(self.channels, out_channels)
        self.output = TargetScale(out_channels)

    def operator(self, graph: Graph) -> GraphOperator:
        """S."""
        return graph.operator(self.config.backbone, self.config.self_loops)

    def inputs(self, graph: Graph) -> Tensor | SparseMatrix:
        """What is propagated: treated features, and columns for the node's edges and place."""
        x = self.treatment(graph.x)
        more = []
        if graph.edge_attr is not None:
            more.append(received(graph, dense(graph.edge_attr)))
        if self.config.places:
            like = x.values if isinstance(x, SparseMatrix) else x
            more.append(place_columns(graph.edge_index, graph.num_nodes, like))
        return torch.cat([dense(x), *more], dim=1) if more else x

    @torch.no_grad()
    def fit_features(self, graph: Graph, rows: Tensor, hops: "Hops | None" = None) -> Tensor:
        """Learn what lift and layers need of some rows, and give their representation ``[rows, channels]``.

        The treatment has learned its part before.

        Args:
            hops: those of another network with the same inputs and S, for nodes.
        """
        return self._represent(graph, rows, hops, learn=True)

    @torch.no_grad()
    def represent(self, graph: Graph, rows: Tensor | None = None, hops: "Hops | None" = None) -> Tensor:
        """What the head sees of these rows, or of all; standardised."""
        rows = torch.arange(graph.num_rows, device=graph.y.device) if rows is None else rows
        return self.standard(self._represent(graph, rows, hops, learn=False))

    def _represent(self, graph: Graph, rows: Tensor, hops: "Hops | None", learn: bool) -> Tensor:
        if graph.ptr is not None:
            return self._of_graphs(graph, rows, learn)
        hops = Hops(self.operator(graph), self.inputs(graph)) if hops is None else hops
        config, lift = self.config, self.lift
        joined = self._joined(hops, rows)
        if lift is None:
            return joined
        joined = signed_log(joined) if config.logarithm else joined
        if learn:
            lift.fit(joined)
        lifted = lift(joined)
        if not config.lift_hops:
            return lifted
        whole = self._joined(hops, None)
        whole = signed_log(whole) if config.logarithm else whole
        further = []
        wide = max(1, BLOCK_BYTES // max(1, 4 * len(whole)))
        scaled = lift.standard(whole)
        for start in range(0, config.lift, wide):
            columns = slice(start, start + wide)
            weight, bias = (part.to(whole.dtype) for part in (lift.weight[:, columns], lift.bias[columns]))
            h = lift.activation(torch.addmm(bias, scaled, weight))
            parts = []
            for _ in range(config.lift_hops):
                h = hops.operator.matrix @ h
                parts.append(h[rows])
            further.append(parts)
        walked = [torch.cat([parts[k] for parts in further], dim=1) for k in range(config.lift_hops)]
        return torch.cat([joined, lifted, *walked], dim=1)

    def _joined(self, hops: "Hops", rows: Tensor | None) -> Tensor:
        """The hops joined as the settings say."""
        config, depth = self.config, self.config.num_layers
        if config.jumping == "last":
            return hops.of(depth, rows)
        if config.jumping == "cat":
            return torch.cat([hops.of(k, rows) for k in range(depth + 1)], dim=1)
        alpha = config.teleport
        total = alpha * hops.of(0, rows)
        for k in range(1, depth + 1):
            total = total.add(hops.of(k, rows), alpha=alpha * (1 - alpha) ** k)
        return total

    def _of_graphs(self, graph: Graph, rows: Tensor, learn: bool) -> Tensor:
        operator, inputs = self.operator(graph), self.inputs(graph)
        parts = list(batches(operator, rows, self.channels + (self.lift.weight.shape[0] if self.lift else 0)))
        if learn:
            self._learn(operator, inputs, rows)
        out = [self._pooled(*_chosen(operator, inputs, part)) for part in parts]
        return torch.cat(out) if out else inputs.values.new_zeros(0, self.channels) if isinstance(
            inputs, SparseMatrix
        ) else inputs.new_zeros(0, self.channels)

    def _learn(self, operator: GraphOperator, inputs: Any, rows: Tensor) -> None:
        """Means and variances of every layer, over the nodes of some of the graphs."""
        share = max(1, BLOCK_BYTES // (4 * max(1, self.channels)))
        sizes = operator.ptr.diff()[rows].cumsum(0) if operator.ptr is not None else rows
        some = rows[: max(1, int((sizes <= share).sum()))]
        part, h = _chosen(operator, inputs, some)
        if self.config.width:
            outputs = [h]
            for layer in self.layers:
                z = part.matrix @ outputs[-1]
                layer.fit(z)  # type: ignore[operator]
                outputs.append(layer(z))
            h = torch.cat(outputs, dim=1)
        else:
            h = torch.cat(list(_walk(part, h, self.config.num_layers)), dim=1)
        if self.lift is not None:
            self.lift.fit(signed_log(h) if self.config.logarithm else h)

    def _pooled(self, operator: GraphOperator, h: Tensor) -> Tensor:
        config = self.config
        how = "mean" if config.pooling == "mean" else "sum"
        if config.width:
            outputs = [h]
            for layer in self.layers:
                outputs.append(layer(operator.matrix @ outputs[-1]))
        else:
            outputs = list(_walk(operator, h, config.num_layers))
            outputs = outputs if config.jumping == "cat" else outputs[-1:]
        if self.lift is None:
            found = torch.cat([operator.pool(part, how) for part in outputs], dim=1)
        else:
            z = torch.cat(outputs, dim=1)
            lifted = [self.lift(signed_log(z) if config.logarithm else z)]
            for _ in range(config.lift_hops):
                lifted.append(operator.matrix @ lifted[-1])
            lifted = [z, *lifted] if config.lift_hops else lifted
            found = torch.cat([operator.pool(part, how) for part in lifted], dim=1)
        return signed_log(found) if config.pooling == "log" else found

    def __repr__(self) -> str:
        c = self.config
        return f"RandomNet({c.backbone}, {c.num_layers} hops, {c.lift or c.width} random features)"


class Hops:
    """S^k z one after another, each computed when it is first asked for; of all nodes."""

    def __init__(self, operator: GraphOperator, inputs: Tensor | SparseMatrix):
        self.operator = operator
        self._hops: list[Tensor | SparseMatrix] = [inputs]

    def of(self, k: int, rows: Tensor | None = None) -> Tensor:
        """Hop k of some nodes, or of all."""
        while len(self._hops) <= k:
            self._hops.append(_step(self.operator.matrix, self._hops[-1]))
        hop = self._hops[k]
        if isinstance(hop, SparseMatrix):
            return dense(hop) if rows is None else dense(hop.rows(rows))
        return hop if rows is None else hop[rows]


def _step(matrix: SparseMatrix, h: Tensor | SparseMatrix) -> Tensor:
    wide = max(1, BLOCK_BYTES // max(1, 4 * matrix.shape[0]))
    if h.shape[1] <= wide and not isinstance(h, SparseMatrix):
        return matrix @ h
    return torch.cat(
        [matrix @ column_block(h, start, min(h.shape[1], start + wide)) for start in range(0, h.shape[1], wide)], dim=1
    )


def _walk(operator: GraphOperator, h: Tensor, depth: int) -> Iterator[Tensor]:
    yield h
    for _ in range(depth):
        h = operator.matrix @ h
        yield h


def signed_log(z: Tensor) -> Tensor:
    """sign(z) log(1 + |z|)."""
    return z.sign() * z.abs().log1p()


def received(graph: Graph, edges: Tensor) -> Tensor:
    """The sum of the edge features that each node receives."""
    target = graph.edge_index[1].to(edges.device)
    return edges.new_zeros(graph.num_nodes, edges.shape[1]).index_add_(0, target, edges)


def _chosen(operator: GraphOperator, inputs: Tensor | SparseMatrix, graphs: Tensor) -> tuple[GraphOperator, Tensor]:
    part, nodes = operator.select(graphs)
    return part, dense(inputs.rows(nodes)) if isinstance(inputs, SparseMatrix) else inputs[nodes]


def batches(operator: GraphOperator, rows: Tensor, channels: int) -> Iterator[Tensor]:
    """The graphs in parts whose nodes' channels fit into a block."""
    assert operator.ptr is not None
    most = max(1, BLOCK_BYTES // (4 * max(1, channels)))
    sizes = operator.ptr.diff()[rows].cumsum(0)
    start = 0
    while start < len(rows):
        before = int(sizes[start - 1]) if start else 0
        stop = max(start + 1, int(torch.searchsorted(sizes, before + most, right=True)))
        yield rows[start:stop]
        start = stop
