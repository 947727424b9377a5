"""RAPGNN: the network with random layers, as a ``torch.nn.Module``."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from rapgnn.errors import InputError
from rapgnn.graph.operator import GraphOperator, build_operator
from rapgnn.layers.embedding import Embedding
from rapgnn.layers.heads import Head
from rapgnn.layers.ridge import RidgeHead
from rapgnn.layers.targets import TargetScale
from rapgnn.models.config import Config
from rapgnn.prng import Stream, seeded
from rapgnn.propagation.engine import EmbeddedGraph, represent
from rapgnn.propagation.spec import Propagation
from rapgnn.sparse import Features


class RAPGNN(nn.Module):
    r"""Embedding, L random layers, head: :math:`ŷ = c_θ(g_{w^{(L)}} ∘ … ∘ g_{w^{(1)}} ∘ f_φ(x))`.

    Only the head (and, in phase 1, the embedding) has parameters to train. Every call draws the next weights:
    ``draw_counter`` says which, is saved with the module, and can be set to replay a draw.

    Args:
        in_channels: width of the features.
        hidden_channels: d, width of the layers.
        num_layers: L.
        out_channels: number of classes, labels or targets.
        edge_channels: width of the edge features, where the backbone uses them.
        seed: of everything random in here.
        config: all settings at once, ``hidden_channels`` and ``num_layers`` included, instead of one by one.
        settings: any other field of ``Config`` (``backbone``, ``embedding``, ``head``, ``schedule``, ``engine``, ...).

    Shapes:
        x ``[n, c]``, edge_index ``[2, m]`` -> ``[n, out_channels]`` or ``[rows, out_channels]``; with ``batch`` ``[n]``
        (every node's graph) -> ``[graphs, out_channels]``.
    """

    draw_counter: Tensor
    operator_scale: Tensor

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int = 256,
        num_layers: int = 8,
        out_channels: int = 2,
        *,
        edge_channels: int = 0,
        seed: int = 0,
        config: Config | None = None,
        **settings: Any,
    ):
        super().__init__()
        if config is None:
            config = Config(hidden_channels=hidden_channels, num_layers=num_layers, **settings)
        elif settings:
            raise InputError(f"give config or single settings, not both: {', '.join(settings)}.")
        self.config, self.seed, self._layers = config, seed, config.propagation(seed)
        generator = seeded(seed, Stream.START_VALUES)
        self.embedding = Embedding(
            config.embedding,
            in_channels,
            config.hidden_channels,
            config.embedding_layers,
            edge_channels=edge_channels,
            backbone=config.backbone,
            output=config.embedding_output,
            dropout=config.pretrain_dropout,
            random_features=config.random_features,
            generator=generator,
            seed=seed,
        )
        if self.embedding.kind.trained == "never":
            self.embedding.requires_grad_(False)
        width = self.embedding.out_channels * len(self._layers.outputs)
        self.head: Head | RidgeHead
        if config.head == "ridge":
            self.head = RidgeHead(width, out_channels)
        else:
            self.head = config.trained_head(width, out_channels, generator)
        self.output = TargetScale(out_channels)
        self.register_buffer("draw_counter", torch.zeros((), dtype=torch.int64))
        self.register_buffer("operator_scale", torch.ones((), dtype=torch.float64))

    @property
    def spec(self) -> Propagation:
        """The random layers."""
        return replace(self._layers, operator_scale=float(self.operator_scale))

    def fit_operator_scale(self, operator: GraphOperator) -> None:
        """Take from the training graphs how much their operator enlarges, where that is not normalised."""
        if self._layers.rule.includes_self:
            self.operator_scale.fill_(operator.growth_rate)

    def embed(self, x: Features, operator: GraphOperator, trainable: bool = False) -> EmbeddedGraph:
        """The embedded graph with the engine chosen: what to keep when the same graph is used many times."""
        return represent(self.spec, operator, x, self.embedding, self.config.engine, trainable)

    def forward(
        self,
        x: Features,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        *,
        edge_attr: Features | None = None,
        batch: Tensor | None = None,
        rows: Tensor | None = None,
    ) -> Tensor:
        """Scores with the next draw of the weights."""
        config = self.config
        ptr = None
        if batch is not None:
            if bool((batch.diff() < 0).any()) or bool((batch[edge_index[0]] != batch[edge_index[1]]).any()):
                raise InputError("batch must list the nodes graph by graph, and no edge may join two graphs.")
            sizes = torch.bincount(batch)
            ptr = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
        operator = build_operator(
            x, edge_index, config.backbone, edge_weight, edge_attr, ptr, config.self_loops, config.eps
        )
        rows = torch.arange(operator.num_rows, device=x.device) if rows is None else rows
        step = int(self.draw_counter)
        counter = self.spec.weights.counter(step, step)
        self.draw_counter += 1
        trainable = torch.is_grad_enabled() and any(p.requires_grad for p in self.embedding.parameters())
        # In training mode dropout acts, with randomness that belongs to this pass and can be replayed with it.
        generator = seeded(self.seed, Stream.FORWARD + step, x.device) if self.training else None
        inside = generator if trainable or self.spec.dropout else None
        h = next(self.embed(x, operator, trainable).rows(rows).draws([counter], inside, [step]))
        return self.output(self.head(h, generator))

    def __repr__(self) -> str:
        c = self.config
        return f"RAPGNN({c.backbone}, {c.num_layers} layers, {c.hidden_channels} channels, {c.embedding} embedding)"
