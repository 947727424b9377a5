"""EndToEnd: the same architecture as RAPGNN with every weight trained, the baseline of every table."""

import torch
from torch import Tensor, nn

from rapgnn.graph.operator import GraphOperator
from rapgnn.layers.dropout import dropout_dense
from rapgnn.layers.encoder import Encoder
from rapgnn.layers.mlp import MLP
from rapgnn.layers.targets import TargetScale
from rapgnn.models.config import Config
from rapgnn.prng import Stream, seeded
from rapgnn.propagation.spec import ACTIVATIONS
from rapgnn.propagation.stepwise import gather
from rapgnn.sparse import Features


class EndToEnd(nn.Module):
    """MLP embedding (edge features: lookup tables), L trained layers, pooling where rows are graphs, head.

    A GCN or SAGE layer has one full matrix per term; a GIN or GINE layer an MLP of ``factors`` linear maps, each
    followed by the optional batch norm and σ.

    Args:
        in_channels, out_channels, config, edge_channels, seed: as for ``RAPGNN``; random-weight settings do not apply.
    """

    def __init__(self, in_channels: int, out_channels: int, config: Config, edge_channels: int = 0, seed: int = 0):
        super().__init__()
        self.config, self.spec = config, config.propagation(seed)
        generator, d, L = seeded(seed, Stream.START_VALUES), config.hidden_channels, config.num_layers
        rule = self.spec.rule
        self.embedding: MLP | Encoder
        if rule.edges:
            self.embedding = Encoder(in_channels, d, generator)
        else:
            widths = [in_channels] + [d] * config.embedding_layers
            self.embedding = MLP(widths, generator, config.dropout, last_relu=True)
        if rule.includes_self:
            self.layers = nn.ModuleList(
                MLP([d] * (config.factors + 1), generator, last_relu=True, batch_norm=config.batch_norm)
                for _ in range(L)
            )
        else:
            bound = (3.0 / d) ** 0.5  # Glorot's uniform bound for a square matrix
            shape = (L, len(rule.terms), d, d)
            self.weights = nn.Parameter(
                torch.empty(shape, dtype=torch.float32).uniform_(-bound, bound, generator=generator)
            )
        self.edge_encoders = nn.ModuleList(Encoder(edge_channels, d, generator) for _ in range(L if rule.edges else 0))
        self.eps = (
            nn.Parameter(torch.zeros(L, dtype=torch.float32)) if config.train_eps and rule.includes_self else None
        )
        self.head = config.trained_head(d * len(self.spec.outputs), out_channels, generator)
        self.output = TargetScale(out_channels)

    def forward(self, x: Features, operator: GraphOperator, generator: torch.Generator | None = None) -> Tensor:
        """Scores of all nodes, or graphs; ``generator`` switches dropout and batch statistics on."""
        return self.head(self.represent(x, operator, generator), generator)

    def represent(self, x: Features, operator: GraphOperator, generator: torch.Generator | None = None) -> Tensor:
        """What the head sees."""
        p = self.config.dropout
        h = self.embedding(x) if isinstance(self.embedding, Encoder) else self.embedding(x, generator)
        every = [h]
        for layer in range(self.config.num_layers):
            out = self._layer(layer, dropout_dense(h, p, generator), operator, generator)
            h = out + h if self.spec.skip else out
            every.append(h)
        chosen = [operator.pool(every[layer], self.spec.pooling) for layer in self.spec.outputs]
        return chosen[0] if len(chosen) == 1 else torch.cat(chosen, dim=1)

    def _layer(self, layer: int, h: Tensor, operator: GraphOperator, generator: torch.Generator | None) -> Tensor:
        rule = self.spec.rule
        if not rule.includes_self:
            terms = zip(rule.terms, self.weights[layer], strict=True)
            parts = [(operator.matrix @ h if term == "neighbour" else h) @ weight for term, weight in terms]
            return ACTIVATIONS[self.config.activation](parts[0] if len(parts) == 1 else parts[0] + parts[1])
        if rule.edges:
            assert operator.edges is not None
            signal = gather(operator, h, self.edge_encoders[layer](operator.edges.features))
        else:
            signal = operator.matrix @ h
        if self.eps is not None:
            signal = signal + self.eps[layer] * h
        return self.layers[layer](signal, generator)
