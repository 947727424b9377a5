"""The stage encode: scaling, components and degree columns of the features, and f_φ, which makes h⁰ of them."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from rapgnn.graph.backbones import BACKBONES
from rapgnn.graph.operator import GraphOperator, distinct_rows
from rapgnn.network.mlp import MLP, Encoder
from rapgnn.network.weights import DISTRIBUTIONS
from rapgnn.prng import DRAWN_EMBEDDING, RANDOM_NODE_FEATURES, Stream, random_words, seeded
from rapgnn.sparse import Features, SparseMatrix, dense, indicator, row_block, row_sums

SUMMED = 512  # rows that are added up in single precision, while they are in the cache; their sums in double
SMALLEST = 1e-6  # share of what a deviation is compared with up to which it is rounding


def inverse(deviation: Tensor, least: Tensor | float) -> Tensor:
    """1 / deviation; 0 for a channel that is constant: its deviation is not above ``least``."""
    return torch.where(deviation > least, 1.0 / deviation, 0.0)


class Standard(nn.Module):
    """Columns with mean 0 and variance 1 on the rows it was fitted on; constant columns become 0.

    Args:
        together: one variance for all columns, so that their sizes relative to each other stay.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, channels: int, together: bool = False):
        super().__init__()
        self.together = together
        self.register_buffer("shift", torch.zeros(channels, dtype=torch.float32))
        self.register_buffer("scale", torch.ones(channels, dtype=torch.float32))

    @torch.no_grad()
    def fit(self, z: Tensor) -> None:
        if not len(z) or not z.shape[1]:
            return
        blocks = z.split(SUMMED)
        mean = torch.stack([block.sum(0) for block in blocks]).sum(0, dtype=torch.float64) / len(z)
        shift = mean.to(z.dtype)
        spread = torch.stack([(block - shift).square_().sum(0) for block in blocks])
        square = spread.sum(0, dtype=torch.float64) / len(z)
        if self.together:
            square = square.mean().expand_as(square)
        std = square.sqrt()
        self.shift.copy_(mean)
        self.scale.copy_(inverse(std, SMALLEST * std.amax()))

    def forward(self, z: Tensor) -> Tensor:
        return (z - self.shift.to(z.dtype)).mul_(self.scale.to(z.dtype))


DEGREES = 6  # 0, 1, 2, 3, 4 and more neighbours
DEGREE_COLUMNS = DEGREES + 2  # these, and the logarithms of both degrees


@dataclass(frozen=True)
class Scaling:
    """How features are scaled.

    Args:
        weights: features -> what each column is multiplied with ``[c]``, learned on the training graph.
        standard: give each column mean 0 and variance 1.
        by_length: divide each row by its Euclidean length, at last.
    """

    weights: Callable[[Features], Tensor] | None = None
    standard: bool = False
    by_length: bool = False


def _rarity(x: Features) -> Tensor:
    """The smoothed inverse document frequency of each column."""
    n = max(1, x.shape[0])
    return torch.log((1 + n) / (1 + _filled(x))) + 1


SCALINGS = {
    "none": Scaling(),
    "length": Scaling(by_length=True),
    "tfidf": Scaling(weights=_rarity, by_length=True),
    "standard": Scaling(standard=True),
}
"""The scalings by name; a new one is a row here."""


class FeatureScaling(nn.Module):
    """Features ``[n, c]`` -> ``[n, width]``; what it learns of the features serves other graphs.

    Args:
        components: keep only so many, those in which the features vary most; 0: all columns.
    """

    weight: Tensor
    basis: Tensor

    def __init__(self, kind: str, in_channels: int, components: int = 0, seed: int = 0):
        super().__init__()
        self.kind, self.components = SCALINGS[kind], components
        self.seed = seed + 1000 * list(SCALINGS).index(kind)  # what one scaling's components miss, another's may see
        self.width = components or in_channels
        if self.kind.weights is not None:
            self.register_buffer("weight", torch.ones(in_channels, dtype=torch.float32))
        self.standard = Standard(in_channels) if self.kind.standard else None
        if components:
            self.register_buffer("basis", torch.zeros(in_channels, components, dtype=torch.float32))

    @torch.no_grad()
    def fit(self, x: Features) -> None:
        """Learn from features, never from labels."""
        if self.kind.weights is not None:
            self.weight.copy_(self.kind.weights(x))
        if self.standard is not None:
            self.standard.fit(dense(x))
        if self.components:
            self.basis.copy_(principal_components(self.scaled(x), self.components, self.seed))

    @torch.no_grad()
    def forward(self, x: Features) -> Features:
        scaled = self.scaled(x)
        return scaled @ self.basis.to(scaled.dtype) if self.components else scaled

    def scaled(self, x: Features) -> Features:
        """All columns, before components are taken of them."""
        x = self.by_column(x)
        return _by_length(x) if self.kind.by_length else x

    def by_column(self, x: Features) -> Features:
        """Each column by itself, before rows are divided by their lengths."""
        if self.kind.weights is not None:
            weight = self.weight.to(x.dtype)
            x = x.with_values(x.values * weight[x.col.long()]) if isinstance(x, SparseMatrix) else x * weight
        return x if self.standard is None else self.standard(dense(x))


def _filled(x: Features) -> Tensor:
    if isinstance(x, SparseMatrix):
        return torch.bincount(x.col[x.values != 0].long(), minlength=x.shape[1]).double()
    return (x != 0).sum(0).double()


def _by_length(x: Features) -> Features:
    """Each row divided by its Euclidean length; rows of zeros stay."""
    if not isinstance(x, SparseMatrix):
        return x / x.norm(dim=1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny)
    length = row_sums(x.crow, x.values.square()).sqrt()
    share = 1 / torch.where(length > 0, length, torch.ones_like(length))
    return x.with_values(x.values * torch.repeat_interleave(share, x.crow.diff(), output_size=x.nnz))


def principal_components(x: Features, count: int, seed: int) -> Tensor:
    """An orthonormal basis of XᵀX R, R random: a step of the randomised range finder (Halko, Martinsson, Tropp, 2011).

    Turned at random, so that every column has about the same share of the features: weights are drawn per column.
    """
    generator = seeded(seed, Stream.SKETCH)
    start, turn = (torch.randn(rows, count, generator=generator, dtype=torch.float32) for rows in (x.shape[1], count))
    start, turn = (part.to(device=x.device, dtype=x.dtype) for part in (start, torch.linalg.qr(turn)[0]))
    turned = x.T if isinstance(x, SparseMatrix) else x.T.contiguous()
    towards = torch.cat([turned @ (x @ part.contiguous()) for part in start.split(64, dim=1)], dim=1)
    return torch.linalg.qr(towards)[0] @ turn


def degree_columns(edge_index: Tensor, num_nodes: int, like: Tensor) -> Tensor:
    """Of every node: the logarithms of how many edges it receives and sends, and small numbers of them one by one."""
    edges = edge_index.to(like.device)
    sent, received = (torch.bincount(side, minlength=num_nodes) for side in edges)
    one_hot = nn.functional.one_hot(received.clamp(max=DEGREES - 1), DEGREES)
    return torch.cat([torch.stack([received, sent], 1).to(like.dtype).log1p(), one_hot.to(like.dtype)], dim=1)


# f_φ: node features -> h⁰. One row per variant of the paper.


# What an embedding sees of every node: its features, or counts of equal nodes and messages, each embedded once.


@dataclass(frozen=True)
class Messages:
    """The distinct nodes, and the distinct (sender, edge type) pairs that send a message, of a graph."""

    nodes: Features
    sender: Tensor
    edge_type: Tensor
    edge_features: Features


@dataclass(frozen=True)
class Inputs:
    """What an embedding sees of every node; for graph tasks nodes that look alike are listed once.

    Args:
        rows: one row per node, or per distinct node.
        index: which row each node has; None: its own.
        messages: for one layer with edge features, what the columns of ``rows`` count.
    """

    rows: Features
    index: Tensor | None = None
    messages: Messages | None = None

    def choose(self, rows: Tensor) -> "Inputs":
        return Inputs(row_block(self.rows, rows), None, self.messages)


def append(x: Features, extra: Features) -> Features:
    """Further columns, sparse where x is."""
    if isinstance(x, SparseMatrix):
        other = extra.scipy() if isinstance(extra, SparseMatrix) else sp.csr_matrix(extra.cpu().numpy())
        return SparseMatrix(sp.hstack([x.scipy(), other]), dtype=x.dtype, device=x.device)
    assert isinstance(extra, Tensor)
    return torch.cat([x, extra], dim=1)


def one_hop(matrix: SparseMatrix, x: Features) -> Features:
    """S x, sparse where x is."""
    if isinstance(x, SparseMatrix):
        return SparseMatrix(matrix.scipy() @ x.scipy(), dtype=x.dtype, device=x.device)
    return matrix @ x


def neighbourhoods(x: Features, operator: GraphOperator) -> Inputs:
    """Every node as counts: of itself among the distinct nodes, and of the messages it receives."""
    edges = operator.edges
    assert edges is not None
    types = edges.features.shape[0]
    first, node = distinct_rows(x)
    own = indicator(node, len(first), 1.0 + operator.eps)
    pair = node[edges.sender.col.long()] * max(1, types) + edges.kind
    distinct, place = torch.unique(pair, return_inverse=True)
    received = edges.receiver.scipy().astype(np.float64) @ indicator(place, len(distinct))
    counts = SparseMatrix(sp.hstack([own, received]), dtype=edges.receiver.dtype, device=x.device)
    messages = Messages(row_block(x, first), distinct // max(1, types), distinct % max(1, types), edges.features)
    rows, index = distinct_rows(counts)
    return Inputs(counts.rows(rows), index, messages)


@dataclass(frozen=True)
class EmbeddingKind:
    """How an embedding comes about.

    Args:
        trained: ``"before"`` the head (phase 1), ``"with"`` it, or ``"never"``.
        mlp: whether it is an MLP (else the features pass unchanged).
        redrawn: whether its weights are drawn anew for every forward pass.
        one_layer: whether it sees one hop of the graph, as a single layer of the backbone does.
    """

    trained: str
    mlp: bool = True
    redrawn: bool = False
    one_layer: bool = False


EMBEDDINGS = {
    "pretrained": EmbeddingKind(trained="before"),
    "pretrained-gnn": EmbeddingKind(trained="before", one_layer=True),
    "learnable": EmbeddingKind(trained="with"),
    "fixed-random": EmbeddingKind(trained="never"),
    "random": EmbeddingKind(trained="never", redrawn=True),
    "identity": EmbeddingKind(trained="never", mlp=False),
}
"""The embeddings by name; a new one is a row here."""


def _split(z: Tensor) -> Tensor:
    return torch.cat([torch.relu(z), torch.relu(-z)], dim=-1)


def _unchanged(z: Tensor) -> Tensor:
    return z


# Non-negative outputs keep the polynomial shortcut exact; "split" loses nothing by it, at twice the channels.
OUTPUTS = {"relu": torch.relu, "split": _split, "none": _unchanged}
"""What follows the last linear map of an embedding, by name."""


class Embedding(nn.Module):
    """Maps features ``[n, c]`` to h⁰ ``[n, d]`` (``identity``: the features themselves), and edge features to e.

    Args:
        backbone: whose single layer ``pretrained-gnn`` is.
        random_features: how many random node features (RNF) are appended to x, new in every forward pass.
        seed: for what is drawn per forward pass.
    """

    def __init__(
        self,
        kind: str,
        in_channels: int,
        hidden_channels: int,
        num_layers: int = 1,
        *,
        edge_channels: int = 0,
        backbone: str = "gcn",
        output: str = "relu",
        dropout: float = 0.0,
        random_features: int = 0,
        generator: torch.Generator,
        seed: int = 0,
    ):
        super().__init__()
        self.kind, self.rule = EMBEDDINGS[kind], BACKBONES[backbone]
        self.random_features, self.seed = random_features, seed
        width = in_channels + random_features
        self.node_encoder: Encoder | None = None
        if self.kind.one_layer and self.rule.edges:
            self.node_encoder = Encoder(width, hidden_channels, generator)
            width = hidden_channels
        elif self.kind.one_layer:
            width *= len(self.rule.terms)
        if self.kind.one_layer and not self.rule.includes_self:
            num_layers = 1  # one weight, as the layer has; a GIN layer has an MLP
        self.in_channels = width
        self.output, self.unchanged_output = OUTPUTS[output], output == "none"
        self.out_channels = hidden_channels * (2 if output == "split" else 1) if self.kind.mlp else width
        self.mlp: MLP | None = None
        if self.kind.mlp:
            # A random embedding is matrices alone: an untrained bias would drown features of small size.
            bias = self.kind.trained != "never"
            self.mlp = MLP([width] + [hidden_channels] * num_layers, generator, dropout, bias=bias)
        self.edge_encoder: Encoder | None = None
        if self.rule.edges:
            self.edge_encoder = Encoder(edge_channels, hidden_channels if self.kind.mlp else width, generator)
        # Edge embeddings are never negative: the shortcut needs that, and messages pass a ReLU anyway.
        self.edge_output = OUTPUTS["split" if output == "split" and self.kind.mlp else "relu"]

    @property
    def varies(self) -> bool:
        """Whether every forward pass has another h⁰, so that nothing about it can be kept."""
        return self.kind.redrawn or self.random_features > 0

    def inputs(self, x: Features, operator: GraphOperator, step: int = 0) -> Inputs:
        """What the MLP sees: x, with random features appended and one hop of the graph, where asked for."""
        if self.random_features:
            like, shape = torch.empty(0, device=x.device, dtype=x.dtype), (x.shape[0], self.random_features)
            x = append(x, self._uniform(step, RANDOM_NODE_FEATURES, shape, 0.0, 1.0, like))
        if self.node_encoder is not None:
            return neighbourhoods(x, operator)
        if self.kind.one_layer:
            parts = [one_hop(operator.matrix, x) if term == "neighbour" else x for term in self.rule.terms]
            x = parts[0] if len(parts) == 1 else append(parts[0], parts[1])
        if operator.ptr is None or self.random_features:
            return Inputs(x)
        first, index = distinct_rows(x)
        return Inputs(x) if len(first) == x.shape[0] else Inputs(row_block(x, first), index)

    def embed(self, inputs: Inputs, step: int = 0, generator: torch.Generator | None = None) -> Features:
        h = self(inputs, step, generator)
        return h if inputs.index is None else row_block(h, inputs.index)

    def forward(self, inputs: Inputs, step: int = 0, generator: torch.Generator | None = None) -> Features:
        """h⁰ of the rows of ``inputs``; ``step`` says which forward pass; ``generator`` switches dropout on."""
        x = inputs.rows
        if self.mlp is None:
            return x
        if inputs.messages is not None:
            x = self._one_layer(inputs.messages, x)
        if not self.kind.redrawn:
            return self.output(self.mlp(x, generator))
        h = x
        for i, like in enumerate(layer.weight.T for layer in self.mlp.linears()):
            bound = 1.0 / math.sqrt(like.shape[0])
            weight = self._uniform(step, DRAWN_EMBEDDING - 2 * i, like.shape, -bound, bound, like)
            h = (torch.relu(h) if isinstance(h, Tensor) and i else h) @ weight
        return self.output(h)

    def edges(self, operator: GraphOperator) -> Tensor | None:
        """e of every edge type ``[t, d]``, non-negative; None where messages have no edge features."""
        if self.edge_encoder is None:
            return None
        assert operator.edges is not None
        return self.edge_output(self.edge_encoder(operator.edges.features))

    def _one_layer(self, messages: Messages, counts: Features) -> Tensor:
        """(1 + ε) x_v + Σ_u ReLU(x_u + e_uv) of encoded nodes and edges, by counting the messages that are equal."""
        assert self.node_encoder is not None
        assert self.edge_encoder is not None
        nodes = self.node_encoder(messages.nodes)
        edges = torch.relu(self.edge_encoder(messages.edge_features))
        sent = torch.relu(nodes.index_select(0, messages.sender) + edges.index_select(0, messages.edge_type))
        return counts @ torch.cat([nodes, sent])

    def _uniform(self, step: int, stream: int, shape: tuple[int, ...], low: float, high: float, like: Tensor) -> Tensor:
        at, key = (torch.tensor([v], device=like.device) for v in (step, stream))
        words = random_words(self.seed, at, key, math.prod(shape))
        return DISTRIBUTIONS["uniform"].sample(words, low, high).to(like.dtype).view(shape)
