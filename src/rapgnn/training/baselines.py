"""What RAP-GNN is compared with: phase 1 alone, and the same architecture with every weight trained."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from rapgnn.errors import InputError
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator
from rapgnn.network.config import Config
from rapgnn.network.heads import Head, TargetScale, make_head
from rapgnn.network.mlp import ACTIVATIONS, MLP, Encoder, dropout_dense, dropout_generator
from rapgnn.network.propagation import Propagation
from rapgnn.network.rapgnn import model_inputs
from rapgnn.network.representation import GRAPHS_AT_ONCE
from rapgnn.network.stepwise import gather
from rapgnn.network.weights import EVALUATION
from rapgnn.prng import Stream, seeded
from rapgnn.sparse import Features, row_block
from rapgnn.training.fit import Fitted, build_rapgnn
from rapgnn.training.loop import OnEpoch, optimise, schedule, shuffled
from rapgnn.training.predict import Prediction, as_prediction
from rapgnn.training.pretrain import pretrain


def fit_embedding(graph: Graph, config: Config, seed: int, on_epoch: OnEpoch | None = None) -> Fitted:
    """Phase 1 alone: the pretrained embedding with the classifier it was trained with."""
    model, graph, operator = build_rapgnn(graph, config, seed)
    if config.pretrain_epochs < 1:
        raise InputError("the pretrained embedding needs at least one epoch of phase 1: set pretrain_epochs.")
    if model.embedding.kind.trained != "before":
        raise InputError(f"the {config.embedding} embedding is not pretrained, so it cannot be evaluated on its own.")
    classifier, embedded, loop = pretrain(model, graph, operator, on_epoch)

    @torch.no_grad()
    def predict(rows: Tensor) -> Prediction:
        return as_prediction(classifier(embedded(rows, 2 * EVALUATION)), graph.objective, model.output)

    return Fitted(model, predict, loop, "none", "no propagation after the embedding", "expected")


def fit_end_to_end(graph: Graph, config: Config, seed: int, on_epoch: OnEpoch | None = None) -> Fitted:
    """The baseline: the same architecture, every weight trained."""
    graph, operator = model_inputs(graph, config)
    device = graph.y.device
    model = EndToEnd(graph.num_features, graph.num_outputs, config, graph.num_edge_features, seed).to(device)
    if graph.objective.metric == "rmse":
        model.output.fit(graph.y[graph.train])
    entries = graph.x.shape[0] * max(graph.num_features, config.hidden_channels)
    generator = dropout_generator(seed, Stream.DROPOUT, device, entries if config.dropout else 0)
    order = seeded(seed, Stream.BATCHES)
    train, y = graph.train, model.output.standardise(graph.y[graph.train])

    def scores(rows: Tensor, generator: torch.Generator | None = None) -> Tensor:
        if operator.ptr is None:
            return model(graph.x, operator, generator)[rows]
        part, nodes = operator.select(rows)
        return model(row_block(graph.x, nodes), part, generator)

    def passes(epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        for batch in shuffled(len(train), config.batch_size, order, device):
            yield scores(train[batch], generator), y[batch]

    def in_parts(rows: Tensor) -> Tensor:
        parts = [rows] if operator.ptr is None else rows.split(GRAPHS_AT_ONCE)
        return torch.cat([scores(part) for part in parts])

    held_out = lambda epoch: model.output(in_parts(graph.val))  # noqa: E731
    loop = optimise([model], passes, graph, held_out, **schedule(config), on_epoch=on_epoch)
    model.eval()

    @torch.no_grad()
    def predict(rows: Tensor) -> Prediction:
        return as_prediction(in_parts(rows), graph.objective, model.output)

    return Fitted(model, predict, loop, "stepwise", "trained weights", "expected")


# EndToEnd: the same architecture as RAPGNN with every weight trained, the baseline of every table.


class EndToEnd(nn.Module):
    """MLP embedding (edge features: lookup tables), L trained layers, pooling where rows are graphs, head.

    A GCN or SAGE layer has one full matrix per term; a GIN or GINE layer an MLP of ``factors`` linear maps, each
    followed by the optional batch norm and σ.

    Args:
        in_channels, out_channels, config, edge_channels, seed: as for ``RAPGNN``; random-weight settings do not apply.
    """

    def __init__(self, in_channels: int, out_channels: int, config: Config, edge_channels: int = 0, seed: int = 0):
        super().__init__()
        self.config, self.spec = config, Propagation.of(config, seed)
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
        self.head = make_head(config, d * len(self.spec.outputs), out_channels, generator)
        if not isinstance(self.head, Head):
            raise InputError(
                f"the head {config.head} has no gradients, and here every weight is trained: choose another."
            )
        self.output = TargetScale(out_channels)

    def forward(self, x: Features, operator: GraphOperator, generator: torch.Generator | None = None) -> Tensor:
        """Scores of all nodes, or graphs; ``generator`` switches dropout and batch statistics on."""
        return self.head(self.represent(x, operator, generator), generator)

    def represent(self, x: Features, operator: GraphOperator, generator: torch.Generator | None = None) -> Tensor:
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
