"""The networks as ``torch.nn.Module``: RAPGNN, with random layers, and EndToEnd, the same one with trained layers."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rapgnn.config import Config
from rapgnn.dropout import dropout_dense
from rapgnn.embedding import Embedding
from rapgnn.heads import Head, RidgeHead
from rapgnn.mlp import MLP
from rapgnn.operators import BACKBONES, adjacency
from rapgnn.propagation import ACTIVATIONS
from rapgnn.representation import Source, represent
from rapgnn.spmm import Features, SparseMatrix


def seeded(seed: int, stream: int, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator of its own for each purpose (``stream``) of each seed; no two share numbers."""
    mixed = np.random.SeedSequence([seed & 0xFFFFFFFFFFFFFFFF, stream]).generate_state(1, np.uint64)
    return torch.Generator(device=device).manual_seed(int(mixed[0]))


class RAPGNN(nn.Module):
    r"""Embedding, L random layers, head: :math:`ŷ = c_θ(g_{w^{(L)}} ∘ … ∘ g_{w^{(1)}} ∘ f_φ(x))`.

    Only the head (and, in phase 1, the embedding) has parameters to train. Every call draws the next weights:
    ``draw_counter`` says which, is saved with the module, and can be set to replay a draw.

    Args:
        in_channels: width of the features.
        hidden_channels: d, width of the layers.
        num_layers: L.
        out_channels: number of classes or labels.
        seed: of everything random in here.
        settings: any other field of ``Config`` (``backbone``, ``embedding``, ``head``, ``schedule``, ``engine``, ...).

    Shapes:
        x ``[n, c]``, edge_index ``[2, m]`` -> ``[n, out_channels]`` or ``[rows, out_channels]``.
    """

    draw_counter: Tensor

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int = 256,
        num_layers: int = 8,
        out_channels: int = 2,
        *,
        seed: int = 0,
        **settings: Any,
    ):
        super().__init__()
        config = Config(hidden_channels=hidden_channels, num_layers=num_layers, **settings)
        self.config, self.seed, self.spec = config, seed, config.propagation(seed)
        generator = seeded(seed, 0)
        self.embedding = Embedding(
            config.embedding,
            in_channels,
            hidden_channels,
            config.embedding_layers,
            backbone=config.backbone,
            output=config.embedding_output,
            dropout=config.pretrain_dropout,
            random_features=config.random_features,
            generator=generator,
            seed=seed,
        )
        if self.embedding.kind.trained == "never":
            self.embedding.requires_grad_(False)
        width = self.embedding.out_channels
        self.head: Head | RidgeHead
        if config.head == "ridge":
            self.head = RidgeHead(width, out_channels)
        else:
            layers = config.head_layers if config.head == "mlp" else 1
            self.head = Head(width, hidden_channels, out_channels, layers, dropout=config.dropout, generator=generator)
        self.register_buffer("draw_counter", torch.zeros((), dtype=torch.int64))

    def source(self, x: Features, operator: SparseMatrix, trainable: bool = False) -> Source:
        """The embedded graph with the engine chosen: what to keep when the same graph is used many times."""
        return represent(self.spec, operator, x, self.embedding, self.config.engine, trainable)

    def forward(
        self, x: Features, edge_index: Tensor, edge_weight: Tensor | None = None, *, rows: Tensor | None = None
    ) -> Tensor:
        """Scores with the next draw of the weights."""
        config = self.config
        A = adjacency(edge_index, edge_weight, x.shape[0], config.self_loops)
        operator = SparseMatrix(BACKBONES[config.backbone].operator(A), dtype=x.dtype, device=x.device)
        rows = torch.arange(x.shape[0], device=x.device) if rows is None else rows
        step = int(self.draw_counter)
        counter = self.spec.weights.counter(step, step)
        self.draw_counter += 1
        trainable = torch.is_grad_enabled() and any(p.requires_grad for p in self.embedding.parameters())
        # In training mode dropout acts, with randomness that belongs to this pass and can be replayed with it.
        generator = seeded(self.seed, 100 + step, x.device) if self.training else None
        inside = generator if trainable or self.spec.dropout else None
        h = next(self.source(x, operator, trainable).rows(rows).draws([counter], inside, [step]))
        return self.head(h, generator)

    def __repr__(self) -> str:
        c = self.config
        return f"RAPGNN({c.backbone}, {c.num_layers} layers, {c.hidden_channels} channels, {c.embedding} embedding)"


class EndToEnd(nn.Module):
    """The same architecture with every weight trained: MLP embedding, L layers of full matrices, head.

    Args:
        in_channels, out_channels, config, seed: as for ``RAPGNN``; the random-weight settings do not apply.
    """

    def __init__(self, in_channels: int, out_channels: int, config: Config, seed: int = 0):
        super().__init__()
        self.config, self.spec = config, config.propagation(seed)
        generator, d = seeded(seed, 0), config.hidden_channels
        self.embedding = MLP([in_channels] + [d] * config.embedding_layers, generator, config.dropout, last_relu=True)
        bound = (3.0 / d) ** 0.5  # Glorot's uniform bound for a square matrix
        shape = (config.num_layers, len(self.spec.rule.terms), d, d)
        self.weights = nn.Parameter(torch.empty(shape).uniform_(-bound, bound, generator=generator))
        layers = config.head_layers if config.head == "mlp" else 1
        self.head = MLP([d] * layers + [out_channels], generator, config.dropout)

    def forward(self, x: Features, operator: SparseMatrix, generator: torch.Generator | None = None) -> Tensor:
        """Scores of all nodes; ``generator`` switches dropout on."""
        activation, p = ACTIVATIONS[self.config.activation], self.config.dropout
        h = self.embedding(x, generator)
        for weights in self.weights:
            dropped = dropout_dense(h, p, generator)
            terms = zip(self.spec.rule.terms, weights, strict=True)
            parts = [(operator @ dropped if term == "neighbour" else dropped) @ weight for term, weight in terms]
            out = activation(parts[0] if len(parts) == 1 else parts[0] + parts[1])
            h = out + h if self.spec.skip else out
        return self.head(h, generator)
