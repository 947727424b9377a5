"""f_φ: node features -> h⁰. One row per variant of the paper."""

import math
from dataclasses import dataclass

import scipy.sparse as sp
import torch
from torch import Tensor, nn

from rapgnn.errors import InputError, check_choice
from rapgnn.mlp import MLP
from rapgnn.operators import BACKBONES
from rapgnn.philox import random_words
from rapgnn.spmm import Features, SparseMatrix
from rapgnn.weights import DISTRIBUTIONS

_EMBEDDING_STREAM = (1 << 32) - 1  # streams that no layer's weight uses
_FEATURE_STREAM = (1 << 32) - 2


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


# Non-negative outputs keep the polynomial shortcut exact; "split" loses nothing by it, at twice the channels.
OUTPUTS = {
    "relu": torch.relu,
    "split": lambda z: torch.cat([torch.relu(z), torch.relu(-z)], dim=-1),
    "none": lambda z: z,
}


class Embedding(nn.Module):
    """Maps features ``[n, c]`` to h⁰ ``[n, d]`` (``identity``: the features themselves).

    Args:
        kind: a name from ``EMBEDDINGS``.
        in_channels, hidden_channels, num_layers: of the MLP; every layer is ``hidden_channels`` wide.
        backbone: whose single layer ``pretrained-gnn`` is.
        output: what follows the last linear map, a name from ``OUTPUTS``.
        dropout: inside the MLP, while it is trained.
        random_features: how many random node features (RNF) are appended to x, new in every forward pass.
        generator: for the start values.
        seed: for what is drawn per forward pass.
    """

    def __init__(
        self,
        kind: str,
        in_channels: int,
        hidden_channels: int,
        num_layers: int = 1,
        *,
        backbone: str = "gcn",
        output: str = "relu",
        dropout: float = 0.0,
        random_features: int = 0,
        generator: torch.Generator,
        seed: int = 0,
    ):
        super().__init__()
        check_choice("embedding", kind, EMBEDDINGS)
        check_choice("embedding output", output, OUTPUTS)
        if not 1 <= num_layers <= 3:
            raise InputError(f"an embedding has 1 to 3 layers, got {num_layers}.")
        if random_features < 0:
            raise InputError(f"the number of random node features must not be negative, got {random_features}.")
        self.kind, self.backbone, self.random_features, self.seed = EMBEDDINGS[kind], backbone, random_features, seed
        width = in_channels + random_features
        if self.kind.one_layer:
            width *= len(BACKBONES[backbone].terms)
            num_layers = 1
        self.in_channels = width
        self.output = OUTPUTS[output]
        self.out_channels = hidden_channels * (2 if output == "split" else 1) if self.kind.mlp else width
        self.mlp: MLP | None = None
        if self.kind.mlp:
            # A random embedding is matrices alone: an untrained bias would drown features of small size.
            bias = self.kind.trained != "never"
            self.mlp = MLP([width] + [hidden_channels] * num_layers, generator, dropout, bias=bias)

    @property
    def varies(self) -> bool:
        """Whether every forward pass has another h⁰, so that nothing about it can be kept."""
        return self.kind.redrawn or self.random_features > 0

    def inputs(self, x: Features, operator: SparseMatrix, counter: int = 0) -> Features:
        """What the MLP sees: x, with random features appended and one hop of the graph, where asked for."""
        if self.random_features:
            x = _append(x, self._random_features(x, counter))
        if not self.kind.one_layer:
            return x
        parts = [_hop(operator, x) if term == "neighbour" else x for term in BACKBONES[self.backbone].terms]
        return parts[0] if len(parts) == 1 else _append(parts[0], parts[1])

    def forward(self, inputs: Features, counter: int = 0, generator: torch.Generator | None = None) -> Features:
        """h⁰ of ``self.inputs(...)``, or of any of its rows; draw ``counter``; ``generator`` switches dropout on."""
        if self.mlp is None:
            return inputs
        if not self.kind.redrawn:
            return self.output(self.mlp(inputs, generator))
        weights = [self._redrawn(counter, i, layer.weight.T) for i, layer in enumerate(self.mlp.linears())]
        h = inputs @ weights[0]
        for weight in weights[1:]:
            h = torch.relu(h) @ weight
        return self.output(h)

    def _redrawn(self, counter: int, index: int, like: Tensor) -> Tensor:
        bound = 1.0 / math.sqrt(like.shape[0])
        return self._uniform(counter, _EMBEDDING_STREAM - 2 * index, like.shape, -bound, bound, like)

    def _random_features(self, x: Features, counter: int) -> Tensor:
        like = torch.empty(0, device=x.device, dtype=x.dtype)
        return self._uniform(counter, _FEATURE_STREAM, (x.shape[0], self.random_features), 0.0, 1.0, like)

    def _uniform(
        self, counter: int, stream: int, shape: tuple[int, ...], low: float, high: float, like: Tensor
    ) -> Tensor:
        at, key = (torch.tensor([v], device=like.device) for v in (counter, stream))
        words = random_words(self.seed, at, key, math.prod(shape))
        return DISTRIBUTIONS["uniform"].sample(words, low, high).to(like.dtype).view(shape)


def _append(x: Features, extra: Features) -> Features:
    if isinstance(x, SparseMatrix):
        other = extra.scipy() if isinstance(extra, SparseMatrix) else sp.csr_matrix(extra.cpu().numpy())
        return SparseMatrix(sp.hstack([x.scipy(), other]), dtype=x.dtype, device=x.device)
    assert isinstance(extra, Tensor)
    return torch.cat([x, extra], dim=1)


def _hop(operator: SparseMatrix, x: Features) -> Features:
    if isinstance(x, SparseMatrix):
        return SparseMatrix(operator.scipy() @ x.scipy(), dtype=x.dtype, device=x.device)
    return operator @ x
