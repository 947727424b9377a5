"""Phase 1: train c' ∘ f_φ on the task without propagation, then freeze f_φ."""

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rapgnn.device import threads_for
from rapgnn.graph.graph import Graph
from rapgnn.graph.operator import GraphOperator, group_max
from rapgnn.network.encode import Inputs
from rapgnn.network.heads import Head
from rapgnn.network.mlp import dropout_generator
from rapgnn.network.rapgnn import RAPGNN
from rapgnn.network.weights import EVALUATION
from rapgnn.prng import Stream, seeded
from rapgnn.sparse import SparseMatrix, dense, indicator
from rapgnn.training.loop import Loop, OnEpoch, optimise, shuffled


def pretrain(
    model: RAPGNN, graph: Graph, operator: GraphOperator, on_epoch: OnEpoch | None = None
) -> tuple[Head, "PooledEmbedding", Loop]:
    """Train the embedding with a linear classifier of its own, touching the labelled rows only, and freeze both."""
    config, embedding, device = model.config, model.embedding, graph.y.device
    order = seeded(model.seed, Stream.PHASE1_BATCHES)
    classifier = Head(
        embedding.out_channels, 1, graph.num_outputs, generator=seeded(model.seed, Stream.PHASE1_START_VALUES)
    ).to(device)
    embedded = PooledEmbedding(model, graph, operator)
    generator = dropout_generator(model.seed, Stream.PHASE1_DROPOUT, device, embedded.entries(graph.train))
    train, y = graph.train, model.output.standardise(graph.y[graph.train])
    if graph.ptr is not None:
        with torch.no_grad():
            first = embedded(train, 0)
            classifier.fit_input_scale(first.mean(0), first.square().mean(0))

    def passes(epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        batches = shuffled(len(train), config.batch_size, order, device)
        for batch in batches:
            if len(batches) == 1:
                yield classifier(embedded(train, epoch, generator, keep="train")), y
            else:
                yield classifier(embedded(train[batch], epoch, generator)), y[batch]

    def held_out(epoch: int) -> Tensor:
        return model.output(classifier(embedded(graph.val, EVALUATION + epoch, keep="val")))

    with threads_for(embedded.entries(train) * embedding.out_channels):
        loop = optimise(
            [embedding, classifier],
            passes,
            graph,
            held_out,
            lr=config.pretrain_lr,
            weight_decay=config.pretrain_weight_decay,
            epochs=config.pretrain_epochs,
            # Where the validation rows are what is judged, they must not choose an epoch of phase 1 as well.
            keep_best=not graph.folds or len(graph.test) > 0,
            on_epoch=on_epoch,
        )
    embedding.requires_grad_(False)
    classifier.requires_grad_(False)
    embedded.forget()
    return classifier, embedded, loop


class PooledEmbedding:
    """rows -> what phase 1's classifier sees of them: embedded nodes, pooled where rows are graphs.

    Nodes that look alike are embedded once and counted, so a pass over graphs costs what their distinct nodes cost.
    """

    def __init__(self, model: RAPGNN, graph: Graph, operator: GraphOperator):
        self.embedding, self.pooling = model.embedding, model.spec.pooling
        self.x, self.operator = graph.x, operator
        self._fixed = None if self.embedding.random_features else self._prepare(0)
        self._sliced: dict[str, tuple[Inputs, SparseMatrix | None, SparseMatrix | None]] = {}

    def __call__(
        self, rows: Tensor, step: int, generator: torch.Generator | None = None, keep: str | None = None
    ) -> Tensor:
        """``keep`` names these rows, so that what is sliced for them serves the next time too."""
        chosen = self._sliced.get(keep) if keep is not None and self._fixed else None
        if chosen is None:
            chosen = self._choose(self._fixed or self._prepare(step), rows)
            if keep is not None and self._fixed:
                self._sliced[keep] = chosen
        inputs, members, edge_counts = chosen
        h = dense(self.embedding(inputs, step, generator))
        if members is None:
            return h
        if self.pooling == "max":
            home = torch.repeat_interleave(torch.arange(members.shape[0], device=h.device), members.crow.diff())
            pooled = group_max(h[members.col.long()], home, members.shape[0])
        else:
            pooled = members @ h
        if edge_counts is not None and inputs.messages is None:
            e = self.embedding.edges(self.operator)
            assert e is not None
            pooled = pooled + edge_counts @ e
        return pooled

    def forget(self) -> None:
        self._sliced.clear()

    def entries(self, rows: Tensor) -> int:
        """Numbers that the embedding sees of these rows, roughly."""
        inputs = (self._fixed or self._prepare(0))[0].rows
        entries = inputs.nnz if isinstance(inputs, SparseMatrix) else inputs.numel()
        share = len(rows) / max(1, inputs.shape[0]) if self.operator.ptr is None else 1.0
        return int(entries * share)

    def _prepare(self, step: int) -> "tuple[Inputs, sp.csr_matrix | None, sp.csr_matrix | None]":
        inputs = self.embedding.inputs(self.x, self.operator, step)
        if self.operator.ptr is None:
            return inputs, None, None
        how = "sum" if self.pooling == "max" else self.pooling
        pool = self.operator.pooling(how).scipy()
        members, edge_counts = pool, None
        if inputs.index is not None:
            members = pool @ indicator(inputs.index, inputs.rows.shape[0])
        if self.operator.edges is not None and self.embedding.edge_encoder is not None:
            edge_counts = sp.csr_matrix(pool @ self.operator.edges.counts.scipy())
        return inputs, sp.csr_matrix(members), edge_counts

    def _choose(self, prepared: tuple, rows: Tensor) -> tuple[Inputs, SparseMatrix | None, SparseMatrix | None]:
        inputs, members, edge_counts = prepared
        if members is None:
            return inputs.choose(rows), None, None
        chosen, to = rows.cpu().numpy(), {"dtype": self.operator.matrix.dtype, "device": rows.device}
        part = members[chosen]
        needed = np.unique(part.indices)
        counts = None if edge_counts is None else SparseMatrix(edge_counts[chosen], **to)
        return (
            inputs.choose(torch.from_numpy(needed.astype(np.int64)).to(rows.device)),
            SparseMatrix(part[:, needed], **to),
            counts,
        )
